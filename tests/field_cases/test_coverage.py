"""Every field case of the kinds this folder is about has a test that is named by its id.

The list is kept here as numbers, so that a case nobody has written is a failure and not an oversight.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parent.parent
KINDS = {
    "1, parser differential and smuggling": (1, 3, 5, 7, 9, 10, 11, 12, 13, 14, 16, 18),
    "2, path and method confusion": (19, 20, 21, 22, 24, 26, 27, 29, 31),
    "4, scopes": (53, 54, 56, 58, 59, 62, 63),
    "3, identity and tokens": (33, 35, 36, 37, 38, 40, 41, 42, 45, 46, 49, 50, 52),
    "5, ownership and existence": (64, 65, 67, 69, 71, 73, 74, 75, 76, 77, 172),
    "6, lists and pages": (79, 80, 82, 85, 86),
    "7, webhooks": (87, 88, 90, 92, 93, 96, 97),
    "9, streams": (108, 109, 111, 112, 114, 115, 117, 119),
}
NAMED = frozenset(
    int(number)
    for file in TESTS.rglob("test_*.py")
    for number in re.findall(r"def test_fc_(\d+)_", file.read_text())
)


@pytest.mark.parametrize("kind", KINDS)
def test_every_case_has_a_test(kind: str) -> None:
    assert [f"FC-{number:03}" for number in KINDS[kind] if number not in NAMED] == []
