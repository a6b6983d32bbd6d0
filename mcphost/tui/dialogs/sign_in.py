"""Sign in to a server: who signs, what it may do then, the whole address, and a box for machines without a browser."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input

from mcphost.host.questions import InBrowser, NoSignIn, PastedRedirect, SignIn, SignInVerdict
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.sanitize import clean, clean_line


class SignInDialog(Dialog[SignInVerdict]):
    """May the browser open this address?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Cancel"),
        ("browser", "Open the browser"),
        ("paste", "Paste an address"),
    )
    KEYS: ClassVar[str] = "esc/d cancel · o open the browser · p paste the address it ended at"
    PASTING_KEYS: ClassVar[str] = "enter takes the address · esc goes back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "browser", show=False),
        Binding("p", "paste", show=False),
    ]
    DEFAULT_CSS = """
    SignInDialog #redirect { border: none; height: 1; background: $surface; padding: 0 1; }
    """

    def __init__(self, question: SignIn) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Sign in to {self.asked.server}?"

    def body(self) -> list[Content]:
        asked = self.asked
        out: list[Content] = []
        if asked.note:
            out.append(Content.styled(clean(asked.note) + "\n", "bold $warning"))
        rights = "\n".join(clean_line(scope, 200) for scope in asked.scopes)
        pairs = [
            ("you sign in at", clean_line(asked.host, 300)),
            ("which signs for", clean(asked.issuer)),
            ("it may then", rights or "do what the server permits every user"),
        ]
        if asked.code:
            pairs.append(("enter this code", clean_line(asked.code, 100)))
        if asked.account:
            pairs.append(("account", clean_line(asked.account, 100)))
        out.append(rows(pairs))
        out.append(Content.assemble(("\nThe whole address, as the browser gets it:\n", "$faint"), clean(asked.url)))
        out.append(
            Content.styled(
                "\nmcphost never sees your password. On a machine without a browser, open the address elsewhere, sign "
                "in, and paste here where it ended, even if that page cannot be shown.",
                "$faint",
            )
        )
        return out

    def extra(self) -> ComposeResult:
        yield Input(placeholder="http://127.0.0.1:…/callback?code=…", id="redirect", compact=True)

    def action_refuse(self) -> None:
        """Do not sign in; from the open box, go back to the buttons first."""
        extra = self.query_one("#extra")
        if not extra.has_class("shown"):
            self.dismiss(NoSignIn())
            return
        extra.remove_class("shown")
        self.query_one("#refuse").focus()
        self.show_keys(self.KEYS)
        self.fit()

    def action_browser(self) -> None:
        """Open the browser."""
        self.dismiss(InBrowser())

    def action_paste(self) -> None:
        """Open the box for the address."""
        self.query_one("#extra").add_class("shown")
        self.query_one("#redirect").focus()
        self.show_keys(self.PASTING_KEYS)
        self.call_after_refresh(self.fit)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The address is there."""
        event.stop()
        if event.value.strip():
            self.dismiss(PastedRedirect(event.value.strip()))
