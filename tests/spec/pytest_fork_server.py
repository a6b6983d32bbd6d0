"""Run pytest many times without its startup cost, by forking a process that has loaded all libraries.

`PytestForkServer` is the client. The server is this file, run as a program in a project folder. For each run it reads a
JSON line, `{"arguments": [...], "seconds": N, "report": FILE}`, and writes a line with the exit code.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import NamedTuple, Self

LIBRARIES = (
    "anyio", "asyncio", "httpx", "hypothesis", "jsonschema", "mcp.server", "msgspec", "pydantic", "pytest",
    "rich.console", "starlette.applications", "textual.app", "textual.widgets", "uvicorn", "xdist",
)  # fmt: skip
"""What tests import that is neither the project nor changed by a mutation."""
TIMED_OUT = 1


class PytestOutcome(NamedTuple):
    """The exit code of a run (TIMED_OUT if it took too long), its output and the failed tests."""

    code: int
    output: str
    failed: tuple[str, ...] = ()


class PytestForkServer:
    """A context manager that starts a fork server for pytest in a project folder."""

    def __init__(self, project: Path) -> None:
        self._project = project

    def __enter__(self) -> Self:
        # Before the installed package on the path, also in the processes that the tests start.
        environment = {**os.environ, "PYTHONPATH": str(self._project)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).resolve())],
            cwd=self._project,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._process.communicate()

    def run(self, arguments: list[str], seconds: float) -> PytestOutcome:
        """Run pytest with these arguments, for at most *seconds*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory(prefix="mcphost-pytest-") as folder:
            report = Path(folder, "report")
            request = {"arguments": arguments, "seconds": seconds, "report": str(report)}
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
            failed = report.with_suffix(".failed")
            return PytestOutcome(
                int(line),
                report.read_text(encoding="utf-8", errors="replace") if report.exists() else "",
                tuple(failed.read_text(encoding="utf-8").splitlines()) if failed.exists() else (),
            )


def serve_requests() -> None:
    """Run pytest for each request on standard input until the input ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    # The program's own folder would hide modules of the standard library behind files of the tests.
    sys.path[0] = os.getcwd()
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if not child:
            _run(request["arguments"], Path(request["report"]))
        print(_wait(child, request["seconds"]), flush=True)


def _run(arguments: list[str], report: Path) -> None:
    """Run pytest in this forked process, write its output to the file *report*, and exit."""
    code = 3
    try:
        os.setsid()
        output = os.open(report, os.O_WRONLY | os.O_CREAT, 0o600)
        nowhere = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nowhere), (1, output), (2, output)):
            os.dup2(source, target)
        code = _pytest(arguments, report.with_suffix(".failed"))
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - the process ends here; whoever asked reads it in the output
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _pytest(arguments: list[str], failed: Path) -> int:
    import pytest

    class Recorder:
        """A pytest plugin that writes the id of each failed test to a file."""

        def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
            if report.failed:
                with failed.open("a", encoding="utf-8") as file:
                    file.write(f"{report.nodeid}\n")

    # The plugins were imported before pytest could rewrite their assertions; none of them needs that.
    quiet = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]
    return int(pytest.main([*quiet, *arguments], plugins=[Recorder()]))


def _wait(child: int, seconds: float) -> int:
    """Return the exit code of a forked process; after *seconds*, kill it together with the processes of its tests."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return TIMED_OUT


if __name__ == "__main__":
    serve_requests()
