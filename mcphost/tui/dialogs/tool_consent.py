"""Approve, edit, deny or widen one tool call; everything that will be sent is on it, complete."""

from typing import Any, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from mcphost.data import dumps, loads
from mcphost.errors import MalformedMessage
from mcphost.host.questions import AllowAlways, AllowOnce, AllowSession, ApproveTool, Deny, ToolVerdict
from mcphost.protocol.tools import ToolAnnotations
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.messages import TextWanted
from mcphost.tui.sanitize import clean, clean_line, is_clean
from mcphost.tui.widgets.toolcard import value_text

# A longer value would hold up the screen while it is laid out; `v` shows it whole.
_SHOWN = 20_000


def claims(given: ToolAnnotations) -> str:
    """What the server claims about a tool, in words; empty when it claims nothing."""
    words: list[str] = []
    if given.read_only_hint is not None:
        words.append("only reads" if given.read_only_hint else "writes data")
    if given.destructive_hint is not None:
        words.append("destructive" if given.destructive_hint else "not destructive")
    if given.idempotent_hint:
        words.append("safe to repeat")
    if given.open_world_hint is not None:
        words.append("reaches the outside world" if given.open_world_hint else "stays in its own domain")
    return " · ".join(words)


def argument_rows(arguments: dict[str, Any]) -> list[tuple[str, str]]:
    """Every argument; text as it is with hidden characters marked, everything else as JSON."""
    out: list[tuple[str, str]] = []
    for key, value in arguments.items():
        text = value_text(value)
        shown = clean(text[:_SHOWN]) if text else "(empty text)"
        if len(text) > _SHOWN:
            shown += f"\n… {len(text) - _SHOWN:,} more characters: v shows all of it"
        out.append((clean_line(key, 80), shown))
    return out


class ToolConsent(Dialog[ToolVerdict]):
    """May this tool run with these arguments?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Deny"),
        ("reason", "Deny with reason"),
        ("once", "Allow once"),
        ("session", "Allow this session"),
        ("always", "Always"),
    )
    KEYS: ClassVar[str] = "esc/d deny · r reason · a once · s session · A always · e edit · v all"
    REASON_KEYS: ClassVar[str] = "enter denies with this reason · esc goes back"
    EDITING_KEYS: ClassVar[str] = "ctrl+s takes these arguments over · esc goes back"
    EDITED_KEYS: ClassVar[str] = "esc/d deny · r reason · a once · e edit · v all"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("r", "reason", show=False),
        Binding("a", "once", show=False),
        Binding("s", "session", show=False),
        Binding("A", "always", show=False),
        Binding("e", "edit", show=False),
        Binding("v", "view", show=False),
        Binding("ctrl+s", "accept_edit", show=False),
    ]
    DEFAULT_CSS = """
    ToolConsent #reason-text { border: none; height: 1; background: $surface; padding: 0 1; }
    ToolConsent #arguments-text { height: 10; background: $surface; border: none; }
    ToolConsent #fault { height: auto; color: $error; }
    """

    def __init__(self, question: ApproveTool) -> None:
        super().__init__(question)
        self.asked = question
        self.arguments = question.arguments
        self.edited = False

    def headline(self) -> str:
        return f"{self.asked.server} wants to run {self.asked.tool}"

    def body(self) -> list[Content]:
        question = self.asked
        out: list[Content] = []
        if question.drifted:
            out.append(
                Content.styled(
                    "▲ The server changed this tool since you allowed it. Read it as if it were new.", "bold $warning"
                )
            )
        elif question.first_use:
            out.append(Content.styled("first use of this tool", "$warning"))
        given = argument_rows(self.arguments)
        out.append(rows(given) if given else Content.styled("It takes no arguments.", "$muted"))
        raw = dumps(self.arguments)
        if not is_clean(raw) or "\\u" in raw:
            out.append(Content.styled("▲ Hidden or control characters are shown as marks.", "$warning"))
        told = claims(question.claims)
        said = f"The server claims: {told}" if told else "The server claims nothing about what this tool does"
        out.append(Content.assemble("\n", (said, "$text"), ("   (a claim, not checked)" if told else "", "$faint")))
        if question.description:
            out.append(
                Content.assemble(
                    ("The server describes it as: ", "$faint"), (clean(question.description[:4000]), "$muted")
                )
            )
        if question.claims.title:
            out.append(Content.styled(f'The server titles it "{clean_line(question.claims.title, 120)}"', "$faint"))
        return out

    def extra(self) -> ComposeResult:
        yield Input(
            placeholder="Why not? The model reads this. Enter denies, esc goes back.", id="reason-text", compact=True
        )
        yield TextArea(id="arguments-text", compact=True, show_line_numbers=False)
        yield Static("", id="fault", markup=False)

    def on_mount(self) -> None:
        super().on_mount()
        for ident in ("#reason-text", "#arguments-text", "#fault"):
            self.query_one(ident).display = False

    def action_refuse(self) -> None:
        """Deny; from an open input, go back to the buttons first."""
        extra = self.query_one("#extra")
        if extra.has_class("shown"):
            self._close()
            return
        self.dismiss(Deny())

    def _close(self) -> None:
        self.query_one("#extra").remove_class("shown")
        self.query_one("#refuse").focus()
        self.show_keys(self.EDITED_KEYS if self.edited else self.KEYS)
        self.fit()

    def _open(self, ident: str, keys: str) -> None:
        self.show_keys(keys)
        for other in ("#reason-text", "#arguments-text", "#fault"):
            self.query_one(other).display = other == ident
        self.query_one("#extra").add_class("shown")
        self.query_one(ident).focus()
        self.call_after_refresh(self.fit)

    def action_reason(self) -> None:
        """Ask for a reason that the model reads."""
        self._open("#reason-text", self.REASON_KEYS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The reason is given."""
        event.stop()
        self.dismiss(Deny(reason=event.value.strip()))

    def action_once(self) -> None:
        """Run it this time, with the arguments shown."""
        if self._is_editing():
            return
        self.dismiss(AllowOnce(arguments=self.arguments if self.edited else None))

    def action_session(self) -> None:
        """Run it now and until mcphost ends; only what is shown unchanged can be widened."""
        if self._is_editing():
            return
        self.dismiss(AllowOnce(arguments=self.arguments) if self.edited else AllowSession())

    def action_always(self) -> None:
        """Run it now and always, while server and tool stay what they are."""
        if self._is_editing():
            return
        self.dismiss(AllowOnce(arguments=self.arguments) if self.edited else AllowAlways())

    def _is_editing(self) -> bool:
        """Whether a button was pressed beside the open editor: what is in it is taken over and shown, not yet sent."""
        editing = self.query_one("#extra").has_class("shown") and self.query_one("#arguments-text").display
        if editing:
            self.action_accept_edit()
        return editing

    def action_view(self) -> None:
        """Every argument, whole, on a page of its own; the question waits under it."""
        text = "\n\n".join(f"── {key}\n{value_text(value)}" for key, value in self.arguments.items())
        self.post_message(TextWanted(f"{self.asked.server} · {self.asked.tool}", text))

    def action_edit(self) -> None:
        """Edit the arguments as JSON."""
        area = self.query_one("#arguments-text", TextArea)
        area.text = dumps(self.arguments, indent=2)
        # Low enough that the keys stay in view, and some rows of the question.
        area.styles.height = max(3, min(10, area.document.line_count + 1, self.size.height - 18))
        self._open("#arguments-text", self.EDITING_KEYS)

    def _tell(self, text: str) -> None:
        fault = self.query_one("#fault", Static)
        fault.display = True
        fault.update(Content(text))
        self.call_after_refresh(self.fit)

    def action_accept_edit(self) -> None:
        """Take the edited arguments over, and show them as they will be sent."""
        area = self.query_one("#arguments-text", TextArea)
        if not (area.display and self.query_one("#extra").has_class("shown")):
            return
        try:
            value = loads(area.text, "JSON")
        except MalformedMessage as error:
            self._tell(error.message)
            return
        if not isinstance(value, dict):
            self._tell('The arguments are one JSON object: {"name": value, …}.')
            return
        self.arguments = cast("dict[str, Any]", value)
        self.edited = True
        body = self.query_one("#body")
        body.remove_children()
        body.mount(
            Static(
                Content.styled("edited by you; session and always are off for edited calls", "$accent"), markup=False
            )
        )
        for content in self.body():
            body.mount(Static(content, markup=False))
        for ident in ("#session", "#always"):
            self.query_one(ident).display = False
        self._close()
