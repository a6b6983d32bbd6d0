"""Who we say we are, and what we can do in the shape of each revision."""

from typing import Any

from mcphost import __version__
from mcphost.protocol.asks import CreateMessage, Elicit, ListRoots
from mcphost.protocol.lifecycle import Implementation
from mcphost.protocol.revisions import Revision

# What we did not declare does not exist for a server.
_CAPABILITY = {CreateMessage.METHOD: "sampling", Elicit.METHOD: "elicitation", ListRoots.METHOD: "roots"}
US = Implementation(name="mcphost", version=__version__, title="mcphost")


def may_ask(method: str, capabilities: dict[str, Any]) -> bool:
    """Whether a server may ask that of us."""
    return _CAPABILITY.get(method) in capabilities


def capabilities_for(revision: Revision, newest: dict[str, Any]) -> dict[str, Any]:
    """The client capabilities as `revision` knows them, from the shape of the newest one."""
    if revision.era == "stateless":
        return newest
    known = {"roots", "sampling", "experimental"}
    if revision >= Revision.V2025_06_18:
        known.add("elicitation")
    shaped: dict[str, Any] = {name: value for name, value in newest.items() if name in known}
    if revision < Revision.V2025_11_25:
        # Sub-features of both came with 2025-11-25.
        for name in ("sampling", "elicitation"):
            if name in shaped:
                shaped[name] = {}
    return shaped
