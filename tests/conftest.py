"""The pytest configuration of all tests: their order, which ones are quick, and what happens if a peer is missing."""

import faulthandler
import gc
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from mcphost import redact
from tests import bytecode
from tests.fakes.package_tools import refuse_index_queries
from tests.flows import fork_sockets
from tests.flows.program import Program
from tests.open_databases import close_databases  # noqa: F401 - a fixture of all tests
from tests.peers import node
from tests.quick_tests import QUICK_FOLDERS, is_quick

HERE = Path(__file__).parent
T = TypeVar("T")

# Hundreds of processes start here. Without bytecode caches each would compile every module it imports: the
# worker with litellm would take nine seconds instead of five.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Imports create no garbage. Garbage of the tests is collected seldom: it took a third of a worker's time.
gc.disable()

# The duration of an example depends on the load of the machine, not on the product.
settings.register_profile("mcphost", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("mcphost")


# Long files that run on one worker start first, or the last of them would run alone at the end.
LONGEST_FIRST = (
    "peers/test_survey",
    "packaging/",
    "conformance/",
    "peers/models/",
    "flows/test_headless_run.py",
    "flows/test_commands.py",
    "unit/client/test_stdio_servers.py",
)
INTERLEAVED_FOLDERS = ("screens", "terminal", "flows", "peers")
"""Folders whose tests compute or wait: mixed with each other and with the rest, they keep the processors busy."""
SLOW_TESTS = (
    "tests/terminal/",
    "tests/peers/",
    "tests/screens/test_typing_during_questions",
    "tests/screens/test_real_",
)
"""Tests of INTERLEAVED_FOLDERS that take seconds each: none of them is what the last worker does alone at the end."""


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With `-m quick`, do not import files and folders that contain no quick tests."""
    if config.getoption("markexpr") != "quick":
        return None
    if collection_path.match("test_*.py") and collection_path.is_relative_to(HERE):
        return None if is_quick(collection_path.relative_to(HERE)) else True
    if collection_path.parent == HERE and collection_path.is_dir():
        return True if collection_path.name not in QUICK_FOLDERS else None
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """In a worker, compile files together with the other workers; without workers, files are compiled on import."""
    config = session.config
    if hasattr(config, "workerinput"):
        named = [config.invocation_params.dir / argument.partition("::")[0] for argument in config.args]
        files = {file for path in named for file in (path.rglob("*.py") if path.is_dir() else [path])}
        wanted = [
            file for file in files if not any(pytest_ignore_collect(path, config) for path in (file, *file.parents))
        ]
        bytecode.compile_unclaimed(config, wanted)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.relative_to(HERE).as_posix()))
    if hasattr(config, "workerinput"):
        first = sum(_rank(item.path.relative_to(HERE).as_posix()) < len(LONGEST_FIRST) for item in items)
        items[first:] = interleave_tests(items[first:], lambda item: item.nodeid)
    for item in items:
        if is_quick(item.path.relative_to(HERE)):
            item.add_marker("quick")


def interleave_tests(items: list[T], nodeid: Callable[[T], str]) -> list[T]:
    """Return the tests in an order that spreads each folder of INTERLEAVED_FOLDERS evenly among the others."""
    units: dict[str, dict[str, list[T]]] = {}
    for item in items:
        folder = nodeid(item).split("/")[1]
        kind = units.setdefault(folder if folder in INTERLEAVED_FOLDERS else "", {})
        kind.setdefault(scheduling_scope(nodeid(item)), []).append(item)
    placed: list[tuple[float, list[T]]] = []
    for kind in units.values():
        total, before = sum(map(len, kind.values())), 0
        for unit in kind.values():
            most = 0.9 if nodeid(unit[0]).startswith(SLOW_TESTS) else 1
            placed.append((before / total * most, unit))
            before += len(unit)
    placed.sort(key=lambda item: item[0])
    return [item for _, unit in placed for item in unit]


def pytest_collection_finish() -> None:
    """Enable garbage collection, but exclude the objects that exist when the tests have been collected."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    gc.enable()


def pytest_unconfigure(config: pytest.Config) -> None:
    """If the process has not ended after a minute because a thread still runs, print a stack trace and end it.

    A test worker waits for the others when it has no more tests; pytest-xdist kills one that does not end.
    """
    if not hasattr(config, "workerinput"):
        faulthandler.dump_traceback_later(60, exit=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker the folder of the fork servers."""
    node.workerinput["fork_folder"] = str(fork_sockets.socket_folder())


def pytest_configure(config: pytest.Config) -> None:
    if shared := getattr(config, "workerinput", {}).get("fork_folder"):
        fork_sockets.use_folder(shared)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Return the number of workers for `-n auto`: more than processors, unless no test waits for processes."""
    processors = os.cpu_count() or 1
    return processors if config.getoption("markexpr") == "quick" else min(3 * processors, 16)


SPLIT_FILES = (
    "architecture/test_regex_patterns.py",
    "flows/",
    "peers/test_interop.py",
    "peers/test_oidc",
    "screens/",
    "terminal/",
)
"""Files whose tests share nothing and take long: their tests are spread over the workers, the others stay together."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Run the tests of each file on one worker, except for SPLIT_FILES, so that no single worker finishes late."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Spread(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return scheduling_scope(nodeid)

    return Spread(config, log)


MODEL_SERVERS = "tests/peers/models/"
"""Tests that share model servers which take seconds to start: one test worker runs them all."""
SYNTAX_TREE_TESTS = ("command_hints", "docstrings_and_links", "file_sizes", "textual_workers")
"""Tests of tests/architecture that read the syntax trees of all modules: one worker does, once."""


def scheduling_scope(nodeid: str) -> str:
    """Return the name of the group of tests that runs on one worker: a single test, a file, or several files."""
    path = nodeid.partition("::")[0]
    if path.endswith(tuple(f"architecture/test_{name}.py" for name in SYNTAX_TREE_TESTS)):
        return "tests/architecture"
    if path.startswith(MODEL_SERVERS):
        return "tests/peers/models"
    return nodeid if path.removeprefix("tests/").startswith(SPLIT_FILES) else path


@pytest.fixture(autouse=True)
def _forbid_processes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a quick test fail if it starts a process."""
    if request.node.get_closest_marker("quick"):
        monkeypatch.setattr(subprocess.Popen, "__init__", _fail_on_process)


def _fail_on_process(*_: Any, **__: Any) -> NoReturn:
    pytest.fail("A quick test starts no process: add its file to PROCESS_TESTS in tests/quick_tests.py.", pytrace=False)


@pytest.fixture(scope="session", autouse=True)
def _ask_no_package_index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep every test, and every program that it starts, from asking npm or uv about a package of a real index."""
    folder = tmp_path_factory.mktemp("offline-package-tools")
    refuse_index_queries(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        yield


def _rank(path: str) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if path.startswith(start)), len(LONGEST_FIRST))


@pytest.fixture(autouse=True)
def _forget_secrets() -> None:
    """Forget the secrets that earlier tests registered for redaction."""
    redact._user_secrets = redact._all_secrets = ()  # pyright: ignore[reportPrivateUsage]
    redact._received_secrets.clear()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Return a runner of mcphost commands with its own folders."""
    return Program(tmp_path)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the test with this reason; in CI ($CI is set), fail instead, because CI must have every peer."""
    if os.environ.get("CI"):
        pytest.fail(f"needed in CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def npm_peers() -> Path:
    """Return the folder with the installed npm programs, whose commands `tests.peers.node` contains."""
    try:
        return node.package_root()
    except node.PeersMissing as error:
        skip_or_fail(f"npm peers cannot be had: {error}")
