"""Shared folders screen (Ctrl+O) for managing the folders (MCP roots) that are shared with servers.

The user can add, name and remove folders, and see which servers have received them.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual._cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.host.server_requests.root_folders import ROOT_SCOPES, KnownRoots, RootFolder, RootFolders, RootScope
from mcphost.host.server_views import ServerView
from mcphost.pluralize import translate_count
from mcphost.translation import N_, _, translate_sentence
from mcphost.tui.forms.suggestion_input import SuggestionInput
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.long_text import LongText
from mcphost.tui.widgets.text_inputs import OrderedInput

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.host.server_requests.roots import Roots


_SCOPE_PHRASES = {"": "", "run": N_("for this run"), "project": N_("for this project"), "user": N_("always")}
_ROOTS_NOTICE = N_(
    "A server gets these paths when it asks and you agree.\nSharing a folder neither limits a server to it nor "
    "gives a server access to it."
)
FolderChange = Literal["add", "name", "out", "back"]
_TITLES = {
    "add": N_("Share a folder"),
    "name": N_("Name a folder"),
    "out": N_("Remove a folder"),
    "back": N_("Restore a folder"),
}
_CHANGE_LABELS = {"add": N_("Add"), "name": N_("Name"), "out": N_("Remove"), "back": N_("Restore")}
_DONE_LABELS = {"add": N_("Added"), "name": N_("Named"), "out": N_("Removed"), "back": N_("Restored")}
_LOOKUP_DELAY = 0.15
_MAX_PATH = 4_096


def describe_origin(folder: RootFolder) -> str:
    """Describe where the folder was configured.

    If the user added or removed the folder, the text also states for how long this applies.
    """
    holds = _(_SCOPE_PHRASES[folder.scope])
    if folder.state == "out":
        return _("removed {holds} · {origin}").format(holds=holds, origin=translate_sentence(folder.origin))
    origin = translate_sentence(folder.origin)
    return f"{origin} {holds}" if folder.source == "added" else origin


def describe_known_roots(known: KnownRoots) -> str:
    """Describe what a server knows about the shared folders, such as "received 2 folders".

    If the server has received a list of folders, the text also states whether the user has approved later updates, or
    has refused a later request. If it has received none, the text is "you refused" or "has not asked".
    """
    if known.roots is None:
        return _("you refused") if known.is_refused else _("has not asked")
    told = (
        _("received {folders}").format(folders=translate_count(len(known.roots), "folder"))
        if known.roots
        else _("received none")
    )
    again = _("; updated without asking") if known.is_approved else ""
    again += _(" in this run") if known.is_approved and not known.is_permanent else ""
    return told + (_("; refused since") if known.is_refused else again)


def describe_folder_sharing(folder: RootFolder, view: ServerView) -> str:
    """Describe whether the server has received this folder.

    If it has not, the text also states what the server knows about the shared folders. If the folder cannot be read,
    or the server has received no list of folders, the text is only the result of `describe_known_roots`.
    """
    roots = view.known_roots.roots
    if roots is None or folder.state == "gone":
        return describe_known_roots(view.known_roots)
    return (
        _("knows it")
        if folder.root.uri in {root.uri for root in roots}
        else _("does not know it, {known_roots}").format(known_roots=describe_known_roots(view.known_roots))
    )


class RootsScreen(ListScreen):
    """List of the folders to share with servers.

    Folders that are missing or that the user removed are listed as well.
    """

    DEFAULT_CSS = "RootsScreen EntryList, RootsScreen #side { width: 1fr; }"
    TITLE_TEXT: ClassVar[str] = N_("Shared folders")
    EMPTY_TEXT: ClassVar[str] = N_("No folders are shared.\n\nPress {folders-add} to add one.")
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.change('add')"})
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("a", N_("add"), "screen.change('add')"),
        ("n", N_("name"), "screen.change('name')"),
        ("x", N_("remove, restore"), "screen.change('out')"),
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "change('add')", show=False, id="folders-add"),
        Binding("n", "change('name')", show=False, id="folders-name"),
        Binding("x", "change('out')", show=False, id="folders-remove"),
    ]

    def __init__(self, host: "Host") -> None:
        super().__init__()
        self.host = host
        self._folders = RootFolders()
        self._selected_path = ""

    def on_mount(self) -> None:
        """Load the folders."""
        super().on_mount()
        self.handle_server_change()

    def handle_server_change(self) -> None:
        """Reload the list: the folders may have changed, or a server may have received some of them."""
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
            self.list_widget.cursor = at

    def load(self) -> Sequence[ListRow]:
        """Return a row for each folder."""
        return [self._list_row(one) for one in self._folders.folders]

    def _list_row(self, one: RootFolder) -> ListRow:
        mark, style = ("▲", "$warning") if one.warning else ("●", "$success")
        if one.state != "there":
            mark, style = ("✕", "$error") if one.state == "gone" else ("○", "$muted")
        about = [
            one.name,
            _("not shared: {why}").format(why=translate_sentence(one.why)) if one.state == "gone" else "",
            describe_origin(one),
        ]
        return ListRow(one, one.path, " · ".join(filter(None, about)), mark, style)

    def show_details(self, row: ListRow) -> None:
        """Show where a folder was configured, a warning (if any), and which servers have received the folder."""
        one: RootFolder = row.value
        told = {
            "there": _("with servers that ask, if you agree"),
            "gone": _("no: {why}").format(why=translate_sentence(one.why)),
            "out": _("no: removed by you"),
        }
        self.show_about(
            clean_pairs(
                [
                    (_("folder"), one.path),
                    (_("name"), one.name),
                    (_("shared"), told[one.state]),
                    (_("warning"), translate_sentence(one.warning)),
                    (_("origin"), translate_sentence(one.origin).removeprefix("in ")),
                    (_("configured as"), one.configured_path),
                    (
                        _("your change"),
                        _("applies {scope_phrases}").format(scope_phrases=_(_SCOPE_PHRASES[one.scope]))
                        if one.scope
                        else "",
                    ),
                    (_("address"), one.root.uri if one.state == "there" else ""),
                ]
            )
        )
        lines = [_(_ROOTS_NOTICE), "", _("Servers:")]
        lines += [f"    {view.name}: {describe_folder_sharing(one, view)}" for view in self.host.servers.views()] or [
            "    none"
        ]
        self.query_one(LongText).show("\n".join(lines))

    def action_change(self, what: str) -> None:
        """Open a form that adds, names, removes or restores a folder.

        *what* is "add" for a new folder. For the selected folder, *what* is "name" to change its name, or "out" to
        remove it. If the folder has already been removed, "out" restores it.
        """
        row = self.current_row()
        if what == "add":
            self._open_form(FolderForm(self.host.roots, "add"))
        elif row is not None:
            one: RootFolder = row.value
            wanted: FolderChange = "name" if what == "name" else "back" if one.state == "out" else "out"
            if wanted == "name" and one.state != "there":
                self.notify(_("Only a shared folder that exists can be named."), markup=False, timeout=4)
                return
            self._open_form(FolderForm(self.host.roots, wanted, one))

    def _open_form(self, form: "FolderForm") -> None:
        def done(changed: tuple[str, str] | None) -> None:
            """If the form changed something, show a notification about the change; then reload the list."""
            if changed is not None:
                self._selected_path, said = changed
                self.notify(said, markup=False, timeout=6)
            self.handle_server_change()

        self.app.push_screen(form, done)  # pyright: ignore[reportUnknownMemberType]


_SCOPE_LABELS: dict[RootScope, str] = {"run": N_("this run"), "project": N_("this project"), "user": N_("always")}


def describe_root_scope(scope: RootScope, project: str) -> str:
    """Describe how long a change with this scope lasts, and where it is stored.

    *project* is the path of the folder to which the scope "project" applies.
    """
    match scope:
        case "run":
            return _("Until mcphost quits. Nothing is stored.")
        case "project":
            where = clean_line(project, _MAX_PATH)
            return _(
                "Whenever mcphost is started in {where}. Stored in mcphost's own data; no project file is changed."
            ).format(where=where)
        case "user":
            return _("Wherever mcphost is started. Stored in mcphost's own data; your config.toml is not changed.")


class ScopeChoice(Static, can_focus=True):
    """Widget that selects how long a change applies: in this run, in this project, or always.

    The left and right arrow keys, Space and clicks change the selection.
    """

    DEFAULT_CSS = "ScopeChoice { height: 1; background: $surface; padding: 0 1; }"

    def __init__(self, scope: RootScope, choices: tuple[RootScope, ...]) -> None:
        super().__init__(markup=False)
        self.scope: RootScope = scope
        self.choices = choices

    def render(self) -> Content:
        """Render the scopes side by side, with a filled circle in front of the selected one."""
        return Content("   ").join(
            Content.styled(f"● {_(_SCOPE_LABELS[one])}", "bold $accent" if self.has_focus else "$text")
            if one == self.scope
            else Content.styled(f"○ {_(_SCOPE_LABELS[one])}", "$muted")
            for one in self.choices
        )

    def on_key(self, event: events.Key) -> None:
        """Select the previous scope (left arrow key) or the next one (right arrow key or Space)."""
        by = {"left": -1, "right": 1, "space": 1}.get(event.key)
        if by is not None:
            event.stop()
            self._select(self.choices[(self.choices.index(self.scope) + by) % len(self.choices)])

    def on_click(self, event: events.Click) -> None:
        """Select the clicked scope."""
        at = 1
        for one in self.choices:
            at += cell_len(_(_SCOPE_LABELS[one])) + 5
            if event.x < at:
                self._select(one)
                return

    def _select(self, scope: RootScope) -> None:
        self.scope = scope
        self.refresh()
        if isinstance(self.screen, FolderForm):
            self.screen.show_scope()


class FolderForm(FormScreen[tuple[str, str]]):
    """Form that adds, names, removes or restores a folder.

    Only Ctrl+S or the button applies the change. The result is the folder's path and a sentence that describes the
    change, or None if the user cancels.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "apply", show=False)]
    DEFAULT_CSS = """
    FolderForm { background: $background 45%; }
    FolderForm #box { width: 95%; max-width: 96; max-height: 100%; }
    FolderForm .label { color: $muted; }
    FolderForm SuggestionInput { margin: 0; }
    FolderForm #path { padding: 0 1; }
    FolderForm #name { border: none; height: 1; background: $surface; }
    FolderForm #seen, FolderForm #name, FolderForm ScopeChoice { margin-bottom: 1; }
    FolderForm #holds { color: $muted; }
    FolderForm #keys { margin-top: 1; }
    """

    def __init__(self, roots: "Roots", change: FolderChange, folder: RootFolder | None = None) -> None:
        """Create a form for *change* to *folder*.

        If *folder* is None, the user enters the path of a new folder.
        """
        super().__init__()
        self.roots, self.change, self.folder = roots, change, folder
        self._lookup_timer: Timer | None = None
        self._warned_path = ""
        self._is_busy = False

    @property
    def _has_path_input(self) -> bool:
        return self.folder is None

    def headline(self) -> str:
        """Return the title, which describes the change."""
        return _(_TITLES[self.change])

    def body(self) -> ComposeResult:
        """Yield the inputs that the change needs: a path, a name or a scope, or several of these."""
        choices: tuple[RootScope, ...] = ROOT_SCOPES if self.roots.project else ("run", "user")
        wanted = self.folder.scope if self.folder else ""
        keep: RootScope = wanted if wanted in choices and wanted else "run"
        if self.folder is None:
            yield Static(_("folder"), classes="label", markup=False)
            yield SuggestionInput("path", self.roots.suggest)
        yield Static("", id="seen", markup=False)
        if self.change != "out":
            yield Static(_("name, shared with servers; optional"), classes="label", markup=False)
            yield OrderedInput(clean_line(self.folder.name, 200) if self.folder else "", id="name", compact=True)
        yield Static(_("scope"), classes="label", markup=False)
        yield ScopeChoice(keep, choices)
        yield Static("", id="holds", markup=False)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return (("leave", _("Back")), ("apply", _(_CHANGE_LABELS[self.change])))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        hint = (
            _("{hint}enter next").format(hint=_(SuggestionInput.HINT))
            if self._has_path_input
            else _("tab next · ← → scope")
        )
        return _("{hint} · ctrl+s {lower} · esc back").format(hint=hint, lower=_(_CHANGE_LABELS[self.change]).lower())

    def on_mount(self) -> None:
        """Show the folder and the scope, and focus the first input that the change needs."""
        self.show_scope()
        if self.folder is not None:
            self._show_folder(self.folder)
        first = "#path" if self._has_path_input else "#name" if self.change == "name" else "#leave"
        self.query_one(first).focus()

    def show_scope(self) -> None:
        """Show how long the change lasts with the selected scope, and where it is stored."""
        self.query_one("#holds", Static).update(
            describe_root_scope(self.query_one(ScopeChoice).scope, self.roots.project)
        )

    # -- path
    def on_input_changed(self, event: Input.Changed) -> None:
        """Check the path once the user has stopped typing for 0.15 seconds."""
        if event.input.id == "path":
            self.show_fault("")
            if self._lookup_timer is not None:
                self._lookup_timer.stop()
            self._lookup_timer = self.set_timer(_LOOKUP_DELAY, self._start_lookup)

    def _start_lookup(self) -> None:
        path = self.query_one("#path", Input).value.strip()
        self.run_worker(partial(self._look_up_path, path), group="seen", exclusive=True)

    async def _look_up_path(self, path: str) -> None:
        try:
            self._show_folder(await self.roots.inspect_folder(path) if path else None)
        except McpHostError as error:
            self.query_one("#seen", Static).update(Content.styled(clean_line(error.message, _MAX_PATH), "$faint"))

    def _show_folder(self, folder: RootFolder | None) -> None:
        if folder is None:
            self.query_one("#seen", Static).update("")
            return
        shown = Content.styled(clean_line(folder.path, _MAX_PATH), "$text")
        if folder.warning and self.change != "out":
            warning = _("{warning} Many servers treat shared folders as permission to change them.").format(
                warning=translate_sentence(folder.warning)
            )
            shown = Content.assemble(shown, ("\n" + warning, "$warning"))
        self.query_one("#seen", Static).update(shown)

    # -- applying
    def moves_on_enter(self, field: Input) -> bool:
        """Return True: Enter in an input focuses the next widget."""
        del field
        return True

    def action_apply(self) -> None:
        """Apply the change and close the form; if that fails, show the error and keep the form open.

        If there is a warning about the folder to add, the first call only shows the warning, and a second call adds the
        folder anyway.
        """
        if not self._is_busy:
            self._is_busy = True
            self.run_worker(self._apply, group="do")

    async def _apply(self) -> None:
        keep = self.query_one(ScopeChoice).scope
        try:
            if self.change == "out" and self.folder is not None:
                made = await self.roots.remove(self.folder.configured_path or self.folder.path, keep)
            else:
                path = self.query_one("#path", Input).value.strip() if self.folder is None else self.folder.path
                seen = await self.roots.inspect_folder(path)
                if seen.warning and self._warned_path != seen.path and self.change != "name":
                    self._warned_path = seen.path
                    self._show_folder(seen)
                    self.show_fault(_("To add it anyway, press Ctrl+S or the button again."))
                    return
                made = await self.roots.add(path, self.query_one("#name", Input).value.strip(), keep)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        finally:
            self._is_busy = False
        scope = describe_root_scope(keep, self.roots.project)
        said = f"{_(_DONE_LABELS[self.change])}: {clean_line(made.path, 200)}. {scope}"
        self.dismiss((made.path, said))
