"""Why a token is refused, in two voices.

Owns: the few sentences a caller may hear (RFC 6750 §3.1) and the refusal made of them.
Never: lets a caller, or the audit, see what a token says.
"""

from __future__ import annotations

from enum import StrEnum

from sidecar import config
from sidecar.model import Reason, Refusal


class Fault(StrEnum):
    """All that is told to a caller: RFC 6750's own words for `invalid_token`."""

    MALFORMED = "the access token is malformed"
    EXPIRED = "the access token expired"
    INVALID = "the access token is invalid"


class InvalidToken(Exception):
    """A token is not accepted. The text is for the audit and names no value of the token.

    `scheme` is the one it was sent under: the challenge is in the same (RFC 9449 §7.1).
    """

    def __init__(self, internal: str, fault: Fault = Fault.INVALID) -> None:
        super().__init__(internal)
        self.fault = fault
        self.scheme = "Bearer"

    @property
    def refusal(self) -> Refusal:
        """The 401 of RFC 6750 §3.1, `invalid_token`."""
        return Refusal(
            Reason.UNAUTHENTICATED,
            self.fault.value,
            challenge=f'{self.scheme} error="invalid_token", error_description="{self.fault}"',
            internal=str(self),
        )


class InvalidKey(InvalidToken):
    """An API key is nobody's. RFC 6750 has no words for it, so the challenge names no error."""

    def __init__(self) -> None:
        super().__init__("an API key that is nobody's")

    @property
    def refusal(self) -> Refusal:
        """The 401, without the words of RFC 6750."""
        return Refusal(
            Reason.UNAUTHENTICATED, "the API key is invalid", challenge="ApiKey", internal=str(self)
        )


class ProofFault(StrEnum):
    """All that is told to a caller of a DPoP proof (RFC 9449 §7.1, §9)."""

    MISSING = "one DPoP proof is required"
    MALFORMED = "the DPoP proof is malformed"
    INVALID = "the DPoP proof is invalid"
    OTHER = "the DPoP proof is not for this request"
    AGE = "the DPoP proof is too old or from the future"
    REPLAYED = "the DPoP proof was used before"
    NONCE = "a new nonce is required in the DPoP proof"


class InvalidProof(InvalidToken):
    """A DPoP proof is not accepted. `algorithms` are those it may be signed with; with a `nonce`, that is what it lacks."""

    def __init__(self, internal: str, told: ProofFault, *, nonce: str = "") -> None:
        super().__init__(f"DPoP proof: {internal}")
        self.told = told
        self.nonce = nonce
        self.algorithms: tuple[str, ...] = ()

    @property
    def refusal(self) -> Refusal:
        """The 401 of RFC 9449 §7.1, or §9 where a nonce is asked for."""
        error = "use_dpop_nonce" if self.nonce else "invalid_dpop_proof"
        return Refusal(
            Reason.UNAUTHENTICATED,
            self.told.value,
            challenge=f'DPoP error="{error}", error_description="{self.told}", algs="{" ".join(self.algorithms)}"',
            nonce=self.nonce,
            internal=str(self),
        )


class KeysUnavailable(Exception):
    """The keys a token needs cannot be had now: neither a yes nor a no, so a 503."""

    @property
    def refusal(self) -> Refusal:
        return Refusal(
            Reason.KEYS_UNAVAILABLE, "the keys to verify access tokens are unavailable", internal=str(self)
        )


def no_credential(settings: config.Identity) -> Refusal:
    """What a request without a usable credential is told: which ones there are (RFC 6750 §3.1: no error code)."""
    ways = [
        ("a bearer token", "Bearer", settings.issuers),
        (f"an API key in `{settings.api_keys.header}`", "ApiKey", settings.api_keys.keys),
        ("a client certificate", "Certificate", settings.certificates.principals),
    ]
    open_ways = [(name, scheme) for name, scheme, entries in ways if entries] or [
        ("a bearer token", "Bearer")
    ]
    return Refusal(
        Reason.UNAUTHENTICATED,
        f"{' or '.join(name for name, _ in open_ways)} is required",
        challenge=", ".join(scheme for _, scheme in open_ways),
        internal="no credential",
    )
