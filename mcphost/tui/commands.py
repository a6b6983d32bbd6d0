"""Slash commands, and completions for the composer."""

import difflib
import re
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from mcphost.errors import McpHostError
from mcphost.translation import N_, _
from mcphost.tui.actions import ACTIONS
from mcphost.tui.command_names import ALIASES, find_alias
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

    *names* are the known commands, with their slashes; the error message suggests the most similar command. If
    *text* is a known command followed by other text, the error message states that the command takes no arguments.
    Text that begins with a space, or with a path such as `/etc/hosts`, is an ordinary message.
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

    "/" completes slash commands and the servers' prompts, "@" completes resources and resource templates, and "!"
    completes tools to call. *views* contains the servers whose prompts, resources, templates and tools are offered.
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
    for template in view.catalog.templates:
        uri_template = template.uri_template
        title = template.title or template.name or uri_template
        detail = _("{server} · template {uri_template}").format(server=view.name, uri_template=uri_template)
        yield CompletionItem("template", uri_template, view.name, title, detail)


def _tool_completions(view: "ServerView") -> Iterable[CompletionItem]:
    for tool in view.catalog.tools:
        typed = f"!{view.name}/{tool.name}"
        yield CompletionItem("text", typed, view.name, typed, (tool.description or "").split("\n")[0])


async def check_arguments(host: "Host", message: ArgumentCheckRequested) -> None:
    """Validate edited arguments against the tool's input schema; pass the errors to `message.on_checked`.

    If the arguments cannot be validated, for example because the server is not connected, the reason is passed instead.
    """
    try:
        fault = await host.tools.validate(message.server, message.tool, message.arguments)
    except McpHostError as error:
        from mcphost.host.server_views import SchemaErrors

        fault = SchemaErrors(error.message)
    message.on_checked(fault)
