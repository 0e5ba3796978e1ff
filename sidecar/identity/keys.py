"""All that is asked of issuers: their keys, and about opaque tokens.

Owns: the HTTP session and the background tasks of fetching; one Source per issuer, an Introspector where there is one.
Never: looks at claims, or lets one issuer wait for another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import aiohttp

from sidecar import config
from sidecar.identity.introspection import Introspector, Told
from sidecar.identity.invalid import KeysUnavailable
from sidecar.identity.jwks import KeySet
from sidecar.identity.line import open_session
from sidecar.identity.source import Source


@dataclass(frozen=True, slots=True)
class KeyStatus:
    """How asking goes, for readiness and metrics. `failures` counts since the start: of fetching keys, and of questions
    about opaque tokens.

    An issuer that is asked about tokens and has no keys is `usable` all the same.
    """

    issuer: str
    usable: bool
    failures: int
    problem: str


class Keys:
    """Key sets by issuer. Starts without a reachable issuer and recovers by itself."""

    def __init__(self, settings: config.Identity, *, clock: Callable[[], float]) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False
        self._sources = {
            issuer.issuer: Source(
                issuer, settings, clock=clock, session=self._open_session, spawn=self._spawn
            )
            for issuer in settings.issuers
        }
        self._introspectors = {
            issuer.issuer: Introspector(issuer, settings, clock=clock)
            for issuer in settings.issuers
            if issuer.introspection is not None
        }
        self._needed = {issuer.issuer for issuer in settings.issuers if _must_have_keys(issuer)}

    async def start(self) -> None:
        """Begin to keep every issuer's keys fresh. Waits for none of them."""
        for source in self._sources.values():
            self._spawn(source.keep_fresh())

    async def close(self) -> None:
        """End all questions; who waits for one hears KeysUnavailable."""
        self._closed = True
        await asyncio.gather(*(introspector.close() for introspector in self._introspectors.values()))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    def current(self, issuer: str) -> KeySet | None:
        """The keys that serve now; the same instance as long as the issuer publishes the same."""
        return None if self._closed else self._sources[issuer].current()

    async def obtain(self, issuer: str, kid: str | None, algorithm: str) -> KeySet:
        """The keys to verify a token with. Raises KeysUnavailable. See Source.obtain."""
        if self._closed:
            raise KeysUnavailable("stopped")
        return await self._sources[issuer].obtain(kid, algorithm)

    async def introspect(self, issuer: str, token: str) -> Told:
        """What an issuer with `introspection` says of an opaque token. See Introspector.claims."""
        return await self._introspectors[issuer].claims(token)

    def ready(self) -> bool:
        """Whether every issuer's tokens can be verified now; true without issuers."""
        return all(self._usable(issuer) for issuer in self._sources)

    def status(self) -> tuple[KeyStatus, ...]:
        """One row per issuer, in the order configured."""
        return tuple(
            KeyStatus(
                issuer, self._usable(issuer), source.failures + self._unanswered(issuer), source.problem
            )
            for issuer, source in self._sources.items()
        )

    def _unanswered(self, issuer: str) -> int:
        introspector = self._introspectors.get(issuer)
        return introspector.failures if introspector is not None else 0

    def _usable(self, issuer: str) -> bool:
        return issuer not in self._needed or self._sources[issuer].acceptable() is not None

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # Issuers are asked every few minutes: a kept connection would be a dead one.
            self._session = open_session()
        return self._session


def _must_have_keys(issuer: config.Issuer) -> bool:
    """An issuer that is asked about tokens may sign none; if the policy says where its keys are, it does."""
    return issuer.introspection is None or issuer.jwks_uri is not None or issuer.jwks_file is not None
