"""A server's form, filled in field by field or as JSON; what it shows is what is sent. Or declined, or left."""

import json
from typing import Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Button, Static, TextArea

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import filled
from mcphost.host.questions.questions import Accept, Cancel, Decline, FillForm, FormVerdict
from mcphost.serialization import dumps, loads
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line, is_clean
from mcphost.tui.widgets.form import Form
from mcphost.tui.widgets.ordered_input import TextBlock


class FillFormDialog(Dialog[FormVerdict]):
    """Fill it in and send it, decline it, or leave it.

    The buttons are one stop of the tab key and every field is one. Escape in a field goes back to the buttons, so that
    half a form is not lost by one key; on the buttons it leaves. No letter answers: people type into forms, also
    when the focus is not yet where they think.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Leave unanswered"),
        ("decline", "Decline: tell it no"),
        ("send", "Send"),
    )
    AGREEING: ClassVar[frozenset[str]] = frozenset({"send"})
    KEYS: ClassVar[str] = "esc leave · ctrl+d decline · tab fill in · ctrl+s send · ctrl+e JSON"
    FIELD_KEYS: ClassVar[str] = "tab/enter next · shift+tab back · ctrl+s send · esc to the buttons"
    JSON_KEYS: ClassVar[str] = "ctrl+s apply · esc goes back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "send", show=False),
        Binding("ctrl+d", "refuse_it", show=False),
        Binding("ctrl+e", "edit", show=False),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
        Binding("left", "button(-1)", show=False),
        Binding("right", "button(1)", show=False),
    ]
    DEFAULT_CSS = """
    FillFormDialog #content { height: 10; background: $surface; border: none; }
    FillFormDialog #fault { height: auto; color: $error; }
    FillFormDialog #body { scrollbar-gutter: stable; }
    FillFormDialog Form { margin-top: 1; }
    """

    def __init__(self, question: FillForm) -> None:
        super().__init__(question)
        self.asked = question
        self.form = Form(question.fields, {field.name: field.default for field in question.fields})
        self._warned: tuple[str, ...] = ()
        self._said = ("", False)

    def headline(self) -> str:
        return f"{self.asked.server} asks you to fill in a form"

    def preview(self) -> str:
        return self.asked.message

    def body(self) -> list[Content]:
        asked = self.asked
        out = [Content.assemble(("The server says: ", "$faint"), clean(asked.message))]
        out += [Content.styled(f"▲ {clean(warning)}", "bold $warning") for warning in asked.warnings]
        if asked.fields:
            must = "* required · " if any(field.required for field in asked.fields) else ""
            out.append(Content.styled(f"{must}what you see is what is sent · no passwords, no keys", "$faint"))
        else:
            out.append(Content.styled("\nIt has no fields: sending it is a plain yes.", "$muted"))
        return out

    def _show_rest(self) -> None:
        # What was never on the screen has its default, which is sent as well: nothing is read before it is laid out.
        if self.form.size.height or not self.form.rows:
            super()._show_rest()

    def extra(self) -> ComposeResult:
        yield TextBlock(id="content", compact=True, show_line_numbers=False)
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        """The fields, below what the server says; the focus stays on refusing."""
        body = self.query_one("#body")
        body.can_focus = False
        body.mount(self.form)
        super().on_mount()
        self.query_one("#content").display = False
        for grows in (body, self.form):
            self.watch(grows, "virtual_size", self._grown, init=False)

    def _grown(self) -> None:
        self.call_after_refresh(self._laid_out)

    def fit(self) -> None:
        super().fit()
        body = self.query_one("#body")
        limit = body.styles.max_height
        room = limit.value if limit is not None and limit.cells is not None else 0
        width = max(20, body.size.width)
        words = sum(-(-len(piece.plain) // width) for piece in self.body()) + 1
        # The field with the focus says more about itself than its description, a choice shows its list.
        self.form.roomy(words + self.form.lines + 6 <= room)

    # -- where the keys go

    @property
    def _is_editing(self) -> bool:
        return self.query_one("#content").display

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The keys that work there."""
        if self._is_editing:
            self.show_keys(self.JSON_KEYS)
        else:
            self.show_keys(self.KEYS if isinstance(event.widget, Button) else self.FIELD_KEYS)
        self.fit()

    def action_step(self, by: int) -> None:
        """To the next stop: the buttons, then each field."""
        if self._is_editing or not self.form.rows:
            self.focus_next() if by > 0 else self.focus_previous()
        elif self.form.current is not None:
            if not self.form.go(by):
                self._leave_form(by)
        elif by > 0:
            self.form.begin()
        else:
            self.form.end()

    def on_form_ended(self, event: Form.Ended) -> None:
        """After the last field comes sending it."""
        self._leave_form(event.by)

    def _leave_form(self, by: int) -> None:
        self.set_focus(self.query_one("#send" if by > 0 else "#refuse"))

    def action_button(self, by: int) -> None:
        """Along the buttons."""
        idents = [ident for ident, _ in self.BUTTONS]
        focused = self.focused.id if self.focused is not None else None
        at = idents.index(focused) if focused in idents else 0
        self.query_one(f"#{idents[(at + by) % len(idents)]}").focus()

    # -- answers

    def action_refuse(self) -> None:
        """Leave it unanswered; from a field or the editor, go back to the buttons first."""
        if self._is_editing:
            self._close()
        elif self.form.current is not None:
            self.query_one("#refuse").focus()
        else:
            self.dismiss(Cancel())

    def action_decline(self) -> None:
        """Tell the server no."""
        self.dismiss(Decline())

    def action_refuse_it(self) -> None:
        """The same by its key, which in a field is one of editing."""
        if not self._is_editing and self.form.current is None:
            self.dismiss(Decline())

    def action_send(self) -> None:
        """Send what is shown; what does not fit yet is shown instead. What looks like a secret is asked about twice."""
        if self._is_editing:
            self.call_later(self._take_over)
            return
        if not self.form.complete():
            return
        if why := self.withheld("send"):
            self.insist(why)
            return
        secrets = tuple(clean_line(field.title or field.name, 60) for field in self.form.secrets())
        if secrets and secrets != self._warned:
            self._warned = secrets
            server = clean_line(self.asked.server, 60)
            self._say(
                f"▲ {', '.join(secrets)[:300]} looks like a secret, and {server} may not ask for one in a form. "
                "Send again to give it away, or decline."
            )
            self.query_one("#decline").focus()
            return
        content = self.form.values()
        try:
            filled(self.asked.fields, content)
        except UsageError as error:
            self._say(clean(error.message))
            return
        self.dismiss(Accept(content))

    def on_form_edited(self) -> None:
        """A warning or a fault is about what was there before."""
        self._warned = ()
        if not self._is_editing:
            self._say("")

    def _say(self, text: str) -> None:
        if (text, self._is_editing) == self._said:
            return
        self._said = (text, self._is_editing)
        self.query_one("#fault", Static).update(Content(text))
        self.query_one("#extra").set_class(bool(text) or self._is_editing, "shown")
        self.call_after_refresh(self.fit)

    # -- as JSON

    def action_edit(self) -> None:
        """The fields as JSON: null or nothing leaves one empty."""
        if self._is_editing or self.form.current is not None:
            return
        area = self.query_one("#content", TextArea)
        text = dumps(self.form.values(), indent=2)
        # Escaped where something of it would be hidden in an editor.
        area.text = text if is_clean(text) else json.dumps(self.form.values(), indent=2)
        area.styles.height = max(3, min(10, area.document.line_count + 1, self.size.height - 18))
        area.display = True
        self._say("")
        self.set_focus(area)

    async def _take_over(self) -> None:
        """Put the edited values into the fields, when they fit."""
        try:
            value = loads(self.query_one("#content", TextArea).text, "JSON")
            if not isinstance(value, dict):
                raise UsageError('The form is one JSON object: {"name": value, …}.')
            content = filled(self.asked.fields, cast("dict[str, Any]", value))
        except (MalformedMessage, UsageError) as error:
            self._say(clean(error.message))
            return
        await self.form.put(content)
        self._close()
        self.query_one("#send").focus()

    def _close(self) -> None:
        self.query_one("#content").display = False
        self._say("")
        self.query_one("#refuse").focus()
