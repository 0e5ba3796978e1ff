"""Policy files → one frozen Config.

Owns: what the rest of the code may know of a policy: its shape, how to load it, how to tell what is wrong with it.
Never: opens a connection, silently ignores a field.

The shape is in `policy_file/document.py`, the way from files to it in `policy_file/__init__.py`. A policy is its files
and nothing else; of the environment only this module reads, and only what a policy names or what every program obeys.
"""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Mapping

from sidecar.policy_file import PolicyError, Problem, document_fields, json_schema, load
from sidecar.policy_file.document import (
    Agent,
    Audit,
    Card,
    Config,
    Ledger,
    Limits,
    Lists,
    OtherPaths,
    Ownership,
    Push,
    Scopes,
    Skill,
    Tls,
    UpstreamTls,
)
from sidecar.policy_file.effective import effective, to_yaml
from sidecar.policy_file.identity import (
    Actor,
    AnonymousPrincipal,
    ApiKey,
    ApiKeys,
    Certificates,
    Claims,
    Dpop,
    Identity,
    Introspection,
    Issuer,
)
from sidecar.policy_file.model import Model
from sidecar.policy_file.strict_document import Document, read_document
from sidecar.policy_file.url_patterns import (
    DEFAULT_PORTS,
    UrlPattern,
    canonical_host,
    is_inside,
    is_number,
    read_pattern,
)
from sidecar.policy_file.values import Bytes, JsonRpcVersion, Mode, Seconds

__all__ = [
    "DEFAULT_PORTS",
    "Actor",
    "Agent",
    "AnonymousPrincipal",
    "ApiKey",
    "ApiKeys",
    "Audit",
    "Bytes",
    "Card",
    "Certificates",
    "Claims",
    "Config",
    "Document",
    "Dpop",
    "Identity",
    "Introspection",
    "Issuer",
    "JsonRpcVersion",
    "Ledger",
    "Limits",
    "Lists",
    "Mode",
    "Model",
    "OtherPaths",
    "Ownership",
    "PolicyError",
    "Problem",
    "Push",
    "Scopes",
    "Seconds",
    "Skill",
    "Tls",
    "UpstreamTls",
    "UrlPattern",
    "canonical_host",
    "document_fields",
    "effective",
    "is_inside",
    "is_number",
    "json_schema",
    "load",
    "proxies_in_environment",
    "read_document",
    "read_pattern",
    "secret_in_environment",
    "to_yaml",
]


def secret_in_environment(name: str) -> str | None:
    """The value of the environment variable a policy names as holding a secret; None if it is not set."""
    return os.environ.get(name)  # noqa: TID251 - here and nowhere else


def proxies_in_environment() -> Mapping[str, str]:
    """The `*_proxy` variables by what comes before the `_`: `http`, `https`, `all`, `no`. Lower case wins."""
    return urllib.request.getproxies_environment()
