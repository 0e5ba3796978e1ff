"""The base of every model of a policy document.

Owns: what all of them have in common: frozen, strict, no unknown keys. Docstrings of fields: described.py.
Never: a key.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
