"""Who is calling.

Owns: bearer JWTs from trusted issuers → Principal, and the issuers' keys that takes.
Never: decides what a principal may do, or writes a token anywhere.
"""

from sidecar.identity.authenticate import ANONYMOUS_ISSUER, Identity

__all__ = ["ANONYMOUS_ISSUER", "Identity"]
