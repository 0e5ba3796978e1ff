"""Nonces for DPoP proofs: that a proof was made just now, and not long before it is used.

Owns: making and recognising nonces (RFC 9449 §8, §9).
Never: keeps one. A nonce carries its time and an HMAC, so that every worker knows those of the others.
"""

from __future__ import annotations

import hmac
import re
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias

# Ledger.sealing_keys: 32 bytes each, the current one first; the same for all workers on one ledger.
Secrets: TypeAlias = Callable[[], Awaitable[tuple[bytes, ...]]]

LIFETIME: Final = 300.0  # seconds
CLOCKS_DIFFER: Final = 60.0  # seconds the clocks of two workers may

# The same secrets seal page tokens; what is made with this label is of no use there, and the other way round.
_LABEL: Final = b"a2a-sidecar DPoP nonce 1"
_MADE: Final = struct.Struct(">Q")  # seconds since the epoch
_MAC: Final = 16  # bytes
_SHAPE: Final = re.compile(r"[A-Za-z0-9_-]{32}")  # 24 bytes, so that base64 needs no padding


class Nonces:
    """Stateless nonces. `now` is seconds since the epoch."""

    def __init__(self, secrets: Secrets, now: Callable[[], float]) -> None:
        self._secrets = secrets
        self._now = now

    async def fresh(self) -> str:
        """A nonce made now. Raises what `secrets` raises."""
        return _sealed((await self._secrets())[0], _MADE.pack(int(self._now()))).decode()

    async def accepts(self, nonce: object) -> bool:
        """Whether `nonce` was made here, or by another worker, not too long ago. Raises what `secrets` raises."""
        if not isinstance(nonce, str) or not _SHAPE.fullmatch(nonce):
            return False
        given = nonce.encode()
        made = urlsafe_b64decode(given)[: _MADE.size]
        if not -CLOCKS_DIFFER <= self._now() - _MADE.unpack(made)[0] <= LIFETIME:
            return False
        # All keys there are: one that no longer makes nonces may have made this one.
        return any(hmac.compare_digest(_sealed(secret, made), given) for secret in await self._secrets())


def _sealed(secret: bytes, made: bytes) -> bytes:
    key = hmac.digest(secret, _LABEL, "sha256")
    return urlsafe_b64encode(made + hmac.digest(key, made, "sha256")[:_MAC])
