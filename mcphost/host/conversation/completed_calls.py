"""Tool calls that have already run; going back in a conversation does not undo them."""

from collections.abc import Iterable, Sequence
from typing import Any

from mcphost.host.consent.grants import has_read_only_hint
from mcphost.host.servers.servers import Servers
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.serialization import Struct
from mcphost.store.audit_store import AuditRow


class CompletedCall(Struct, frozen=True, kw_only=True):
    """A tool call by the model that ran, or may have run.

    `at` is when it was requested, in seconds since 1970. `outcome` is "ok", "error", "failed" or "stopped".
    `is_read_only` is the server's unverified claim about the tool; it is False if the server does not list the tool
    now. `position` is the index of the message that requested the call.
    """

    id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    outcome: str
    at: float
    position: int
    is_read_only: bool


def list_completed_calls(messages: Iterable[Message], servers: Servers) -> tuple[CompletedCall, ...]:
    """Return the tool calls in *messages* that were sent to a server, oldest first.

    Calls that were denied, or whose tool was unknown, never reached a server. A call without a result was interrupted
    and counts as "stopped".
    """
    listed = {(server.config.name, tool.name): tool for server in servers for tool in server.listing.catalog.tools}
    calls: list[CompletedCall] = []
    every = tuple(messages)
    returned = {part.use_id: part for message in every for part in message.parts if isinstance(part, ToolReturnPart)}
    for position, message in enumerate(every):
        for use in message.tool_uses:
            result = returned.get(use.id)
            server, tool = (result.server, result.tool) if result else ("", use.name)
            outcome = (result.outcome or ("error" if result.is_error else "ok")) if result else "stopped"
            if outcome == "declined" or (result is not None and (not server or result.reused_at)):
                continue
            calls.append(
                CompletedCall(
                    id=use.id,
                    server=server,
                    tool=tool,
                    arguments=use.arguments,
                    outcome=outcome,
                    at=message.at,
                    position=position,
                    is_read_only=(server, tool) in listed and has_read_only_hint(listed[server, tool]),
                )
            )
    return tuple(calls)


def find_audit_row(call: CompletedCall, rows: Sequence[AuditRow]) -> AuditRow | None:
    """Return the oldest of *rows* about this call, which names who allowed it, or None if there is none.

    *rows* are newest first. Rows of other conversations are included, because a fork contains calls of its original.
    Rows from before the call are ignored, because another branch may use the same call id.
    """
    matching = (row for row in reversed(rows) if row.call == call.id and row.at >= call.at * 1e6)
    return next(matching, None)
