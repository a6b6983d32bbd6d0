"""The widget of one form field, chosen by the field's kind and value."""

from typing import Any

from mcphost.host.questions.form_fields import Field
from mcphost.tui.forms.choice_fields import ChoiceList, TristateCheckbox
from mcphost.tui.forms.text_fields import MAX_EDITABLE_LENGTH, LineEntry, ReadOnlyValue, TextEntry, format_value
from mcphost.tui.screen_text import is_clean

_MAX_LINE_LENGTH = 35
"""Maximum characters of an initial value shown on one line: a time with microseconds and its zone."""
FieldWidget = TextEntry | LineEntry | ReadOnlyValue | TristateCheckbox | ChoiceList


def create_field_widget(field: Field, value: Any) -> FieldWidget:
    """Return the widget for a field, with *value*; None leaves it empty."""
    if field.kind == "boolean":
        return TristateCheckbox(field, value)
    if field.kind in ("choice", "choices"):
        return ChoiceList(field, value)
    text = format_value(field, value)
    if not is_clean(text) or len(text) > MAX_EDITABLE_LENGTH:
        return ReadOnlyValue(field, value)
    is_short = field.kind in ("number", "integer") or field.format in ("date", "date-time")
    if is_short and len(text) <= _MAX_LINE_LENGTH and "\n" not in text:
        return LineEntry(field, value)
    return TextEntry(field, value)
