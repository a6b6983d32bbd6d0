"""History screen (F6) for searching and opening conversations.

The user can also preview, rename, pin, fork, export and delete them.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.host.message_text import describe_author
from mcphost.local_time import format_moment, local_moment
from mcphost.pluralize import translate_count
from mcphost.serialization import dumps
from mcphost.store.conversations import ConversationInfo, StoredMessage
from mcphost.store.message_search import FoundConversation, MarkedText
from mcphost.translation import N_, _, ngettext, translate_sentence
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, clean_pairs
from mcphost.tui.screens.type_ahead import TypeAheadListScreen
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.host.conversation.stored_conversations import ConversationPreview
    from mcphost.host.host import Host
    from mcphost.llm.messages import Message

LISTED = 500
SEARCH_DELAY = 0.12
"""Seconds after the last key press until the search starts."""
_PREVIEW_DELAY = 0.05
_MAX_MESSAGE_CHARS = 4_000
_AUTHORS = {"user": N_("You"), "assistant": N_("Assistant"), "tool": N_("Result")}


class HistoryChoice(NamedTuple):
    """The conversation that the user chose; if `is_fork` is true, a copy of it is created and opened."""

    id: str
    is_fork: bool = False


class _Entry(NamedTuple):
    """Conversation in the history list.

    `number` is the stored number of the message that matches the search. It is 0 if the title matches, or if there is
    no search.
    """

    id: str
    title: str
    model: str
    created: float
    updated: float
    heading: str = ""
    number: int = 0
    is_pinned: bool = False
    messages: int = 0
    hits: int = 0
    excerpt: tuple[MarkedText, ...] = ()


_WEEKDAYS = (
    N_("Monday"), N_("Tuesday"), N_("Wednesday"), N_("Thursday"), N_("Friday"), N_("Saturday"), N_("Sunday"),
)  # fmt: skip


def _name_day(seconds: float, today: datetime) -> str:
    day = local_moment(seconds)
    if day is None:
        return _("a time out of range")
    age = (today.date() - day.date()).days
    if age < 0:  # the clock was set back
        return _("A date in the future")
    return {0: _("Today"), 1: _("Yesterday")}.get(age) or f"{_(_WEEKDAYS[day.weekday()])}, {day:%Y-%m-%d}"


class HistoryScreen(TypeAheadListScreen):
    """List of stored conversations grouped by day, or of search results.

    Its result is a HistoryChoice, or None if the user cancels. The preview shows the messages around the match, or
    the last messages if there is no search.
    """

    DEFAULT_CSS = """
    HistoryScreen EntryList, HistoryScreen #side { width: 1fr; }
    HistoryScreen #head { height: auto; max-height: 3; }
    """
    TITLE_TEXT: ClassVar[str] = N_("History")
    EMPTY_TEXT: ClassVar[str] = N_("No conversations yet. They are saved here as you go.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("open"), "screen.choose"),
        ("f", N_("fork"), "screen.fork"),
        ("n", N_("rename"), "screen.rename"),
        ("p", N_("pin"), "screen.pin"),
        ("e", N_("export"), "screen.export"),
        ("x", N_("delete"), "screen.delete"),
        ("r", N_("show runs"), "screen.toggle_runs"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.toggle_runs"})
    REPEATED_KEYS: ClassVar[frozenset[str]] = frozenset("fx")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "fork", show=False, id="history-fork"),
        Binding("n", "rename", show=False, id="history-rename"),
        Binding("p", "pin", show=False, id="history-pin"),
        Binding("e", "export", show=False, id="history-export"),
        Binding("x", "delete", show=False, id="history-delete"),
        Binding("r", "toggle_runs", show=False, id="history-runs"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._conversations: tuple[ConversationInfo, ...] = ()
        self._is_loaded = False
        self._found: tuple[FoundConversation, ...] | None = None
        self._note = ""
        self._run_count = 0
        self._shows_runs = False
        self._delete_candidate = self._fork_candidate = ""
        self._searched_text = ""
        self._opens_first = False  # whether Enter was pressed before the search had ended
        self._moved_text: str | None = None  # the text of the search line when the cursor was last moved
        self._search_timer: Timer | None = None
        self._preview_timer: Timer | None = None

    def on_mount(self) -> None:
        """Load the stored conversations. Textual also calls the base class's `on_mount`."""
        self.query_one("#search", Input).placeholder = _(
            'Search all messages: words, "a phrase", -word, tool:NAME, after:7d'
        )
        self.run_worker(self._load_conversations)

    async def _load_conversations(self) -> None:
        try:
            self._run_count = await self.host.history.count_runs()
            self.searches_unlisted = bool(self._run_count)
            self._conversations = await self.host.history.list_recent(LISTED, with_runs=self._shows_runs)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self._is_loaded = True
        self.reload()

    def handle_server_change(self) -> None:
        """Do nothing, because conversations do not depend on the servers."""

    # -- the list

    def load(self) -> Sequence[ListRow]:
        """Return a row for each stored conversation."""
        today = datetime.now().astimezone()
        entries: list[_Entry] = []
        before = ""
        for info in self._conversations:
            day = _("Pinned") if info.is_pinned else _name_day(info.updated, today)
            heading, before = ("" if day == before else day), day
            entries.append(
                _Entry(info.id, info.title, info.model, info.created, info.updated, heading, is_pinned=info.is_pinned,
                       messages=info.messages)
            )  # fmt: skip
        return [ListRow(one, one.title or _("(untitled)"), _describe(one)) for one in entries]

    def filter(self, text: str) -> None:
        """Search all messages for *text* after a short delay, or list all conversations if *text* is blank.

        Each call cancels the previous search, so that only one search starts once the user pauses typing.
        """
        if self._search_timer is not None:
            self._search_timer.stop()
        self.workers.cancel_group(self, "search")  # pyright: ignore[reportUnknownMemberType]
        self._opens_first = False
        if text != self._moved_text:
            self._moved_text = None
        if not text.strip():
            self._found, self._note = None, ""
            self._searched_text = text
            self._show_rows(self.entries)
        else:
            self._search_timer = self.set_timer(SEARCH_DELAY, partial(self._start_search, text))

    def _start_search(self, text: str) -> None:
        self.run_worker(partial(self._search, text), group="search", exclusive=True)

    async def _search(self, text: str) -> None:
        try:
            result = await self.host.history.search(text, is_typing=True)
        except McpHostError as error:
            self._found, self._note = (), translate_sentence(str(error))
        else:
            self._found = result.conversations
            self._note = " ".join(map(translate_sentence, result.notes))
        entries = [
            _Entry(one.id, one.title, one.model, one.created, one.updated, number=hit.number, hits=one.count,
                   excerpt=hit.excerpt)
            for one in self._found for hit in one.hits[:1]
        ]  # fmt: skip
        self._searched_text = text
        self._show_rows([ListRow(one, one.title or _("(untitled)"), _describe(one)) for one in entries])
        if self._opens_first and self.visible_rows:
            self.open_row(self.visible_rows[0])

    def _show_rows(self, rows: Sequence[ListRow]) -> None:
        entries = self.list_widget
        chosen = self.current_row() if self._has_moved() or entries.has_focus else None
        keep = entries.cursor or 0
        self.visible_rows = list(rows[:LISTED])
        shown = translate_count(len(rows), "conversation") if rows else ""
        head = Content.assemble(
            (_(self.TITLE_TEXT), "bold $accent"),
            (f"  {shown}  ", "$faint"),
            (self._note or self._describe_runs(), "$warning" if self._note else "$faint"),
        )
        self.query_one("#head", Static).update(head)
        self.set_class(not self.entries, "empty")
        self.update_key_bar()
        entries.show_entries(list(map(self.render_row, self.visible_rows)))
        if not self.visible_rows:
            if self.entries:
                entries.show_message(Content.styled(_(" Nothing found."), "$muted"))
            empty = self._describe_runs() or (_(self.EMPTY_TEXT) if self._is_loaded else _("Reading…"))
            self.show_about(Content("") if self.entries else Content.styled(empty, "$muted"))
            self.query_one(LongText).show("")
            return
        default = 0 if self._found is not None else min(keep, len(self.visible_rows) - 1)
        entries.cursor = self.find_again(chosen, default)

    def _describe_runs(self) -> str:
        """Return a note about the conversations of `mcphost run`, or "" if there are none.

        These conversations are hidden by default; the note then states how many there are and which key shows them.
        While they are listed, the note names the key that hides them. During a search, return "", because search
        results always include these conversations.
        """
        if self._found is not None or not self._run_count:
            return ""
        if self._shows_runs:
            return fill_keys(self, _("{history-runs} hides runs"))
        text = ngettext(
            "{count} run not shown · {history-runs} shows them",
            "{count} runs not shown · {history-runs} shows them",
            self._run_count,
        )
        return fill_keys(self, text, count=self._run_count)

    def action_toggle_runs(self) -> None:
        """Show or hide the conversations of `mcphost run`."""
        self._shows_runs = not self._shows_runs
        self.run_worker(self._load_conversations)

    def identify(self, row: ListRow) -> object:
        """Return the id of the row's conversation."""
        return row.value.id

    def render_row(self, row: ListRow) -> Content:
        """Render a conversation's title, details and search excerpt.

        The first conversation of each day has a heading above it.
        """
        entry: _Entry = row.value
        lines: list[Content] = [Content.styled(f" {entry.heading}", "bold $faint")] if entry.heading else []
        lines.append(Content.assemble((" ★ " if entry.is_pinned else "   ", "$accent"), clean_line(row.title, 120)))
        lines.append(Content.styled("   " + clean_line(row.detail, 160), "$muted"))
        if entry.excerpt:
            marked = [
                (clean_line(one.text, 200), "bold $warning" if one.is_match else "$text") for one in entry.excerpt
            ]
            lines.append(Content.assemble("   ", *marked))
        return Content("\n").join(lines)

    # -- the preview

    def show_details(self, row: ListRow) -> None:
        """Show the details of a conversation, and load the messages for the preview shortly afterwards."""
        entry: _Entry = row.value
        self._delete_candidate = self._fork_candidate = ""
        is_roomy = not self.has_class("narrow")  # on a narrow screen, the messages need these rows
        facts = [
            (_("title"), entry.title),
            (_("started"), format_moment(entry.created) if is_roomy else ""),
            (_("updated"), format_moment(entry.updated)),
            (_("messages"), str(entry.messages) if is_roomy and entry.messages else ""),
            (_("model"), entry.model if is_roomy else ""),
            (_("id"), entry.id if is_roomy else ""),
        ]
        self.show_about(clean_pairs(facts))
        if self._preview_timer is not None:
            self._preview_timer.stop()
        load = partial(self._load_preview, entry.id, entry.number)
        start = partial(self.run_worker, load, group="preview", exclusive=True)
        self._preview_timer = self.set_timer(_PREVIEW_DELAY, lambda: start() and None)

    async def _load_preview(self, conversation_id: str, number: int) -> None:
        try:
            preview = await self.host.history.preview(conversation_id, number)
        except McpHostError as error:
            self.query_one(LongText).show(error.message)
            return
        row = self.current_row()
        if row is not None and row.value.id == conversation_id:
            self.query_one(LongText).show(_format_preview(preview))

    # -- actions

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Open the conversation under the cursor.

        If a search is still running and the user has not moved the cursor, open the first match once the search ends.
        """
        event.prevent_default()  # the base class would focus the list
        if event.value == self._searched_text or self._has_moved():
            self.action_choose()
        else:
            self._opens_first = True

    def action_move_cursor(self, direction: str) -> None:
        """Move the list's cursor, and keep the new entry selected if search results arrive later and contain it."""
        super().action_move_cursor(direction)
        self._moved_text = self.query_one("#search", Input).value

    def _has_moved(self) -> bool:
        """Return whether the user has moved the cursor since the search text last changed.

        To find out, compare the current text with the text at the time of the last move. Change events would come too
        late: if a letter and an arrow key arrive together, Textual handles both keys before it reports the change.
        """
        return self._moved_text == self.query_one("#search", Input).value

    def _current(self) -> _Entry | None:
        row = self.current_row()
        return None if row is None else row.value

    def open_row(self, row: ListRow) -> None:
        """Dismiss the screen with a HistoryChoice that opens this row's conversation."""
        self.dismiss(HistoryChoice(row.value.id))

    def action_fork(self) -> None:
        """Open a copy of the selected conversation on the second key press; the first asks for confirmation."""
        entry = self._current()
        if entry is None:
            return
        if self._fork_candidate == entry.id:
            self.dismiss(HistoryChoice(entry.id, is_fork=True))
            return
        self._delete_candidate, self._fork_candidate = "", entry.id
        text = fill_keys(self, _("Press {history-fork} again to open a copy of it."))
        self.show_about(Content.styled(text, "$warning"))

    async def action_rename(self) -> None:
        """Open a form that renames the selected conversation.

        Return once the form has the focus, so that it receives all later keys.
        """
        if entry := self._current():
            form = RenameForm(entry.title)
            await self.app.push_screen(form, partial(self._rename, entry.id))  # pyright: ignore[reportUnknownMemberType]
            form.set_focus(form.query_one(Input))

    def _rename(self, conversation_id: str, title: str | None) -> None:
        if title is not None:
            self._change(partial(self.host.history.rename, conversation_id, title))

    def action_pin(self) -> None:
        """Pin the selected conversation to the top of the list, or unpin it."""
        if entry := self._current():
            pinned = {info.id for info in self._conversations if info.is_pinned}
            self._change(partial(self.host.history.set_pinned, entry.id, is_pinned=entry.id not in pinned))

    def action_delete(self) -> None:
        """Delete the selected conversation if the key is pressed twice; the first press asks for confirmation."""
        entry = self._current()
        if entry is None:
            return
        if self._delete_candidate != entry.id:
            self._delete_candidate, self._fork_candidate = entry.id, ""
            text = _(
                "Press {history-delete} again to delete it with its branches, drafts and stored results. This cannot "
                "be undone."
            )
            self.show_about(Content.styled(fill_keys(self, text), "$warning"))
            return
        self._delete_candidate = ""
        self._change(partial(self.host.history.delete, entry.id))
        self.run_worker(self._purge, group="purge", exclusive=True)

    async def _purge(self) -> None:
        try:
            await self.host.history.purge_index()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)

    async def action_export(self) -> None:
        """Open a form that exports the selected conversation to a file.

        Return once the form has the focus, so that it receives all later keys.
        """
        from mcphost.tui.screens.export import ExportForm

        if entry := self._current():
            info = ConversationInfo(entry.id, entry.title, entry.model, entry.messages, entry.created, entry.updated)
            form = ExportForm(self.host.history, info)
            await self.app.push_screen(form)  # pyright: ignore[reportUnknownMemberType]
            form.set_focus(form.query_one(Input))

    def _change(self, change: "partial[object]") -> None:
        self.run_worker(partial(self._apply, change), group="change")

    async def _apply(self, change: "partial[object]") -> None:
        try:
            await change()  # pyright: ignore[reportGeneralTypeIssues]
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        await self._load_conversations()


def _describe(entry: _Entry) -> str:
    count = translate_count(entry.hits, "hit") if entry.hits else translate_count(entry.messages, "message")
    return " · ".join(part for part in (format_moment(entry.updated), count, entry.model) if part)


def _format_preview(preview: "ConversationPreview") -> str:
    """Return the messages of the preview as text, beginning with the message that matches the search."""
    messages = preview.messages
    start = next((at for at, one in enumerate(messages) if one.number == preview.number), 0) if preview.number else 0
    lines = ["…"] if start or preview.has_earlier else []
    lines += [_format_message(one) for one in messages[start:]]
    return "\n\n".join(lines + (["…"] if preview.has_later else []))


def _format_message(one: StoredMessage) -> str:
    message = one.message
    author = translate_sentence(describe_author(message)) or _(_AUTHORS[message.role])
    return f"{author} · {format_moment(message.at)}\n{_message_text(message)[:_MAX_MESSAGE_CHARS]}"


def _message_text(message: "Message") -> str:
    from mcphost.llm.messages import (
        FilePart,
        ImagePart,
        ResourcePart,
        TextPart,
        ToolReturnPart,
        ToolUsePart,
        format_tool_name,
    )

    texts: list[str] = []
    for part in message.parts:
        match part:
            case TextPart():
                texts.append(part.text)
            case ToolUsePart():
                arguments = part.raw if part.arguments is None else dumps(part.arguments)
                name = format_tool_name(part.name)
                texts.append(_("calls {name} {arguments}").format(name=name, arguments=arguments))
            case ToolReturnPart():
                texts.append(f"{format_tool_name(part.name)}: {part.text}")
            case ResourcePart() if part.use_id:
                texts.append(f"{part.source}: {part.text}")
            case ResourcePart():
                texts.append(_("[attached {uri}]").format(uri=part.uri))
            case ImagePart() | FilePart():
                texts.append(_("[attached {name}]").format(name=part.name or part.mime_type))
            case _:
                pass
    return "\n".join(texts)


class RenameForm(FormScreen[str]):
    """Form that renames a conversation; its result is the new title, or None if the user cancels."""

    DEFAULT_CSS = "RenameForm Input { background: $surface; }"

    def __init__(self, title: str) -> None:
        super().__init__()
        self._title_text = title

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that a key pressed before the form appeared is not ignored.

        A key that was not meant for the form does no harm: the worst result is a wrong title.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("Rename the conversation")

    def body(self) -> ComposeResult:
        """Yield an input with the current title."""
        yield OrderedInput(self._title_text, id="title", compact=True, max_length=200)

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter rename · esc back")

    def on_mount(self) -> None:
        """Focus the input."""
        super().on_mount()
        self.query_one("#title").focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Dismiss the form with the new title; if the title is empty, show an error."""
        event.stop()
        if event.value.strip():
            self.dismiss(event.value)
        else:
            self.show_fault(_("A title needs at least one character."))
