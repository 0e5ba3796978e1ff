"""The words of this codebase as types.

Owns: Operation, Dialect, Call, Principal, Resource, Owner, Facts, Permit, Refusal, Reason and the
shapes Head, Exchange and Reply that the edges translate to and from.
Never: imports from us, does IO, reads a clock.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeAlias

from multidict import CIMultiDict, CIMultiDictProxy

# --- what the protocol speaks of -------------------------------------------------------------


class Word(StrEnum):
    """A closed list of words. Each is hashed as the text it is: an Enum hashes by a function in Python, at every look-up."""

    __hash__ = str.__hash__


class Binding(Word):
    """A2A's protocol bindings (1.0 §5)."""

    JSONRPC = "JSONRPC"
    HTTP_JSON = "HTTP+JSON"
    GRPC = "GRPC"


class Version(Word):
    """A2A's `Major.Minor` (1.0 §3.6); patch levels take no part in negotiation."""

    V0_1 = "0.1"
    V0_2 = "0.2"
    V0_3 = "0.3"
    V1_0 = "1.0"


class Dialect(NamedTuple):
    """One (binding, version) pair that exists."""

    binding: Binding
    version: Version

    def __str__(self) -> str:
        return "/".join(self)


class Operation(Word):
    """What the spec calls an operation (1.0 §3.1)."""

    SEND_MESSAGE = "send"
    SEND_STREAMING_MESSAGE = "send-stream"
    GET_TASK = "get"
    LIST_TASKS = "list"
    CANCEL_TASK = "cancel"
    SUBSCRIBE_TO_TASK = "subscribe"
    CREATE_PUSH_CONFIG = "push-create"
    GET_PUSH_CONFIG = "push-get"
    LIST_PUSH_CONFIGS = "push-list"
    DELETE_PUSH_CONFIG = "push-delete"
    GET_EXTENDED_CARD = "extended-card"


SENDS: Final = frozenset({Operation.SEND_MESSAGE, Operation.SEND_STREAMING_MESSAGE})
PUSHES: Final = frozenset(
    {
        Operation.CREATE_PUSH_CONFIG,
        Operation.GET_PUSH_CONFIG,
        Operation.LIST_PUSH_CONFIGS,
        Operation.DELETE_PUSH_CONFIG,
    }
)
STREAMS: Final = frozenset({Operation.SEND_STREAMING_MESSAGE, Operation.SUBSCRIBE_TO_TASK})


class Kind(Word):
    """What can be owned."""

    TASK = "task"
    CONTEXT = "context"


class Resource(NamedTuple):
    """A task or a context of one upstream agent. Ids are compared exactly, byte for byte."""

    agent: str
    kind: Kind
    id: str


# --- what an agent card says, as far as we enforce it ------------------------------------------

# One alternative of a security requirement: scheme name → scopes, every scheme and scope needed.
Alternative: TypeAlias = Mapping[str, frozenset[str]]


class Scheme(Word):
    """Kinds of security schemes, in both card spellings (0.3 `type`, 1.0 oneof member)."""

    OAUTH2 = "oauth2"
    OPENID = "openIdConnect"
    HTTP_BEARER = "http-bearer"
    HTTP_OTHER = "http-other"
    API_KEY = "apiKey"
    MTLS = "mutualTLS"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Interface:
    """One address of a card. `dialect` is None where we front no such binding or version."""

    url: str
    dialect: Dialect | None
    tenant: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """An agent card, read once. An empty `requirements` means that nothing is declared."""

    interfaces: tuple[Interface, ...]
    schemes: Mapping[str, Scheme]
    requirements: tuple[Alternative, ...]
    skills: Mapping[str, tuple[Alternative, ...]]
    offers_extended: bool = False
    offers_push: bool = False


# --- who is calling --------------------------------------------------------------------------


class Owner(NamedTuple):
    """Whose a resource is. Components are kept one by one and never glued together."""

    tenant: str
    issuer: str
    subject: str
    further: tuple[str, ...] = ()  # values of `ownership.owner_claims`, in the order configured


@dataclass(frozen=True, slots=True)
class Principal:
    """The verified identity a call is made under.

    `scopes` is None for a credential that has none by nature (API key, mTLS): the scope guard
    does not apply to it. `expires_at` is in seconds since the epoch, None for one without end.
    """

    owner: Owner
    scopes: frozenset[str] | None
    presented_by: str = ""  # azp, client_id or the current actor: the hop that used the token
    actors: tuple[str, ...] = ()  # RFC 8693 `act` chain, the current actor first
    expires_at: float | None = None
    pseudonym: str = ""  # what audit records call the subject
    claims: Mapping[str, frozenset[str]] = field(default_factory=dict)  # those the policy asks about
    certified: bool = False  # a verified client certificate came with the token


# --- one request, decoded --------------------------------------------------------------------

RpcId: TypeAlias = str | int | None


class Form(NamedTuple):
    """How the caller expects an answer of ours to look. `dialect` is None for what is no A2A."""

    dialect: Dialect | None = None
    rpc_id: RpcId = None
    sse: bool = False  # a 0.x JSON-RPC stream: its clients read errors as one event only
    media_type: str = "application/json"  # of HTTP+JSON answers: the caller's own choice


@dataclass(frozen=True, slots=True)
class PushTarget:
    """Where a push config wants notifications sent, what goes into outbound headers, and its id if it has one."""

    url: str
    header_values: tuple[str, ...] = ()
    config_id: str | None = None


@dataclass(frozen=True, slots=True)
class NamedSkill:
    """The skill a caller named, and where (`metadata skillId`, `header A2A-Skill`)."""

    id: str
    named_by: str


@dataclass(frozen=True, slots=True)
class Selection:
    """Which of their own tasks a caller wants listed, and how much of each (1.0 §3.1.4).

    `state` is canonical, `changed_since` a status timestamp in microseconds since the epoch. The
    context filter is the call's `context_id`.
    """

    state: str | None = None
    changed_since: int | None = None
    page_size: int = 50
    page_token: str = ""
    history_length: int | None = None  # None: as much as the agent likes to give
    include_artifacts: bool = False


class Call(NamedTuple):
    """One A2A operation as the caller asked for it, whatever the wire looked like.

    `target` is the canonical path and query below the mount: what is forwarded.
    `tenant` is the A2A tenant, None where the request names none.
    """

    operation: Operation
    form: Form
    dialect: Dialect
    target: str
    task_id: str | None = None
    context_id: str | None = None
    references: tuple[str, ...] = ()
    tenant: str | None = None
    push: tuple[PushTarget, ...] = ()
    skill: NamedSkill | None = None
    selection: Selection | None = None  # of a list
    config_id: str | None = None  # of a push get or delete

    @property
    def creates_by_id(self) -> bool:
        """Whether an unknown task id in this call would create that task (0.1 §7.1)."""
        return self.dialect.version is Version.V0_1 and self.operation in SENDS


class Other(NamedTuple):
    """A request that is clearly no A2A operation. `path` is decoded once, below the mount."""

    form: Form
    target: str
    path: str
    upgrade: bool = False
    preflight: bool = False
    listed_method: bool = False  # a JSON-RPC method `other_paths.methods` names


class Unreadable(NamedTuple):
    """What might be A2A and cannot be named, or could be read in two ways."""

    form: Form
    target: str
    reason: Reason
    detail: str


Decoded: TypeAlias = Call | Other | Unreadable

# --- what the ledger knows -------------------------------------------------------------------


class Fact(NamedTuple):
    """What is recorded of one owned resource."""

    tenant: str = ""  # the A2A tenant it was made under
    context_id: str | None = None
    state: str | None = None  # canonical, e.g. `input-required`
    status_at: str | None = None  # the status timestamp as the agent wrote it (RFC 3339)
    skill: str | None = None
    held: frozenset[str] = frozenset()
    provisional: bool = False


Facts: TypeAlias = Mapping[Resource, Fact]
NO_FACTS: Final[Facts] = MappingProxyType({})


class Entry(NamedTuple):
    """A resource to be recorded, with what is known of it. `chosen` ids came from the caller."""

    resource: Resource
    fact: Fact = Fact()
    chosen: bool = False


class TaskFilter(NamedTuple):
    """Which of an owner's tasks are meant. Those the agent no longer knows, and reserved ids, never are."""

    agent: str
    tenant: str
    context_id: str | None = None
    state: str | None = None
    changed_since: int | None = None  # microseconds since the epoch
    unfinished: bool = False  # only those not known to be in a terminal state


# Where a task stands in its owner's list: status timestamp (microseconds since the epoch), then id.
Position: TypeAlias = tuple[int, str]


@dataclass(frozen=True, slots=True)
class Page:
    """Some of an owner's tasks, newest first, and how many the filter finds in all."""

    tasks: tuple[tuple[Position, Fact], ...]
    total: int


@dataclass(frozen=True, slots=True)
class Webhooks:
    """What a permitted call does to the number of its task's webhooks: see `policy/push.py` for `names`.

    With `enforcing` False a task with too many is only noted.
    """

    names: tuple[str, ...]
    limit: int
    enforcing: bool


class Miss(Word):
    """Why a look-up by owner found nothing; for the audit only, never for a decision."""

    ABSENT = "absent"
    FOREIGN = "foreign"
    PRUNED = "pruned"


# --- the decision ----------------------------------------------------------------------------


class Reason(Word):
    """The closed list of reasons to refuse; `bindings/refusals.py` has a row for each."""

    # who
    UNAUTHENTICATED = "unauthenticated"
    KEYS_UNAVAILABLE = "keys_unavailable"
    # what the request is
    UNPARSABLE = "unparsable"
    INVALID_REQUEST = "invalid_request"
    INVALID_PARAMS = "invalid_params"
    UNKNOWN_OPERATION = "unknown_operation"
    UNSUPPORTED_OPERATION = "unsupported_operation"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    UNKNOWN_PATH = "unknown_path"
    BAD_PATH = "bad_path"
    ENCODING_REFUSED = "encoding_refused"
    UPGRADE_REFUSED = "upgrade_refused"
    BODY_TOO_LARGE = "body_too_large"
    BODY_TOO_SLOW = "body_too_slow"
    OVERLOADED = "overloaded"
    # what the policy says
    SCOPE_DIVERGENCE = "capability_scope_divergence"
    INSUFFICIENT_SCOPE = "insufficient_scope"
    UNKNOWN_SKILL = "unknown_skill"
    TOKEN_LIFETIME_TOO_SHORT = "token_lifetime_too_short"
    PUSH_TARGET_REFUSED = "push_target_refused"
    PUSH_LIMIT_REACHED = "push_limit_reached"
    # whose it is: all of these are one answer on the wire
    NOT_FOUND = "not_found"
    TENANT_MISMATCH = "tenant_mismatch"
    CONTEXT_MISMATCH = "context_mismatch"
    CONTEXT_NOT_ISSUED = "context_not_issued"
    PUSH_NOT_OFFERED = "push_not_offered"
    AGENT_NOT_FOUND = "agent_not_found"
    # what is missing before the call is forwarded
    LEDGER_UNAVAILABLE = "ledger_unavailable"
    CARD_UNAVAILABLE = "card_unavailable"
    AGENT_UNAVAILABLE = "agent_unavailable"
    # what went wrong after it
    AGENT_FAILED = "agent_failed"
    REPLY_UNREADABLE = "reply_unreadable"
    REPLY_TOO_LARGE = "reply_too_large"
    COLLISION = "collision"
    SHARED_CONTEXT = "shared_context"
    FOREIGN_REPLY = "foreign_reply"
    RECORDING_FAILED = "recording_failed"
    INTERNAL = "internal"


class Divergence(NamedTuple):
    """What `CapabilityScopeDivergence` tells: the skill, what it needs, what the token holds.

    `after_creation`: the agent made a task although the call continued one; it was asked to cancel it.
    `needed_lifetime` and `remaining_lifetime` are in seconds, and of `TOKEN_LIFETIME_TOO_SHORT` only.
    """

    skill: str
    chosen_by: str
    required: frozenset[str]
    held: frozenset[str]
    missing: frozenset[str]
    presented_by: str = ""
    after_creation: bool = False
    needed_lifetime: float = 0.0
    remaining_lifetime: float = 0.0


class Refusal(NamedTuple):
    """A negative decision. `detail` reaches the caller, `internal` only the audit record."""

    reason: Reason
    detail: str = ""
    divergence: Divergence | None = None
    challenge: str | None = None  # the whole WWW-Authenticate value
    nonce: str = ""  # for DPoP proofs (RFC 9449 §9)
    internal: str = ""


class Watch(Enum):
    """What a permit obliges us to do with the reply."""

    RECORD = "record"  # a send: ids are recorded before they are released
    KEEP = "keep"  # only the task that was judged may appear
    LIST = "list"  # a list: answered from the ledger with the caller's own tasks
    CARD = "card"  # an extended card: addresses are rewritten
    PASS = "pass"  # nothing of ours


class Permit(NamedTuple):
    """A positive decision, and the ticket `Upstream.forward` needs; made in `policy/` only.

    `reserve` holds ids the caller picked: recorded before forwarding, dropped if the agent errs.
    `creates` tells whether the life-cycle guard has been passed for a new task, `known` is what the
    ledger said, `tenant` the A2A tenant that applies. With `enforcing` False (`ownership.mode:
    observe`) obligations note what they would withhold and change nothing.
    `observed` is the refusal that `mode: observe` let through. Before a call goes on, the hosts in `resolve` must be
    resolved and the call decided anew with what was found; `webhooks` are counted, and given back if the agent errs.
    """

    call: Call | Other
    who: Principal | None
    watch: Watch
    reserve: tuple[Entry, ...] = ()
    creates: bool = False
    tenant: str = ""
    known: Facts = NO_FACTS
    skill: str = ""
    chosen_by: str = ""
    enforcing: bool = True
    observed: Refusal | None = None
    resolve: frozenset[str] = frozenset()
    webhooks: Webhooks | None = None


Decision: TypeAlias = Permit | Refusal


class Refused(Exception):
    """A refusal raised where returning one would bend the line; caught only in `answer`."""

    def __init__(self, reason: Reason, detail: str = "", *, internal: str = "") -> None:
        super().__init__(detail or reason.value)
        self.refusal = Refusal(reason, detail, internal=internal)


# --- the edge --------------------------------------------------------------------------------


class Head(NamedTuple):
    """A request without its body. `target` is the request target as sent, undecoded.

    `certificate` (DER) is the caller's on this connection, verified by TLS; None where there is none.
    """

    method: str
    target: str
    headers: CIMultiDictProxy[str]
    http_version: tuple[int, int] = (1, 1)
    certificate: bytes | None = None


class Exchange(Protocol):
    """One downstream request as an edge hands it over. `id` is its decision id."""

    head: Head
    id: str

    @property
    def has_body(self) -> bool: ...

    def arrived(self) -> bytes | None:
        """The whole body, if all of it is here already; after that `chunks` has nothing to give. Else None."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it arrives, undecoded; may be iterated once. Answers `Expect: 100-continue`."""
        ...


class Duplex(Protocol):
    """An upgraded connection to the agent: bytes both ways, uninspected."""

    async def read(self) -> bytes: ...

    async def write(self, data: bytes) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class Reply:
    """What goes back. A body that is bytes is whole; an iterator is streamed as it yields.

    `length` is the declared Content-Length of a streamed body, None where it has none.
    `tunnel` is what a 101 switches to.
    `after` is called once the last byte has left, or the caller has.
    """

    status: int
    headers: CIMultiDict[str]
    body: bytes | AsyncIterator[bytes] = b""
    length: int | None = None
    after: Callable[[], None] | None = None
    tunnel: Duplex | None = None
