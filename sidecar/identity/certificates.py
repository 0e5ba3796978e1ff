"""Callers known by their client certificate.

Owns: a certificate's names and thumbprint, whose `x-forwarded-client-cert` is believed, and who is a principal by it.
Never: verifies a chain (TLS has), or takes a name from anywhere but the subject alternative names.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Final

from cryptography import x509

from sidecar import config
from sidecar.identity.claims import pseudonym
from sidecar.identity.invalid import Fault, InvalidToken
from sidecar.model import Head, Owner, Principal

CERTIFICATE_ISSUER: Final = "urn:a2a-sidecar:certificate"
FORWARDED: Final = "X-Forwarded-Client-Cert"
_LONGEST: Final = 16 * 1024  # characters of that header
_MOST_NAMES: Final = 100

# Envoy's grammar: elements by `,`, pairs by `;`, values bare or quoted with `\"` inside.
_PAIR: Final = re.compile(r'\s*([A-Za-z]+)=(?:"((?:[^"\\]|\\.)*)"\s*|([^",;]*))(;|,|\Z)')
_HEX_SHA256: Final = re.compile(r"[0-9A-Fa-f]{64}")
_SPIFFE_ID: Final = re.compile(
    r"spiffe://[a-z0-9._-]+(?:/(?!\.{1,2}(?:/|$))[A-Za-z0-9._-]+)+"
)  # SPIFFE-ID §2
_DNS_NAME: Final = re.compile(r"[a-z0-9_-]+(?:\.[a-z0-9_-]+)*")


@dataclass(frozen=True, slots=True)
class Certificate:
    """A caller's certificate. `thumbprint` as in `x5t#S256` (RFC 8705 §3.1); `names` are `spiffe://…` and `dns:…`.

    `expires_at` is in seconds since the epoch, None where a proxy did not tell.
    """

    thumbprint: str
    names: tuple[str, ...]
    expires_at: float | None = None


class Certificates:
    """What client certificates count for under this policy."""

    def __init__(self, settings: config.Certificates, owner_claims: tuple[str, ...]) -> None:
        self._principals = settings.principals
        self._forwarded_by = settings.forwarded_by
        self._further = ("",) * len(owner_claims)

    def of(self, head: Head, now: float) -> Certificate | None:
        """The caller's certificate: that of the connection, or where a trusted proxy made it, the one it tells of.

        `now` is in seconds since the epoch. Raises InvalidToken where the proxy's word cannot be read, or the connection's
        certificate has expired: TLS looks at that when a session begins, and sessions are resumed.
        """
        if head.certificate is None:
            return None
        own = read(head.certificate)
        if own.expires_at is not None and now >= own.expires_at:
            raise InvalidToken("the client certificate has expired since the session began", Fault.EXPIRED)
        if not any(_matches(name, self._forwarded_by) for name in own.names):
            return own
        # Invariant: what a proxy is called never makes its callers who they are.
        told = head.headers.getall(FORWARDED, ())
        if len(told) > 1:
            raise InvalidToken(f"more than one `{FORWARDED}`", Fault.MALFORMED)
        return forwarded(told[0]) if told else None

    def principal(self, certificate: Certificate) -> Principal | None:
        """Who calls by certificate alone; None if the policy does not know this one."""
        known = [name for name in certificate.names if _matches(name, self._principals)]
        spiffe = [name for name in known if name.startswith("spiffe:")]
        if len(spiffe or known) != 1:  # none, or several: whose tasks would these be?
            return None
        (name,) = spiffe or known
        owner = Owner("", CERTIFICATE_ISSUER, name, self._further)
        return Principal(
            owner,
            scopes=None,
            presented_by=name,
            expires_at=certificate.expires_at,
            pseudonym=pseudonym(owner),
        )


@lru_cache(maxsize=1024)
def read(der: bytes) -> Certificate:
    """A certificate TLS has verified. One whose names cannot be read has none."""
    thumbprint = _base64url(sha256(der).digest())
    try:
        certificate = x509.load_der_x509_certificate(der)
        expires_at = certificate.not_valid_after_utc.timestamp()
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        uris = names.get_values_for_type(x509.UniformResourceIdentifier)
        hosts = names.get_values_for_type(x509.DNSName)
    except x509.ExtensionNotFound:
        return Certificate(thumbprint, (), expires_at)
    except ValueError:
        return Certificate(thumbprint, ())
    return Certificate(thumbprint, tuple(_names(uris, hosts)), expires_at)


def forwarded(header: str) -> Certificate:
    """The last element of an `x-forwarded-client-cert`: what the proxy itself says of who called it.

    Earlier elements are other proxies' words, or the caller's. Raises InvalidToken.
    """
    pairs: list[tuple[str, str]] = []
    at = 0
    while at < len(header) <= _LONGEST:
        pair = _PAIR.match(header, at)
        if pair is None:
            break
        name, quoted, bare, end = pair.groups()
        value = bare.rstrip() if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        pairs.append((name.lower(), value))
        at = pair.end()
        if end == ",":
            pairs.clear()
    hashes = [value for name, value in pairs if name == "hash"]
    if at != len(header) or len(hashes) != 1 or not _HEX_SHA256.fullmatch(hashes[0]):
        raise InvalidToken(f"`{FORWARDED}` cannot be read, or has no hash", Fault.MALFORMED)
    uris = [value for name, value in pairs if name == "uri" and value]
    hosts = [value for name, value in pairs if name == "dns" and value]
    return Certificate(_base64url(bytes.fromhex(hashes[0])), tuple(_names(uris, hosts)))


def _names(uris: list[str], hosts: list[str]) -> Iterator[str]:
    """Names that can be compared. A SPIFFE certificate has exactly one URI (X509-SVID §2); a wildcard is no name."""
    if len(uris) == 1 and _SPIFFE_ID.fullmatch(uris[0]):
        yield uris[0]
    for host in dict.fromkeys(host.lower() for host in hosts[:_MOST_NAMES]):
        if _DNS_NAME.fullmatch(host):
            yield f"dns:{host}"


def _matches(name: str, patterns: tuple[str, ...]) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("/*") else name == pattern for pattern in patterns
    )


def _base64url(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()
