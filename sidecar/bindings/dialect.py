"""Which (binding, version) pairs exist, and how a request declares its own.

Owns: the closed list of dialects, and reading `A2A-Version` from header and query.
Never: guesses a version from the payload's shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from multidict import CIMultiDictProxy

from sidecar.model import Binding, Dialect, Reason, Refused, Version

VERSION_NAME: Final = "A2A-Version"

JSONRPC_0_1: Final = Dialect(Binding.JSONRPC, Version.V0_1)
JSONRPC_0_2: Final = Dialect(Binding.JSONRPC, Version.V0_2)
JSONRPC_0_3: Final = Dialect(Binding.JSONRPC, Version.V0_3)
JSONRPC_1_0: Final = Dialect(Binding.JSONRPC, Version.V1_0)
HTTP_0_3: Final = Dialect(Binding.HTTP_JSON, Version.V0_3)
HTTP_1_0: Final = Dialect(Binding.HTTP_JSON, Version.V1_0)
GRPC_0_3: Final = Dialect(Binding.GRPC, Version.V0_3)
GRPC_1_0: Final = Dialect(Binding.GRPC, Version.V1_0)

# Where one name serves several versions, the highest that is enabled is meant.
JSONRPC: Final = (JSONRPC_1_0, JSONRPC_0_3, JSONRPC_0_2, JSONRPC_0_1)
HTTP: Final = (HTTP_1_0, HTTP_0_3)

# As a policy writes them: `JSONRPC/0.3`.
DIALECTS: Final[Mapping[str, Dialect]] = {
    str(dialect): dialect for dialect in (*JSONRPC, *HTTP, GRPC_1_0, GRPC_0_3)
}


def declared_version(headers: CIMultiDictProxy[str], query: tuple[tuple[str, str], ...]) -> str:
    """The version a request declares (1.0 §3.6.1), `""` where it declares none.

    Raises Refused(INVALID_REQUEST) where header and query, or two headers, disagree: of the servers
    measured some read one, some the other.
    """
    sent = headers.getall(VERSION_NAME, ())
    if not query and len(sent) < 2:
        return sent[0].strip() if sent else ""
    values = {value.strip() for value in sent}
    values.update(value.strip() for name, value in query if name.casefold() == VERSION_NAME.casefold())
    if len(values) > 1:
        raise Refused(Reason.INVALID_REQUEST, f"`{VERSION_NAME}` is declared more than once, differently")
    return next(iter(values), "")


def is_0x(version: str) -> bool:
    """Whether a declared version means 0.x; so does an absent or empty one (1.0 §3.6.2)."""
    return not version or version == "0" or version.startswith("0.")


def jsonrpc_guess(headers: CIMultiDictProxy[str]) -> Dialect:
    """The dialect to answer a JSON-RPC caller in, where the method does not tell."""
    return JSONRPC_1_0 if headers.get(VERSION_NAME, "").strip().startswith("1") else JSONRPC_0_3
