"""Shared by all tests: one event loop flavour, and peers that are skipped loudly or, in CI, missed as failures."""

import os
from pathlib import Path
from typing import NoReturn

import pytest

from tests.peers import node


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
    """The directory with the installed npm programs ; `tests.peers.node` has the commands."""
    try:
        return node.package_root()
    except node.PeersMissing as error:
        missing(f"npm peers cannot be had: {error}")
