"""Short ways to make the values tests speak of."""

from __future__ import annotations

from collections.abc import Iterable

from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.model import (
    Alternative,
    Binding,
    Call,
    Card,
    Dialect,
    Form,
    Head,
    Interface,
    Kind,
    NamedSkill,
    Operation,
    Owner,
    Principal,
    Resource,
    Scheme,
    Version,
)
from sidecar.policy.rules import Policy, compile_policy

JSONRPC_1 = Dialect(Binding.JSONRPC, Version.V1_0)
JSONRPC_03 = Dialect(Binding.JSONRPC, Version.V0_3)
JSONRPC_01 = Dialect(Binding.JSONRPC, Version.V0_1)
REST_1 = Dialect(Binding.HTTP_JSON, Version.V1_0)
REST_03 = Dialect(Binding.HTTP_JSON, Version.V0_3)

AGENT = "code-review"
ALICE = Owner("", "https://idp.test", "alice")
BOB = Owner("", "https://idp.test", "bob")
TASK = Resource(AGENT, Kind.TASK, "t-1")
CONTEXT = Resource(AGENT, Kind.CONTEXT, "c-1")


def a_principal(owner: Owner = ALICE, scopes: Iterable[str] | None = ("w", "r")) -> Principal:
    return Principal(owner, None if scopes is None else frozenset(scopes), presented_by="planner")


def a_call(
    operation: Operation = Operation.GET_TASK,
    *,
    dialect: Dialect = JSONRPC_1,
    task: str | None = None,
    context: str | None = None,
    references: tuple[str, ...] = (),
    tenant: str | None = None,
    skill: str | None = None,
) -> Call:
    named = NamedSkill(skill, "metadata skillId") if skill else None
    return Call(operation, Form(dialect), dialect, "/", task, context, references, tenant, skill=named)


def a_card(
    *alternatives: Alternative,
    skills: dict[str, tuple[Alternative, ...]] | None = None,
    tenant: str = "",
    push: bool = True,
) -> Card:
    """Needs of the card and of its skills, under one oauth2 scheme `o`; served over JSON-RPC 1.0."""
    return Card(
        (Interface("http://127.0.0.1:9000/", JSONRPC_1, tenant),),
        {"o": Scheme.OAUTH2},
        alternatives,
        skills if skills is not None else {"review": ()},
        offers_push=push,
    )


def a_policy(card: Card | None = None, **changes: object) -> Policy:
    """A compiled policy of one agent; `changes` are top-level sections of the document."""
    agent = config.Agent(name=AGENT, upstream="http://127.0.0.1:9000", public_url="https://agents.test")
    issuer = config.Issuer(issuer="https://idp.test", audiences=("review",))
    sections: dict[str, object] = {
        "version": 1,
        "agents": (agent,),
        "identity": config.Identity(issuers=(issuer,)),
    }
    whole = config.Config.model_validate(sections | changes)
    return compile_policy(agent, whole, [card] if card else [])


def a_head(method: str = "GET", target: str = "/", **headers: str) -> Head:
    pairs = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return Head(method, target, CIMultiDictProxy(pairs))
