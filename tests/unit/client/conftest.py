"""Fixtures of the client tests, with shorter waiting times."""

import pytest

from mcphost.client import tasks
from mcphost.transport import http_exchange

LEAST_WAIT = http_exchange.MIN_RESUME_DELAY


@pytest.fixture
def fast_task_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll tasks every hundredth of a second."""
    monkeypatch.setattr(tasks, "MIN_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(tasks, "FIRST_POLL_INTERVAL", 0.01)


@pytest.fixture(autouse=True)
def _shorten_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait before resuming a stream; one test checks the real value."""
    monkeypatch.setattr(http_exchange, "MIN_RESUME_DELAY", 0.05)
