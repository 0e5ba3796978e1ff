"""Dependencies point one way: __main__ → app → proxy → {bindings, identity, policy, ledger, observe} → model."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "sidecar"

# Each part and the parts it may import, besides itself.
MAY_IMPORT = {
    "model": set(),
    "config": {"policy_file"},
    "policy_file": {"config"},
    "bindings": {"model", "config"},
    "identity": {"model", "config"},
    "policy": {"model", "config"},
    "ledger": {"model", "config"},
    "observe": {"model", "config"},
    "proxy": {"model", "config", "bindings", "identity", "policy", "ledger", "observe"},
    "starting": {"config", "ledger"},
    "app": {"model", "config", "bindings", "identity", "policy", "ledger", "observe", "proxy", "starting"},
    "workers": {"config", "ledger", "observe", "proxy", "starting", "app"},
    "demo": {"config", "app"},
    "cases": {"model", "config", "bindings", "identity", "policy", "proxy", "ledger"},
    "__main__": {"config", "app", "observe", "demo", "cases", "starting", "workers"},
}


def part_of(module: str) -> str | None:
    """`sidecar.policy.rules` → `policy`; None for what is not ours."""
    names = module.split(".")
    return names[1] if names[0] == "sidecar" and len(names) > 1 else None


def imports() -> list[tuple[str, str, str]]:
    found = []
    for path in sorted(ROOT.rglob("*.py")):
        here = path.relative_to(ROOT).parts[0].removesuffix(".py").removesuffix("_types")
        for node in ast.walk(ast.parse(path.read_text())):
            names = [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
            if isinstance(node, ast.ImportFrom) and node.module == "sidecar":
                names = [f"sidecar.{alias.name}" for alias in node.names]
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            found += [
                (str(path.relative_to(ROOT)), here, there) for name in names if (there := part_of(name))
            ]
    return found


@pytest.mark.parametrize(
    ("file", "here", "there"), [pytest.param(*i, id=f"{i[0]} → {i[2]}") for i in imports()]
)
def test_imports_point_one_way(file: str, here: str, there: str) -> None:
    there = there.removesuffix("_types")
    if here != "__init__":
        assert there == here or there in MAY_IMPORT[here], f"{file} may not import sidecar.{there}"


def test_the_scan_sees_imports() -> None:
    assert any(here == "proxy" and there == "policy" for _, here, there in imports())


def test_a_supervisor_stays_small() -> None:
    """It imports neither what its workers are made of, nor their event loop."""
    asked = "import sys, sidecar.workers.supervisor; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], cwd=ROOT.parent, capture_output=True, check=True)
    loaded = set(done.stdout.decode().split())
    assert "sidecar.workers.supervisor" in loaded
    assert not loaded & {"sidecar.app", "sidecar.proxy.enforce", "sidecar.ledger.sqlite", "uvloop", "jwt"}


def test_every_source_file_opens_with_what_it_owns() -> None:
    for path in ROOT.rglob("*.py"):
        text = ast.get_docstring(ast.parse(path.read_text())) or ""
        if path.stat().st_size > 200:
            assert text, f"{path.relative_to(ROOT)} has no module docstring"
