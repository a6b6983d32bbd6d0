"""Slash commands, completions for the composer, and the command palette."""

import difflib
import re
from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from rich.align import Align
from rich.text import Text
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.widgets.option_list import Option

from mcphost.errors import McpHostError
from mcphost.translation import N_, _
from mcphost.tui.actions import ACTIONS, ALIASES, aliases_of, find_alias
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_text import clean_line
from mcphost.tui.widget_messages import ArgumentCheckRequested
from mcphost.tui.widgets.completion_popup import CompletionItem

if TYPE_CHECKING:
    from mcphost.host.host import Host
    from mcphost.host.server_views import ServerView


_COMMAND_PATTERN = re.compile(r"/([^\W\d_][\w:-]{0,60})(?!\S)")
# Root folders of Linux and macOS: text that begins with one is a message about a path.
_ROOT_FOLDERS = frozenset({
    "bin", "boot", "dev", "etc", "home", "lib", "lib64", "media", "mnt", "opt", "proc", "root", "sbin", "srv", "sys",
    "tmp", "usr", "var", "Applications", "Library", "System", "Users", "Volumes", "private",
})  # fmt: skip
_MAX_COMPARED_NAMES = 500
SEND_HINT = N_("{error} To send it as a message, put a space before it.")


def explain_unknown_command(text: str, names: Iterable[str]) -> str:
    """Return an error message if *text* is an unknown slash command, or "" if it is an ordinary message.

    *names* are the known commands, with their slashes; the error message suggests the closest one. A known command with
    arguments is also an error. Text that begins with a space, or with a path such as `/etc/hosts`, is an ordinary
    message.
    """
    match = _COMMAND_PATTERN.match(text)
    if match is None or (match[1] in _ROOT_FOLDERS and text[match.end() :].strip()):
        return ""
    typed = match[0]
    near = difflib.get_close_matches(typed.lower(), islice(names, _MAX_COMPARED_NAMES), n=1, cutoff=0.7)
    if near and near[0] == typed:
        return explain_unexpected_value(typed)
    hint = _(" Did you mean {near}?").format(near=clean_line(near[0], 60)) if near else ""
    error = _("Unknown command {typed}.{hint}").format(typed=clean_line(typed, 60), hint=hint)
    return _(SEND_HINT).format(error=error)


def explain_unexpected_value(command: str) -> str:
    """Return an error message for text after a command that takes no arguments; *command* begins with the slash."""
    return _(SEND_HINT).format(error=_("{typed} takes no arguments.").format(typed=clean_line(command, 60)))


def build_completions(kind: str, views: "Iterable[ServerView]") -> list[CompletionItem]:
    """Return the completions that the composer offers after the character *kind*.

    "/" completes slash commands and the servers' prompts, "@" completes resources, and "!" completes tools to call.
    *views* contains the servers whose prompts, resources and tools are offered.
    """
    match kind:
        case "/":
            commands = [
                CompletionItem("action", one.name, "", f"/{one.slash}", _(one.help)) for one in ACTIONS if one.slash
            ]
            prompts = [offer for view in views for offer in _prompt_completions(view)]
            return [*commands, *prompts, *_alias_completions()]
        case "@":
            return [offer for view in views for offer in _resource_completions(view)]
        case _:
            return [offer for view in views for offer in _tool_completions(view)]


def _alias_completions() -> Iterable[CompletionItem]:
    for word in ALIASES:
        if (action := find_alias(word)) is not None:
            yield CompletionItem("alias", action.name, "", f"/{word}", f"/{action.slash} · {_(action.help)}")


def _prompt_completions(view: "ServerView") -> Iterable[CompletionItem]:
    for prompt in view.catalog.prompts:
        yield CompletionItem(
            "prompt", prompt.name, view.name, f"/{view.name}:{prompt.name}", prompt.description or _("prompt")
        )


def _resource_completions(view: "ServerView") -> Iterable[CompletionItem]:
    for one in view.catalog.resources:
        yield CompletionItem(
            "resource", one.uri, view.name, one.title or one.name or one.uri, f"{view.name} · {one.uri}"
        )


def _tool_completions(view: "ServerView") -> Iterable[CompletionItem]:
    for tool in view.catalog.tools:
        typed = f"!{view.name}/{tool.name}"
        yield CompletionItem("text", typed, view.name, typed, (tool.description or "").split("\n")[0])


class TranslatedCommandPalette(CommandPalette):
    """Textual's command palette, with its built-in messages translated."""

    def __init__(self) -> None:
        super().__init__(placeholder=_("Search for commands…"), id="--command-palette")

    def _start_no_matches_countdown(self, search_value: str) -> None:
        self._stop_no_matches_countdown()
        self._no_matches_timer = self.set_timer(
            self._NO_MATCHES_COUNTDOWN, partial(self._show_no_matches, bool(search_value))
        )

    def _show_no_matches(self, is_search: bool) -> None:
        if is_search:
            text = Align.center(Text(_("No matches found"), style="not bold"))
            self.query_one(CommandList).add_option(Option(text, disabled=True, id=self._NO_MATCHES))
        self._list_visible = is_search


class CommandPaletteProvider(Provider):
    """Source of the command palette's entries: all global actions except the one that opens the palette."""

    async def discover(self) -> Hits:
        """Yield every action; Textual calls this to fill the palette before the user has typed anything."""
        for action in ACTIONS:
            if action.name != "palette":
                yield DiscoveryHit(
                    f"{_(action.title)}  ({self._key(action.name)})",
                    partial(self._run, action.name),
                    help=_(action.help),
                )

    async def search(self, query: str) -> Hits:
        """Yield the actions whose title, label or command matches the query, or whose texts contain all its words."""
        matcher = self.matcher(query)
        words = query.casefold().split()
        for action in ACTIONS:
            # Match any name of the action: "theme" must find "Light or dark".
            names = (_(action.title), _(action.label), action.title, action.label, action.slash)
            score = max(map(matcher.match, names))
            texts = " ".join((*names, *aliases_of(action), action.help, _(action.help))).casefold()
            score = score or 0.1 * all(word in texts for word in words)
            if score and action.name != "palette":
                shown = matcher.highlight(f"{_(action.title)}  ({self._key(action.name)})")
                yield Hit(score, shown, partial(self._run, action.name), help=_(action.help))

    def _key(self, name: str) -> str:
        return keys_in_use(self).short(name)

    async def _run(self, name: str) -> None:
        await self.app.run_action(name)


async def check_arguments(host: "Host", message: ArgumentCheckRequested) -> None:
    """Validate edited arguments against the tool's input schema; pass the errors to `message.on_checked`.

    If the arguments cannot be validated, for example because the server is not connected, the reason is passed instead.
    """
    try:
        fault = await host.tools.validate(message.server, message.tool, message.arguments)
    except McpHostError as error:
        from mcphost.host.tools.schema_validation import SchemaErrors

        fault = SchemaErrors(error.message)
    message.on_checked(fault)
