"""What a case file says.

Owns: the keys of a case file and what single values may be.
Never: knows a policy (`judge.py` tells what does not fit one).
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, model_validator

from sidecar.config import Model, Seconds
from sidecar.model import Reason

NOBODY: Final = "nobody"
NOTHING: Final = "nothing"  # `observed: nothing`: would have been permitted when enforced, too
PERMIT: Final = "permit"
REFUSE: Final = "refuse"
CARD: Final = "card"  # the public card, which the sidecar answers itself

_REASONS: Final = tuple(reason.value for reason in Reason)


def _one_of(*known: str) -> AfterValidator:
    def check(value: str) -> str:
        if value in known:
            return value
        near = difflib.get_close_matches(value, known, n=1, cutoff=0.6)
        hint = f"did you mean `{near[0]}`?" if near else f"write {', '.join(f'`{word}`' for word in known)}"
        raise ValueError(f"`{value}` is not known; {hint}")

    return AfterValidator(check)


def _text(value: str) -> str:
    if not value.strip() or not value.isprintable():
        raise ValueError("must be text on one line, and not empty")
    return value


def _path(value: str) -> str:
    if not value.startswith("/") or not value.isascii() or " " in value or not value.isprintable():
        raise ValueError("must be a request target as sent: begin with `/`, percent-encode what is no ASCII")
    return value


def _headers(value: Mapping[str, str]) -> Mapping[str, str]:
    if any(name.lower() == "authorization" for name in value):
        raise ValueError("`Authorization` is not read; `who` says who is calling")
    return value


def _scope(value: str) -> str:
    if not value or len(value.split()) != 1:
        raise ValueError("a scope holds no blanks; write several as a list")
    return value


def _with_unit(value: object) -> object:
    if value is not None and not isinstance(value, str):
        raise ValueError("a duration is expected; write it with its unit, as in `60s`, `10m`, `1h`")
    return value


def _body(value: object) -> object:
    if value is not None and not isinstance(value, str | dict | tuple):
        raise ValueError(
            "must be a mapping or a list, which are sent as JSON, or text, which is sent as it is"
        )
    return value


def _kind(value: object) -> str:
    return "mapping" if isinstance(value, dict | Model) else "word"


Text = Annotated[str, AfterValidator(_text)]
ScopeText = Annotated[str, AfterValidator(_scope)]
ReasonName = Annotated[str, _one_of(*_REASONS)]


class Who(Model):
    """A caller whose credential has been verified."""

    subject: Text
    scopes: tuple[ScopeText, ...]
    issuer: Text | None = None
    """Default: the only one the policy trusts."""
    tenant: Text | None = None
    """The value of the issuer's tenant claim."""
    client: Text | None = None
    """`azp` and `client_id`."""
    expires_in: Annotated[Seconds | None, BeforeValidator(_with_unit)] = Field(default=None, gt=0)
    """How long the token is still valid. Default: it does not expire."""


class Owned(Model):
    """A task and its context, or either, that the ledger knows to be the caller's."""

    task: Text | None = None
    context: Text | None = None
    tenant: str = ""
    """The A2A tenant it was made under."""
    agent: Text | None = None
    """Default: the agent that is asked."""

    @model_validator(mode="after")
    def _names_something(self) -> Owned:
        if self.task is None and self.context is None:
            raise ValueError("names nothing; write `task`, `context` or both")
        return self


class Request(Model):
    """One HTTP request as the sidecar receives it."""

    method: Text = "POST"
    path: Annotated[str, AfterValidator(_path)] = "/"
    headers: Annotated[Mapping[str, Text], AfterValidator(_headers)] = {}
    body: Annotated[Any, AfterValidator(_body)] = None


class Expectation(Model):
    """What must come of it. What is not written is not compared."""

    decision: Literal["permit", "refuse"]
    reason: ReasonName | None = None
    missing: tuple[ScopeText, ...] | None = None
    """Exactly the scopes that are missing, in any order."""
    skill: str | None = None
    """The skill it was judged by; `""` where none was chosen."""
    observed: Annotated[str, _one_of(*_REASONS, NOTHING)] | None = None
    """Why `mode: observe` would have refused what it permits."""

    @model_validator(mode="after")
    def _fits(self) -> Expectation:
        if self.decision == PERMIT and self.reason is not None:
            raise ValueError(
                "a permit has no `reason`; write `observed` for what `mode: observe` would refuse"
            )
        if self.decision == REFUSE and self.observed is not None:
            raise ValueError("a refusal has no `observed`; write `reason`")
        return self


class Case(Model):
    """Who asks for what, and what is decided."""

    name: Text
    who: Annotated[
        Annotated[Literal["nobody"], Tag("word")] | Annotated[Who, Tag("mapping")], Discriminator(_kind)
    ]
    owns: tuple[Owned, ...] = ()
    request: Request
    expect: Annotated[
        Annotated[str, _one_of(PERMIT, CARD, *_REASONS), Tag("word")]
        | Annotated[Expectation, Tag("mapping")],
        Discriminator(_kind),
    ]


class CaseFile(Model):
    """One file of cases for one policy."""

    policy: Text
    """The policy's path, relative to the file's folder."""
    card: Mapping[str, Any] | None = None
    """The agent's card, where the policy has one agent."""
    cards: Mapping[str, Mapping[str, Any]] = {}
    """The agents' cards by name, where it has several."""
    cases: tuple[Case, ...] = Field(min_length=1)
