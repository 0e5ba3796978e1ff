"""What the keys of a policy document mean, from the docstrings of their fields.

Owns: reading those docstrings from the source, when somebody asks.
Never: at a start. Pydantic would do it whenever the models are imported, which took a tenth of a second.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Mapping
from functools import cache
from itertools import pairwise

from sidecar.policy_file.model import Model


@cache
def descriptions(model: type[Model]) -> Mapping[str, str]:
    """The description of each field `model` itself has, by name."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairwise(tree.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
