"""Opaque tokens: what the issuer says of one (RFC 7662).

Owns: one question a token at a time, who we are to the issuer, and remembering its answers.
Never: keeps a token, or takes anything but a plain yes for one.
"""

from __future__ import annotations

import asyncio
import math
from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus

import aiohttp
from cachetools import TTLCache
from yarl import URL

from sidecar import config
from sidecar.identity.fetch import discover
from sidecar.identity.invalid import InvalidToken, KeysUnavailable
from sidecar.identity.line import Answered, Line, Unobtainable, checked, open_session, within_limits
from sidecar.identity.watched import WatchedFile

AT_ONCE: Final = 64  # questions under way at the issuer
WAITING: Final = 1_024  # and those that wait for their turn; past it callers hear so at once
REMEMBERED: Final = 10_000  # tokens that are not active
TOLD: Final = 1_000  # active ones; what each was found to be is kept elsewhere
PAUSE: Final = 1.0  # seconds after discovery failed, before it is tried again

_REFUSES_US: Final = frozenset({401, 403})
_NOT_ITS_KIND: Final = (
    "unsupported_token_type"  # RFC 7009 §2.2.1; what some say of a JWE, which any caller can write
)


@dataclass(frozen=True, slots=True)
class _NotActive:
    why: str


@dataclass(frozen=True, slots=True)
class _NoAnswer:
    why: str


@dataclass(frozen=True, slots=True)
class Told:
    """What the issuer said of an active token, `age` seconds ago."""

    claims: Mapping[str, Any]
    age: float


@dataclass(frozen=True, slots=True)
class _Active:
    claims: Mapping[str, Any]
    at: float  # on `clock`


# A value and not an exception: one instance is told to all who wait for it.
_Answer = _Active | _NotActive | _NoAnswer


class Introspector:
    """Asks one issuer about opaque tokens. `clock` is monotonic, in seconds."""

    def __init__(
        self, issuer: config.Issuer, settings: config.Identity, *, clock: Callable[[], float]
    ) -> None:
        """`settings` say how long a discovered address is good. Raises ValueError without `introspection`."""
        if issuer.introspection is None:
            raise ValueError(f"issuer `{issuer.issuer}` has no `introspection`")
        self.failures = 0
        self.problem = ""  # of the last question; empty if it was answered
        self._issuer = issuer
        self._clock = clock
        self._line = Line(issuer, self._open_session)
        self._client = Client(issuer.introspection)
        self._endpoint = _Endpoint(self._line, issuer.introspection.url, settings, clock)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._flights: dict[bytes, asyncio.Task[_Answer]] = {}
        asked = issuer.introspection
        self._cache = asked.cache
        self._inactive: TTLCache[bytes, _NotActive] = TTLCache(REMEMBERED, asked.cache_inactive, timer=clock)
        # Also of tokens that are refused here for what they say, which would else be asked about each time.
        self._active: TTLCache[bytes, _Active] = TTLCache(TOLD, asked.cache, timer=clock)

    async def close(self) -> None:
        """End all questions; whoever waits for one hears KeysUnavailable."""
        self._closed = True
        flights = tuple(self._flights.values())
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)
        if self._session is not None:
            await self._session.close()

    async def claims(self, token: str) -> Told:
        """What the issuer says of an active token; nothing of it is checked but `active` and `iss`.

        `token` is ASCII. What is told is shared by all who ask: not to be changed.
        Raises InvalidToken (not active, or another issuer's) and KeysUnavailable (unreachable, slow,
        answers rubbish, refuses our credentials).
        """
        match await self._answer(token):
            case _NotActive(why):
                raise InvalidToken(why)
            case _NoAnswer(why):
                raise KeysUnavailable(f"issuer `{self._issuer.issuer}`: {why}")
            case _Active(claims, at):
                return Told(claims, self._clock() - at)

    async def _answer(self, token: str) -> _Answer:
        digest = sha256(token.encode()).digest()
        known: _Answer | None = self._inactive.get(digest) or self._fresh(digest)
        if known is not None:
            return known
        if self._closed:
            return _NoAnswer("stopped")
        if len(self._flights) >= AT_ONCE + WAITING and digest not in self._flights:
            return _NoAnswer("too many questions wait for an answer")
        flight = self._flights.get(digest) or self._launch(digest, token)
        # `wait` and not `await`: a caller who leaves must not end the question others wait for.
        await asyncio.wait([flight])
        return _NoAnswer("stopped") if flight.cancelled() else flight.result()

    def _fresh(self, digest: bytes) -> _Active | None:
        """An answer that stands, counted from when it was asked for."""
        known = self._active.get(digest)
        return known if known is not None and self._clock() - known.at < self._cache else None

    def _launch(self, digest: bytes, token: str) -> asyncio.Task[_Answer]:
        flight = asyncio.get_running_loop().create_task(self._ask(digest, token))
        self._flights[digest] = flight
        flight.add_done_callback(lambda _: self._flights.pop(digest))
        return flight

    async def _ask(self, digest: bytes, token: str) -> _Answer:
        asked_at = self._clock()
        try:
            async with within_limits():
                answer = self._read(await self._question(token), asked_at)
        except Unobtainable as error:
            self.failures += 1
            self.problem = str(error)
            self._endpoint.failed()
            return _NoAnswer(self.problem)
        self.problem = ""
        # Before the flight ends: whoever comes next finds one of the two.
        if isinstance(answer, _NotActive):
            self._inactive[digest] = answer
        if isinstance(answer, _Active):
            self._active[digest] = answer
        return answer

    async def _question(self, token: str) -> object:
        """RFC 7662 §2.1. Asked once more only if our secret has been changed, or a kept connection had died."""
        where = await self._endpoint.address()
        form = {"token": token, "token_type_hint": "access_token"}
        shown = self._client.authorization()
        try:
            return await self._line.post(where, form, shown)
        except Answered as error:
            if error.status == 400 and error.error == _NOT_ITS_KIND:
                return {"active": False}
            if error.status not in _REFUSES_US:
                raise
            current = self._client.authorization()
            if current == shown:
                raise ValueError(f"our client credentials are refused ({error.status})") from None
        except aiohttp.ClientConnectorError:  # a new connection was tried already
            raise
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError):
            current = shown
        return await self._line.post(where, form, current)

    def _read(self, answer: object, asked_at: float) -> _Answer:
        """RFC 7662 §2.2."""
        active = answer.get("active") if isinstance(answer, dict) else None
        if not isinstance(answer, dict) or not isinstance(active, bool):
            raise ValueError("the answer does not say whether the token is active")
        if not active:
            return _NotActive("the issuer says that the token is not active")
        if answer.get("iss", self._issuer.issuer) != self._issuer.issuer:
            return _NotActive("introspection names another issuer")
        return _Active(answer, asked_at)

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # More questions wait for a connection, which is part of the time they may take.
            self._session = open_session(kept=AT_ONCE)
        return self._session


class Client:
    """Who we are to the issuer: HTTP Basic, as RFC 6749 §2.3.1 wants it."""

    def __init__(self, settings: config.Introspection) -> None:
        self._settings = settings
        path = settings.client_secret_file
        self._file = None if path is None else WatchedFile(path, _read_secret)

    def authorization(self) -> str:
        """The header value, with the secret as it is now. Raises ValueError if there never was one."""
        pair = ":".join(quote_plus(part, safe="*") for part in (self._settings.client_id, self._secret()))
        return f"Basic {b64encode(pair.encode()).decode()}"

    def _secret(self) -> str:
        if self._file is not None:
            return self._file.standing()
        name = self._settings.client_secret_env
        secret = None if name is None else config.secret_in_environment(name)
        if not secret:
            raise ValueError(f"the environment variable `{name}` with the client secret is not set or empty")
        return secret


class _Endpoint:
    """Where tokens are asked about: as the policy says, or as the metadata says and for a while."""

    def __init__(
        self,
        line: Line,
        url: str | None,
        settings: config.Identity,
        clock: Callable[[], float],
    ) -> None:
        self._line = line
        self._fixed = None if url is None else asked_address(line.issuer, url)
        self._settings = settings
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._found: URL | None = None
        self._found_at = self._failed_at = -math.inf
        self._problem = ""

    async def address(self) -> URL:
        """Failures are those of `Line`."""
        if self._fixed is not None:
            return self._fixed
        async with self._one_at_a_time:
            if self._found is None or self._clock() - self._found_at >= self._settings.keys_refresh:
                self._found = await self._discover()
            return self._found

    def failed(self) -> None:
        """A question failed: the address may have changed. Look again, but not for every question."""
        if self._clock() - self._found_at >= self._settings.keys_cooldown:
            self._found = None

    async def _discover(self) -> URL:
        if self._clock() - self._failed_at < PAUSE:
            raise ValueError(self._problem)
        # Invariant: as failed until it succeeds, so that one that runs out of time counts as well.
        self._failed_at, self._problem = self._clock(), "its metadata was not found in time"
        try:
            found = await discover(self._line, "introspection_endpoint")
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self._failed_at, self._problem = self._clock(), str(error)
            raise ValueError(self._problem) from None
        self._found_at, self._failed_at = self._clock(), -math.inf
        return found


def asked_address(issuer: config.Issuer, url: str) -> URL:
    """`introspection.url`, if it may be asked. Raises ValueError."""
    return checked(url, http=issuer.allow_http, loopback=True)


def _read_secret(raw: bytes) -> str:
    try:
        secret = raw.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:  # whose text would quote it
        raise ValueError("is not UTF-8") from None
    if not secret:
        raise ValueError("is empty")
    return secret
