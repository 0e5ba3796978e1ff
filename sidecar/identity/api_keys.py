"""Callers known by a key of their own.

Owns: which key is whose. Keys are random and long, so a plain hash of one tells nothing about it.
Never: holds a key, or lets the time of an answer tell how much of one was right.
"""

from __future__ import annotations

import hmac
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from sidecar import config
from sidecar.identity.claims import pseudonym
from sidecar.identity.invalid import InvalidKey
from sidecar.model import Head, Owner, Principal

API_KEY_ISSUER: Final = "urn:a2a-sidecar:api-key"


class ApiKeys:
    """Every key of the policy. Where there are none, no header is looked at."""

    def __init__(self, settings: config.ApiKeys, owner_claims: tuple[str, ...]) -> None:
        self._header = settings.header if settings.keys else None
        self._keys = [
            (bytes.fromhex(key.sha256), _principal(key, len(owner_claims))) for key in settings.keys
        ]

    def presented(self, head: Head) -> Sequence[str]:
        """The keys a request was sent with."""
        return () if self._header is None else head.headers.getall(self._header, ())

    def principal(self, key: str) -> Principal:
        """Whose key this is. Raises InvalidKey."""
        digest = sha256(key.encode("utf-8", "surrogateescape")).digest()
        # Every hash is compared, in constant time each: the answer takes as long for all keys.
        found = [principal for hashed, principal in self._keys if hmac.compare_digest(hashed, digest)]
        if not found:
            raise InvalidKey
        return found[0]


def _principal(key: config.ApiKey, further: int) -> Principal:
    owner = Owner(key.tenant or "", API_KEY_ISSUER, key.subject, ("",) * further)
    return Principal(owner, scopes=None, presented_by=key.subject, pseudonym=pseudonym(owner))
