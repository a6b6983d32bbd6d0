"""Fixtures for the sign-in tests."""

import pytest

from mcphost.auth import interactive_sign_in


@pytest.fixture
def fast_device_polling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Poll without delay in the device flow, whatever interval the server requests."""
    monkeypatch.setattr(interactive_sign_in, "MIN_INTERVAL", 0.01)
    monkeypatch.setattr(interactive_sign_in, "DEFAULT_INTERVAL", 0.05)
