"""Which tasks a list asks for, as written in a body and in a query."""

from __future__ import annotations

from typing import Any

import pytest

from sidecar.bindings.selection import read_selection
from sidecar.model import Reason, Refused, Selection

MORNING = 1_796_032_920_000_000  # 2026-11-30T10:02:00Z, in microseconds


@pytest.mark.parametrize(
    ("fields", "as_text", "expected"),
    [
        pytest.param({}, False, Selection(), id="nothing"),
        pytest.param(
            dict.fromkeys(("status", "pageSize", "pageToken", "includeArtifacts")),
            False,
            Selection(),
            id="nulls",
        ),
        pytest.param(
            {"pageSize": 1.0}, False, Selection(page_size=1), id="a whole number written with a point"
        ),
        pytest.param(
            {"pageSize": "7"}, False, Selection(page_size=7), id="ProtoJSON takes a string for a number"
        ),
        pytest.param({"pageSize": "7"}, True, Selection(page_size=7), id="a number in a query"),
        pytest.param(
            {"historyLength": 0}, False, Selection(history_length=0), id="no history is not any history"
        ),
        pytest.param({"includeArtifacts": True}, False, Selection(include_artifacts=True), id="true"),
        pytest.param(
            {"includeArtifacts": "true"}, True, Selection(include_artifacts=True), id="true in a query"
        ),
        pytest.param({"includeArtifacts": "false"}, True, Selection(), id="false in a query"),
        pytest.param(
            {"status": "TASK_STATE_INPUT_REQUIRED"}, False, Selection("input-required"), id="a name of 1.0"
        ),
        pytest.param({"status": "TASK_STATE_CANCELLED"}, False, Selection("canceled"), id="0.3's second l"),
        pytest.param({"status": "auth-required"}, True, Selection("auth-required"), id="a name of 0.3"),
        pytest.param({"status": 6}, False, Selection("input-required"), id="a number"),
        pytest.param({"status": "6"}, True, Selection("input-required"), id="a number in a query"),
        pytest.param({"status": 0}, False, Selection(), id="the unspecified state by number"),
        pytest.param({"status": "0"}, True, Selection(), id="the same in a query"),
        pytest.param({"status": "TASK_STATE_UNSPECIFIED"}, False, Selection(), id="the same by name"),
        pytest.param(
            {"status": "", "pageToken": "", "statusTimestampAfter": ""},
            True,
            Selection(),
            id="empty values of a query",
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-11-30T10:02:00Z"},
            False,
            Selection(changed_since=MORNING),
            id="a timestamp",
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-11-30t10:02:00.5z"},
            True,
            Selection(changed_since=MORNING + 500_000),
            id="small letters and a fraction",
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-11-30T12:02:00.000001999+02:00"},
            False,
            Selection(changed_since=MORNING + 1),
            id="an offset and nanoseconds",
        ),
        pytest.param(
            {"lastUpdatedAfter": MORNING // 1000},
            False,
            Selection(changed_since=MORNING),
            id="0.3-dev's milliseconds",
        ),
        pytest.param(
            {"lastUpdatedAfter": str(MORNING // 1000)},
            True,
            Selection(changed_since=MORNING),
            id="the same in a query",
        ),
    ],
)
def test_selections(fields: dict[str, Any], as_text: bool, expected: Selection) -> None:
    assert read_selection(fields, "params", as_text=as_text) == expected


@pytest.mark.parametrize(
    ("fields", "as_text", "key"),
    [
        pytest.param({"pageSize": 0}, False, "pageSize", id="no page"),
        pytest.param({"pageSize": 101}, False, "pageSize", id="a page too large"),
        pytest.param({"pageSize": "1.0"}, True, "pageSize", id="a fraction in a query"),
        pytest.param({"pageSize": ""}, True, "pageSize", id="an empty number"),
        pytest.param({"pageSize": "٣"}, True, "pageSize", id="digits of another script"),
        pytest.param({"pageSize": False}, False, "pageSize", id="false"),
        pytest.param({"pageSize": {}}, False, "pageSize", id="an object"),
        pytest.param({"historyLength": 2**31}, False, "historyLength", id="past int32"),
        pytest.param({"historyLength": "9" * 30}, True, "historyLength", id="far past int32"),
        pytest.param({"historyLength": -1}, False, "historyLength", id="a negative history"),
        pytest.param({"includeArtifacts": "true"}, False, "includeArtifacts", id="a word in a body"),
        pytest.param({"includeArtifacts": "TRUE"}, True, "includeArtifacts", id="capitals in a query"),
        pytest.param({"includeArtifacts": []}, False, "includeArtifacts", id="a list"),
        pytest.param({"status": 9}, False, "status", id="a number past the last state"),
        pytest.param({"status": 1.0}, False, "status", id="a fraction"),
        pytest.param({"status": 0.0}, False, "status", id="a nought with a point"),
        pytest.param({"status": False}, False, "status", id="false for none"),
        pytest.param({"status": {}}, False, "status", id="an object for a state"),
        pytest.param({"status": "WORKING "}, True, "status", id="a name with a blank"),
        pytest.param(
            {"statusTimestampAfter": "2026-11-30T10:02:00"}, False, "statusTimestampAfter", id="no zone"
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-W49-1T10:02:00Z"}, False, "statusTimestampAfter", id="a week"
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-11-31T10:02:00Z"},
            False,
            "statusTimestampAfter",
            id="a day there is not",
        ),
        pytest.param(
            {"statusTimestampAfter": "2026-11-30T10:02:00Z\n"},
            False,
            "statusTimestampAfter",
            id="a line end behind",
        ),
        pytest.param({"statusTimestampAfter": 5}, False, "statusTimestampAfter", id="a number"),
        pytest.param({"lastUpdatedAfter": "soon"}, True, "lastUpdatedAfter", id="a word for milliseconds"),
        pytest.param(
            {"lastUpdatedAfter": "5"}, False, "lastUpdatedAfter", id="a string of milliseconds in a body"
        ),
        pytest.param({"lastUpdatedAfter": 10**18}, False, "lastUpdatedAfter", id="a time past all calendars"),
        pytest.param(
            {"lastUpdatedAfter": 5, "statusTimestampAfter": "2026-11-30T10:02:00Z"},
            False,
            "lastUpdatedAfter",
            id="two times",
        ),
        pytest.param({"pageToken": 5}, False, "pageToken", id="a number for a token"),
        pytest.param({"pageToken": "A" * 8193}, True, "pageToken", id="a token too long"),
    ],
)
def test_what_is_refused_names_its_key(fields: dict[str, Any], as_text: bool, key: str) -> None:
    with pytest.raises(Refused) as refused:
        read_selection(fields, "params", as_text=as_text)
    assert refused.value.refusal.reason is Reason.INVALID_PARAMS
    assert key in refused.value.refusal.detail
