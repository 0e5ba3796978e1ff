"""Patterns of URLs: what `push.allow` holds, and what a host may be.

Owns: the form of a pattern, `scheme://host[:port][/path]`, the one spelling of a host, and which names no wildcard
can stand for.
Never: resolves a name, or sees a URL a caller wrote (`policy/push.py` does).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

DEFAULT_PORTS: Final = {"http": 80, "https": 443}
ANY: Final = "*"

# Names that lead inside, or nowhere, from wherever they are resolved: RFC 6761 §6.3 (localhost), RFC 6762 §3 (local,
# and with it cluster.local), RFC 8375 (home.arpa), RFC 7686 (onion), RFC 2606 and 6761 (invalid); `internal` is
# reserved for private use by ICANN (2024), `corp`, `home` and `mail` are withheld by it (2018); `svc` is what
# Kubernetes completes to a Service; the others are habits of routers and office networks.
INSIDE: Final = frozenset(
    {"localhost", "local", "home.arpa", "onion", "invalid", "internal", "corp", "home", "mail", "svc"}
    | {"localdomain", "lan", "intranet", "private"}
)
# Where clouds tell an instance its credentials, under names that are not inside any of those.
METADATA: Final = frozenset(
    {"metadata.goog", "metadata.packet.net", "metadata.platformequinix.com", "metadata.tencentyun.com"}
)

_PATTERN: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)((?:/.*)?)", re.DOTALL)
_AUTHORITY: Final = re.compile(r"(\[[^\]]*\]|[^:\[\]]*)(?::([^:]*))?")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~!$&'()+,=:@-]+)+")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")


@dataclass(frozen=True, slots=True)
class UrlPattern:
    """`host` is `*`, `*.` and a name, or one host in its one spelling; `port` None is any; `path` is whole segments."""

    scheme: str
    host: str
    port: int | None
    path: str = ""

    @property
    def is_wildcard(self) -> bool:
        return self.host.startswith(ANY)

    def admits_host(self, host: str) -> bool:
        """Whether it stands for `host`, which is in its one spelling. `*.name` never stands for `name` itself."""
        if self.host == ANY:
            return True
        if self.is_wildcard:
            return host.endswith(self.host[1:]) and len(host) > len(self.host) - 1
        return host == self.host

    def admits_path(self, path: str) -> bool:
        return not self.path or path == self.path or path.startswith(f"{self.path}/")


def read_pattern(text: str) -> UrlPattern:
    """One entry of `push.allow`. Raises ValueError that says what to write instead."""
    match = _PATTERN.fullmatch(text)
    if not match or match[1] not in DEFAULT_PORTS:
        raise ValueError(
            "must begin with `https://` or `http://` and a host, as in `https://*.example.com`"
            if not match or match[1].lower() not in DEFAULT_PORTS
            else f"has its scheme in capitals; write `{match[1].lower()}://`"
        )
    scheme, authority, path = match.groups()
    if "@" in authority:
        raise ValueError("must not carry user-info; a webhook's URL with any is refused")
    parts = _AUTHORITY.fullmatch(authority)
    if parts is None:
        raise ValueError("has no host with at most one port; write `host`, `host:port` or `[IPv6]:port`")
    return UrlPattern(scheme, _host(parts[1]), _port(parts[2], scheme), _path(path))


def canonical_host(host: str) -> str | None:
    """The one spelling of a host, without brackets; None for what is no host, or could be read as several.

    A name is in lower case, in its ASCII form (RFC 5891) and without a final dot. A number that is no IPv4 address in
    four decimal parts (`127.1`, `0x7f000001`, `017700000001`) stays as it is: `is_number` knows it.
    """
    if host.startswith("["):
        try:
            return str(IPv6Address(host[1:-1])) if host.endswith("]") and "%" not in host else None
        except AddressValueError:
            return None
    name = host.lower()
    if not host.isascii() or len(name) > 253 or not all(map(_LABEL.fullmatch, name.split("."))):
        return None
    return name


def is_number(host: str) -> bool:
    """Whether something takes `host` for an address: IPv6, or what ends in a number (WHATWG URL §3.5, inet_aton(3))."""
    return ":" in host or bool(_NUMBER.fullmatch(host.rpartition(".")[2]))


def is_inside(host: str) -> bool:
    """Whether a name leads into the network it is resolved in: one label, a reserved suffix, cloud metadata."""
    labels = host.split(".")
    suffixes = {".".join(labels[at:]) for at in range(len(labels))}
    return len(labels) == 1 or not INSIDE.isdisjoint(suffixes) or host in METADATA


def _host(written: str) -> str:
    if not written:
        raise ValueError("names no host; write `*` for any public one")
    if written == ANY:
        return written
    name = written.removeprefix("*.")
    if ANY in name:
        raise ValueError(
            "has a `*` where none can be: it stands for whole labels at the front, as in `*.example.com`"
        )
    host = canonical_host(name)
    if host is None:
        hint = "; write an international name in its ASCII form (`xn--…`)" if not name.isascii() else ""
        raise ValueError(f"names no valid host{hint or '; write a name, an IPv4 address or `[IPv6]`'}")
    if name.strip("[]") != host:
        raise ValueError(f"writes its host in another form; write `{f'[{host}]' if ':' in host else host}`")
    if is_number(host):
        _require_address(host, wild=name != written)
    elif name != written and is_inside(f"x.{host}"):
        raise ValueError("would admit nothing: a wildcard never stands for a name inside; write the host out")
    return written.strip("[]")


def _require_address(host: str, *, wild: bool) -> None:
    if wild:
        raise ValueError("has a `*` before an address; write the address out")
    try:
        if ":" not in host:
            IPv4Address(host)
    except AddressValueError:
        raise ValueError(
            "has a host that ends in a number; write an IPv4 address in four decimal parts"
        ) from None


def _port(written: str | None, scheme: str) -> int | None:
    if written is None:
        return DEFAULT_PORTS[scheme]
    if written == ANY:
        return None
    if not _PORT.fullmatch(written) or int(written) > 65535:
        raise ValueError("has no valid port; write a number from 1 to 65535, or `:*` for any port")
    return int(written)


def _path(written: str) -> str:
    path = written.removesuffix("/") if written == "/" else written
    if path and (not _PATH.fullmatch(path) or not {".", ".."}.isdisjoint(path.split("/"))):
        raise ValueError(
            "has a path that is not canonical; write whole segments without `//`, `.` and `..`, `%`, `*`, query and a "
            "slash at the end"
        )
    return path
