"""The supported methods of each revision, in each direction, by name, for display and tests.

`tests/spec/test_methods.py` compares them with the schema of each revision and with the requests of this package.
"""

from mcphost.protocol.revisions import LATEST_HANDSHAKE, LATEST_STATELESS, Revision
from mcphost.protocol.skills import EXTENSION as SKILLS
from mcphost.protocol.tasks import EXTENSION as TASKS

_FIRST_REVISION = Revision.V2024_11_05
_ALL_REVISIONS = (_FIRST_REVISION, LATEST_STATELESS)
_HANDSHAKE = (_FIRST_REVISION, LATEST_HANDSHAKE)
_STATELESS = (Revision.V2026_07_28, LATEST_STATELESS)
_WITH_ELICITATION = (Revision.V2025_06_18, LATEST_STATELESS)
_WITH_CORE_TASKS = (Revision.V2025_11_25, Revision.V2025_11_25)
RevisionRange = tuple[Revision, Revision]
"""The first and the last revision that has a method."""

CLIENT_REQUESTS: dict[str, RevisionRange] = {
    "initialize": _HANDSHAKE,
    "server/discover": _STATELESS,
    "ping": _HANDSHAKE,
    "tools/list": _ALL_REVISIONS,
    "tools/call": _ALL_REVISIONS,
    "resources/list": _ALL_REVISIONS,
    "resources/templates/list": _ALL_REVISIONS,
    "resources/read": _ALL_REVISIONS,
    "resources/subscribe": _HANDSHAKE,
    "resources/unsubscribe": _HANDSHAKE,
    "subscriptions/listen": _STATELESS,
    "prompts/list": _ALL_REVISIONS,
    "prompts/get": _ALL_REVISIONS,
    "completion/complete": _ALL_REVISIONS,
    "logging/setLevel": _HANDSHAKE,
    "tasks/get": _WITH_CORE_TASKS,
    "tasks/result": _WITH_CORE_TASKS,
    "tasks/list": _WITH_CORE_TASKS,
    "tasks/cancel": _WITH_CORE_TASKS,
}
"""Requests of the client."""

CLIENT_NOTIFICATIONS: dict[str, RevisionRange] = {
    "notifications/initialized": _HANDSHAKE,
    # Cancels a request on a pipe in the stateless era; over HTTP closing the stream does.
    "notifications/cancelled": _ALL_REVISIONS,
    "notifications/roots/list_changed": _HANDSHAKE,
    "notifications/tasks/status": _WITH_CORE_TASKS,
}
"""Notifications of the client."""

SERVER_REQUESTS: dict[str, RevisionRange] = {
    "ping": _HANDSHAKE,
    "roots/list": _ALL_REVISIONS,
    "sampling/createMessage": _ALL_REVISIONS,
    "elicitation/create": _WITH_ELICITATION,
    "tasks/get": _WITH_CORE_TASKS,
    "tasks/result": _WITH_CORE_TASKS,
    "tasks/list": _WITH_CORE_TASKS,
    "tasks/cancel": _WITH_CORE_TASKS,
}
"""Requests of the server: as requests in the handshake era, as input rounds of client requests afterwards."""

SERVER_NOTIFICATIONS: dict[str, RevisionRange] = {
    "notifications/progress": _ALL_REVISIONS,
    "notifications/message": _ALL_REVISIONS,
    "notifications/cancelled": _ALL_REVISIONS,
    "notifications/tools/list_changed": _ALL_REVISIONS,
    "notifications/prompts/list_changed": _ALL_REVISIONS,
    "notifications/resources/list_changed": _ALL_REVISIONS,
    "notifications/resources/updated": _ALL_REVISIONS,
    "notifications/elicitation/complete": (Revision.V2025_11_25, LATEST_HANDSHAKE),
    "notifications/tasks/status": _WITH_CORE_TASKS,
    "notifications/subscriptions/acknowledged": _STATELESS,
}
"""Supported notifications of the server."""

EXTENSION_REQUESTS: dict[str, dict[str, RevisionRange]] = {
    TASKS: {"tasks/get": _STATELESS, "tasks/update": _STATELESS, "tasks/cancel": _STATELESS},
    SKILLS: {"skills/list": _ALL_REVISIONS, "skills/get": _ALL_REVISIONS},
}
"""Requests of the client that require an extension declared by the server."""


def methods_in(revision: Revision, table: dict[str, RevisionRange]) -> tuple[str, ...]:
    """Return the methods of *table* that exist in *revision*, in the table's order."""
    return tuple(method for method, (first, last) in table.items() if first <= revision <= last)
