"""Checks that a message uses only negotiated capabilities (specification: basic/lifecycle, operation)."""

from typing import Any, cast

from mcphost.client.session import ServerFacts
from mcphost.errors import UnsupportedCapability
from mcphost.protocol.base import Notification, is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tasks import parse_tasks_capability

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
    """Raise UnsupportedCapability when *method* needs a capability that the server did not declare."""
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
    # Completion had no capability of its own before 2025-03-26.
    return "" if raw == "completions" and facts.revision < Revision.V2025_03_26 else raw


def _missing_task_capability(method: str, facts: ServerFacts) -> str:
    if facts.era == "stateless":
        # Task creation already shows that the server has the extension, which has no tasks/list and no tasks/result.
        return "" if method in ("tasks/get", "tasks/update", "tasks/cancel") else "tasks in that form"
    declared = parse_tasks_capability(facts.capabilities.tasks)
    if facts.revision < Revision.V2025_11_25 or not declared.has_any:
        return "tasks"
    if method == "tasks/list":
        return "" if declared.can_list else "a list of tasks"
    return "" if declared.can_cancel or method != "tasks/cancel" else "cancelling tasks"


def can_notify(notification: Notification, capabilities: dict[str, Any]) -> bool:
    """Return whether *notification* was negotiated.

    Changes of the roots are sent only if `roots.listChanged` was declared.
    """
    if notification.METHOD != _ROOTS_CHANGED:
        return True
    roots = capabilities.get("roots")
    return isinstance(roots, dict) and bool(cast("dict[str, Any]", roots).get("listChanged"))
