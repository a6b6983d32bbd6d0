"""What tests of signing in share."""

import pytest

from mcphost.auth import device_flow


@pytest.fixture
def fast_device_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """The device flow polls at once, whatever interval the server asks for."""
    monkeypatch.setattr(device_flow, "MIN_INTERVAL", 0.01)
    monkeypatch.setattr(device_flow, "DEFAULT_INTERVAL", 0.05)
