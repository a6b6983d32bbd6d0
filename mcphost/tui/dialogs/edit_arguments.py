"""Dialogs for editing the arguments of a tool call, or for calling a tool manually, in a form or as JSON."""

import json
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Static, TextArea

from mcphost.errors import MalformedMessage
from mcphost.host.questions.forms import argument_fields, has_arguments
from mcphost.host.questions.frontend import Question
from mcphost.protocol.tools import Tool
from mcphost.sanitize import escape_unsafe_json
from mcphost.serialization import Raw, dumps, loads
from mcphost.translation import N_, SentencePatterns, _, current_language, translate_sentence
from mcphost.tui import input_guard
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.forms.field_widgets import JSON_NULL
from mcphost.tui.forms.form import Form
from mcphost.tui.input_guard import AnswerGuard
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean
from mcphost.tui.widget_messages import ArgumentCheckRequested, EditorRequested
from mcphost.tui.widgets.key_values import quote_statement
from mcphost.tui.widgets.text_inputs import OrderedTextArea

if TYPE_CHECKING:
    from mcphost.host.server_views import SchemaErrors

_CHECK_DELAY = 0.3
"""Seconds without a change before the arguments are validated against the schema."""
MAX_JSON_CHARACTERS = 1_000_000
"""Maximum characters of edited JSON."""
MAX_JSON_LINES = 5_000
"""Maximum lines of JSON in the text area, which takes about 0.02 ms for each line and blocks the program meanwhile."""


NO_ARGUMENTS = N_("It takes no arguments.")
_MAX_DESCRIPTION_LENGTH = 600


def describe_excess(arguments: dict[str, Any]) -> str:
    """Return a message if the arguments have too many lines of JSON to be edited, or "" otherwise."""
    if dumps(arguments, indent=2).count("\n") < MAX_JSON_LINES:
        return ""
    return _("The arguments have more than {max_lines:,} lines of JSON, too many to edit here.").format(
        max_lines=MAX_JSON_LINES
    )


class EditArgumentsQuestion(Question[dict[str, Any] | None], frozen=True, kw_only=True):
    """Question that asks the user to edit a tool call's arguments.

    Only the TUI asks this question, so other frontends need not support it.
    """

    KIND: ClassVar[str] = "write_arguments"

    def refusal(self) -> dict[str, Any] | None:
        """Return None, which leaves the arguments unchanged."""
        return None


class EditArgumentsDialog(Dialog[dict[str, Any] | None]):
    """Dialog for editing the arguments of a tool call; its answer is the arguments, or None if the user goes back.

    The arguments are validated against *schema*, the tool's input schema. Arguments that mcphost cannot validate are
    accepted. Escape on the buttons closes the dialog. In a field, Escape only focuses the buttons, so that a single key
    press does not discard a half-filled form.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Back")),
        ("apply", N_("Apply")),
        ("as_json", "JSON"),
        ("editor", N_("Editor")),
    )
    KEYS: ClassVar[str] = N_("esc back without changes · tab edit · ctrl+s apply · ctrl+e JSON")
    FIELD_KEYS: ClassVar[str] = N_("tab/enter next · ctrl+s apply · ctrl+e JSON · esc to the buttons")
    JSON_KEYS: ClassVar[str] = N_("ctrl+s apply · ctrl+e form · esc to the buttons")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "apply", show=False, priority=True),
        Binding("ctrl+e", "as_json", show=False, priority=True),
        Binding("ctrl+g", "editor", show=False, priority=True),
        # Handled before the field, so that text typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    EditArgumentsDialog #body { scrollbar-gutter: stable; }
    EditArgumentsDialog #arguments-text { background: $surface; border: none; }
    EditArgumentsDialog #fault { height: auto; max-height: 4; color: $error; }
    """

    def __init__(self, server: str, tool: str, schema: Raw, arguments: dict[str, Any]) -> None:
        super().__init__(EditArgumentsQuestion(server=server, why=""))
        # This dialog approves nothing, and keys typed after the one that opened it are meant for it.
        self.guard = AnswerGuard(is_entered=True, has_delay=False)
        self.server, self.tool, self.schema = server, tool, schema
        self._initial_arguments = arguments
        self._fault_text = ""
        self.form = self._build_form(arguments)
        self.is_json = not self.form.rows
        self._check_timer: Timer | None = None
        self._checked_json = ""
        self._parsed_text = ""

    def _build_form(self, arguments: dict[str, Any]) -> Form:
        values = {name: JSON_NULL if value is None else value for name, value in arguments.items()}
        return Form(argument_fields(self.schema, arguments), values)

    def headline(self) -> str:
        """Return the title, which names the server and the tool."""
        return _("Edit the arguments of {server} · {tool}").format(server=self.server, tool=self.tool)

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: a form and a text area for JSON, of which one is visible at a time."""
        area = OrderedTextArea(id="arguments-text", compact=True, show_line_numbers=False)
        area.display = self.is_json
        self.form.display = not self.is_json
        return [self.form, area]

    def compose_extra(self) -> ComposeResult:
        """Yield the line for error messages, which is hidden while there is no error."""
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        """Show the initial arguments as JSON if they cannot be shown in a form."""
        self.query_one("#body").can_focus = False
        if self.is_json:
            self._set_text(escape_unsafe_json(dumps(self._initial_arguments, indent=2)))

    def focus_first(self) -> None:
        """Focus the first field of the form, or the JSON text, and update the buttons."""
        button = self.query_one("#as_json", Button)
        button.label = Content(_("Form") if self.is_json else _("JSON"))
        button.display = not self.is_json or bool(self.form.rows)
        own = self.query_one("#editor", Button)
        own.display, own.label = bool(self._editor_name), Content(self._editor_name)
        if self.is_json:
            self.set_focus(self._text_area)
        else:
            self.form.focus_first()
        self._set_status("")

    @property
    def _editor_name(self) -> str:
        return str(getattr(cast("Any", self).app, "editor_name", ""))

    @property
    def _text_area(self) -> TextArea:
        return self.query_one("#arguments-text", TextArea)

    def _set_text(self, text: str) -> None:
        self._text_area.text = text

    def fit(self) -> None:
        """Limit the height of the body to keep the buttons visible; show field descriptions if there is room."""
        if not self.is_active:
            return  # the dialog was dismissed before this call ran
        super().fit()
        limit = self.query_one("#body").styles.max_height
        room = int(limit.value) if limit is not None and limit.cells is not None else 10
        if self.is_json:
            self._text_area.styles.height = max(3, min(room, self._text_area.document.line_count + 1))
        else:
            self.form.show_descriptions(self.form.estimated_height + 6 <= room)

    # -- arguments and validation

    def _read_arguments(self) -> dict[str, Any] | None:
        """Return the entered arguments; if the JSON or a field is invalid, show the error and return None."""
        if not self.is_json:
            if not self.form.validate():
                return None
            return self._form_arguments()
        self._parsed_text = self._text_area.text
        arguments = self._parse(self._parsed_text)
        if isinstance(arguments, str):
            self._set_status(arguments)
            return None
        return arguments

    def _parse(self, text: str) -> dict[str, Any] | str:
        """Parse JSON text into arguments; if it is not a JSON object, return an error message instead."""
        if len(text) > MAX_JSON_CHARACTERS:
            return _("The arguments are over {max_json_characters:,} characters.").format(
                max_json_characters=MAX_JSON_CHARACTERS
            )
        try:
            value = loads(text, "JSON")
        except MalformedMessage as error:
            return locate_json_error(text) or translate_sentence(error.message)
        if not isinstance(value, dict):
            return _('The arguments must be one JSON object: {"name": value, …}.')
        return cast("dict[str, Any]", value)

    def _form_arguments(self) -> dict[str, Any]:
        """Return the form's arguments in their original order; arguments that the user did not edit are unchanged."""
        content = self.form.content()
        untouched = {row.field.name for row in self.form.rows if row.is_unchanged}
        kept = {name: value for name, value in self._initial_arguments.items() if name in untouched}
        return {
            name: kept.get(name, content.get(name))
            for name in (*self._initial_arguments, *(name for name in content if name not in self._initial_arguments))
            if name in kept or name in content
        }

    def on_form_changed(self, event: Form.Changed) -> None:
        """Clear the error message, and validate the arguments against the schema once the user pauses typing."""
        event.stop()
        # The event may arrive after the change was checked.
        if not self._checked_json or self._checked_json != dumps(self._form_arguments()):
            self._set_status("")
            self._schedule_check()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """Clear the error message once the user has changed the text that caused it."""
        event.stop()
        if self._text_area.text != self._parsed_text:
            self._set_status("")

    def _schedule_check(self) -> None:
        if self._check_timer is not None:
            self._check_timer.stop()
        self._check_timer = self.set_timer(_CHECK_DELAY, self._check_form)

    def _check_form(self) -> None:
        """Validate the form against the schema, unless a field is already marked as invalid."""
        if not self.is_json and not any(row.problem() for row in self.form.rows):
            self._check(self._form_arguments(), apply=False)

    def _check(self, arguments: dict[str, Any], *, apply: bool) -> None:
        mark = self._checked_json = dumps(arguments)

        def checked(errors: "SchemaErrors") -> None:
            # The arguments have changed since this check began, or the dialog was closed.
            if not self.is_attached or self._checked_json != mark:
                return
            if self.is_json:
                self._show_fault(_describe_errors(errors))
            else:
                self._show_field_faults(errors)
            if apply and not errors:
                self.dismiss(arguments)

        self.post_message(ArgumentCheckRequested(self.server, self.tool, arguments, checked))

    def _show_field_faults(self, errors: "SchemaErrors") -> None:
        """Show each validation error below the field that it concerns.

        An error that does not concern any field is shown below the form.
        """
        rows = {row.field.name: row for row in self.form.rows if row.display}
        by_field: dict[str, list[str]] = {}
        rest: list[str] = []
        for fault in errors.faults:
            message = translate_violation(fault.message)
            name, _unused, deeper = fault.path.removeprefix("/").partition("/")
            name = name.replace("~1", "/").replace("~0", "~")
            if name in rows and fault.path:
                place = rows[name].describe_place(f"/{deeper}")
                text = _("{place}: {message}").format(place=place, message=message) if deeper else message
                by_field.setdefault(name, []).append(text)
            else:
                place = fault.path or _("the arguments")
                rest.append(_("{place}: {message}").format(place=place, message=message))
        self.form.set_problems({name: _("; ").join(texts) for name, texts in by_field.items()})
        if errors and not errors.faults:
            rest.append(_describe_errors(errors))
        self._show_fault(_("; ").join(rest))

    def _set_status(self, text: str) -> None:
        """Show a status message, and discard the result of any validation that is still running."""
        self._checked_json = ""
        self._show_fault(text)

    def _show_fault(self, text: str) -> None:
        if text == self._fault_text:
            return
        self._fault_text = text
        self.query_one("#fault", Static).update(Content(clean(text[:2_000])))
        announce(self, text)
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)

    # -- focus and keys

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the key hints for the focused widget."""
        keys = self.JSON_KEYS if self.is_json else self.FIELD_KEYS
        keys = self.KEYS if isinstance(event.widget, Button) else keys
        self.show_key_hints(
            _("{keys} · ctrl+g {editor_name}").format(keys=keys, editor_name=self._editor_name)
            if self._editor_name
            else keys
        )
        self.fit()

    def action_step(self, by: int) -> None:
        """Move the focus to the next field or button, or to the previous one if *by* is negative."""
        if self.is_json or not isinstance(self.focused, Button):
            if self.is_json or self.form.current_row is None or not self.form.move_focus(by):
                self._focus_button(by)
        elif by > 0 and self.focused.id != "refuse":
            self.focus_next()
        elif by > 0:
            self.form.focus_first()
        else:
            self.form.focus_last()

    def on_form_focus_exited(self, event: Form.FocusExited) -> None:
        """Focus the Apply button after the last field, or the Back button before the first."""
        event.stop()
        self._focus_button(event.direction)

    def _focus_button(self, by: int) -> None:
        if self.is_json and isinstance(self.focused, Button):
            self.set_focus(self._text_area)
        else:
            self.set_focus(self.query_one("#apply" if by > 0 else "#refuse"))

    def action_refuse(self) -> None:
        """Close the dialog without changes; if a field has the focus, only focus the buttons."""
        if isinstance(self.focused, Button) or self.focused is None:
            self.dismiss(None)
        else:
            self.set_focus(self.query_one("#refuse"))

    def action_apply(self) -> None:
        """Validate the arguments and, if they are valid, close the dialog with them."""
        arguments = self._read_arguments()
        if arguments is not None:
            self._set_status(_("checking …") if self.is_json else "")
            self._check(arguments, apply=True)

    async def action_as_json(self) -> None:
        """Switch from the form to JSON or back.

        Switching to JSON works even if some values are invalid; switching back requires valid JSON.
        """
        arguments = self._read_arguments() if self.is_json else self._form_arguments()
        if arguments is None:
            return
        if self.is_json and not argument_fields(self.schema, arguments):
            self._set_status(_("A form cannot show these arguments: apply them as JSON."))
        else:
            await self._show_arguments(arguments, not self.is_json)

    def action_editor(self) -> None:
        """Open the arguments as JSON in the user's external editor, even if they are invalid."""
        if not self._editor_name:
            return
        if self.is_json:
            text = self._text_area.text
        else:
            text = escape_unsafe_json(dumps(self._form_arguments(), indent=2)) + "\n"

        def edited(now: str | None, fault: str) -> None:
            if self.is_attached and now != text:
                self.call_later(self._apply_editor_text, now, fault)

        self._set_status("")
        self.post_message(EditorRequested(text, edited))

    async def _apply_editor_text(self, text: str | None, fault: str) -> None:
        """Show the arguments from the external editor; invalid JSON is shown as text, for the user to correct.

        If the editor failed, *text* is None and *fault* is the error message.
        """
        if text is None:
            self._set_status(fault)
            return
        arguments = self._parse(text)
        if isinstance(arguments, str):
            self.is_json = True
            self._set_text(text)
            self._text_area.display, self.form.display = True, False
            self.focus_first()
            self._parsed_text = text
            self._set_status(arguments)
            return
        await self._show_arguments(arguments, self.is_json or not argument_fields(self.schema, arguments))
        self._check(arguments, apply=False)

    async def _show_arguments(self, arguments: dict[str, Any], is_json: bool) -> None:
        """Show the arguments as JSON if *is_json* is true, and otherwise as a form.

        If the JSON would be too long to edit, only show a message.
        """
        if is_json and (excess := describe_excess(arguments)):
            self._set_status(excess)
            return
        self.is_json = is_json
        if is_json:
            self._set_text(escape_unsafe_json(dumps(arguments, indent=2)))
        else:
            before, self._initial_arguments, self.form = self.form, arguments, self._build_form(arguments)
            await before.remove()
            await self.query_one("#body").mount(self.form, before=self._text_area)
        self._text_area.display, self.form.display = is_json, not is_json
        self.focus_first()


def locate_json_error(text: str) -> str:
    """Return a message with the line and column of the JSON error in *text*.

    Return "" if *text* is valid or if the parser reports no position.
    """
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return _("This is not valid JSON: line {lineno}, column {colno}: {msg}.").format(
            lineno=error.lineno, colno=error.colno, msg=error.msg
        )
    except (ValueError, RecursionError):
        return ""
    return ""


_MESSAGES = (
    N_('{value} is not of type "{type}"'),
    N_("{value} is not of types {types}"),
    N_("{value} is not one of {choices}"),
    N_("{value} was expected"),
    N_("{value} is shorter than {limit} character"),
    N_("{value} is shorter than {limit} characters"),
    N_("{value} is longer than {limit} character"),
    N_("{value} is longer than {limit} characters"),
    N_("{value} is less than the minimum of {limit}"),
    N_("{value} is greater than the maximum of {limit}"),
    N_("{value} is less than or equal to the minimum of {limit}"),
    N_("{value} is greater than or equal to the maximum of {limit}"),
    N_("{value} is not a multiple of {factor}"),
    N_("{value} does not match {pattern}"),
    N_('{value} is not a "{format}"'),
    N_("{name} is a required property"),
    N_("{value} has less than {limit} item"),
    N_("{value} has less than {limit} items"),
    N_("{value} has more than {limit} item"),
    N_("{value} has more than {limit} items"),
    N_("{value} has non-unique elements"),
    N_("{value} has less than {limit} property"),
    N_("{value} has less than {limit} properties"),
    N_("{value} has more than {limit} property"),
    N_("{value} has more than {limit} properties"),
    N_("{value} is not valid under any of the schemas listed in the '{keyword}' keyword"),
    N_("{value} is valid under more than one of the schemas listed in the '{keyword}' keyword"),
    N_("{schema} is not allowed for {value}"),
    N_("None of {value} are valid under the given schema"),
    N_("False schema does not allow {value}"),
    N_("Additional properties are not allowed ({names} was unexpected)"),
    N_("Additional properties are not allowed ({names} were unexpected)"),
)


@cache
def _patterns(language: str) -> SentencePatterns:
    del language  # the key of the cache
    return SentencePatterns({message: _(message) for message in _MESSAGES})


def translate_violation(message: str) -> str:
    """Translate an error message from the JSON Schema library into the user's language.

    An unknown message is returned unchanged.
    """
    return _patterns(current_language()).translate(message)


def _describe_errors(errors: "SchemaErrors") -> str:
    """Return the error message about invalid arguments, translated into the user's language.

    The violations listed in the message are translated too.
    """
    text = translate_sentence(errors.sentence)
    for fault in errors.faults:
        text = text.replace(fault.message, translate_violation(fault.message))
    return text


class CallToolDialog(EditArgumentsDialog):
    """Dialog for calling a tool manually; its answer is the arguments, or None if the user goes back.

    Enter in the last field only moves the focus to the Call button. If the user holds the key down, the button ignores
    it.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Back")),
        ("apply", N_("Call")),
        ("as_json", "JSON"),
        ("editor", N_("Editor")),
    )
    KEYS: ClassVar[str] = N_("esc back · ctrl+s call · ctrl+e JSON")
    FIELD_KEYS: ClassVar[str] = N_("tab/enter next · ctrl+s call · ctrl+e JSON · esc to the buttons")
    JSON_KEYS: ClassVar[str] = N_("ctrl+s call · ctrl+e form · esc to the buttons")

    def __init__(self, server: str, tool: Tool, arguments: dict[str, Any] | None = None, *, notice: str = "") -> None:
        """Create a form that initially contains *arguments*; *notice*, if not empty, is shown above the form."""
        super().__init__(server, tool.name, Raw(bytes(tool.input_schema)), arguments or {})
        self._notice = notice
        self._description = (tool.description or "").strip()[:_MAX_DESCRIPTION_LENGTH]
        self._takes_arguments = has_arguments(tool.input_schema) or bool(arguments)
        self.is_json = self.is_json and self._takes_arguments
        self._moved_at = input_guard.clock()

    def headline(self) -> str:
        """Return the title, which names the server and the tool."""
        return _("Call {server} · {tool}").format(server=self.server, tool=self.tool)

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body: the tool's description, and a form or JSON text area for the arguments."""
        about: list[Content | Widget] = []
        if self._notice:
            about += [Content.styled(clean(self._notice), "$warning"), Content("")]
        if self._description:
            about += [quote_statement(_("The server's description:"), clean(self._description)), Content("")]
        if not self._takes_arguments:
            about.append(Content(_(NO_ARGUMENTS)))
        return [*about, *super().body()]

    def focus_first(self) -> None:
        """Focus the first field, or the Call button if the tool takes no arguments."""
        super().focus_first()
        if not self.is_json and not self.form.rows:
            self.set_focus(self.query_one("#apply"))

    def on_form_focus_exited(self, event: Form.FocusExited) -> None:
        """Move the focus from the form to a button.

        Keys that would call the tool are ignored for a moment, because the user may still be holding down Enter.
        """
        self._moved_at = input_guard.clock()
        super().on_form_focus_exited(event)

    def action_apply(self) -> None:
        """Validate the arguments and call the tool; ignore a key that is probably being held down."""
        now, before = input_guard.clock(), self._moved_at
        self._moved_at = now
        if now - before >= input_guard.GUARD_SECONDS:
            super().action_apply()
