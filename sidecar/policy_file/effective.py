"""Config → the policy it stands for, written out.

Owns: the expansion that `check --effective` prints: every default, every agent's own sections, in a policy's own words.
Never: a key `load` would refuse; what is printed here loads, and has the same hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml
from pydantic import BeforeValidator

from sidecar.policy_file.document import Config
from sidecar.policy_file.explain import NOT_WRITTEN
from sidecar.policy_file.model import Model
from sidecar.policy_file.values import format_duration, format_size


def effective(config: Config) -> dict[str, Any]:
    """`config` in long form, as plain mappings, lists and single values."""
    written = _model(config)
    # Written once for all agents; below an agent it would be refused.
    for agent in written["agents"]:
        del agent["ownership"]["owner_claims"]
    return written


def to_yaml(document: Mapping[str, Any]) -> str:
    """`document` as YAML in its own order, each text quoted that any reader might take for something else."""
    return yaml.dump(dict(document), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=110)


def _model(model: Model) -> dict[str, Any]:
    found = {}
    for name, info in type(model).model_fields.items():
        value = getattr(model, name)
        if value is None or (isinstance(model, Config) and name in NOT_WRITTEN):
            continue
        sized = info.annotation is int and any(isinstance(m, BeforeValidator) for m in info.metadata)
        found[name] = _size(value) if sized else _value(value)
    return found


def _size(value: int) -> str | int:
    text = format_size(value)
    return value if text.isdecimal() else text  # a number of bytes without a unit is a number


def _value(value: Any) -> Any:
    if isinstance(value, Model):
        return _model(value)
    if isinstance(value, Mapping):
        return {key: _value(inner) for key, inner in value.items()}
    if isinstance(value, tuple):
        return [_value(inner) for inner in value]
    return format_duration(value) if isinstance(value, float) else value  # the only floats are seconds


class _Dumper(yaml.SafeDumper):
    """SafeDumper quotes what YAML 1.1 takes for no text; this also what begins unlike a word, or is one letter."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    quoted = len(text) < 2 or not text[0].isalpha()
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style='"' if quoted else None)


_Dumper.add_representer(str, _text)
