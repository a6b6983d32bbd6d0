"""Which methods we speak at which revision, in each direction; the names alone, for people and for tests.

`tests/spec/test_methods.py` holds this against the schema of each revision and against the calls of this room.
"""

from mcphost.protocol.revisions import LATEST_HANDSHAKE, LATEST_STATELESS, Revision
from mcphost.protocol.skills import EXTENSION as SKILLS
from mcphost.protocol.tasks import EXTENSION as TASKS

_FIRST = Revision.V2024_11_05
_EVERY = (_FIRST, LATEST_STATELESS)
_HANDSHAKE = (_FIRST, LATEST_HANDSHAKE)
_STATELESS = (Revision.V2026_07_28, LATEST_STATELESS)
_FORMS = (Revision.V2025_06_18, LATEST_STATELESS)
_CORE_TASKS = (Revision.V2025_11_25, Revision.V2025_11_25)
Span = tuple[Revision, Revision]
"""The first and the last revision that has something."""

REQUESTS: dict[str, Span] = {
    "initialize": _HANDSHAKE,
    "server/discover": _STATELESS,
    "ping": _HANDSHAKE,
    "tools/list": _EVERY,
    "tools/call": _EVERY,
    "resources/list": _EVERY,
    "resources/templates/list": _EVERY,
    "resources/read": _EVERY,
    "resources/subscribe": _HANDSHAKE,
    "resources/unsubscribe": _HANDSHAKE,
    "subscriptions/listen": _STATELESS,
    "prompts/list": _EVERY,
    "prompts/get": _EVERY,
    "completion/complete": _EVERY,
    "logging/setLevel": _HANDSHAKE,
    "tasks/get": _CORE_TASKS,
    "tasks/result": _CORE_TASKS,
    "tasks/list": _CORE_TASKS,
    "tasks/cancel": _CORE_TASKS,
}
"""Requests we send."""

NOTICES: dict[str, Span] = {
    "notifications/initialized": _HANDSHAKE,
    # On a pipe of the stateless era it is how a request is given up; over HTTP closing the stream is.
    "notifications/cancelled": _EVERY,
    "notifications/roots/list_changed": _HANDSHAKE,
    "notifications/tasks/status": _CORE_TASKS,
}
"""Notifications we send."""

ANSWERED: dict[str, Span] = {
    "ping": _HANDSHAKE,
    "roots/list": _EVERY,
    "sampling/createMessage": _EVERY,
    "elicitation/create": _FORMS,
    "tasks/get": _CORE_TASKS,
    "tasks/result": _CORE_TASKS,
    "tasks/list": _CORE_TASKS,
    "tasks/cancel": _CORE_TASKS,
}
"""What a server may ask of us: as requests in the handshake era, as input rounds of our own requests afterwards."""

HEARD: dict[str, Span] = {
    "notifications/progress": _EVERY,
    "notifications/message": _EVERY,
    "notifications/cancelled": _EVERY,
    "notifications/tools/list_changed": _EVERY,
    "notifications/prompts/list_changed": _EVERY,
    "notifications/resources/list_changed": _EVERY,
    "notifications/resources/updated": _EVERY,
    "notifications/elicitation/complete": (Revision.V2025_11_25, LATEST_HANDSHAKE),
    "notifications/tasks/status": _CORE_TASKS,
    "notifications/subscriptions/acknowledged": _STATELESS,
}
"""Notifications of servers that mean something to us."""

EXTENSIONS: dict[str, dict[str, Span]] = {
    TASKS: {"tasks/get": _STATELESS, "tasks/update": _STATELESS, "tasks/cancel": _STATELESS},
    SKILLS: {"skills/list": _EVERY, "skills/get": _EVERY},
}
"""Requests we send because a server declared that extension."""


def at(revision: Revision, table: dict[str, Span]) -> tuple[str, ...]:
    """The methods of a table that exist in a revision, in the table's order."""
    return tuple(method for method, (first, last) in table.items() if first <= revision <= last)
