"""`a2a-sidecar check`: what a case file may say, what is run, how it is told, and the exit codes."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import orjson
import pytest
import yaml

from sidecar.cases import CASE_FAILED, GOOD, WRONG_FILE, Report, check
from sidecar.cases.document import CaseFile, Expectation, Owned, Request, Who
from sidecar.cases.report import document, expansions, lines
from sidecar.config import effective, load, to_yaml

POLICIES = Path(__file__).parent.parent.parent / "policies"

POLICY = """version: 1
upstream: http://127.0.0.1:9000
public_url: https://agents.test/review
issuer: https://idp.test
audience: review
"""
TWO_AGENTS = """version: 1
agents:
- {name: a, mount: /a, upstream: "http://127.0.0.1:9000", public_url: "https://agents.test/a"}
- {name: b, mount: /b, upstream: "http://127.0.0.1:9001", public_url: "https://agents.test/b"}
identity: {issuers: [{issuer: "https://one.test", audiences: [a]}, {issuer: "https://two.test", audiences: [a]}]}
"""
CARD = """card:
  supportedInterfaces: [{url: "http://127.0.0.1:9000/", protocolBinding: JSONRPC, protocolVersion: "1.0"}]
  securitySchemes: {o: {type: oauth2}}
  skills: [{id: review, security: [{o: [r, w]}]}]
"""
ALICE = "{subject: alice, scopes: [r, w]}"
GET = '{body: {jsonrpc: "2.0", id: 1, method: GetTask, params: {id: t-1}}}'
SEND = (
    '{body: {jsonrpc: "2.0", id: 1, method: SendMessage, params: '
    "{message: {messageId: m, role: ROLE_USER, parts: [{text: hi}]}}}}"
)
TENANTED = POLICY.replace(
    "issuer: https://idp.test\naudience: review",
    "identity: {issuers: [{issuer: 'https://idp.test', audiences: [review], claims: {tenant: tid}}]}",
)
ANONYMOUS = POLICY + "identity: {anonymous: {subject: dev, scopes: [r, w]}}\n"
LISTED = """version: 1
agents: [{name: a, upstream: "http://127.0.0.1:9", public_url: "https://a.test", dialects: [JSONRPC/1.0]}]
identity: {issuers: [{issuer: "https://idp.test", audiences: [a]}]}
"""
LASTING = POLICY + "scopes: {min_remaining_lifetime: 10m}\n"
OBSERVING = POLICY + "mode: observe\n"
CLIENTS = POLICY + "ownership: {owner_claims: [azp, client_id]}\n"


def a_case(expect: str, who: str = ALICE, request: str = GET, owns: str = "[]", name: str = "a case") -> str:
    return f"- name: {name}\n  who: {who}\n  owns: {owns}\n  request: {request}\n  expect: {expect}\n"


def a_file(*cases: str, card: str = CARD, policy: str = "../policy.yaml") -> str:
    return f"policy: {policy}\n{card}cases:\n{''.join(cases)}"


def checked(folder: Path, cases: str, policy: str = POLICY) -> Report:
    (folder / "policy.yaml").write_text(policy)
    (folder / "cases").mkdir()
    (folder / "cases" / "some.yaml").write_text(cases)
    return check([folder])


def told(report: Report, folder: Path) -> str:
    return "\n".join(lines(report)).replace(f"{folder}/", "")


# --- what is decided -----------------------------------------------------------------------------

OWN = "[{task: t-1, context: c-1}]"
MISSING_W = "{decision: refuse, reason: capability_scope_divergence, missing: [w], skill: review}"


@pytest.mark.parametrize(
    ("case", "policy"),
    [
        pytest.param(a_case("permit", owns=OWN), POLICY, id="what the caller owns may be read"),
        pytest.param(a_case("not_found"), POLICY, id="what the caller does not own does not exist"),
        pytest.param(a_case("permit", request=SEND), POLICY, id="a token that covers the skill may create"),
        pytest.param(
            a_case(MISSING_W, "{subject: alice, scopes: [r]}", SEND), POLICY, id="missing scopes are compared"
        ),
        pytest.param(
            a_case("{decision: refuse}", "{subject: alice, scopes: []}", SEND),
            POLICY,
            id="any refusal will do",
        ),
        pytest.param(
            a_case("token_lifetime_too_short", "{subject: a, scopes: [r, w], expires_in: 599s}", SEND),
            LASTING,
            id="a token that expires too early",
        ),
        pytest.param(
            a_case("permit", "{subject: a, scopes: [r, w], expires_in: 10m}", SEND),
            LASTING,
            id="one that does not",
        ),
        pytest.param(
            a_case("permit", request=SEND), LASTING, id="a token of a case does not expire by itself"
        ),
        pytest.param(a_case("unauthenticated", "nobody"), POLICY, id="nobody has no token"),
        pytest.param(a_case("permit", "nobody", owns=OWN), ANONYMOUS, id="nobody is whom the policy says"),
        pytest.param(
            a_case("unauthenticated", "{subject: a, scopes: [], issuer: 'https://evil.test'}"),
            POLICY,
            id="another issuer is not trusted",
        ),
        pytest.param(a_case("unauthenticated"), TENANTED, id="a token without its tenant is refused"),
        pytest.param(
            a_case("permit", "{subject: a, tenant: t, scopes: []}", owns=OWN),
            TENANTED,
            id="with it, it passes",
        ),
        pytest.param(a_case("unauthenticated"), CLIENTS, id="a token without its client is refused"),
        pytest.param(
            a_case("permit", "{subject: a, client: c, scopes: []}", owns=OWN),
            CLIENTS,
            id="a client is two claims",
        ),
        pytest.param(
            a_case("tenant_mismatch", owns="[{task: t-1, tenant: acme}]"),
            POLICY,
            id="a task of another A2A tenant is not found",
        ),
        pytest.param(
            a_case("{decision: permit, observed: not_found}"), OBSERVING, id="what is observed is compared"
        ),
        pytest.param(
            a_case("{decision: permit, observed: nothing}", owns=OWN), OBSERVING, id="so is that nothing is"
        ),
        pytest.param(
            a_case("bad_path", request="{path: /a/%2e%2e/b}"), POLICY, id="the target is read as sent"
        ),
        pytest.param(
            a_case("unparsable", request='{body: \'{"a":1,"a":2}\'}'), POLICY, id="text is sent as it is"
        ),
        pytest.param(
            a_case("invalid_request", request="{body: [{jsonrpc: '2.0', id: 1, method: GetTask}]}"),
            POLICY,
            id="a list is a batch",
        ),
        pytest.param(
            a_case("encoding_refused", request="{headers: {Content-Encoding: br}, body: '{}'}"),
            POLICY,
            id="bodies are read as they are at the edge",
        ),
        pytest.param(
            a_case("card", "nobody", "{method: GET, path: /.well-known/agent-card.json}"),
            POLICY,
            id="the public card is answered by the sidecar",
        ),
        pytest.param(
            a_case("permit", request="{method: PUT, path: /files/a.txt, body: hello}"),
            POLICY,
            id="what is no A2A passes",
        ),
    ],
)
def test_a_case_that_holds(tmp_path: Path, case: str, policy: str) -> None:
    report = checked(tmp_path, a_file(case), policy)
    assert report.exit_code == GOOD, told(report, tmp_path)
    assert [result.good for result in report.results] == [True]


@pytest.mark.parametrize(
    ("case", "said"),
    [
        pytest.param(
            a_case("permit"),
            ["expected: permit", "decided:  refuse not_found", "get (JSONRPC/1.0)", "task not the caller's"],
            id="a refusal where a permit is expected",
        ),
        pytest.param(
            a_case("not_found", owns=OWN), ["expected: not_found", "decided:  permit"], id="and the other way"
        ),
        pytest.param(
            a_case("tenant_mismatch"), ["decided:  refuse not_found"], id="another reason than expected"
        ),
        pytest.param(
            a_case("{decision: refuse, missing: [r]}", "{subject: a, scopes: [r]}", SEND),
            ["expected: refuse, missing r", "missing w", "needs r w; holds r", "the only skill of the card"],
            id="other scopes missing than expected",
        ),
        pytest.param(
            a_case("{decision: refuse, missing: []}", "{subject: a, scopes: [r]}", SEND),
            ["expected: refuse, missing nothing"],
            id="scopes missing where none should be",
        ),
        pytest.param(
            a_case("{decision: permit, skill: other}", request=SEND),
            ['expected: permit, skill "other"', 'decided:  permit, skill "review"'],
            id="judged by another skill",
        ),
        pytest.param(
            a_case("{decision: permit, observed: not_found}", owns=OWN),
            ["expected: permit, observed not_found", "decided:  permit"],
            id="nothing observed where something should be",
        ),
        pytest.param(
            a_case("card", request="{method: GET, path: /docs}"), ["decided:  permit"], id="no card, a permit"
        ),
    ],
)
def test_a_case_that_fails(tmp_path: Path, case: str, said: list[str]) -> None:
    report = checked(tmp_path, a_file(case))
    assert report.exit_code == CASE_FAILED
    text = told(report, tmp_path)
    for part in ["  ✗ a case", "cases/some.yaml:7", *said, "1 policy, 1 case: 1 case failed"]:
        assert part in text, text


def test_a_case_that_fails_tells_how_long_the_token_lives(tmp_path: Path) -> None:
    case = a_case("{decision: permit, skill: review}", "{subject: a, scopes: [r, w], expires_in: 3m}", SEND)
    report = checked(tmp_path, a_file(case), LASTING)
    assert report.exit_code == CASE_FAILED
    text = told(report, tmp_path)
    for part in (
        'decided:  refuse token_lifetime_too_short, missing nothing, skill "review"',
        "lifetime: needs 600s; 180s left",
    ):
        assert part in text, text


def test_without_a_card_nothing_is_created(tmp_path: Path) -> None:
    report = checked(tmp_path, a_file(a_case("card_unavailable", request=SEND), card=""))
    assert report.exit_code == GOOD, told(report, tmp_path)


def test_every_agent_has_its_own_card_and_tasks(tmp_path: Path) -> None:
    who = "{issuer: 'https://one.test', subject: alice, scopes: [r, w]}"
    at = {name: GET.replace("{body", "{path: " + f"/{name}/, body", 1) for name in "ab"}
    send = SEND.replace("{body", "{path: /b/, body", 1)
    owns = "[{agent: a, task: t-1}]"
    cards = CARD.replace("card:\n", "cards:\n a:\n").replace("\n  ", "\n   ")
    report = checked(
        tmp_path,
        a_file(
            a_case("permit", who, at["a"], owns, "at its own agent"),
            a_case("not_found", who, at["b"], owns, "at the other"),
            a_case("card_unavailable", who, send, name="the other has no card"),
            a_case("agent_not_found", who, "{path: /c/}", name="no agent has this mount"),
            card=cards,
        ),
        TWO_AGENTS,
    )
    assert report.exit_code == GOOD, told(report, tmp_path)


# --- what is wrong -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cases", "policy", "message"),
    [
        pytest.param(
            a_file(a_case("permit"), card="crad: {}\n"), POLICY, "2: crad: unknown key; did you mean `card`?", id="a misspelt key"
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a, scopes: [], role: x}")),
            POLICY,
            "8: cases[0].who.role: unknown key; known here: `subject`, `scopes`, `issuer`, `tenant`, `client`, "
            "`expires_in`",
            id="an unknown key deeper down",
        ),
        pytest.param(
            a_file(a_case("not_fuond")), POLICY, "11: cases[0].expect: `not_fuond` is not known; did you mean `not_found`?", id="an unknown reason"
        ),
        pytest.param(
            a_file(a_case("{decision: maybe}")),
            POLICY,
            "cases[0].expect.decision: is not known; write `permit` or `refuse`",
            id="an unknown decision",
        ),
        pytest.param(
            a_file(a_case("{decision: permit, reason: not_found}")),
            POLICY,
            "cases[0].expect: a permit has no `reason`; write `observed`",
            id="a permit with a reason",
        ),
        pytest.param(
            a_file(a_case("{decision: refuse, observed: not_found}")),
            POLICY,
            "cases[0].expect: a refusal has no `observed`; write `reason`",
            id="a refusal that observes",
        ),
        pytest.param(
            a_file(a_case("permit", "somebody")), POLICY, "8: cases[0].who: is not known; write `nobody`", id="who is no name"
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a}")), POLICY, "8: cases[0].who.scopes: is missing", id="scopes left out"
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a, scopes: r w}")),
            POLICY,
            "8: cases[0].who.scopes: a list is expected, not a single value",
            id="scopes as a string",
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a, scopes: [r w]}")),
            POLICY,
            "8: cases[0].who.scopes[0]: a scope holds no blanks",
            id="two scopes in one",
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: 7, scopes: []}")),
            POLICY,
            '8: cases[0].who.subject: a string is expected, and YAML reads `7` as a number; write `"7"`',
            id="a number for a subject",
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a, scopes: [], expires_in: 600}")),
            POLICY,
            "8: cases[0].who.expires_in: a duration is expected; write it with its unit, as in `60s`",
            id="a duration without its unit",
        ),
        pytest.param(
            a_file(a_case("permit", request="[GET, /]")),
            POLICY,
            "10: cases[0].request: a mapping is expected, not a list",
            id="a request that is a list",
        ),
        pytest.param(
            a_file(a_case("permit", request="{headers: {A2A-Version: 1.0}}")),
            POLICY,
            '10: cases[0].request.headers.A2A-Version: YAML reads `1.0` as a number; write `"1.0"`',
            id="a version without quotes",
        ),
        pytest.param(
            a_file(a_case("permit", request="{headers: {authorization: Bearer x}}")),
            POLICY,
            "cases[0].request.headers: `Authorization` is not read",
            id="a token in the headers",
        ),
        pytest.param(
            a_file(a_case("permit", request="{path: tasks}")),
            POLICY,
            "cases[0].request.path: must be a request target as sent",
            id="a path without its slash",
        ),
        pytest.param(
            a_file(a_case("permit", request="{body: true}")),
            POLICY,
            "cases[0].request.body: must be a mapping or a list",
            id="a body that is a word",
        ),
        pytest.param(
            a_file(a_case("permit", owns="[{tenant: acme}]")),
            POLICY,
            "9: cases[0].owns[0]: names nothing; write `task`, `context` or both",
            id="owning nothing",
        ),
        pytest.param(
            a_file(a_case("permit", name="' '")), POLICY, "7: cases[0].name: must be text on one line", id="a blank name"
        ),
        pytest.param("policy: ../policy.yaml\ncases: []\n", POLICY, "2: cases: must not be empty", id="no cases"),
        pytest.param("policy: ../policy.yaml\n", POLICY, "1: cases: is missing", id="no key for cases"),
        pytest.param("a: [\n", POLICY, "is no YAML", id="no YAML"),
        pytest.param(
            a_file(a_case("permit"), policy="../other.yaml"),
            POLICY,
            "1: policy: there is no file `other.yaml`; write the policy's path relative to this file's folder",
            id="a policy that is not there",
        ),
        pytest.param(
            a_file(a_case("permit")), "version: 1\n", "1: policy: `policy.yaml` has problems; no case was run", id="a policy that is wrong"
        ),
        pytest.param(
            a_file(a_case("permit"), a_case("permit")),
            POLICY,
            "12: cases[1].name: `a case` is the name of another case already",
            id="two cases of one name",
        ),
        pytest.param(
            a_file(a_case("permit", "{subject: a, scopes: [], tenant: t}")),
            POLICY,
            "8: cases[0].who.tenant: the policy takes no tenant from this issuer's tokens; remove the key",
            id="a tenant nobody reads",
        ),
        pytest.param(
            a_file(a_case("permit"), card=""),
            TWO_AGENTS,
            "4: cases[0].who: say whose token it is with `issuer`; the policy trusts `https://one.test`, `https://two.test`",
            id="an issuer that must be said",
        ),
        pytest.param(
            a_file(a_case("permit")), TWO_AGENTS, "2: card: whose card is it? write `cards` with the names `a`, `b`", id="whose card"
        ),
        pytest.param(
            a_file(a_case("permit"), card="cards: {b2: {}}\n"),
            POLICY,
            "2: cards.b2: the policy has no agent of this name, only `agent`",
            id="a card of no agent",
        ),
        pytest.param(
            a_file(a_case("permit", owns="[{agent: x, task: t}]")),
            POLICY,
            "9: cases[0].owns[0].agent: the policy has no agent of this name, only `agent`",
            id="a task of no agent",
        ),
        pytest.param(
            a_file(a_case("permit"), card="card: {skills: [{name: x}]}\n"), POLICY, "2: card: a skill has no `id`", id="a card that cannot be read"
        ),
        pytest.param(
            a_file(a_case("permit"), card="card: {skills: [{id: x}]}\n"),
            POLICY,
            "2: card: the card has no interface we front",
            id="a card without an interface",
        ),
        pytest.param(
            a_file(a_case("permit"), card=CARD.replace("}]", "}, {url: 'a b', protocolBinding: HTTP+JSON}]", 1)),
            LISTED,
            "2: card: an interface address holds a blank",
            id="a card with a bad address at a door we do not open",
        ),
    ],
)  # fmt: skip
def test_a_wrong_case_file(tmp_path: Path, cases: str, policy: str, message: str) -> None:
    report = checked(tmp_path, cases, policy)
    assert report.exit_code == WRONG_FILE
    assert report.results == ()
    text = told(report, tmp_path)
    assert message in text, text


def test_every_problem_of_every_file_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "worse.yaml").write_text("version: 1\nscopse: {}\nmode: off\n")
    text = told(checked(tmp_path, a_file(a_case("nope", "{}", "{verb: GET}"), card="crad: {}\n")), tmp_path)
    for key in ("worse.yaml:2: scopse", "worse.yaml:3: mode", "policy.yaml: ok"):
        assert key in text
    for key in ("crad", "who.subject", "who.scopes", "request.verb", "expect"):
        assert re.search(rf"cases/some.yaml:\d+: \S*{key}", text), text
    assert "2 policies, 0 cases: 2 files with problems" in text


def test_what_only_the_start_would_refuse_is_told_too(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY.replace("idp.test", "xn--a.test"))
    report = check([tmp_path])
    assert report.exit_code == WRONG_FILE
    assert "policy.yaml:1: identity: issuer `https://xn--a.test`" in told(report, tmp_path)


def test_layers_are_not_combined(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(POLICY)
    (tmp_path / "over.yaml").write_text("version: 1\nmode: observe\n")
    report = check([tmp_path / "base.yaml", tmp_path / "over.yaml"])
    assert [bool(policy.problems) for policy in report.policies] == [False, True]


def test_a_case_file_may_be_named_itself(tmp_path: Path) -> None:
    checked(tmp_path, a_file(a_case("not_found")))
    for path in (tmp_path / "cases" / "some.yaml", tmp_path / "cases"):
        report = check([path])
        assert (report.exit_code, len(report.results), len(report.policies)) == (GOOD, 1, 1)


def test_a_file_named_twice_is_checked_once(tmp_path: Path) -> None:
    checked(tmp_path, a_file(a_case("not_found")))
    report = check([tmp_path, tmp_path / "policy.yaml", tmp_path / "cases" / ".." / "policy.yaml", tmp_path])
    assert (len(report.policies), len(report.cases)) == (1, 1)


def test_a_path_that_leads_nowhere_is_no_success(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    report = check([tmp_path / "empty", tmp_path / "absent.yaml"])
    assert report.exit_code == WRONG_FILE
    text = told(report, tmp_path)
    assert "empty:1: the folder holds no `*.yaml` file" in text
    assert "absent.yaml:1: there is no such file or folder" in text


# --- what is shipped -----------------------------------------------------------------------------


def test_the_examples_decide_as_their_cases_say() -> None:
    report = check([POLICIES])
    assert report.exit_code == GOOD, "\n".join(lines(report))
    assert {Path(c.policy).name for c in report.cases} == {p.name for p in POLICIES.glob("*.yaml")}
    assert all(len(c.results) >= 8 for c in report.cases)


def test_the_example_of_the_reference_holds(tmp_path: Path) -> None:
    blocks = re.findall(r"```yml\n(.+?)```", (POLICIES / "README.md").read_text(), re.S)
    assert len(blocks) == 1
    (tmp_path / "minimal.yaml").write_bytes((POLICIES / "minimal.yaml").read_bytes())
    (tmp_path / "cases").mkdir()
    (tmp_path / "cases" / "some.yaml").write_text(blocks[0])
    report = check([tmp_path])
    assert report.exit_code == GOOD, told(report, tmp_path)


def test_the_reference_has_every_key_of_a_case_file() -> None:
    rows = set(re.findall(r"^\| `([a-z_.\[\]]+)` \| [^|]+ \|$", (POLICIES / "README.md").read_text(), re.M))
    wanted = set(CaseFile.model_fields) | {"cases[].name", "cases[].who", "cases[].owns"}
    wanted |= {"cases[].request", "cases[].expect"}
    models = {"who": Who, "owns[]": Owned, "request": Request, "expect": Expectation}
    wanted |= {f"cases[].{at}.{name}" for at, model in models.items() for name in model.model_fields}
    assert rows == wanted


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.name)
def test_what_is_written_out_in_full_is_the_same_policy(tmp_path: Path, path: Path) -> None:
    policy = load([path])
    (tmp_path / "full.yaml").write_text(to_yaml(effective(policy)))
    assert load([tmp_path / "full.yaml"]).hash == policy.hash


def test_awkward_texts_survive_being_written_out(tmp_path: Path) -> None:
    scopes = (
        'scopes: {skills: {"y": {scopes: ["1e3", "no"]}, "017": {}}, implies: {"on": ["0o7", "~", "x:y"]}}'
    )
    limits = "limits: {body: 1000, reply: 1MiB, body_timeout: 250ms}"
    (tmp_path / "policy.yaml").write_text(f"{POLICY}{scopes}\n{limits}\n")
    policy = load([tmp_path / "policy.yaml"])
    (tmp_path / "full.yaml").write_text(to_yaml(effective(policy)))
    assert load([tmp_path / "full.yaml"]).hash == policy.hash


# --- the command ---------------------------------------------------------------------------------


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sidecar", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, encoding="utf-8")


def test_the_command_tells_what_holds_and_what_does_not(tmp_path: Path) -> None:
    checked(tmp_path, a_file(a_case("not_found", name="this holds"), a_case("permit", name="this does not")))
    done = run(tmp_path)
    assert (done.returncode, done.stderr) == (CASE_FAILED, "")
    assert f"{tmp_path}/policy.yaml: ok" in done.stdout
    assert "  ✓ this holds\n  ✗ this does not\n" in done.stdout


def test_the_command_tells_programs(tmp_path: Path) -> None:
    checked(tmp_path, a_file(a_case("permit", owns=OWN, name="this holds"), a_case(MISSING_W, request=SEND)))
    (tmp_path / "worse.yaml").write_text("version: 1\nscopse: {}\n")
    done = run("--json", "--effective", tmp_path)
    found = orjson.loads(done.stdout)
    assert done.returncode == found["exit_code"] == WRONG_FILE
    assert found["good"] is False
    good, worse = found["policies"]
    assert good["effective"]["agents"][0]["upstream"] == "http://127.0.0.1:9000"
    assert {p["key"]: p["line"] for p in worse["problems"]}["scopse"] == 2
    first, second = found["case_files"][0]["cases"]
    assert (first["good"], first["expected"], first["decided"]["decision"]) == (True, "permit", "permit")
    assert (second["good"], second["expected"]["missing"]) == (False, ["w"])
    assert (second["decided"]["skill"], second["decided"]["missing"]) == ("review", None)


def test_the_command_prints_the_effective_policy_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    done = run("--effective", tmp_path / "policy.yaml")
    assert done.returncode == GOOD
    assert yaml.safe_load(done.stdout) == effective(load([tmp_path / "policy.yaml"]))
    assert "policy.yaml: ok" in done.stderr


def test_expansions_leave_out_what_does_not_load(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text(POLICY)
    (tmp_path / "worse.yaml").write_text("version: 2\n")
    report = check([tmp_path])
    assert len(list(expansions(report))) == 1
    assert "effective" not in document(report, expand=False)["policies"][0]
