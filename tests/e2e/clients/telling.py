"""What the Python clients share: the question on standard input, the answer on standard output.

Owns: running steps in order and writing down what an application saw, errors included.
Never: knows an SDK.
"""

import asyncio
import json
import sys


class Told:
    """Steps and what they showed. An error ends a step, not the run."""

    def __init__(self):
        self.steps = []

    async def step(self, name, work):
        """Await `work`, a list of what was seen; returns it, or an empty list."""
        try:
            saw = await work
        except Exception as error:
            shown = {"error": type(error).__name__, "text": str(error)}
            self.steps.append({"step": name, **shown})
            return []
        self.steps.append({"step": name, "saw": saw})
        return saw


def tell(scenarios) -> None:
    """Run the scenario the question names and print its steps as one JSON document."""
    question = json.load(sys.stdin)
    told = Told()
    asyncio.run(scenarios[question["scenario"]](question, told))
    json.dump(told.steps, sys.stdout)
