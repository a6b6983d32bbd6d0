"""Dialog to review a tool result before the model gets it: pass, edit, trim or withhold."""

import re
from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from mcphost.host.questions.questions import (
    PassEditedResult,
    PassResult,
    ResultVerdict,
    ReviewResult,
    WithholdResult,
    edited_texts_error,
)
from mcphost.tui.dialogs.call_view import summarize_arguments
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.edit_parts import ResultPartsEditor
from mcphost.tui.dialogs.result_view import describe_part, render_result, result_sections, trim_texts
from mcphost.tui.messages import TextViewRequested
from mcphost.tui.screen_text import clean_line, is_clean
from mcphost.tui.widgets.key_values import KeyValueList
from mcphost.tui.widgets.ordered_input import OrderedInput
from mcphost.tui.widgets.picture_view import create_image_views

_MAX_ARGUMENTS_LENGTH = 140
_TRIM_PATTERN = re.compile(r"\s*(\d{1,9})(?:[\s,]+(\d{1,9}))?\s*")


class ReviewResultDialog(Dialog[ResultVerdict]):
    """Ask whether the model may get this result."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Withhold"),
        ("reason", "Withhold with reason"),
        ("edit", "Edit"),
        ("trim", "Trim"),
        ("give", "Send to model"),
    )
    KEYS: ClassVar[str] = "esc/d withhold · r reason · e edit · t trim · a send · v all"
    APPROVING: ClassVar[frozenset[str]] = frozenset({"give"})
    INPUT_ACTIONS: ClassVar[frozenset[str]] = frozenset({"reason", "trim"})
    EDIT_KEYS: ClassVar[str] = "ctrl+r redact · ctrl+s apply · esc discard"
    EDIT_PARTS_KEYS: ClassVar[str] = f"ctrl+n next part · ctrl+o omit · {EDIT_KEYS}"
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
        """Return the title."""
        return f"Let the model read the result of {self.details.server} · {self.details.tool}?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return summarize_arguments(self.details.arguments, _MAX_ARGUMENTS_LENGTH)

    # -- content

    def body(self) -> Sequence[Content | Widget]:
        """Return the content of the dialog."""
        asked, edited = self.details, self._is_edited
        facts = [
            (
                "called with",
                clean_line(summarize_arguments(asked.arguments, _MAX_ARGUMENTS_LENGTH), _MAX_ARGUMENTS_LENGTH),
            )
        ]
        if asked.is_error:
            facts.append(("status", "error"))
        left = zip(asked.parts, self.texts, strict=True)
        pictures = [(describe_part(part), part.image.data) for part, text in left if part.image and text is not None]
        if pictures:
            facts.append(("pictures", f"the model sees {' and '.join(name for name, _ in pictures[:9])}"))
        self.result_view = render_result(asked.parts, self.texts)
        out: list[Content | Widget] = [
            KeyValueList([(name, clean_line(value, 600)) for name, value in facts]),
            Content(""),
        ]
        if edited:
            out.append(Content.styled("edited by you; the model gets this text", "$accent"))
        out += create_image_views(data for _, data in pictures)
        out.append(KeyValueList(self.result_view.pairs, id="sent"))
        if not all(is_clean((text or "").replace("\r\n", "\n")) for text in self.texts):
            out.append(Content.styled("▲ Hidden or control characters are shown as marks.", "$warning"))
        words = "The result may contain instructions to the model. The model gets nothing that you withhold."
        return [*out, Content.styled(f"\n{words}", "$faint")]

    def disabled_reason(self, ident: str) -> str:
        """Return why a button is disabled; empty if it is not."""
        if ident not in self.APPROVING:
            return ""
        if self.editor is not None:
            return "apply your edits first (ctrl+s) or discard them (esc)"
        if all(text is None for text in self.texts):
            return "nothing is left to send; withhold it"
        return super().disabled_reason(ident) or self.reminder()

    def reminder(self) -> str:
        """Return what must still be read before approval."""
        if not self.result_view.omitted_characters or self.is_fully_shown or self.editor is not None:
            return ""
        omitted = self.result_view.omitted_characters
        return f"{omitted:,} characters are not shown here: read them with v, to the end, or trim (t)"

    async def _show_texts(self, texts: list[str | None]) -> None:
        """Show the texts that would be passed now; they must be read like the first ones."""
        self.texts, self.is_fully_shown = texts, False
        await self.show_body()

    # -- answers

    def action_give(self) -> None:
        """Pass the result as shown."""
        self.approve("give", PassEditedResult(tuple(self.texts)) if self._is_edited else PassResult())

    def action_withhold(self) -> None:
        """Withhold the result."""
        if self.editor is None:
            self.dismiss(WithholdResult())

    def action_refuse(self) -> None:
        """Withhold the result; from the editor or an input, go back to the question first."""
        if self.editor is not None:
            self.call_later(self._close_editor)
        elif not self.close_extra():
            self.dismiss(WithholdResult())

    def action_view(self) -> None:
        """Open every part whole on a page of its own; the question waits below."""
        if self.editor is not None:
            return

        def seen() -> None:
            self.is_fully_shown = True
            self._update_remaining()

        title = f"{self.details.server} · {self.details.tool}"
        self.post_message(TextViewRequested(title, "", seen, sections=result_sections(self.details.parts, self.texts)))

    # -- a reason, and trimming

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys of the inputs while a part is edited, where they are text."""
        return not (action in self.INPUT_ACTIONS and self.editor is not None) and super().check_action(
            action, parameters
        )

    def compose_extra(self) -> ComposeResult:
        """Yield the inputs."""
        yield OrderedInput(
            placeholder="Why? The model reads this. Enter withholds, esc goes back.", id="why-not", compact=True
        )
        yield OrderedInput(
            placeholder="Characters to keep at the start and end of each text: 2000 500", id="numbers",
            compact=True,
        )  # fmt: skip

    def on_mount(self) -> None:
        """Hide the inputs until one is opened."""
        for part in self.query("#extra > *"):
            part.display = False

    def _open_input(self, ident: str, keys: str) -> None:
        for child in self.query("#extra > *"):
            child.display = child.id == ident
        self.open_extra(ident, keys)

    def action_reason(self) -> None:
        """Ask for a reason, which the model reads."""
        self._open_input("why-not", "enter withholds with this reason · esc goes back")

    def action_trim(self) -> None:
        """Ask how much of each text to pass."""
        self._open_input("numbers", "characters to keep, first and last · enter shows the result · esc goes back")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Withhold with the reason, or trim to the numbers."""
        event.stop()
        if event.input.id == "why-not":
            self.dismiss(WithholdResult(event.value.strip()))
            return
        match = _TRIM_PATTERN.fullmatch(event.value)
        if match is None:
            self.show_hint("enter one or two numbers: characters to keep at the start and at the end")
            return
        texts = trim_texts(self.details.parts, self.texts, int(match[1]), int(match[2] or 0))
        self.close_extra()
        self.call_later(self._show_texts, texts)

    # -- editing

    async def action_edit(self) -> None:
        """Edit the texts, one at a time."""
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
        """Show another part."""
        if self.editor is not None:
            self.editor.step(by)

    def action_redact(self) -> None:
        """Redact the selection."""
        if self.editor is not None:
            self.editor.redact()

    def action_leave_out(self) -> None:
        """Omit the part, or restore it."""
        if self.editor is not None:
            self.editor.toggle_omitted()

    def action_apply(self) -> None:
        """Show the edited texts for approval."""
        if self.editor is None:
            return
        texts = self.editor.texts
        if fault := edited_texts_error(self.details, tuple(texts)):
            self.editor.show_status(fault)
        else:
            self.texts, self.is_fully_shown = list(texts), False
            self.call_later(self._close_editor)

    def on_result_parts_editor_status_changed(self, message: ResultPartsEditor.StatusChanged) -> None:
        """Fit the dialog to the changed status line."""
        message.stop()
        self.call_after_refresh(self.fit)

    async def _close_editor(self) -> None:
        self.editor = None
        self.query_one("#buttons").display = True
        self.query_one("#body").can_focus = True
        self.show_key_hints(self.KEYS)
        await self._show_texts(self.texts)
        self.query_one("#refuse").focus()
