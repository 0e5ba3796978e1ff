"""What a request is served with.

Owns: Deps, the parts `enforce` and the obligations call; built once in `app.py`.
Never: per-request state.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from sidecar.config import Limits, Lists
from sidecar.identity import Identity
from sidecar.ledger import Ledger
from sidecar.observe.audit import Audit
from sidecar.observe.metrics import Metrics
from sidecar.proxy.agents import Agents
from sidecar.proxy.misses import Misses
from sidecar.proxy.names import Names
from sidecar.proxy.page_tokens import PageTokens
from sidecar.proxy.tasks import Background, Settling


@dataclass(frozen=True, slots=True)
class Deps:
    agents: Agents
    identity: Identity
    ledger: Ledger
    audit: Audit
    metrics: Metrics
    settling: Settling  # sends that lost their caller
    draining: Settling  # streams that lost theirs and must not be broken off
    background: Background
    misses: Misses
    lists: Lists
    page_tokens: PageTokens
    limits: Limits
    names: Names
    now: Callable[[], float]  # seconds since the epoch
