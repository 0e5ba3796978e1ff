"""The forward proxy between us and an issuer, as the environment names it.

Owns: `https_proxy`, `http_proxy`, `all_proxy` and `no_proxy`, read as curl reads them.
Never: sends what is on this machine through a proxy, or lets a proxy's password into a text.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network

from yarl import URL


@dataclass(frozen=True, slots=True)
class Proxy:
    """Where to connect instead. `authorization` is for the proxy alone; empty where it wants none."""

    url: URL
    authorization: str = field(default="", repr=False)


def proxy_for(url: URL, environment: Mapping[str, str]) -> Proxy | None:
    """The proxy to reach `url` by. `environment` is `config.proxies_in_environment()`.

    Raises ValueError if it names something we cannot use, SOCKS for one.
    """
    host = (url.host or "").lower().rstrip(".")
    named = environment.get(url.scheme) or environment.get("all")
    if not named or is_loopback(host) or _exempt(host, url.port, environment.get("no", "")):
        return None
    given = _read(named)
    if given is None or given.scheme not in ("http", "https") or not given.host:
        raise ValueError("the proxy in the environment is no `http://host:port` or `https://host:port`")
    if given.raw_user is None:
        return Proxy(given.origin())
    credentials = f"{given.user}:{given.password or ''}".encode()
    return Proxy(given.origin(), f"Basic {b64encode(credentials).decode()}")


def is_loopback(host: str) -> bool:
    """Whether `host` is this machine by its very name."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read(named: str) -> URL | None:
    try:
        return URL(named if "://" in named else f"http://{named}")  # curl: no scheme means http
    except ValueError:  # whose text would quote the password
        return None


def _exempt(host: str, port: int | None, no_proxy: str) -> bool:
    """Names and all below them, with or without a leading dot; addresses and ranges of them."""
    return no_proxy.strip() == "*" or any(
        _covers(entry, host, port) for entry in re.split(r"[,\s]+", no_proxy.lower()) if entry
    )


def _covers(entry: str, host: str, port: int | None) -> bool:
    try:
        return ip_address(host) in ip_network(entry.strip("[]"), strict=False)
    except ValueError:  # one of them is a name
        name, colon, number = entry.partition(":")
        name = name.lstrip("*.").rstrip(".")
        return bool(name) and (not colon or number == str(port)) and f".{host}".endswith(f".{name}")
