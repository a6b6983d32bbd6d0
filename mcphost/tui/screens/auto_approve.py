"""Form (F9) that starts auto-approve for selected read-only tools, and sets its limits.

During auto-approve, the selected tools run without the user's approval.
"""

from itertools import islice
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import UsageError
from mcphost.host.consent.auto_approve import AutoApprovalBudget, AutoApprovalStatus
from mcphost.host.questions.form_fields import Field, Option
from mcphost.translation import N_, _
from mcphost.tui.forms.choice_list import ChoiceList
from mcphost.tui.forms.field_widgets import FocusMoveRequested
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import AutoApproval

_ABOUT = N_(
    "In this conversation the selected tools run without asking, until a limit is "
    "reached. {auto_approval} turns it off and stops running tools. Each claims to be "
    "read-only, which is not verified. Everything else asks as usual."
)
_NO_TOOLS = N_("No tool of a ready server claims to be read-only, so there is nothing to select.")
_STARTING = N_("The servers are still starting. Their read-only tools appear here as soon as they are ready.")
_MAX_TOOLS = 500


class AutoApprovalForm(FormScreen[AutoApprovalStatus]):
    """Form that starts auto-approve: the selected read-only tools then run without approval.

    Its result is an AutoApprovalStatus, or None if the user cancels. Initially, no tool is selected.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "start", show=False)]
    DEFAULT_CSS = """
    AutoApprovalForm { background: $background 45%; }
    AutoApprovalForm #box { width: 95%; max-width: 96; max-height: 100%; border: round $warning;
                         border-title-color: $warning; }
    AutoApprovalForm ChoiceList { height: auto; margin: 1 0 0 0; background: $surface; padding: 0 1; }
    AutoApprovalForm #limits { height: 1; margin: 1 0 0 0; }
    AutoApprovalForm #limits Static { width: auto; margin: 0 1 0 0; }
    AutoApprovalForm #limits Input { width: 12; border: none; height: 1; background: $surface; padding: 0 1;
                                  margin: 0 2 0 0; }
    AutoApprovalForm #keys { margin-top: 1; }
    """

    def __init__(self, auto_approval: "AutoApproval") -> None:
        super().__init__()
        self.auto_approval = auto_approval
        self.tools: dict[str, tuple[str, str]] = {}
        names = self._add_tools()
        field = Field(name="tools", kind="choices", options=names)
        self.tool_choice = ChoiceList(field, None, missing=_("no tool selected"))

    def _add_tools(self) -> tuple[Option, ...]:
        """Add the tools that can be selected and are not listed yet, and return a list option for each of them."""
        known = set(self.tools.values())
        candidates = ((one.connection.config.name, one.definition.name) for one in self.auto_approval.candidates())
        added: list[str] = []
        for server, tool in islice((one for one in candidates if one not in known), _MAX_TOOLS - len(self.tools)):
            title = f"{server}  {tool}"
            # Tool names may contain spaces, and two servers may have the same titles; each line selects one tool.
            added.append(title if title not in self.tools else f"{title}  ({len(self.tools)})")
            self.tools[added[-1]] = server, tool
        return tuple(Option(value=title, title=title) for title in added)

    def _explain_no_tools(self) -> str:
        return _(_STARTING) if self.auto_approval.is_waiting_for_servers else _(_NO_TOOLS)

    def notice_server_change(self) -> None:
        """Append the tools of servers that have become ready; the tools already listed do not move.

        A tool that is no longer available stays in the list. If the user has selected it, `action_start` shows an
        error.
        """
        had_tools, added = bool(self.tools), self._add_tools()
        if added:
            self.tool_choice.append_options(added)
        if not had_tools:
            self._show_tools()
            if added:
                self.tool_choice.focus()

    def _show_tools(self) -> None:
        """Show the list and the limits if there is a tool to select; otherwise, explain why there is none."""
        text = keys_in_use(self).fill(_(_ABOUT)) if self.tools else self._explain_no_tools()
        self.query_one("#about", Static).update(Content.styled(text, "$text"))
        for widget in self.query("ChoiceList, #limits, #start"):
            widget.display = bool(self.tools)
        self.query_one("#keys", Static).update(self.key_hints())

    def notice_resource_change(self, server: str, uri: str) -> None:
        """Do nothing, because the form shows no resources."""

    def headline(self) -> str:
        """Return the title."""
        return _("Auto-approve")

    def body(self) -> ComposeResult:
        """Yield the list of tools, and inputs for the limits on tool calls, minutes and tokens."""
        default = AutoApprovalBudget()
        yield Static("", id="about", markup=False)
        yield self.tool_choice
        with Horizontal(id="limits"):
            for label, input_id, value in (
                (_("calls"), "calls", f"{default.calls}"),
                (_("minutes"), "minutes", f"{default.seconds / 60:g}"),
                (_("tokens"), "tokens", f"{default.tokens}"),
            ):
                yield Static(Content.styled(label, "$muted"), markup=False)
                yield OrderedInput(value, id=input_id, compact=True, type="number")

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button; the Start button is hidden while there are no tools."""
        return (("leave", _("Back")), ("start", _("Start")))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("↑↓ move · space select · tab next · ctrl+s start · esc back") if self.tools else _("esc back")

    def on_mount(self) -> None:
        """Focus the list of tools, or the Back button if there is no tool."""
        self._show_tools()
        (self.tool_choice if self.tools else self.query_one("#leave")).focus()

    def on_focus_move_requested(self, message: FocusMoveRequested) -> None:
        """Focus the next widget, or the previous one if the requested direction is negative."""
        message.stop()
        self.focus_next() if message.direction > 0 else self.focus_previous()

    def action_start(self) -> None:
        """Start auto-approve for the selected tools and close the form.

        If the input is invalid, show the reason instead.
        """
        if not self.tools:
            return
        try:
            budget = AutoApprovalBudget(
                calls=int(self._read_number("calls")),
                seconds=self._read_number("minutes") * 60,
                tokens=int(self._read_number("tokens")),
            )
            picked: list[str] = self.tool_choice.field_value or []
            running = self.auto_approval.start([self.tools[title] for title in picked], budget)
        except UsageError as error:
            self.show_fault(str(error))
            return
        self.dismiss(running)

    def _read_number(self, input_id: str) -> float:
        try:
            return float(self.query_one(f"#{input_id}", Input).value)
        except ValueError:
            raise UsageError(_("Enter a number for {input_id}.").format(input_id=input_id)) from None
