"""Fixtures for the sign-in tests."""

import pytest

from mcphost.auth import authorization_flow


@pytest.fixture
def fast_device_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll without delay in the device flow, whatever interval the server requests."""
    monkeypatch.setattr(authorization_flow, "MIN_INTERVAL", 0.01)
    monkeypatch.setattr(authorization_flow, "DEFAULT_INTERVAL", 0.05)
