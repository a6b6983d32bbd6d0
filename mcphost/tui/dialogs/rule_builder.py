"""Dialog for creating a permission rule that allows calls like the current one without asking."""

from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Button, Static

from mcphost.config.rule_syntax import format_rule
from mcphost.config.rules import Rule
from mcphost.errors import McpHostError, UsageError
from mcphost.host.consent.grants import GrantRegistry, PastCall
from mcphost.host.consent.rule_matching import RuleMatch
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import ApproveTool
from mcphost.serialization import dumps, replace
from mcphost.translation import N_, _, join_list
from mcphost.tui.dialogs import rule_form
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.rule_form import initial_values
from mcphost.tui.forms.form import Form
from mcphost.tui.forms.form_row import FormRow
from mcphost.tui.input_guard import AnswerGuard
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import RulePreviewRequested

_COMPARE_DELAY = 0.2
"""Seconds without a change before the rule is matched against earlier calls."""
_MAX_SHOWN_CALLS = 2
_MAX_NAMED_ARGUMENTS = 3
"""Maximum number of names in the warning about arguments without a condition."""


class RuleQuestion(Question[Rule | None], frozen=True, kw_only=True):
    """Question that asks the user for a permission rule; later calls that match the rule run without asking.

    Only the TUI asks this question, so other frontends need not support it.
    """

    KIND: ClassVar[str] = "write_rule"

    def refusal(self) -> Rule | None:
        """Return None, which means that no rule is created."""
        return None


class RuleBuilderDialog(Dialog[Rule | None]):
    """Dialog for creating a permission rule that allows the current tool call.

    Its answer is the rule, or None if the user goes back.
    """

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", N_("Back")), ("save", N_("Save rule and run")))
    KEYS: ClassVar[str] = N_("esc back · tab change the rule · ctrl+s save and run")
    FIELD_KEYS: ClassVar[str] = N_("tab next · shift+tab back · ctrl+s save and run · esc to the buttons")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", show=False),
        # Handled before the field, so that text typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    RuleBuilderDialog #body { scrollbar-gutter: stable; }
    RuleBuilderDialog #live { height: auto; }
    """

    def __init__(self, details: ApproveTool) -> None:
        super().__init__(RuleQuestion(server=details.server, why=""))
        self.guard = AnswerGuard(is_entered=True)  # only a key or a click in a question opens the dialog
        self.details = details
        self.arguments = rule_form.find_arguments(details)
        values = initial_values(details, self.arguments)
        names = list(islice(rule_form.iter_unbound_names(details, self.arguments), _MAX_NAMED_ARGUMENTS + 1))
        self._unbound_names = join_list(
            [*names[:_MAX_NAMED_ARGUMENTS], *([_("others")] if len(names) > _MAX_NAMED_ARGUMENTS else [])]
        )
        self.form = Form(rule_form.build_fields(details, self.arguments), values, shows_names=False)
        self._tests = {name: value for name, value in values.items() if name.startswith("condition ")}
        self._is_initial = True  # False once the user has changed something
        self.rule: Rule | None = None
        self._fault = ""
        self._coverage: RuleMatch | None = None
        self._past_calls: tuple[PastCall, ...] | None = None
        self._compare_timer: Timer | None = None

    def headline(self) -> str:
        """Return the dialog's title."""
        return _("Which calls run without asking?")

    def body(self) -> Sequence[Content | Widget]:
        """Return the dialog's body, which is the form for the rule."""
        return [self.form]

    def compose_extra(self) -> ComposeResult:
        """Yield the widget below the form that shows a preview of the rule."""
        yield Static("", id="live", markup=False)

    def on_mount(self) -> None:
        """Show the preview of the initial rule; the Back button keeps the focus."""
        self.query_one("#body").can_focus = False
        self.query_one("#extra").add_class("shown")
        self._update_rule()

    # -- the rule and its preview

    async def on_form_changed(self, event: Form.Changed) -> None:
        """Rebuild the rule from the form.

        If the user has chosen another condition for an argument, also suggest a value for that condition.
        """
        event.stop()
        if self.form.current_row is not None:
            self._is_initial = False
        for number, argument in enumerate(self.arguments):
            test = self._value(f"condition {number}")
            if test is not None and test != self._tests[f"condition {number}"]:
                self._tests[f"condition {number}"] = test
                if rule_form.takes_value(test):
                    await self._row(f"value {number}").set_value(
                        rule_form.suggest_value(test, argument.value, self.details.folder)
                    )
        self._update_rule()

    def _row(self, name: str) -> FormRow:
        return next(row for row in self.form.rows if row.field.name == name)

    def _value(self, name: str) -> Any:
        return self._row(name).value

    def _update_rule(self) -> None:
        self._row("names").display = self._value("covers") == rule_form.MATCHING_TOOLS
        for number in range(len(self.arguments)):
            self._row(f"value {number}").display = rule_form.takes_value(self._tests[f"condition {number}"])
        rule, self._fault = None, ""
        try:
            rule = rule_form.build_rule(self.details, self.arguments, self.form.values())
        except UsageError as error:
            self._fault = error.message
        if rule is None or rule != self.rule:
            self.rule, self._coverage, self._past_calls = rule, None, None
            if self._compare_timer is not None:
                self._compare_timer.stop()
            self._compare_timer = self.set_timer(_COMPARE_DELAY, self._request_comparison) if rule is not None else None
        self.show_status()

    def _request_comparison(self) -> None:
        """Check whether the rule matches the current call, and which earlier calls it matches; show the result.

        The check runs in the background; its result is ignored if the rule has changed in the meantime. If it is not
        certain that the initial rule matches the current call, each of the rule's conditions on a folder is replaced
        with a condition on the exact value.
        """
        rule = self.rule
        if rule is None:
            return

        def compared(answer: RuleMatch, past: tuple[PastCall, ...] | None) -> None:
            if self.rule is rule and self.is_attached:
                self._coverage, self._past_calls = answer, past
                self.show_status()
                if answer != "yes" and self._is_initial:
                    self._is_initial = False
                    self.call_later(self._bind_exactly)

        self.post_message(RulePreviewRequested(rule, self.details.tool, self.details.arguments, compared))

    async def _bind_exactly(self) -> None:
        """Change every "in this folder" condition to "exactly this", which always matches the current call."""
        for number in range(len(self.arguments)):
            if self._value(f"condition {number}") == rule_form.IN_FOLDER:
                self._tests[f"condition {number}"] = rule_form.EXACT_VALUE
                await self._row(f"condition {number}").set_value(rule_form.EXACT_VALUE)

    def show_status(self) -> None:
        """Show the rule and the calls that it matches, or the error if the form's values do not make a valid rule."""
        live = next(iter(self.query("#live").results(Static)), None)
        if live is None:
            return  # the dialog is being removed
        lines: list[Content] = []
        if self.rule is None:
            lines.append(Content.styled(f"✗ {clean_line(self._fault, 400)}", "$error"))
        else:
            lines.append(Content.styled(rule_form.describe_rule(self.rule, self._value("until")), "bold $text"))
            lines.append(Content.styled(clean_line(format_rule(self.rule), 2 * rule_form.MAX_RULE_LENGTH), "$accent"))
            if self._unbound_names:
                lines.append(
                    Content.styled(
                        _("▲ any value of {unbound_names} is allowed").format(unbound_names=self._unbound_names),
                        "bold $warning",
                    )
                )
            lines += self._comparison_lines()
        live.update(Content("\n").join(lines))
        self.update_locked_buttons()
        self.call_after_refresh(self.fit)

    def _comparison_lines(self) -> list[Content]:
        if self._coverage is None:
            return [Content.styled(_("comparing with this call and earlier calls …"), "$faint")]
        if self._coverage != "yes":
            return [Content.styled(f"▲ {self._uncovered_reason()}", "bold $warning")]
        if self._past_calls is None:
            return [Content.styled(_("Applies to this call. Earlier calls cannot be read."), "$muted")]
        matched = [call for call in self._past_calls if call.answer == "yes"]
        if self._past_calls:
            count = _("{matched_count} of the {past_calls_count} earlier calls of this server").format(
                matched_count=len(matched), past_calls_count=len(self._past_calls)
            )
            summary = _("Applies to this call and {count}.").format(count=count)
        else:
            summary = _("Applies from this call on.")
        first = [
            Content.styled(clean_line(f"  {call.tool} {dumps(call.arguments)[:200]}", 66), "$faint")
            for call in matched[:_MAX_SHOWN_CALLS]
        ]
        return [Content.styled(summary, "$muted"), *first]

    def _uncovered_reason(self) -> str:
        return (
            _("it does not match this call")
            if self._coverage == "no"
            else _("mcphost cannot tell whether it matches this call")
        )

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled."""
        if button_id != "save" or self._coverage == "yes":
            return ""
        if self.rule is None:
            return self._fault
        return _("still comparing with this call") if self._coverage is None else self._uncovered_reason()

    # -- focus and keys

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the key hints for the focused widget."""
        self.show_key_hints(self.KEYS if isinstance(event.widget, Button) else self.FIELD_KEYS)
        self.fit()

    def action_step(self, by: int) -> None:
        """Move the focus to the next field or button, or to the previous one if *by* is negative."""
        if self.form.current_row is not None:
            if not self.form.move_focus(by):
                self._focus_button(by)
        elif self.query_one("#save").has_focus:
            self.form.focus_last() if by < 0 else self.set_focus(self.query_one("#refuse"))
        elif by > 0:
            self.form.focus_first()
        else:
            self.set_focus(self.query_one("#save"))

    def on_form_focus_exited(self, event: Form.FocusExited) -> None:
        """Focus the Save button after the last field, or the Back button before the first."""
        event.stop()
        self._focus_button(event.direction)

    def _focus_button(self, by: int) -> None:
        self.set_focus(self.query_one("#save" if by > 0 else "#refuse"))

    def action_refuse(self) -> None:
        """Go back to the question about the tool call; if a field has the focus, only focus the buttons."""
        if self.form.current_row is not None:
            self.query_one("#refuse").focus()
        else:
            self.dismiss(None)

    def action_save(self) -> None:
        """Close the dialog with the rule and its expiry time; if it cannot be saved, show the reason instead."""
        rule = self.rule
        if rule is not None:
            rule = replace(rule, expires=rule_form.expiry_time(self._value("until")))
        self.approve("save", rule)


async def answer_rule_preview(permissions: GrantRegistry, request: RulePreviewRequested) -> None:
    """Check whether the rule in *request* matches the tool call in *request*, and which earlier calls it matches.

    Both results are passed to `request.on_compared`; the second one is None if the earlier calls cannot be read.
    """
    past = None
    answer = await permissions.match(request.rule, request.tool, request.arguments)
    with suppress(McpHostError):
        past = await permissions.preview(request.rule)
    request.on_compared(answer, past)
