"""Sign in to a server: who signs, what it may do then, the whole address, and ways for machines without a browser."""

from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Button, Input, Static

from mcphost.host.events import SigningIn
from mcphost.host.questions.scope_descriptions import in_words
from mcphost.host.questions.sign_in_questions import (
    InBrowser,
    NoSignIn,
    OtherWay,
    PastedRedirect,
    SignIn,
    SignInVerdict,
)
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.messages import CopyWanted, QrWanted
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.address import marked
from mcphost.tui.widgets.key_values import Pairs
from mcphost.tui.widgets.ordered_input import TextLine

NOWHERE = "No browser can open on this machine."
ELSEWHERE = (
    "\nmcphost never sees your password. Where no browser can come back here, open the address elsewhere, sign in, and "
    "paste where it ended, even if that page cannot be shown."
)
FEW = 5
"""How many rights are seen at a glance; more are counted, so that a reader knows how many there are to read."""
ANYWHERE = "\nAny browser will do, anywhere. mcphost never sees your password."


def rights(scopes: tuple[str, ...]) -> str:
    """What the scopes permit, in words where their names say it, each with its raw name beside."""
    if not scopes:
        return "do what the server permits every user"
    told = [(in_words(scope), clean(scope).replace("\n", "⏎")) for scope in scopes]
    lines = [f"{words}  ({raw})" if words else raw for words, raw in told]
    return "\n".join([f"{len(lines)} things:", *lines] if len(lines) > FEW else lines)


def clock(seconds: float) -> str:
    """What is left, as minutes and seconds; never less than nothing."""
    left = max(0, round(seconds))
    return f"{left // 60}:{left % 60:02}"


class SignInDialog(Dialog[SignInVerdict]):
    """May the browser open this address?"""

    NAMES_ACCOUNT: ClassVar[bool] = False
    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Cancel"),
        ("browser", "Open the browser"),
        ("paste", "Paste an address"),
        ("other", "Use a code"),
        ("picture", "QR code"),
    )
    OPENING: ClassVar[frozenset[str]] = frozenset({"paste"})
    PASTING_KEYS: ClassVar[str] = "enter takes the address · esc goes back"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "browser", show=False),
        Binding("p", "paste", show=False, priority=True),
        Binding("c", "other", show=False),
        Binding("q", "picture", show=False),
        Binding("y", "copy", show=False),
    ]
    DEFAULT_CSS = """
    SignInDialog #redirect { border: none; height: 1; background: $surface; padding: 0 1; }
    """

    def __init__(self, question: SignIn) -> None:
        super().__init__(question)
        self.asked = question
        self._now: SigningIn | None = None
        self._heard = 0.0
        self._keys = self.keys()

    def keys(self) -> str:
        """The keys that do something here."""
        asked = self.asked
        words = ["esc/d cancel"]
        if asked.browser:
            words.append("o open the browser")
        if not asked.code:
            words.append("p paste")
        if asked.other:
            words.append("c code" if asked.other == "code" else "c without a code")
        return " · ".join((*words, "q QR", "y copy"))

    def headline(self) -> str:
        return f"Sign in to {self.asked.server}?"

    def preview(self) -> str:
        return f"you sign in at {self.asked.host}"

    def body(self) -> list[Content | Widget]:
        asked = self.asked
        out: list[Content | Widget] = []
        if asked.note:
            out.append(Content.styled(clean(asked.note) + "\n", "bold $warning"))
        elif not asked.browser and not asked.code:
            out.append(Content.styled(NOWHERE + "\n", "bold $warning"))
        out += [Content.styled(f"▲ {clean(warning)}\n", "bold $warning") for warning in asked.warnings]
        if asked.code:
            out.append(Content.assemble(("Enter this code at ", "$faint"), marked(asked.url)))
            # Letters apart from each other, so that they are read out and typed right.
            spaced = f"    {' '.join(clean_line(asked.code, 100))}    "
            blank = " " * Content(spaced).cell_length
            out.append(Content.styled(f"{blank}\n{spaced}\n{blank}", "bold $accent on $background"))
        pairs = [
            ("you sign in at", clean_line(asked.host, 300)),
            ("which signs for", clean(asked.issuer)),
            ("it may then", rights(asked.scopes)),
        ]
        if asked.account:
            pairs.append(("account", clean_line(asked.account, 100)))
        if asked.others:
            names = clean_line(", ".join(asked.others), 300)
            pairs.append(("signed in already", f"{names}; to use it instead: esc, then /accounts"))
        out.append(Pairs(pairs))
        if not asked.code:
            told = "\nThe whole address, as the browser gets it:\n"
            out.append(Content.assemble((told, "$faint"), marked(asked.url)))
        out.append(Content.styled(ANYWHERE if asked.code else ELSEWHERE, "$faint"))
        return out

    def extra(self) -> ComposeResult:
        yield TextLine(placeholder="http://127.0.0.1:…/callback?code=…", id="redirect", compact=True)

    def on_mount(self) -> None:
        """Only what can be done here, and how long there is for it."""
        super().on_mount()
        asked = self.asked
        for ident, there in (("browser", asked.browser), ("paste", not asked.code), ("other", bool(asked.other))):
            self.query_one(f"#{ident}").display = there
        if asked.other == "browser":
            self.query_one("#other", Button).label = Content("Without a code")
        self.show_keys(self.keys())
        self._tick()
        self.set_interval(1.0, self._tick)

    def _asker(self) -> str:
        """On whose behalf, what is waited for, and how much longer: by a clock that nobody sets."""
        asked, now = self.asked, self._now
        words = [clean_line(asked.why, 400)]
        if asked.interval:
            polled = ""
            if now is not None and now.polls:
                times = "once" if now.polls == 1 else f"{now.polls} times"
                polled = f"asked {times}, {round(monotonic() - self._heard)} s ago, and "
            every = now.interval if now is not None else asked.interval
            seldom = "only " if now is not None and now.slowed else ""
            words.append(f"mcphost {polled}asks {seldom}every {every:g} s")
        if asked.seconds:
            words.append(f"{clock(asked.asked + asked.seconds - monotonic())} left")
        return " · ".join(words)

    def _tick(self) -> None:
        self.query_one("#why", Static).update(Content(self._asker()))
        self.fit()

    def signing_in(self, event: SigningIn) -> None:
        """The authorization server was asked once more."""
        if event.server == self.asked.server and event.step == "person" and self.asked.code:
            self._now, self._heard = event, monotonic()
            if self.is_mounted:
                self._tick()

    def action_refuse(self) -> None:
        """Do not sign in; from the open box, go back to the buttons first."""
        if not self.close_extra():
            self.dismiss(NoSignIn())

    def action_browser(self) -> None:
        """Open the browser."""
        if self.asked.browser:
            self.dismiss(InBrowser())

    def action_other(self) -> None:
        """A code instead of a browser, or the other way round."""
        if self.asked.other:
            self.dismiss(OtherWay())

    def action_picture(self) -> None:
        """The address as a QR code, with the code in it where there is such an address."""
        self.post_message(QrWanted(f"Sign in at {self.asked.host}", self.asked.whole or self.asked.url))

    def action_copy(self) -> None:
        """To the clipboard, also through SSH where the terminal can."""
        self.post_message(CopyWanted(self.asked.code or self.asked.url))

    def action_paste(self) -> None:
        """Open the box for the address."""
        if self.asked.code:
            return
        self.open_extra("redirect", self.PASTING_KEYS)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The address is there."""
        event.stop()
        if event.value.strip():
            self.dismiss(PastedRedirect(event.value.strip()))
