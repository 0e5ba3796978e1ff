"""What only shows when several keys are looked at together.

Owns: names and mounts that clash, callers nobody could identify, rules that could never take effect.
Never: looks at one value alone (its type does).

Works on the tree rather than on the model, so that these problems are told together with all others; whatever is of
the wrong type there is passed over, its own problem is told elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from sidecar.policy_file import identity_checks
from sidecar.policy_file.document import Agent, Card, Config
from sidecar.policy_file.identity import Identity
from sidecar.policy_file.tree import Key, Table, at, items, layered, node_at, plain
from sidecar.policy_file.values import format_duration, parse_duration

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_WILDCARDS: Final = frozenset({"0.0.0.0", "[::]"})  # noqa: S104  (compared with, not bound to)


def checks(root: Table) -> Iterator[tuple[Key, str]]:
    """Every problem of a whole document in long form, as key and message."""
    for check in _CHECKS:
        yield from check(root)


def _the_hash_is_not_written(root: Table) -> Iterator[tuple[Key, str]]:
    if "hash" in root.entries:
        yield ("hash",), "unknown key; the hash is computed from what the policy says"


def _names_are_unique(root: Table) -> Iterator[tuple[Key, str]]:
    yield from _unique(root, ("agents",), "name", "a name belongs to one agent")
    yield from _unique(root, ("identity", "issuers"), "issuer", "put all its audiences into one entry")


def _mounts_are_unique(root: Table) -> Iterator[tuple[Key, str]]:
    default = Agent.model_fields["mount"].default
    yield from _unique(root, ("agents",), "mount", "give each agent its own prefix", default)


def _upstreams_are_apart(root: Table) -> Iterator[tuple[Key, str]]:
    # The ledger keeps its rows by agent name. Were one agent reached under two names, an id that is Alice's under
    # one would be free for Bob to pick under the other, and lead him to her task.
    places = [_place(at(root, "agents", i, "upstream")) for i in range(len(items(root, "agents")))]
    for index, here in enumerate(places):
        other = next(
            (i for i, there in enumerate(places[:index]) if here and there and _meet(here, there)), None
        )
        if other is not None:
            yield (
                ("agents", index, "upstream"),
                (
                    f"leads to what `agents[{other}]` fronts already, and its tasks would have two sets of owners; "
                    "give each agent one mount, and its own host, port or path"
                ),
            )


def _place(url: object) -> tuple[str, int, list[str]] | None:
    """Host, port and path segments of an upstream; None for what is no URL."""
    try:
        parts = urlsplit(url) if isinstance(url, str) else None
        port = parts.port if parts else None
    except ValueError:
        return None
    if parts is None or not parts.hostname:
        return None
    host = "localhost" if _is_loopback(parts.hostname) else parts.hostname.rstrip(".")
    return host, port or _DEFAULT_PORTS.get(parts.scheme, 0), [s for s in parts.path.split("/") if s]


def _meet(one: tuple[str, int, list[str]], two: tuple[str, int, list[str]]) -> bool:
    shorter = min(len(one[2]), len(two[2]))
    return one[:2] == two[:2] and one[2][:shorter] == two[2][:shorter]


def _unique(
    root: Table, path: Key, name: str, rule: str, default: str | None = None
) -> Iterator[tuple[Key, str]]:
    first: dict[str, int] = {}
    for index in range(len(items(root, *path))):
        value = at(root, *path, index, name, default=default)
        if isinstance(value, str) and first.setdefault(value, index) != index:
            yield (
                (*path, index, name),
                f"`{value}` is that of `{path[-1]}[{first[value]}]` already; {rule}",
            )


def _somebody_can_call(root: Table) -> Iterator[tuple[Key, str]]:
    default = Identity.model_fields["anonymous"].default
    ways = (("issuers",), ("api_keys", "keys"), ("certificates", "principals"))
    if (
        all(at(root, "identity", *way, default=()) == () for way in ways)
        and at(root, "identity", "anonymous", default=default) == "refuse"
    ):
        in_vain = "; the scopes this policy names would be checked on nobody" if _names_scopes(root) else ""
        yield (
            ("identity",),
            (
                f"nobody could call: no issuer is trusted and `anonymous` is `refuse`{in_vain}; "
                "write `issuer` and `audience`, or `identity.issuers`"
            ),
        )


def _names_scopes(root: Table) -> bool:
    sections = [
        at(root, "scopes"),
        *(at(root, "agents", i, "scopes") for i in range(len(items(root, "agents")))),
    ]
    return any(isinstance(s, dict) and (s.get("lifecycle") or s.get("skills")) for s in sections)


def _issuers_are_https(root: Table) -> Iterator[tuple[Key, str]]:
    for index in range(len(items(root, "identity", "issuers"))):
        issuer: Key = ("identity", "issuers", index)
        if at(root, *issuer, "allow_http") is True:
            continue
        for name in (("issuer",), ("jwks_uri",), ("introspection", "url")):
            if _is_plain_http(at(root, *issuer, *name)):
                yield (
                    (*issuer, *name),
                    (
                        "must be https: whoever can change keys and answers on their way can issue tokens; "
                        "only loopback may be http, or any address with `allow_http: true`"
                    ),
                )


def _is_plain_http(url: object) -> bool:
    if not isinstance(url, str) or not url.lower().startswith("http://"):
        return False
    try:
        return not _is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False  # no URL at all, which its type refuses


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def _ports_differ(root: Table) -> Iterator[tuple[Key, str]]:
    listen, admin = (
        at(root, name, default=Config.model_fields[name].default) for name in ("listen", "admin")
    )
    if not (isinstance(listen, str) and isinstance(admin, str)):
        return
    (host, _, port), (admin_host, _, admin_port) = listen.rpartition(":"), admin.rpartition(":")
    if port == admin_port != "0" and (host == admin_host or not _WILDCARDS.isdisjoint({host, admin_host})):
        key = "admin" if at(root, "admin") is not None else "listen"
        yield (
            (key,),
            f"`listen` ({listen}) and `admin` ({admin}) are the same address; give them different ports",
        )


def _caches_outlive_their_refresh(root: Table) -> Iterator[tuple[Key, str]]:
    for index in range(len(items(root, "agents"))):
        yield from _stale(root, ("agents", index, "card"), "refresh", "max_stale", Card)
    yield from _stale(root, ("identity",), "keys_refresh", "keys_max_stale", Identity)


def _stale(
    root: Table, section: Key, refresh: str, stale: str, model: type[Card] | type[Identity]
) -> Iterator[tuple[Key, str]]:
    every, kept = (
        _seconds(at(root, *section, name), model.model_fields[name].default) for name in (refresh, stale)
    )
    if kept < every:
        key = stale if at(root, *section, stale) is not None else refresh
        yield (
            (*section, key),
            (
                f"`{stale}` ({format_duration(kept)}) is shorter than `{refresh}` ({format_duration(every)}): "
                "what is cached would be too old before it is fetched anew"
            ),
        )


def _seconds(value: object, default: float) -> float:
    try:
        return parse_duration(value) if isinstance(value, str) else default
    except ValueError:
        return default


def _owners_are_told_apart_in_one_way(root: Table) -> Iterator[tuple[Key, str]]:
    # A caller is identified before it is known which agent is meant.
    for index in range(len(items(root, "agents"))):
        if at(root, *(key := ("agents", index, "ownership", "owner_claims"))) is not None:
            yield key, "holds for all agents; write it in the top-level `ownership`"


def _opening_everything_is_said_aloud(root: Table) -> Iterator[tuple[Key, str]]:
    for own, effective in _effective(root, "other_paths"):
        paths = effective.get("anonymous", ())
        if isinstance(paths, tuple) and "/*" in paths and effective.get("default") != "anonymous":
            yield (
                _written(root, own, "other_paths", "anonymous"),
                ("`/*` opens every path; name the paths, or write `default: anonymous` if that is meant"),
            )


def _operations_have_scopes(root: Table) -> Iterator[tuple[Key, str]]:
    for own, effective in _effective(root, "scopes"):
        lifecycle = effective.get("lifecycle", {})
        if (
            effective.get("per_operation") == "enforce"
            and isinstance(lifecycle, dict)
            and not any(lifecycle.values())
        ):
            yield (
                _written(root, own, "scopes", "per_operation"),
                (
                    "would check nothing: `lifecycle` names no scope; write `lifecycle`, as in "
                    "`lifecycle: {get: [a2a.tasks:read]}`"
                ),
            )


_CHECKS: Final[tuple[Callable[[Table], Iterator[tuple[Key, str]]], ...]] = (
    _the_hash_is_not_written,
    _names_are_unique,
    _mounts_are_unique,
    _upstreams_are_apart,
    _somebody_can_call,
    _issuers_are_https,
    _ports_differ,
    _caches_outlive_their_refresh,
    _owners_are_told_apart_in_one_way,
    _opening_everything_is_said_aloud,
    _operations_have_scopes,
    *identity_checks.CHECKS,
)


# --- reading the tree ----------------------------------------------------------------------------


def _effective(root: Table, section: str) -> Iterator[tuple[Key, dict[str, Any]]]:
    """Per agent: where its own section would be, and what holds for it in the end."""
    whole = node_at(root, (section,))
    base = whole if isinstance(whole, Table) else Table(root.mark)
    for index in range(len(items(root, "agents"))):
        key: Key = ("agents", index, section)
        own = node_at(root, key)
        yield (
            key,
            {
                name: plain(node)
                for name, node in (layered(base, own) if isinstance(own, Table) else base).entries.items()
            },
        )


def _written(root: Table, own: Key, section: str, name: str) -> Key:
    """Where the effective value of `name` was written: in the agent's own section or at the top level."""
    return (*own, name) if node_at(root, (*own, name)) is not None else (section, name)
