"""What all tests of the client share: a stream that ended is asked for again soon."""

import pytest

from mcphost.transport import http_exchange

LEAST_WAIT = http_exchange.MIN_RESUME_DELAY


@pytest.fixture(autouse=True)
def _shorten_retry_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dozens of streams end here; how long the client waits then is the matter of one test."""
    monkeypatch.setattr(http_exchange, "MIN_RESUME_DELAY", 0.05)
