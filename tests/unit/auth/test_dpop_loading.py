"""Test that a sign-in with DPoP imports the library for signatures in a thread, not on the event loop."""

import sys
import threading
from typing import Any

import pytest

from mcphost.auth import dpop
from mcphost.auth.dpop import JwtSigner, load_joserfc

pytestmark = pytest.mark.anyio


async def test_the_library_for_signatures_is_imported_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[tuple[str, bool]] = []

    def recorded(name: str) -> Any:
        imported.append((name, threading.current_thread() is threading.main_thread()))
        return __import__(name)

    monkeypatch.setattr(dpop, "import_module", recorded)
    await load_joserfc()
    assert imported == [("joserfc.jwk", False), ("joserfc.jwt", False)]
    before = set(sys.modules)
    JwtSigner.from_jwk(JwtSigner.generate().export_jwk()).make_dpop_proof("GET", "http://127.0.0.1/mcp")
    assert not [name for name in set(sys.modules) - before if name.startswith("joserfc")]
