"""Operations that rewind, copy and switch branches of the open conversation; tool calls are not undone."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcphost.host.active_conversation import ActiveConversation
from mcphost.llm.messages import Message, ToolReturnPart
from mcphost.serialization import Struct
from mcphost.store.branches import BranchInfo
from mcphost.store.conversations import ConversationStore

if TYPE_CHECKING:
    from mcphost.host.servers.servers import Servers
    from mcphost.store.audit_store import AuditRow

_UNSENT = "not sent:"
"""Beginning of the outcome, in the audit log, of a call that was not sent and may be started again."""


class ConversationBranches:
    """The branches of the open conversation; going back to an earlier message begins a new branch.

    The previous branch is kept in the store. `rewind`, `switch` and `fork` raise UsageError while a turn is
    running, and StoreError if the store fails.
    """

    def __init__(
        self, active: ActiveConversation, store: ConversationStore, on_copied: Callable[[], None] = lambda: None
    ) -> None:
        """Create the branch operations of the open conversation.

        *on_copied* is called after `fork` has stored and opened a copy of the conversation.
        """
        self._active = active
        self._store = store
        self._on_copied = on_copied

    async def list_others(self) -> tuple[BranchInfo, ...]:
        """Return the other branches of the open conversation, newest first. Raises StoreError."""
        return await self._store.list_branches(self._active.id) if self._active.id else ()

    async def rewind(self, count: int) -> None:
        """Shorten the open conversation to its first *count* messages; the later ones are kept as a branch.

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
        self._on_copied()


class CompletedCall(Struct, frozen=True, kw_only=True):
    """A tool call that ran, or may have run, and is not undone when the user goes back.

    - `outcome`: "ok", "error" (the tool reported an error or its result is invalid), "failed" (the call did not return
      a result) or "stopped" (the call was cancelled or interrupted); for a call that was sent to the background,
      "running" while the call runs and "background" after it has ended.
    - `at`: when the model requested the call, or when the user's own call was sent, in seconds since 1970.
    - `is_on_branch`: whether a message on the current branch requested the call. False for calls on other branches and
      for the user's own calls.
    - `position`: the index of the message that requested the call or, if `is_on_branch` is False, of the last message
      before the call.
    - `is_manual`: whether this is the user's own call.
    - `is_read_only`: the server's unverified claim about the tool; False if the server no longer lists the tool.
    """

    id: str
    server: str
    tool: str
    arguments: dict[str, Any] | None
    outcome: str
    at: float
    position: int
    is_read_only: bool
    is_on_branch: bool = True
    is_manual: bool = False


def list_completed_calls(
    messages: Iterable[Message], servers: "Servers", running: Collection[str] = ()
) -> tuple[CompletedCall, ...]:
    """Return the tool calls in *messages* that were or may have been sent to a server, oldest first.

    Calls that were denied, were rejected or stopped before they were sent, or name an unknown tool are omitted. A call
    without a result was interrupted and counts as "stopped". *running* contains the ids of the calls that are still
    running.
    """
    read_only = _list_read_only_tools(servers)
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
                    is_read_only=(server, tool) in read_only,
                )
            )
    return tuple(calls)


def _list_read_only_tools(servers: "Servers") -> set[tuple[str, str]]:
    from mcphost.host.consent.grants import has_read_only_hint

    return {
        (server.config.name, tool.name)
        for server in servers
        for tool in server.listing.catalog.tools
        if has_read_only_hint(tool)
    }


def list_other_calls(
    messages: Sequence[Message],
    conversation: str,
    rows: "Sequence[AuditRow]",
    servers: "Servers",
    running: Collection[str] = (),
) -> tuple[CompletedCall, ...]:
    """Return the calls in this conversation that *messages* do not contain, oldest first.

    These are the user's own calls and the model's calls on other branches, made after the first of *messages*. They are
    read from *rows*, the rows of the audit log, newest first. The rows do not contain the calls' arguments.
    """
    read_only = _list_read_only_tools(servers)
    outcomes = {row.about: row.decision for row in rows if row.about and row.event == "ended"}
    started = [row for row in reversed(rows) if row.kind == "tool" and row.event == "started" and row.server]
    known = _find_requested_rows(messages, started, outcomes)
    times = [message.at * 1e6 for message in messages]
    calls: list[CompletedCall] = []
    for row in started:
        outcome = outcomes.get(row.seq) or ("running" if row.call in running else "stopped")
        position = bisect_right(times, row.at) - 1
        is_sent = outcome != "not done" and not outcome.startswith(_UNSENT)
        if row.conversation != conversation or row.seq in known or position < 0 or not is_sent:
            continue
        calls.append(
            CompletedCall(
                id=row.call,
                server=row.server,
                tool=row.subject,
                arguments=None,
                outcome=outcome,
                at=row.at / 1e6,
                position=position,
                is_read_only=(row.server, row.subject) in read_only,
                is_on_branch=False,
                is_manual=row.who == "user",
            )
        )
    return tuple(calls)


def _find_requested_rows(
    messages: Sequence[Message], started: "Sequence[AuditRow]", outcomes: Mapping[int, str]
) -> set[int]:
    """Return the numbers of the rows in *started* that record calls requested by *messages*.

    *started* contains the audit rows that record the start of a call, oldest first, and *outcomes* maps the number of
    each row to the outcome of the call. A call has several rows if it could not be sent and was started again. Its last
    row is the first one whose outcome is not "not sent"; later rows with the same call id belong to another branch.
    """
    by_call: dict[str, list[AuditRow]] = {}
    for row in started:
        by_call.setdefault(row.call, []).append(row)
    known: set[int] = set()
    for message in messages:
        for use in message.tool_uses:
            for row in by_call.get(use.id, ()):
                if not _is_since(row, message.at):
                    continue
                known.add(row.seq)
                if not outcomes.get(row.seq, "").startswith(_UNSENT):
                    break
    return known


def _is_since(row: "AuditRow", at: float) -> bool:
    """Return whether a row was written at *at*, in seconds since 1970, or later."""
    # A time in seconds can be rounded to less than a microsecond after that of the row.
    return row.at + 1 >= at * 1e6


def find_audit_row(call: CompletedCall, rows: "Sequence[AuditRow]") -> "AuditRow | None":
    """Return the oldest audit row about this tool call, which names who allowed it; None if there is no row.

    *rows* are newest first. Rows of other conversations are included, because a copied conversation contains calls of
    the original. Rows from before the call are ignored, because another branch may use the same call id.
    """
    matching = (row for row in reversed(rows) if row.call == call.id and _is_since(row, call.at))
    return next(matching, None)
