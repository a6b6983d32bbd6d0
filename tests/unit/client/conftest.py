"""Fixtures for the client tests, which shorten waiting times."""

import pytest

from mcphost.client import task_polling
from mcphost.transport import http_exchange

LEAST_WAIT = http_exchange.MIN_RESUME_DELAY


@pytest.fixture
def fast_task_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll tasks every 10 ms."""
    monkeypatch.setattr(task_polling, "MIN_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(task_polling, "FIRST_POLL_INTERVAL", 0.01)


@pytest.fixture(autouse=True)
def _shorten_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait before an event stream is resumed; one test checks the real value."""
    monkeypatch.setattr(http_exchange, "MIN_RESUME_DELAY", 0.05)
