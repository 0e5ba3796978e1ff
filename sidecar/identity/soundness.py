"""What about an issuer's settings must stop the start.

Owns: telling every problem of one issuer at once: its addresses, and the files and variables it names.
Never: asks anyone over the network.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from yarl import URL

from sidecar import config
from sidecar.identity.fetch import addresses, keys_file, metadata_addresses
from sidecar.identity.introspection import Client, asked_address
from sidecar.identity.line import authorities
from sidecar.identity.proxies import proxy_for


def problems(issuer: config.Issuer, *, here: bool = True) -> list[str]:
    """Everything that would make `issuer` unusable for good, a line each; without naming the issuer.

    `here` tells that this machine is to serve: then the files and variables it names must be usable,
    and the proxy on the way. Where a policy is only judged, they belong to another machine.
    """
    checks = [*_addresses(issuer), *(_surroundings(issuer) if here else ())]
    found = []
    for check in checks:
        try:
            check()
        except ValueError as error:
            found.append(str(error))
    return list(dict.fromkeys(found))  # an issuer's own address may be at fault twice


def _addresses(issuer: config.Issuer) -> Iterator[Callable[[], tuple[URL, ...]]]:
    yield lambda: addresses(issuer)
    if issuer.introspection is not None:
        where = issuer.introspection.url
        yield lambda: metadata_addresses(issuer) if where is None else (asked_address(issuer, where),)


def _surroundings(issuer: config.Issuer) -> Iterator[Callable[[], object]]:
    jwks_file, ca_file, asked = issuer.jwks_file, issuer.ca_file, issuer.introspection
    if jwks_file is not None:
        yield keys_file(jwks_file, issuer).current
    if ca_file is not None:
        yield authorities(ca_file).current
    if asked is not None:
        yield Client(asked).authorization
    yield lambda: _ways(issuer)


def _ways(issuer: config.Issuer) -> None:
    """That every address we know of can be reached by the proxy the environment names for it."""
    for find in _addresses(issuer):
        try:
            urls = find()
        except ValueError:
            continue  # told already
        for url in urls:
            proxy_for(url, config.proxies_in_environment())
