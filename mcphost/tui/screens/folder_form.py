"""Adds a folder to the list, names it, takes it out or puts it back; says for how long before it does."""

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.timer import Timer
from textual.widgets import Input, Static

from mcphost.errors import McpHostError
from mcphost.host.server_requests.root_list import ROOT_SCOPES, RootFolder, RootScope
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.ordered_input import OrderedInput
from mcphost.tui.widgets.suggestion_input import SuggestionInput

if TYPE_CHECKING:
    from mcphost.host.server_requests.roots import Roots

FolderChange = Literal["add", "name", "out", "back"]
_TITLES = {
    "add": "Add a folder that servers may be told of",
    "name": "Name a folder",
    "out": "Take a folder out",
    "back": "Put a folder back",
}
_CHANGE_LABELS = {"add": "Add", "name": "Name", "out": "Take out", "back": "Put back"}
_DONE_LABELS = {"add": "Added", "name": "Named", "out": "Taken out", "back": "Put back"}
_SCOPE_LABELS: dict[RootScope, str] = {"run": "this run", "project": "this project", "user": "for good"}
_STORAGE_NOTE = "mcphost keeps that among its own data;"
_LOOKUP_DELAY = 0.15
_MAX_PATH = 4_096


def describe_root_scope(scope: RootScope, project: str) -> str:
    """What is written, and how long it holds."""
    match scope:
        case "run":
            return "Until mcphost ends. Nothing is written."
        case "project":
            where = clean_line(project, _MAX_PATH)
            return f"Whenever mcphost is started in {where}. {_STORAGE_NOTE} no file of the project is changed."
        case "user":
            return f"Wherever mcphost is started. {_STORAGE_NOTE} your config.toml is not changed."


class ScopeChoice(Static, can_focus=True):
    """For how long: left and right or the space bar choose."""

    DEFAULT_CSS = "ScopeChoice { height: 1; background: $surface; padding: 0 1; }"

    def __init__(self, scope: RootScope, choices: tuple[RootScope, ...]) -> None:
        super().__init__(markup=False)
        self.scope: RootScope = scope
        self.choices = choices

    def render(self) -> Content:
        """All of them side by side, the present one marked."""
        return Content("   ").join(
            Content.styled(f"● {_SCOPE_LABELS[one]}", "bold $accent" if self.has_focus else "$text")
            if one == self.scope
            else Content.styled(f"○ {_SCOPE_LABELS[one]}", "$muted")
            for one in self.choices
        )

    def on_key(self, event: events.Key) -> None:
        """Choose."""
        by = {"left": -1, "right": 1, "space": 1}.get(event.key)
        if by is not None:
            event.stop()
            self._select(self.choices[(self.choices.index(self.scope) + by) % len(self.choices)])

    def on_click(self, event: events.Click) -> None:
        """The one under the pointer."""
        at = 1
        for one in self.choices:
            at += len(_SCOPE_LABELS[one]) + 5
            if event.x < at:
                self._select(one)
                return

    def _select(self, scope: RootScope) -> None:
        self.scope = scope
        self.refresh()
        if isinstance(self.screen, FolderForm):
            self.screen.show_scope()


class FolderForm(FormScreen[tuple[str, str]]):
    """Ends with the folder and what was done, in a sentence, or None. Nothing is done before its button or ctrl+s."""

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
        """`folder` is the one to change; without it a path is typed."""
        super().__init__()
        self.roots, self.change, self.folder = roots, change, folder
        self._lookup_timer: Timer | None = None
        self._warned_path = ""
        self._is_busy = False

    @property
    def _has_path_input(self) -> bool:
        return self.folder is None

    def headline(self) -> str:
        return _TITLES[self.change]

    def body(self) -> ComposeResult:
        choices: tuple[RootScope, ...] = ROOT_SCOPES if self.roots.project else ("run", "user")
        wanted = self.folder.scope if self.folder else ""
        keep: RootScope = wanted if wanted in choices and wanted else "run"
        if self.folder is None:
            yield Static("folder", classes="label", markup=False)
            yield SuggestionInput("path", self.roots.suggest)
        yield Static("", id="seen", markup=False)
        if self.change != "out":
            yield Static("name, which a server is told too; may be empty", classes="label", markup=False)
            yield OrderedInput(clean_line(self.folder.name, 200) if self.folder else "", id="name", compact=True)
        yield Static("for how long", classes="label", markup=False)
        yield ScopeChoice(keep, choices)
        yield Static("", id="holds", markup=False)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        return (("leave", "Back"), ("apply", _CHANGE_LABELS[self.change]))

    def key_hints(self) -> str:
        hint = f"{SuggestionInput.HINT}enter next" if self._has_path_input else "tab next · ← → how long"
        return f"{hint} · ctrl+s {_CHANGE_LABELS[self.change].lower()} · esc back"

    def on_mount(self) -> None:
        """To the first field."""
        self.show_scope()
        if self.folder is not None:
            self._show_folder(self.folder)
        first = "#path" if self._has_path_input else "#name" if self.change == "name" else "#leave"
        self.query_one(first).focus()

    def show_scope(self) -> None:
        """What is written for the chosen time."""
        self.query_one("#holds", Static).update(
            describe_root_scope(self.query_one(ScopeChoice).scope, self.roots.project)
        )

    # -- what the path leads to
    def on_input_changed(self, event: Input.Changed) -> None:
        """Look where it leads, once typing pauses."""
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
            warning = f"{folder.warning} Many servers take what they are told for what they may touch."
            shown = Content.assemble(shown, ("\n" + warning, "$warning"))
        self.query_one("#seen", Static).update(shown)

    # -- doing it
    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to the next field."""
        event.stop()
        self.focus_next()

    def action_apply(self) -> None:
        """Change the list; what is wrong is said, and nothing that was typed is lost."""
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
                    self.show_fault("To add it all the same, press ctrl+s or the button again.")
                    return
                made = await self.roots.add(path, self.query_one("#name", Input).value.strip(), keep)
        except McpHostError as error:
            self.show_fault(f"{error.message} {error.hint}".strip())
            return
        finally:
            self._is_busy = False
        scope = describe_root_scope(keep, self.roots.project)
        said = f"{_DONE_LABELS[self.change]}: {clean_line(made.path, 200)}. {scope}"
        self.dismiss((made.path, said))
