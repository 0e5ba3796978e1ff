"""The demo as a user runs it: a process, its exit code, and what it says."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 60.0  # seconds; two cores are shared with other tests
TELL = "from sidecar.demo import main; raise SystemExit(main())"


def demo(folder: Path, *, first: str = "", columns: str = "80") -> subprocess.CompletedProcess[str]:
    """Run it to its end, `first` before it in the same process, with its temporary folder in `folder`."""
    environ = {"TMPDIR": str(folder), "COLUMNS": columns, "HTTP_PROXY": "http://127.0.0.1:9"}
    return subprocess.run(
        [sys.executable, "-c", f"{first}\n{TELL}"],
        cwd=folder,
        env=environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


SAID = (
    pytest.param(
        r"planner +submit code-review +200 +task \S+ is input-required", id="the submission succeeds"
    ),
    pytest.param(
        r"planner +read the task +403 +insufficient_scope", id="the planner may not read its own task"
    ),
    pytest.param(r"planner +answer the question +403 +insufficient_scope", id="nor answer it"),
    pytest.param(r"planner +cancel the task +403 +insufficient_scope", id="nor cancel it"),
    pytest.param(r"orphaned", id="the task is orphaned"),
    pytest.param(r"bob +read alice's task +200", id="without the sidecar bob reads alice's task"),
    pytest.param(
        r"refused +CapabilityScopeDivergence, \d+\.\d ms", id="the sidecar refuses, and says how fast"
    ),
    pytest.param(r"missing a2a\.tasks:read; the agent received 0 requests", id="the missing scope is named"),
    pytest.param(r'completed: "no findings on main"', id="with the wider token the task completes"),
    pytest.param(r"bob +read alice's task +200 +-32001 Task not found", id="bob is told that there is none"),
    pytest.param(
        r"same status, \d+ headers and \d+ bytes of body", id="absent and foreign are the same bytes"
    ),
    pytest.param(r"not_found, because foreign", id="the audit tells them apart"),
    pytest.param(r"every step went as told", id="all went as told"),
)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """One whole run."""
    return demo(tmp_path_factory.mktemp("told"))


@pytest.mark.parametrize("sentence", SAID)
def test_it_says(told: subprocess.CompletedProcess[str], sentence: str) -> None:
    assert re.search(sentence, told.stdout), told.stdout + told.stderr


def test_it_ends_well_and_says_nothing_else(told: subprocess.CompletedProcess[str]) -> None:
    assert (told.returncode, told.stderr) == (0, ""), told.stdout + told.stderr


def test_it_fits_eighty_columns(told: subprocess.CompletedProcess[str]) -> None:
    assert max(len(line) for line in told.stdout.splitlines()) == 80
    assert "…" not in told.stdout.replace("… is input-required", "")  # nothing was cut off


def test_it_runs_again_and_leaves_nothing_behind(
    told: subprocess.CompletedProcess[str], tmp_path: Path
) -> None:
    again = demo(tmp_path, columns="40")
    assert (again.returncode, again.stderr) == (0, ""), again.stdout
    assert list(tmp_path.iterdir()) == []
    assert len(_steps(told.stdout)) == 14
    assert _steps(again.stdout) == _steps(told.stdout)


# Laid into the policy's template, hence the double braces.
WRONG = (
    pytest.param(
        "ownership: {{mode: disabled}}", "the two answers", id="a sidecar that shows bob alice's task"
    ),
    pytest.param("scopes: {{mode: disabled}}", "expected a refusal", id="a sidecar without the scope guard"),
)


@pytest.mark.parametrize(("policy", "difference"), WRONG)
def test_it_fails_with(policy: str, difference: str, tmp_path: Path) -> None:
    run = demo(tmp_path, first=f"from sidecar.demo import sidecar_process as s; s.POLICY += '{policy}\\n'")
    assert run.returncode == 1, run.stdout + run.stderr
    assert run.stderr.startswith("not as told: ")
    assert difference in run.stderr


def test_a_sidecar_that_cannot_start_is_an_error_with_its_words(tmp_path: Path) -> None:
    run = demo(tmp_path, first="from sidecar.demo import sidecar_process as s; s.POLICY += 'audience: x\\n'")
    assert run.returncode == 1
    assert "the sidecar did not start" in run.stderr
    assert "audience" in run.stderr


@pytest.mark.parametrize("module", ["a2a", "uvicorn", "httpx"])
def test_a_missing_extra_is_named(module: str, tmp_path: Path) -> None:
    run = demo(tmp_path, first=f"import sys; sys.modules[{module!r}] = None")
    assert (run.returncode, run.stdout) == (2, "")
    assert run.stderr == f"the demo needs `{module}`: pip install 'a2a-sidecar[demo]'\n"


def test_an_sdk_of_the_past_is_named(tmp_path: Path) -> None:
    run = demo(tmp_path, first="import sidecar.demo as d; d.version = lambda _: '0.3.26'")
    assert (run.returncode, run.stdout) == (2, "")
    assert "`a2a-sdk` 1.x, not 0.3.26" in run.stderr


@pytest.mark.parametrize(
    ("number", "status"),
    [
        pytest.param(signal.SIGINT, 130, id="Ctrl-C"),
        pytest.param(signal.SIGTERM, 143, id="SIGTERM"),
    ],
)
def test_an_early_end_leaves_nothing_behind(number: signal.Signals, status: int, tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", TELL],
        cwd=tmp_path,
        env={"TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell's background job ignores Ctrl-C, and so would whatever it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as run:
        assert run.stdout is not None
        listen = next(found for line in run.stdout if (found := re.search(r"listen: 127.0.0.1:(\d+)", line)))
        run.send_signal(number)
        _, errors = run.communicate(timeout=PATIENCE)
    assert run.returncode == status, errors
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", int(listen[1])))


def _steps(text: str) -> list[str]:
    """The numbered lines, without ids and times."""
    steps = [line for line in text.splitlines() if re.match(r" *\d+ ", line)]
    return [re.sub(r"\d+\.\d ms|task \S+ is", "…", line) for line in steps]
