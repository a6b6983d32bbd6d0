"""Where a sign-in is kept when no keyring can keep it, and the pass phrase of the file it is kept in."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from mcphost.host.questions.secret_storage_questions import (
    KeepForRun,
    KeepInFile,
    KeepSealed,
    KeepSecrets,
    KeepVerdict,
    LeaveLocked,
    PassPhrase,
    UnlockSecrets,
    UnlockVerdict,
)
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean, clean_line
from mcphost.tui.widgets.key_values import Pairs
from mcphost.tui.widgets.prompt_line import Line, Lines

_LONGEST = 4_096


class KeepSecretsDialog(Dialog[KeepVerdict]):
    """Nowhere, in an encrypted file, or in a plain one?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "This run only"),
        ("seal", "Encrypted file"),
        ("plain", "Plain file"),
    )
    KEYS: ClassVar[str] = "esc/d this run only · e encrypted file · f plain file"
    TYPING_KEYS: ClassVar[str] = "enter goes on · esc goes back"
    OPENING: ClassVar[frozenset[str]] = frozenset({"seal"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("e", "seal", show=False, priority=True),
        Binding("f", "plain", show=False),
    ]

    def __init__(self, question: KeepSecrets) -> None:
        super().__init__(question)
        self.asked = question
        self._judged: tuple[str, ...] = ()

    def headline(self) -> str:
        return f"Keep your sign-in to {', '.join(self.asked.servers)}?"

    def preview(self) -> str:
        return self.asked.reason or "There is no usable keyring."

    def body(self) -> list[Content | Widget]:
        asked = self.asked
        out: list[Content | Widget] = []
        if asked.note:
            out.append(Content.styled(clean(asked.note) + "\n", "bold $warning"))
        out.append(Content(clean(asked.reason or "There is no usable keyring.") + "\n"))
        pairs = [
            ("this run only", "you sign in again next time; nothing is written"),
            ("encrypted file", clean_line(asked.sealed_file, _LONGEST) + "\nyou type its pass phrase once a run"),
            ("plain file", clean_line(asked.plain_file, _LONGEST) + "\nmode 0600: every program of yours can read it"),
        ]
        out.append(Pairs(pairs))
        out.append(
            Content.styled(
                "\nYou are signed in and can go on meanwhile. A file is used from now on, and config.toml will say so: "
                '[secrets] store = "…". With "session" there you are never asked again.',
                "$faint",
            )
        )
        return out

    def extra(self) -> ComposeResult:
        if self.asked.is_new:
            yield Lines(Line("new pass phrase", "phrase", hidden=True), Line("the same again", "again", hidden=True))
        else:
            yield Lines(Line("pass phrase", "phrase", hidden=True))

    def action_refuse(self) -> None:
        """Keep it for this run; from the open boxes, go back to the buttons first."""
        if not self.close_extra():
            self.dismiss(KeepForRun())

    def action_plain(self) -> None:
        """A file as it is; while the boxes are open the key is a letter that came too early for them."""
        if not self.query("#extra.shown"):
            self.dismiss(KeepInFile())

    def action_seal(self) -> None:
        """Ask for the pass phrase."""
        self.open_extra("phrase", self.TYPING_KEYS)

    def on_input_changed(self, event: Input.Changed) -> None:
        """What was said against it does not hold any more, unless this is about what was said so of."""
        event.stop()
        if tuple(box.value for box in self.query(Input)) != self._judged:
            self._show_rest()

    def on_lines_filled(self, event: Lines.Filled) -> None:
        """The pass phrase, or it once more, is there."""
        event.stop()
        self._judged = event.values
        phrase, *again = event.values
        if not phrase:
            self.query_one(Lines).enter()
            self.insist("a pass phrase is needed")
        elif event.at < len(again):
            return
        elif again and again != [phrase]:
            self.insist("the two are not the same")
        else:
            self.dismiss(KeepSealed(phrase))


class UnlockSecretsDialog(Dialog[UnlockVerdict]):
    """The pass phrase, once a run."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Leave it locked"), ("unlock", "Type the pass phrase"))
    KEYS: ClassVar[str] = "esc/d leave it locked · p type the pass phrase"
    TYPING_KEYS: ClassVar[str] = "enter opens the file · esc goes back"
    OPENING: ClassVar[frozenset[str]] = frozenset({"unlock"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("p", "unlock", show=False, priority=True),
    ]

    def __init__(self, question: UnlockSecrets) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return "Open the file with your sign-ins?"

    def preview(self) -> str:
        return self.asked.file

    def body(self) -> list[Content | Widget]:
        out: list[Content | Widget] = []
        if self.asked.note:
            out.append(Content.styled(clean(self.asked.note) + "\n", "bold $warning"))
        out.append(Pairs([("file", clean_line(self.asked.file, _LONGEST))]))
        out.append(
            Content.styled(
                "\nWithout it you are asked to sign in again. What opens the file stays in memory until mcphost ends.",
                "$faint",
            )
        )
        return out

    def extra(self) -> ComposeResult:
        yield Lines(Line("pass phrase", "phrase", hidden=True))

    def action_refuse(self) -> None:
        """Leave it locked; from the open box, go back to the buttons first."""
        if not self.close_extra():
            self.dismiss(LeaveLocked())

    def action_unlock(self) -> None:
        """Open the box for it."""
        self.open_extra("phrase", self.TYPING_KEYS)

    def on_lines_filled(self, event: Lines.Filled) -> None:
        """It is there."""
        event.stop()
        if event.values[0]:
            self.dismiss(PassPhrase(event.values[0]))
