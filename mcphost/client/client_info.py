"""Client identity and capabilities for each revision, and the server requests that they permit."""

from typing import Any, cast

from mcphost import __version__
from mcphost.protocol.lifecycle import Implementation
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import CreateMessage, Elicit, ListRoots
from mcphost.protocol.tasks import EXTENSION as TASKS_EXTENSION
from mcphost.serialization import replace

# A server must not use a capability that the client did not declare.
_CAPABILITY_BY_METHOD = {CreateMessage.METHOD: "sampling", Elicit.METHOD: "elicitation", ListRoots.METHOD: "roots"}
NO_USER_HINT = "This command cannot ask you. Use the chat, or let a program answer through: mcphost pipe"
CLIENT_IMPLEMENTATION = Implementation(name="mcphost", version=__version__, title="mcphost")

# The first revision with a client capability, and the first one without it.
_ADDED_IN = {
    "elicitation": Revision.V2025_06_18,
    "tasks": Revision.V2025_11_25,
    "extensions": Revision.V2026_07_28,
}
_REMOVED_IN = {"tasks": Revision.V2026_07_28}


def is_request_allowed(method: str, capabilities: dict[str, Any]) -> bool:
    """Return whether the declared *capabilities* permit a server to send *method*."""
    return _CAPABILITY_BY_METHOD.get(method) in capabilities


def client_info(revision: Revision) -> Implementation:
    """Return the client's `Implementation`; `title` exists since 2025-06-18."""
    return CLIENT_IMPLEMENTATION if revision >= Revision.V2025_06_18 else replace(CLIENT_IMPLEMENTATION, title=None)


def capabilities_for(revision: Revision, supported: dict[str, Any]) -> dict[str, Any]:
    """Return the client capabilities in the form of *revision*.

    *supported* holds the members of all revisions: `roots.listChanged` and `tasks` of the handshake era, `extensions`
    of the stateless era.
    """
    shaped: dict[str, Any] = {
        name: value
        for name, value in supported.items()
        if revision >= _ADDED_IN.get(name, revision) and (name not in _REMOVED_IN or revision < _REMOVED_IN[name])
    }
    if revision < Revision.V2025_11_25:
        # Sub-capabilities of both exist since 2025-11-25; before that, elicitation meant forms.
        if "form" not in shaped.get("elicitation", {"form": {}}):
            del shaped["elicitation"]
        for name in ("sampling", "elicitation"):
            if name in shaped:
                shaped[name] = {}
    if revision.era == "stateless" and isinstance(shaped.get("roots"), dict):
        roots = cast("dict[str, Any]", shaped["roots"])
        shaped["roots"] = {name: value for name, value in roots.items() if name != "listChanged"}
    if revision.era == "stateless":
        shaped["extensions"] = {**cast("dict[str, Any]", shaped.get("extensions", {})), TASKS_EXTENSION: {}}
    elif revision is Revision.V2025_11_25 and (hosted := task_request_capabilities(shaped)):
        shaped["tasks"] = {"list": {}, "cancel": {}, "requests": hosted}
    return shaped


def task_request_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the declared requests that a 2025-11-25 server may send as tasks."""
    requests: dict[str, Any] = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
    return {name: value for name, value in requests.items() if name in capabilities}
