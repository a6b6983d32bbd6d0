"""A server's form: its words, each field with its rules and its value, filled in as JSON; or declined, or left."""

from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Static, TextArea
from textual.widgets.text_area import Selection

from mcphost.data import dumps, loads
from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.forms import Field, filled
from mcphost.host.questions import Accept, Cancel, Decline, FillForm, FormVerdict
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.sanitize import clean, clean_line
from mcphost.tui.widgets.toolcard import value_text

_OPTIONS = 20


def rules(field: Field) -> str:
    """What may stand in a field, in one line."""
    words = ["required"] if field.required else []
    words.append({"choice": "one of", "choices": "some of", "boolean": "true or false"}.get(field.kind, field.kind))
    if field.options:
        shown = [
            option.value if option.title == option.value else f"{option.value} ({option.title})"
            for option in field.options[:_OPTIONS]
        ]
        more = [f"and {len(field.options) - _OPTIONS} more"] if len(field.options) > _OPTIONS else []
        words[-1] += " " + ", ".join(clean_line(one, 80) for one in [*shown, *more])
    words += [clean_line(field.format, 40)] if field.format else []
    for words_of, value in (
        ("at least {}", field.minimum), ("at most {}", field.maximum),
        ("at least {} characters", field.min_length), ("at most {} characters", field.max_length),
        ("at least {} of them", field.min_items), ("at most {} of them", field.max_items),
    ):  # fmt: skip
        words += [words_of.format(f"{value:.15g}")] if value is not None else []
    words += [f"pattern {clean_line(field.pattern, 80)}"] if field.pattern else []
    return " · ".join(words)


class FillFormDialog(Dialog[FormVerdict]):
    """Fill it in, decline it, or leave it."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Not now"),
        ("decline", "Decline"),
        ("edit", "Fill in"),
        ("send", "Send"),
    )
    KEYS: ClassVar[str] = "esc not now · d decline · e fill in · a send what is shown"
    EDITING_KEYS: ClassVar[str] = 'text in "quotes" · ctrl+s takes this over · esc goes back'
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "decline", show=False),
        Binding("e", "edit", show=False),
        Binding("a", "send", show=False),
        Binding("ctrl+s", "take_over", show=False),
    ]
    DEFAULT_CSS = """
    FillFormDialog #content { height: 10; background: $surface; border: none; }
    FillFormDialog #fault { height: auto; color: $error; }
    """

    def __init__(self, question: FillForm) -> None:
        super().__init__(question)
        self.asked = question
        self.content: dict[str, Any] = {
            field.name: field.default for field in question.fields if field.default is not None
        }

    def headline(self) -> str:
        return f"{self.asked.server} asks you to fill in a form"

    def body(self) -> list[Content]:
        asked = self.asked
        out = [Content.assemble(("The server says: ", "$faint"), clean(asked.message))]
        out += [Content.styled(f"▲ {clean(warning)}", "bold $warning") for warning in asked.warnings]
        if not asked.fields:
            out.append(Content.styled("\nIt has no fields: sending it is a plain yes.", "$muted"))
        for field in asked.fields:
            name = clean_line(field.name, 80)
            title = f"  {clean_line(field.title, 120)}" if field.title and field.title != field.name else ""
            out.append(Content.assemble("\n", (name, "bold $text"), (title, "$text"), (f"  {rules(field)}", "$faint")))
            if field.description:
                out.append(Content.styled(f"  {clean(field.description)}", "$muted"))
            if self.content.get(field.name) is not None:
                out.append(Content.assemble(("  = ", "$accent"), clean(value_text(self.content[field.name]))))
        out.append(Content.styled("\nNever put a password or a key into a form.", "$faint"))
        return out

    def extra(self) -> ComposeResult:
        yield TextArea(id="content", compact=True, show_line_numbers=False)
        yield Static("", id="fault", markup=False)

    @property
    def _is_editing(self) -> bool:
        return self.query_one("#extra").has_class("shown")

    def action_refuse(self) -> None:
        """Leave it unanswered; from the open editor, go back to the buttons first."""
        if self._is_editing:
            self._close()
        else:
            self.dismiss(Cancel())

    def action_decline(self) -> None:
        """Say no."""
        self.dismiss(Decline())

    def action_edit(self) -> None:
        """Fill the fields in as JSON: null or nothing leaves one empty."""
        area = self.query_one("#content", TextArea)
        area.text = dumps({field.name: self.content.get(field.name) for field in self.asked.fields}, indent=2)
        area.selection = self._first_gap(area.text)
        area.styles.height = max(3, min(10, area.document.line_count + 1, self.size.height - 18))
        self.query_one("#fault", Static).update("")
        self.query_one("#extra").add_class("shown")
        area.focus()
        self.show_keys(self.EDITING_KEYS)
        self.call_after_refresh(self.fit)

    def _first_gap(self, text: str) -> Selection:
        """The `null` of the first field that still must be filled in, or else may be: typing replaces it."""
        empty = [field for field in self.asked.fields if self.content.get(field.name) is None]
        for field in sorted(empty, key=lambda one: not one.required):
            line = f"  {dumps(field.name)}: null"
            for row, shown in enumerate(text.split("\n")):
                if shown.rstrip(",") == line:
                    return Selection((row, len(line) - 4), (row, len(line)))
        return Selection.cursor((0, 0))

    def action_take_over(self) -> None:
        """Take the edited values over when they fit, and show them as they will be sent."""
        if not self._is_editing:
            return
        try:
            value = loads(self.query_one("#content", TextArea).text, "JSON")
            if not isinstance(value, dict):
                raise UsageError('The form is one JSON object: {"name": value, …}.')
            content = filled(self.asked.fields, cast("dict[str, Any]", value))
        except (MalformedMessage, UsageError) as error:
            self.query_one("#fault", Static).update(Content(clean(error.message)))
            self.call_after_refresh(self.fit)
            return
        # A field that was emptied stays empty, whatever its default is.
        self.content = {field.name: content.get(field.name) for field in self.asked.fields}
        body = self.query_one("#body")
        body.remove_children()
        for piece in self.body():
            body.mount(Static(piece, markup=False))
        self._close()

    def _close(self) -> None:
        self.query_one("#extra").remove_class("shown")
        self.query_one("#send").focus()
        self.show_keys(self.KEYS)
        self.fit()

    def action_send(self) -> None:
        """Send what is shown; what does not fit yet opens the editor with the reason."""
        if self._is_editing:
            self.action_take_over()
            return
        try:
            filled(self.asked.fields, self.content)
        except UsageError as error:
            self.action_edit()
            self.query_one("#fault", Static).update(Content(clean(error.message)))
            return
        self.dismiss(Accept(self.content))
