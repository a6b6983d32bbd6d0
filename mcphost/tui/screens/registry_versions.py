"""Page with the versions of a server in the registry, from which the user can choose one to install."""

from collections.abc import Sequence
from typing import ClassVar

from mcphost.registry.entries import RegistryEntry
from mcphost.translation import N_, _, join_list
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText


class VersionsScreen(ListScreen):
    """List of a server's versions; its result is the version to install, or None if the user cancels."""

    TITLE_TEXT: ClassVar[str] = N_("Versions")
    EMPTY_TEXT: ClassVar[str] = N_("The registry lists no version of this server.")
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (("enter", N_("install"), "screen.choose"),)

    def __init__(self, server: str, entries: Sequence[RegistryEntry], installed: str = "") -> None:
        """Create the screen; *installed* is the installed version, or "" if the server is not installed."""
        super().__init__()
        self._server = server
        self._entries = tuple(entries)
        self._installed = installed

    def load(self) -> Sequence[ListRow]:
        """Return a row for each version, in the order of the registry."""
        return [self._make_row(entry) for entry in self._entries]

    def _make_row(self, entry: RegistryEntry) -> ListRow:
        is_installed = entry.version == self._installed
        notes = [
            _("installed") if is_installed else "",
            "" if entry.status == "active" else _(entry.status),
            entry.published_at[:10],
        ]
        text = " · ".join(filter(None, notes))
        return ListRow(entry, entry.version, text, "●" if is_installed else "", "$success")

    def show_details(self, row: ListRow) -> None:
        """Show the status of a version, how it can be installed, and its description."""
        entry: RegistryEntry = row.value
        status = "" if entry.status == "active" else " · ".join(filter(None, (_(entry.status), entry.status_message)))
        self.show_about(
            clean_pairs(
                [
                    (_("server"), self._server),
                    (_("version"), entry.version),
                    (_("status"), status),
                    (_("offered as"), join_list(entry.kinds) or _("nothing to install")),
                ]
            )
        )
        self.query_one(LongText).show(entry.description)

    def open_row(self, row: ListRow) -> None:
        """Choose this version."""
        self.dismiss(row.value.version)
