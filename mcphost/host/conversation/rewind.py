"""Going back in the open conversation, copying it, and switching branches; tool calls that ran are not undone."""

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from mcphost.host.active_conversation import ActiveConversation
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.serialization import Struct
from mcphost.store.conversations import BranchInfo, ConversationStore

if TYPE_CHECKING:
    from mcphost.host.servers.servers import Servers
    from mcphost.store.audit_store import AuditRow


class ConversationBranches:
    """The branches of the open conversation; going back to an earlier message begins a new branch.

    The previous branch stays stored. `rewind`, `switch` and `fork` raise UsageError while a turn is running, and
    StoreError if the store fails.
    """

    def __init__(self, active: ActiveConversation, store: ConversationStore) -> None:
        self._active = active
        self._store = store

    async def list_others(self) -> tuple[BranchInfo, ...]:
        """Return the other branches of the open conversation, newest first. Raises StoreError."""
        return await self._store.list_branches(self._active.id) if self._active.id else ()

    async def rewind(self, count: int) -> None:
        """Keep only the first *count* messages in the open conversation; later ones stay stored as a branch.

        Tool calls that already ran are not undone; see `list_completed_calls`. Raises UsageError while a turn is
        running, if there are fewer messages, or if some are unsaved. Raises StoreError if the change cannot be stored.
        """
        await self._active.rewind(count)

    async def switch(self, number: int) -> None:
        """Switch to the branch whose `BranchInfo.number` is *number*.

        Raises UsageError while a turn is running, and StoreError.
        """
        await self._active.switch_branch(number)

    async def fork(self, count: int | None = None, *, mark: str = "copy") -> None:
        """Copy the first *count* messages, or all if it is None, to a new conversation, and open it.

        The title of the copy ends with *mark* in parentheses. Raises UsageError while a turn is running or if no
        message is saved. Raises StoreError if the copy cannot be stored.
        """
        self._active.require_idle()
        forked = await self._active.current.fork(len(self._active.messages) if count is None else count, mark)
        await self._active.open(forked.id)
        self._active.current.forked = forked


class CompletedCall(Struct, frozen=True, kw_only=True):
    """A tool call by the model that ran, or may have run, and is not undone when the user goes back.

    `at` is when the model requested it, in seconds since 1970. `outcome` is "ok", "error", "failed" or "stopped". For a
    call that was sent to the background, it is "running" while the call runs, then "background".
    `is_read_only` is the server's unverified claim about the tool; it is False if the server no longer lists the tool.
    `position` is the index of the message that requested the call.
    """

    id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    outcome: str
    at: float
    position: int
    is_read_only: bool


def list_completed_calls(
    messages: Iterable[Message], servers: "Servers", running: Collection[str] = ()
) -> tuple[CompletedCall, ...]:
    """Return the tool calls in *messages* that were or may have been sent to a server, oldest first.

    Calls that were denied, were stopped before they were sent, or name an unknown tool are omitted. A call without
    a result was interrupted and counts as "stopped". *running* contains the ids of the calls that are still
    running.
    """
    from mcphost.host.consent.grants import has_read_only_hint

    listed = {(server.config.name, tool.name): tool for server in servers for tool in server.listing.catalog.tools}
    calls: list[CompletedCall] = []
    every = tuple(messages)
    returned = {part.use_id: part for message in every for part in message.parts if isinstance(part, ToolReturnPart)}
    for position, message in enumerate(every):
        for use in message.tool_uses:
            result = returned.get(use.id)
            server, tool = (result.server, result.tool) if result else ("", use.name)
            outcome = (result.outcome or ("error" if result.is_error else "ok")) if result else "stopped"
            if outcome == "declined" or (result is not None and (not server or result.reused_at or result.is_unsent)):
                continue
            if outcome == "background" and use.id in running:
                outcome = "running"
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


def find_audit_row(call: CompletedCall, rows: "Sequence[AuditRow]") -> "AuditRow | None":
    """Return the oldest audit row about this tool call, or None; the row names who allowed the call.

    *rows* are newest first. Rows of other conversations are included, because a copied conversation contains calls of
    the original. Rows from before the call are ignored, because another branch may use the same call id.
    """
    matching = (row for row in reversed(rows) if row.call == call.id and row.at >= call.at * 1e6)
    return next(matching, None)
