"""The values a policy may hold.

Owns: how durations, sizes, addresses, paths, scopes and names are written, and what is wrong with one that is not.
Never: looks at two fields at once (`checks.py` does), or repeats a value that may carry a secret.

A string is checked after pydantic's strict type check; a duration and a size before, since they are written as
strings and kept as numbers. `FROM_FILE` is the validation context of a document: code may say `5.0`, a file may not.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Annotated, Final, Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, ValidationInfo, WithJsonSchema

from sidecar.policy_file.url_patterns import read_pattern

FROM_FILE: Final[Mapping[str, bool]] = {"from_file": True}

UNITS_OF_TIME: Final[Mapping[str, float]] = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
UNITS_OF_SIZE: Final[Mapping[str, int]] = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}

DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d)")
SIZE: Final = re.compile(r"([0-9]{1,9})(KiB|MiB|GiB)")
LONGEST: Final = 36500 * 86400.0  # a century; past it clocks and databases disagree about dates

# RFC 6749 §3.3: what a scope consists of. A blank separates scopes and is never inside one.
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]+")
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")  # RFC 9110 §5.6.2, a header's name
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_URL: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]+")  # visible ASCII without the backslash
_HOST: Final = re.compile(r"\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_PATH: Final = re.compile(r"/|(?:/[A-Za-z0-9._~!$&'()*+,=:@-]+)+")  # no `%`, `;`, `\`: read one way only
# The trust domain is in lower case (SPIFFE-ID §2.1), path segments as §2.2 has them.
_CERTIFICATE_NAME: Final = re.compile(
    r"spiffe://[a-z0-9._-]+(?:/[A-Za-z0-9._-]+)*(?:/\*)?|dns:[a-z0-9_-]+(?:\.[a-z0-9_-]+)*"
)
_NOTHING_HASHED: Final = hashlib.sha256(b"").hexdigest()
_TAKEN_HEADERS: Final = frozenset(
    {
        *("authorization", "proxy-authorization", "cookie", "dpop", "host", "content-type", "content-length"),
        *(
            "content-encoding",
            "transfer-encoding",
            "connection",
            "te",
            "trailer",
            "upgrade",
            "expect",
            "accept",
        ),
        *("accept-encoding", "a2a-version", "a2a-extensions", "x-a2a-extensions", "x-forwarded-client-cert"),
    }
)
_ADDRESS: Final = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")


def parse_duration(text: str) -> float:
    """`250ms`, `60s`, `10m`, `1h`, `30d` in seconds. Raises ValueError."""
    if not (match := DURATION.fullmatch(text)):
        raise ValueError(
            f"`{text}` is no duration; write a whole number and a unit, as in `250ms`, `60s`, `10m`, `1h`, `30d`"
        )
    seconds = int(match[1]) * UNITS_OF_TIME[match[2]]
    if seconds > LONGEST:
        raise ValueError(f"`{text}` is longer than a hundred years; write at most `36500d`")
    return seconds


def parse_size(text: str) -> int:
    """`64KiB`, `16MiB`, `1GiB` in bytes. Raises ValueError."""
    if not (match := SIZE.fullmatch(text)):
        raise ValueError(
            f"`{text}` is no size; write a whole number and a unit, as in `64KiB`, `16MiB`, `1GiB`"
        )
    return int(match[1]) * UNITS_OF_SIZE[match[2]]


def format_duration(seconds: float) -> str:
    """The shortest way to write a duration in a policy."""
    for unit in ("d", "h", "m", "s"):
        if seconds and seconds % UNITS_OF_TIME[unit] == 0:
            return f"{int(seconds / UNITS_OF_TIME[unit])}{unit}"
    return f"{round(seconds * 1000)}ms" if seconds else "0s"


def format_size(size: int) -> str:
    """The shortest way to write a size in a policy."""
    for unit in ("GiB", "MiB", "KiB"):
        if size and size % UNITS_OF_SIZE[unit] == 0:
            return f"{size // UNITS_OF_SIZE[unit]}{unit}"
    return str(size)


def _duration(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_duration(value)
    if info.context is FROM_FILE:
        if isinstance(value, int) and not isinstance(value, bool):
            raise ValueError(f"a duration needs its unit; write `{value}s` if seconds are meant")
        raise ValueError("a duration is expected; write it as in `250ms`, `60s`, `10m`, `1h`, `30d`")
    return value


def _size(value: object, info: ValidationInfo) -> object:
    if isinstance(value, str):
        return parse_size(value)
    if info.context is FROM_FILE and (not isinstance(value, int) or isinstance(value, bool)):
        raise ValueError(
            "a size is expected; write it as in `64KiB`, `16MiB`, `1GiB`, or as a number of bytes"
        )
    return value


def _text(value: str) -> str:
    if not value:
        raise ValueError("must not be empty; write a value, or remove the key")
    if value != value.strip() or not value.isprintable():
        raise ValueError("has blanks around it or control characters inside; write the bare value")
    return value


def _audience(value: str) -> str:
    if "*" in _text(value):
        raise ValueError(
            "an audience is compared whole and has no wildcards; write it as the tokens carry it"
        )
    return value


def _scope(value: str) -> str:
    if len(value.split()) > 1:
        several = ", ".join(f'"{scope}"' for scope in value.split())
        raise ValueError(f"a scope holds no blanks; write several as a list, `[{several}]`")
    if not _SCOPE.fullmatch(value):
        raise ValueError("is no scope: visible ASCII without blanks, quotes and backslashes (RFC 6749 §3.3)")
    return value


def _name(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(
            "is no name: letters, digits, `.`, `_` and `-`, at most 63, starting with a letter or digit"
        )
    return value


def _method(value: str) -> str:
    if not _text(value).isascii() or any(c in value for c in ' *"\\'):
        raise ValueError("is no JSON-RPC method; write its exact name, there are no wildcards")
    return value


def _skill_source(value: str) -> str:
    kind, colon, name = value.partition(":")
    if not colon or kind not in {"metadata", "header"}:
        raise ValueError("write `metadata:KEY` or `header:NAME`")
    if name != name.strip() or not name.isprintable() or not name:
        raise ValueError(f"names no {'key' if kind == 'metadata' else 'header'} after `{kind}:`")
    if kind == "header" and not _TOKEN.fullmatch(name):
        raise ValueError("is no header name (RFC 9110 §5.6.2)")
    return value


def _canonical_path(value: str) -> str:
    if not value.startswith("/"):
        raise ValueError(f"must start with `/`; write `/{value.strip('/')}`")
    if len(value) > 1 and value.endswith("/"):
        raise ValueError(f"must not end in `/`; write `{value.rstrip('/') or '/'}`")
    if not _PATH.fullmatch(value) or _has_dot_segments(value):
        raise ValueError(
            "is not canonical; write it without `//`, `.` and `..` segments, `%`, `;`, `\\`, query and blanks"
        )
    return value


def _open_path(value: str) -> str:
    _canonical_path(value.removesuffix("/*") if value != "/*" else "/")
    return value


def _has_dot_segments(path: str) -> bool:
    return not {".", ".."}.isdisjoint(unquote(path).replace("\\", "/").split("/"))


def _absolute_url(value: str) -> str:
    """An absolute http(s) URL that names a place and carries nothing else. Never quotes the value: it may hold a password."""
    try:
        parts = urlsplit(value) if _URL.fullmatch(value) else None
        port = parts.port if parts else None
    except ValueError:
        parts = port = None
    # In lower case, so that whoever looks for `https://` finds it.
    if parts is None or not value.startswith(("http://", "https://")) or not parts.netloc:
        raise ValueError("must be an absolute http or https URL, as in `https://agents.example.com/review`")
    if "@" in parts.netloc:
        raise ValueError("must not carry user-info; credentials are never written into a policy")
    if "?" in value or "#" in value:
        raise ValueError("must not carry a query or a fragment; write the URL without it")
    bare_host = re.sub(r":[0-9]*\Z", "", parts.netloc)
    if not _HOST.fullmatch(bare_host) or port == 0 or parts.netloc.endswith(":"):
        raise ValueError(
            "has no valid host and port; write a name, an IPv4 address or `[IPv6]`, and a port from 1 to 65535"
        )
    if "//" in parts.path or _has_dot_segments(parts.path):
        raise ValueError("has a path that is not canonical; write it without `//`, `.` and `..` segments")
    return value


def _key_url(value: str) -> str:
    """A `jwks_uri`: as other URLs, but some issuers need a query (a tenant or policy name)."""
    base, mark, query = value.partition("?")
    if mark and not _URL.fullmatch(query):
        raise ValueError("has a query that is no visible ASCII")
    if "#" in query:
        raise ValueError("must not carry a fragment; write the URL without it")
    _absolute_url(base)
    return value


def _host_and_port(value: str) -> str:
    match = _ADDRESS.fullmatch(value)
    if not match or int(match[2]) > 65535:
        example = f"127.0.0.1{value}" if re.fullmatch(r":[0-9]{1,5}", value) else "127.0.0.1:8080"
        raise ValueError(f"must be `host:port`, an IPv6 host in brackets; write it as in `{example}`")
    try:
        if match[1].startswith("["):
            IPv6Address(match[1][1:-1])
        elif re.fullmatch(r"[0-9.]+", match[1]):
            IPv4Address(match[1])
    except AddressValueError:
        raise ValueError(f"`{match[1]}` is no IP address") from None
    return value


def _push_pattern(value: str) -> str:
    read_pattern(value)
    return value


def _ledger_url(value: str) -> str:
    if value == "memory:":
        return value
    scheme = value.partition(":")[0]
    if scheme in {"redis", "rediss", "postgres", "postgresql"}:
        raise ValueError(
            f"a `{scheme}:` ledger is not supported by this version; write `sqlite:////data/ledger.db`"
        )
    path = value.removeprefix("sqlite:///")
    if path == value or not path.strip("/") or path.endswith("/") or any(c in path for c in "?#\0"):
        raise ValueError(
            "must be `memory:` or `sqlite:///` and a file; four slashes are absolute: `sqlite:////data/ledger.db`"
        )
    return value


def _header_name(value: str) -> str:
    if not _TOKEN.fullmatch(value):
        raise ValueError("is no header name (RFC 9110 §5.6.2)")
    if value.lower() in _TAKEN_HEADERS or value.lower().replace("_", "-").startswith("x-a2a-"):
        raise ValueError(f"`{value}` has a meaning of its own; write another header, as in `X-API-Key`")
    return value


def _environment_name(value: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value):
        raise ValueError("is no name of an environment variable; write the name, never the secret itself")
    return value


def _sha256(value: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{64}", value):
        raise ValueError(
            'is no SHA-256: 64 hexadecimal digits in lower case, as `printf %s "$KEY" | sha256sum` prints them'
        )
    if value == _NOTHING_HASHED:
        raise ValueError('is the hash of an empty key; was "$KEY" set?')
    return value


def _certificate_name(value: str) -> str:
    kind, name = _CERTIFICATE_NAME.fullmatch(value), value.partition(":")[2].lstrip("/")
    if kind is None or "*" in name.removesuffix("/*") or name.startswith("*") or ".." in name:
        raise ValueError(
            "is no name of a certificate; write a SPIFFE id (`spiffe://example.org/ns/prod/sa/planner`, or"
            " `spiffe://example.org/ns/prod/*` for all below), or a DNS name (`dns:planner.example.org`)"
        )
    return value


def _absolute_file(value: str) -> str:
    if value.startswith("/") and not value.endswith("/") and "\0" not in value:
        return value
    raise ValueError("must be the absolute path of a file")


def _audit_output(value: str) -> str:
    if value in {"stdout", "disabled"} or (
        value.startswith("/") and not value.endswith("/") and "\0" not in value
    ):
        return value
    raise ValueError("must be `stdout`, `disabled`, or the absolute path of a file")


Seconds = Annotated[
    float,
    BeforeValidator(_duration),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^{DURATION.pattern}$",
            "description": "e.g. `60s`, `10m`, `1h`, `30d`",
        }
    ),
]
Bytes = Annotated[
    int,
    BeforeValidator(_size),
    WithJsonSchema(
        {"oneOf": [{"type": "string", "pattern": f"^{SIZE.pattern}$"}, {"type": "integer", "minimum": 1}]}
    ),
]
Mode: TypeAlias = Literal["enforce", "observe", "disabled"]
JsonRpcVersion: TypeAlias = Literal["0.1", "0.2", "0.3", "1.0"]
LifeCycle: TypeAlias = Literal["send", "get", "cancel", "subscribe", "push"]
DialectName: TypeAlias = Literal[
    "JSONRPC/0.1", "JSONRPC/0.2", "JSONRPC/0.3", "JSONRPC/1.0", "HTTP+JSON/0.3", "HTTP+JSON/1.0"
]
# Asymmetric ones only: with a shared secret, whoever can verify can also issue (RFC 8725 §3.1, §3.2).
Algorithm: TypeAlias = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
    "Ed448",
]
IdentityHeader: TypeAlias = Literal["subject", "issuer", "tenant", "scopes", "actor", "presented-by"]
Text = Annotated[str, AfterValidator(_text)]
Name = Annotated[str, AfterValidator(_name)]
Audience = Annotated[str, AfterValidator(_audience)]
Scope = Annotated[str, AfterValidator(_scope)]
Method = Annotated[str, AfterValidator(_method)]
SkillSource = Annotated[str, AfterValidator(_skill_source)]
Path = Annotated[str, AfterValidator(_canonical_path)]
OpenPath = Annotated[str, AfterValidator(_open_path)]
Url = Annotated[str, AfterValidator(_absolute_url)]
KeyUrl = Annotated[str, AfterValidator(_key_url)]
PushPattern = Annotated[str, AfterValidator(_push_pattern)]
HostPort = Annotated[str, AfterValidator(_host_and_port)]
LedgerUrl = Annotated[str, AfterValidator(_ledger_url)]
FilePath = Annotated[str, AfterValidator(_absolute_file)]
HeaderName = Annotated[str, AfterValidator(_header_name)]
EnvironmentName = Annotated[str, AfterValidator(_environment_name)]
Sha256 = Annotated[str, AfterValidator(_sha256)]
CertificateName = Annotated[str, AfterValidator(_certificate_name)]
AuditOutput = Annotated[str, AfterValidator(_audit_output)]
