"""Webhooks: whether notifications may be sent where a push config wants them.

Owns: the one strict reading of a webhook's URL, `push.allow`, which addresses are public, what may become an outbound
header, and under which names a task's webhooks are counted.
Never: resolves a name, reads the ledger.

In two steps, since the second costs a look-up in DNS. `refusal` depends on nothing but the request and comes before
anything is looked up: the same answer whether the task is the caller's, somebody else's or nobody's. What it leaves
open, `to_resolve`, is resolved only for a caller whose task it is; `unresolved` judges what was found. Neither defends
against a name that points elsewhere by the time the agent calls it: only guarded egress does.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final
from urllib.parse import unquote

from sidecar import config
from sidecar.model import SENDS, Call, Operation, PushTarget, Reason, Refusal, Refused

MAX_URL: Final = 2048  # characters
MAX_HEADER_VALUE: Final = 8192  # characters of a token or of credentials, which agents put into a header

# Every IPv4 block that is no ordinary address of the internet (IANA IPv4 special-purpose registry, RFC 6890), and the
# one address in public space that is the host itself. `ipaddress.is_global` is not asked: it calls some of them global.
NOT_PUBLIC_4: Final = tuple(
    ip_network(block)
    for block in (
        "0.0.0.0/8",  # this network: RFC 791 §3.2, and 0.0.0.0 is loopback on Linux
        "10.0.0.0/8",  # private: RFC 1918
        "100.64.0.0/10",  # carrier-grade NAT, and some clouds' metadata: RFC 6598
        "127.0.0.0/8",  # loopback: RFC 1122 §3.2.1.3
        "168.63.129.16/32",  # Azure: the host's own agent
        "169.254.0.0/16",  # link-local, and most clouds' metadata: RFC 3927
        "172.16.0.0/12",  # private: RFC 1918
        "192.0.0.0/24",  # protocol assignments, and Oracle's metadata: RFC 6890
        "192.0.2.0/24",  # documentation: RFC 5737
        "192.88.99.0/24",  # 6to4 relays, withdrawn: RFC 7526
        "192.168.0.0/16",  # private: RFC 1918
        "198.18.0.0/15",  # benchmarks: RFC 2544
        "198.51.100.0/24",  # documentation: RFC 5737
        "203.0.113.0/24",  # documentation: RFC 5737
        "224.0.0.0/4",  # multicast: RFC 5771
        "240.0.0.0/4",  # reserved: RFC 1112 §4; 255.255.255.255 is broadcast: RFC 919
    )
)
# Of IPv6 nothing but global unicast is public. That leaves out unspecified and loopback `::/127` (RFC 4291), what holds
# an IPv4 address (mapped `::ffff:0:0/96` and compatible `::/96`: RFC 4291 §2.5.5; NAT64 `64:ff9b::/96`: RFC 6052 and
# `64:ff9b:1::/48`: RFC 8215), discard `100::/64` (RFC 6666), segment routing `5f00::/16` (RFC 9602), unique local
# `fc00::/7` (RFC 4193), link-local `fe80::/10`, site-local `fec0::/10` (RFC 3879) and multicast `ff00::/8` (RFC 4291).
GLOBAL_UNICAST: Final = ip_network("2000::/3")  # RFC 4291 §2.4
NOT_PUBLIC_6: Final = tuple(
    ip_network(block)
    for block in (
        "2001::/23",  # protocol assignments: RFC 2928. Teredo 2001::/32 (RFC 4380) holds an IPv4 address,
        # benchmarks are 2001:2::/48 (RFC 5180), ORCHID 2001:10::/28 and 2001:20::/28 (RFC 4843, 7343)
        "2001:db8::/32",  # documentation: RFC 3849
        "2002::/16",  # 6to4, holds an IPv4 address: RFC 3056
        "3fff::/20",  # documentation: RFC 9637
    )
)

# What a refusal tells its caller: which rule was missed. Nothing of the network, not even whether a name exists.
_MALFORMED: Final = (
    f"a webhook's URL must be `https://host[:port][/path][?query]` of at most {MAX_URL} characters, "
    "without user-info, fragment, dot segments, and characters that must be escaped"
)
_MISSED: Final = tuple(
    f"no entry of `push.allow` admits the {part} of a webhook's URL"
    for part in ("scheme", "host", "port", "path")
)
_NOT_PUBLIC: Final = (
    "a wildcard of `push.allow` admits only public names with public addresses; "
    "any other host of a webhook must be written out there"
)
_HEADER: Final = "a push config's `token`, `scheme` or `credentials` cannot be the value of a header"

# RFC 3986 without what browsers and clients read differently: the backslash, blanks, and what must be escaped.
# Square brackets pass outside of the host, since many queries have them.
_VISIBLE: Final = re.compile(r"[!#-;=?-\[\]_a-z~]+")
_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^?#]*)(?:\?[^#]*)?(#.*)?")
_AUTHORITY: Final = re.compile(r"(\[[^\[\]@]*\]|[^\[\]:@]+)(?::([1-9][0-9]{0,4}))?")
_ESCAPED_AGAIN: Final = 5  # times an escape may itself be escaped before nobody knows what is meant
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
# RFC 9110 §5.5, as Latin-1: nothing that ends a line or is a control character, C1 included.
_HEADER_VALUE: Final = re.compile(r"[\x20-\x7e\xa0-\xff]*")


@dataclass(frozen=True, slots=True)
class PushRules:
    """`push` of a policy. `resolve`: a host that only a wildcard admits must have public addresses."""

    allow: tuple[config.UrlPattern, ...]
    resolve: bool
    per_task: int


@dataclass(frozen=True, slots=True)
class _Url:
    scheme: str
    host: str
    port: int
    path: str


def compile_push(push: config.Push) -> PushRules:
    return PushRules(tuple(map(config.read_pattern, push.allow)), push.resolve, push.per_task)


# --- the decision ----------------------------------------------------------------------------


def refusal(call: Call, rules: PushRules, *, offered: bool) -> Refusal | None:
    """What can be said of a call's webhooks from the request alone. `offered`: the card declares push notifications."""
    if not offered:
        return Refusal(Reason.PUSH_NOT_OFFERED)  # 1.0 §3.3.4; agents do not always say it of the inline form
    if not rules.allow:
        return Refusal(Reason.PUSH_NOT_OFFERED, internal="`push.allow` is empty")
    if len(names(call)) > rules.per_task:
        return Refusal(Reason.PUSH_LIMIT_REACHED, limit_detail(rules.per_task))
    try:
        _hosts(call.push, rules)
    except Refused as refused:
        return refused.refusal
    return None


def to_resolve(call: Call, rules: PushRules) -> frozenset[str]:
    """The hosts of webhooks that `refusal` has nothing against, but that must turn out to be public."""
    try:
        return _hosts(call.push, rules) if rules.resolve else frozenset()
    except Refused:  # only observed
        return frozenset()


def unresolved(hosts: Iterable[str], addresses: Mapping[str, Collection[str]]) -> Refusal | None:
    """Every host must have an address, and public ones only: an agent takes whichever it likes."""
    for host in hosts:
        found = addresses.get(host, ())
        if not found or not all(map(is_public, found)):
            return Refusal(
                Reason.PUSH_TARGET_REFUSED, _NOT_PUBLIC, internal=f"does not resolve to public: {host}"
            )
    return None


def names(call: Call) -> tuple[str, ...]:
    """What the webhooks of a call are counted under, each name once: the id of a config.

    An inline config without an id counts by its URL: clients send the same one with every message, and a2a-sdk, a2a-js
    and a2a-java replace it. Of a created one the agent tells the id; until then it has no name, `""`.
    """
    if call.operation is Operation.DELETE_PUSH_CONFIG:
        return (named(call.config_id),) if call.config_id else ()
    inline = call.operation in SENDS
    return tuple(dict.fromkeys(_name(target, inline=inline) for target in call.push))


def named(config_id: str) -> str:
    """What a config with this id is counted under."""
    return f"id:{config_id}"


def limit_detail(limit: int) -> str:
    return f"a task may have {limit} push configs (`push.per_task`); delete one, or use its id again to replace it"


def is_public(address: str) -> bool:
    """Whether an address is an ordinary one of the internet. What is no address is none."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv4Address):
        return not any(ip in block for block in NOT_PUBLIC_4)
    return (
        isinstance(ip, IPv6Address)
        and ip in GLOBAL_UNICAST
        and not any(ip in block for block in NOT_PUBLIC_6)
    )


def _name(target: PushTarget, *, inline: bool) -> str:
    if target.config_id:
        return named(target.config_id)
    return f"url:{hashlib.sha256(target.url.encode('utf-8', 'surrogatepass')).hexdigest()}" if inline else ""


# --- one webhook -----------------------------------------------------------------------------


def _hosts(targets: Sequence[PushTarget], rules: PushRules) -> frozenset[str]:
    """The hosts that only a wildcard admits. Raises Refused."""
    hosts = set()
    for target in targets:
        if not all(len(v) <= MAX_HEADER_VALUE and _HEADER_VALUE.fullmatch(v) for v in target.header_values):
            raise Refused(Reason.PUSH_TARGET_REFUSED, _HEADER)
        url = _read(target.url)
        if not _is_written_out(url, rules.allow):
            hosts.add(url.host)
    return frozenset(hosts)


def _is_written_out(url: _Url, allow: Sequence[config.UrlPattern]) -> bool:
    """Whether an entry names the very host; False where only a wildcard admits it. Raises Refused where nothing does."""
    furthest = 0
    wild = False
    for pattern in allow:
        fits = (
            pattern.scheme == url.scheme,
            pattern.admits_host(url.host),
            pattern.port in (None, url.port),
            pattern.admits_path(url.path),
        )
        if not all(fits):
            furthest = max(furthest, fits.index(False))
        elif not pattern.is_wildcard:
            return True
        else:
            wild = True
    if not wild:
        raise _refused(_MISSED[furthest], url.host)
    # A number is no name: whatever it stands for, an agent may read it in another base.
    if config.is_number(url.host) or config.is_inside(url.host):
        raise _refused(_NOT_PUBLIC, url.host)
    return False


def _read(url: str) -> _Url:
    """A URL in its one reading. Raises Refused for what a second parser could read differently (FC-092)."""
    match = _URL.fullmatch(url) if len(url) <= MAX_URL and _VISIBLE.fullmatch(url) else None
    if match is None or match[4] is not None:
        raise _refused(_MALFORMED)
    scheme, authority, path = match[1].lower(), match[2], match[3]
    if scheme not in config.DEFAULT_PORTS:
        raise _refused(_MISSED[0])
    parts = _AUTHORITY.fullmatch(authority)
    host = config.canonical_host(parts[1]) if parts else None
    port = int(parts[2] or config.DEFAULT_PORTS[scheme]) if parts else 0
    if host is None or port > 65535 or _BAD_ESCAPE.search(path) or _climbs(path):
        raise _refused(_MALFORMED)
    return _Url(scheme, host, port, path)


def _climbs(path: str) -> bool:
    """Whether a path has dot segments, escaped or not: a prefix would mean nothing."""
    for _ in range(_ESCAPED_AGAIN):
        plain = unquote(path)
        if not {".", ".."}.isdisjoint(re.split(r"[/\\;]", plain)):
            return True
        if plain == path:
            return False
        path = plain
    return True


def _refused(detail: str, host: str = "") -> Refused:
    # No more than the host is audited: path and query of a webhook often hold its secret.
    return Refused(Reason.PUSH_TARGET_REFUSED, detail, internal=f"host {host}" if host else "")
