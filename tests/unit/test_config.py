"""Policy files: what is read, what is refused, and that every problem is told at once, with its place and a way out."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sidecar.config import Agent, Config, Limits, Ownership, PolicyError, Scopes, load
from sidecar.policy_file import digest
from sidecar.policy_file.values import format_duration, format_size, parse_duration, parse_size

SHORT = """version: 1
upstream: http://127.0.0.1:9000
public_url: https://agents.example.com/review
issuer: https://idp.example.com
audience: review
"""
AGENT = "{name: a, upstream: 'http://127.0.0.1:9000', public_url: 'https://a.example'"
ISSUERS = "identity: {issuers: [{issuer: 'https://idp.example.com', audiences: [a]}]}\n"
LONG = f"version: 1\n{ISSUERS}agents:\n- {AGENT}"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(text: str | bytes, name: str = "policy.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


@pytest.fixture
def told(write: Write, tmp_path: Path) -> Callable[[str | bytes], list[str]]:
    """The problems of one document, without the path of the temporary folder."""

    def told(text: str | bytes) -> list[str]:
        with pytest.raises(PolicyError) as caught:
            load([write(text)])
        return str(caught.value).replace(f"{tmp_path}/", "").splitlines()

    return told


Told = Callable[[str | bytes], list[str]]

# --- what loads ----------------------------------------------------------------------------------


def test_the_short_form_is_one_agent_and_one_issuer(write: Write) -> None:
    policy = load([write(SHORT)])
    assert [(a.name, a.upstream, a.mount) for a in policy.agents] == [("agent", "http://127.0.0.1:9000", "/")]
    assert [(i.issuer, i.audiences) for i in policy.identity.issuers] == [
        ("https://idp.example.com", ("review",))
    ]


def test_the_short_form_means_what_the_long_one_says(write: Write) -> None:
    long = """version: 1
agents: [{name: agent, upstream: 'http://127.0.0.1:9000', public_url: 'https://agents.example.com/review'}]
identity: {issuers: [{issuer: 'https://idp.example.com', audiences: [review]}]}
"""
    assert load([write(SHORT)]).hash == load([write(long)]).hash


def test_the_short_form_takes_a_name_and_other_identity_settings(write: Write) -> None:
    policy = load([write(SHORT + "name: review\nidentity: {keys_refresh: 10m}\n")])
    assert (policy.agents[0].name, policy.identity.keys_refresh) == ("review", 600.0)
    assert policy.identity.issuers[0].audiences == ("review",)


def test_short_agent_and_long_issuers_go_together(write: Write) -> None:
    text = "version: 1\nupstream: http://127.0.0.1:9000\npublic_url: https://a.example\n"
    assert load([write(text + ISSUERS)]).identity.issuers[0].audiences == ("a",)


def test_a_document_may_open_with_a_mark_and_a_byte_order_mark(write: Write) -> None:
    assert load([write(b"\xef\xbb\xbf---\n" + SHORT.encode())]).version == 1


@pytest.mark.parametrize(
    ("line", "section", "key", "value"),
    [
        pytest.param("limits: {body: 64KiB}", "limits", "body", 65536, id="a size in KiB"),
        pytest.param("limits: {body: 1GiB}", "limits", "body", 2**30, id="a size in GiB"),
        pytest.param("limits: {body: 1000}", "limits", "body", 1000, id="a size in bytes"),
        pytest.param("limits: {body_timeout: 250ms}", "limits", "body_timeout", 0.25, id="milliseconds"),
        pytest.param("limits: {body_timeout: '60s'}", "limits", "body_timeout", 60.0, id="seconds, quoted"),
        pytest.param("ledger: {retention: 30d}", "ledger", "retention", 2592000.0, id="days"),
        pytest.param("ledger: {url: 'sqlite:////data/l.db'}", "ledger", "url", "sqlite:////data/l.db", id="an absolute file"),
        pytest.param("ledger: {url: 'memory:'}", "ledger", "url", "memory:", id="memory, said aloud"),
        pytest.param("ledger: {url: 'sqlite:///l.db'}", "ledger", "url", "sqlite:///l.db", id="a relative file"),
        pytest.param("scopes: {mode: disabled}", "scopes", "mode", "disabled", id="a disabled rule"),
        pytest.param("scopes: {skill_from: []}", "scopes", "skill_from", (), id="nobody names a skill"),
        pytest.param('scopes: {unnamed_skill: "no"}', "scopes", "unnamed_skill", "no", id="a quoted no is text"),
        pytest.param("ownership: {unknown_tasks: refuse, grants: []}", "ownership", "grants", (), id="what this version does"),
        pytest.param("other_paths: {default: anonymous, anonymous: [/*]}", "other_paths", "anonymous", ("/*",), id="all open, said aloud"),
        pytest.param("other_paths: {anonymous: [/healthz, /static/*, /]}", "other_paths", "anonymous", ("/healthz", "/static/*", "/"), id="open paths"),
        pytest.param("push: {allow: []}", "push", "allow", (), id="no webhooks"),
        pytest.param("push: {mode: observe}", "push", "allow", ("https://*",), id="webhooks by default"),
        pytest.param("push: {allow: ['http://127.0.0.1:9', 'https://*:*']}", "push", "allow", ("http://127.0.0.1:9", "https://*:*"), id="webhooks"),
        pytest.param("audit: {output: /var/log/a.jsonl}", "audit", "output", "/var/log/a.jsonl", id="a file for audit"),
    ],
)  # fmt: skip
def test_a_value_is_read(write: Write, line: str, section: str, key: str, value: object) -> None:
    assert getattr(getattr(load([write(f"{SHORT}{line}\n")]), section), key) == value


@pytest.mark.parametrize("address", ["127.0.0.1:0", "[::1]:8080", "localhost:8080", "0.0.0.0:65535"])
def test_an_address_to_listen_on(write: Write, address: str) -> None:
    assert load([write(f"{SHORT}listen: '{address}'\n")]).listen == address


def test_two_ports_chosen_by_the_system_do_not_clash(write: Write) -> None:
    assert load([write(f"{SHORT}listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\n")]).admin == "127.0.0.1:0"


@pytest.mark.parametrize(
    "issuer",
    [
        pytest.param("{issuer: 'http://127.0.0.1:8000', audiences: [a]}", id="IPv4 loopback may be http"),
        pytest.param("{issuer: 'http://[::1]:8000', audiences: [a]}", id="IPv6 loopback may be http"),
        pytest.param("{issuer: 'http://localhost', audiences: [a]}", id="localhost may be http"),
        pytest.param(
            "{issuer: 'http://idp', audiences: [a], allow_http: true}", id="http where it is allowed"
        ),
        pytest.param(
            "{issuer: 'https://idp', audiences: [a], jwks_uri: 'https://idp/k?p=x'}", id="keys behind a query"
        ),
    ],
)
def test_an_issuer_is_accepted(write: Write, issuer: str) -> None:
    agent = f"agents: [{AGENT}}}]"
    assert load([write(f"version: 1\nidentity: {{issuers: [{issuer}]}}\n{agent}\n")]).identity.issuers


def test_an_anonymous_principal_is_enough_to_be_called(write: Write) -> None:
    policy = load(
        [write(f"version: 1\nidentity: {{anonymous: {{subject: dev, scopes: [w]}}}}\nagents: [{AGENT}}}]\n")]
    )
    assert not isinstance(policy.identity.anonymous, str)
    assert policy.identity.anonymous.scopes == ("w",)


def test_mounts_may_nest(write: Write) -> None:
    second = "{name: b, upstream: 'http://127.0.0.1:9001', public_url: 'https://b.example', mount: /b}"
    assert [a.mount for a in load([write(f"{LONG}}}\n- {second}\n")]).agents] == ["/", "/b"]


def test_agents_may_share_a_host_under_different_paths(write: Write) -> None:
    agents = "\n".join(
        f"- {{name: {n}, mount: /{n}, upstream: 'http://h:1/{n}', public_url: 'https://{n}.example'}}"
        for n in "ab"
    )
    assert len(load([write(f"version: 1\n{ISSUERS}agents:\n{agents}\n")]).agents) == 2


# --- layers, effective sections, hash ----------------------------------------------------------


def test_a_later_file_is_merged_into_mappings_and_replaces_lists(write: Write) -> None:
    base = (
        SHORT
        + "scopes: {mode: observe, lifecycle: {send: [w], get: [r]}, skill_from: ['header:A', 'header:B']}\n"
    )
    over = "version: 1\nscopes: {lifecycle: {send: [x]}, skill_from: ['header:C']}\n"
    scopes = load([write(base, "base.yaml"), write(over, "over.yaml")]).scopes
    assert scopes.mode == "observe"
    assert scopes.lifecycle == {"send": ("x",), "get": ("r",)}
    assert scopes.skill_from == ("header:C",)


def test_a_layer_may_hold_half_of_the_short_form(write: Write) -> None:
    head, tail = SHORT.split("issuer:")
    assert load([write(head, "a.yaml"), write(f"version: 1\nissuer:{tail}", "b.yaml")]).identity.issuers


def test_problems_of_every_layer_are_told_also_where_a_later_one_replaces_the_value(write: Write) -> None:
    paths = [
        write(SHORT + "mode: enforec\n", "a.yaml"),
        write("version: 1\nmode: observe\nscopse: {}\n", "b.yaml"),
    ]
    with pytest.raises(PolicyError) as caught:
        load(paths)
    assert [(Path(p.file).name, p.line, p.key) for p in caught.value.problems] == [
        ("a.yaml", 6, "mode"),
        ("b.yaml", 3, "scopse"),
    ]


def test_an_unreadable_layer_is_told_with_the_problems_of_the_others(write: Write, tmp_path: Path) -> None:
    with pytest.raises(PolicyError) as caught:
        load([tmp_path / "absent.yaml", write("version: 1\nmode: x\n")])
    first, second = caught.value.problems
    assert "cannot be read" in first.message
    assert (second.line, second.key) == (2, "mode")


def test_every_layer_states_its_version(write: Write) -> None:
    with pytest.raises(PolicyError, match=r"over.yaml:1: version: is missing; write `version: 1`"):
        load([write(SHORT), write("mode: observe\n", "over.yaml")])


def test_no_file_is_no_policy() -> None:
    with pytest.raises(PolicyError, match="no policy file is given"):
        load([])


def test_an_agents_own_section_keeps_every_rule_it_does_not_mention(write: Write) -> None:
    text = f"""{LONG}, scopes: {{lifecycle: {{get: [r2]}}, skills: {{s: {{traverses: [send]}}}}}}, ownership: {{}}, other_paths: {{methods: [m]}}, push: {{allow: ['https://b']}}}}
push: {{allow: ['https://a'], per_task: 3}}
scopes: {{per_operation: enforce, lifecycle: {{send: [w], get: [r]}}, skills: {{s: {{scopes: [x]}}, t: {{scopes: [z]}}}}}}
ownership: {{client_context_ids: refuse}}
other_paths: {{default: refuse}}
"""
    (agent,) = load([write(text)]).agents
    assert agent.scopes is not None
    assert agent.ownership is not None
    assert agent.other_paths is not None
    assert agent.scopes.per_operation == "enforce"
    assert agent.scopes.lifecycle == {"send": ("w",), "get": ("r2",)}
    assert (agent.scopes.skills["s"].scopes, agent.scopes.skills["s"].traverses) == (("x",), ("send",))
    assert agent.scopes.skills["t"].scopes == ("z",)
    assert agent.ownership.client_context_ids == "refuse"
    assert (agent.other_paths.default, agent.other_paths.methods) == ("refuse", ("m",))
    assert agent.push is not None
    assert (agent.push.allow, agent.push.per_task) == (("https://b",), 3)


def test_sections_are_filled_in_code_too() -> None:
    agent = Agent(name="a", upstream="http://a", public_url="https://a", ownership=Ownership(mode="observe"))
    whole = Config(version=1, agents=(agent,), scopes=Scopes(mode="disabled"))
    assert whole.agents[0].scopes == whole.scopes
    assert whole.agents[0].ownership == Ownership(mode="observe")


def test_code_may_write_numbers() -> None:
    assert (Limits(body_timeout=0.5).body_timeout, Limits(body="1KiB").body) == (0.5, 1024)


def test_observing_everything_stays_visible(write: Write) -> None:
    policy = load([write(SHORT + "mode: observe\n")])
    assert (policy.mode, policy.scopes.mode) == ("observe", "enforce")


def test_the_hash_names_what_is_said_and_not_how(write: Write) -> None:
    policy = load([write(SHORT)])
    assert re.fullmatch(r"[0-9a-f]{16}", policy.hash)
    assert load([write(SHORT + "# a comment\nmode: enforce\nlimits: {body: 16384KiB}\n")]).hash == policy.hash
    assert load([write(SHORT + "limits: {body: 1MiB}\n")]).hash != policy.hash
    assert digest(policy) == policy.hash


@pytest.mark.parametrize("text", ["250ms", "1s", "90s", "10m", "1h", "30d"])
def test_a_duration_is_written_as_it_is_read(text: str) -> None:
    assert parse_duration(format_duration(parse_duration(text))) == parse_duration(text)


@pytest.mark.parametrize(
    ("size", "text"), [(1000, "1000"), (2**16, "64KiB"), (2**24, "16MiB"), (2**30, "1GiB")]
)
def test_a_size_is_written_as_it_is_read(size: int, text: str) -> None:
    assert format_size(size) == text
    assert text.isdigit() or parse_size(text) == size


def test_nothing_is_a_duration_too() -> None:
    assert format_duration(0.0) == "0s"


# --- YAML ----------------------------------------------------------------------------------------

YAML = [
    pytest.param("scopes: {}\nscopes: {}\n", "7: scopes: is written twice, first in line 6; keep one of them", id="a section twice"),
    pytest.param("scopes: {mode: observe, mode: enforce}\n", "6: scopes.mode: is written twice, first in line 6", id="a key twice in flow style"),
    pytest.param("scopes: {skills: {a: {}, \"a\": {}}}\n", "6: scopes.skills.a: is written twice", id="a key twice, once in quotes"),
    pytest.param("scopes:\n  <<: {mode: observe}\n", "7: scopes: merge keys (`<<`) are not allowed", id="a merge key"),
    pytest.param("scopes: &s {}\n", "6: scopes: anchors (`&s`) are not allowed", id="an anchor"),
    pytest.param("limits: *s\n", "6: limits: aliases (`*s`) are not allowed; write the value out", id="an alias"),
    pytest.param("name: !!python/object/apply:os.system [touch]\n", "6: name: tags (`!!python/object/apply:os.system`) are not allowed", id="a tag that would run code"),
    pytest.param("name: !include other.yaml\n", "6: name: tags (`!include`) are not allowed", id="a tag that would read a file"),
    pytest.param("name: !!str 1\n", "6: name: tags (`!!str`) are not allowed", id="a tag that changes a type"),
    pytest.param("!!str name: a\n", "6: in a key, tags (`!!str`) are not allowed", id="a tag on a key"),
    pytest.param("name: ${HOME}\n", "6: name: `${…}` is not replaced by anything; write the value itself", id="an environment variable"),
    pytest.param("name: {{ env }}\n", "6: name: a key must be a plain word", id="a template"),
    pytest.param("? [a, b]\n: c\n", "6: a key must be a plain word", id="a list as a key"),
    pytest.param("name:\n", "6: name: has no value; write one, or remove the key for the default", id="a key without a value"),
    pytest.param("name: ~\n", "6: name: has no value", id="a null"),
    pytest.param("scopes: {skills: {no: {}}}\n", "6: scopes.skills: the key `no` reads as a boolean in YAML; write `\"no\"`", id="a boolean as a key"),
    pytest.param("scopes: {skills: {1: {}}}\n", "6: scopes.skills: the key `1` reads as a number in YAML", id="a number as a key"),
    pytest.param("---\nversion: 1\n", "6: a second document starts here", id="a second document"),
    pytest.param("scopes:\n\tmode: observe\n", "7: is indented with a tab; indent with blanks", id="a tab"),
    pytest.param("scopes: {mode: observe\n", "is no YAML", id="a bracket that is not closed"),
    pytest.param("name: " + "[" * 40 + "]" * 40 + "\n", "6: name[0][0]: is nested deeper than 32 levels", id="deep nesting"),
    pytest.param("name: " + "[" * 5000 + "\n", "nest", id="very deep nesting"),
    pytest.param("? " + "{? " * 500 + "\n", "nested deeper", id="deep nesting within keys"),
]  # fmt: skip


@pytest.mark.parametrize(("lines", "message"), YAML)
def test_yaml_that_could_be_read_in_two_ways_is_refused(told: Told, lines: str, message: str) -> None:
    assert any(message in line for line in told(SHORT + lines)), told(SHORT + lines)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        pytest.param(b"", "policy.yaml:1: is empty", id="nothing"),
        pytest.param(b"# nothing\n", "policy.yaml:1: is empty", id="only a comment"),
        pytest.param(b"- a\n", "policy.yaml:1: a policy is a mapping", id="a list"),
        pytest.param(b"text\n", "policy.yaml:1: a policy is a mapping", id="a text"),
        pytest.param(
            b"%YAML 1.1\n---\nversion: 1\n", "policy.yaml:1: `%` directives are not allowed", id="a directive"
        ),
        pytest.param(b"version: 1\nname: \xff\n", "policy.yaml:2: is not UTF-8", id="another encoding"),
        pytest.param("version: 1\n".encode("utf-16"), "policy.yaml:1: is not UTF-8", id="UTF-16"),
        pytest.param(
            b"version: 1\nname: \x07\n", "policy.yaml:2: holds a control character", id="a control character"
        ),
        pytest.param(b"#" * (2**20 + 1), "policy.yaml:1: is larger than 1 MiB", id="a large file"),
    ],
)
def test_a_file_that_is_no_policy_is_refused(told: Told, data: bytes, message: str) -> None:
    assert told(data)[0].startswith(message)


def test_a_tag_is_never_carried_out(told: Told, tmp_path: Path) -> None:
    told(f'{SHORT}name: !!python/object/apply:os.system ["touch {tmp_path}/ran"]\n')
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "on",
        "yes",
        "y",
        "1e3",
        "017",
        "0o17",
        "1:30",
        "2026-01-01",
        ".inf",
        "12345678901234567890",
        "NO",
    ],
)
def test_text_that_is_none_in_yaml_is_refused_where_a_string_belongs(told: Told, text: str) -> None:
    for line in (f"scopes: {{lifecycle: {{send: [{text}]}}}}", f"name: {text}"):
        (problem,) = told(f"{SHORT}{line}\n")
        assert f'write `"{text}"`' in problem


# --- one value ---------------------------------------------------------------------------------

ONE_PROBLEM = [
    # unknown keys
    ("scopes: {skill_form: []}", "scopes.skill_form: unknown key; did you mean `skill_from`?", "a misspelt key"),
    ("scopse: {}", "scopse: unknown key; did you mean `scopes`?", "a misspelt section"),
    ("isuer: x", "isuer: unknown key; did you mean `issuer`?", "a misspelt short key"),
    ("skill_from: []", "skill_from: unknown key here; it belongs at `scopes.skill_from`", "a key at the wrong depth"),
    ("ledger: {xyzzy: 1}", "ledger.xyzzy: unknown key; known here: `url`, `retention` or `retention_open`", "a key like no other"),
    ("scopes: {skills: {a: {scope: [x]}}}", "scopes.skills.a.scope: unknown key; did you mean `scopes`?", "a misspelt key of a skill"),
    ("scopes: {lifecycle: {sned: [x]}}", "scopes.lifecycle.sned: unknown key, did you mean `send`?", "a misspelt operation"),
    ("identity: {anonymous: {subject: a, scope: []}}", "identity.anonymous.scope: unknown key; did you mean `scopes`?", "a misspelt key within a choice"),
    ("identity: {anonymous: {scopes: []}}", "identity.anonymous.subject: is missing", "a principal without a name"),
    ("hash: abc", "hash: unknown key", "the hash, which is no key"),
    ("password: x", "password: unknown key; a policy never holds a secret", "a secret"),
    # what a later version may have
    ("list: {refresh_max: -1}", "list.refresh_max: must be at least 0", "a negative number of requests"),
    ("list: {cursor_ttl: 0s}", "list.cursor_ttl: must be more than 0s", "page tokens that are never good"),
    ("list: {key_files: [keys/a]}", "list.key_files[0]: must be the absolute path of a file", "a relative key file"),
    ("ownership: {unknown_tasks: adopt}", "ownership.unknown_tasks: adopting tasks is not supported by this version; write `refuse`", "adopting"),
    ("ownership: {grants: [x]}", "ownership.grants: a list with entries is not supported by this version", "grants"),
    ("ownership: {streams_outlive_token: false}", "not supported by this version", "ending streams"),
    ("ledger: {url: 'redis://user:hunter2@h'}", "ledger.url: a `redis:` ledger is not supported by this version", "another ledger"),
    # modes
    ("mode: off", "mode: YAML reads `off` as a boolean; write `enforce` or `observe`", "everything off"),
    ("scopes: {mode: off}", "scopes.mode: YAML reads `off` as a boolean; write `disabled`", "a rule off"),
    ("scopes: {mode: false}", "scopes.mode: YAML reads `false` as a boolean; write `disabled`", "a rule false"),
    ("scopes: {mode: on}", "scopes.mode: YAML reads `on` as a boolean; write `enforce`, `observe` or `disabled`", "a rule on"),
    ("scopes: {mode: enfroce}", "scopes.mode: `enfroce` is not known, did you mean `enforce`?", "a misspelt mode"),
    ("scopes: {mode: [enforce]}", "scopes.mode: is a list; write `enforce`, `observe` or `disabled`", "a list for a word"),
    ("identity: {anonymous: allow}", "identity.anonymous: `allow` is not known; write `refuse`", "anonymous callers, loosely"),
    # types
    ("scopes: []", "scopes: a mapping is expected, not a list", "a list for a section"),
    ("limits: 5", "limits: a mapping is expected, not a single value", "a number for a section"),
    ("scopes: {lifecycle: [x]}", "scopes.lifecycle: a mapping is expected, not a list", "a list for a mapping"),
    ("scopes: {skill_from: 'header:A'}", "scopes.skill_from: a list is expected, not a single value; write `[header:A]`", "one value for a list"),
    ("name: [a]", "name: a string is expected, not a list", "a list for a text"),
    ("limits: {depth: '5'}", "limits.depth: a whole number is expected, not `5`; write `5` without quotes", "a quoted number"),
    ("limits: {depth: 1.5}", "limits.depth: a whole number is expected, not `1.5`", "a fraction"),
    ("limits: {depth: 0}", "limits.depth: must be at least 1", "a number too small"),
    ("limits: {depth: 201}", "limits.depth: must be at most 200", "a number too large"),
    # durations and sizes
    ("limits: {body_timeout: 5}", "limits.body_timeout: a duration needs its unit; write `5s`", "a duration without unit"),
    ("limits: {body_timeout: 1:30}", "limits.body_timeout: a duration is expected; write it as in", "a duration as a clock"),
    ("limits: {body_timeout: 1.5s}", "limits.body_timeout: `1.5s` is no duration", "a fraction of a second"),
    ("limits: {body_timeout: 5 s}", "limits.body_timeout: `5 s` is no duration", "a blank before the unit"),
    ("limits: {body_timeout: 0s}", "limits.body_timeout: must be more than 0s", "no time at all"),
    ("limits: {body_timeout: -5s}", "limits.body_timeout: `-5s` is no duration", "a negative time"),
    ("limits: {body_timeout: 999999999d}", "longer than a hundred years", "more than a century"),
    ("limits: {body_timeout: true}", "limits.body_timeout: a duration is expected", "a boolean for a duration"),
    ("limits: {body: 16MB}", "limits.body: `16MB` is no size; write a whole number and a unit", "another unit"),
    ("limits: {body: 0}", "limits.body: must be more than 0", "no byte at all"),
    ("limits: {body: true}", "limits.body: a size is expected", "a boolean for a size"),
    ("limits: {body: []}", "limits.body: a size is expected", "a list for a size"),
    # texts of a form
    ("name: a b", "name: is no name", "a name with a blank"),
    ("name: ''", "name: is no name", "an empty name"),
    ("scopes: {lifecycle: {send: ['a b']}}", 'scopes.lifecycle.send[0]: a scope holds no blanks; write several as a list, `["a", "b"]`', "two scopes in one"),
    ("scopes: {lifecycle: {send: ['']}}", "scopes.lifecycle.send[0]: is no scope", "an empty scope"),
    ("scopes: {implies: {'a b': [c]}}", "a scope holds no blanks", "a key that is no scope"),
    ("scopes: {unnamed_skill: ''}", "scopes.unnamed_skill: must not be empty", "an empty text"),
    ("scopes: {unnamed_skill: ' a'}", "scopes.unnamed_skill: has blanks around it", "blanks around a text"),
    ("scopes: {skill_from: [skillId]}", "scopes.skill_from[0]: write `metadata:KEY` or `header:NAME`", "a source without its kind"),
    ("scopes: {skill_from: ['header:']}", "scopes.skill_from[0]: names no header", "a header without name"),
    ("scopes: {skill_from: ['header:a b']}", "scopes.skill_from[0]: is no header name", "a header with a blank"),
    ("scopes: {skills: {a: {traverses: [read]}}}", "scopes.skills.a.traverses[0]: `read` is not known", "an operation there is not"),
    ("push: {mode: off}", "push.mode: YAML reads `off` as a boolean; write `disabled`", "webhook rules off"),
    ("push: {alow: []}", "push.alow: unknown key; did you mean `allow`?", "a misspelt key of webhooks"),
    ("push: {allow: 'https://*'}", "push.allow: a list is expected, not a single value; write `[https://*]`", "one pattern for a list"),
    ("push: {allow: [hooks.example.com]}", "push.allow[0]: must begin with `https://` or `http://` and a host, as in `https://*.example.com`", "a bare host"),
    ("push: {allow: ['https://*', 'https://*.internal']}", "push.allow[1]: would admit nothing: a wildcard never stands for a name inside; write the host out", "a pattern in vain"),
    ("push: {allow: ['https://10.1']}", "push.allow[0]: has a host that ends in a number; write an IPv4 address in four decimal parts", "a short address"),
    ("push: {resolve: yes}", "push.resolve: `true` or `false` is expected, not `yes`", "a loose boolean"),
    ("push: {per_task: 0}", "push.per_task: must be at least 1", "no webhook by number"),
    ("push: {per_task: 1001}", "push.per_task: must be at most 1000", "too many webhooks"),
    ("push: {per_agent: 5}", "push.per_agent: unknown key; known here: `mode`, `allow`, `resolve` or `per_task`", "a number there is not"),
    ("other_paths: {anonymous: [healthz]}", "other_paths.anonymous[0]: must start with `/`; write `/healthz`", "a relative path"),
    ("other_paths: {anonymous: [/a/../b]}", "other_paths.anonymous[0]: is not canonical", "dot segments"),
    ("other_paths: {anonymous: [/a%2fb]}", "other_paths.anonymous[0]: is not canonical", "an encoded slash"),
    ("other_paths: {anonymous: [/a/]}", "other_paths.anonymous[0]: must not end in `/`; write `/a`", "a slash at the end"),
    ("other_paths: {anonymous: [/*]}", "other_paths.anonymous: `/*` opens every path", "everything open by the way"),
    ("other_paths: {upgrades: ['/ws?x']}", "other_paths.upgrades[0]: is not canonical", "an upgrade with a query"),
    ("other_paths: {methods: ['x*']}", "other_paths.methods[0]: is no JSON-RPC method; write its exact name", "a method with a wildcard"),
    ("listen: ':8080'", "listen: must be `host:port`, an IPv6 host in brackets; write it as in `127.0.0.1:8080`", "a port alone"),
    ("listen: 8080", "listen: a string is expected", "a number to listen on"),
    ("listen: localhost:70000", "listen: must be `host:port`", "a port too high"),
    ("listen: '::1:80'", "listen: must be `host:port`", "IPv6 without brackets"),
    ("listen: 300.0.0.1:80", "listen: `300.0.0.1` is no IP address", "no IPv4 address"),
    ("listen: '[1.2]:80'", "listen: `[1.2]` is no IP address", "no IPv6 address"),
    ("admin: 0.0.0.0:8080", "admin: `listen` (0.0.0.0:8080) and `admin` (0.0.0.0:8080) are the same address", "one port for two"),
    ("listen: 0.0.0.0:9090", "listen: `listen` (0.0.0.0:9090) and `admin` (127.0.0.1:9090) are the same address", "all addresses hold one of them"),
    ("ledger: {url: 'sqlite://l.db'}", "ledger.url: must be `memory:` or `sqlite:///`", "too few slashes"),
    ("ledger: {url: 'sqlite:////'}", "ledger.url: must be `memory:` or `sqlite:///`", "no file"),
    ("ledger: {url: 'sqlite:///l.db?mode=ro'}", "ledger.url: must be `memory:` or `sqlite:///`", "options in the URL"),
    ("audit: {output: stdot}", "audit.output: must be `stdout`, `disabled`, or the absolute path of a file", "a misspelt output"),
    ("scopes: {per_operation: enforce}", "scopes.per_operation: would check nothing: `lifecycle` names no scope", "a rule without effect"),
    ("scopes: {per_operation: enforce, lifecycle: {send: []}}", "scopes.per_operation: would check nothing", "a rule with empty lists"),
    ("identity: {api_keys: {keys: [{subject: a}]}}", 'identity.api_keys.keys[0].sha256: is missing; write the hash of the key, as `printf %s "$KEY" | sha256sum`', "an API key without its hash"),
    ("identity: {api_keys: {keys: [{sha256: " + "a" * 64 + "}]}}", "identity.api_keys.keys[0].subject: is missing; say who it is", "an API key of nobody"),
    ("identity: {api_keys: {keys: [{subject: a, sha256: " + "a" * 64 + ", key: secret-key}]}}", "identity.api_keys.keys[0].key: unknown key; a policy never holds a secret", "an API key in the open"),
    ("identity: {api_keys: {keys: [{subject: a, sha256: secret-key}]}}", "identity.api_keys.keys[0].sha256: is no SHA-256: 64 hexadecimal digits in lower case", "an API key for its hash"),
    ("identity: {api_keys: {keys: [{subject: a, sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855}]}}", "identity.api_keys.keys[0].sha256: is the hash of an empty key", "the hash of nothing"),
    ("identity: {api_keys: {keys: [{subject: a, sha256: " + "a" * 64 + "}, {subject: b, sha256: " + "a" * 64 + "}]}}", "identity.api_keys.keys[1].sha256: is the key of `keys[0]` already", "one key for two callers"),
    ("identity: {api_keys: {header: Authorization}}", "identity.api_keys.header: `Authorization` has a meaning of its own; write another header", "keys in the header of tokens"),
    ("identity: {api_keys: {header: X_A2A-Sidecar-Key}}", "identity.api_keys.header: `X_A2A-Sidecar-Key` has a meaning of its own", "keys in a header of ours"),
    ("identity: {api_keys: {header: a b}}", "identity.api_keys.header: is no header name", "keys in no header"),
    ("identity: {certificates: {principals: ['spiffe://example.org/*']}}", "identity.certificates.principals: no caller could show a certificate: write `tls.client_ca_file`", "certificates nobody is asked for"),
    ("identity: {dpop: {algorithms: [HS256]}}", "identity.dpop.algorithms[0]: `HS256` is not accepted", "proofs with a shared secret"),
    ("identity: {dpop: {max_age: 2h}}", "identity.dpop.max_age: must be at most 1h", "proofs of yesterday"),
    ("identity: {dpop: {nonce: true}}", "identity.dpop.nonce: YAML reads `true` as a boolean; write `disabled` or `required`", "a boolean for a nonce"),
    ("tls: {certificate_file: /c}", "tls.key_file: is missing; say where its private key is", "a certificate without its key"),
    ("tls: {certificate_file: /c, key_file: /k, client_certificate: required}", "tls.client_certificate: nobody could be let in: write `client_ca_file`", "certificates of no authority"),
    ("tls: {certificate_file: c, key_file: /k}", "tls.certificate_file: must be the absolute path of a file", "a certificate at a relative path"),
    ("scopes: {min_remaining_lifetime: 5}", "scopes.min_remaining_lifetime: a duration needs its unit; write `5s`", "a lifetime without unit"),
    ("identity: {keys_refresh: 2h}", "identity.keys_refresh: `keys_max_stale` (1h) is shorter than `keys_refresh` (2h)", "keys too old before they are fetched"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "message"), [pytest.param(a, b, id=c) for a, b, c in ONE_PROBLEM])
def test_one_wrong_value_is_one_problem_in_its_line(told: Told, line: str, message: str) -> None:
    (problem,) = told(f"{SHORT}{line}\n")
    assert problem.startswith("policy.yaml:6: ")
    assert message in problem


def test_a_star_inside_a_path_is_an_ordinary_character(write: Write) -> None:
    assert load([write(SHORT + "other_paths: {anonymous: [/a/*/b]}\n")]).other_paths.anonymous == ("/a/*/b",)


AGENTS = [
    ("mount: a", "agents[0].mount: must start with `/`; write `/a`", "a mount without slash"),
    ("mount: /a/", "agents[0].mount: must not end in `/`", "a mount with a slash at the end"),
    ("mount: /a//b", "agents[0].mount: is not canonical", "a mount with an empty segment"),
    ("mount: /..", "agents[0].mount: is not canonical", "a mount with dots"),
    ("authorization: replace", "agents[0].authorization: with which token? write `authorization_file`, the file that holds it", "replacing without a token"),
    ("authorization_file: /t", "agents[0].authorization_file: is used under `authorization: replace` only", "a token nobody asked for"),
    ("authorization: replace, authorization_file: t", "agents[0].authorization_file: must be the absolute path of a file", "a token at a relative path"),
    ("identity_headers: [subject, tenant, subject]", "agents[0].identity_headers[2]: `subject` is listed already", "a header twice"),
    ("identity_headers: [sub]", "agents[0].identity_headers[0]: `sub` is not known", "a header there is not"),
    ("tls: {ca_file: /ca}", "agents[0].tls: `upstream` is plain http; write `https://`, or remove `tls`", "TLS to plain http"),
    ("card: {signatures: resign}", "agents[0].card.signatures: signing the card anew is not supported by this version", "signing cards"),
    ("card: {max_stale: 30s}", "agents[0].card.max_stale: `max_stale` (30s) is shorter than `refresh` (1m)", "a card too old before it is fetched"),
    ("dialects: [GRPC/1.0]", "agents[0].dialects[0]: gRPC is not supported by this version", "gRPC"),
    ("dialects: [JSONRPC/1.1]", "agents[0].dialects[0]: `JSONRPC/1.1` is not known, did you mean", "a version there is not"),
    ("dialects: []", "agents[0].dialects: an empty list fronts nothing", "no dialect"),
    ("audiences: []", "agents[0].audiences: an empty list lets nobody in", "no audience"),
    ("audiences: ['']", "agents[0].audiences[0]: must not be empty", "an empty audience"),
    ("audiences: ['*']", "agents[0].audiences[0]: an audience is compared whole and has no wildcards", "any audience"),
    ("tenants: {t1: {claims: {tid: 1}}}", "agents[0].tenants.t1.claims.tid: a list is expected", "a number for a claim"),
    ("tenants: {t1: {clams: {}}}", "agents[0].tenants.t1.clams: unknown key; did you mean `claims`?", "a misspelt condition"),
    ("tenants: [a, 5]", "agents[0].tenants: a list holds names of tenants; write strings", "a number for a tenant"),
    ("list: of", "agents[0].list: `of` is not known; write `ledger` or `refuse`", "a misspelt kind of list"),
    ("push: {allow: ['*']}", "agents[0].push.allow[0]: must begin with `https://`", "a webhook without scheme for one agent"),
    ("ownership: {owner_claims: [azp]}", "agents[0].ownership.owner_claims: holds for all agents; write it in the top-level `ownership`", "owners of one agent only"),
    ("other_paths: {anonymous: [/*]}", "agents[0].other_paths.anonymous: `/*` opens every path", "everything of one agent open"),
    ("scopes: {per_operation: enforce}", "agents[0].scopes.per_operation: would check nothing", "a rule of an agent without effect"),
    ("card: {refresh: 5x}", "agents[0].card.refresh: `5x` is no duration", "no duration for a card"),
    ("scopes: {skills: {s: {scope: []}}}", "agents[0].scopes.skills.s.scope: unknown key; did you mean `scopes`?", "a misspelt key of its skill"),
    ("nane: x", "agents[0].nane: unknown key; did you mean `name`?", "a misspelt key"),
]  # fmt: skip


@pytest.mark.parametrize(("part", "message"), [pytest.param(a, b, id=c) for a, b, c in AGENTS])
def test_one_wrong_value_of_an_agent_is_one_problem(told: Told, part: str, message: str) -> None:
    (problem,) = told(f"{LONG}, {part}}}\n")
    assert problem.startswith("policy.yaml:4: ")
    assert message in problem


URLS = [
    ("127.0.0.1:9000", "must be an absolute http or https URL", "without scheme"),
    ("ftp://a", "must be an absolute http or https URL", "another scheme"),
    ("HTTP://a", "must be an absolute http or https URL", "a scheme in upper case"),
    ("/a", "must be an absolute http or https URL", "a path"),
    ("http://", "must be an absolute http or https URL", "without host"),
    ("http://a b", "must be an absolute http or https URL", "with a blank"),
    ("http://a\\b", "must be an absolute http or https URL", "with a backslash"),
    ("http://ä.example", "must be an absolute http or https URL", "beyond ASCII"),
    ("http://[::1", "must be an absolute http or https URL", "with half a bracket"),
    ("http://user:hunter2@a", "must not carry user-info", "with a password"),
    ("http://a/?q=1", "must not carry a query or a fragment", "with a query"),
    ("http://a/#f", "must not carry a query or a fragment", "with a fragment"),
    ("http://a:0", "has no valid host and port", "with port 0"),
    ("http://a:", "has no valid host and port", "with an empty port"),
    ("http://a:70000", "must be an absolute http or https URL", "with a port too high"),
    ("http://-a", "has no valid host and port", "with no host name"),
    ("http://a/b/../c", "has a path that is not canonical", "with dot segments"),
    ("http://a/%2e%2e/c", "has a path that is not canonical", "with encoded dot segments"),
    ("http://a//b", "has a path that is not canonical", "with an empty segment"),
]  # fmt: skip


@pytest.mark.parametrize("key", ["upstream", "public_url"])
@pytest.mark.parametrize(("url", "message"), [pytest.param(a, b, id=c) for a, b, c in URLS])
def test_an_address_is_absolute_and_carries_nothing_else(
    told: Told, key: str, url: str, message: str
) -> None:
    text = re.sub(f"^{key}: .*$", lambda _: f"{key}: '{url}'", SHORT, flags=re.M)
    (problem,) = told(text)
    assert f"{key}: {message}" in problem
    assert "hunter2" not in problem


ISSUER = [
    ("{audiences: [a]}", "issuer: is missing; say whose tokens are accepted", "an issuer without name"),
    ("{issuer: 'https://i'}", "audiences: is missing; say whom its tokens must be meant for", "no audience named"),
    ("{issuer: 'https://i', audiences: []}", "audiences: an empty list lets nobody in", "an empty list of audiences"),
    ("{issuer: 'https://i', audiences: a}", "audiences: a list is expected, not a single value; write `[a]`", "one audience for a list"),
    ("{issuer: 'https://i', audiences: [a], algorithms: [HS256]}", "algorithms[0]: `HS256` is not accepted, whoever can verify", "a shared secret"),
    ("{issuer: 'https://i', audiences: [a], algorithms: [none]}", "algorithms[0]: `none` is not accepted, an unsigned token proves nothing", "unsigned tokens"),
    ("{issuer: 'https://i', audiences: [a], algorithms: []}", "algorithms: an empty list accepts no token", "no algorithm"),
    ("{issuer: 'http://i', audiences: [a]}", "issuer: must be https", "an issuer over http"),
    ("{issuer: 'http://[::1', audiences: [a]}", "issuer: must be an absolute http or https URL", "an issuer that is no URL"),
    ("{issuer: 'http://127.0.0.1.evil.example', audiences: [a]}", "issuer: must be https", "a host that looks like loopback"),
    ("{issuer: 'https://i', audiences: [a], jwks_uri: 'http://i/k'}", "jwks_uri: must be https", "keys over http"),
    ("{issuer: 'https://i', audiences: [a], jwks_uri: 'https://i/k#x'}", "jwks_uri: must not carry a", "keys with a fragment"),
    ("{issuer: 'https://i', audiences: [a], jwks_uri: 'https://i/k?p#x'}", "jwks_uri: must not carry a fragment", "keys with query and fragment"),
    ("{issuer: 'https://i', audiences: [a], jwks_uri: 'https://i/k?p q'}", "jwks_uri: has a query that is no visible ASCII", "keys with a blank"),
    ("{issuer: 'https://i', audiences: [a], leeway: 1h}", "leeway: must be at most 10m", "too much leeway"),
    ("{issuer: 'https://i', audiences: [a], allow_http: 'false'}", "allow_http: `true` or `false` is expected, not `false`; write `false` in lower case and without quotes", "a quoted boolean"),
    ("{issuer: 'https://i', audiences: [a], allow_http: off}", "allow_http: `true` or `false` is expected, not `off`; write `false`", "off for false"),
    ("{issuer: 'https://i', audiences: [a], allow_http: 1}", "allow_http: `true` or `false` is expected, not `1`", "a number for a boolean"),
    ("{issuer: 'https://i', audiences: [a], claims: {subject: email}}", "claims.subject: `email` may change, be given to somebody else", "a subject that changes hands"),
    ("{issuer: 'https://i', audiences: [a], claims: {tenant: preferred_username}}", "claims.tenant: `preferred_username` may change", "a tenant callers pick"),
    ("{issuer: 'https://i', audiences: [a], jwks_uri: 'https://i/k', jwks_file: /k}", "jwks_file: `jwks_uri` is given too; keep one of them", "keys from two places"),
    ("{issuer: 'https://i', audiences: [a], jwks_file: k}", "jwks_file: must be the absolute path of a file", "keys at a relative path"),
    ("{issuer: 'https://i', audiences: [a], max_lifetime: 0s}", "max_lifetime: must be more than 0s", "no lifetime at all"),
    ("{issuer: 'https://i', audiences: [a], actors: planner}", "actors: a list is expected, not a single value; write `[planner]`", "one actor for a list"),
    ("{issuer: 'https://i', audiences: [a], actors: [{issuer: 'https://o'}]}", "actors[0].subject: is missing", "an actor without name"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_id: s}}", "introspection: `client_secret_file` or `client_secret_env`: the issuer answers only to whom it knows", "introspection without a secret"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_id: s, client_secret_file: /s, client_secret_env: S}}", "introspection.client_secret_file: `client_secret_file` or `client_secret_env`: keep one of them", "two secrets"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_id: s, client_secret_file: /s, client_secret: hunter2}}", "introspection.client_secret: unknown key; a policy never holds a secret, write `client_secret_file` or `client_secret_env`", "a secret in the open"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_id: s, client_secret_env: 'a b'}}", "introspection.client_secret_env: is no name of an environment variable", "a secret for its variable"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_secret_file: /s}}", "introspection.client_id: is missing; say what the issuer knows the sidecar as", "introspection by nobody"),
    ("{issuer: 'https://i', audiences: [a], introspection: {client_id: s, client_secret_file: /s, url: 'http://i/x'}}", "introspection.url: must be https", "tokens shown over http"),
    ("{issuer: 'https://i', audiences: [a], claims: {tenant: NO}}", 'claims.tenant: a string is expected, and YAML reads `NO` as a boolean; write `"NO"`', "a tenant that is a boolean"),
]  # fmt: skip


@pytest.mark.parametrize(("issuer", "message"), [pytest.param(a, b, id=c) for a, b, c in ISSUER])
def test_one_wrong_value_of_an_issuer_is_one_problem(told: Told, issuer: str, message: str) -> None:
    (problem,) = told(f"version: 1\nidentity: {{issuers: [{issuer}]}}\nagents: [{AGENT}}}]\n")
    assert f"policy.yaml:2: identity.issuers[0].{message}" in problem


@pytest.mark.parametrize(
    "name",
    [
        *(
            "*",
            "dns:*.example.org",
            "CN=planner",
            "spiffe://Example.org/a",
            "spiffe://*",
            "spiffe://example.org/a*",
        ),
        *(
            "spiffe://example.org/../a",
            "spiffe://example.org/*/a",
            "dns:a.example.org/*",
            "spiffe:///a",
            "dns:",
        ),
        *("dns:A.example.org", "spiffe://example.org//a", "https://example.org/a"),
    ],
)
def test_what_is_no_name_of_a_certificate(told: Told, name: str) -> None:
    tls = "tls: {certificate_file: /c, key_file: /k, client_ca_file: /ca}\n"
    for key in ("principals", "forwarded_by"):
        (problem,) = told(f"{SHORT}{tls}identity: {{certificates: {{{key}: ['{name}']}}}}\n")
        assert f"identity.certificates.{key}[0]: is no name of a certificate; write a SPIFFE id" in problem


def test_verification_is_never_off(told: Told) -> None:
    agent = AGENT.replace("http:", "https:")
    (problem,) = told(f"version: 1\n{ISSUERS}agents: [{agent}, tls: {{verify: false}}}}]\n")
    assert "agents[0].tls.verify: unknown key" in problem


def test_a_certificate_of_ours_needs_its_key(told: Told) -> None:
    agent = AGENT.replace("http:", "https:")
    (problem,) = told(f"version: 1\n{ISSUERS}agents: [{agent}, tls: {{key_file: /k}}}}]\n")
    assert "agents[0].tls: `certificate_file` and `key_file` belong together" in problem


def test_a_proxy_is_no_caller(told: Told) -> None:
    tls = "tls: {certificate_file: /c, key_file: /k, client_ca_file: /ca}\n"
    names = "{principals: ['spiffe://example.org/*'], forwarded_by: ['spiffe://example.org/ingress']}"
    (problem,) = told(f"{SHORT}{tls}identity: {{certificates: {names}}}\n")
    assert "forwarded_by[0]: `spiffe://example.org/ingress` is in `principals` too" in problem


def test_opaque_tokens_are_shown_to_one_issuer(told: Told) -> None:
    asked = "audiences: [a], introspection: {client_id: s, client_secret_file: /s}"
    issuers = f"[{{issuer: 'https://i', {asked}}}, {{issuer: 'https://j', {asked}}}]"
    (problem,) = told(f"version: 1\nidentity: {{issuers: {issuers}}}\nagents: [{AGENT}}}]\n")
    assert "identity.issuers[1].introspection: `issuers[0]` has `introspection` already" in problem


def test_an_agent_with_audiences_of_its_own_wants_one_in_each_token(told: Told) -> None:
    asked = "audiences: [a], introspection: {client_id: s, client_secret_file: /s, missing_audience: accept}"
    issuers = f"[{{issuer: 'https://i', {asked}}}]"
    (problem,) = told(f"version: 1\nidentity: {{issuers: {issuers}}}\nagents: [{AGENT}, audiences: [b]}}]\n")
    assert (
        "identity.issuers[0].introspection.missing_audience: a token without audience would be good"
        in problem
    )


def test_a_tenant_is_not_chosen_by_its_caller(told: Told) -> None:
    agent = f"{AGENT}, tenants: {{t1: {{claims: {{email: a@b.example}}}}}}}}"
    (problem,) = told(f"version: 1\n{ISSUERS}agents: [{agent}]\n")
    assert "agents[0].tenants.t1.claims.email: `email` may change or be picked by the caller" in problem


@pytest.mark.parametrize(
    "identity",
    [
        "{api_keys: {keys: [{subject: ci, sha256: " + "a" * 64 + "}]}}",
        "{certificates: {principals: ['spiffe://example.org/ns/prod/*', 'dns:planner.example.org']}}",
    ],
)
def test_callers_trusted_directly_are_enough_to_be_called(write: Write, identity: str) -> None:
    tls = "tls: {certificate_file: /c, key_file: /k, client_ca_file: /ca}\n"
    assert load([write(f"version: 1\n{tls}identity: {identity}\nagents: [{AGENT}}}]\n")]).identity


# --- several values together ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "message"),
    [
        pytest.param("", "policy.yaml:1: version: is missing; write `version: 1`", id="none"),
        pytest.param(
            "version: 2\n", "`2` is no version this release reads; write `version: 1`", id="another"
        ),
        pytest.param(
            "version: '1'\n",
            "`1` is no version this release reads; write `version: 1` without quotes",
            id="quoted",
        ),
        pytest.param("version: true\n", "`true` is no version", id="a boolean, which Python counts as 1"),
        pytest.param("version: 1.0\n", "`1.0` is no version", id="a fraction"),
        pytest.param("version: [1]\n", "this is no version", id="a list"),
        pytest.param("version:\n", "version: has no value", id="no value"),
    ],
)
def test_the_version_is_required_and_1(told: Told, version: str, message: str) -> None:
    (problem,) = told(SHORT.replace("version: 1\n", version))
    assert message in problem


def test_two_agents_that_clash(told: Told) -> None:
    same = "{name: a, upstream: 'http://localhost:9000/', public_url: 'https://b.example', mount: /}"
    assert told(f"{LONG}}}\n- {same}\n") == [
        "policy.yaml:5: agents[1].name: `a` is that of `agents[0]` already; a name belongs to one agent",
        "policy.yaml:5: agents[1].mount: `/` is that of `agents[0]` already; give each agent its own prefix",
        "policy.yaml:5: agents[1].upstream: leads to what `agents[0]` fronts already, and its tasks would have two "
        "sets of owners; give each agent one mount, and its own host, port or path",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param("http://a:80", "http://A", id="the default port, another case"),
        pytest.param("http://a/x", "http://a/x/", id="a slash at the end"),
        pytest.param("http://a", "http://a/x", id="one below the other"),
        pytest.param("http://127.0.0.1:1", "http://[::1]:1", id="two names of loopback"),
    ],
)
def test_one_upstream_has_one_agent(told: Told, first: str, second: str) -> None:
    agents = f"""agents:
- {{name: a, mount: /a, public_url: 'https://a.example', upstream: '{first}'}}
- {{name: b, mount: /b, public_url: 'https://b.example', upstream: '{second}'}}
"""
    (problem,) = told(f"version: 1\n{ISSUERS}{agents}")
    assert "agents[1].upstream: leads to what `agents[0]` fronts already" in problem


def test_an_issuer_is_listed_once(told: Told) -> None:
    issuer = "{issuer: 'https://i', audiences: [a]}"
    (problem,) = told(f"version: 1\nidentity: {{issuers: [{issuer}, {issuer}]}}\nagents: [{AGENT}}}]\n")
    assert "identity.issuers[1].issuer: `https://i` is that of `issuers[0]` already" in problem


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        pytest.param("", "policy.yaml:1: identity: ", id="nothing is said of callers"),
        pytest.param("identity: {issuers: []}\n", "policy.yaml:3: identity: ", id="an empty list of issuers"),
        pytest.param("identity: {anonymous: refuse}\n", "policy.yaml:3: identity: ", id="only a refusal"),
    ],
)
def test_a_policy_under_which_nobody_could_call(told: Told, lines: str, where: str) -> None:
    (problem,) = told(f"version: 1\nagents: [{AGENT}}}]\n{lines}")
    assert problem.startswith(f"{where}nobody could call: no issuer is trusted and `anonymous` is `refuse`;")


@pytest.mark.parametrize(
    "named",
    [
        pytest.param(f"agents: [{AGENT}}}]\nscopes: {{lifecycle: {{send: [w]}}}}", id="for all"),
        pytest.param(
            f"agents: [{AGENT}, scopes: {{skills: {{s: {{scopes: [w]}}}}}}}}]", id="for a skill of one agent"
        ),
    ],
)
def test_scopes_that_nobody_could_hold_are_refused(told: Told, named: str) -> None:
    (problem,) = told(f"version: 1\n{named}\n")
    assert "nobody could call" in problem
    assert "the scopes this policy names would be checked on nobody" in problem


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            "version: 1\n" + ISSUERS, "agents: is missing; at least one agent is needed", id="no agent"
        ),
        pytest.param(
            "version: 1\nagents: []\n" + ISSUERS, "agents: at least one agent is needed", id="an empty list"
        ),
        pytest.param(
            SHORT.replace("public_url", "#"),
            "public_url: is missing; say where callers reach it",
            id="half an agent",
        ),
        pytest.param(
            SHORT.replace("upstream", "#"),
            "upstream: is missing; say where the agent listens",
            id="the other half",
        ),
        pytest.param(
            SHORT.replace("audience", "#"), "audience: is missing; say whom its tokens", id="half an issuer"
        ),
        pytest.param(
            SHORT.replace("issuer", "#"), "issuer: is missing; say whose tokens", id="the other half of it"
        ),
        pytest.param(
            SHORT.replace("audience: review", "audience: [review]"),
            "audience: a string is expected, not a list",
            id="a list in short form",
        ),
        pytest.param(
            SHORT.replace("audience: review", "audience: no"),
            "audience: a string is expected, and YAML reads `no`",
            id="a boolean in short form",
        ),
        pytest.param(
            SHORT.replace("https://idp", "http://idp"),
            "issuer: must be https",
            id="an issuer over http in short form",
        ),
        pytest.param(
            SHORT + f"agents: [{AGENT}}}]\n",
            "upstream: is the short form of `agents`, which is given too; keep one",
            id="both forms of an agent",
        ),
        pytest.param(
            SHORT + ISSUERS,
            "issuer: is the short form of `identity.issuers`, which is given too",
            id="both forms of an issuer",
        ),
        pytest.param(
            SHORT + "identity: []\n",
            "identity: a mapping is expected, not a list",
            id="nowhere to put the issuer",
        ),
    ],
)
def test_what_is_written_short_is_told_short(told: Told, text: str, message: str) -> None:
    problems = told(text)
    assert any(message in problem for problem in problems), problems
    assert not any("agents[0]" in problem or "issuers[0]" in problem for problem in problems)


def test_every_problem_is_told_at_once_in_the_order_of_lines(told: Told) -> None:
    problems = told("""version: 1
mode: off
scopes: {mode: enfroce, skill_form: []}
scopes: {}
identity:
  issuers:
    - {issuer: 'http://idp', audiences: [], leeway: 5}
agents:
  - {name: a, upstream: ftp://a, mount: a}
  - {name: a, upstream: 'http://b', public_url: 'https://b', push: {allow: [x]}}
limits: {body: 16MB}
""")
    found = [tuple(problem.split(": ")[:2]) for problem in problems]
    assert found == sorted(found, key=lambda place: int(place[0].rpartition(":")[2]))
    assert set(found) == {
        ("policy.yaml:2", "mode"),
        ("policy.yaml:3", "scopes.mode"),
        ("policy.yaml:3", "scopes.skill_form"),
        ("policy.yaml:4", "scopes"),
        ("policy.yaml:7", "identity.issuers[0].issuer"),
        ("policy.yaml:7", "identity.issuers[0].audiences"),
        ("policy.yaml:7", "identity.issuers[0].leeway"),
        ("policy.yaml:9", "agents[0].upstream"),
        ("policy.yaml:9", "agents[0].mount"),
        ("policy.yaml:9", "agents[0].public_url"),
        ("policy.yaml:10", "agents[1].name"),
        ("policy.yaml:10", "agents[1].push.allow[0]"),
        ("policy.yaml:11", "limits.body"),
    }


def test_a_problem_stays_on_one_line_and_short(told: Told) -> None:
    long = "x" * 5000
    problems = told(f'{SHORT}mode: "a\\nb{long}"\nscopes: {{skills: {{"a\\nb c": {{x: 1}}}}}}\n')
    assert [problem.split(": ")[0] for problem in problems] == ["policy.yaml:6"] + ["policy.yaml:7"] * 2
    assert all(len(problem) < 700 for problem in problems)
