"""Dialog for reviewing a tool result before the model receives it.

The user can send, edit, trim or withhold the result.
"""

import re
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Static, TextArea

from mcphost.host.questions.questions import (
    PassEditedResult,
    PassResult,
    ResultPart,
    ResultVerdict,
    ReviewResult,
    WithholdResult,
    edited_texts_error,
)
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _
from mcphost.tui.dialogs.call_view import summarize_arguments
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_beginning, clean_line, is_clean
from mcphost.tui.widget_messages import Section, TextViewRequested
from mcphost.tui.widgets.image_view import create_image_views
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.text_inputs import OrderedInput, OrderedTextArea

MAX_TEXT_CHARACTERS = 20_000
MAX_TOTAL_CHARACTERS = 40_000
"""Maximum characters of all texts together, counted after sanitizing; more would make layout slow."""
_MAX_LINES = 500
_MAX_PARTS = 500
_KIND_LABELS = {
    "structured": "JSON", "link": N_("link"), "other": N_("unknown kind"), "error": N_("error"),
    "note": N_("mcphost note"),
}  # fmt: skip
REDACTED = "[redacted]"
MAX_EDITABLE_CHARACTERS = 50_000
"""Maximum characters of an editable text; a longer one must be trimmed or omitted."""
MIN_REPLACE_ALL_LENGTH = 4
"""Minimum length of a selection for which all other occurrences of the selected text are redacted too."""
_MAX_ARGUMENTS_LENGTH = 140
_TRIM_PATTERN = re.compile(r"\s*(\d{1,9})(?:[\s,]+(\d{1,9}))?\s*")


class ResultView(NamedTuple):
    """A tool result rendered for display.

    `pairs` are the label and the text of each part, and `omitted_characters` is the number of characters not shown.
    """

    pairs: list[tuple[str, str]]
    omitted_characters: int


def _kind_label(part: ResultPart) -> str:
    return _(_KIND_LABELS.get(part.kind, clean_line(part.kind, 20)))


def describe_part(part: ResultPart) -> str:
    """Describe a part of a tool result by its MIME type or kind, and its size, such as "image/png, 2,048 bytes"."""
    of_its_own = part.kind in ("image", "audio") and part.mime_type
    name = clean_line(part.mime_type, 60) if of_its_own else _kind_label(part)
    return _("{name}, {size:,} bytes").format(name=name, size=part.size) if part.size and part.kind != "note" else name


def render_result(parts: Sequence[ResultPart], texts: Sequence[str | None]) -> ResultView:
    """Render the parts of a tool result with sanitized labels and text.

    *texts* contains the text of each part, with the user's edits, or None for a part that is not sent.
    """
    pairs: list[tuple[str, str]] = []
    left_out, room, lines = 0, MAX_TOTAL_CHARACTERS, _MAX_LINES
    for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1):
        if number > _MAX_PARTS:
            left_out += len(text or "") + 1
            continue
        name = f"{number} {_kind_label(part)}"
        if text is None:
            pairs.append((name, _("(not sent: {part})").format(part=describe_part(part))))
            continue
        kept, rest = clean_beginning(text, min(MAX_TEXT_CHARACTERS, room), lines)
        room, lines = room - len(kept), lines - kept.count("\n")
        left_out += rest
        more = _("\n… {rest:,} more characters: v shows all of it").format(rest=rest) if rest else ""
        pairs.append((name, (kept + more).removeprefix("\n") if rest else kept or _("(empty text)")))
    if len(parts) > _MAX_PARTS:
        pairs.append(
            ("…", _("{parts_count:,} more parts: v shows them all").format(parts_count=len(parts) - _MAX_PARTS))
        )
    return ResultView(pairs, left_out)


def result_sections(parts: Sequence[ResultPart], texts: Sequence[str | None]) -> tuple[Section, ...]:
    """Return all parts of a tool result, untruncated, as sections for the full-screen viewer, which sanitizes them.

    *texts* contains the text of each part, with the user's edits, or None for a part that the user omitted.
    """
    return tuple(
        Section(
            _("── part {number} of {parts_count}: {part}{text}").format(
                number=number,
                parts_count=len(parts),
                part=describe_part(part),
                text=_(", left out by you") if text is None else "",
            ),
            text or "",
        )
        for number, (part, text) in enumerate(zip(parts, texts, strict=True), 1)
    )


def trim_texts(parts: Sequence[ResultPart], texts: Sequence[str | None], first: int, last: int) -> list[str | None]:
    """Shorten each text to its first *first* and last *last* characters; return all texts.

    A note in place of the removed characters states their number. The text of a structured (JSON) part is not
    shortened, because it would become invalid JSON; neither is the text of an image. For a part that the user omitted,
    the text is None, both in *texts* and in the result.
    """
    made: list[str | None] = []
    for part, text in zip(parts, texts, strict=True):
        gone = len(text or "") - first - last
        if text is None or gone <= 0 or part.kind == "structured" or part.image is not None:
            made.append(text)
            continue
        mark = f"[… {gone:,} characters left out by the user …]"
        made.append("\n".join(filter(None, (text[:first], mark, text[len(text) - last :] if last else ""))))
    return made


class ResultPartsEditor(Vertical):
    """Editor that shows one part of a tool result at a time; `texts` contains the text of every part, with edits."""

    DEFAULT_CSS = """
    ResultPartsEditor { height: auto; }
    ResultPartsEditor #part { height: auto; color: $muted; }
    ResultPartsEditor TextArea { background: $surface; border: none; }
    ResultPartsEditor #status { height: auto; color: $warning; }
    """

    class StatusChanged(Message):
        """Posted when the status line below the text has changed."""

    def __init__(self, parts: Sequence[ResultPart], texts: Sequence[str | None], rows: int) -> None:
        super().__init__()
        self._parts = parts
        self._texts = list(texts)
        self._editable_texts = [_editable_text(text) for text in texts]
        self._rows = rows
        self._index = 0

    def compose(self) -> ComposeResult:
        """Create the label of the part, its text area and the status line."""
        yield Static("", id="part", markup=False)
        yield OrderedTextArea(id="text", compact=True, soft_wrap=True, show_line_numbers=False)
        yield Static("", id="status", markup=False)

    def on_mount(self) -> None:
        """Show the first part."""
        self.query_one(TextArea).styles.height = self._rows
        self._show_part()

    @property
    def texts(self) -> list[str | None]:
        """The text of each part, including edits; None stands for a part that the user omitted.

        A text that the user did not edit is returned exactly as it was, even if the editor shows marks for some
        characters.
        """
        self._save_edits()
        return self._texts

    @property
    def _is_long(self) -> bool:
        return len(self._texts[self._index] or "") > MAX_EDITABLE_CHARACTERS

    def _show_part(self) -> None:
        part, text, area = self._parts[self._index], self._texts[self._index], self.query_one(TextArea)
        count = len(self._parts)
        place = _("part {index} of {count} · ").format(index=self._index + 1, count=count) if count > 1 else ""
        self.query_one("#part", Static).update(Content(place + describe_part(part)))
        area.read_only = text is None or self._is_long
        area.text = "" if area.read_only else self._editable_texts[self._index] or ""
        area.move_cursor((0, 0))
        self.screen.set_focus(area)
        if text is None:
            self.show_status(_("Not sent; Ctrl+O restores it."))
        elif self._is_long:
            self.show_status(
                _(
                    "{text_count:,} characters are too many to edit here: trim them (esc, t) or omit the part (Ctrl+O)."
                ).format(text_count=len(text))
            )
        else:
            self.show_status("")

    def _save_edits(self) -> None:
        """Store the edited text of the part that is displayed."""
        area = self.query_one(TextArea)
        if not area.read_only and area.text != self._editable_texts[self._index]:
            self._texts[self._index] = self._editable_texts[self._index] = area.text

    def step(self, by: int) -> None:
        """Show the part *by* positions after the current one, wrapping around; negative numbers go back."""
        self._save_edits()
        self._index = (self._index + by) % len(self._parts)
        self._show_part()

    def toggle_omitted(self) -> None:
        """Omit the displayed part from the result; if it is already omitted, restore its original text."""
        self._save_edits()
        at = self._index
        self._texts[at] = self._parts[at].text if self._texts[at] is None else None
        self._editable_texts[at] = _editable_text(self._texts[at])
        self._show_part()

    def redact(self) -> None:
        """Replace the selected text with REDACTED.

        If at least MIN_REPLACE_ALL_LENGTH characters are selected, also replace all other occurrences, in every part.
        """
        area = self.query_one(TextArea)
        chosen = area.selected_text
        if not chosen.strip():
            self.show_status(_("Select text with shift and the arrows, then press Ctrl+R."))
            return
        area.replace(REDACTED, *area.selection)
        self._save_edits()
        places = 1
        if len(chosen) >= MIN_REPLACE_ALL_LENGTH:
            for at, text in enumerate(self._editable_texts):
                if text is not None and (count := text.count(chosen)):
                    places += count
                    self._texts[at] = self._editable_texts[at] = text.replace(chosen, REDACTED)
            if area.text != self._editable_texts[self._index] and not area.read_only:
                area.text = self._editable_texts[self._index] or ""
        self.show_status(_("Redacted in {places}.").format(places=translate_count(places, "place")))

    def show_status(self, text: str) -> None:
        """Show a message in the status line below the text."""
        status = self.query_one("#status", Static)
        status.display = bool(text)
        status.update(Content(clean(text[:1_000])))
        self.post_message(self.StatusChanged())


def _editable_text(text: str | None) -> str | None:
    """Return the text sanitized for editing; if it is too long to edit, or None, return it unchanged."""
    return text if text is None or len(text) > MAX_EDITABLE_CHARACTERS else clean(text)


class ReviewResultDialog(Dialog[ResultVerdict]):
    """Dialog that asks whether the model may receive the result of a tool call."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Withhold")),
        ("reason", N_("Withhold with reason")),
        ("edit", N_("Edit")),
        ("trim", N_("Trim")),
        ("give", N_("Send to model")),
    )
    KEYS: ClassVar[str] = N_("esc/d withhold · r reason · e edit · t trim · a send · v view")
    APPROVING: ClassVar[frozenset[str]] = frozenset({"give"})
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"reason", "trim"})
    EDIT_KEYS: ClassVar[str] = N_("ctrl+r redact · ctrl+s apply · esc discard")
    EDIT_PARTS_KEYS: ClassVar[str] = N_("ctrl+n next · ctrl+o omit · ctrl+r redact · ctrl+s apply · esc discard")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "withhold", show=False),
        Binding("r", "reason", show=False, priority=True),
        Binding("e", "edit", show=False),
        Binding("t", "trim", show=False, priority=True),
        Binding("a", "give", show=False),
        Binding("v", "view", show=False),
        Binding("ctrl+s", "apply", show=False),
        # Handled before the text area.
        Binding("ctrl+r", "redact", show=False, priority=True),
        Binding("ctrl+n", "step(1)", show=False, priority=True),
        Binding("ctrl+b", "step(-1)", show=False, priority=True),
        Binding("ctrl+o", "leave_out", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    ReviewResultDialog Input { border: none; height: 1; background: $surface; }
    """

    def __init__(self, question: ReviewResult) -> None:
        super().__init__(question)
        self.details = question
        self.texts: list[str | None] = [part.text for part in question.parts]
        self.result_view = render_result(question.parts, self.texts)
        self.is_fully_shown = False
        self.editor: ResultPartsEditor | None = None

    @property
    def _is_edited(self) -> bool:
        return self.texts != [part.text for part in self.details.parts]

    def headline(self) -> str:
        """Return the title, which names the server and the tool."""
        return _("Let the model read the result of {server} · {tool}?").format(
            server=self.details.server, tool=self.details.tool
        )

    def preview(self) -> str:
        """Return the arguments of the tool call for the card shown while the dialog is minimized."""
        return summarize_arguments(self.details.arguments, _MAX_ARGUMENTS_LENGTH)

    # -- content

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: the call's arguments, what the model would receive, and warnings."""
        asked, edited = self.details, self._is_edited
        facts = [
            (
                _("called with"),
                clean_line(summarize_arguments(asked.arguments, _MAX_ARGUMENTS_LENGTH), _MAX_ARGUMENTS_LENGTH),
            )
        ]
        if asked.is_error:
            facts.append((_("status"), _("error")))
        left = zip(asked.parts, self.texts, strict=True)
        pictures = [(describe_part(part), part.image.data) for part, text in left if part.image and text is not None]
        if pictures:
            names = _(" and ").join(name for name, _data in pictures[:9])
            facts.append((_("images"), _("the model sees {names}").format(names=names)))
        self.result_view = render_result(asked.parts, self.texts)
        out: list[Content | Widget] = [
            KeyValueList([(name, clean_line(value, 600)) for name, value in facts]),
            Content(""),
        ]
        if edited:
            out.append(Content.styled(_("edited by you; the model gets this text"), "$accent"))
        out += create_image_views(data for _unused, data in pictures)
        out.append(KeyValueList(self.result_view.pairs, id="sent"))
        if not all(is_clean((text or "").replace("\r\n", "\n")) for text in self.texts):
            out.append(Content.styled(_("▲ Hidden or control characters are shown as marks."), "$warning"))
        words = _("The result may contain instructions for the model. The model gets nothing that you withhold.")
        return [*out, Content.styled(f"\n{words}", "$faint")]

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        if button_id not in self.APPROVING:
            return ""
        if self.editor is not None:
            return _("apply your edits first (Ctrl+S) or discard them (esc)")
        if all(text is None for text in self.texts):
            return _("nothing is left to send; withhold it")
        return super().disabled_reason(button_id)

    def reminder(self) -> str:
        """Return a reminder to read the text that the dialog does not show.

        Return "" if the user has read all of it, or while the editor is open.
        """
        if not self.result_view.omitted_characters or self.is_fully_shown or self.editor is not None:
            return ""
        omitted = self.result_view.omitted_characters
        return _("{omitted:,} characters are not shown here: read them with v, to the end, or trim (t)").format(
            omitted=omitted
        )

    async def _show_texts(self, texts: list[str | None]) -> None:
        """Show *texts* as the result to be sent; the user must read them to the end again before approving."""
        self.texts, self.is_fully_shown = texts, False
        await self.show_body()

    # -- answers

    def action_give(self) -> None:
        """Send the result to the model as shown in the dialog."""
        self.approve("give", PassEditedResult(tuple(self.texts)) if self._is_edited else PassResult())

    def action_withhold(self) -> None:
        """Withhold the result, unless the editor is open."""
        if self.editor is None:
            self.dismiss(WithholdResult())

    def action_refuse(self) -> None:
        """Withhold the result; if the editor or an input is open, only close it."""
        if self.editor is not None:
            self.call_later(self._close_editor)
        elif not self.close_extra():
            self.dismiss(WithholdResult())

    def action_view(self) -> None:
        """Open all parts of the result in the full-screen viewer; the dialog stays open behind it."""
        if self.editor is not None:
            return

        def seen() -> None:
            self.is_fully_shown = True
            self.update_remaining()

        title = f"{self.details.server} · {self.details.tool}"
        self.post_message(TextViewRequested(title, "", seen, sections=result_sections(self.details.parts, self.texts)))

    # -- a reason, and trimming

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the actions that open an input while the editor is open, because their keys then enter text."""
        return not (action in self.INPUT_ACTIONS and self.editor is not None) and super().check_action(
            action, parameters
        )

    def compose_extra(self) -> ComposeResult:
        """Yield the inputs for a reason and for the numbers of characters to keep; an action opens one of them."""
        yield OrderedInput(
            placeholder=_("Why? The model reads this. Enter withholds, esc goes back."), id="why-not", compact=True
        )
        yield OrderedInput(
            placeholder=_("Characters to keep at the start and end of each text: 2000 500"), id="numbers",
            compact=True,
        )  # fmt: skip

    def on_mount(self) -> None:
        """Hide the inputs until an action opens one of them."""
        for part in self.query("#extra > *"):
            part.display = False

    def _open_input(self, input_id: str, keys: str) -> None:
        for child in self.query("#extra > *"):
            child.display = child.id == input_id
        self.open_extra(input_id, keys)

    def action_reason(self) -> None:
        """Open the input for the reason for withholding the result; the reason is sent to the model."""
        self._open_input("why-not", _("enter withhold with this reason · esc back"))

    def action_trim(self) -> None:
        """Open the input for the number of characters to keep at the start and end of each text."""
        self._open_input("numbers", _("characters to keep, first and last · enter show · esc back"))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Withhold the result with the entered reason, or trim the texts to the entered lengths."""
        event.stop()
        if event.input.id == "why-not":
            self.dismiss(WithholdResult(event.value.strip()))
            return
        match = _TRIM_PATTERN.fullmatch(event.value)
        if match is None:
            self.show_hint(_("enter one or two numbers: characters to keep at the start and at the end"))
            return
        texts = trim_texts(self.details.parts, self.texts, int(match[1]), int(match[2] or 0))
        self.close_extra()
        self.call_later(self._show_texts, texts)

    # -- editing

    async def action_edit(self) -> None:
        """Open the editor for the parts of the result."""
        if self.editor is None:
            self.close_extra()
            self.editor = ResultPartsEditor(self.details.parts, self.texts, max(3, min(24, self.size.height - 16)))
            await self._open_editor(self.editor)

    async def _open_editor(self, editor: ResultPartsEditor) -> None:
        body = self.query_one("#body")
        await body.remove_children()
        body.can_focus = False
        self.query_one("#buttons").display = False
        self.show_key_hints(self.EDIT_PARTS_KEYS if len(self.details.parts) > 1 else self.EDIT_KEYS)
        await body.mount(editor)
        body.scroll_to(y=0, animate=False)
        self.fit()

    def action_step(self, by: int) -> None:
        """Show another part of the result in the editor: *by* parts forward, or backward if negative."""
        if self.editor is not None:
            self.editor.step(by)

    def action_redact(self) -> None:
        """Redact the text that is selected in the editor."""
        if self.editor is not None:
            self.editor.redact()

    def action_leave_out(self) -> None:
        """Omit the part that the editor shows, or restore it."""
        if self.editor is not None:
            self.editor.toggle_omitted()

    def action_apply(self) -> None:
        """Close the editor and show the edited texts for approval; if they are invalid, show the error."""
        if self.editor is None:
            return
        texts = self.editor.texts
        if fault := edited_texts_error(self.details, tuple(texts)):
            self.editor.show_status(fault)
        else:
            self.texts, self.is_fully_shown = list(texts), False
            self.call_later(self._close_editor)

    def on_result_parts_editor_status_changed(self, message: ResultPartsEditor.StatusChanged) -> None:
        """Adapt the dialog to the new height of the status line."""
        message.stop()
        self.call_after_refresh(self.fit)

    async def _close_editor(self) -> None:
        self.editor = None
        self.query_one("#buttons").display = True
        self.query_one("#body").can_focus = True
        self.show_key_hints(self.KEYS)
        await self._show_texts(self.texts)
        self.query_one("#refuse").focus()
