"""Completions for the composer: commands and prompts after /, resources after @, tools after !."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcphost.tui.keymap import ACTIONS
from mcphost.tui.widgets.composer import CompletionItem

if TYPE_CHECKING:
    from mcphost.host.views import ServerView


def build_completions(kind: str, views: "Iterable[ServerView]") -> list[CompletionItem]:
    """Return the completions for the popup that *trigger* opens."""
    match kind:
        case "/":
            commands = [
                CompletionItem("action", one.name, "", f"/{one.slash}", one.help) for one in ACTIONS if one.slash
            ]
            return [*commands, *(offer for view in views for offer in _prompt_completions(view))]
        case "@":
            return [offer for view in views for offer in _resource_completions(view)]
        case _:
            return [offer for view in views for offer in _tool_completions(view)]


def _prompt_completions(view: "ServerView") -> Iterable[CompletionItem]:
    for prompt in view.catalog.prompts:
        yield CompletionItem(
            "prompt", prompt.name, view.name, f"/{view.name}:{prompt.name}", prompt.description or "prompt"
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
