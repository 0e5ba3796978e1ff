"""Policy files → one frozen Config.

Owns: what the rest of the code may know of a policy: its shape, how to load it, how to tell what is wrong with it.
Never: opens a connection, silently ignores a field.

The shape is in `policy_file/document.py`, the way from files to it in `policy_file/__init__.py`. Nothing reads the
environment: a policy is its files and nothing else.
"""

from __future__ import annotations

from sidecar.policy_file import PolicyError, Problem, document_fields, json_schema, load
from sidecar.policy_file.document import (
    Agent,
    AnonymousPrincipal,
    Audit,
    Card,
    Claims,
    Config,
    Identity,
    Issuer,
    Ledger,
    Limits,
    Lists,
    Model,
    OtherPaths,
    Ownership,
    Push,
    Scopes,
    Skill,
)
from sidecar.policy_file.effective import effective, to_yaml
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
    "Agent",
    "AnonymousPrincipal",
    "Audit",
    "Bytes",
    "Card",
    "Claims",
    "Config",
    "Document",
    "Identity",
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
    "UrlPattern",
    "canonical_host",
    "document_fields",
    "effective",
    "is_inside",
    "is_number",
    "json_schema",
    "load",
    "read_document",
    "read_pattern",
    "to_yaml",
]
