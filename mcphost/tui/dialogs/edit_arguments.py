"""The arguments of a call, edited in a form made from the tool's schema or as JSON; applied only when they fit."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Static, TextArea

from mcphost.errors import MalformedMessage
from mcphost.host.questions.questions import ApproveTool, Question
from mcphost.host.questions.tool_forms import argument_fields
from mcphost.sanitize import escaped
from mcphost.serialization import dumps, loads
from mcphost.tui.answer_guard import AnswerGuard
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.messages import CheckWanted, EditorWanted
from mcphost.tui.screen_text import clean
from mcphost.tui.widgets.field_widgets import NULL
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.ordered_input import TextBlock

if TYPE_CHECKING:
    from mcphost.host.results.tool_schemas import Misfit

_PAUSE = 0.3
"""Seconds without a change before the arguments are held against the schema."""
SIZE = 1_000_000
"""Characters of edited JSON."""


class WriteArguments(Question[dict[str, Any] | None], frozen=True, kw_only=True):
    """What is to be sent instead; asked by the screen itself, so no front has to know it."""

    KIND: ClassVar[str] = "write_arguments"

    def refusal(self) -> dict[str, Any] | None:
        return None


class EditArguments(Dialog[dict[str, Any] | None]):
    """It ends with arguments that fit the tool's schema, or that nobody can check; or with None: back to the question.

    Escape in a field goes to the buttons, so that half a form is not lost by one key; on the buttons it goes back.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Back"),
        ("take", "Apply"),
        ("as_json", "JSON"),
        ("editor", "Editor"),
    )
    KEYS: ClassVar[str] = "esc back, changing nothing · tab edit · ctrl+s apply · ctrl+e JSON"
    FIELD_KEYS: ClassVar[str] = "tab/enter next · ctrl+s apply · ctrl+e JSON · esc to the buttons"
    JSON_KEYS: ClassVar[str] = "ctrl+s apply · ctrl+e form · esc to the buttons"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "take", show=False, priority=True),
        Binding("ctrl+e", "as_json", show=False, priority=True),
        Binding("ctrl+g", "editor", show=False, priority=True),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    EditArguments #body { scrollbar-gutter: stable; }
    EditArguments #arguments-text { background: $surface; border: none; }
    EditArguments #fault { height: auto; max-height: 4; color: $error; }
    """

    def __init__(self, asked: ApproveTool, arguments: dict[str, Any]) -> None:
        super().__init__(WriteArguments(server=asked.server, why=""))
        # Nothing is agreed to here, and what is typed after the key that opened it is meant for it.
        self.guard = AnswerGuard(entered=True, delays=False)
        self.asked = asked
        self._begun = arguments
        self._text = ""
        self.form = self._form(arguments)
        self.is_json = not self.form.rows
        self._timer: Timer | None = None
        self._checking = ""
        self._read = ""

    def _form(self, arguments: dict[str, Any]) -> Form:
        values = {name: NULL if value is None else value for name, value in arguments.items()}
        return Form(argument_fields(self.asked.schema, arguments), values)

    def headline(self) -> str:
        return f"Edit the arguments of {self.asked.server} · {self.asked.tool}"

    def body(self) -> Sequence[Content | Widget]:
        area = TextBlock(id="arguments-text", compact=True, show_line_numbers=False)
        area.display = self.is_json
        self.form.display = not self.is_json
        return [self.form, area]

    def extra(self) -> ComposeResult:
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        """What is there to begin with."""
        self.query_one("#body").can_focus = False
        if self.is_json:
            self._write(escaped(dumps(self._begun, indent=2)))

    def begin(self) -> None:
        """Straight to where something can be typed."""
        button = self.query_one("#as_json", Button)
        button.label = Content("Form" if self.is_json else "JSON")
        button.display = not self.is_json or bool(argument_fields(self.asked.schema, self._begun))
        own = self.query_one("#editor", Button)
        own.display, own.label = bool(self._editor), Content(self._editor)
        if self.is_json:
            self.set_focus(self._area)
        else:
            self.form.begin()
        self._tell("")

    @property
    def _editor(self) -> str:
        return str(getattr(cast("Any", self).app, "editor", ""))

    @property
    def _area(self) -> TextArea:
        return self.query_one("#arguments-text", TextArea)

    def _write(self, text: str) -> None:
        self._area.text = text

    def fit(self) -> None:
        if not self.is_active:
            return  # it ended while this waited for its turn
        super().fit()
        limit = self.query_one("#body").styles.max_height
        room = int(limit.value) if limit is not None and limit.cells is not None else 10
        if self.is_json:
            self._area.styles.height = max(3, min(room, self._area.document.line_count + 1))
        else:
            self.form.roomy(self.form.lines + 6 <= room)

    # -- what it says now

    def _now(self) -> dict[str, Any] | None:
        """The arguments as they stand; None when they cannot be read, which is told."""
        if not self.is_json:
            if not self.form.complete():
                return None
            return self._filled()
        self._read = self._area.text
        arguments = self._parsed(self._read)
        if isinstance(arguments, str):
            self._tell(arguments)
            return None
        return arguments

    def _parsed(self, text: str) -> dict[str, Any] | str:
        """The arguments that a text is, or why it is none."""
        if len(text) > SIZE:
            return f"That is over {SIZE:,} characters."
        try:
            value = loads(text, "JSON")
        except MalformedMessage as error:
            return _place(text) or error.message
        if not isinstance(value, dict):
            return 'The arguments are one JSON object: {"name": value, …}.'
        return cast("dict[str, Any]", value)

    def _filled(self) -> dict[str, Any]:
        """What the form says, in the order of the call; what nobody touched stays exactly what it was."""
        content = self.form.content()
        untouched = {row.field.name for row in self.form.rows if row.untouched}
        kept = {name: value for name, value in self._begun.items() if name in untouched}
        return {
            name: kept.get(name, content.get(name))
            for name in (*self._begun, *(name for name in content if name not in self._begun))
            if name in kept or name in content
        }

    def on_form_edited(self, event: Form.Edited) -> None:
        """Held against the schema when typing pauses."""
        event.stop()
        # News of a change may come after it was looked at.
        if not self._checking or self._checking != dumps(self._filled()):
            self._tell("")
            self._later()

    def on_text_area_changed(self, event: TextArea.Changed) -> None:
        """What was wrong with the text may not be any more."""
        event.stop()
        if self._area.text != self._read:
            self._tell("")

    def _later(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(_PAUSE, self._look)

    def _look(self) -> None:
        """Check what can be read already, without asking for what is missing."""
        if not self.is_json and not any(row.problem() for row in self.form.rows):
            self._check(self._filled(), take=False)

    def _check(self, arguments: dict[str, Any], *, take: bool) -> None:
        mark = self._checking = dumps(arguments)

        def checked(misfit: "Misfit") -> None:
            # What was typed meanwhile was not checked.
            if not self.is_attached or self._checking != mark:
                return
            if self.is_json:
                self._say(misfit.sentence)
            else:
                self._tell_fields(misfit)
            if take and not misfit:
                self.dismiss(arguments)

        self.post_message(CheckWanted(self.asked.server, self.asked.tool, arguments, checked))

    def _tell_fields(self, misfit: "Misfit") -> None:
        """Each fault below its field, and those that are of none at the end."""
        names = {row.field.name for row in self.form.rows if row.display}
        of: dict[str, list[str]] = {}
        rest: list[str] = []
        for fault in misfit.faults:
            name, _, deeper = fault.path.removeprefix("/").partition("/")
            name = name.replace("~1", "/").replace("~0", "~")
            if name in names and fault.path:
                of.setdefault(name, []).append(f"/{deeper}: {fault.text}" if deeper else fault.text)
            else:
                rest.append(f"{fault.path or 'the arguments'}: {fault.text}")
        self.form.tell({name: "; ".join(texts) for name, texts in of.items()})
        if misfit and not misfit.faults:
            rest.append(misfit.sentence)
        self._say("; ".join(rest))

    def _tell(self, text: str) -> None:
        """Say it; what is being checked is not what stands there any more."""
        self._checking = ""
        self._say(text)

    def _say(self, text: str) -> None:
        if text == self._text:
            return
        self._text = text
        self.query_one("#fault", Static).update(Content(clean(text[:2_000])))
        self.query_one("#extra").set_class(bool(text), "shown")
        self.call_after_refresh(self.fit)

    # -- where the keys go

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The keys that work there."""
        keys = self.JSON_KEYS if self.is_json else self.FIELD_KEYS
        keys = self.KEYS if isinstance(event.widget, Button) else keys
        self.show_keys(f"{keys} · ctrl+g {self._editor}" if self._editor else keys)
        self.fit()

    def action_step(self, by: int) -> None:
        """To the next stop: the buttons, then each field."""
        if self.is_json or not isinstance(self.focused, Button):
            if self.is_json or self.form.current is None or not self.form.go(by):
                self._leave(by)
        elif by > 0 and self.focused.id != "refuse":
            self.focus_next()
        elif by > 0:
            self.form.begin()
        else:
            self.form.end()

    def on_form_ended(self, event: Form.Ended) -> None:
        """After the last field comes taking it over."""
        event.stop()
        self._leave(event.by)

    def _leave(self, by: int) -> None:
        if self.is_json and isinstance(self.focused, Button):
            self.set_focus(self._area)
        else:
            self.set_focus(self.query_one("#take" if by > 0 else "#refuse"))

    def action_refuse(self) -> None:
        """Back to the question with nothing changed; from a field, to the buttons first."""
        if isinstance(self.focused, Button) or self.focused is None:
            self.dismiss(None)
        else:
            self.set_focus(self.query_one("#refuse"))

    def action_take(self) -> None:
        """Apply what is written, once it fits."""
        arguments = self._now()
        if arguments is not None:
            self._tell("checking …" if self.is_json else "")
            self._check(arguments, take=True)

    async def action_as_json(self) -> None:
        """The same arguments as JSON, or as a form again."""
        arguments = self._now()
        if arguments is None:
            return
        if self.is_json and not argument_fields(self.asked.schema, arguments):
            self._tell("A form cannot show these arguments: apply them as JSON.")
        else:
            await self._show(arguments, not self.is_json)

    def action_editor(self) -> None:
        """The same arguments in the user's own editor; what is no JSON goes there as it is."""
        if not self._editor:
            return
        if self.is_json:
            text = self._area.text
        elif (arguments := self._now()) is None:
            return
        else:
            text = escaped(dumps(arguments, indent=2)) + "\n"

        def edited(now: str | None, fault: str) -> None:
            if self.is_attached and now != text:
                self.call_later(self._take_back, now, fault)

        self._tell("")
        self.post_message(EditorWanted(text, edited))

    async def _take_back(self, text: str | None, fault: str) -> None:
        """What the editor left; a text that is no arguments stays to be mended."""
        if text is None:
            self._tell(fault)
            return
        arguments = self._parsed(text)
        if isinstance(arguments, str):
            self.is_json = True
            self._write(text)
            self._area.display, self.form.display = True, False
            self.begin()
            self._read = text
            self._tell(arguments)
            return
        await self._show(arguments, self.is_json or not argument_fields(self.asked.schema, arguments))
        self._check(arguments, take=False)

    async def _show(self, arguments: dict[str, Any], is_json: bool) -> None:
        """Go on with these, in the other shape."""
        self.is_json = is_json
        if is_json:
            self._write(escaped(dumps(arguments, indent=2)))
        else:
            before, self._begun, self.form = self.form, arguments, self._form(arguments)
            await before.remove()
            await self.query_one("#body").mount(self.form, before=0)
        self._area.display, self.form.display = is_json, not is_json
        self.begin()


def _place(text: str) -> str:
    """Where a text stops being JSON, as people count; empty when another reader finds nothing wrong."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"This is not valid JSON: line {error.lineno}, column {error.colno}: {error.msg}."
    except (ValueError, RecursionError):
        return ""
    return ""
