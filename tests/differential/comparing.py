"""Whether what is forwarded means to agents what it meant to us.

Owns: the property itself, and asking the readers behind the right doors.
Never: starts a process; decides what is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sidecar.model import Binding, Call, Operation, Other
from tests.differential.reading import Answer, Asked, Door, Readers, Reading


def answers_to(decoded: Call | Other, asked: Asked, readers: Readers) -> dict[str, dict[str, Answer]]:
    """What every reader makes of a request that is forwarded, by door.

    A call is asked about where its dialect is served; what passes for something else, everywhere.
    """
    doors: tuple[Door, ...] = ("rpc", "rest")
    if isinstance(decoded, Call):
        doors = ("rpc",) if decoded.dialect.binding is Binding.JSONRPC else ("rest",)
    return {door: readers.ask(door, asked) for door in doors}


def disagreements(decoded: Call | Other, answers: Mapping[str, Mapping[str, Answer]]) -> list[str]:
    """Every way in which some reader would act on what was not judged; empty is how it must be."""
    found: list[str] = []
    for door, said in answers.items():
        for name, answer in said.items():
            if len(answer.seen) > 1:
                found.append(f"{name} ({door}) carries out {len(answer.seen)} operations")
            for reading in answer.seen:
                if isinstance(decoded, Call):
                    found += (f"{name} ({door}) reads {what}" for what in unjudged(decoded, reading))
                else:
                    found.append(f"{name} ({door}) carries out {reading.operation}, which was not seen")
    return found


def unjudged(call: Call, reading: Reading) -> Iterator[str]:
    """What a reader would act on that the call does not say.

    Less is no harm: a member of another version (`pushNotification` in a 1.0 send) is judged although
    an agent of this one passes over it.
    """
    if reading.operation != call.operation.value:
        yield f"the operation {reading.operation}, judged as {call.operation.value}"
    if call.operation is Operation.LIST_TASKS:
        return  # never forwarded: the sidecar answers it
    for what, read, judged in (
        ("task", reading.task, call.task_id),
        ("context", reading.context, call.context_id),
    ):
        if read is not None and read != judged:
            yield f"the {what} {read!r}, judged as {judged!r}"
    configs = {call.config_id, *(target.config_id for target in call.push)}
    if reading.config is not None and reading.config not in configs:
        yield f"the config {reading.config!r}, judged as {sorted(map(str, configs))}"
    for what, several, known in (
        ("references", reading.references, frozenset(call.references)),
        ("tenants", reading.tenants, frozenset({call.tenant} - {None})),
        ("webhooks", reading.pushes, frozenset(target.url for target in call.push)),
    ):
        if several - known:
            yield f"the {what} {sorted(several - known)}, judged as {sorted(map(str, known))}"
