"""Run mcphost with a fault that occurs while secrets are in memory: `python fault_injection.py WHERE ARGS…`."""

import sys
from typing import Any

from mcphost.auth import interactive_sign_in
from mcphost.cli.main import main
from mcphost.tui.dialogs import secret_storage, sign_in


def fail_exchange(*given: Any, **more: Any) -> Any:
    """Raise an error that contains the authorization code, verifier and state, instead of requesting tokens."""
    raise RuntimeError(f"mistaken about {given!r}")


def fail_dialog(*typed: str) -> Any:
    """Raise an error while the passphrase or client secret is in a local variable, instead of answering."""
    copy = list(typed)
    raise RuntimeError(f"mistaken about {len(copy)} values")


match sys.argv.pop(1):
    case "exchange":
        interactive_sign_in.request_tokens = fail_exchange
    case "dialog":
        secret_storage.KeepInEncryptedFile = fail_dialog  # type: ignore[misc,assignment]
        sign_in.EnteredClient = fail_dialog  # type: ignore[misc,assignment]
sys.exit(main())
