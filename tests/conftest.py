"""Shared by all tests: one event loop flavour, and peers that are skipped loudly or, in CI, missed as failures."""

import os
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from mcphost import redact
from tests.peers import node

HERE = Path(__file__).parent

# What an example takes says how busy the machine is, and nothing about us.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("house")


# Files that take longest start first, or the last of them would run alone at the end; the rest follow as collected.
LONGEST_FIRST = (
    "peers/test_survey",
    "terminal/test_leaving.py",
    "packaging/",
    "peers/models/test_raw_provider.py",
    "flows/test_headless_run.py",
    "flows/test_one_shots.py",
    "peers/models/",
    "unit/client/test_stdio_servers.py",
    "screens/",
    "peers/",
    "flows/",
    "terminal/",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(item.path.relative_to(HERE).as_posix()))


def _rank(path: str) -> int:
    return next((rank for rank, start in enumerate(LONGEST_FIRST) if path.startswith(start)), len(LONGEST_FIRST))


@pytest.fixture(autouse=True)
def _own_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Secrets that one test makes known are not removed from what another one reads."""
    monkeypatch.setattr(redact, "_known", ())
    monkeypatch.setattr(redact, "_received", ())
    monkeypatch.setattr(redact, "_removed", ())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def missing(reason: str) -> NoReturn:
    """Skip the test and say why in the summary; with $CI set this machine must have everything, so fail."""
    if os.environ.get("CI"):
        pytest.fail(f"needed in CI: {reason}", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def npm_peers() -> Path:
    """The directory with the installed npm programs; `tests.peers.node` has the commands."""
    try:
        return node.package_root()
    except node.PeersMissing as error:
        missing(f"npm peers cannot be had: {error}")
