"""A server sends the user to an address: whole, with the host it leads to; and the call that waits for that."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.host.questions import Cancel, Decline, RetryCall, UrlVerdict, Visited, VisitUrl
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.sanitize import clean, clean_line


class VisitUrlDialog(Dialog[UrlVerdict]):
    """May the browser open this address?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Not now"),
        ("decline", "Decline"),
        ("visit", "Open the browser"),
    )
    KEYS: ClassVar[str] = "esc not now · d decline · o open the browser"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "decline", show=False),
        Binding("o", "visit", show=False),
    ]

    def __init__(self, question: VisitUrl) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Go to an address for {self.asked.server}?"

    def body(self) -> list[Content]:
        asked = self.asked
        out = [rows([("it leads to", clean_line(asked.host, 300))], "bold $text")]
        out += [Content.styled(f"▲ {clean(warning)}", "bold $warning") for warning in asked.warnings]
        out.append(Content.assemble(("\nThe whole address, as the browser gets it:\n", "$faint"), clean(asked.url)))
        out.append(Content.assemble(("\nThe server says:\n", "$faint"), clean(asked.message)))
        out.append(
            Content.styled(
                "\nNothing was fetched from there. mcphost and the model see neither the page nor what you enter.",
                "$faint",
            )
        )
        return out

    def action_refuse(self) -> None:
        """Leave it unanswered."""
        self.dismiss(Cancel())

    def action_decline(self) -> None:
        """Say no."""
        self.dismiss(Decline())

    def action_visit(self) -> None:
        """Open it."""
        self.dismiss(Visited())


class RetryCallDialog(Dialog[bool]):
    """Is the user done there, so that the call can be repeated?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (("refuse", "Give up"), ("again", "Repeat the call"))
    KEYS: ClassVar[str] = "esc/d give up · r repeat the call"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("d", "refuse", show=False), Binding("r", "again", show=False)]

    def __init__(self, question: RetryCall) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Repeat the call of {self.asked.server}?"

    def body(self) -> list[Content]:
        urls = "\n".join(clean(url) for url in self.asked.urls)
        return [
            Content("The call waits until you are done in the browser at:"),
            Content.styled(urls, "$muted"),
            Content.styled("\nThis goes away by itself when the server says that you are.", "$faint"),
        ]

    def action_again(self) -> None:
        """Repeat it."""
        self.dismiss(True)
