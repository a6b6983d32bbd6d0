"""Dialogs that ask whether to share the user's folders (MCP roots) with servers.

Only the paths of the folders are shared, not their content.
"""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcphost.host.questions.questions import (
    DoNotShare,
    NeverShare,
    RequestingServer,
    RootsVerdict,
    ShareAlways,
    ShareOnce,
    SharePerServer,
    ShareRoots,
    ShareSession,
)
from mcphost.host.server_requests.root_folders import uri_path
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.dialogs.dialog import Dialog
from mcphost.tui.screen_text import account_title, clean_line
from mcphost.tui.widgets.key_values import KeyValueList

_MAX_PATH = 4_096
_MAX_PINNED_ROWS, _PINNED_CELLS = 8, 70
_CHOICE_LABELS = {
    "deny": (N_("don't share"), "$error"), "never": (N_("never"), "$error"), "once": (N_("once"), "$success"),
    "session": (N_("this session"), "$success"), "always": (N_("always"), "$success"),
}  # fmt: skip


def render_folders(details: ShareRoots) -> list[Content | Widget]:
    """Return the folders, where each was configured, their warnings, and an explanation of what sharing them means."""
    pairs: list[tuple[str, str]] = []
    styles: dict[int, tuple[str, str]] = {}
    for at, root in enumerate(details.roots):
        pairs.append((f"{at + 1}", clean_line(uri_path(root.uri), _MAX_PATH)))
        listed = (details.origins, details.warnings)
        origin, warning = (translate_sentence("".join(texts[at : at + 1])) for texts in listed)
        name = _('shared as "{name}"').format(name=clean_line(root.name, 60)) if root.name else ""
        for words, style in ((" · ".join(filter(None, (name, origin))), "$muted"), (warning, "$warning")):
            if words:
                styles[len(pairs)] = (style, style)
                pairs.append(("", clean_line(words, _MAX_PATH)))
    out: list[Content | Widget] = [KeyValueList(pairs, styles=styles)]
    if any(details.warnings):
        out.append(Content.styled(_("\nMany servers treat shared folders as the folders they may access."), "$warning"))
    if details.gone:
        lost = "\n".join(clean_line(path, _MAX_PATH) for path in details.gone)
        out.append(Content.assemble((_("\nNot shared because they cannot be read:\n"), "$warning"), (lost, "$muted")))
    they, them = (_("They get"), _("them")) if details.askers else (_("It gets"), _("it"))
    out.append(
        Content.styled(
            _(
                "\n{they} these paths, not the files. This does not confine {them}: what a server may read "
                'depends on how it was started. "Always" and "never" apply to a server and these folders until '
                "its start configuration changes or you revoke the answer (/grants)."
            ).format(they=they, them=them),
            "$faint",
        )
    )
    return out


class ShareRootsDialog(Dialog[RootsVerdict]):
    """Dialog that asks whether a server may receive the paths of the user's folders."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Don't share")),
        ("once", N_("Once")),
        ("session", N_("This session")),
        ("always", N_("Always")),
        ("never", N_("Never")),
    )
    APPROVING: ClassVar[frozenset[str]] = frozenset({"once", "session", "always"})
    KEYS: ClassVar[str] = N_("esc/d don't share · a once · s session · A always · n never")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "refuse", show=False),
        Binding("a", "once", show=False),
        Binding("s", "session", show=False),
        Binding("A", "always", show=False),
        Binding("n", "never", show=False),
    ]

    def __init__(self, question: ShareRoots) -> None:
        super().__init__(question)
        self.details = question

    def headline(self) -> str:
        """Return the title, which names the server."""
        return _("Share your folder paths with {server}?").format(server=self.details.server)

    def preview(self) -> str:
        """Return the folder paths for the card shown while the dialog is minimized."""
        return " · ".join(uri_path(root.uri) for root in self.details.roots)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the folders with their warnings, and what sharing them means."""
        return render_folders(self.details)

    def action_refuse(self) -> None:
        """Share no folder paths with the server."""
        self.dismiss(DoNotShare())

    def action_once(self) -> None:
        """Share the folder paths once."""
        self.approve("once", ShareOnce())

    def action_session(self) -> None:
        """Share the folder paths for this session."""
        self.approve("session", ShareSession())

    def action_always(self) -> None:
        """Share these folder paths with the server now and in the future."""
        self.approve("always", ShareAlways())

    def action_never(self) -> None:
        """Refuse to share these folder paths with the server, now and in the future."""
        self.dismiss(NeverShare())


class SharePerServerDialog(Dialog[RootsVerdict]):
    """Dialog in which the user chooses which of several servers may receive the folder paths."""

    BUTTONS: ClassVar[tuple[tuple[str, str], ...]] = (
        ("refuse", N_("Share with none")),
        ("done", N_("Apply")),
        ("all_once", N_("1 All once")),
        ("all_session", N_("2 All this session")),
        ("all_always", N_("3 All always")),
    )
    KEYS: ClassVar[str] = N_(
        "↑↓ server · d don't share · a once · s session · A always · n never · f apply · 1 2 3 all servers · "
        "esc share with none"
    )
    SHOW_ACCOUNT: ClassVar[bool] = False
    DEFAULT_CSS = """
    SharePerServerDialog #pinned { height: auto; }
    SharePerServerDialog #servers { height: auto; }
    """
    # "done" approves only if the user has chosen to share with at least one server.
    APPROVING: ClassVar[frozenset[str]] = frozenset({"done", "all_once", "all_session", "all_always"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "choose('deny')", show=False),
        Binding("n", "choose('never')", show=False),
        Binding("a", "choose('once')", show=False),
        Binding("s", "choose('session')", show=False),
        Binding("A", "choose('always')", show=False),
        Binding("f", "done", show=False),
        Binding("1", "all_once", show=False),
        Binding("2", "all_session", show=False),
        Binding("3", "all_always", show=False),
    ]

    def __init__(self, question: ShareRoots) -> None:
        super().__init__(question)
        self.details = question
        self.cursor_row = 0
        self.choices = {one.server: "deny" for one in question.askers}

    def headline(self) -> str:
        """Return the title, which states how many servers have requested the folder paths."""
        return _("Share your folder paths with {servers}?").format(
            servers=translate_count(len(self.details.askers), "server")
        )

    def preview(self) -> str:
        """Return the names of the servers for the card shown while the dialog is minimized."""
        return join_list(one.server for one in self.details.askers)

    def body(self) -> list[Content | Widget]:
        """Return the dialog's body: the folders with their warnings, and what sharing them means.

        The list of servers is shown above the body if it is short, and otherwise at the end of the body.
        """
        return [*render_folders(self.details), *([] if self._is_list_short else self._server_list())]

    def compose_pinned(self) -> ComposeResult:
        """Yield the list of servers if it is short; it then stays in view while the folders are read."""
        with Vertical(id="pinned"):
            yield from self._server_list() if self._is_list_short else ()

    def _server_list(self) -> list[Static]:
        return [Static(self._server_rows(), id="servers", markup=False)]

    @property
    def _is_list_short(self) -> bool:
        """Whether the list of servers needs at most _MAX_PINNED_ROWS rows in a terminal of 80 columns."""
        return sum(-(-Content(row).cell_length // _PINNED_CELLS) for row in self._rows_text()) <= _MAX_PINNED_ROWS

    def _rows_text(self) -> list[str]:
        return self._server_rows().plain.rstrip().split("\n")

    def _requester_text(self) -> str:
        """Return "", because the list of servers already shows the reason for each server's request and the account."""
        return ""

    def _server_rows(self) -> Content:
        """Render two rows for each server: its name with the current choice, and the reason for its request."""
        rows: list[tuple[str, str]] = []
        names = [_server_label(one) for one in self.details.askers]
        widest = max(Content(name).cell_length for name in names)
        for at, (one, name) in enumerate(zip(self.details.askers, names, strict=True)):
            here = at == self.cursor_row
            words, style = _CHOICE_LABELS[self.choices[one.server]]
            rows.append(("▸ " if here else "  ", "$accent"))
            rows.append((name + " " * (widest + 2 - Content(name).cell_length), "bold $text" if here else "$text"))
            rows.append((f"{_(words)}\n", style))
            which = [str(number + 1) for number, root in enumerate(self.details.roots) if root in one.roots]
            only = (
                _("only folder {which}").format(which=join_list(which)) if len(which) < len(self.details.roots) else ""
            )
            why = " · ".join(filter(None, (clean_line(translate_sentence(one.why), 400), only)))
            rows.append((f"    {why}\n", "$muted"))
        return Content.assemble(*rows)

    def _update_rows(self) -> None:
        self.query_one("#servers", Static).update(self._server_rows())
        self._scroll_to_cursor()
        self.update_locked_buttons()

    def disabled_reason(self, button_id: str) -> str:
        """Return a phrase that explains why a button is disabled, or "" if it is enabled.

        Buttons that share folder paths are disabled until the user has scrolled to the end.
        """
        agrees = button_id.startswith("all") or (button_id == "done" and self._has_approval)
        return self.unread_message() if agrees and not self.is_read else ""

    @property
    def _has_approval(self) -> bool:
        return any(choice not in ("deny", "never") for choice in self.choices.values())

    def _scroll_to_cursor(self) -> None:
        if not self._is_list_short:
            top = self.query_one("#servers").virtual_region.y + self.cursor_row * 2
            self.query_one("#body").scroll_to(y=max(0, top - 2), animate=False)

    # -- choosing

    def action_line(self, by: int) -> None:
        """Move the cursor to the next (1) or previous (-1) server; at either end of the list, scroll the body."""
        if 0 <= self.cursor_row + by < len(self.details.askers):
            self.cursor_row += by
            self._update_rows()
        else:
            super().action_line(by)

    def action_choose(self, choice: str) -> None:
        """Set the choice for the server under the cursor, such as "once" or "never", and move to the next server."""
        self.choices[self.details.askers[self.cursor_row].server] = choice
        self.cursor_row = min(self.cursor_row + 1, len(self.details.askers) - 1)
        self._update_rows()

    # -- answers

    def action_refuse(self) -> None:
        """Share the folder paths with none of the servers."""
        self.dismiss(DoNotShare())

    def action_done(self) -> None:
        """Close the dialog with the choice that was made for each server."""
        self.approve("done", SharePerServer(dict(self.choices)))

    def action_all_once(self) -> None:
        """Share the folder paths with all servers once."""
        self._choose_all("once")

    def action_all_session(self) -> None:
        """Share the folder paths with all servers for this session."""
        self._choose_all("session")

    def action_all_always(self) -> None:
        """Share the folder paths with all servers, now and in the future."""
        self._choose_all("always")

    def _choose_all(self, choice: str) -> None:
        self.approve(f"all_{choice}", SharePerServer(dict.fromkeys(self.choices, choice)))


def _server_label(one: RequestingServer) -> str:
    name, account = clean_line(one.server, 40), clean_line(account_title(one.account), 40)
    return _("{name}, account {account}").format(name=name, account=account) if account else name
