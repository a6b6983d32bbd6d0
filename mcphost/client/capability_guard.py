"""What may be sent to a server: only what both sides negotiated (specification: basic/lifecycle, operation)."""

from typing import Any, cast

from mcphost.client.session import ServerFacts
from mcphost.errors import NotOffered
from mcphost.protocol.base import Notice, is_set
from mcphost.protocol.revisions import Revision
from mcphost.protocol.tasks import support

_LISTED = {
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
_RAW = {"logging/setLevel": "logging", "completion/complete": "completions"}
_ROOTS_CHANGED = "notifications/roots/list_changed"


def check_offered(method: str, facts: ServerFacts, server: str) -> None:
    """Raises NotOffered when `method` needs a capability that the server did not declare."""
    missing = _missing(method, facts)
    if missing:
        raise NotOffered(
            f"The server {server!r} does not offer {missing}; {method} was not sent.",
            "It did not declare that capability when it was connected.",
            server=server,
        )


def _missing(method: str, facts: ServerFacts) -> str:
    offered = facts.capabilities
    if method.startswith("tasks/"):
        return _missing_of_tasks(method, facts)
    listed = _LISTED.get(method)
    if listed is not None:
        capability = getattr(offered, listed)
        if capability is None:
            return listed
        subscribes = method in ("resources/subscribe", "resources/unsubscribe")
        return "subscriptions to resources" if subscribes and not capability.subscribe else ""
    raw = _RAW.get(method)
    if raw is None or is_set(getattr(offered, raw)):
        return ""
    # Completion had no capability of its own before 2025-03-26.
    return "" if raw == "completions" and facts.revision < Revision.V2025_03_26 else raw


def _missing_of_tasks(method: str, facts: ServerFacts) -> str:
    if facts.era == "stateless":
        # There the extension made its tasks unasked, so the server knows it, and has neither a list nor tasks/result.
        return "" if method in ("tasks/get", "tasks/update", "tasks/cancel") else "tasks in that form"
    declared = support(facts.capabilities.tasks)
    if facts.revision < Revision.V2025_11_25 or not declared.any:
        return "tasks"
    if method == "tasks/list":
        return "" if declared.listing else "a list of tasks"
    return "" if declared.cancelling or method != "tasks/cancel" else "cancelling tasks"


def may_tell(notice: Notice, declared: dict[str, Any]) -> bool:
    """Whether that notification was negotiated: changes of the roots only where we said that we tell them."""
    if notice.METHOD != _ROOTS_CHANGED:
        return True
    roots = declared.get("roots")
    return isinstance(roots, dict) and bool(cast("dict[str, Any]", roots).get("listChanged"))
