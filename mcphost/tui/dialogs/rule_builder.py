"""Put a rule together from the call that is asked about: what it covers, on which conditions, where, until when."""

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

from mcphost.config.rules import Rule, write
from mcphost.errors import McpHostError, UsageError
from mcphost.host.consent.grants import PastCall, Permissions
from mcphost.host.consent.rule_matching import Answer
from mcphost.host.questions.questions import ApproveTool, Question
from mcphost.serialization import dumps, replace
from mcphost.tui.answer_guard import AnswerGuard
from mcphost.tui.dialogs import rule_form
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.dialogs.rule_defaults import initial_values
from mcphost.tui.messages import RuleWanted
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.form import Form

_PAUSE = 0.2
"""Seconds without a change before a rule is compared with calls."""
_FIRST = 2
_NAMED = 3
"""How many arguments that cannot be bound are named."""


class WriteRule(Question[Rule | None], frozen=True, kw_only=True):
    """Which calls are to run unasked from now on; asked by the screen itself, so no front has to know it."""

    KIND: ClassVar[str] = "write_rule"

    def refusal(self) -> Rule | None:
        return None


class RuleBuilder(Dialog[Rule | None]):
    """It ends with a rule that covers the call it began with, or with None: back to the question."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Back"), ("keep", "Keep this rule and run"))
    KEYS: ClassVar[str] = "esc back · tab change the rule · ctrl+s keep it and run"
    FIELD_KEYS: ClassVar[str] = "tab next · shift+tab back · ctrl+s keep and run · esc to the buttons"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "keep", show=False),
        # Before the field itself hears of them, so that what is typed next goes to the next field.
        Binding("tab", "step(1)", show=False, priority=True),
        Binding("shift+tab", "step(-1)", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    RuleBuilder #body { scrollbar-gutter: stable; }
    RuleBuilder #live { height: auto; }
    """

    def __init__(self, asked: ApproveTool) -> None:
        super().__init__(WriteRule(server=asked.server, why=""))
        self.guard = AnswerGuard(entered=True)  # only a key or a click in a question opens it
        self.asked = asked
        self.found = rule_form.arguments(asked)
        values = initial_values(asked, self.found)
        names = list(islice(rule_form.unbound(asked, self.found), _NAMED + 1))
        self._left_open = ", ".join([*names[:_NAMED], *(["others"] if len(names) > _NAMED else [])])
        self.form = Form(rule_form.fields(asked, self.found), values, named=False)
        self._tests = {name: value for name, value in values.items() if name.startswith("condition ")}
        self._initial = True  # until the user changes something
        self._rule: Rule | None = None
        self._fault = ""
        self._answer: Answer | None = None
        self._past: tuple[PastCall, ...] | None = None
        self._timer: Timer | None = None

    def headline(self) -> str:
        return "Which calls run without asking?"

    def body(self) -> Sequence[Content | Widget]:
        return [self.form]

    def extra(self) -> ComposeResult:
        yield Static("", id="live", markup=False)

    def on_mount(self) -> None:
        """The focus stays on going back."""
        self.query_one("#body").can_focus = False
        self.query_one("#extra").add_class("shown")
        self._changed()

    # -- what it says now

    async def on_form_edited(self, event: Form.Edited) -> None:
        """Another test begins with a value that fits the call; then the rule is another one."""
        event.stop()
        if self.form.current is not None:
            self._initial = False
        for number, one in enumerate(self.found):
            test = self._value(f"condition {number}")
            if test is not None and test != self._tests[f"condition {number}"]:
                self._tests[f"condition {number}"] = test
                if rule_form.takes_value(test):
                    await self._row(f"value {number}").put(rule_form.suggestion(test, one.value, self.asked.folder))
        self._changed()

    def _row(self, name: str) -> Any:
        return next(row for row in self.form.rows if row.field.name == name)

    def _value(self, name: str) -> Any:
        return self._row(name).value

    def _changed(self) -> None:
        self._row("names").display = self._value("covers") == rule_form.NAMES
        for number in range(len(self.found)):
            self._row(f"value {number}").display = rule_form.takes_value(self._tests[f"condition {number}"])
        rule, self._fault = None, ""
        try:
            rule = rule_form.rule_of(self.asked, self.found, self.form.values())
        except UsageError as error:
            self._fault = error.message
        if rule is None or rule != self._rule:
            self._rule, self._answer, self._past = rule, None, None
            if self._timer is not None:
                self._timer.stop()
            self._timer = self.set_timer(_PAUSE, self._compare) if rule is not None else None
        self._show()

    def _compare(self) -> None:
        """Ask what the rule covers; an answer about an earlier rule is not looked at."""
        rule = self._rule
        if rule is None:
            return

        def compared(answer: Answer, past: tuple[PastCall, ...] | None) -> None:
            if self._rule is rule and self.is_attached:
                self._answer, self._past = answer, past
                self._show()
                if answer != "yes" and self._initial:
                    self._initial = False
                    self.call_later(self._bind_exactly)

        self.post_message(RuleWanted(rule, self.asked.tool, self.asked.arguments, compared))

    async def _bind_exactly(self) -> None:
        """Nobody can tell whether the paths of this call are in their folders: start with the paths themselves."""
        for number in range(len(self.found)):
            if self._value(f"condition {number}") == rule_form.FOLDER:
                self._tests[f"condition {number}"] = rule_form.EXACT
                await self._row(f"condition {number}").put(rule_form.EXACT)

    def _show(self) -> None:
        live = next(iter(self.query("#live").results(Static)), None)
        if live is None:
            return  # an answer that comes while the page is taken away
        lines: list[Content] = []
        if self._rule is None:
            lines.append(Content.styled(f"✗ {clean_line(self._fault, 400)}", "$error"))
        else:
            lines.append(Content.styled(rule_form.in_words(self._rule, self._value("until")), "bold $text"))
            lines.append(Content.styled(clean_line(write(self._rule), 2 * rule_form.SHOWN_LIMIT), "$accent"))
            if self._left_open:
                lines.append(Content.styled(f"▲ any value of {self._left_open} is allowed", "bold $warning"))
            lines += self._compared()
        live.update(Content("\n").join(lines))
        self.show_locks()
        self.call_after_refresh(self.fit)

    def _compared(self) -> list[Content]:
        if self._answer is None:
            return [Content.styled("comparing it with this call and earlier ones …", "$faint")]
        if self._answer != "yes":
            return [Content.styled(f"▲ {self._uncovered()}", "bold $warning")]
        if self._past is None:
            return [Content.styled("It covers this call. Earlier calls cannot be read now.", "$muted")]
        matched = [call for call in self._past if call.answer == "yes"]
        seen = (
            f"{len(matched)} of the {len(self._past)} earlier calls of this server" if self._past else "no earlier one"
        )
        first = [
            Content.styled(clean_line(f"  {call.tool} {dumps(call.arguments)[:200]}", 66), "$faint")
            for call in matched[:_FIRST]
        ]
        return [Content.styled(f"It covers this call, and {seen}.", "$muted"), *first]

    def _uncovered(self) -> str:
        return (
            "it would not cover this very call"
            if self._answer == "no"
            else "nobody can tell whether it covers this call"
        )

    def withheld(self, ident: str) -> str:
        if ident != "keep" or self._answer == "yes":
            return ""
        if self._rule is None:
            return self._fault
        return "it is still being compared with this call" if self._answer is None else self._uncovered()

    # -- where the keys go

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """The keys that work there."""
        self.show_keys(self.KEYS if isinstance(event.widget, Button) else self.FIELD_KEYS)
        self.fit()

    def action_step(self, by: int) -> None:
        """To the next stop: going back, each field, keeping it."""
        if self.form.current is not None:
            if not self.form.go(by):
                self._leave(by)
        elif self.query_one("#keep").has_focus:
            self.form.end() if by < 0 else self.set_focus(self.query_one("#refuse"))
        elif by > 0:
            self.form.begin()
        else:
            self.set_focus(self.query_one("#keep"))

    def on_form_ended(self, event: Form.Ended) -> None:
        """After the last field comes keeping it."""
        event.stop()
        self._leave(event.by)

    def _leave(self, by: int) -> None:
        self.set_focus(self.query_one("#keep" if by > 0 else "#refuse"))

    def action_refuse(self) -> None:
        """Back to the question; from a field, to the buttons first."""
        if self.form.current is not None:
            self.query_one("#refuse").focus()
        else:
            self.dismiss(None)

    def action_keep(self) -> None:
        """The rule, from now on."""
        rule = self._rule
        if rule is not None:
            rule = replace(rule, expires=rule_form.expiry(self._value("until")))
        self.agree("keep", rule)


async def compare(permissions: Permissions, wanted: RuleWanted) -> None:
    """Find out what was asked for and tell it. Raises nothing but cancellation."""
    past = None
    answer = await permissions.covers(wanted.rule, wanted.tool, wanted.arguments)
    with suppress(McpHostError):
        past = await permissions.preview(wanted.rule)
    wanted.compared(answer, past)
