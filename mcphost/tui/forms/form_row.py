"""Row of a form: the title of a field, its input widget, and a note with the description and errors."""

from collections.abc import Callable
from typing import Any, cast

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.form_fields import UNKNOWN_ARGUMENT, Field, field_error
from mcphost.host.questions.schema_outline import MAX_OUTLINE
from mcphost.pluralize import translate_count
from mcphost.serialization import dumps
from mcphost.translation import N_, _, ngettext, translate_sentence
from mcphost.tui.forms.choice_list import ChoiceList
from mcphost.tui.forms.field_widgets import (
    INVALID_JSON,
    JSON_NULL,
    MAX_EDITABLE_LENGTH,
    FieldChanged,
    LineEntry,
    TextEntry,
    TristateCheckbox,
    count_blank_lines,
    format_value,
    line_of_item,
)
from mcphost.tui.forms.read_only_value import ReadOnlyValue
from mcphost.tui.screen_text import clean_beginning, clean_line, is_clean
from mcphost.tui.widgets.key_values import QuotedPart, QuotedText
from mcphost.tui.widgets.laid_out_once import Column, Row, StaticText

_MAX_LINE_LENGTH = 35
"""Maximum characters of an initial value in a single-line input; a time with microseconds and a zone fits."""
FieldWidget = TextEntry | LineEntry | ReadOnlyValue | TristateCheckbox | ChoiceList


def create_field_widget(field: Field, value: Any, *, is_masked: bool = False, shows_values: bool = True) -> FieldWidget:
    """Create the input widget for *field* according to its kind, with *value* as its initial value.

    If *value* is None, the field starts empty. A value that is too long or contains hidden characters is shown in a
    read-only widget. If *is_masked* is true, single-line text is masked like a password. *shows_values* is passed to
    ChoiceList.
    """
    if field.kind == "boolean":
        return TristateCheckbox(field, value)
    if field.kind in ("choice", "choices"):
        return ChoiceList(field, value, shows_values=shows_values)
    text = format_value(field, value)
    if not is_clean(text) or len(text) > MAX_EDITABLE_LENGTH:
        return ReadOnlyValue(field, value)
    if is_masked and "\n" not in text:
        return LineEntry(field, value, is_masked=True)
    is_short = field.kind in ("number", "integer") or field.format in ("date", "date-time")
    if is_short and len(text) <= _MAX_LINE_LENGTH and "\n" not in text:
        return LineEntry(field, value)
    return TextEntry(field, value)


_MAX_PROBLEM_LENGTH = 400
_MAX_DESCRIPTION_LENGTH = 2_000
_CHARACTERS_LIKE_A_ROW = 500
"""How many characters of an initial value take as long to lay out as another row."""
_CHARACTERS_OF_AN_ITEM = 10
_MAX_INDEX_LENGTH = 10
_FORMAT_LABELS = {"email": N_("an email address"), "uri": N_("a URL with its scheme"), "date": N_("a date, 2026-07-28")}
_FORMAT_LABELS["date-time"] = N_("a time with its zone, 2026-07-28T12:00:00Z")


def cell_width(text: str) -> int:
    """Return the width of *text* in terminal cells."""
    return Content(text).cell_length


def describe_constraints(field: Field) -> str:
    """Return a short description of the values that a field allows, such as "a whole number · at least 1"."""
    low, high = (f"{bound:.15g}" if bound is not None else "" for bound in (field.minimum, field.maximum))
    match field.kind:
        case "text":
            known = _FORMAT_LABELS.get(field.format)
            kind = _(known) if known else _quote_sentence(clean_line(field.format, 40))
            words = [kind, _describe_range(field.min_length, field.max_length, _("characters"), _count_characters)]
            words.append(_("pattern {pattern}").format(pattern=clean_line(field.pattern, 80)) if field.pattern else "")
        case "number" | "integer":
            kind = _("a whole number") if field.kind == "integer" else _("a number")
            words = [_("{kind} from {low} to {high}").format(kind=kind, low=low, high=high) if low and high else kind]
            words += (
                [_("at least {low}").format(low=low)]
                if low and not high
                else [_("at most {high}").format(high=high)]
                if high and not low
                else []
            )
        case "choices":
            words = [_describe_range(field.min_items, field.max_items, _("of them"), _count_choices)]
        case "texts":
            words = [_("one text a line"), _describe_range(field.min_items, field.max_items, _("lines"), _count_lines)]
        case "json":
            words = [" ".join(("JSON", clean_line(field.outline, MAX_OUTLINE + 1))).strip()]
        case _:
            words = []
    return " · ".join(word for word in words if word)


def _heading(text: str, style: str) -> QuotedPart:
    return QuotedPart(text, style, is_heading=True)


def _quote_sentence(text: str) -> str:
    """Return *text*, which a server wrote, as a JSON string if it contains whitespace.

    The quotation marks show that mcphost did not write the text.
    """
    return dumps(text) if any(char.isspace() for char in text) else text


def _describe_range(low: int | None, high: int | None, what: str, count: Callable[[int], str]) -> str:
    """Return a range such as "2 to 5 characters" or "at least 2 characters", or "" if there is no limit.

    *low* or *high* is None if there is no such limit; a lower limit of 0 is not mentioned. *what* is the noun for a
    range, such as "characters". *count* formats a number together with its noun, such as "1 character".
    """
    if low and high is not None:
        return _("{low} to {high} {what}").format(low=low, high=high, what=what) if low != high else count(low)
    if low:
        return _("at least {low}").format(low=count(low))
    return _("at most {high}").format(high=count(high)) if high is not None else ""


def _count_characters(number: int) -> str:
    return translate_count(number, "character")


def _count_lines(number: int) -> str:
    return translate_count(number, "line")


def _count_choices(number: int) -> str:
    return f"{number} {_('of them')}"


class FormRow(Column):
    """Row of a form: the title of a field, its input widget, and a note with the description or errors."""

    DEFAULT_CSS = """
    FormRow .title { height: auto; padding: 0 1 0 0; }
    FormRow TextArea { width: 1fr; height: auto; min-height: 1; max-height: 6; background: $surface; border: none;
                   padding: 0 1; }
    FormRow TextArea:focus { background: $background; }
    FormRow .text-area--placeholder, FormRow .input--placeholder { color: $faint; }
    FormRow LineEntry, FormRow ChoiceList, FormRow TristateCheckbox, FormRow ReadOnlyValue {
        width: 1fr; height: auto; padding: 0 1; background: $surface;
    }
    FormRow LineEntry { height: 1; }
    FormRow LineEntry:focus, FormRow ChoiceList:focus, FormRow TristateCheckbox:focus, FormRow ReadOnlyValue:focus {
        background: $background; background-tint: $foreground 0%;
    }
    FormRow .note { height: auto; display: none; }
    FormRow .note.shown { display: block; }
    """

    def __init__(self, field: Field, value: Any, width: int, *, shows_name: bool = True) -> None:
        """Create a row for *field* with *value* as its initial value.

        *width* is the width of the title in terminal cells until the form calls `set_label_width`. If *shows_name* is
        true, the field's name and the values of its options are shown in addition to the titles, because a server may
        choose misleading titles.
        """
        super().__init__()
        self.field = field
        self._label_width = width
        self._shows_name = shows_name
        # A required choice that has a value cannot be cleared, so marking it as required would be pointless.
        self._is_required = field.required and not (field.kind in ("choice", "boolean") and value is not None)
        self._title = clean_line(field.title or field.name, 200)
        self._given_value = value
        # Only what the user enters is masked: a value from the server must be seen before it is sent.
        self.is_masked = field.secret and field.kind == "text" and value is None
        description = field.description
        if description == UNKNOWN_ARGUMENT:
            description = translate_sentence(description)
        self._description = clean_beginning(description, _MAX_DESCRIPTION_LENGTH, _MAX_DESCRIPTION_LENGTH)[0]
        self._field_widget: FieldWidget | None = None
        self.label = StaticText(self._render_label(), classes="title", markup=False)
        self.label.styles.width = width
        self._note = QuotedText(())
        self._note.add_class("note", update=False)  # the style sheet is applied when the note is mounted
        self._note.styles.margin = (0, 0, 0, width + 1)
        self._initial_value: Any = None
        self._external_problem = ""
        self._is_validated = False  # whether an empty field is reported as an error
        self._shows_description = False

    @property
    def mounting_cost(self) -> float:
        """The estimated time to mount and lay out this row; 1 is the time for a row with a short value."""
        value = self._given_value
        if isinstance(value, list):
            length = _CHARACTERS_OF_AN_ITEM * len(cast("list[Any]", value))
        else:
            length = len(value) if isinstance(value, str) else 0
        return 1 + length / _CHARACTERS_LIKE_A_ROW

    @property
    def estimated_height(self) -> int:
        """The approximate height of the row without the focus, in terminal rows."""
        return 1 + self.field.secret + bool(self._shows_description and self.field.description)

    @property
    def field_widget(self) -> FieldWidget:
        """The input widget; it is created if necessary."""
        return self._field_widget or self.create_widget()

    def is_input(self, widget: Widget | None) -> bool:
        """Return whether *widget* is the input widget of this row.

        Return False if the input widget of this row has not been created yet.
        """
        return widget is not None and widget is self._field_widget

    def create_widget(self) -> FieldWidget:
        """Create and return the input widget, or return the existing one.

        `__init__` does not create the widget, because a hundred text areas would block the program for 0.2 seconds.
        """
        if self._field_widget is None:
            self._field_widget = self._create_widget(self._given_value)
            self._initial_value = self._field_widget.field_value
        return self._field_widget

    def _create_widget(self, value: Any) -> FieldWidget:
        return create_field_widget(self.field, value, is_masked=self.is_masked, shows_values=self._shows_name)

    def compose(self) -> ComposeResult:
        """Create the title, the input widget and the note."""
        with Row():
            yield self.label
            yield self.field_widget
        yield self._note

    def set_label_width(self, width: int) -> None:
        """Set the width of the title in terminal cells.

        If the title is truncated, the note shows the full title while the field has the focus.
        """
        if width == self._label_width:
            return
        self._label_width = width
        self.label.update(self._render_label())
        self.label.styles.width = width
        self._note.styles.margin = (0, 0, 0, width + 1)
        self.update_note()

    def _render_label(self) -> Content:
        shown = Content.styled(self._title, "$text").truncate(max(1, self._label_width - 2), ellipsis=True)
        return Content.assemble(shown, ("*", "bold $warning") if self._is_required else ("", ""))

    def on_mount(self) -> None:
        """Show the initial note, for example a warning that the field seems to ask for a secret."""
        self.update_note()

    @property
    def value(self) -> Any:
        """The field's value: None if it is empty, JSON_NULL for a JSON null, INVALID_JSON for invalid JSON."""
        return self.field_widget.field_value

    @property
    def is_unchanged(self) -> bool:
        """Whether the field still has its initial value."""
        if self._field_widget is None:
            return True
        value, first = self.value, self._initial_value
        return type(value) is type(first) and bool(value == first) and (value is JSON_NULL) == (first is JSON_NULL)

    def set_problem(self, text: str) -> None:
        """Show an error that was found outside the form, for example by schema validation, until the value changes.

        *text* need not be sanitized.
        """
        if text != self._external_problem:
            self._external_problem = text
            self.update_note()

    def problem(self) -> str:
        """Return a phrase that describes the error in the value, such as "is required", or "" if it is valid."""
        if self.value is JSON_NULL:
            return ""
        if self.value is INVALID_JSON and self.field.outline:
            outline = clean_line(self.field.outline, MAX_OUTLINE + 1)
            return _("must be JSON of the form {outline}").format(outline=outline)
        if self.value is INVALID_JSON:
            return _('must be JSON, such as ["urgent", "home"] or {"name": "value"}')
        return translate_sentence(field_error(self.field, self.value))

    def describe_place(self, path: str) -> str:
        """Return the place of an error in the value, such as "line 2"; *path* is its JSON pointer within the value."""
        if self.field.kind == "texts" and path[1:].isdecimal() and len(path) < _MAX_INDEX_LENGTH:
            widget = self.field_widget
            text = widget.text if isinstance(widget, TextEntry) else format_value(self.field, self.value)
            line = line_of_item(text, int(path[1:]))
            if line:
                return _("line {number}").format(number=line)
        return path

    def describe_problem(self) -> str:
        """Return the field's title followed by the error in its value, or "" if the value is valid."""
        problem = self.problem() or self._external_problem
        return f"{self._title} {clean_line(problem, _MAX_PROBLEM_LENGTH)}" if problem else ""

    def validate(self) -> bool:
        """Return whether the value may be sent; from now on, show an error whenever a required field is empty."""
        self._is_validated = True
        self.update_note()
        return not self.problem()

    def show_description(self, is_shown: bool) -> None:
        """If *is_shown* is true, show the description always; otherwise, only while the field has the focus."""
        if is_shown != self._shows_description:
            self._shows_description = is_shown
            self.update_note()

    def update_note(self) -> None:
        """Update the note below the field, which shows errors and warnings; do nothing before the row is mounted.

        While the field has the focus, the note also shows the description and the key hints.
        """
        if not self.is_attached:
            return  # `on_mount` does it
        parts: list[QuotedPart] = []
        problem = self.problem()
        if problem and (self._is_validated or self.value is not None):
            parts.append(_heading(f"✗ {clean_line(problem, _MAX_PROBLEM_LENGTH)}", "$error"))
        elif self._external_problem:
            parts.append(_heading(f"✗ {clean_line(self._external_problem, _MAX_PROBLEM_LENGTH)}", "$error"))
        if self.field.secret:
            parts.append(_heading(_("▲ looks like a secret: do not send it"), "bold $warning"))
        typed = self.field_widget.text if isinstance(self.field_widget, TextEntry | LineEntry) else ""
        if typed and not is_clean(typed):
            marked = "•••" if self.is_masked else clean_line(typed, _MAX_PROBLEM_LENGTH)
            parts.append(_heading(_("▲ contains hidden characters: {marked}").format(marked=marked), "$warning"))
        blank = count_blank_lines(typed) if self.field.kind == "texts" else 0
        if blank:
            note = ngettext("▲ {count} blank line is not sent", "▲ {count} blank lines are not sent", blank)
            parts.append(_heading(note.format(count=blank), "$warning"))
        focused = self.field_widget.has_focus
        if focused and cell_width(self._title) > self._label_width - 2:
            parts.append(QuotedPart(self._title, "$text"))
        if self.field.description and (focused or self._shows_description):
            parts.append(QuotedPart(self._description, "$muted"))
        if focused:
            name = _quote_sentence(clean_line(self.field.name, 80)) if self.field.title and self._shows_name else ""
            allowed = describe_constraints(self.field)
            if allowed.casefold() == self.field.description.strip(" .").casefold():
                allowed = ""  # the description says it already
            known = " · ".join(word for word in (name, allowed, self.field_widget.key_hints) if word)
            parts += [_heading(known, "$faint")] if known else []
        if tuple(parts) != self._note.parts:
            # Mounting a new widget would lay out the whole form again.
            self._note.update(parts)
            self._note.set_class(bool(parts), "shown")

    def on_descendant_focus(self) -> None:
        """Show the description and scroll the field into view."""
        self.update_note()
        self.call_after_refresh(self.scroll_visible, animate=False)

    def on_resize(self) -> None:
        """Scroll the field into view again if it has the focus."""
        if self.field_widget.has_focus:
            self.call_after_refresh(self.scroll_visible, animate=False)

    def on_descendant_blur(self) -> None:
        """Show an error from now on whenever the field is required but empty, because the user has left it.

        Before that, this error is shown only if the form is validated.
        """
        self._is_validated = True
        self.update_note()

    def on_field_changed(self) -> None:
        """Show or clear the error for the new value; the message then bubbles up to the form."""
        self._external_problem = ""
        self.update_note()

    def on_paste_refused(self) -> None:
        """Show an error because the user pasted several lines into a masked input.

        The error is shown until the value changes.
        """
        self.set_problem(_("the pasted text has several lines: use the JSON editor (Ctrl+E)"))

    async def on_read_only_value_cleared(self) -> None:
        """Replace the read-only value with an empty input."""
        await self._replace_widget(None)

    async def set_value(self, value: Any) -> None:
        """Replace the field's value; None makes the field empty."""
        await self._replace_widget(value)

    async def _replace_widget(self, value: Any) -> None:
        focused = self.field_widget.has_focus
        before = self.field_widget
        self._field_widget = self._create_widget(value)
        if before.is_attached:  # otherwise, `compose` adds the new widget
            await self.query_one(Row).mount(self.field_widget, after=before)
            await before.remove()
        if focused:
            self.field_widget.focus()
        self.update_note()
        self.post_message(FieldChanged())
