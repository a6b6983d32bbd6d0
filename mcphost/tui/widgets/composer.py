"""Multi-line message input with a history, and completion of commands, prompts, resources and tools."""

from collections.abc import Callable, Sequence
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.widgets import Static

from mcphost.translation import N_, _
from mcphost.tui.input_guard import PasteGuard
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.widget_messages import (
    ActionRequested,
    AttachmentRequested,
    ClipboardImageRequested,
    FileAttachRequested,
    PathsPasted,
    QueueRecallRequested,
    QueueRow,
    ScrollRequested,
    SteerRequested,
    TextViewRequested,
)
from mcphost.tui.widgets.attachment_list import AttachmentList, AttachmentRow
from mcphost.tui.widgets.completion_popup import CompletionPopup
from mcphost.tui.widgets.draft import Draft, TextOrigin, join_drafts
from mcphost.tui.widgets.laid_out_once import FlexColumn
from mcphost.tui.widgets.pasted_text import (
    FoldedPastes,
    SendConfirmation,
    describe_origin,
    describe_path_offer,
    parse_pasted_paths,
)
from mcphost.tui.widgets.row_list import RowList
from mcphost.tui.widgets.text_inputs import OrderedTextArea
from mcphost.tui.widgets.unmatched_mentions import Mentions

if TYPE_CHECKING:
    from textual.binding import BindingsMap
    from textual.widgets.text_area import Edit, EditResult


PLACEHOLDER = N_("Type a message     @ attach a file or resource    / command or prompt    ! call a tool")
SHORT_PLACEHOLDER = N_("Message     @ attach    / command    ! call a tool")
ROOMY_HEIGHT = 30  # minimum number of terminal rows at which the composer has blank rows around its text
HORIZONTAL_MARGIN = 2
"""Total width in columns of the composer's left and right margins."""
_WIDE_WIDTH = 92
_MAX_HISTORY = 200


SubmitHandler = Callable[[Draft], None]
KeyHandler = Callable[[str, float], bool]
"""Receives a key and its age in seconds before the text area does; returns whether the key was used."""
EditHandler = Callable[[str], bool]
"""Starts editing the newest message if it has this text and no answer yet; returns whether editing was started."""
KEY_NOT_SENT = N_("This looks like an API key: it was not sent, and it is not saved with the message.")
PASTE_GUARD_HINT = N_("Text was just inserted: check it, then press Enter again.")


def no_submit(draft: Draft) -> None:
    """Do nothing; used as the submit handler until the composer is connected to a chat."""
    del draft


def select_placeholder(width: int) -> str:
    """Return the long placeholder if the composer is at least 92 columns wide, otherwise the short one."""
    return _(PLACEHOLDER) if width >= _WIDE_WIDTH else _(SHORT_PLACEHOLDER)


class ComposerInput(OrderedTextArea, inherit_component_classes=False):
    """Text area of the composer, which handles Enter and the keys for history, completion and scrolling."""

    COMPONENT_CLASSES: ClassVar[set[str]] = OrderedTextArea.PLAIN_COMPONENTS

    def __init__(self, composer: "Composer", placeholder: str) -> None:
        super().__init__(
            compact=True,
            highlight_cursor_line=False,
            soft_wrap=True,
            tab_behavior="focus",
            placeholder=placeholder,
            id="prompt",
        )
        self.composer = composer

    def on_mount(self) -> None:
        """Save the widget's own key bindings, then apply the key bindings of the app with `use_keys`."""
        self._own_bindings: BindingsMap = self._bindings
        self.use_keys()

    def use_keys(self) -> None:
        """Give the keys of the app's actions precedence over TextArea's bindings for the same keys."""
        self._bindings = keys_in_use(self).override_bindings(self._own_bindings)

    async def _on_key(self, event: events.Key) -> None:
        key, composer = event.key, self.composer
        ago = monotonic() - event.time
        if composer.is_too_soon(key, ago) or composer.popup.process_key(key) or composer.key_handler(key, ago):
            pass
        elif key == "enter":
            composer.submit()
        elif key in {"shift+enter", "ctrl+j", "alt+enter"}:
            self.insert("\n")
        elif key == "tab" and composer.apply_hint():
            pass
        elif key == "up" and not self.text and composer.has_queue:
            self.post_message(QueueRecallRequested())
        elif key in keys_in_use(self).local_changes.get("message-steer", ("ctrl+s",)):
            self.post_message(SteerRequested())
        elif key in {"up", "down"} and self._is_at_edge(key) and composer.recall_history(-1 if key == "up" else 1):
            pass
        elif key in {"pageup", "pagedown"} and not self.max_scroll_y:
            # There is nothing to scroll in the text area, so scroll the transcript.
            self.post_message(ScrollRequested(-1 if key == "pageup" else 1))
        elif key == "backspace" and not self.text and composer.attachment_names:
            self.post_message(AttachmentRequested("remove", len(composer.attachment_names) - 1))
        else:
            return  # TextArea handles the key
        event.stop()
        event.prevent_default()

    def _on_paste(self, event: events.Paste) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Insert pasted text, or a placeholder if the text is long, and record that it was not typed."""
        event.prevent_default()  # TextArea's own handler would insert the text again
        # Most terminals send line breaks as carriage returns, as if Enter had been pressed.
        self._insert_paste(event.text.replace("\r\n", "\n").replace("\r", "\n"))

    def action_paste(self) -> None:
        """Attach the image in the system clipboard, or paste text if there is no image.

        The pasted text is the text that was last copied in this app.
        """
        copied: str = self.app.clipboard  # pyright: ignore[reportUnknownMemberType]
        self.post_message(ClipboardImageRequested(partial(self._insert_paste, copied) if copied else None))

    def _insert_paste(self, text: str) -> None:
        if not text:
            return
        start = min(self.selection)
        self.composer.mark_inserted(at=start)
        placeholder = self.composer.pastes.fold(text)
        if result := self._replace_via_keyboard(placeholder or text, *self.selection):
            self.move_cursor(result.end_location)
            self.focus()
            if paths := parse_pasted_paths(text):
                self.post_message(PathsPasted(paths, partial(self.composer.offer_paths, start, result.end_location)))

    def edit(self, edit: "Edit") -> "EditResult":
        """Apply an edit to the text.

        If this removes all text, text that the user enters afterwards counts as typed, even if the removed text did
        not.
        """
        self.composer.pastes.extend_edit(edit, self.document.lines)
        result = super().edit(edit)
        self.composer.popup.is_change_pending = True
        self.composer.reset_origin_if_empty()
        return result

    def undo(self) -> None:
        """Undo the last edit.

        If this may have restored pasted text, the text no longer counts as typed by the user.
        """
        super().undo()
        self.composer.mark_restored()

    def redo(self) -> None:
        """Redo the last undone edit.

        If this may have restored pasted text, the text no longer counts as typed by the user.
        """
        super().redo()
        self.composer.mark_restored()

    @property
    def is_blank(self) -> bool:
        """Whether the text is empty. This check is fast even for long text."""
        return self.document.line_count == 1 and not self.document.get_line(0)

    def _is_at_edge(self, key: str) -> bool:
        """Return whether the key "up" or "down" would move the cursor out of the text."""
        if key == "up":
            return self.wrapped_document.location_to_offset(self.cursor_location).y == 0
        return self.cursor_at_last_line


class Composer(FlexColumn):
    """Message input with a completion popup, a list of attachments, and a hint for inserted text."""

    DEFAULT_CSS = """
    Composer { height: auto; max-height: 60%; background: $panel; padding: 0 1; margin: 0 1; }
    Composer.roomy { padding: 1 1; }
    Composer ComposerInput {
        height: auto; min-height: 1; max-height: 10; background: $panel; border: none; padding: 0 1;
        scrollbar-size-vertical: 1;
    }
    Composer ComposerInput:focus { border: none; }
    Composer ComposerInput .text-area--placeholder { color: $faint; }
    Composer #origin {
        height: 1; color: $warning; padding: 0 1; display: none; text-wrap: nowrap; text-overflow: ellipsis;
    }
    Composer #origin.shown { display: block; }
    Composer OptionList {
        height: auto; max-height: 8; border: none; background: $panel; padding: 0; scrollbar-size-vertical: 1;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    """

    def __init__(self, *, roomy: bool = False, width: int = _WIDE_WIDTH) -> None:
        """Create a composer.

        *width* is its expected width in columns, which determines the first placeholder text. If *roomy* is true, there
        is a blank row above and below the text.
        """
        super().__init__(id="composer", classes="roomy" if roomy else "")
        self._placeholder = select_placeholder(width)
        self.mentions = Mentions(self._show_origin)
        self.popup = CompletionPopup(self, lambda: self.composer_input, lambda: self._origin == "typed", self.mentions)
        self.submit_handler: SubmitHandler = no_submit
        self.key_handler: KeyHandler = lambda key, ago: False
        self.edit_handler: EditHandler | None = None
        self._attachments: tuple[AttachmentRow, ...] = ()
        self._pastes_shown: tuple[str, ...] = ()
        self.pastes = FoldedPastes()
        self._offer: tuple[tuple[int, int], tuple[int, int], tuple[str, ...]] | None = None
        self.has_queue = False
        self._history: list[Draft] = []
        self._history_index = 0
        self._saved_draft = Draft("", "typed")
        self._origin: TextOrigin = "typed"
        self._sources: tuple[str, ...] = ()
        self._can_restore_insertion = False
        self._paste_guard: PasteGuard | None = None
        self._confirmation = SendConfirmation()

    def compose(self) -> ComposeResult:
        """Create the list of attachments and the text area; other widgets are created when they are needed."""
        yield AttachmentList()
        yield ComposerInput(self, self._placeholder)

    @property
    def composer_input(self) -> ComposerInput:
        """The text area in which the user types."""
        return self.query_one(ComposerInput)

    # -- text

    def submit(self) -> None:
        """Pass the draft to the submit handler, which calls `mark_sent` if it accepts the draft.

        The handler is called directly instead of through a Textual message, so that letters typed right after Enter
        remain in the composer. If the draft is an API key, it is not sent: the setup screen opens, where the user can
        store the key. If the draft looks like a command but would be sent as a message, the user may have to press
        Enter twice; see `SendConfirmation`.
        """
        from mcphost.llm.api_key_formats import is_api_key

        draft = self.draft
        if is_api_key(draft.text):
            self.notify(_(KEY_NOT_SENT), severity="warning", markup=False, timeout=8)
            self.post_message(ActionRequested("setup"))
        elif question := self._confirmation.ask(draft):
            self.notify(question, severity="warning", markup=False, timeout=8)
        elif draft.text.strip():
            self.submit_handler(draft)

    def mark_sent(self) -> None:
        """Add the text to the history, and clear the composer."""
        draft = self.draft
        if draft.text.strip() and (not self._history or self._history[-1] != draft):
            self._history = [*self._history[-_MAX_HISTORY:], draft]
        self._history_index = len(self._history)
        self.set_text("")

    def load_history(self, texts: list[str]) -> None:
        """Replace the history, which the arrow keys browse, with the last 200 of *texts*, oldest first."""
        self._history = [Draft(text) for text in texts[-_MAX_HISTORY:]]
        self._history_index = len(self._history)

    @property
    def draft(self) -> Draft:
        """The current text, how it was entered, and the servers whose prompts it contains.

        Placeholders of folded pastes are replaced by the full text.
        """
        return Draft(self.pastes.expand(self.composer_input.text), self._origin, self._sources)

    def set_text(self, text: str, origin: TextOrigin = "inserted", sources: tuple[str, ...] = ()) -> None:
        """Replace the text; record how it was entered (*origin*) and whose prompts it contains (*sources*).

        By default, the text is marked as inserted, so that it can only be sent as a message and not run as a command.
        """
        self.set_draft(Draft(text, origin, sources))

    def set_draft(self, draft: Draft) -> None:
        """Replace the text, and the record of how it was entered and of the servers whose prompts it contains.

        The cursor moves to the end, and the completion popup closes.
        """
        self.popup.is_suppressed = True
        self.composer_input.text = draft.text  # this also clears the undo history
        self.pastes.clear()
        self._confirmation.reset()
        self._origin, self._sources = (draft.origin, draft.sources) if draft.text else ("typed", ())
        self._can_restore_insertion = self._origin != "typed"
        self.composer_input.move_cursor(self.composer_input.document.end)
        self.popup.close()
        self._show_origin()

    def restore_draft(self, draft: Draft) -> None:
        """Insert an unsent draft before the text in the composer, separated by a line break."""
        self.set_draft(join_drafts(draft, self.draft))
        self._confirmation.restored = draft.text

    def insert_prompt_text(self, source: str, text: str) -> None:
        """Append the text of a prompt from the server *source*; the draft is then always sent as a message.

        Enter is blocked for a moment, so that the user can check the text first.
        """
        self._start_guard()
        written = self.draft
        origin: TextOrigin = "mixed" if written.text.strip() and written.origin != "inserted" else "inserted"
        self.set_text(f"{written.text}{text}", origin, tuple(dict.fromkeys((*written.sources, source))))

    def recall_history(self, by: int) -> bool:
        """Show the next (*by* = 1) or previous (*by* = -1) history entry; return False if there is none.

        The unsent draft is kept as an entry after the newest one. If the draft is empty and the newest message has not
        been answered, that message is edited instead.
        """
        place = self._history_index + by
        if not 0 <= place <= len(self._history):
            return False
        self._saved_draft = self.draft if self._history_index == len(self._history) else self._saved_draft
        edit = None if by > 0 or self._saved_draft.text else self.edit_handler
        if edit is not None and edit(self._history[place].text):
            place = len(self._history)  # the message is inserted by the handler
        self._history_index = place
        self.set_draft(self._saved_draft if place == len(self._history) else self._history[place])
        return True

    def recall_text(self, text: str) -> None:
        """Show an earlier message for editing; unsent text that it replaces becomes the newest history entry."""
        unsent = self.draft
        if unsent.text.strip():
            self._history = [*self._history[-_MAX_HISTORY:], unsent]
        self._history_index = len(self._history)
        self.set_text(text)
        self.composer_input.focus()

    # -- origin of the text

    def mark_inserted(self, at: tuple[int, int]) -> None:
        """Record that text inserted at *at*, a (row, column) pair, was not typed by the user.

        Enter is blocked for a moment, so that the user can check the text first.
        """
        self._start_guard()
        if self._origin == "typed":
            self._origin = "inserted" if self.composer_input.is_blank or at == (0, 0) else "mixed"
        self._can_restore_insertion = self.popup.is_suppressed = True
        self.popup.close()
        self._show_origin()

    def mark_restored(self) -> None:
        """Mark typed text as inserted if an undo or redo may have restored text that the user did not type."""
        if self._can_restore_insertion and self._origin == "typed" and not self.composer_input.is_blank:
            self._origin = "inserted"

    def reset_origin_if_empty(self) -> None:
        """Reset the record of how the text was entered if it is empty: new text counts as typed, without sources."""
        if self._origin != "typed" and self.composer_input.is_blank:
            self._origin, self._sources = "typed", ()
            self._confirmation.reset()

    def is_too_soon(self, key: str, ago: float) -> bool:
        """Record *key*, pressed *ago* seconds ago, and return whether to ignore it.

        Only Enter is ignored: if it was pressed right after text was inserted, or has been held down since then. Each
        other key that arrives as part of a paste marks the text as inserted. A single mark is not enough, because a key
        of the paste may clear the text, and the text after it would then count as typed.
        """
        guard = self._paste_guard
        if guard is None:
            return False
        if key == "enter":
            if is_early := guard.is_early_enter(ago):
                self.notify(_(PASTE_GUARD_HINT), markup=False, timeout=4)
            else:
                self.reset_origin_if_empty()
            return is_early
        if guard.is_pasted(ago):
            if self._origin == "typed":
                self._origin, self._confirmation.is_unsure = "inserted", True
            self._can_restore_insertion = True
        else:
            self.reset_origin_if_empty()
        if guard.is_over:
            self._paste_guard = None
        return False

    def _start_guard(self) -> None:
        self._paste_guard = PasteGuard()

    def _show_origin(self) -> None:
        document = self.composer_input.document
        # The first line is enough; the text may have a size of megabytes.
        beginning = document.get_line(0) + ("\n" if document.line_count > 1 else "")
        draft, is_unsure = Draft(beginning, self._origin, self._sources), self._confirmation.is_unsure
        said = self._describe_paste() or describe_origin(draft, document.line_count, is_unsure=is_unsure)
        said = said or self.mentions.describe_unsent(
            document.lines, self.popup.word_at_cursor, self.attachment_names, is_typed=self._origin == "typed"
        )
        line = next(iter(self.query("#origin").results(Static)), None)
        if line is None and said:
            line = Static("", id="origin", markup=False)
            self.mount(line)
        if line is not None:
            line.set_class(bool(said), "shown")
            line.update(said)

    # -- pasted text and paths

    def offer_paths(self, start: tuple[int, int], end: tuple[int, int], paths: tuple[str, ...]) -> None:
        """Offer to attach the files at *paths* in place of the pasted text between *start* and *end*.

        *start* and *end* are (row, column) pairs. Do nothing if the cursor is no longer at *end*.
        """
        if self.composer_input.cursor_location == end:
            self._offer = (start, end, paths)
            self._show_origin()

    def _pasted_before_cursor(self) -> tuple[str, int] | None:
        row, column = self.composer_input.cursor_location
        return self.pastes.find_before(self.composer_input.document.get_line(row), column)

    def _describe_paste(self) -> str:
        """Return a hint about what Tab does with the paste before the cursor, or "" if there is no paste."""
        if self._offer is not None and self._offer[1] != self.composer_input.cursor_location:
            self._offer = None
        if self._offer is not None:
            return describe_path_offer(self._offer[2])
        return _("Tab unfolds the paste, backspace removes it.") if self._pasted_before_cursor() else ""

    def apply_hint(self) -> bool:
        """Do what the hint says that Tab does; return False if there is no such hint.

        Attach the files whose paths were pasted before the cursor, or unfold the long paste before the cursor.
        """
        text_area = self.composer_input
        if self._offer is not None and self._offer[1] == text_area.cursor_location:
            start, end, paths = self._offer
            self._offer = None
            self.popup.is_suppressed = True
            text_area.replace("", start, end)
            before = text_area.document.get_line(start[0])[: start[1]]
            for path in paths:
                self.post_message(FileAttachRequested(path, partial(self.popup.restore, path, start, before)))
            return True
        if (found := self._pasted_before_cursor()) is None:
            return False
        placeholder, start_column = found
        row, column = text_area.cursor_location
        self.popup.is_suppressed = True
        result = text_area.replace(self.pastes.expand(placeholder), (row, start_column), (row, column))
        text_area.move_cursor(result.end_location)
        return True

    # -- attachments

    @property
    def attachment_names(self) -> tuple[str, ...]:
        """The names of the next message's attachments; folded pastes are part of the text and not included."""
        return tuple(row.name for row in self._attachments if not row.is_sent)

    def show_attachments(self, rows: tuple[AttachmentRow, ...]) -> None:
        """List the attachments and the folded pastes above the text area; hide the list if there are none."""
        self._attachments = rows
        self._show_attachment_rows()

    def _show_attachment_rows(self) -> None:
        self._pastes_shown = self.pastes.list_used(self.composer_input.text)
        self.query_one(AttachmentList).show((*self._attachments, *map(self.pastes.build_row, self._pastes_shown)))

    def on_attachment_list_requested(self, message: AttachmentList.Requested) -> None:
        """Pass a request to open, remove or refresh an attachment on to the screen.

        A long paste that is shown as "[pasted 40 lines]" is handled here: it is removed from the text, or opened in the
        text viewer.
        """
        message.stop()
        number = message.index - len(self._attachments)
        if number < 0:
            self.post_message(AttachmentRequested(message.action, message.index))
        elif message.action == "remove" and number < len(self._pastes_shown):
            self._remove_paste(self._pastes_shown[number])
        elif message.action == "open" and number < len(self._pastes_shown):
            placeholder = self._pastes_shown[number]
            self.post_message(TextViewRequested(placeholder.strip("[]"), self.pastes.expand(placeholder)))

    def _remove_paste(self, placeholder: str) -> None:
        document = self.composer_input.document
        for row in range(document.line_count):
            column = document.get_line(row).find(placeholder)
            if column >= 0:
                self.popup.is_suppressed = True
                self.composer_input.replace("", (row, column), (row, column + len(placeholder)))
                return

    def on_row_list_left(self, message: RowList.Left) -> None:
        """Move the focus from the list of attachments or of queued messages back to the text area."""
        message.stop()
        self.composer_input.focus()

    def show_queue(self, rows: Sequence[QueueRow]) -> None:
        """List the queued messages above the text area."""
        self.has_queue = bool(rows)
        if not rows and not self.query("#queue"):
            return
        from mcphost.tui.widgets.queue_list import QueueList

        line = next(iter(self.query("#queue").results(QueueList)), None)
        if line is None and rows:
            line = QueueList()
            self.mount(line, before="#attached")
        if line is not None:
            line.show(rows)

    def on_resize(self, event: events.Resize) -> None:
        """Adapt the padding and the placeholder to the new size."""
        self.set_class(self.screen.size.height >= ROOMY_HEIGHT, "roomy")
        wanted = select_placeholder(event.size.width)
        if self.composer_input.placeholder != wanted:
            self.composer_input.placeholder = wanted

    # -- popup

    def on_text_area_changed(self) -> None:
        """Update the hint about text that was not typed and, if the user made the change, the completion popup."""
        self._show_origin()
        if self._pastes_shown or not self.pastes.is_empty:
            self._show_attachment_rows()
        self.popup.is_change_pending = False
        if self.popup.is_suppressed:
            self.popup.is_suppressed = False
            return
        self.popup.update()

    def on_option_list_option_selected(self, event: events.Event) -> None:
        """Apply the completion that was clicked."""
        event.stop()
        self.popup.apply_row(getattr(event, "option_index", 0))
        self.composer_input.focus()
