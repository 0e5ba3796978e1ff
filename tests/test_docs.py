"""The policy reference says what the code does: every key, default and reason has its entry, every example loads."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema
import orjson
import pytest
import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from sidecar.config import Config, document_fields, json_schema, load
from sidecar.model import Reason
from sidecar.policy_file.values import format_duration, format_size

POLICIES = Path(__file__).parent.parent / "policies"
README = (POLICIES / "README.md").read_text()
EXAMPLES = sorted(POLICIES.glob("*.yaml"))
FIELDS = dict(document_fields())
SIZES = {"limits.body", "limits.reply", "limits.event", "limits.token"}


def rows(width: int) -> dict[str, list[str]]:
    """Table rows of the reference that begin with a `key`, by that key."""
    cells = [
        [c.strip() for c in line.strip("|").split(" | ")]
        for line in README.splitlines()
        if line.startswith("| `")
    ]
    return {row[0].strip("`"): row[1:] for row in cells if len(row) == width}


KEYS, REASONS = rows(4), rows(3)


def as_written(key: str, info: FieldInfo) -> str:
    """A field's default as the reference writes it."""
    value = info.default
    if info.is_required():
        return "required"
    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return "below"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, float):
        return f"`{format_duration(value)}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(value)}]`"
    return f"`{format_size(value) if key in SIZES else value}`"


@pytest.mark.parametrize("key", FIELDS)
def test_the_reference_has_every_key_with_its_default(key: str) -> None:
    assert key in KEYS, f"policies/README.md lacks a row for `{key}`"
    assert KEYS[key][1] == as_written(key, FIELDS[key])
    assert len(KEYS[key][2]) > 10


def test_editors_are_told_what_every_key_does() -> None:
    schema: dict[str, Any] = json_schema()
    for part in (schema, *schema["$defs"].values()):
        assert [name for name, told in part["properties"].items() if not told.get("description")] == []


def test_the_reference_has_no_key_that_is_gone() -> None:
    assert set(KEYS) == set(FIELDS)


def test_the_walk_sees_nested_models() -> None:
    assert {"agents[].card.refresh", "identity.anonymous.subject", "scopes.skills.<id>.traverses"} <= set(
        FIELDS
    )


@pytest.mark.parametrize("reason", [reason.value for reason in Reason])
def test_the_reference_has_every_reason(reason: str) -> None:
    assert reason in REASONS, f"policies/README.md lacks a row for the reason `{reason}`"
    assert all(len(cell) > 2 for cell in REASONS[reason])


def test_the_reference_has_no_reason_that_is_gone() -> None:
    assert set(REASONS) == {reason.value for reason in Reason}


def test_the_links_of_the_reference_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.+)$", README, re.M)
    }
    for target in re.findall(r"\]\(([^)]+)\)", README):
        assert (target[1:] in anchors) if target.startswith("#") else (POLICIES / target).exists(), target


# --- examples and schema -------------------------------------------------------------------------


def test_the_examples_are_there() -> None:
    assert {path.name for path in EXAMPLES} >= {"minimal.yaml", "strict.yaml", "observe-first.yaml"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_loads(path: Path) -> None:
    assert re.fullmatch(r"[0-9a-f]{16}", load([path]).hash)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_an_example_satisfies_the_schema(path: Path) -> None:
    jsonschema.Draft202012Validator(json_schema()).validate(yaml.safe_load(path.read_text()))


def test_the_yaml_of_the_reference_loads(tmp_path: Path) -> None:
    blocks = re.findall(r"```yaml\n(.+?)```", README, re.S)
    assert blocks
    for block in blocks:
        (tmp_path / "policy.yaml").write_text(block)
        assert load([tmp_path / "policy.yaml"]).agents


def test_the_strict_example_opens_nothing() -> None:
    policy = load([POLICIES / "strict.yaml"])
    assert policy.mode == "enforce"
    assert policy.identity.anonymous == "refuse"
    assert all(issuer.claims.tenant for issuer in policy.identity.issuers)
    for agent in policy.agents:
        assert agent.scopes is not None
        assert agent.scopes.per_operation == "enforce"
        assert agent.ownership is not None
        assert agent.ownership.client_context_ids == "refuse"
        assert agent.other_paths is not None
        assert agent.other_paths.default == "refuse"


def test_the_observing_example_refuses_nothing() -> None:
    assert load([POLICIES / "observe-first.yaml"]).mode == "observe"


def test_the_schema_file_is_current() -> None:
    assert orjson.loads((POLICIES / "schema.json").read_bytes()) == json_schema(), (
        "write policies/schema.json anew with `a2a-sidecar schema`"
    )


def test_the_schema_is_one() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "hash" not in schema["properties"]  # type: ignore[operator]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"upstream": "http://a"}, id="a file without its version"),
        pytest.param({"version": 2}, id="another version"),
        pytest.param({"version": 1, "scopse": {}}, id="a misspelt section"),
        pytest.param({"version": 1, "hash": "0"}, id="the hash, which is no key"),
        pytest.param({"version": 1, "scopes": {"mode": False}}, id="a bare off"),
        pytest.param({"version": 1, "scopes": {"lifecycle": {"sned": []}}}, id="a misspelt operation"),
        pytest.param({"version": 1, "limits": {"body_timeout": 60}}, id="a duration without its unit"),
        pytest.param({"version": 1, "limits": {"body": "16MB"}}, id="a size in another unit"),
        pytest.param({"version": 1, "ownership": {"grants": ["x"]}}, id="grants"),
        pytest.param({"version": 1, "agents": [{"name": "a"}]}, id="an agent that is not whole"),
        pytest.param({"version": 1, "agents": [], "upstream": "http://a"}, id="long and short form together"),
        pytest.param({"version": 1, "ledger": None}, id="a key without a value"),
    ],
)
def test_the_schema_refuses(document: object) -> None:
    assert not jsonschema.Draft202012Validator(json_schema()).is_valid(document)


def test_no_default_is_left_out_of_the_schema() -> None:
    limits = Config.model_fields["limits"].default
    described = json_schema()["$defs"]["Limits"]["properties"]  # type: ignore[index]
    assert described["body"]["default"] == format_size(limits.body)
    assert described["body_timeout"]["default"] == format_duration(limits.body_timeout)
