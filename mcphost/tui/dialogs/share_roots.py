"""May this server know the user's folders? Says which, and that it is told where they are and no more."""

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget

from mcphost.host.questions.questions import (
    DoNotShare,
    NeverShare,
    RootsVerdict,
    ShareAlways,
    ShareOnce,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.root_list import uri_path
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widgets.key_values import Pairs

_LONGEST = 4_096


def folders_shown(asked: ShareRoots) -> list[Content | Widget]:
    """The folders, with what is to be known of each, and what telling of them means."""
    pairs: list[tuple[str, str]] = []
    styles: dict[int, tuple[str, str]] = {}
    for at, root in enumerate(asked.roots):
        pairs.append((f"{at + 1}", clean_line(uri_path(root.uri), _LONGEST)))
        origin, warning = ("".join(given[at : at + 1]) for given in (asked.origins, asked.warnings))
        name = f'told as "{clean_line(root.name, 60)}"' if root.name else ""
        for words, style in ((" · ".join(filter(None, (name, origin))), "$muted"), (warning, "$warning")):
            if words:
                styles[len(pairs)] = (style, style)
                pairs.append(("", clean_line(words, _LONGEST)))
    out: list[Content | Widget] = [Pairs(pairs, styles=styles)]
    if any(asked.warnings):
        out.append(Content.styled("\nMany servers take what they are told for what they may touch.", "$warning"))
    if asked.gone:
        lost = "\n".join(clean_line(path, _LONGEST) for path in asked.gone)
        out.append(Content.assemble(("\nNot told, because they cannot be read now:\n", "$warning"), (lost, "$muted")))
    they = (
        "They learn these paths, not what is in them, and are"
        if asked.askers
        else ("It learns these paths, not what is in them, and is")
    )
    out.append(
        Content.styled(
            f"\n{they} not kept inside them: what a server may read is decided by how "
            "it was started. Always and never hold for a server and these folders, until it is started in another way "
            "or you revoke that (F7).",
            "$faint",
        )
    )
    return out


class ShareRootsDialog(Dialog[RootsVerdict]):
    """May this server be told where the user works?"""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Do not tell"),
        ("once", "Once"),
        ("session", "This run"),
        ("always", "Always"),
        ("never", "Never"),
    )
    AGREEING: ClassVar[frozenset[str]] = frozenset({"once", "session", "always"})
    KEYS: ClassVar[str] = "esc/d do not tell · o once · s this run · a always · n never"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "once", show=False),
        Binding("s", "session", show=False),
        Binding("a", "always", show=False),
        Binding("n", "never", show=False),
    ]

    def __init__(self, question: ShareRoots) -> None:
        super().__init__(question)
        self.asked = question

    def headline(self) -> str:
        return f"Tell {self.asked.server} where your folders are?"

    def preview(self) -> str:
        return " · ".join(uri_path(root.uri) for root in self.asked.roots)

    def body(self) -> list[Content | Widget]:
        return folders_shown(self.asked)

    def action_refuse(self) -> None:
        """Tell it nothing."""
        self.dismiss(DoNotShare())

    def action_once(self) -> None:
        """Tell it now."""
        self.agree("once", ShareOnce())

    def action_session(self) -> None:
        """Tell it whenever it asks in this run."""
        self.agree("session", ShareSession())

    def action_always(self) -> None:
        """Tell it whenever it asks, also in later runs."""
        self.agree("always", ShareAlways())

    def action_never(self) -> None:
        """Tell it nothing of these folders, also in later runs."""
        self.dismiss(NeverShare())
