"""Dialog for form elicitation, in which the user fills in a form from a server and sends or declines it."""

import json
from typing import Any, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Static, TextArea

from mcphost.errors import MalformedMessage, UsageError
from mcphost.host.questions.form_fields import validate_content
from mcphost.host.questions.questions import Accept, Cancel, Decline, FillForm, FormVerdict
from mcphost.serialization import dumps, loads
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.edit_arguments import locate_json_error
from mcphost.tui.dialogs.quoting_dialog import QuotingDialog
from mcphost.tui.forms.form import Form
from mcphost.tui.screen_reader import announce
from mcphost.tui.screen_text import clean, clean_line, is_clean
from mcphost.tui.widgets.key_values import QuotedText
from mcphost.tui.widgets.text_inputs import OrderedTextArea

_REPORTS = {
    "refuse": N_("Cancel tells the server that you gave no answer"),
    "decline": N_("Decline tells the server that you said no"),
}
"""What the server learns from a button, keyed by the id of the button."""


class FillFormDialog(QuotingDialog[FormVerdict]):
    """Dialog to fill in a form, as fields or as JSON, and to send, decline or cancel it.

    Tab moves through the buttons and the fields. Escape on the buttons cancels the form; if anything was entered,
    Escape must be pressed twice. In a field, Escape only focuses the buttons. No letter key closes the dialog, because
    users often start to type before a field has the focus.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Cancel")),
        ("decline", N_("Decline")),
        ("send", N_("Send")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"send"})
    KEYS: ClassVar[str] = N_("esc cancel · ctrl+d decline · tab fill in · ctrl+s send · ctrl+e JSON")
    FIELD_KEYS: ClassVar[str] = N_("tab/enter next · shift+tab back · ctrl+s send · esc to the buttons")
    JSON_KEYS: ClassVar[str] = N_("ctrl+s apply · esc back")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("ctrl+s", "send", show=False),
        Binding("ctrl+d", "decline_unless_editing", show=False),
        Binding("ctrl+e", "edit", show=False),
        # Handled before the field, so that text typed next goes to the next field.
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
        self.details = question
        defaults = {field.name: field.default for field in question.fields}
        self.form = Form(question.fields, defaults, shows_whole_values=True)
        self._warned_secrets: tuple[str, ...] = ()
        self._shown_fault = ("", False)
        self._opened_json = ""
        self._masked_values: dict[str, Any] = {}
        """Entered secrets that the JSON omits; a field keeps its secret unless the edited JSON contains the field."""
        self._has_warned_of_discard = False

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("{server} asks you to fill in a form").format(server=self.details.server)

    def preview(self) -> str:
        """Return the server's message for the card shown while the dialog is minimized."""
        return self.details.message

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the server's message, the warnings and a note on what will be sent."""
        asked = self.details
        out: list[Content | Widget] = [self.quote_statement(asked.message)]
        out += [
            Content.styled(f"▲ {clean(translate_sentence(warning))}", "bold $warning") for warning in asked.warnings
        ]
        if asked.fields:
            must = _("* required · ") if any(field.required for field in asked.fields) else ""
            out.append(
                Content.styled(
                    _("{must}everything shown is sent · enter no passwords or keys").format(must=must), "$faint"
                )
            )
        else:
            out.append(Content.styled(_("\nThe form has no fields; sending it means yes."), "$muted"))
        return out

    def update_remaining(self) -> None:
        """Show how many lines of the body remain to be read, once the form has been laid out."""
        if self._is_editing:
            self.query_one("#more", Static).update("")
        # Defaults are sent even for fields that were never visible, so nothing counts as read before the first layout.
        elif self.form.size.height or not self.form.rows:
            super().update_remaining()
        self._explain_button()

    def _explain_button(self) -> None:
        """Explain, above the buttons, what the server is told if the focused button is pressed.

        Do nothing if the line above the buttons already contains other text, such as how many lines remain to be read.
        """
        more = self.query_one("#more", Static)
        shown = str(more.content)
        if self.is_open and (not shown or shown in map(_, _REPORTS.values())):
            report = _REPORTS.get(str(self.focused.id), "") if self.focused is not None and not self._is_editing else ""
            more.update(Content.styled(_(report), "$faint") if report else "")

    def last_required_row(self) -> int:
        """Return the row of the body to which the user must have scrolled before sending the form.

        This is the end of the body plus the height of all pages of the form that the user has not seen. While the JSON
        editor replaces the form, the body does not contain the form, so the form's height is added as well.
        """
        hidden = self.form.estimated_height if self._is_editing else 0
        return super().last_required_row() + self.form.unread_height + hidden

    def unread_message(self) -> str:
        """Return a message about what the user must still read before approving.

        If the form has several pages, the message asks the user to look at every page instead of stating a number of
        lines.
        """
        return _("see every page of the form first") if self.form.has_pages else super().unread_message()

    def handle_end_visible(self) -> None:
        """Record that the current page of the form was seen to its end."""
        if not self._is_editing:
            self.form.mark_page_seen()

    def compose_extra(self) -> ComposeResult:
        """Yield the JSON editor and the line for error messages, which are hidden until needed."""
        yield OrderedTextArea(id="content", compact=True, show_line_numbers=False)
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        """Mount the form below the server's message; the Cancel button keeps the focus."""
        body = self.query_one("#body")
        body.can_focus = False
        body.mount(self.form)
        super().on_mount()
        self.query_one("#content").display = False
        for grows in (body, self.form):
            self.watch(grows, "virtual_size", self._schedule_layout, init=False)

    def _schedule_layout(self) -> None:
        self.call_after_refresh(self._handle_layout)

    def fit(self) -> None:
        """Limit the height of the body to keep the buttons visible; show field descriptions if there is room."""
        super().fit()
        body = self.query_one("#body")
        limit = body.styles.max_height
        room = limit.value if limit is not None and limit.cells is not None else 0
        width = max(20, body.size.width)
        texts = [piece.plain for piece in self.body() if isinstance(piece, Content | QuotedText)]
        words = sum(-(-len(text) // width) for text in texts) + 1
        # 6 rows are left free for the description or the list of options of the focused field.
        self.form.show_descriptions(words + self.form.estimated_height + 6 <= room)

    # -- focus and keys

    @property
    def _is_editing(self) -> bool:
        return self.query_one("#content").display

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the key hints for the focused widget.

        If the focused widget is not a button, remove the warning that a second Escape discards the entered values.
        """
        if not isinstance(event.widget, Button):
            self._withdraw_discard_warning()
        if self._is_editing:
            self.show_key_hints(self.JSON_KEYS)
        else:
            self.show_key_hints(self.KEYS if isinstance(event.widget, Button) else self.FIELD_KEYS)
        self._explain_button()
        self.fit()

    def action_step(self, by: int) -> None:
        """Move the focus to the next field or button, or to the previous one if *by* is negative."""
        if self._is_editing or not self.form.rows:
            self.focus_next() if by > 0 else self.focus_previous()
        elif self.form.current_row is not None:
            if not self.form.move_focus(by):
                self._focus_button(by)
        elif by > 0:
            self.form.focus_first()
        else:
            self.form.focus_last()

    def on_form_focus_exited(self, event: Form.FocusExited) -> None:
        """Focus the Send button after the last field, or the Cancel button before the first."""
        self._focus_button(event.direction)

    def _focus_button(self, by: int) -> None:
        self.set_focus(self.query_one("#send" if by > 0 else "#refuse"))

    def action_button(self, by: int) -> None:
        """Focus the next button, or the previous one if *by* is negative, wrapping around at the ends."""
        ids = [button_id for button_id, _unused in self.BUTTONS]
        focused = self.focused.id if self.focused is not None else None
        at = ids.index(focused) if focused in ids else 0
        self.query_one(f"#{ids[(at + by) % len(ids)]}").focus()

    # -- answers

    def action_leave(self) -> None:
        """Handle Escape: close the JSON editor, leave a field or, on the buttons, cancel the form.

        If this would discard anything that the user entered, the first press only shows a warning.
        """
        if self._is_editing:
            would_lose = self.query_one("#content", TextArea).text != self._opened_json
        else:
            is_on_buttons = self.form.current_row is None and self.focused is not None
            would_lose = is_on_buttons and not self.form.is_unchanged
        if would_lose and not self._has_warned_of_discard:
            self._has_warned_of_discard = True
            self.show_hint(_("press esc again to discard what you entered"))
            return
        self._has_warned_of_discard = False
        self.action_refuse()

    def action_refuse(self) -> None:
        """Cancel the form; if a field or the JSON editor has the focus, only return to the buttons."""
        if self._is_editing:
            self._close_editor()
        elif self.form.current_row is not None or self.focused is None:  # None while a page is being mounted
            self.query_one("#refuse").focus()
        else:
            self.dismiss(Cancel())

    def action_decline(self) -> None:
        """Decline the form."""
        self.dismiss(Decline())

    def action_decline_unless_editing(self) -> None:
        """Decline the form.

        While a field or the JSON editor has the focus, do nothing, because the key then enters text.
        """
        if not self._is_editing and self.form.current_row is None:
            self.dismiss(Decline())

    def action_send(self) -> None:
        """Send the form if it is valid; if the JSON editor is open, only copy its values into the form.

        If the user must still read a part of the form, only show a hint. If a field that seems to ask for a secret has
        a value, the first attempt only shows a warning.
        """
        if self._is_editing:
            self.call_later(self._apply_json)
            return
        if not self.form.validate():
            return
        if why := self.disabled_reason("send"):
            self.show_hint(why)
            self.form.show_unseen_page()
            return
        secrets = tuple(clean_line(field.title or field.name, 60) for field in self.form.secrets())
        if secrets and secrets != self._warned_secrets:
            self._warned_secrets = secrets
            server = clean_line(self.details.server, 60)
            self._show_fault(
                _(
                    "▲ {secrets} looks like a secret, and {server} is not allowed to ask for one in a form. "
                    "Decline, or send again to share it anyway."
                ).format(secrets=join_list(secrets)[:300], server=server)
            )
            self.query_one("#decline").focus()
            return
        content = self.form.values()
        try:
            validate_content(self.details.fields, content, translate_sentence)
        except UsageError as error:
            self._show_fault(clean(translate_sentence(error.message)))
            return
        self.dismiss(Accept(content))

    def on_form_changed(self) -> None:
        """Clear the warning or error, because it referred to the previous values."""
        self._warned_secrets = ()
        self._withdraw_discard_warning()
        if not self._is_editing:
            self._show_fault("")

    def _withdraw_discard_warning(self) -> None:
        if self._has_warned_of_discard:
            self._has_warned_of_discard = False
            self.update_remaining()

    def _show_fault(self, text: str) -> None:
        if (text, self._is_editing) == self._shown_fault:
            return
        self._shown_fault = (text, self._is_editing)
        self.query_one("#fault", Static).update(Content(text))
        announce(self, text)
        self.query_one("#extra").set_class(bool(text) or self._is_editing, "shown")
        self.call_after_refresh(self.fit)

    # -- as JSON

    def action_edit(self) -> None:
        """Show the form's values as JSON in place of the fields, unless a field has the focus.

        When the JSON is copied back into the form, null makes a field empty, and a field that the JSON does not contain
        is reset to its default. The JSON does not show secrets in masked fields, so these fields are not reset.
        """
        if self._is_editing or self.form.current_row is not None:
            return
        area = self.query_one("#content", TextArea)
        self._masked_values = self.form.masked_values()
        values = {name: value for name, value in self.form.values().items() if name not in self._masked_values}
        text = dumps(values, indent=2)
        # json.dumps escapes characters that an editor would not show.
        area.text = self._opened_json = text if is_clean(text) else json.dumps(values, indent=2)
        area.styles.height = max(3, min(20, area.document.line_count + 1, self.size.height - 16))
        self._swap_editor(is_shown=True)
        self._show_fault(self._masked_note())
        self.set_focus(area)

    def _masked_note(self) -> str:
        """Return a note that names the secrets that the JSON editor does not show, or "" if there are none."""
        if not self._masked_values:
            return ""
        names = join_list(clean_line(name, 60) for name in self._masked_values)[:300]
        return _("Not shown, and kept unless you add it here: {names}").format(names=names)

    async def _apply_json(self) -> None:
        """Copy the values from the JSON editor into the fields; if they are invalid, show the reason instead."""
        text = self.query_one("#content", TextArea).text
        try:
            value = loads(text, "JSON")
            if not isinstance(value, dict):
                raise UsageError(_('The form must be one JSON object: {"name": value, …}.'))
            entered = {**self._masked_values, **cast("dict[str, Any]", value)}
            content = validate_content(self.details.fields, entered, translate_sentence)
        except MalformedMessage as error:
            self._show_fault(locate_json_error(text) or clean(translate_sentence(error.message)))
            return
        except UsageError as error:
            self._show_fault(clean(translate_sentence(error.message)))
            return
        await self.form.set_values(content)
        self._close_editor()
        self.query_one("#send").focus()

    def _swap_editor(self, *, is_shown: bool) -> None:
        """Show the JSON editor in place of the fields if *is_shown* is true, otherwise the fields."""
        self.query_one("#content").display, self.form.display = is_shown, not is_shown
        button = self.query_one("#send", Button)
        button.label = Content(_("Apply") if is_shown else _("Send"))
        button.refresh(layout=True)  # the label alone does not change the width

    def _close_editor(self) -> None:
        self._swap_editor(is_shown=False)
        self._show_fault("")
        self.query_one("#refuse").focus()
        self.show_key_hints(self.KEYS)  # if the button has the focus already, no event follows
