"""The folders that servers may be told of: where each comes from, who was told; add one, name it, take it out."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.widgets import OptionList

from mcphost.errors import McpHostError
from mcphost.host.server_requests.root_list import Folder, Folders, Heard
from mcphost.host.views import ServerView
from mcphost.pluralize import counted
from mcphost.tui.screens.browser import Browser, Row, facts
from mcphost.tui.widgets.long_text import LongText

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.tui.screens.folder_form import Form, What

_HOLDS = {"": "", "run": "for this run", "project": "for this project", "user": "for good"}
_INFORMS = """A server is told where these are when it asks and you agree.
That neither keeps it inside them nor gives it a right to them."""


def origin(folder: Folder) -> str:
    """Where it comes from, and who decides about it."""
    holds = _HOLDS[folder.keep]
    if folder.state == "out":
        return f"taken out {holds} · {folder.origin}"
    return f"{folder.origin} {holds}" if folder.source == "added" else folder.origin


def heard(one: Heard) -> str:
    """What a server knows of the folders."""
    if one.roots is None:
        return "you refused" if one.refused else "has not asked"
    told = f"was told {counted(len(one.roots), 'folder')}" if one.roots else "was told that there are none"
    again = "; is told again without a question" if one.agreed else ""
    again += " in this run" if one.agreed and not one.for_good else ""
    return told + ("; you have refused since" if one.refused else again)


def knows(folder: Folder, view: ServerView) -> str:
    """Whether that server was told of that folder, in words."""
    roots = view.folders.roots
    if roots is None or folder.state == "gone":
        return heard(view.folders)
    return "knows it" if folder.root.uri in {root.uri for root in roots} else f"does not know it, {heard(view.folders)}"


class FoldersPage(Browser):
    """Every folder of the list, also those that cannot be told now and those that were taken out."""

    TITLE_TEXT: ClassVar[str] = "Folders that servers may be told of"
    EMPTY: ClassVar[str] = (
        "There are no folders, so a server that asks is told that there are none.\n\n"
        "Press a to add one. docs/consent.md says which files may name some."
    )
    WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.change('add')"})
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
        self._found = Folders()
        self._wanted = ""

    def on_mount(self) -> None:
        super().on_mount()
        self.server_changed()

    def server_changed(self) -> None:
        """A folder or what a server knows is not what it was."""
        self.run_worker(self._read, group="folders", exclusive=True)

    async def _read(self) -> None:
        try:
            self._found = await self.host.roots.now()
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
        self.reload()
        at = next((number for number, row in enumerate(self.shown) if row.value.path == self._wanted), None)
        if at is not None:
            self._wanted = ""
            self.query_one("#entries", OptionList).highlighted = at

    def load(self) -> Sequence[Row]:
        return [self._row(one) for one in self._found.all]

    def _row(self, one: Folder) -> Row:
        mark, style = ("▲", "$warning") if one.warning else ("●", "$success")
        if one.state != "there":
            mark, style = ("✕", "$error") if one.state == "gone" else ("○", "$muted")
        about = [one.name, f"not told: {one.why}" if one.state == "gone" else "", origin(one)]
        return Row(one, one.path, " · ".join(filter(None, about)), mark, style)

    def highlighted(self, row: Row) -> None:
        one: Folder = row.value
        told = {"there": "to servers that ask, once you agree", "gone": f"no: {one.why}", "out": "no: you took it out"}
        self.about(
            facts(
                [
                    ("folder", one.path),
                    ("name", one.name),
                    ("told", told[one.state]),
                    ("careful", one.warning),
                    ("comes from", one.origin.removeprefix("in ")),
                    ("written as", one.written),
                    ("your edit", f"holds {_HOLDS[one.keep]}" if one.keep else ""),
                    ("address", one.root.uri if one.state == "there" else ""),
                ]
            )
        )
        lines = [_INFORMS, "", "Servers:"]
        lines += [f"    {view.name}: {knows(one, view)}" for view in self.host.servers()] or ["    none"]
        self.query_one(LongText).show("\n".join(lines))

    def action_change(self, what: str) -> None:
        """Add one, or change the one under the cursor."""
        from mcphost.tui.screens.folder_form import Form

        row = self.current()
        if what == "add":
            self._open(Form(self.host.roots, "add"))
        elif row is not None:
            one: Folder = row.value
            wanted: What = "name" if what == "name" else "back" if one.state == "out" else "out"
            if wanted == "name" and one.state != "there":
                self.notify("Only a folder that is there and told can be named.", markup=False, timeout=4)
                return
            self._open(Form(self.host.roots, wanted, one))

    def _open(self, form: "Form") -> None:
        def done(changed: tuple[str, str] | None) -> None:
            if changed is not None:
                self._wanted, said = changed
                self.notify(said, markup=False, timeout=6)
            self.server_changed()

        self.app.push_screen(form, done)  # pyright: ignore[reportUnknownMemberType]
