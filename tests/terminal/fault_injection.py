"""Run mcphost and inject one fault while secrets are in memory: `python fault_injection.py WHERE ARGS…`."""

import sys
from typing import Any

from mcphost.auth import authorization_flow
from mcphost.cli.main import main
from mcphost.tui.dialogs import secret_storage, sign_in


def fail_exchange(*given: Any, **more: Any) -> Any:
    """Fail instead of exchanging the code, with the code, verifier and state in the arguments and the error."""
    raise RuntimeError(f"mistaken about {given!r}")


def fail_dialog(*typed: str) -> Any:
    """Fail instead of answering, with the passphrase or client secret in `typed`."""
    copy = list(typed)
    raise RuntimeError(f"mistaken about {len(copy)} values")


match sys.argv.pop(1):
    case "exchange":
        authorization_flow.request_tokens = fail_exchange
    case "dialog":
        secret_storage.KeepInEncryptedFile = fail_dialog  # type: ignore[misc,assignment]
        sign_in.EnteredClient = fail_dialog  # type: ignore[misc,assignment]
sys.exit(main())
