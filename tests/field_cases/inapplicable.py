"""Field cases, or items of their *Try* lists, that no test here shows, each with the reason.

Owns: the list.
Never: excuses a case that could be tested.
"""

from __future__ import annotations

from collections.abc import Mapping

INAPPLICABLE: Mapping[str, str] = {
    "kinds 1 and 2: the gRPC binding": "not served yet; its interfaces are taken off the card",
    "FC-001, FC-003: G1, G3 and G4 as agents": (
        "how an agent would decode matters only if it is asked; that none is asked is what the tests show"
    ),
    "FC-003: siblings that collide but are no members of the protocol": (
        "the design decides otherwise (§2.1): below metadata and data only exact duplicates are refused"
    ),
    "FC-007: a UTF-8 BOM judged as plain JSON": "the design decides otherwise (§2.1): a BOM is refused",
    "FC-010: -32600 for a body that is a string, a number or null": (
        "the design decides otherwise (§2.2, §3.4): what begins with neither brace nor bracket is no A2A, and passes or"
        " is refused as any other request; on a route of HTTP+JSON it is refused"
    ),
    "FC-012: the build fails if the Python parser is in use": (
        "a step of the image's build, not a test here: the cases themselves are run with both parsers"
    ),
    "FC-013: a bare CR in a chunk extension, Python parser": (
        "aiohttp's Python parser takes it, the C parser that is shipped does not; what goes on is framed anew"
    ),
    "FC-014: an upgrade refused on every path": (
        "the design decides otherwise (§3.4): WebSocket on a path the policy opens is a tunnel; `tests/edge/test_http.py`"
    ),
    "FC-018: a query rebuilt from what was judged": (
        "it goes on as it was sent: whatever could be read in a second way is refused before"
    ),
    "FC-018: repeated parameters of a path that is no A2A": "no operation is judged by them (design §2.13)",
    "FC-021: 404 for `/v1/tasks/T` and `/v1/card`": (
        "these are routes of 0.3 and are judged as such where it is served; declared to be 1.0 they are refused"
    ),
    "FC-022: HEAD of the endpoint": (
        "no operation is called by GET there, so HEAD is judged as any other path is (design §3.4)"
    ),
    "FC-026: a list of allowed hosts": (
        "nothing is decided by the host a caller names, so there is nothing to compare: not the agent, tenant, card or"
        " redirect; the agent hears its own"
    ),
    "FC-027: `?_method=` beside a JSON-RPC call or on a path that is no A2A": (
        "no operation is judged by the verb there but POST; on routes of HTTP+JSON it is refused"
    ),
    "FC-031: 404 at every unknown path": (
        "the design decides otherwise: so under `other_paths: refuse`; by default any valid caller passes"
    ),
    "FC-041: cookies and other query credentials taken away": (
        "an `access_token` in the query beside a credential is refused; the others prove nothing to the sidecar; the agent gets them as the caller sent them unless `authorization: strip`"
        " takes cookies too (design §7)"
    ),
    "FC-053: refused within 200 ms": "no time is measured; that the agent is not asked is",
    "FC-053, FC-059, FC-063: the gRPC binding": "not served yet; its interfaces are taken off the card",
    "FC-058: a scope named for one operation, by itself": (
        "there is no such key: `scopes.lifecycle` names it, and `scopes.per_operation: enforce` checks it there"
    ),
    "FC-059: a plain JSON error for the stream methods of 0.x": (
        "the design decides otherwise (§8): their clients read an error from an event only, so it is one event"
    ),
    "FC-062: `allowed_principals`": (
        "there is no such key, and one is refused as unknown: who may call is said by issuer, audience, tenant and"
        " actor"
    ),
    "FC-062: `{claims: {}}` of a tenant": (
        "no list: it states no condition, as a tenant named in a plain list; an empty list of a claim's values is met"
        " by nobody"
    ),
    "FC-062: agents added later": "an agent has no list of callers of its own that could be empty but `audiences`",
    "FC-062: defaults in the start-up summary": (
        "`a2a-sidecar check --effective` prints every default; the start names what is dangerous"
    ),
    "FC-065, FC-073: replicas as processes": (
        "no ledger is shared between processes yet: two sidecars in one process share one ledger instead; to be repeated"
        " as processes with the first shared ledger"
    ),
    "FC-065, FC-073, FC-074: figures of time (30 s, 500 ms, 5 s)": (
        "tests measure no time: the order of events is what they wait for"
    ),
    "FC-069: equal to the agent's native answer": (
        "the design decides otherwise (§2.6): one form of our own for every cause, which the agent's own takes too"
    ),
    "FC-069, FC-071: an absent task of a 0.1 send": (
        "there the caller picks the id, so one nobody has creates a task (design §2.6, the documented exception)"
    ),
    "FC-075: the owner of a compressed event stream": (
        "what cannot be read is withheld (FC-075); the agent is asked for `identity` and no SDK compresses streams"
    ),
    "FC-077: which tenant a principal may use": "`agents[].tenants` as a mapping has tests of its own, in `tests/edge`",
    "FC-108: within 100 ms": "an order, not a time: event n is read before the agent may write event n+1",
    "FC-108: Cache-Control and X-Accel-Buffering": (
        "the agent's own pass; none is added where it says none (design §2.13: as the agent alone would have answered)"
    ),
    "FC-109: a stream of six minutes": (
        "by hand only: no limit of ours grows with the length of a stream, and a shortened one shows the same"
    ),
    "FC-109: comment pings of ours": "the design decides otherwise (§2.11): none are added",
    "FC-112: closed within 5 s": "no time is measured; that they close is",
    "FC-112: closed where the card shows 0.x": (
        "the design decides otherwise (§2.11): such a subscription is drained; `tests/edge/test_streams.py`"
    ),
    "FC-115: the agent's 401 as 502": (
        "the design decides otherwise: it passes unless the sidecar replaced the credential, which it cannot do yet"
    ),
    "FC-117: an id in the history of the caller's own task": (
        "the design decides otherwise (§5): it passes and owns nothing, since a task may speak of another"
    ),
}
