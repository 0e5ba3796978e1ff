"""What the model found wrong → problems an operator can act on.

Owns: the wording of every structural problem, near names for misspelt keys and words, and which designed keys this
version does not support.
Never: decides whether something is wrong; `document.py` and `checks.py` do.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from sidecar.policy_file.document import Config
from sidecar.policy_file.model import Model
from sidecar.policy_file.short_form import SHORT_KEYS
from sidecar.policy_file.tree import Items, Key, Mark, Node, Odd, Scalar, Table
from sidecar.policy_file.values import DURATION, format_duration

NOT_WRITTEN: Final = frozenset({"hash"})  # fields of Config that are no keys of the document

UNSUPPORTED: Final = "not supported by this version"

# Keys and words the product's design has, which this version would otherwise call misspelt.
# Consulted only where the model does not know them, so a row goes stale without harm.
LATER_KEYS: Final[Mapping[str, str]] = {
    "streams_outlive_token": "ending streams with their token is",
}
LATER_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("signatures", "resign"): "signing the card anew is",
    ("unknown_tasks", "adopt"): "adopting tasks is",
    ("per_operation", "observe"): "observing single operations is",
    ("dialects", "GRPC/0.3"): "gRPC is",
    ("dialects", "GRPC/1.0"): "gRPC is",
}
WRONG_WORDS: Final[Mapping[tuple[str, str], str]] = {
    ("algorithms", "none"): "an unsigned token proves nothing",
    **{
        ("algorithms", f"HS{bits}"): "whoever can verify with a shared secret can also issue"
        for bits in (256, 384, 512)
    },
}
SECRETS: Final = frozenset({"password", "secret", "client_secret", "token", "api_key", "key", "credentials"})

MISSING: Final[Mapping[str, str]] = {
    "version": "write `version: 1`",
    "agents": "at least one agent is needed; write `upstream` and `public_url`, or an `agents` list",
    "name": "give the agent a name, as in `name: code-review`",
    "upstream": "say where the agent listens, as in `upstream: http://127.0.0.1:9000`",
    "public_url": "say where callers reach it, as in `public_url: https://agents.example.com/code-review`",
    "issuer": "say whose tokens are accepted, as in `issuer: https://idp.example.com`",
    "audiences": "say whom its tokens must be meant for (their `aud`)",
    "subject": "say who it is, as in `subject: dev`",
    "sha256": 'write the hash of the key, as `printf %s "$KEY" | sha256sum` prints it',
    "client_id": "say what the issuer knows the sidecar as",
    "certificate_file": "say where the certificate is, as in `certificate_file: /tls/tls.crt`",
    "key_file": "say where its private key is, as in `key_file: /tls/tls.key`",
}
EMPTY: Final[Mapping[str, str]] = {
    "agents": MISSING["agents"],
    "audiences": "an empty list lets nobody in; name at least one audience",
    "algorithms": "an empty list accepts no token; name at least one algorithm, or remove the key",
    "dialects": "an empty list fronts nothing; name at least one, or remove the key to use what the card shows",
}


def document_fields() -> Iterator[tuple[str, FieldInfo]]:
    """Every key of the document with its field, by dotted name (`agents[].card.refresh`, `scopes.skills.<id>.scopes`).

    A section that an agent may repeat is listed once, at the top level.
    """
    seen: set[type[Model]] = {Config}
    waiting: list[tuple[str, type[Model]]] = [("", Config)]
    while waiting:
        prefix, model = waiting.pop(0)
        for name, info in model.model_fields.items():
            if name in NOT_WRITTEN:
                continue
            yield prefix + name, info
            for suffix, inner in _models(info.annotation):
                if inner not in seen:
                    seen.add(inner)
                    waiting.append((f"{prefix}{name}{suffix}.", inner))


def explain(error: ErrorDetails, root: Table) -> tuple[Mark, Key, str] | None:
    """One pydantic error as place, key and message; None where the place is known to be spoiled already."""
    mark, key, node = locate(root, error["loc"])
    kind = error["type"]
    if kind == "extra_forbidden":
        return mark, key, _unknown_key(key)
    if isinstance(node, Scalar) and node.value is Odd.SPOILED:
        return None
    if kind == "too_short" and isinstance(node, Items) and node.items:
        return None  # entries with a problem of their own do not count for pydantic; nothing more is wrong
    if kind == "missing":
        name = str(error["loc"][-1])
        return mark, (*key, name), f"is missing; {MISSING.get(name, 'write it')}"
    if error["loc"] and error["loc"][-1] == "[key]":
        return mark, key, _bad_key(error, str(key[-1]))
    return mark, key, _bad_value(error, key, node)


def locate(root: Table, loc: tuple[int | str, ...]) -> tuple[Mark, Key, Node]:
    """Where `loc` was written. Parts that are no part of the document (a union's tag) are left out."""
    mark: Mark = root.mark
    key: Key = ()
    node: Node = root
    for part in loc:
        if isinstance(node, Table) and part in node.entries:
            mark, node = node.keys[str(part)], node.entries[str(part)]
        elif isinstance(node, Items) and isinstance(part, int) and part < len(node.items):
            node = node.items[part]
            mark = node.mark
        else:
            continue
        key = (*key, part)
    return mark, key, node


# --- keys --------------------------------------------------------------------------------------


def _unknown_key(key: Key) -> str:
    name = str(key[-1])
    if later := LATER_KEYS.get(name):
        return f"{later} {UNSUPPORTED}; remove the key"
    known = _known_keys(key[:-1])
    if name in SECRETS:
        instead = [other for other in known if other.startswith(f"{name}_")]
        return f"unknown key; a policy never holds a secret{f', write {_listed(instead)}' if instead else ''}"
    if near := difflib.get_close_matches(name, known, n=1, cutoff=0.6):
        return f"unknown key; did you mean `{near[0]}`?"
    elsewhere = [path for path, _ in document_fields() if path.rpartition(".")[2] == name]
    if elsewhere:
        return f"unknown key here; it belongs at `{'` or `'.join(elsewhere[:3])}` (check the indentation)"
    return f"unknown key; known here: {_listed(known)}"


def _bad_key(error: ErrorDetails, name: str) -> str:
    if expected := _words(error):
        return f"unknown key{_near(name, expected)}; known here: {_listed(expected)}"
    return f"the key `{name}` {_told(error)}"


def _known_keys(key: Key) -> list[str]:
    """Names of the keys a mapping at `key` may have."""
    here: Any = Config
    for part in key:
        here = _inside(here, part)
    models = [model for suffix, model in _models(here) if not suffix]
    names = [name for model in models for name in model.model_fields if name not in NOT_WRITTEN]
    return names + [name for name in SHORT_KEYS if not key]


def _inside(annotation: Any, part: str | int) -> Any:
    """The annotation of what `part` leads to."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return annotation.model_fields[str(part)].annotation
    origin, args = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType, Annotated):
        return Union[tuple(_inside(arg, part) for arg in args if _models(arg))]  # noqa: UP007  (made at run time)
    return args[0] if origin is tuple else args[1]


def _models(annotation: Any, suffix: str = "") -> list[tuple[str, type[Model]]]:
    """Models an annotation holds, and how their keys are written after the field's own name."""
    if isinstance(annotation, type) and issubclass(annotation, Model):
        return [(suffix, annotation)]
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is tuple:
        suffix += "[]"
    elif origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        suffix += ".<id>"
    elif origin is Literal:
        return []
    return [found for arg in args for found in _models(arg, suffix)]


# --- values ------------------------------------------------------------------------------------

_EXPECTED: Final[Mapping[str, str]] = {
    "string_type": "a string",
    "bool_type": "`true` or `false`",
    "int_type": "a whole number",
    "tuple_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}


def _bad_value(error: ErrorDetails, key: Key, node: Node) -> str:
    kind, context = error["type"], error.get("ctx", {})
    name = next((part for part in reversed(key) if isinstance(part, str)), "")
    if kind == "literal_error":
        return _bad_word(_words(error), name, node)
    if kind == "too_short":
        return EMPTY.get(name, "must not be empty")
    if kind == "too_long":
        return f"a list with entries is {UNSUPPORTED}; write `[]`, or remove the key"
    if kind in {"greater_than", "greater_than_equal", "less_than_equal"}:
        bound = next(context[name] for name in ("gt", "ge", "le") if name in context)
        relation = {
            "greater_than": "more than",
            "greater_than_equal": "at least",
            "less_than_equal": "at most",
        }[kind]
        timed = isinstance(node, Scalar) and DURATION.fullmatch(node.text)
        return f"must be {relation} {format_duration(bound) if timed else bound}"
    if expected := _EXPECTED.get(kind):
        return f"{expected} is expected, {_instead(kind, node)}"
    return _told(error)


def _bad_word(expected: list[str], name: str, node: Node) -> str:
    listed = _listed(expected)
    if not isinstance(node, Scalar):
        return f"is {_shape(node)}; write {listed}"
    if later := LATER_WORDS.get((name, node.text)):
        return f"{later} {UNSUPPORTED}; write {listed}"
    if why := WRONG_WORDS.get((name, node.text)):
        return f"`{node.text}` is not accepted, {why}; write {listed}"
    if node.seems:
        off = "disabled" in expected and node.text.lower() in {"off", "no", "false", "n"}
        return f"YAML reads `{node.text}` as {node.seems}; write {'`disabled`' if off else listed}"
    return f"`{node.text}` is not known{_near(node.text, expected)}; write {listed}"


def _instead(kind: str, node: Node) -> str:
    """What was found where something else is expected, and what to write."""
    if not isinstance(node, Scalar):
        return f"not {_shape(node)}"
    if kind == "string_type":
        return f'and YAML reads `{node.text}` as {node.seems}; write `"{node.text}"`'
    if kind == "bool_type":
        plain = node.text.lower()
        word = (
            "true"
            if plain in {"true", "yes", "on", "y"}
            else "false"
            if plain in {"false", "no", "off", "n"}
            else ""
        )
        return f"not `{node.text}`" + (f"; write `{word}` in lower case and without quotes" if word else "")
    if kind == "int_type":
        quoted = not node.seems and node.text.isdigit()
        return f"not `{node.text}`" + (f"; write `{node.text}` without quotes" if quoted else "")
    return f"not a single value; write `[{node.text}]`" if kind == "tuple_type" else "not a single value"


def _shape(node: Node) -> str:
    return (
        "a mapping" if isinstance(node, Table) else "a list" if isinstance(node, Items) else "a single value"
    )


def _words(error: ErrorDetails) -> list[str]:
    """The words a Literal accepts, as pydantic tells them: `'a', 'b' or 'c'`."""
    expected = str(error.get("ctx", {}).get("expected", ""))
    return [word.strip("'") for word in expected.replace(" or ", ", ").split(", ") if word]


def _near(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    return f", did you mean `{near[0]}`?" if near else ""


def _listed(words: list[str]) -> str:
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _told(error: ErrorDetails) -> str:
    """The message of one of our own validators, or pydantic's."""
    own = error.get("ctx", {}).get("error")
    return str(own) if isinstance(own, Exception) else error["msg"]
