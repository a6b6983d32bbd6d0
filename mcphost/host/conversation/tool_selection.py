"""Selection of the tools offered to the model, in a stable order so that providers can cache requests.

If all definitions would take too much of the context window, only some are sent: the definitions of built-in
and pinned tools, and of tools that the conversation has used or found. The other tools are deferred: the model
finds them with `search_tools`, and calls to them run through the usual pipeline.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Literal

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.builtin_tool_names import SEARCH_TOOLS
from mcphost.host.event_bus import EventBus
from mcphost.host.events import ToolsSelected
from mcphost.host.model_selection import ModelSelection
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.tool_registry import ToolOffer, ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.host.tools.tool_search import parse_matches
from mcphost.llm.messages import ToolReturnPart
from mcphost.llm.model import ToolSpec
from mcphost.llm.token_estimate import estimate_tool_tokens
from mcphost.sanitize import sanitize_line

MAX_NAMED_SERVERS = 50
Preference = Literal["auto", "pinned", "deferred"]
PinnedBy = Literal["", "setting", "user"]


class ToolSelection:
    """Selection of the tools that the open conversation's requests offer to the model."""

    def __init__(
        self,
        settings: RuntimeSettings,
        *,
        tool_registry: ToolRegistry,
        tool_toggles: ToolToggles,
        builtin_tools: BuiltinTools,
        conversation: ActiveConversation,
        model_selection: ModelSelection,
        events: EventBus,
    ) -> None:
        self._settings = settings
        self._tool_registry = tool_registry
        self._tool_toggles = tool_toggles
        self._builtin_tools = builtin_tools
        self._conversation = conversation
        self._model_selection = model_selection
        self._events = events
        self._reported_left_out = 0
        self.deferred: tuple[ToolOffer, ...] = ()
        """The tools that the last selection deferred."""

        self._reset()
        conversation.on_replaced(self._reset)
        conversation.on_rewound(self._scan_again)
        builtin_tools.search_tool.on_found = self._add_found

    def _reset(self) -> None:
        self._tool_order: dict[str, int] = {}
        self._scanned = 0
        self._wanted: dict[str, None] = {}
        self._preferences: dict[tuple[str, str], Preference] = {}
        self._is_deferring = self._is_searchable = False
        self._reported = ToolsSelected(0, 0)

    def _scan_again(self) -> None:
        self._scanned = 0

    def _add_found(self, names: Iterable[str]) -> None:
        self._wanted.update(dict.fromkeys(names))

    def select(self) -> tuple[ToolSpec, ...]:
        """Return the tools to offer in the next request of the open conversation."""
        self._tool_registry.forget_removed(self._find_used_names)
        sent = self._defer(self.list_offers())
        self._report_omitted(len(sent))
        builtin_specs = self._builtin_tools.specs()
        specs = (
            *(offer.spec for offer in sent[: self._settings.limits.tools_to_model - len(builtin_specs)]),
            *builtin_specs,
        )
        report = ToolsSelected(len(specs), len(self.deferred))
        if report != self._reported and (report.deferred or self._reported.deferred):
            self._reported = report
            self._events.publish(report)
        return self._keep_order(specs)

    def _find_used_names(self) -> frozenset[str]:
        return frozenset(use.name for message in self._conversation.messages for use in message.tool_uses)

    def describe_deferred(self) -> str:
        """Return the system prompt section about tools whose definitions are not sent, "" if there are none.

        The section states how many tools each server has in total, so that it does not change with each search;
        providers cache the beginning of requests.
        """
        if not self._is_searchable:
            return ""
        servers = Counter(offer.server for offer in self.list_offers())
        named = [f"{sanitize_line(name, 100)} ({count})" for name, count in servers.items()]
        more = f" and {len(named) - MAX_NAMED_SERVERS} more" if len(named) > MAX_NAMED_SERVERS else ""
        return (
            f"Servers and their numbers of tools: {', '.join(named[:MAX_NAMED_SERVERS])}{more}. Most of these tools "
            f"are not in your list of tools. Search for them with {SEARCH_TOOLS} before you say that you cannot do "
            "something."
        )

    # -- choices of the user for the open conversation
    def prefer(self, server: str, tool: str, preference: Preference) -> None:
        """Set the user's choice for a tool in the open conversation, or for a whole server if *tool* is "".

        With "pinned", the tool's definition is always sent. With "deferred", it is not sent until the model has found
        the tool by searching. With "auto", the size of all definitions decides whether it is deferred.
        """
        for key in [key for key in self._preferences if key[0] == server and tool in ("", key[1])]:
            del self._preferences[key]
        self._preferences[server, tool] = preference
        if preference != "pinned":
            names = {offer.spec.name for offer in self._tool_registry.list_offers() if offer.server == server}
            forgotten = {self._tool_registry.model_name(server, tool)} if tool else names
            self._wanted = {name: None for name in self._wanted if name not in forgotten}

    def defer(self, server: str) -> None:
        """Defer all tools of a server, even pinned ones, in the open conversation.

        The definition of a deferred tool is not sent until the model has found the tool by searching. This applies
        until the user makes another choice with `prefer`.
        """
        self.prefer(server, "", "deferred")
        for offer in self.list_offers():
            if offer.server == server and self.preference(server, offer.tool) == "pinned":
                self.prefer(server, offer.tool, "deferred")

    def preference(self, server: str, tool: str) -> Preference:
        """Return the choice in effect for a tool, or for a whole server if *tool* is "": auto, pinned or deferred."""
        if (chosen := self._preferences.get((server, tool))) is not None:
            return chosen
        pinned_by = self.pinned_by(server, tool) if tool else ""
        if pinned_by == "user":
            return "pinned"
        return self._preferences.get((server, ""), "pinned" if pinned_by else "auto")

    def pinned_by(self, server: str, tool: str) -> PinnedBy:
        """Return what pins a tool in all conversations: "user" or "setting", or "" if it is not pinned."""
        if self._tool_toggles.is_pinned(server, tool):
            return "user"
        is_listed = any(fnmatchcase(f"{server}/{tool}", pattern) for pattern in self._settings.context.pinned_tools)
        return "setting" if is_listed else ""

    async def pin(self, server: str, tool: str, *, pinned: bool) -> None:
        """Pin or unpin a tool in all conversations.

        The user's choice for this tool in the open conversation, if any, is removed (see `prefer`).
        """
        self._preferences.pop((server, tool), None)
        await self._tool_toggles.set_pinned(server, tool, pinned=pinned)

    def list_offers(self) -> tuple[ToolOffer, ...]:
        """Return the tools of ready servers that may be offered in requests of the open conversation."""
        return self._tool_registry.list_offers()

    def find_server(self, name: str) -> str:
        """Return the server whose tool is offered to the model as *name*, or "" for a built-in tool of mcphost."""
        return self._tool_registry.find_server(name)

    # -- deferral
    def _defer(self, offers: Sequence[ToolOffer]) -> list[ToolOffer]:
        """Return those *offers* whose definitions are sent; store the others in `deferred`."""
        self._scan_messages()
        # Deferral stays on in a conversation, because its earlier requests are in the provider's cache.
        self._is_deferring = self._is_deferring or self._is_too_much(offers)
        sent: list[ToolOffer] = []
        deferred: list[ToolOffer] = []
        for offer in offers:
            preference = self.preference(offer.server, offer.tool)
            is_wanted = offer.spec.name in self._wanted or preference == "pinned"
            is_sent = is_wanted or (preference == "auto" and not self._is_deferring)
            (sent if is_sent else deferred).append(offer)
        if deferred != list(self.deferred):
            self.deferred = tuple(deferred)
        self._is_searchable = self._is_deferring or bool(deferred)
        self._builtin_tools.search_tool.set_deferred(self.deferred, is_searchable=self._is_searchable)
        return sent

    def _is_too_much(self, offers: Sequence[ToolOffer]) -> bool:
        if len(offers) > self._settings.context.max_tools:
            return True
        tokens = sum(estimate_tool_tokens(offer.spec) for offer in offers)
        return tokens > self._settings.context.tool_share * self._model_selection.window

    def _scan_messages(self) -> None:
        """Remember the tools that the model called or found by search in messages added since the last scan."""
        messages = self._conversation.messages
        for message in messages[self._scanned :]:
            self._wanted.update(dict.fromkeys(use.name for use in message.tool_uses))
            for part in message.parts:
                if isinstance(part, ToolReturnPart) and part.name == SEARCH_TOOLS and not part.server:
                    self._wanted.update(dict.fromkeys(parse_matches(part.text)))
        self._scanned = len(messages)

    def _report_omitted(self, count: int) -> None:
        limit = self._settings.limits.tools_to_model
        omitted = count - limit
        if omitted > 0 and omitted != self._reported_left_out:
            self._events.notify(
                "warning",
                f"The model gets {limit} of {count} tools.",
                "Disable servers that this conversation does not need.",
            )
            self._reported_left_out = omitted

    def _keep_order(self, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """Return the tools in the order of the conversation's earlier requests, followed by new tools.

        The order is kept because providers cache the beginning of a request, which contains the tools.
        """
        for spec in specs:
            self._tool_order.setdefault(spec.name, len(self._tool_order))
        return tuple(sorted(specs, key=lambda spec: self._tool_order[spec.name]))
