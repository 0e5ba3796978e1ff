"""What only shows when several keys about callers and certificates are looked at together.

Owns: ways to identify a caller that exclude or need each other, and claims that identify nobody for good.
Never: looks at one value alone (its type does).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from sidecar.policy_file.tree import Key, Table, at, items

# OpenID Connect Core §5.7: only `sub` with `iss` is stable and unique; these change hands, or their owner picks them.
CHANGEABLE: Final = frozenset(
    {
        *(
            "email",
            "preferred_username",
            "upn",
            "unique_name",
            "name",
            "nickname",
            "given_name",
            "family_name",
        ),
        *("middle_name", "username", "user_name", "login", "phone_number", "profile", "picture", "website"),
    }
)


def subjects_are_stable(root: Table) -> Iterator[tuple[Key, str]]:
    """Ownership would follow whoever gets the name next (field case FC-052)."""
    for index in range(len(items(root, "identity", "issuers"))):
        for name in ("subject", "tenant"):
            key: Key = ("identity", "issuers", index, "claims", name)
            if (claim := at(root, *key)) in CHANGEABLE:
                yield (
                    key,
                    f"`{claim}` may change, be given to somebody else, or be picked by the caller, and tasks with it; "
                    "write a claim the issuer never reuses, as `sub` or `oid`",
                )
    for index, agent in enumerate(items(root, "agents")):
        tenants = agent.get("tenants") if isinstance(agent, dict) else None
        for tenant, rule in tenants.items() if isinstance(tenants, dict) else ():
            for claim in (rule.get("claims") or {}) if isinstance(rule, dict) else ():
                if claim in CHANGEABLE:
                    yield (
                        ("agents", index, "tenants", tenant, "claims", claim),
                        f"`{claim}` may change or be picked by the caller, who would choose a tenant with it; "
                        "write a claim the issuer alone decides, as `tid` or `groups`",
                    )


def keys_have_one_source(root: Table) -> Iterator[tuple[Key, str]]:
    for index in range(len(items(root, "identity", "issuers"))):
        issuer: Key = ("identity", "issuers", index)
        if at(root, *issuer, "jwks_file") is not None and at(root, *issuer, "jwks_uri") is not None:
            yield (*issuer, "jwks_file"), "`jwks_uri` is given too; keep one of them"


def introspection_is_whole(root: Table) -> Iterator[tuple[Key, str]]:
    """One issuer at most: a token that names nobody would else be shown to issuers it is not from."""
    first: int | None = None
    for index in range(len(items(root, "identity", "issuers"))):
        key: Key = ("identity", "issuers", index, "introspection")
        told = at(root, *key)
        if not isinstance(told, dict):
            continue
        if first is not None:
            yield (
                key,
                f"`issuers[{first}]` has `introspection` already; an opaque token does not say whose it is, and must "
                "not be shown to another issuer than its own: remove one of them",
            )
        first = index if first is None else first
        if told.get("missing_audience") == "accept":
            yield from _audiences_of_agents(root, key)
        given = [name for name in ("client_secret_file", "client_secret_env") if name in told]
        if len(given) != 1:
            both = (
                "keep one of them" if given else "the issuer answers only to whom it knows; write one of them"
            )
            yield (*key, *given[:1]), f"`client_secret_file` or `client_secret_env`: {both}"


def _audiences_of_agents(root: Table, key: Key) -> Iterator[tuple[Key, str]]:
    if any(isinstance(agent, dict) and "audiences" in agent for agent in items(root, "agents")):
        yield (
            (*key, "missing_audience"),
            "a token without audience would be good at every agent, but `agents[].audiences` tells them apart; write "
            "`missing_audience: refuse`, or give the agents no `audiences`",
        )


def api_keys_are_apart(root: Table) -> Iterator[tuple[Key, str]]:
    first: dict[str, int] = {}
    for index, entry in enumerate(items(root, "identity", "api_keys", "keys")):
        hashed = entry.get("sha256") if isinstance(entry, dict) else None
        if isinstance(hashed, str) and first.setdefault(hashed, index) != index:
            yield (
                ("identity", "api_keys", "keys", index, "sha256"),
                f"is the key of `keys[{first[hashed]}]` already; give each caller a key of their own",
            )


def certificates_are_asked_for(root: Table) -> Iterator[tuple[Key, str]]:
    """Names that could never be seen, and proxies that would be callers."""
    certificates: Key = ("identity", "certificates")
    has_ca = at(root, "tls", "client_ca_file") is not None
    for name in ("principals", "forwarded_by"):
        if items(root, *certificates, name) and not has_ca:
            yield (
                (*certificates, name),
                "no caller could show a certificate: write `tls.client_ca_file`, the authorities that vouch for them",
            )
    principals = _texts(items(root, *certificates, "principals"))
    for index, proxy in enumerate(_texts(items(root, *certificates, "forwarded_by"))):
        if any(_overlap(proxy, principal) for principal in principals):
            yield (
                (*certificates, "forwarded_by", index),
                f"`{proxy}` is in `principals` too; a proxy speaks for its callers and is none itself: keep one of them",
            )


def tls_is_whole(root: Table) -> Iterator[tuple[Key, str]]:
    if at(root, "tls", "client_certificate") == "required" and at(root, "tls", "client_ca_file") is None:
        yield ("tls", "client_certificate"), "nobody could be let in: write `client_ca_file`"
    for index in range(len(items(root, "agents"))):
        key: Key = ("agents", index, "tls")
        given = at(root, *key)
        if not isinstance(given, dict) or not given:
            continue
        upstream = at(root, "agents", index, "upstream")
        if isinstance(upstream, str) and upstream.startswith("http://"):
            yield key, "`upstream` is plain http; write `https://`, or remove `tls`"
        if ("certificate_file" in given) != ("key_file" in given):
            yield key, "`certificate_file` and `key_file` belong together; write both"


def replacing_has_its_token(root: Table) -> Iterator[tuple[Key, str]]:
    for index in range(len(items(root, "agents"))):
        how, file = (at(root, "agents", index, name) for name in ("authorization", "authorization_file"))
        if how == "replace" and file is None:
            yield (
                ("agents", index, "authorization"),
                "with which token? write `authorization_file`, the file that holds it",
            )
        if how != "replace" and file is not None:
            yield (
                ("agents", index, "authorization_file"),
                "is used under `authorization: replace` only; write that, or remove the key",
            )


def headers_are_told_once(root: Table) -> Iterator[tuple[Key, str]]:
    for index in range(len(items(root, "agents"))):
        told = items(root, "agents", index, "identity_headers")
        for place, name in enumerate(told):
            if name in told[:place]:
                yield (
                    ("agents", index, "identity_headers", place),
                    f"`{name}` is listed already; write it once",
                )


def _texts(values: Sequence[Any]) -> list[str]:
    return [value for value in values if isinstance(value, str)]


def _overlap(one: str, other: str) -> bool:
    """Whether some name fits both patterns."""
    stems = [pattern.removesuffix("*") for pattern in (one, other)]
    wild = [pattern.endswith("/*") for pattern in (one, other)]
    return (
        stems[0] == stems[1]
        or (wild[0] and stems[1].startswith(stems[0]))
        or (wild[1] and stems[0].startswith(stems[1]))
    )


CHECKS: Final = (
    subjects_are_stable,
    keys_have_one_source,
    introspection_is_whole,
    api_keys_are_apart,
    certificates_are_asked_for,
    tls_is_whole,
    replacing_has_its_token,
    headers_are_told_once,
)
