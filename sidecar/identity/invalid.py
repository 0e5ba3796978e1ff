"""Why a token is refused, in two voices.

Owns: the few sentences a caller may hear (RFC 6750 §3.1) and the refusal made of them.
Never: lets a caller, or the audit, see what a token says.
"""

from __future__ import annotations

from enum import StrEnum

from sidecar.model import Reason, Refusal

# RFC 6750 §3.1: a request without (usable) authentication information gets no error code.
NO_TOKEN = Refusal(
    Reason.UNAUTHENTICATED, "a bearer token is required", challenge="Bearer", internal="no bearer token"
)


class Fault(StrEnum):
    """All that is told to a caller: RFC 6750's own words for `invalid_token`."""

    MALFORMED = "the access token is malformed"
    EXPIRED = "the access token expired"
    INVALID = "the access token is invalid"


class InvalidToken(Exception):
    """A token is not accepted. The text is for the audit and names no value of the token."""

    def __init__(self, internal: str, fault: Fault = Fault.INVALID) -> None:
        super().__init__(internal)
        self.fault = fault

    @property
    def refusal(self) -> Refusal:
        """The 401 of RFC 6750 §3.1, `invalid_token`."""
        return Refusal(
            Reason.UNAUTHENTICATED,
            self.fault.value,
            challenge=f'Bearer error="invalid_token", error_description="{self.fault}"',
            internal=str(self),
        )


class KeysUnavailable(Exception):
    """The keys a token needs cannot be had now: neither a yes nor a no, so a 503."""

    @property
    def refusal(self) -> Refusal:
        return Refusal(
            Reason.KEYS_UNAVAILABLE, "the keys to verify access tokens are unavailable", internal=str(self)
        )
