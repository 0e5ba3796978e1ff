"""Whatever is forwarded is read by real agents as it was judged, for requests nobody thought of."""

from __future__ import annotations

import os
from collections import Counter
from typing import Final

import pytest
from hypothesis import HealthCheck, event, given, settings

from sidecar.bindings.surface import Surface
from sidecar.model import Call, Other
from tests.differential.hostile_requests import requests
from tests.differential.judging import compared, judged
from tests.differential.reading import Asked, Readers

EXAMPLES: Final = int(os.environ.get("DIFFERENTIAL_EXAMPLES", "2500"))
READERS: Final = frozenset(
    {
        *("a2a-sdk-1", "a2a-sdk-0.3", "a2a-sdk-0.2.16", "a2a-js-1", "a2a-js-0"),
        *("go-structs", "go-maps", "javascript"),
    }
)


@pytest.mark.timeout(max(120, EXAMPLES // 10))
def test_what_is_forwarded_is_read_as_judged(readers: Readers) -> None:
    carried_out: Counter[str] = Counter()

    @settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(request=requests())
    def holds(request: tuple[Asked, Surface]) -> None:
        asked, surface = request
        decoded = judged(asked, surface)
        event(type(decoded).__name__)
        if not isinstance(decoded, Call | Other):
            return
        problems, answers = compared(asked, decoded, readers)
        assert not problems, (problems, asked, decoded)
        for said in answers.values():
            carried_out.update(name for name, answer in said.items() if answer.seen)

    holds()
    # That nobody disagrees means something only where everybody reads.
    assert carried_out.keys() == READERS
    assert min(carried_out.values()) > EXAMPLES // 50
