"""Notices in the chat's transcript about servers that fail, need a sign-in, or are ready again."""

from typing import TYPE_CHECKING, Protocol

from mcphost.errors import join_sentences
from mcphost.translation import _, translate_sentence
from mcphost.tui.key_table import KeyTable
from mcphost.tui.screen_text import clean_line

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mcphost.host.events import ServerState
    from mcphost.tui.transcript.blocks import TranscriptBlock
    from mcphost.tui.transcript.tool_card import ToolCard


_RECENT_BLOCKS = 10


class AddNoticeFn(Protocol):
    """Type of the function that adds a notice to the transcript."""

    def __call__(self, level: str, text: str, hint: str = "") -> None:
        """Add a notice; *level* is "info", "warning" or "error"."""
        ...


class ServerNotices:
    """Reporter that adds a notice if a server fails, needs a sign-in or is ready again.

    A problem is reported once, and again only if the server has been "ready" or "waiting" since then. If the card of a
    failed tool call above the notice already shows the cause, the notice refers to the card instead of repeating the
    cause. *add_notice* adds a notice to the transcript, and *list_blocks* returns its blocks.
    """

    def __init__(self, add_notice: AddNoticeFn, list_blocks: "Callable[[], Sequence[TranscriptBlock]]" = tuple) -> None:
        self._add_notice = add_notice
        self._list_blocks = list_blocks
        self._last_problem: dict[str, str] = {}
        """The last reported problem of each server that has not been ready since; "" if it may be reported again."""
        self._earlier: set[str] = set()
        """Ids of recent failed calls that are not named as the cause of a later problem of their server."""

    def report(self, event: "ServerState", keys: KeyTable) -> None:
        """Add a notice if the user should know about a server's problem, or if the server is ready again.

        *keys* is used to name keys in the notice, for example the key for restarting the server.
        """
        server = event.server
        if event.state == "ready":
            self._forget_failed_calls(server)
            if self._last_problem.pop(server, None) is not None:
                self._add_notice("info", _("{server} is ready now.").format(server=server))
        elif event.state == "waiting":
            if server in self._last_problem:
                self._last_problem[server] = ""
        elif event.state in ("failed", "sign_in", "unreachable"):
            detail = translate_sentence(event.detail) or _("the server failed.")
            named = detail if server in detail else f"{server}: {detail}"
            if self._last_problem.get(server) != named:
                self._last_problem[server] = named
                if event.state != "sign_in" and (tool := self._find_failed_tool(server, event.detail)):
                    text = _("{server} failed during the call of {tool} above, which says why.")
                    named = text.format(server=server, tool=tool)
                self._forget_failed_calls(server)
                self._add_notice(_choose_level(event), named, _describe_remedy(event, keys))

    def _find_failed_tool(self, server: str, cause: str) -> str:
        """Return the name of the server's tool that has just failed because of *cause*, or "" if there is none."""
        cards = self._list_failed_cards(server) if cause else ()
        found = (card.tool for card in cards if card.call not in self._earlier and cause in card.result)
        return clean_line(next(found, ""), 60)

    def _forget_failed_calls(self, server: str) -> None:
        """Make later notices ignore the server's failed calls so far, because these cannot explain a later problem."""
        recent = {card.call for card in self._list_failed_cards()}
        self._earlier = (self._earlier & recent) | {card.call for card in self._list_failed_cards(server)}

    def _list_failed_cards(self, server: str = "") -> "list[ToolCard]":
        """Return the cards of failed calls of *server*, or of all servers, among the newest blocks."""
        from mcphost.tui.transcript.tool_card import ToolCard

        blocks = self._list_blocks()[-_RECENT_BLOCKS:]
        cards = [block for block in blocks if isinstance(block, ToolCard) and block.state == "failed"]
        return [card for card in cards if server in ("", card.server)]


def _choose_level(event: "ServerState") -> str:
    if event.by_user:
        return "info"
    return "warning" if event.state == "unreachable" else "error"


def _describe_remedy(event: "ServerState", keys: KeyTable) -> str:
    """Return a hint that describes how to solve a server's problem, or "" if there is none.

    The returned hint names the key for signing in to the server or for restarting the server. It ends with the hint of
    *event*, if any, for example that mcphost itself will restart the server.
    """
    from mcphost.host.servers.status import NEW_START_WORDS, RESTART_HINT, WATCHED_HINT  # loaded with the host

    way = ""
    if event.state == "sign_in":
        way = keys.fill(_("Press {servers-sign-in} on the servers page ({servers}) to sign in."))
    elif event.state == "failed" and not (
        event.retry_seconds or NEW_START_WORDS in event.hint or event.hint.startswith(WATCHED_HINT)
    ):
        way = keys.fill(_("Press {servers-restart} on the servers page ({servers}) to restart it."))
    hint = "" if way and event.hint == RESTART_HINT else translate_sentence(event.hint)
    return join_sentences(way, hint)
