"""What an agent receives of who is calling.

Owns: the headers of every request that goes to one agent for a caller, our own for them too: which credentials go
on, the token that replaces them, what the agent is told of the caller; and what it means that our token was refused.
Never: tells of a caller nobody verified, lends such a caller our token, or logs a token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from types import TracebackType
from typing import Final
from urllib.parse import quote

import structlog
from multidict import CIMultiDict, CIMultiDictProxy

from sidecar import config
from sidecar.model import Principal, Reason, Refused
from sidecar.proxy.from_files import FromFiles
from sidecar.proxy.headers import ABOUT_A_BODY, OWN_PREFIX, sieve, to_upstream

log = structlog.get_logger()

_LONGEST: Final = 16 * 2**10  # bytes of a token file
_TOKEN: Final = re.compile(rb"[\x21-\x7e]+")


class TokenRefused(Refused):
    """The agent does not accept the token we put in the place of the caller's, so nothing came of the call."""


class Onward:
    """What one agent gets. Used within its context; without one there is no token to send."""

    def __init__(self, agent: config.Agent, whole: config.Config) -> None:
        keys = whole.identity.api_keys
        self._api_key = keys.header if keys.keys else None
        self._sieve = sieve(credentials=agent.authorization == "forward", api_key=self._api_key)
        self._agent = agent
        self._key = f"agents[{whole.agents.index(agent)}].authorization_file"
        self._told = tuple((OWN_PREFIX + name, _TELL[name]) for name in agent.identity_headers)
        self._token: FromFiles[str] | None = None
        self._refused = ""  # the last token the agent refused: said once of each
        self._adds = bool(self._told) or agent.authorization == "replace"

    @property
    def files(self) -> Sequence[FromFiles[str]]:
        return () if self._token is None else (self._token,)

    async def __aenter__(self) -> Onward:
        """Read the token, if there is to be one, and watch its file. Raises ValueError, which names key and file."""
        if self._agent.authorization != "replace":
            return self
        path = self._agent.authorization_file
        if path is None:
            raise ValueError(f"{self._key}: say which file holds the token for `authorization: replace`")
        self._token = FromFiles(self._key, (path,), partial(read_token, self._key, path))
        self._token.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            await self._token.close()

    def forwarded(
        self, inbound: CIMultiDictProxy[str], who: Principal | None, *, plain_reply: bool, inflated: bool
    ) -> CIMultiDict[str]:
        """The headers of a caller's own request; `who` is None where nobody was verified. See `to_upstream`."""
        out = to_upstream(inbound, self._sieve, plain_reply=plain_reply, inflated=inflated)
        if self._adds:
            self._add(out, who)
        return out

    def own_request(
        self, inbound: CIMultiDictProxy[str], who: Principal | None, own: Mapping[str, str]
    ) -> CIMultiDict[str]:
        """The headers of a request of ours on behalf of the caller: `own`, over those theirs that are not about a body."""
        out = self.forwarded(inbound, who, plain_reply=True, inflated=True)
        for name in ABOUT_A_BODY:
            out.popall(name, None)
        out.update(own)
        return out

    def identifying(self, inbound: CIMultiDictProxy[str], who: Principal) -> CIMultiDict[str]:
        """Only those headers by which the agent can tell callers apart, where a reply is kept for the next request.

        Without DPoP: a proof is good for one request, which is not this one (RFC 9449 §4.3).
        """
        names = ("Authorization", "Cookie", *((self._api_key,) if self._api_key is not None else ()))
        out = CIMultiDict(
            (name, value) for name in names if self._sieve.goes_on(name) for value in inbound.getall(name, ())
        )
        self._add(out, who)
        return out

    def require_accepted(self, who: Principal | None, status: int, got: Mapping[str, str]) -> None:
        """Raise TokenRefused where the agent's reply to a request of `who` is about our token, not about the caller.

        A 401 always is, since it was the only credential sent; a 403 is where it challenges (RFC 6750 §3: to get a
        token with more scopes), as only we can. A plain 403 says what the agent makes of the caller, and passes.
        """
        if self._token is None or who is None:
            return
        if status != 401 and not (status == 403 and "WWW-Authenticate" in got):
            return
        if self._refused != self._token.value:
            self._refused = self._token.value
            log.error("the agent refuses our token", agent=self._agent.name, key=self._key, status=status)
        raise TokenRefused(
            Reason.AGENT_FAILED, internal=f"the agent answered {status} to the token of `{self._key}`"
        )

    def _add(self, out: CIMultiDict[str], who: Principal | None) -> None:
        if who is None:
            return
        if self._token is not None:
            out["Authorization"] = f"Bearer {self._token.value}"
        for name, tell in self._told:
            if (value := tell(who)) is not None:
                out[name] = value


def read_token(key: str, path: str) -> str:
    """The bearer token that is the whole content of a file. Raises ValueError, which never quotes it."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(_LONGEST + 1)
    except OSError as problem:
        raise ValueError(f"{key}: cannot read `{path}`: {problem.strerror}") from None
    token = content.strip()
    if not token:
        raise ValueError(f"{key}: `{path}` is empty; write the token into it")
    if len(content) > _LONGEST or not _TOKEN.fullmatch(token):
        raise ValueError(
            f"{key}: `{path}` holds no token; write the token alone, one line of visible ASCII without"
            f" `Bearer` before it, at most {_LONGEST} bytes"
        )
    return token.decode("ascii")


# --- what is told of a caller --------------------------------------------------------------------


@lru_cache(maxsize=4096)
def encoded(value: str) -> str:
    """`value` as header text: UTF-8, percent-encoded but for RFC 3986's unreserved characters and `@`, `:`, `/`.

    One value has one text and one text one value, and none has a line end, a blank or a comma.
    """
    return quote(value, safe="@:/")


@lru_cache(maxsize=4096)
def _listed(scopes: frozenset[str]) -> str:
    return " ".join(sorted(map(encoded, scopes)))


def _named(value: str) -> str | None:
    return encoded(value) if value else None


# An empty text is nobody's name. No scopes are another matter: a token with none differs from what needs none.
_TELL: Final[Mapping[str, Callable[[Principal], str | None]]] = {
    "subject": lambda who: _named(who.owner.subject),
    "issuer": lambda who: _named(who.owner.issuer),
    "tenant": lambda who: _named(who.owner.tenant),
    "scopes": lambda who: None if who.scopes is None else _listed(who.scopes),
    "actor": lambda who: _named(who.actors[0]) if who.actors else None,
    "presented-by": lambda who: _named(who.presented_by),
}
