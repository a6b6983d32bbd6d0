"""Client capabilities for each protocol revision, and checks for negotiated capabilities.

If a capability was not negotiated, the client sends no messages that need it, and rejects requests from the
server that need it (specification: basic/lifecycle, operation).
"""

import re
from collections.abc import Mapping
from typing import Any, cast

from mcphost import __version__
from mcphost.client.session import ServerFacts
from mcphost.errors import UnsupportedCapability
from mcphost.protocol.apps import EXTENSION as PAGES_EXTENSION
from mcphost.protocol.base import Notification, is_set
from mcphost.protocol.lifecycle import Implementation
from mcphost.protocol.revisions import Revision
from mcphost.protocol.server_requests import CreateMessage, Elicit, ListRoots
from mcphost.protocol.tasks import EXTENSION as TASKS_EXTENSION
from mcphost.protocol.tasks import parse_tasks_capability
from mcphost.serialization import replace

# A server must not use a capability that the client did not declare.
_CLIENT_CAPABILITY_BY_METHOD = {
    CreateMessage.METHOD: "sampling",
    Elicit.METHOD: "elicitation",
    ListRoots.METHOD: "roots",
}
NO_USER_HINT = "This command cannot ask you. Use the chat, or let a program answer through: mcphost pipe"
CLIENT_IMPLEMENTATION = Implementation(name="mcphost", version=__version__, title="mcphost")

# The first revision with each client capability, and the first later revision without it.
_ADDED_IN = {
    "elicitation": Revision.V2025_06_18,
    "tasks": Revision.V2025_11_25,
}
_REMOVED_IN = {"tasks": Revision.V2026_07_28}


def is_request_allowed(method: str, capabilities: dict[str, Any]) -> bool:
    """Return whether the declared *capabilities* allow the server to send *method*."""
    return _CLIENT_CAPABILITY_BY_METHOD.get(method) in capabilities


def client_info(revision: Revision) -> Implementation:
    """Return the client's name and version as defined by *revision*; `title` is included in 2025-06-18 and later."""
    return CLIENT_IMPLEMENTATION if revision >= Revision.V2025_06_18 else replace(CLIENT_IMPLEMENTATION, title=None)


def capabilities_for(revision: Revision, supported: dict[str, Any]) -> dict[str, Any]:
    """Return the client capabilities as defined by *revision*.

    *supported* contains all supported capabilities, even those that *revision* does not define. `roots.listChanged` is
    declared only before revision 2026-07-28, and `tasks` only in revision 2025-11-25. `extensions` are declared only in
    revision 2026-07-28 and later, except MCP Apps (SEP-1865), which servers expect in every revision.
    """
    shaped: dict[str, Any] = {
        name: value
        for name, value in supported.items()
        if revision >= _ADDED_IN.get(name, revision) and (name not in _REMOVED_IN or revision < _REMOVED_IN[name])
    }
    if revision < Revision.V2025_11_25:
        # Before 2025-11-25, these capabilities had no members, and elicitation always meant forms.
        if "form" not in shaped.get("elicitation", {"form": {}}):
            del shaped["elicitation"]
        for name in ("sampling", "elicitation"):
            if name in shaped:
                shaped[name] = {}
    if revision.era == "stateless" and isinstance(shaped.get("roots"), dict):
        roots = cast("dict[str, Any]", shaped["roots"])
        shaped["roots"] = {name: value for name, value in roots.items() if name != "listChanged"}
    if revision.era == "handshake":
        extensions = cast("dict[str, Any]", shaped.pop("extensions", {}))
        if PAGES_EXTENSION in extensions:
            shaped["extensions"] = {PAGES_EXTENSION: extensions[PAGES_EXTENSION]}
    if revision.era == "stateless":
        shaped["extensions"] = {**cast("dict[str, Any]", shaped.get("extensions", {})), TASKS_EXTENSION: {}}
    elif revision is Revision.V2025_11_25 and (hosted := task_request_capabilities(shaped)):
        shaped["tasks"] = {"list": {}, "cancel": {}, "requests": hosted}
    return shaped


def task_request_capabilities(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return the value of `tasks.requests`: the requests that a server may send as tasks.

    Only requests whose capability is in *capabilities* are included (revision 2025-11-25).
    """
    requests: dict[str, Any] = {"sampling": {"createMessage": {}}, "elicitation": {"create": {}}}
    return {name: value for name, value in requests.items() if name in capabilities}


NO_TRACE: Mapping[str, str] = {}
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_TRACESTATE_MEMBER = re.compile(
    r"[a-z0-9][a-z0-9_\-*/]{0,255}(@[a-z][a-z0-9_\-*/]{0,13})?=[\x20-\x2b\x2d-\x3c\x3e-\x7e]{1,256}"
)
# name=value, optionally followed by properties after semicolons
_BAGGAGE_MEMBER = re.compile(
    r"[!#$%&'*+.^_`|~0-9A-Za-z-]+ ?= ?[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]*(;[\x20-\x2b\x2d-\x7e]*)?"
)
_MAX_TRACESTATE_MEMBERS = 32
_MAX_BAGGAGE_LENGTH = 8_192


def read_trace_context(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the trace context for `_meta` from the environment (TRACEPARENT, TRACESTATE and BAGGAGE).

    Invalid values are omitted.
    """
    context: dict[str, str] = {}
    parent = environ.get("TRACEPARENT", "").strip()
    if _TRACEPARENT.fullmatch(parent):
        context["traceparent"] = parent
        state = environ.get("TRACESTATE", "").strip()
        if state and _all_match(state, _TRACESTATE_MEMBER, _MAX_TRACESTATE_MEMBERS):
            context["tracestate"] = state
    baggage = environ.get("BAGGAGE", "").strip()
    if baggage and len(baggage) <= _MAX_BAGGAGE_LENGTH and _all_match(baggage, _BAGGAGE_MEMBER, 64):
        context["baggage"] = baggage
    return context


def _all_match(text: str, member: re.Pattern[str], limit: int) -> bool:
    members = text.split(",")
    return len(members) <= limit and all(member.fullmatch(item.strip()) for item in members)


_CAPABILITY_BY_METHOD = {
    "tools/list": "tools",
    "tools/call": "tools",
    "prompts/list": "prompts",
    "prompts/get": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resources",
    "resources/read": "resources",
    "resources/subscribe": "resources",
    "resources/unsubscribe": "resources",
}
_RAW_CAPABILITY_BY_METHOD = {"logging/setLevel": "logging", "completion/complete": "completions"}
_ROOTS_CHANGED = "notifications/roots/list_changed"


def check_capability(method: str, facts: ServerFacts, server: str) -> None:
    """Raise UnsupportedCapability if the server did not declare the capability that *method* needs.

    *facts* contains the declared capabilities, and *server* is the server's name.
    """
    missing = _missing_capability(method, facts)
    if missing:
        raise UnsupportedCapability(
            f"The server {server!r} does not offer {missing}; {method} was not sent.",
            "It did not declare that capability when it was connected.",
            server=server,
        )


def _missing_capability(method: str, facts: ServerFacts) -> str:
    offered = facts.capabilities
    if method.startswith("tasks/"):
        return _missing_task_capability(method, facts)
    listed = _CAPABILITY_BY_METHOD.get(method)
    if listed is not None:
        capability = getattr(offered, listed)
        if capability is None:
            return listed
        subscribes = method in ("resources/subscribe", "resources/unsubscribe")
        return "subscriptions to resources" if subscribes and not capability.subscribe else ""
    raw = _RAW_CAPABILITY_BY_METHOD.get(method)
    if raw is None or is_set(getattr(offered, raw)):
        return ""
    # There was no capability for completion before 2025-03-26.
    return "" if raw == "completions" and facts.revision < Revision.V2025_03_26 else raw


def _missing_task_capability(method: str, facts: ServerFacts) -> str:
    if facts.era == "stateless":
        # A server that created a task has the extension, which does not define tasks/list and tasks/result.
        return "" if method in ("tasks/get", "tasks/update", "tasks/cancel") else "tasks in that form"
    declared = parse_tasks_capability(facts.capabilities.tasks)
    if facts.revision < Revision.V2025_11_25 or not declared.has_any:
        return "tasks"
    if method == "tasks/list":
        return "" if declared.can_list else "a list of tasks"
    return "" if declared.can_cancel or method != "tasks/cancel" else "cancelling tasks"


def can_notify(notification: Notification, capabilities: dict[str, Any]) -> bool:
    """Return whether the declared *capabilities* allow the client to send *notification*.

    Only `notifications/roots/list_changed` needs a capability, `roots.listChanged`.
    """
    if notification.METHOD != _ROOTS_CHANGED:
        return True
    roots = capabilities.get("roots")
    return isinstance(roots, dict) and bool(cast("dict[str, Any]", roots).get("listChanged"))


def not_supported_message(method: str) -> str:
    """Return the error message for a server's request whose *method* the client does not support."""
    return f"{method[:200]} is not supported."
