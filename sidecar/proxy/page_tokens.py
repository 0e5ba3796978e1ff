"""Page tokens: where the next page of a caller's list begins, sealed.

Owns: sealing and opening (AES-256-GCM, NIST SP 800-38D), and which keys do it.
Never: tells a caller why a token is refused, or holds anything but the caller's own last position.
"""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections.abc import Callable, Sequence
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from sidecar.ledger import Ledger
from sidecar.ledger.rows import packed, raw, text
from sidecar.model import Position, Reason, Refused

_KEY_ID: Final = 4  # bytes of the key's SHA-256
_NONCE: Final = 12
_ISSUED: Final = struct.Struct(">q")  # seconds since the epoch
_SKEW: Final = 60.0  # seconds the clocks of two sidecars on one ledger may differ
_ORDER: Final = struct.Struct(">q")


class PageTokens:
    """Seals with the first key, opens with all. `lifetime` is seconds, `now` gives seconds since the epoch.

    Without `keys` (32 bytes each) the ledger's own are used, which all sidecars on it share.
    """

    def __init__(
        self, ledger: Ledger, keys: Sequence[bytes], lifetime: float, now: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._keys = tuple(keys)
        self._lifetime = lifetime
        self._now = now

    async def seal(self, position: Position | None, bound: Sequence[str]) -> str:
        """A token for what follows `position` (None: everything), good only together with `bound`."""
        key = (await self._current())[0]
        nonce = os.urandom(_NONCE)
        plain = _ISSUED.pack(int(self._now()))
        if position is not None:
            plain += _ORDER.pack(position[0]) + raw(position[1])
        sealed = AESGCM(key).encrypt(nonce, plain, packed(bound))
        return base64.urlsafe_b64encode(_named(key) + nonce + sealed).decode().rstrip("=")

    async def open(self, token: str, bound: Sequence[str]) -> Position | None:
        """The position in `token`. Raises Refused(INVALID_PARAMS) for a foreign, tampered or expired one."""
        sealed = _decoded(token)
        name, nonce, box = sealed[:_KEY_ID], sealed[_KEY_ID : _KEY_ID + _NONCE], sealed[_KEY_ID + _NONCE :]
        key = next((key for key in await self._current() if _named(key) == name), None)
        if key is None:
            raise _refused()
        try:
            plain = AESGCM(key).decrypt(nonce, box, packed(bound))
        except (InvalidTag, ValueError):
            raise _refused() from None
        (issued,) = _ISSUED.unpack_from(plain)
        if not -_SKEW <= self._now() - issued <= self._lifetime:
            raise _refused()
        rest = plain[_ISSUED.size :]
        return (_ORDER.unpack_from(rest)[0], text(rest[_ORDER.size :])) if rest else None

    async def _current(self) -> tuple[bytes, ...]:
        return self._keys or await self._ledger.sealing_keys()


def _named(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:_KEY_ID]


def _decoded(token: str) -> bytes:
    try:
        return base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
    except ValueError:  # binascii.Error, and what is no ASCII
        raise _refused() from None


def _refused() -> Refused:
    return Refused(
        Reason.INVALID_PARAMS, "`pageToken` is not one of ours, or has expired; start from the first page"
    )
