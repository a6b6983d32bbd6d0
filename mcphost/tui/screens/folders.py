"""The folders that servers may be told of: where each comes from, who was told; add one, name it, take it out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from mcphost.errors import McpHostError
from mcphost.host.server_requests.root_list import KnownRoots, RootFolder, RootFolders
from mcphost.host.views import ServerView
from mcphost.pluralize import pluralize
from mcphost.tui.screens.browser import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.tui.screens.folder_form import FolderChange, FolderForm

_SCOPE_PHRASES = {"": "", "run": "for this run", "project": "for this project", "user": "for good"}
_ROOTS_NOTICE = """A server is told where these are when it asks and you agree.
That neither keeps it inside them nor gives it a right to them."""


def describe_origin(folder: RootFolder) -> str:
    """Where it comes from, and who decides about it."""
    holds = _SCOPE_PHRASES[folder.scope]
    if folder.state == "out":
        return f"taken out {holds} · {folder.origin}"
    return f"{folder.origin} {holds}" if folder.source == "added" else folder.origin


def describe_known_roots(known: KnownRoots) -> str:
    """What a server knows of the folders."""
    if known.roots is None:
        return "you refused" if known.is_refused else "has not asked"
    told = f"was told {pluralize(len(known.roots), 'folder')}" if known.roots else "was told that there are none"
    again = "; is told again without a question" if known.is_approved else ""
    again += " in this run" if known.is_approved and not known.is_permanent else ""
    return told + ("; you have refused since" if known.is_refused else again)


def describe_folder_sharing(folder: RootFolder, view: ServerView) -> str:
    """Whether that server was told of that folder, in words."""
    roots = view.known_roots.roots
    if roots is None or folder.state == "gone":
        return describe_known_roots(view.known_roots)
    return (
        "knows it"
        if folder.root.uri in {root.uri for root in roots}
        else f"does not know it, {describe_known_roots(view.known_roots)}"
    )


class FoldersScreen(ListScreen):
    """Every folder of the list, also those that cannot be told now and those that were taken out."""

    TITLE_TEXT: ClassVar[str] = "Folders that servers may be told of"
    EMPTY_TEXT: ClassVar[str] = (
        "There are no folders, so a server that asks is told that there are none.\n\n"
        "Press a to add one. docs/consent.md says which files may name some."
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.change('add')"})
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("a", "add", "screen.change('add')"),
        ("n", "name", "screen.change('name')"),
        ("x", "take out, put back", "screen.change('out')"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "change('add')", show=False),
        Binding("n", "change('name')", show=False),
        Binding("x", "change('out')", show=False),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._folders = RootFolders()
        self._selected_path = ""

    def on_mount(self) -> None:
        super().on_mount()
        self.handle_server_change()

    def handle_server_change(self) -> None:
        """A folder or what a server knows is not what it was."""
        self.run_worker(self._load_folders, group="folders", exclusive=True)

    async def _load_folders(self) -> None:
        try:
            self._folders = await self.host.roots.refresh()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()
        at = next(
            (number for number, row in enumerate(self.visible_rows) if row.value.path == self._selected_path), None
        )
        if at is not None:
            self._selected_path = ""
            self.query_one("#entries", OptionList).highlighted = at

    def load(self) -> Sequence[ListRow]:
        return [self._list_row(one) for one in self._folders.folders]

    def _list_row(self, one: RootFolder) -> ListRow:
        mark, style = ("▲", "$warning") if one.warning else ("●", "$success")
        if one.state != "there":
            mark, style = ("✕", "$error") if one.state == "gone" else ("○", "$muted")
        about = [one.name, f"not told: {one.why}" if one.state == "gone" else "", describe_origin(one)]
        return ListRow(one, one.path, " · ".join(filter(None, about)), mark, style)

    def show_details(self, row: ListRow) -> None:
        one: RootFolder = row.value
        told = {"there": "to servers that ask, once you agree", "gone": f"no: {one.why}", "out": "no: you took it out"}
        self.show_about(
            clean_pairs(
                [
                    ("folder", one.path),
                    ("name", one.name),
                    ("told", told[one.state]),
                    ("careful", one.warning),
                    ("comes from", one.origin.removeprefix("in ")),
                    ("written as", one.configured_path),
                    ("your edit", f"holds {_SCOPE_PHRASES[one.scope]}" if one.scope else ""),
                    ("address", one.root.uri if one.state == "there" else ""),
                ]
            )
        )
        lines = [_ROOTS_NOTICE, "", "Servers:"]
        lines += [f"    {view.name}: {describe_folder_sharing(one, view)}" for view in self.host.servers.views()] or [
            "    none"
        ]
        self.query_one(LongText).show("\n".join(lines))

    def action_change(self, what: str) -> None:
        """Add one, or change the one under the cursor."""
        from mcphost.tui.screens.folder_form import FolderForm

        row = self.current_row()
        if what == "add":
            self._open_form(FolderForm(self.host.roots, "add"))
        elif row is not None:
            one: RootFolder = row.value
            wanted: FolderChange = "name" if what == "name" else "back" if one.state == "out" else "out"
            if wanted == "name" and one.state != "there":
                self.notify("Only a folder that is there and told can be named.", markup=False, timeout=4)
                return
            self._open_form(FolderForm(self.host.roots, wanted, one))

    def _open_form(self, form: "FolderForm") -> None:
        def done(changed: tuple[str, str] | None) -> None:
            if changed is not None:
                self._selected_path, said = changed
                self.notify(said, markup=False, timeout=6)
            self.handle_server_change()

        self.app.push_screen(form, done)  # pyright: ignore[reportUnknownMemberType]
