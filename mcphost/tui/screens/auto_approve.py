"""Let tools run unasked: pick which of those that claim to be read-only, and how much they may use."""

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.errors import UsageError
from mcphost.host.consent.auto_approve import Budget, Running
from mcphost.host.questions.form_fields import Field, Option
from mcphost.tui.screens.form_screen import Panel
from mcphost.tui.widgets.field_widgets import Choose, Past
from mcphost.tui.widgets.ordered_input import TextLine

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import Autonomy

_ABOUT = (
    "In this conversation the tools you pick run without asking, until one of the limits is reached or you press F9. "
    "Each claims that it only reads; nobody checked that. Everything else asks as usual."
)
_NONE = "No tool of a ready server claims that it only reads, so there is nothing to pick."
_SHOWN = 500


class StartAutonomy(Panel[Running]):
    """Ends with what was started, or None. Nothing is picked to begin with."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "start", show=False)]
    DEFAULT_CSS = """
    StartAutonomy { background: $background 45%; }
    StartAutonomy #box { width: 95%; max-width: 96; max-height: 100%; border: round $warning;
                         border-title-color: $warning; }
    StartAutonomy Choose { height: auto; margin: 1 0 0 0; background: $surface; padding: 0 1; }
    StartAutonomy #limits { height: 1; margin: 1 0 0 0; }
    StartAutonomy #limits Static { width: auto; margin: 0 1 0 0; }
    StartAutonomy #limits Input { width: 12; border: none; height: 1; background: $surface; padding: 0 1;
                                  margin: 0 2 0 0; }
    StartAutonomy #keys { margin-top: 1; }
    """

    def __init__(self, autonomy: "Autonomy") -> None:
        super().__init__()
        self.autonomy = autonomy
        self.tools: dict[str, tuple[str, str]] = {}
        for one in autonomy.candidates()[:_SHOWN]:
            server, tool = one.connection.config.name, one.listed.name
            title = f"{server}  {tool}"
            # Names may hold blanks: no two tools are picked by one line.
            self.tools[title if title not in self.tools else f"{title}  ({len(self.tools)})"] = server, tool

    def headline(self) -> str:
        return "Let tools run unasked"

    def body(self) -> ComposeResult:
        default = Budget()
        yield Static(Content.styled(_ABOUT if self.tools else _NONE, "$text"), markup=False)
        if self.tools:
            names = tuple(Option(value=title, title=title) for title in self.tools)
            self.picked = Choose(Field(name="tools", kind="choices", options=names), None)
            yield self.picked
            with Horizontal(id="limits"):
                for label, ident, value in (
                    ("calls", "calls", f"{default.calls}"),
                    ("minutes", "minutes", f"{default.seconds / 60:g}"),
                    ("tokens", "tokens", f"{default.tokens}"),
                ):
                    yield Static(Content.styled(label, "$muted"), markup=False)
                    yield TextLine(value, id=ident, compact=True, type="number")

    def buttons(self) -> tuple[tuple[str, str], ...]:
        return (("leave", "Back"), ("start", "Start"))[: 2 if self.tools else 1]

    def keys(self) -> str:
        return "↑ ↓ · space picks · tab next · ctrl+s start · esc back" if self.tools else "esc back"

    def on_mount(self) -> None:
        """To the tools."""
        (self.picked if self.tools else self.query_one("#leave")).focus()

    def on_past(self, message: Past) -> None:
        """On to the next input, or back."""
        message.stop()
        self.focus_next() if message.by > 0 else self.focus_previous()

    def action_start(self) -> None:
        """With what is picked; what is wrong is said, and nothing is lost."""
        if not self.tools:
            return
        try:
            budget = Budget(
                calls=int(self._number("calls")),
                seconds=self._number("minutes") * 60,
                tokens=int(self._number("tokens")),
            )
            picked: list[str] = self.picked.value or []
            running = self.autonomy.start([self.tools[title] for title in picked], budget)
        except UsageError as error:
            self.say_fault(f"{error.message} {error.hint}".strip())
            return
        self.dismiss(running)

    def _number(self, ident: str) -> float:
        try:
            return float(self.query_one(f"#{ident}", Input).value)
        except ValueError:
            raise UsageError(f"The number of {ident} is missing.") from None
