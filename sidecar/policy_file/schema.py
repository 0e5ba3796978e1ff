"""JSON Schema of the policy document, for editors.

Owns: what `policies/schema.json` holds: the model's schema in the document's own words.
Never: the last word. A schema sees neither duplicate keys nor what two keys mean together; `load` does.

A file may be one of several layers, so only `version` is required at the top level; lists are replaced and not
merged, so their entries are required to be whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sidecar.policy_file.described import descriptions
from sidecar.policy_file.document import Agent, Config
from sidecar.policy_file.identity import Issuer
from sidecar.policy_file.model import Model
from sidecar.policy_file.values import SIZE, format_duration, format_size

_NAMES: Final = frozenset({"properties", "$defs"})


def json_schema() -> dict[str, object]:
    """A JSON Schema (draft 2020-12) of one policy file."""
    schema = _tidied(_described(Config.model_json_schema()))
    properties: dict[str, Any] = schema["properties"]
    del properties["hash"]
    properties["version"] = {"const": 1, "description": properties["version"]["description"]}
    schema["description"] = "A policy of a2a-sidecar, or one of several layers of it."
    schema["required"] = ["version"]
    for name, text in _short_form().items():
        properties[name] = {"type": "string", "description": f"Short form of one agent. {text}"}
    properties["name"]["default"] = "agent"
    schema["dependentSchemas"] = {
        name: {"not": {"required": ["agents"]}} for name in ("name", "upstream", "public_url")
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "a2a-sidecar policy",
        **schema,
    }


def _short_form() -> Mapping[str, str]:
    agent, issuer = descriptions(Agent), descriptions(Issuer)
    return {
        **{name: agent[name] for name in ("name", "upstream", "public_url")},
        "issuer": issuer["issuer"],
        "audience": "A token must be meant for this (`aud`).",
    }


def _described(schema: dict[str, Any]) -> dict[str, Any]:
    models = {model.__name__: model for model in Model.__subclasses__()}
    for name, part in {Config.__name__: schema, **schema["$defs"]}.items():
        for key, text in descriptions(models[name]).items():
            part["properties"][key]["description"] = text
    return schema


def _tidied(part: Any) -> Any:
    """Without generated titles and nulls (a document has none), defaults as a document writes them."""
    if isinstance(part, list):
        return [_tidied(item) for item in part]
    if not isinstance(part, dict):
        return part
    kept = {
        # Names of keys are no words of JSON Schema: `other_paths` has one that is called `default`.
        key: {name: _tidied(inner) for name, inner in value.items()} if key in _NAMES else _tidied(value)
        for key, value in part.items()
        if key != "title"
    }
    if {"type": "null"} in (options := kept.get("anyOf", [])):
        del kept["anyOf"]
        kept = {**next(option for option in options if option != {"type": "null"}), **kept}
    if "default" in kept:
        kept = _with_default(kept)
    return kept


def _with_default(part: dict[str, Any]) -> dict[str, Any]:
    default = part.pop("default")
    if default is None:
        return part
    if isinstance(default, float):
        default = format_duration(default)
    elif isinstance(default, int) and any(
        option.get("pattern") == f"^{SIZE.pattern}$" for option in part.get("oneOf", [])
    ):
        default = format_size(default)
    elif isinstance(default, dict):
        return part  # a whole section: its keys tell their own defaults
    return {**part, "default": default}
