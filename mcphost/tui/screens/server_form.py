"""Form that adds a server from a command line, URL or JSON, or edits a configured server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static, TextArea

from mcphost.errors import McpHostError
from mcphost.serialization import dumps
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import KeyTable, keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.widgets.pair_lines import EntryTextArea, LabeledPairs
from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup, wait_for_typed_text

if TYPE_CHECKING:
    from mcphost.config.server_files import Scope
    from mcphost.host.servers.server_editor import ServerEditor


class TypedTexts(NamedTuple):
    """Texts that the user entered for environment variables, HTTP headers and the working directory.

    All texts are "" if the form edits a configured server.
    """

    env: str = ""
    headers: str = ""
    folder: str = ""


SaveServerFn = Callable[[str, str, "Scope", TypedTexts], Awaitable[str]]
"""Saves a server with a name, configuration text, scope and further settings.

Returns a sentence to show, or raises McpHostError.
"""

_SCOPES: "dict[Scope, str]" = {
    "user": N_("for you, in every folder"),
    "local": N_("for you, in this folder only"),
    "project": N_("for everyone who has this folder"),
}
_MAX_PATH_LENGTH = 200
_FULL_HEIGHT = 34
"""Minimum screen height, in lines, at which the fields are separated by blank lines."""


def describe_other_files(files: Sequence[str]) -> str:
    """Return a sentence which states that other entries with the server's name, in *files*, are not changed."""
    shown = join_list(clean_line(file, _MAX_PATH_LENGTH) for file in files)
    return _("Another entry of this name, in {files}, stays as it is.").format(files=shown)


class ServerForm(FormScreen[str]):
    """Form that adds or changes a server; its result is a sentence about the change, or None.

    The result is None if the user cancels.
    """

    CONFIRMS_LEAVING = True
    DEFAULT_CSS = """
    ServerForm #box { overflow-y: auto; scrollbar-size-vertical: 1; }
    ServerForm LabeledInput { margin: 0 0 1 0; }
    ServerForm LabeledPairs { margin: 0 0 1 0; }
    ServerForm #text { height: auto; min-height: 9; max-height: 18; border: none; padding: 0 1; background: $surface; }
    ServerForm.-low #text { height: 9; min-height: 2; }
    ServerForm.-new #text { height: 4; min-height: 2; margin: 0 0 1 0; }
    ServerForm #what { color: $muted; }
    ServerForm #file { color: $muted; margin: 1 0 0 0; }
    ServerForm.-new #file { margin: 0; }
    ServerForm.-low LabeledInput { margin: 0; }
    ServerForm.-low LabeledPairs { margin: 0; }
    ServerForm.-low LabeledPairs TextArea { height: 2; }
    ServerForm.-low.-new #text { height: 3; margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", show=False, priority=True),
        Binding("ctrl+o", "next_scope", show=False, priority=True, id="server-form-scope"),
    ]

    def __init__(
        self,
        save: SaveServerFn,
        files: "Mapping[Scope, Path]",
        name: str = "",
        entry: dict[str, Any] | None = None,
        other_files: Sequence[str] = (),
    ) -> None:
        """Create the form; *entry* is the configuration of the server *name*, or None for a new server.

        *save* stores the server and returns a sentence to show. *files* maps each scope that the user can select to the
        configuration file for that scope. *other_files* are further files with an entry for the server; the form does
        not change them.
        """
        super().__init__()
        self._save = save
        self._files = files
        self._scope: Scope = next(iter(files))
        self._server = name
        self._entry = entry
        self._other_files = other_files
        self._pasted_scope = ""
        """The `--scope` of the pasted command to which the form has already switched."""
        self._has_filled_in_folder = False
        self._warned_entry: tuple[str, ...] = ()
        """The name and the text about which the form has already warned; they are saved as they are."""

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False: a key is handled even if it was pressed just before the form appeared.

        Such a key does no harm: a server that is saved by accident needs approval before it starts.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        return (
            _("Add a server")
            if self._entry is None
            else _("Settings of the server {server}").format(server=self._server)
        )

    def body(self) -> ComposeResult:
        """Yield an input for the name, if the server is new, and a text area for its configuration."""
        if self._entry is None:
            yield LabeledInputGroup(LabeledInput(_("name"), "name", placeholder=_("optional")))
            yield Static(_("A command line, a URL, or JSON as a README shows it:"), id="what", markup=False)
        else:
            yield Static(_("Its entry. Secrets that you type are stored outside of it."), id="what", markup=False)
        text = "" if self._entry is None else dumps(self._entry, indent=2)
        yield EntryTextArea(text, id="text", tab_behavior="focus", compact=True)
        if self._entry is None:
            yield LabeledPairs(_("environment"), "=", "env", placeholder=_("one NAME=VALUE per line"))
            yield LabeledPairs(_("headers"), ":", "headers", placeholder=_("one NAME: VALUE per line; only for a URL"))
            folder = _("optional; working directory of the command")
            yield LabeledInput(_("folder"), "folder", placeholder=folder)
        yield Static(self._describe_file(), id="file", markup=False)

    def _describe_file(self) -> str:
        path = clean_line(str(self._files[self._scope]), _MAX_PATH_LENGTH)
        if self._entry is None:
            return f"{_(_SCOPES[self._scope])}: {path}"
        what = _("its file") if self._scope == "user" else f"{_('its file')} ({_(_SCOPES[self._scope])})"
        lines = [f"{what}: {path}", *([describe_other_files(self._other_files)] if self._other_files else ())]
        return "\n".join(lines)

    def action_next_scope(self) -> None:
        """Select the next scope, and show the configuration file in which the server will be saved."""
        scopes = list(self._files)
        self._scope = scopes[(scopes.index(self._scope) + 1) % len(scopes)]
        self.query_one("#file", Static).update(Content(self._describe_file()))

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return ("leave", _("Back")), ("save", _("Save and start"))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        if len(self._files) > 1:
            return keys_in_use(self).fill(
                _("ctrl+s save and start · {server-form-scope} scope · tab next · esc back"),
                in_sentence=False,
            )
        return _("ctrl+s save and start · tab next field · esc back")

    def on_mount(self) -> None:
        """Focus the text area, the only required field."""
        super().on_mount()
        self.set_class(self._entry is None, "-new")
        self.query_one("#text").focus()

    def on_resize(self) -> None:
        """Show blank lines between the fields only if the screen has enough rows for them."""
        self.set_class(self.size.height < _FULL_HEIGHT, "-low")

    def moves_on_enter(self, field: Input) -> bool:
        """Return whether Enter in *field* focuses the next widget; true only for the working directory's input.

        Enter in the name input is handled by `on_labeled_input_group_submitted`.
        """
        return field.id == "folder"

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Focus the text area when Enter is pressed in the name input."""
        event.stop()
        self.query_one("#text").focus()

    def action_save(self) -> None:
        """Save the server and close the form; if that fails, show the error and keep the form open.

        If the configuration text probably contains mistakes, the first call only shows the mistakes. A second call with
        the same text saves the server anyway.
        """
        self.run_worker(partial(self._finish), group="save", exclusive=True)

    async def _finish(self) -> None:
        from mcphost.config.typed_servers import parse_entry

        text = self.query_one("#text", EntryTextArea)
        await wait_for_typed_text(*self.query(TextArea), *self.query(Input))
        values = {str(field.id): field.value for field in self.query(Input)}
        values |= {str(field.id): field.text for field in self.query(TextArea)}
        typed = TypedTexts(values.get("env", ""), values.get("headers", ""), values.get("folder", ""))
        try:
            name = self._server or values.get("name", "").strip()
            if self._switch_scope(text.text) or self._warn_once(name, text.text):
                return
            if not typed.folder.strip() and self._fill_in_folder(text.text, name):
                return
            is_changed = self._entry is None or parse_entry(text.text, name) != self._entry
            done = await self._save(name, text.text, self._scope, typed) if is_changed else _("Nothing was changed.")
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.dismiss(done)

    def _switch_scope(self, text: str) -> bool:
        """Select the scope given by `--scope` in a pasted command; return whether this has changed the scope.

        If so, a message names the file in which the server will be saved. An option that has already been applied is
        ignored, so that the user can select another scope afterwards.
        """
        from mcphost.config.typed_servers import find_pasted_scope

        pasted = find_pasted_scope(text) if self._entry is None else ""
        scopes: dict[str, Scope] = {one: one for one in self._files}
        scope = scopes.get(pasted, self._scope)
        is_new, self._pasted_scope = pasted != self._pasted_scope, pasted
        if not is_new or scope == self._scope:
            return False
        self._scope = scope
        self.query_one("#file", Static).update(Content(self._describe_file()))
        told = _("The command has --scope {scope}. Press Ctrl+S to save it in {file}.")
        self.show_fault(told.format(scope=scope, file=clean_line(str(self._files[scope]), _MAX_PATH_LENGTH)))
        return True

    def _fill_in_folder(self, text: str, name: str) -> bool:
        """Fill in the current folder as the working directory if the server's command needs it.

        The command needs it if it contains a path that exists in the current folder, but not in the folder in which the
        server would run by default. After filling it in, show a message and return True. Later calls return False, so
        that the user can clear the input. Raises McpHostError if *text* does not describe a server.
        """
        from mcphost.config.relative_paths import find_misplaced_path
        from mcphost.config.typed_servers import parse_server_text
        from mcphost.config.variable_references import resolve_folder

        if self._entry is not None or self._has_filled_in_folder:
            return False
        folder, runs_in = Path.cwd(), Path(resolve_folder(str(self._files[self._scope]), ""))
        for entry in parse_server_text(text, name).values():
            command, args = entry.get("command"), entry.get("args", [])
            if entry.get("cwd") or not isinstance(command, str) or not isinstance(args, list):
                continue
            words = [word for word in cast("list[Any]", args) if isinstance(word, str)]
            if path := find_misplaced_path(command, words, folder, runs_in):
                self._has_filled_in_folder = True
                self.query_one("#folder", Input).value = str(folder)
                told = _("{path} is in this folder, so the server will run here. Press Ctrl+S again to save it.")
                self.show_fault(told.format(path=clean_line(path, _MAX_PATH_LENGTH)))
                return True
        return False

    def _warn_once(self, name: str, text: str) -> bool:
        """Show probable mistakes in *text*, the configuration of the server *name*.

        Return whether any were shown. A second call with the same arguments shows nothing and returns False.
        """
        from mcphost.config.typed_servers import find_entry_mistakes, find_new_server_mistakes

        if self._warned_entry == (name, text):
            return False
        self._warned_entry = name, text
        mistakes = find_new_server_mistakes(text, name) if self._entry is None else find_entry_mistakes(text, name)
        if mistakes:
            self.show_fault(
                " ".join((*map(translate_sentence, mistakes), _("Press Ctrl+S again to save it as it is.")))
            )
        return bool(mistakes)


async def add_server(
    editor: "ServerEditor", keys: KeyTable, name: str, text: str, scope: "Scope", typed: TypedTexts
) -> str:
    """Add the servers that the user typed as *text* to the configuration file of *scope*; return a message.

    *name* is the name that the user entered for the server, or "". Raises McpHostError if *text* does not describe a
    server, or if the configuration file cannot be changed.
    """
    from mcphost.config.typed_servers import parse_server_text, read_settings

    settings = read_settings(typed.env, typed.headers, typed.folder)
    entries = parse_server_text(text, name, settings.cwd)
    saved = await editor.add({one: settings.apply(entry) for one, entry in entries.items()}, scope)
    done = keys.fill(
        _("Added {name} to {path}. Press {servers-undo} to undo."),
        name=join_list(one.edit.name for one in saved),
        path=saved[0].edit.file.path,
    )
    done = " ".join((done, *(translate_sentence(note) for one in saved for note in one.notes)))
    if scope != "project" or any(one.server is not None for one in saved):
        return done
    return f"{done} {_('The file is used after you approve it: mcphost servers trust .mcp.json')}"


async def change_server(
    editor: "ServerEditor",
    keys: KeyTable,
    before: Mapping[str, Any],
    name: str,
    text: str,
    _scope: "Scope",
    _typed: TypedTexts,
) -> str:
    """Replace the entry of the server *name* with *text*; return a message for the user.

    *before* is the entry as it was when the user began to edit it. Raises McpHostError if *text* is not a valid entry,
    if the stored entry no longer equals *before*, or if the configuration file cannot be changed.
    """
    from mcphost.config.typed_servers import parse_entry

    saved = await editor.change(name, parse_entry(text, name), expected=before)
    done = _("Changed {name} in {path}. Press {servers-undo} to undo.")
    done = keys.fill(done, name=name, path=saved.edit.file.path)
    return " ".join((done, *map(translate_sentence, saved.notes)))
