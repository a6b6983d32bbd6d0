"""May this server know the user's folders? Says which, and that it is told where they are and no more."""

from typing import ClassVar
from urllib.parse import unquote, urlsplit

from textual.binding import Binding, BindingType
from textual.content import Content

from mcphost.host.questions import DoNotShare, RootsVerdict, ShareOnce, ShareRoots, ShareSession
from mcphost.tui.dialogs.dialog import Dialog, rows
from mcphost.tui.sanitize import clean_line

_LONGEST = 4_096


class ShareRootsDialog(Dialog[RootsVerdict]):
    """May this server be told where the user works?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Do not tell"),
        ("once", "Once"),
        ("session", "This run"),
    )
    KEYS: ClassVar[str] = "esc/d do not tell · o once · s this run"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "once", show=False),
        Binding("s", "session", show=False),
    ]

    def __init__(self, question: ShareRoots) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Tell {self.asked.server} where your folders are?"

    def body(self) -> list[Content]:
        pairs = [
            (clean_line(root.name or "", 60), clean_line(unquote(urlsplit(root.uri).path), _LONGEST))
            for root in self.asked.roots
        ]
        out = [rows(pairs)]
        if self.asked.gone:
            lost = "\n".join(clean_line(path, _LONGEST) for path in self.asked.gone)
            out.append(
                Content.assemble(("\nNot told, because they cannot be read now:\n", "$warning"), (lost, "$muted"))
            )
        out.append(
            Content.styled(
                "\nThe server learns these paths, nothing that is in them. It is not kept inside them by this: "
                "what a server may read is decided by how it was started.",
                "$faint",
            )
        )
        return out

    def action_refuse(self) -> None:
        """Tell it nothing."""
        self.dismiss(DoNotShare())

    def action_once(self) -> None:
        """Tell it now."""
        self.dismiss(ShareOnce())

    def action_session(self) -> None:
        """Tell it whenever it asks in this run."""
        self.dismiss(ShareSession())
