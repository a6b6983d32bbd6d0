"""What all tests of the client share: a stream that ended is asked for again soon."""

import pytest

from mcphost.client import tasks
from mcphost.transport import http_exchange

LEAST_WAIT = http_exchange.MIN_RESUME_DELAY


@pytest.fixture
def fast_task_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks are polled every hundredth of a second."""
    monkeypatch.setattr(tasks, "MIN_POLL_INTERVAL", 0.01)
    monkeypatch.setattr(tasks, "FIRST_POLL_INTERVAL", 0.01)


@pytest.fixture(autouse=True)
def _shorten_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dozens of streams end here; how long the client waits then is the matter of one test."""
    monkeypatch.setattr(http_exchange, "MIN_RESUME_DELAY", 0.05)
