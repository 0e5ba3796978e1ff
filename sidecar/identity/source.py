"""One issuer's keys over time.

Owns: when to ask again, one question at a time, and how long the last good answer serves.
Never: looks at claims, or lets a failed or empty answer replace a good one.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from typing import Any, Final

import aiohttp

from sidecar import config
from sidecar.identity.fetch import fetch_key_set, keys_file
from sidecar.identity.invalid import KeysUnavailable
from sidecar.identity.jwks import KeySet
from sidecar.identity.line import Line, Unobtainable
from sidecar.identity.watched import Unreadable

COLD_PAUSE: Final = 1.0  # seconds between attempts while there are no keys to serve with
FILE_PAUSE: Final = 2.0  # seconds between looks at a file of keys: whoever changes it waits for the effect
EARLY: Final = 0.9  # of `keys_refresh`: asking takes its time, and a withdrawn key ends within the whole

Spawn = Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]]


class Source:
    """Keys of one issuer. `clock` is monotonic, in seconds."""

    def __init__(
        self,
        issuer: config.Issuer,
        settings: config.Identity,
        *,
        clock: Callable[[], float],
        session: Callable[[], aiohttp.ClientSession],
        spawn: Spawn,
    ) -> None:
        self.failures = 0
        self.problem = ""  # of the last attempt; empty if it succeeded
        self._issuer = issuer
        self._settings = settings
        self._clock = clock
        self._line = Line(issuer, session)
        self._file = None if issuer.jwks_file is None else keys_file(issuer.jwks_file, issuer)
        self._spawn = spawn
        self._set: KeySet | None = None
        self._confirmed_at = self._tried_at = self._forced_at = -math.inf
        self._flight: asyncio.Task[None] | None = None

    def acceptable(self) -> KeySet | None:
        """The last good keys, while they are not too old."""
        age = self._clock() - self._confirmed_at
        return self._set if age <= self._settings.keys_max_stale else None

    def current(self) -> KeySet | None:
        """As `acceptable`, and a refresh that is due begins behind the caller's back."""
        known = self.acceptable()
        if known is not None and self._flight is None and self._pause() <= 0:
            self._launch()
        return known

    async def obtain(self, kid: str | None, algorithm: str) -> KeySet:
        """The keys to look for `kid` in, asking the issuer only where that could help.

        Raises KeysUnavailable if there are none, or if this one is unknown and the issuer
        cannot be asked: it may have been published since.
        """
        known = self.current()
        asked = known is None
        if known is None:
            known = await self._cold()
        if known.fitting(kid, algorithm):
            return known
        if not asked and self._may_force():
            await self._join()
            known = self.acceptable()
        if known is None or self.problem:
            raise KeysUnavailable(f"issuer `{self._issuer.issuer}`: {self.problem or 'keys are too old'}")
        return known

    async def keep_fresh(self) -> None:
        """Fetch and refresh for ever, so that a sidecar without traffic becomes and stays ready."""
        while True:
            if self._pause() <= 0:
                await self._join()
            await asyncio.sleep(max(self._pause(), 0.05))

    async def _cold(self) -> KeySet:
        if self._flight is not None or self._pause() <= 0:
            await self._join()
        known = self.acceptable()
        if known is None:
            raise KeysUnavailable(f"issuer `{self._issuer.issuer}`: {self.problem or 'no keys'}")
        return known

    def _pause(self) -> float:
        """Seconds until the issuer may be asked without being forced."""
        if self._file is not None:
            pause = min(FILE_PAUSE, self._settings.keys_refresh)
        elif self.acceptable() is not None:
            pause = self._settings.keys_cooldown if self.problem else self._settings.keys_refresh * EARLY
        elif self._issuer.introspection is None:
            pause = COLD_PAUSE
        else:  # perhaps it has no keys, ever
            pause = self._settings.keys_cooldown
        return self._tried_at + pause - self._clock()

    def _may_force(self) -> bool:
        """Whether an unknown key may cost a fetch: join one under way, else one per `keys_cooldown`."""
        if self._flight is not None:
            return True
        if self._clock() - self._forced_at < self._settings.keys_cooldown:
            return False
        self._forced_at = self._clock()
        return True

    async def _join(self) -> None:
        # `wait` and not `await`: a caller who leaves must not end the fetch others wait for.
        await asyncio.wait([self._flight or self._launch()])

    def _launch(self) -> asyncio.Task[None]:
        self._flight = self._spawn(self._fetch())
        return self._flight

    async def _fetch(self) -> None:
        began = self._clock()
        try:
            fetched = await fetch_key_set(self._line) if self._file is None else self._file.current()
        except (Unobtainable, Unreadable) as error:
            self.failures += 1
            self.problem = str(error)
        else:
            self.problem = ""
            self._confirmed_at = began
            # Invariant: the instance changes only with its content; verified tokens hang on it.
            if self._set is None or self._set.keys != fetched.keys:
                self._set = fetched
        finally:
            self._tried_at = self._clock()
            self._flight = None
