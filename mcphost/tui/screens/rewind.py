"""Rewind screen for going back to an earlier message, or opening another branch of the conversation.

The user can edit the message, have it answered again, or fork the conversation after it.
"""

import time
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal, NamedTuple

from textual.binding import Binding, BindingType

from mcphost.errors import McpHostError
from mcphost.host.audit.audit_labels import decision_label, outcome_label, source_label
from mcphost.host.conversation.rewind import (
    CompletedCall,
    find_audit_row,
    list_completed_calls,
    list_other_calls,
)
from mcphost.host.message_text import clean_text
from mcphost.llm.messages import FilePart, ImagePart, Message, ResourcePart, TextPart
from mcphost.local_time import format_moment
from mcphost.pluralize import translate_count
from mcphost.serialization import dumps
from mcphost.store.audit_reader import AuditFilter
from mcphost.store.audit_store import AuditRow
from mcphost.store.branches import BranchInfo
from mcphost.translation import N_, _
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.screens.unsent_texts import PendingEdit
from mcphost.tui.widgets.composer import Composer
from mcphost.tui.widgets.draft import Draft, join_drafts
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.tui.screens.chat import ChatScreen

_MAX_AUDIT_ROWS = 2_000
_STAY_DONE = N_("Going back does not undo these tool calls.")


class RewindChoice(NamedTuple):
    """The action that the user chose on the rewind screen.

    - "edit" goes back to the point after the first `keep` messages, and inserts the next message into the composer.
    - "retry" goes back to the same point, and has the model answer the last of the `keep` messages again. Results of
      read-only tool calls may be reused.
    - "call_again" is like "retry", but no results of tool calls are reused.
    - "fork" copies the first `keep` messages to a new conversation.
    - "branch" opens the branch with the number `number`.
    """

    action: Literal["edit", "retry", "call_again", "fork", "branch"]
    keep: int = 0
    number: int = 0


class _Point(NamedTuple):
    """A user message to which the user can go back, and its index in the conversation."""

    position: int
    message: Message


class RewindScreen(ListScreen):
    """List of the user's messages, newest first, and other branches; its result is a RewindChoice or None.

    The result is None if the user cancels. Because going back does not undo tool calls, the details of a message list
    the calls that were made after it, with their audit log rows. These include calls that the user made and calls on
    other branches.
    """

    TITLE_TEXT: ClassVar[str] = N_("Go back")
    EMPTY_TEXT: ClassVar[str] = N_("There is no message to go back to.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("edit"), "screen.choose"),
        ("r", N_("answer again"), "screen.retry"),
        ("f", N_("fork here"), "screen.fork"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "retry", show=False, id="rewind-retry"),
        Binding("f", "fork", show=False, id="rewind-fork"),
    ]

    def __init__(self, host: "Host", *, selected: int | None = None) -> None:
        """Create the screen; *selected* is the index of the message to select, or None for the newest."""
        super().__init__()
        self.host = host
        self._selected = selected
        self._branches: tuple[BranchInfo, ...] = ()
        self._audit_rows: tuple[AuditRow, ...] | None = None  # None until they are loaded
        self._reads_audit_log = True
        self._calls: tuple[CompletedCall, ...] = ()
        self._changing: list[int] = []  # positions of calls that may have changed data

    def on_mount(self) -> None:
        """List the messages, then load the other branches and the audit log rows of the tool calls."""
        super().on_mount()
        if self._selected is not None:
            self._select(self._selected)
        self.run_worker(self._load_facts)

    async def _load_facts(self) -> None:
        try:
            self._branches = await self.host.conversation.branches.list_others()
            if messages := self.host.conversation.messages:
                since = AuditFilter(since=int(messages[0].at * 1e6))
                self._audit_rows = await self.host.audit.read_page(since, _MAX_AUDIT_ROWS)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self._reads_audit_log = False
        self.reload()

    def _select(self, position: int) -> None:
        # The transcript also offers messages of mcphost; the user's message before such a one is selected.
        found = (at for at, row in enumerate(self.visible_rows) if 0 <= getattr(row.value, "position", -1) <= position)
        self.list_widget.cursor = next(found, 0)

    def handle_server_change(self) -> None:
        """Do nothing, because neither messages nor branches depend on the servers."""

    def load(self) -> Sequence[ListRow]:
        """Return a row for each of the user's messages, newest first, followed by a row for each other branch."""
        messages = self.host.conversation.messages
        running = {call.call for call in self.host.running_calls.list()}
        calls, rows = list_completed_calls(messages, self.host.servers, running), self._audit_rows or ()
        calls += list_other_calls(messages, self.host.conversation.id, rows, self.host.servers, running)
        self._calls = tuple(sorted(calls, key=lambda call: (call.position, call.at)))
        self._changing = [call.position for call in self._calls if not call.is_read_only]
        points = [_Point(at, message) for at, message in enumerate(messages) if message.is_from_user]
        rows = [ListRow(point, _title(point.message.text), self._describe(point)) for point in reversed(points)]
        for branch in self._branches:
            detail = _("another branch · {at} · {messages}").format(
                at=format_moment(branch.at), messages=translate_count(branch.messages, "message")
            )
            rows.append(ListRow(branch, _title(branch.text), detail, "↳", "$muted"))
        return rows

    def _describe(self, point: _Point) -> str:
        count = len(self._changing) - bisect_left(self._changing, point.position)
        # The calls come first, because a narrow list cuts the end of the line, and the details repeat the time.
        kept = _("{calls} not undone · ").format(calls=translate_count(count, "call")) if count else ""
        return f"{kept}{format_moment(point.message.at)}"

    def show_details(self, row: ListRow) -> None:
        """Show a message and the tool calls that were made after it, or show information about a branch.

        The calls are listed because going back to the message does not undo them.
        """
        if isinstance(row.value, BranchInfo):
            branch = row.value
            ends, count = format_moment(branch.at), str(branch.messages)
            self.show_about(clean_pairs([(_("ends"), ends), (_("messages"), count), (_("last question"), branch.text)]))
            self.query_one(LongText).show(_("Enter opens this branch. The current one is kept."))
            return
        point: _Point = row.value
        later = self.host.conversation.messages[point.position + 1 :]
        kept = _("{messages}, kept as a branch").format(messages=len(later)) if later else _("none")
        self.show_about(
            clean_pairs(
                [
                    (_("sent"), format_moment(point.message.at)),
                    (_("messages after it"), kept),
                    (_("message"), point.message.text),
                ]
            )
        )
        calls = [call for call in self._calls if call.position >= point.position]
        self.query_one(LongText).show("\n".join(self._describe_calls(calls)))

    def _describe_calls(self, calls: Sequence[CompletedCall]) -> list[str]:
        changing = [call for call in calls if not call.is_read_only or call.outcome == "running"]
        lines = [_(_STAY_DONE), "", *map(self._describe_call, changing)] if changing else []
        if reading := len(calls) - len(changing):
            count = translate_count(reading, "more call") if changing else translate_count(reading, "call")
            lines += ["", _("{calls} of tools that their servers declare read-only.").format(calls=count)]
        if self._reads_audit_log:
            lines += ["", _("Reading the audit log…")]
        elif self._audit_rows is None:
            lines += ["", _("Your own calls and those on other branches are not listed: the audit log was not read.")]
        elif len(self._audit_rows) == _MAX_AUDIT_ROWS:
            count = f"{_MAX_AUDIT_ROWS:,}"
            lines += ["", _("Your own calls before the newest {count} audit rows are not listed.").format(count=count)]
        return lines or [_("No tool has been called since.")]

    def _describe_call(self, call: CompletedCall) -> str:
        where = " · ".join(part for part in (call.server, call.tool) if part)
        arguments = "" if call.arguments is None else dumps(call.arguments)
        if not call.is_on_branch:
            arguments = _("your own call") if call.is_manual else _("on another branch")
        known = "" if self._audit_rows is None else self._describe_audit(call, self._audit_rows)
        at = time.strftime("%H:%M", time.localtime(call.at))
        return clean_line(f"{at}  {where}  {decision_label(call.outcome)}  {known}  {arguments}", 400)

    def _describe_audit(self, call: CompletedCall, rows: tuple[AuditRow, ...]) -> str:
        row = find_audit_row(call, rows)
        if row is not None:
            who = source_label(row.who)
            return _("audit {seq}: {decision} by {who}").format(
                seq=row.seq, decision=outcome_label(row.kind, row.event, row.decision), who=who
            )
        return _("older than the audit rows read here") if len(rows) == _MAX_AUDIT_ROWS else _("not in the audit log")

    # -- choices

    def open_row(self, row: ListRow) -> None:
        """Close the screen with a RewindChoice that edits this message or opens this branch."""
        if isinstance(row.value, BranchInfo):
            self.dismiss(RewindChoice("branch", number=row.value.number))
        else:
            self.dismiss(RewindChoice("edit", row.value.position))

    def action_retry(self) -> None:
        """Close the screen with a RewindChoice that has the model answer the selected message again."""
        if (row := self.current_row()) and isinstance(row.value, _Point):
            self.dismiss(RewindChoice("retry", row.value.position + 1))

    def action_fork(self) -> None:
        """Close the screen with a RewindChoice that forks the conversation.

        The new conversation ends with the answer to the selected message.
        """
        if (row := self.current_row()) and isinstance(row.value, _Point):
            messages = self.host.conversation.messages
            later = range(row.value.position + 1, len(messages))
            end = next((count for count in later if messages[count].is_from_user), len(messages))
            self.dismiss(RewindChoice("fork", end))


def _title(text: str) -> str:
    return next((clean_line(line) for line in text.splitlines() if line.strip()), _("(no text)"))


STILL_ANSWERING = N_("Still answering. Press Esc to stop, then go back.")
COPY_NOTE = N_("This is a copy. The original stays in the history ({history}).")


async def apply_rewind(chat: "ChatScreen", choice: "RewindChoice") -> None:
    """Carry out a choice made on the rewind screen; add a notice to the transcript if that fails."""
    host = chat.host
    if host.conversation.is_busy or chat.is_sending:
        chat.notify(_(STILL_ANSWERING), markup=False, timeout=6)
        return
    try:
        await _apply(chat, host, choice)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
    chat.refresh_status()


async def _apply(chat: "ChatScreen", host: "Host", choice: "RewindChoice") -> None:
    conversation = host.conversation
    messages = conversation.messages
    match choice.action:
        case "branch":
            await conversation.branches.switch(choice.number)
        case "fork":
            await conversation.branches.fork(choice.keep, mark=_("copy"))
            # the transcript is about to be replaced, so a notice in it would vanish
            chat.notify(keys_in_use(chat).fill(_(COPY_NOTE)), markup=False, timeout=8)
        case "edit":
            await _edit(chat, messages[choice.keep], choice.keep)
        case "retry" | "call_again":
            if host.model_selection.model is None:
                chat.explain_missing_model()
                return
            await conversation.branches.rewind(choice.keep)
            chat.finish_turn((await conversation.retry(can_reuse=choice.action == "retry")).outcome)


def edit_unanswered(chat: "ChatScreen", text: str) -> bool:
    """Start editing the newest message if its text is *text* and the model has not answered it.

    The message is moved to the composer, with its attachments. When the user sends the edited message, it replaces
    the original, as with `/rewind`. Return whether editing was started.
    """
    conversation = chat.host.conversation
    messages, pending = conversation.messages, chat.pending_edit
    if chat.is_answering or not messages or not messages[-1].is_typed:
        return False
    if pending is not None and pending.matches(conversation.id, len(messages)):
        return False
    is_same = text == messages[-1].text or clean_text(text) == messages[-1].text
    if is_same:
        chat.is_sending = True  # messages that the user enters meanwhile are queued, not sent
        chat.run_worker(partial(_edit_last_message, chat), group="turn")
    return is_same


async def _edit_last_message(chat: "ChatScreen") -> None:
    """Go back to the point before the newest message, and insert its text before the composer's text.

    The caller must set `chat.is_sending`, so that messages entered in the meantime are queued. This function resets it
    and moves the queued messages to the composer. If going back fails, a notice is added to the transcript.
    """
    messages = chat.host.conversation.messages
    try:
        await _edit(chat, messages[-1], len(messages) - 1)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
    finally:
        chat.is_sending = False
    chat.restore(*chat.queue.take_all())
    chat.refresh_status()


async def _edit(chat: "ChatScreen", message: "Message", kept: int) -> None:
    """Go back to the point before *message*, and insert the message's text before the composer's text.

    *kept* is the number of messages before *message*.
    """
    from mcphost.host.origins.outside_texts import name_earlier_servers

    conversation, composer = chat.host.conversation, chat.query_one(Composer)
    before = composer.draft
    message = name_earlier_servers(message, chat.host.servers.targets)
    for text in (part for part in message.parts if isinstance(part, TextPart)):
        for copied in text.copies:
            chat.host.features.note_text(copied.server, copied.source, text.text)
    source = message.prompt
    if source is not None:  # an earlier run may have inserted the prompt
        chat.host.features.note_prompt_text(source.server, source.name, message.text)
    edited = Draft(message.text, sources=() if source is None else (source.server,))
    after = join_drafts(edited, before)
    parts = tuple(part for part in message.parts if isinstance(part, ResourcePart | ImagePart | FilePart))
    chat.pending_edit = PendingEdit(conversation.id, kept, conversation.numbers[-1], before, after, parts)
    if chat.drafts is not None:
        chat.drafts.capture()  # the drafts may not have a new conversation's id yet
    try:
        await conversation.branches.rewind(kept)
    except McpHostError:
        chat.pending_edit = None
        raise
    composer.set_draft(after if composer.draft == before else join_drafts(edited, composer.draft))
    chat.attachments.add(*parts)
    composer.composer_input.focus()


def _is_editing(chat: "ChatScreen") -> bool:
    """Return whether an earlier message is being edited and the user can cancel the edit now.

    The edit cannot be canceled while a message is being sent or answered.
    """
    pending, conversation = chat.pending_edit, chat.host.conversation
    if pending is None or conversation.is_busy or chat.is_sending:
        return False
    return pending.matches(conversation.id, len(conversation.messages))


async def cancel_edit(chat: "ChatScreen") -> None:
    """Cancel the edit of an earlier message and return to the previous branch; do nothing if none is being edited.

    The composer's text from before the edit is restored, unless the user has changed the composer's text since then.
    """
    pending = chat.pending_edit
    if pending is None or not _is_editing(chat):
        return
    chat.pending_edit = None
    try:
        await chat.host.conversation.branches.switch(pending.branch_end)
    except McpHostError as error:
        chat.presenter.add_notice("error", error.message, error.hint)
        return
    composer = chat.query_one(Composer)
    if composer.draft.text == pending.after.text:
        composer.set_draft(pending.before)
    chat.attachments.remove(*pending.attachments)
    chat.refresh_status()
