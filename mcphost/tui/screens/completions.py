"""What the composer's popups hold: commands and prompts after /, resources after @, tools after !."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcphost.tui.keymap import ACTIONS
from mcphost.tui.widgets.composer import Offer

if TYPE_CHECKING:
    from mcphost.host.views import ServerView


def offers(kind: str, views: "Iterable[ServerView]") -> list[Offer]:
    """Those of the popup that this character opens."""
    match kind:
        case "/":
            commands = [Offer("action", one.name, "", f"/{one.slash}", one.help) for one in ACTIONS if one.slash]
            return [*commands, *(offer for view in views for offer in _prompts(view))]
        case "@":
            return [offer for view in views for offer in _resources(view)]
        case _:
            return [offer for view in views for offer in _tools(view)]


def _prompts(view: "ServerView") -> Iterable[Offer]:
    for prompt in view.catalog.prompts:
        yield Offer("prompt", prompt.name, view.name, f"/{view.name}:{prompt.name}", prompt.description or "prompt")


def _resources(view: "ServerView") -> Iterable[Offer]:
    for one in view.catalog.resources:
        yield Offer("resource", one.uri, view.name, one.title or one.name or one.uri, f"{view.name} · {one.uri}")


def _tools(view: "ServerView") -> Iterable[Offer]:
    for tool in view.catalog.tools:
        typed = f"!{view.name}/{tool.name}"
        yield Offer("text", typed, view.name, typed, (tool.description or "").split("\n")[0])
