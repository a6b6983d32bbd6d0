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
from mcphost.host.server_requests.root_list import KEEPS, Folder, Keep
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import Panel
from mcphost.tui.widgets.ordered_input import TextLine
from mcphost.tui.widgets.suggestion_input import Suggested

if TYPE_CHECKING:
    from mcphost.host.server_requests.roots import Roots

What = Literal["add", "name", "out", "back"]
_TITLES = {
    "add": "Add a folder that servers may be told of",
    "name": "Name a folder",
    "out": "Take a folder out",
    "back": "Put a folder back",
}
_DOES = {"add": "Add", "name": "Name", "out": "Take out", "back": "Put back"}
_DONE = {"add": "Added", "name": "Named", "out": "Taken out", "back": "Put back"}
_WORDS: dict[Keep, str] = {"run": "this run", "project": "this project", "user": "for good"}
_OURS = "mcphost keeps that among its own data;"
_PAUSE = 0.15
_LONGEST = 4_096


def holds(keep: Keep, project: str) -> str:
    """What is written, and how long it holds."""
    match keep:
        case "run":
            return "Until mcphost ends. Nothing is written."
        case "project":
            where = clean_line(project, _LONGEST)
            return f"Whenever mcphost is started in {where}. {_OURS} no file of the project is changed."
        case "user":
            return f"Wherever mcphost is started. {_OURS} your config.toml is not changed."


class Lasting(Static, can_focus=True):
    """For how long: left and right or the space bar choose."""

    DEFAULT_CSS = "Lasting { height: 1; background: $surface; padding: 0 1; }"

    def __init__(self, keep: Keep, choices: tuple[Keep, ...]) -> None:
        super().__init__(markup=False)
        self.keep: Keep = keep
        self.choices = choices

    def render(self) -> Content:
        """All of them side by side, the present one marked."""
        return Content("   ").join(
            Content.styled(f"● {_WORDS[one]}", "bold $accent" if self.has_focus else "$text")
            if one == self.keep
            else Content.styled(f"○ {_WORDS[one]}", "$muted")
            for one in self.choices
        )

    def on_key(self, event: events.Key) -> None:
        """Choose."""
        by = {"left": -1, "right": 1, "space": 1}.get(event.key)
        if by is not None:
            event.stop()
            self._take(self.choices[(self.choices.index(self.keep) + by) % len(self.choices)])

    def on_click(self, event: events.Click) -> None:
        """The one under the pointer."""
        at = 1
        for one in self.choices:
            at += len(_WORDS[one]) + 5
            if event.x < at:
                self._take(one)
                return

    def _take(self, keep: Keep) -> None:
        self.keep = keep
        self.refresh()
        if isinstance(self.screen, Form):
            self.screen.show_holds()


class Form(Panel[tuple[str, str]]):
    """Ends with the folder and what was done, in a sentence, or None. Nothing is done before its button or ctrl+s."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "do", show=False)]
    DEFAULT_CSS = """
    Form { background: $background 45%; }
    Form #box { width: 95%; max-width: 96; max-height: 100%; }
    Form .label { color: $muted; }
    Form Suggested { margin: 0; }
    Form #path { padding: 0 1; }
    Form #name { border: none; height: 1; background: $surface; }
    Form #seen, Form #name, Form Lasting { margin-bottom: 1; }
    Form #holds { color: $muted; }
    Form #keys { margin-top: 1; }
    """

    def __init__(self, roots: "Roots", what: What, folder: Folder | None = None) -> None:
        """`folder` is the one to change; without it a path is typed."""
        super().__init__()
        self.roots, self.what, self.folder = roots, what, folder
        self._pause: Timer | None = None
        self._warned = ""
        self._busy = False

    @property
    def _typing(self) -> bool:
        return self.folder is None

    def headline(self) -> str:
        return _TITLES[self.what]

    def body(self) -> ComposeResult:
        choices: tuple[Keep, ...] = KEEPS if self.roots.project else ("run", "user")
        wanted = self.folder.keep if self.folder else ""
        keep: Keep = wanted if wanted in choices and wanted else "run"
        if self.folder is None:
            yield Static("folder", classes="label", markup=False)
            yield Suggested("path", self.roots.suggest)
        yield Static("", id="seen", markup=False)
        if self.what != "out":
            yield Static("name, which a server is told too; may be empty", classes="label", markup=False)
            yield TextLine(clean_line(self.folder.name, 200) if self.folder else "", id="name", compact=True)
        yield Static("for how long", classes="label", markup=False)
        yield Lasting(keep, choices)
        yield Static("", id="holds", markup=False)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        return (("leave", "Back"), ("do", _DOES[self.what]))

    def keys(self) -> str:
        hint = f"{Suggested.HINT}enter next" if self._typing else "tab next · ← → how long"
        return f"{hint} · ctrl+s {_DOES[self.what].lower()} · esc back"

    def on_mount(self) -> None:
        """To the first field."""
        self.show_holds()
        if self.folder is not None:
            self._show_seen(self.folder)
        first = "#path" if self._typing else "#name" if self.what == "name" else "#leave"
        self.query_one(first).focus()

    def show_holds(self) -> None:
        """What is written for the chosen time."""
        self.query_one("#holds", Static).update(holds(self.query_one(Lasting).keep, self.roots.project))

    # -- what the path leads to
    def on_input_changed(self, event: Input.Changed) -> None:
        """Look where it leads, once typing pauses."""
        if event.input.id == "path":
            self.say_fault("")
            if self._pause is not None:
                self._pause.stop()
            self._pause = self.set_timer(_PAUSE, self._look)

    def _look(self) -> None:
        path = self.query_one("#path", Input).value.strip()
        self.run_worker(partial(self._looked, path), group="seen", exclusive=True)

    async def _looked(self, path: str) -> None:
        try:
            self._show_seen(await self.roots.seen(path) if path else None)
        except McpHostError as error:
            self.query_one("#seen", Static).update(Content.styled(clean_line(error.message, _LONGEST), "$faint"))

    def _show_seen(self, folder: Folder | None) -> None:
        if folder is None:
            self.query_one("#seen", Static).update("")
            return
        shown = Content.styled(clean_line(folder.path, _LONGEST), "$text")
        if folder.warning and self.what != "out":
            warning = f"{folder.warning} Many servers take what they are told for what they may touch."
            shown = Content.assemble(shown, ("\n" + warning, "$warning"))
        self.query_one("#seen", Static).update(shown)

    # -- doing it
    def on_input_submitted(self, event: Input.Submitted) -> None:
        """On to the next field."""
        event.stop()
        self.focus_next()

    def action_do(self) -> None:
        """Change the list; what is wrong is said, and nothing that was typed is lost."""
        if not self._busy:
            self._busy = True
            self.run_worker(self._do, group="do")

    async def _do(self) -> None:
        keep = self.query_one(Lasting).keep
        try:
            if self.what == "out" and self.folder is not None:
                made = await self.roots.remove(self.folder.written or self.folder.path, keep)
            else:
                path = self.query_one("#path", Input).value.strip() if self.folder is None else self.folder.path
                seen = await self.roots.seen(path)
                if seen.warning and self._warned != seen.path and self.what != "name":
                    self._warned = seen.path
                    self._show_seen(seen)
                    self.say_fault("To add it all the same, press ctrl+s or the button again.")
                    return
                made = await self.roots.add(path, self.query_one("#name", Input).value.strip(), keep)
        except McpHostError as error:
            self.say_fault(f"{error.message} {error.hint}".strip())
            return
        finally:
            self._busy = False
        said = f"{_DONE[self.what]}: {clean_line(made.path, 200)}. {holds(keep, self.roots.project)}"
        self.dismiss((made.path, said))
