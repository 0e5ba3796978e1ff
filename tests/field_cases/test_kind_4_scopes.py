"""Kind 4, what a token must cover: FC-053, FC-054, FC-056, FC-058, FC-059, FC-062, FC-063.

Who passes under which card and policy is one table, `tests/unit/policy/test_truth_table.py`; here a running sidecar says
the same on the wire. What official clients make of a refusal is shown in `tests/e2e/test_refusals_in_clients.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sidecar.config import PolicyError, load
from sidecar.ledger.memory import MemoryLedger
from sidecar.model import Entry, Operation, Owner, Resource, Version
from tests.edge.agent import Agent, a_task, answers
from tests.edge.conftest import Answer, Sidecar, Start, a_message
from tests.field_cases.conftest import EVERY_DIALECT, G1_CARD, Scene, Scenes
from tests.field_cases.doors import EVENTS, SENDING, V0_1, V1_0, each, in_state, row_of, says
from tests.issuer import Issuer
from tests.matrix.agent import replying
from tests.matrix.cells import RPC_IDS, a_random_id
from tests.matrix.conftest import TENANT, Cell
from tests.matrix.forms import require_divergence, require_error, told
from tests.matrix.requests import Request, Row
from tests.matrix.test_submissions import a_submission, with_member

in_session = pytest.mark.asyncio(loop_scope="session")

Requirement = dict[str, list[str]]
SCHEMES = {"o": {"type": "oauth2", "flows": {}}, "k": {"type": "apiKey", "in": "header", "name": "X-Key"}}
ONE_OF = {"o": {"oauth2SecurityScheme": {"flows": {}}}, "k": {"apiKeySecurityScheme": {"name": "X-Key"}}}


def listed(requirements: Sequence[Requirement] | None, spelling: str) -> dict[str, Any]:
    """Requirements as 0.3 (`security`) or 1.0 (`securityRequirements`) writes them."""
    if requirements is None:
        return {}
    if spelling == "security":
        return {spelling: list(requirements)}
    return {spelling: [{"schemes": {k: {"list": v} for k, v in one.items()}} for one in requirements]}


def a_card(
    card: Sequence[Requirement] | None,
    skill: Sequence[Requirement] | None = None,
    spelling: str = "securityRequirements",
    id_: str = "review",
) -> dict[str, Any]:
    """The card of an agent that speaks everything since 0.3 and asks for this on its two levels."""
    bare = {name: value for name, value in G1_CARD.items() if not name.startswith("security")}
    skills = [{"id": id_, "name": id_, "description": "", "tags": []} | listed(skill, spelling)]
    schemes = {"securitySchemes": SCHEMES if spelling == "security" else ONE_OF}
    return bare | schemes | {"skills": skills} | listed(card, spelling)


def every_dialect(agent: Agent) -> list[dict[str, Any]]:
    hooks = {"upstream": agent.url, "public_url": "https://agents.test/review"}
    return [{"name": "review", **hooks, "dialects": EVERY_DIALECT}]


def submission(row: Row) -> tuple[Request, str]:
    """A request that creates, and the id of what it creates."""
    return a_submission(row, lambda _, request: request)


def bearing(request: Request, token: str) -> Request:
    return replace(request, headers=request.headers | {"Authorization": f"Bearer {token}"})


def require_lacking(row: Row, answer: Answer, missing: str | None) -> None:
    """A divergence that names exactly these scopes as missing; None where no token would do."""
    error = told(row, answer)
    error = error["error"] if row.jsonrpc or row.dialect.version is V1_0 else error
    codes = {True: (-32004, -31403), False: (403, -31403)}[row.jsonrpc]
    assert error["code"] == codes[row.dialect.version is not V1_0]
    assert answer.status == (200 if row.jsonrpc else 403)
    assert error["message"].startswith("CapabilityScopeDivergence: ")
    assert error["message"].partition("; missing ")[2] == (missing or "")


# --- FC-053 --------------------------------------------------------------------------------------


class Recording(MemoryLedger):
    """A ledger that remembers the ids it was given."""

    def __init__(self) -> None:
        super().__init__(now=time.time)
        self.recorded: list[str] = []

    async def record(self, owner: Owner, entries: Collection[Entry]) -> frozenset[Resource]:
        self.recorded += [entry.resource.id for entry in entries]
        return await super().record(owner, entries)


@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_053_a_token_that_lost_a_scope_on_its_way_creates_no_orphan(
    start: Start, agent: Agent, row: Row
) -> None:
    """The orchestrator held both, the planner passed on one: the executor's task would wait for an answer for ever."""
    agent.card = a_card(None, [{"o": ["write", "read"]}], id_="code-review")
    ledger = Recording()
    running = await start(ledger, every_dialect(agent))
    cell = Cell(row, running, agent)
    request, made = submission(row)
    said = in_state(replying(row, made, context=f"c-{made}")[1], "input-required")
    agent.script = says(said, EVENTS if row.streams else "application/json")
    hops = {"sub": "planner", "act": {"sub": "orchestrator"}}

    refused = await cell.ask(bearing(request, running.token("alice", "write", act=hops)), None)
    require_lacking(row, refused, "read")
    assert b"code-review" in refused.body
    assert b"presented by planner" in refused.body
    assert agent.received == []
    assert ledger.recorded == []
    (record,) = [
        r
        for r in await running.records(lambda rs: any(r["event"] == "decision" for r in rs))
        if "reason" in r
    ]
    assert (record["reason"], record["missing"]) == ("capability_scope_divergence", ["read"])
    assert (record["presented_by"], record["actors"]) == ("planner", ["planner", "orchestrator"])

    whole = await cell.ask(bearing(request, running.token("alice", "write read", act=hops)), None)
    assert whole.body == said
    assert made in ledger.recorded
    got = row_of(row, Operation.GET_TASK)
    agent.script, said = replying(got, made, context=f"c-{made}")
    reads = bearing(got.on_a_task(made), running.token("alice", "write read", act=hops))
    assert (await Cell(got, running, agent).ask(reads, None)).body == said


# --- FC-054 --------------------------------------------------------------------------------------

TOKENS = ("", "w", "r", "w r", "w r x")
WR: list[Requirement] = [{"o": ["w", "r"]}]
W_OR_R: list[Requirement] = [{"o": ["w"]}, {"o": ["r"]}]
W_AND_KEY: list[Requirement] = [{"o": ["w"], "k": []}]
KEY_OR_WR: list[Requirement] = [{"k": []}, {"o": ["w", "r"]}]
W: list[Requirement] = [{"o": ["w"]}]
R: list[Requirement] = [{"o": ["r"]}]
BOTH = ("w r", "w r x")
SINCE_0_3 = [row for row in SENDING if row.dialect.version in (Version.V0_3, V1_0)]


@pytest.mark.parametrize("spelling", ["security", "securityRequirements"])
@pytest.mark.parametrize(
    ("card", "skill", "policy", "pass_"),
    [
        pytest.param(WR, None, {}, BOTH, id="all scopes of an entry"),
        pytest.param(W_OR_R, None, {}, BOTH, id="alternatives, all: the union"),
        pytest.param(
            W_OR_R, None, {"alternatives": "any"}, ("w", "r", *BOTH), id="alternatives, any: one of them"
        ),
        pytest.param(W_AND_KEY, None, {}, (), id="all schemes of an entry"),
        pytest.param(W_AND_KEY, None, {"alternatives": "any"}, (), id="all schemes of an entry, any"),
        pytest.param(KEY_OR_WR, None, {}, BOTH, id="an entry for keys only, and another"),
        pytest.param(KEY_OR_WR, None, {"alternatives": "any"}, BOTH, id="the same, any"),
        pytest.param(W, R, {}, BOTH, id="card level and skill level"),
        pytest.param(W_OR_R, R, {"alternatives": "any"}, ("r", *BOTH), id="one alternative of each level"),
        pytest.param(W, R, {"levels": "skill"}, ("r", *BOTH), id="the skill's in place of the card's"),
        pytest.param(
            W_AND_KEY,
            WR,
            {"skills": {"review": {"scopes": ["x"]}}},
            ("w r x",),
            id="the policy's own list, whatever the card says",
        ),
    ],
)
async def test_fc_054_entries_are_alternatives_and_within_one_everything_is_needed(
    start: Start,
    agent: Agent,
    card: list[Requirement],
    skill: list[Requirement] | None,
    policy: dict[str, Any],
    pass_: tuple[str, ...],
    spelling: str,
) -> None:
    agent.card = a_card(card, skill, spelling)
    running = await start(scopes=policy)
    tokens = {scope: running.token("alice", scope) for scope in TOKENS}
    for row in SINCE_0_3:
        cell = Cell(row, running, agent)
        for scope, token in tokens.items():
            request, made = submission(row)
            agent.received.clear()
            agent.script, said = replying(row, made, context=f"c-{made}")
            answer = await cell.ask(bearing(request, token), None)
            if scope in pass_:
                assert answer.body == said, (row.name, scope)
                continue
            assert b"CapabilityScopeDivergence" in answer.body, (row.name, scope)
            assert agent.received == [], (row.name, scope)


# --- FC-056 --------------------------------------------------------------------------------------

# Two scopes are needed, `w` and `r`. What is missing, None where nothing is, or 401.
WRITTEN: Mapping[str, tuple[Any, str | int | None]] = {
    "a string": ("w r", None),
    "with two spaces": ("w  r", None),
    "with spaces around": (" w r ", None),
    "one of them twice": ("r w w", None),
    "a list": (["w", "r"], None),
    "a list, one of them twice": (["w", "r", "w"], None),
    "a list with an empty string": (["w", "", "r"], None),
    "one of the two": ("w", "r"),
    "a list of one": (["r"], "w"),
    "an empty string": ("", "r w"),
    "an empty list": ([], "r w"),
    "absent": (..., "r w"),
    "a tab between them, which is no separator": ("w\tr", "r w"),
    "a new line between them": ("w\nr", "r w"),
    "a comma between them": ("w,r", "r w"),
    "a plus sign, as in a query": ("w+r", "r w"),
    "in upper case": ("W R", "r w"),
    "longer names": ("write read", "r w"),
    "a list whose one string holds both": (["w r"], 401),
    "a list with a number": (["w", 5], 401),
    "a list within the list": (["w", ["r"]], 401),
    "a list with null": (["w", None], 401),
    "an object": ({"w": True, "r": True}, 401),
    "a number": (5, 401),
    "true": (True, 401),
    "null": (None, 401),
}
FORMS = [pytest.param(*case, id=sentence) for sentence, case in WRITTEN.items()]
ONE_OF_EACH = [row for row in SENDING if row.operation is Operation.SEND_MESSAGE]


async def require_read_as(scene: Scene, outcome: str | int | None, **claims: Any) -> None:
    """What a submission with these claims comes to, in every dialect."""
    token = scene.running.issuer.mint(sub="alice", azp="planner", **claims)
    for row in ONE_OF_EACH:
        cell = Cell(row, scene.running, scene.agent)  # type: ignore[arg-type]
        request, made = submission(row)
        scene.forget()
        scene.agent.script, said = replying(row, made, context=f"c-{made}")
        answer = await cell.ask(bearing(request, token), None)
        if outcome is None:
            assert answer.body == said
            continue
        assert scene.untouched
        if outcome == 401:
            assert answer.status == 401
            assert 'error="invalid_token"' in (answer.header("WWW-Authenticate") or "")
        else:
            require_lacking(row, answer, str(outcome))


@in_session
@pytest.mark.parametrize("claim", ["scope", "scp"])
@pytest.mark.parametrize(("value", "outcome"), FORMS)
async def test_fc_056_scopes_are_a_string_or_a_list_of_plain_strings(
    scene: Scene, claim: str, value: Any, outcome: str | int | None
) -> None:
    await require_read_as(scene, outcome, **{claim: value})


@in_session
@pytest.mark.parametrize(
    ("claims", "outcome"),
    [
        pytest.param({"scope": "w r", "scp": "x"}, None, id="scope counts"),
        pytest.param({"scope": "w", "scp": "r"}, "r", id="the two are not added up"),
        pytest.param({"scope": "w", "scp": ["w", "r"]}, "r", id="nor does the wider one count"),
        pytest.param({"scope": "", "scp": "w r"}, "r w", id="an empty one is one"),
        pytest.param({"scope": None, "scp": "w r"}, 401, id="null is no leave to look further"),
        pytest.param({"scope": "w r", "scp": 5}, None, id="what does not count is not read"),
        pytest.param({"permissions": ["w", "r"]}, "r w", id="permissions are no scopes by default"),
        pytest.param({"roles": ["w", "r"]}, "r w", id="nor are roles"),
        pytest.param({"scope": "w", "roles": ["r"], "permissions": "r"}, "r", id="nor beside scopes"),
    ],
)
async def test_fc_056_the_first_claim_counts_alone(
    scene: Scene, claims: dict[str, Any], outcome: str | int | None
) -> None:
    await require_read_as(scene, outcome, **claims)


@pytest.mark.parametrize(
    ("claims", "missing"),
    [
        pytest.param({"permissions": ["w", "r"]}, None, id="the claim the policy names"),
        pytest.param({"permissions": ["w"], "scope": "w r"}, "r", id="and no other"),
    ],
)
async def test_fc_056_which_claims_are_read_is_the_policys_to_say(
    start: Start, agent: Agent, issuer: Issuer, claims: dict[str, Any], missing: str | None
) -> None:
    trusted = {"issuer": issuer.url, "audiences": ["agent"], "claims": {"scopes": ["permissions"]}}
    running = await start(identity={"issuers": [trusted]})
    agent.script = answers({"task": a_task("t-1")})
    headers = {"Authorization": f"Bearer {issuer.mint(sub='alice', **claims)}", "A2A-Version": "1.0"}
    call = envelope_of_a_send()
    answer = await running.send("POST", "/", who=None, json=call, headers=headers)
    assert ("result" in answer.json) is (missing is None)
    assert missing is None or f"missing {missing}" in answer.json["error"]["message"]


def envelope_of_a_send(**message: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": a_message(**message)}}


# --- FC-058 --------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", each(SENDING))
@pytest.mark.parametrize(
    ("card", "policy"),
    [
        pytest.param(a_card([{"o": ["need"]}]), {}, id="the card"),
        pytest.param(a_card(None, [{"o": ["need"]}]), {}, id="the card's skill"),
        pytest.param(a_card(None), {"lifecycle": {"get": ["need"]}}, id="the policy, for all tasks"),
        pytest.param(
            a_card(None), {"skills": {"review": {"scopes": ["need"]}}}, id="the policy, for a skill"
        ),
    ],
)
async def test_fc_058_a_scope_that_is_named_is_checked(
    start: Start, agent: Agent, card: dict[str, Any], policy: dict[str, Any], row: Row
) -> None:
    """The smallest policy that names one."""
    agent.card = card
    running = await start(agents=every_dialect(agent), scopes=policy)
    cell = Cell(row, running, agent)
    request, made = submission(row)
    require_lacking(row, await cell.ask(request, scope="other"), "need")
    assert agent.received == []
    agent.script, said = replying(row, made, context=f"c-{made}")
    assert (await cell.ask(request, scope="need")).body == said


@pytest.mark.parametrize("row", each(row_of(r, Operation.GET_TASK) for r in ONE_OF_EACH))
async def test_fc_058_a_scope_named_for_an_operation_is_checked_there(
    start: Start, agent: Agent, row: Row
) -> None:
    agent.card = a_card(None)
    policy = {"per_operation": "enforce", "lifecycle": {"get": ["need"]}}
    running = await start(agents=every_dialect(agent), scopes=policy)
    cell = Cell(row, running, agent)
    task = await cell_with_task(cell)
    agent.received.clear()
    own, absent = [await cell.ask(row.on_a_task(id_), scope="w r") for id_ in (task, a_random_id())]
    assert b"InsufficientScope" in own.body
    assert b"missing need" in own.body
    assert own.status == absent.status == (200 if row.jsonrpc else 403)
    assert own.header("WWW-Authenticate") == 'Bearer error="insufficient_scope", scope="need"'
    assert agent.received == []
    agent.script, said = replying(row, task, context=f"c-{task}")
    assert (await cell.ask(row.on_a_task(task), scope="need")).body == said


async def cell_with_task(cell: Cell) -> str:
    """A task of alice's, submitted with a token that holds what the policy names."""
    create = row_of(cell.row, Operation.SEND_MESSAGE)
    request, made = submission(create)
    cell.agent.script, _ = replying(create, made, context=f"c-{made}")
    assert made.encode() in (await cell.ask(request, scope="need")).body
    return made


SCOPES_ALONE = [
    pytest.param("scopes: {lifecycle: {send: [w]}}", id="for all tasks"),
    pytest.param("scopes: {skills: {review: {scopes: [w]}}}", id="for a skill"),
    pytest.param("scopes: {per_operation: enforce, lifecycle: {get: [r]}}", id="for an operation"),
    pytest.param(
        "identity: {issuers: []}\nscopes: {lifecycle: {send: [w]}}", id="with an empty list of issuers"
    ),
]


@pytest.mark.parametrize("policy", SCOPES_ALONE)
def test_fc_058_scopes_without_anybody_to_check_them_on_stop_the_start(tmp_path: Path, policy: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(f"version: 1\nupstream: http://127.0.0.1:9000\npublic_url: https://a.test\n{policy}\n")
    with pytest.raises(
        PolicyError, match=r"nobody could call: .*the scopes this policy names would be checked on nobody"
    ):
        load([path])


# --- FC-059 --------------------------------------------------------------------------------------


def ways(row: Row) -> Iterator[Request]:
    """Every form in which this row submits."""
    plain, _ = submission(row)
    yield plain
    yield submission_in_snake_case(row)
    if row.dialect.version is not V0_1:
        for name in ("returnImmediately", "blocking"):
            for value in (True, False):
                yield a_submission(row, with_member("configuration", name, value))[0]
    if row.dialect.version is V1_0 and row.jsonrpc:
        yield a_submission(row, with_member("params", "tenant", TENANT))[0]
    if row.dialect.version is V1_0 and not row.jsonrpc:
        yield replace(plain, target=f"/{TENANT}{plain.target}")
        yield replace(plain, target=f"{plain.target}?tenant={TENANT}")
    if row.jsonrpc:
        yield replace(plain, target="/some/where")
        yield replace(plain, headers=plain.headers | {"Content-Type": "text/plain"})


def submission_in_snake_case(row: Row) -> Request:
    return a_submission(row, lambda _, request: request, snake=True)[0]


@in_session
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_059_every_way_to_submit_is_refused_alike(scenes: Scenes, row: Row) -> None:
    """At one sidecar that fronts all dialects. The further ways are `tests/matrix/test_submissions.py`."""
    scene = await scenes(of_agent={"tenants": [TENANT]})
    for request in ways(row):
        headers = [f"{name}: {value}" for name, value in request.headers.items()]
        line = f"{request.method} {request.target}"
        answer = await scene.ask(line, *headers, body=request.body, who="alice", scope="w")
        require_divergence(row, answer)
        assert (answer.header("Content-Type") == "text/event-stream") is row.sse
    assert scene.untouched


# --- FC-062 --------------------------------------------------------------------------------------

AGENT = {"name": "review", "upstream": "http://127.0.0.1:9000", "public_url": "https://agents.test"}
TRUSTED = {"issuer": "https://idp.test", "audiences": ["agent"]}


def with_value(path: str, value: Any) -> dict[str, Any]:
    """A good policy but for the value at `path`; `...` leaves the key out."""
    document: Any = {"version": 1, "agents": [dict(AGENT)], "identity": {"issuers": [dict(TRUSTED)]}}
    *way, last = path.split(".")
    here = document
    for part in way:
        here = here[int(part)] if part.isdecimal() else here.setdefault(part, {})
    here.pop(last, None)
    if value is not ...:
        here[last] = value
    return document  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("path", "value", "why"),
    [
        ("identity.issuers", [], "nobody could call"),
        ("identity.issuers", ..., "nobody could call"),
        ("identity.issuers", None, "has no value"),
        ("identity.issuers", [""], "a mapping is expected"),
        ("identity.issuers", ["*"], "a mapping is expected"),
        ("identity.issuers.0.issuer", "*", "issuer: "),
        ("identity.issuers.0.audiences", [], "an empty list lets nobody in"),
        ("identity.issuers.0.audiences", ..., "is missing"),
        ("identity.issuers.0.audiences", None, "has no value"),
        ("identity.issuers.0.audiences", [""], "must not be empty"),
        ("identity.issuers.0.audiences", ["*"], "has no wildcards"),
        ("agents.0.audiences", [], "an empty list lets nobody in"),
        ("agents.0.audiences", None, "has no value"),
        ("agents.0.audiences", [""], "must not be empty"),
        ("agents.0.audiences", ["*"], "has no wildcards"),
        ("identity.issuers.0.algorithms", [], "an empty list accepts no token"),
        ("identity.issuers.0.algorithms", ["*"], "is not known"),
        ("identity.issuers.0.actors", None, "has no value"),
        ("identity.issuers.0.actors", [""], "must not be empty"),
        ("identity.allowed_principals", [], "unknown key"),
        ("identity.allowed_principals", ["*"], "unknown key"),
        ("identity.anonymous", "*", "is not known"),
        ("agents.0.tenants", None, "has no value"),
        ("agents.0.tenants", [""], "must not be empty"),
        ("agents.0.tenants.t1.claims.tid", [""], "must not be empty"),
        ("agents.0.dialects", [], "an empty list fronts nothing"),
        ("agents.0.dialects", ["*"], "is not known"),
        ("other_paths.methods", None, "has no value"),
        ("other_paths.methods", [""], "must not be empty"),
        ("other_paths.methods", ["*"], "there are no wildcards"),
        ("other_paths.anonymous", [""], "must start with"),
        ("other_paths.anonymous", ["*"], "must start with"),
        ("other_paths.anonymous", ["/*"], "opens every path"),
        ("other_paths.default", "", "is not known"),
        ("push.allow", None, "has no value"),
        ("push.allow", [""], "must begin with"),
        ("push.allow", ["*"], "must begin with"),
    ],
)  # fmt: skip
def test_fc_062_a_list_that_lets_nobody_or_anybody_in_by_accident_stops_the_start(
    tmp_path: Path, path: str, value: Any, why: str
) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text(json.dumps(with_value(path, value), indent=1))
    with pytest.raises(PolicyError, match=why):
        load([file])


async def in_a_tenant(running: Sidecar, tenant: str | None, **claims: Any) -> Answer:
    token = running.token("alice", **claims)
    call = envelope_of_a_send()
    call["params"] |= {"tenant": tenant} if tenant is not None else {}
    headers = {"Authorization": f"Bearer {token}", "A2A-Version": "1.0"}
    return await running.send("POST", "/", who=None, json=call, headers=headers)


@pytest.mark.parametrize(
    ("tenants", "tenant", "passes"),
    [
        pytest.param(..., "t1", False, id="none said: none may be named"),
        pytest.param([], "t1", False, id="an empty list: none may be named"),
        pytest.param({}, "t1", False, id="an empty mapping"),
        pytest.param(["*"], "t1", False, id="a star is a name"),
        pytest.param(["*"], "*", True, id="and only that"),
        pytest.param(["t1"], "t1", True, id="the one that is listed"),
        pytest.param({"t1": {"claims": {"tid": []}}}, "t1", False, id="no value of a claim will do"),
        pytest.param({"t1": {"claims": {"tid": ["*"]}}}, "t1", False, id="nor does a star"),
        pytest.param({"t1": {"claims": {"tid": ["acme"]}}}, "t1", True, id="the value that is listed"),
        pytest.param({"t1": {"claims": {"tid": ["acme"]}}}, "t2", False, id="no tenant that was added later"),
    ],
)
async def test_fc_062_an_empty_list_of_tenants_is_no_tenant(
    start: Start, agent: Agent, tenants: Any, tenant: str, passes: bool
) -> None:
    own = {} if tenants is ... else {"tenants": tenants}
    running = await start(agents=[AGENT | {"upstream": agent.url} | own])
    agent.script = answers({"task": a_task("t-1")})
    answer = await in_a_tenant(running, tenant, tid="acme")
    if passes:
        assert answer.json["result"]["task"]["id"] == "t-1"
    else:
        assert answer.json["error"]["code"] == -32001
        assert agent.received == []


@pytest.mark.parametrize("methods", [..., []], ids=["absent", "empty"])
async def test_fc_062_an_empty_list_of_methods_is_no_method(start: Start, agent: Agent, methods: Any) -> None:
    running = await start(other_paths={} if methods is ... else {"methods": methods})
    for method in ("custom/method", "*", ""):
        answer = await running.call(method, {})
        assert answer.json["error"]["code"] in (-32601, -32600)
    assert agent.received == []


@pytest.mark.parametrize("paths", [..., []], ids=["absent", "empty"])
async def test_fc_062_an_empty_list_of_open_paths_opens_none(start: Start, agent: Agent, paths: Any) -> None:
    running = await start(other_paths={} if paths is ... else {"anonymous": paths})
    for target in ("/healthz", "/", "/*"):
        assert (await running.send("GET", target, who=None)).status == 401
    assert agent.received == []


async def test_fc_062_an_empty_list_of_webhook_hosts_is_no_host(start: Start, agent: Agent) -> None:
    running = await start(push={"allow": []})
    agent.script = answers({"task": a_task("t-1")})
    await running.submit()
    agent.received.clear()
    hook = {"taskId": "t-1", "id": "h", "url": "https://hooks.example.com/a2a"}
    answer = await running.call("CreateTaskPushNotificationConfig", hook)
    assert answer.json["error"]["code"] in (-32602, -32003)
    assert agent.received == []


@pytest.mark.parametrize(
    ("actors", "act", "status"),
    [
        pytest.param(..., {"sub": "planner"}, 200, id="absent: everybody may act, as documented"),
        pytest.param([], {"sub": "planner"}, 401, id="an empty list: nobody may"),
        pytest.param(["*"], {"sub": "planner"}, 401, id="a star is a name"),
        pytest.param(["planner"], {"sub": "planner"}, 200, id="the one that is listed"),
        pytest.param([], None, 200, id="who calls for oneself acts for nobody"),
    ],
)
async def test_fc_062_an_empty_list_of_actors_is_nobody(
    start: Start, agent: Agent, issuer: Issuer, actors: Any, act: Any, status: int
) -> None:
    trusted = {"issuer": issuer.url, "audiences": ["agent"]} | ({} if actors is ... else {"actors": actors})
    running = await start(identity={"issuers": [trusted]})
    agent.script = answers({"task": a_task("t-1")})
    answer = await in_a_tenant(running, None, **({"act": act} if act else {}))
    assert answer.status == status
    assert ("result" in answer.json) is (status == 200)
    assert (agent.received == []) is (status != 200)


# --- FC-063 --------------------------------------------------------------------------------------

ABSENT = object()
# What nobody who is refused for scopes has any business knowing.
INTERNALS = {
    "skills": {"hidden-skill": {"scopes": ["hidden:scope"]}},
    "implies": {"hidden:admin": ["hidden:all"]},
    "lifecycle": {},
}


@in_session
@pytest.mark.parametrize("row", each(SENDING))
async def test_fc_063_a_refusal_is_a_good_answer_of_its_dialect(scenes: Scenes, row: Row) -> None:
    scene = await scenes(scopes=INTERNALS)
    for rpc_id in RPC_IDS if row.jsonrpc else (1,):
        request, _ = a_submission(row, lambda _, request: request, rpc_id)
        answer = await told_raw(scene, request)
        require_divergence(row, answer, rpc_id)
        if row.jsonrpc:
            assert b'"jsonrpc":"2.0"' in answer.body
            assert b'"id":' + json.dumps(rpc_id).encode() + b"," in answer.body  # its type and digits, too
            assert b'"result"' not in answer.body
            assert type(told(row, answer)["error"]["code"]) is int
        everything = json.dumps(answer.shown[1]).encode() + answer.body
        for internal in (b"hidden", scene.agent.url.encode(), scene.running.issuer.url.encode(), b"sqlite"):
            assert internal not in everything
    assert scene.untouched


@in_session
@pytest.mark.parametrize("row", each(row for row in SENDING if row.jsonrpc))
async def test_fc_063_a_call_without_an_id_is_answered_as_such(scenes: Scenes, row: Row) -> None:
    """It could not be told what became of it; so it is refused before its scopes are looked at."""
    scene = await scenes(scopes=INTERNALS)
    request, _ = submission(row)
    assert request.body is not None
    call = {name: value for name, value in json.loads(request.body).items() if name != "id"}
    answer = await told_raw(scene, replace(request, body=json.dumps(call).encode()))
    require_error(row, answer, jsonrpc=-32600, http=400, rpc_id=None)
    assert scene.untouched


@in_session
@pytest.mark.parametrize("media_type", ["application/json", "application/a2a+json"])
@pytest.mark.parametrize("row", each(row for row in SENDING if not row.jsonrpc))
async def test_fc_063_the_content_type_is_that_of_the_binding(
    scenes: Scenes, row: Row, media_type: str
) -> None:
    scene = await scenes(scopes=INTERNALS)
    request, _ = submission(row)
    answer = await told_raw(scene, replace(request, headers=request.headers | {"Content-Type": media_type}))
    assert answer.status == 403
    assert answer.header("Content-Type") == media_type
    assert answer.header("WWW-Authenticate") == 'Bearer error="insufficient_scope", scope="r w"'
    assert scene.untouched


async def told_raw(scene: Scene, request: Request) -> Answer:
    headers = [f"{name}: {value}" for name, value in request.headers.items()]
    line = f"{request.method} {request.target}"
    return await scene.ask(line, *headers, body=request.body, who="alice", scope="w")
