"""Shared by all tests: one event loop flavour."""

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"
