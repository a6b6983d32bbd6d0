"""Fixtures for the sign-in tests."""

import pytest

from mcphost.auth import device_flow


@pytest.fixture
def fast_device_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll without delay in the device flow, whatever interval the server requests."""
    monkeypatch.setattr(device_flow, "MIN_INTERVAL", 0.01)
    monkeypatch.setattr(device_flow, "DEFAULT_INTERVAL", 0.05)
