"""Dialog to share the roots with a server: their paths, not their content."""

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
from mcphost.tui.widgets.key_values import KeyValueList

_MAX_PATH = 4_096


def render_folders(details: ShareRoots) -> list[Content | Widget]:
    """Return the folders with their origins and warnings, and what sharing them means."""
    pairs: list[tuple[str, str]] = []
    styles: dict[int, tuple[str, str]] = {}
    for at, root in enumerate(details.roots):
        pairs.append((f"{at + 1}", clean_line(uri_path(root.uri), _MAX_PATH)))
        origin, warning = ("".join(texts[at : at + 1]) for texts in (details.origins, details.warnings))
        name = f'shared as "{clean_line(root.name, 60)}"' if root.name else ""
        for words, style in ((" · ".join(filter(None, (name, origin))), "$muted"), (warning, "$warning")):
            if words:
                styles[len(pairs)] = (style, style)
                pairs.append(("", clean_line(words, _MAX_PATH)))
    out: list[Content | Widget] = [KeyValueList(pairs, styles=styles)]
    if any(details.warnings):
        out.append(Content.styled("\nMany servers treat shared folders as the folders they may access.", "$warning"))
    if details.gone:
        lost = "\n".join(clean_line(path, _MAX_PATH) for path in details.gone)
        out.append(Content.assemble(("\nNot shared because they cannot be read:\n", "$warning"), (lost, "$muted")))
    they, them = ("They get", "them") if details.askers else ("It gets", "it")
    out.append(
        Content.styled(
            f"\n{they} these paths, not the files. This does not confine {them}: what a server may read depends on how "
            "it was started. Always and never apply to a server and these folders, until its start configuration "
            "changes or you revoke that (F7).",
            "$faint",
        )
    )
    return out


class ShareRootsDialog(Dialog[RootsVerdict]):
    """Ask whether a server may get the paths of the user's folders."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", "Don't share"),
        ("once", "Once"),
        ("session", "This session"),
        ("always", "Always"),
        ("never", "Never"),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "session", "always"})
    KEYS: ClassVar[str] = "esc/d don't share · o once · s this session · a always · n never"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("o", "once", show=False),
        Binding("s", "session", show=False),
        Binding("a", "always", show=False),
        Binding("n", "never", show=False),
    ]

    def __init__(self, question: ShareRoots) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title."""
        return f"Share your folder paths with {self.details.server}?"

    def preview(self) -> str:
        """Return the subject for the card."""
        return " · ".join(uri_path(root.uri) for root in self.details.roots)

    def body(self) -> list[Content | Widget]:
        """Return the content of the dialog."""
        return render_folders(self.details)

    def action_refuse(self) -> None:
        """Share nothing."""
        self.dismiss(DoNotShare())

    def action_once(self) -> None:
        """Share once."""
        self.approve("once", ShareOnce())

    def action_session(self) -> None:
        """Share for this session."""
        self.approve("session", ShareSession())

    def action_always(self) -> None:
        """Share always."""
        self.approve("always", ShareAlways())

    def action_never(self) -> None:
        """Never share these folders."""
        self.dismiss(NeverShare())
