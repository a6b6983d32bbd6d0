"""Selection of the tools that a request offers to the model, in an order that providers' caches keep."""

from mcphost.config.schema import Limits
from mcphost.host.events import EventBus
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.llm.model import ToolSpec


class ToolSelection:
    """The tools of ready servers and the built-in ones, without those of servers that a conversation leaves out."""

    def __init__(
        self, limits: Limits, tool_registry: ToolRegistry, builtin_tools: BuiltinTools, events: EventBus
    ) -> None:
        self._max_tools = limits.tools_to_model
        self._tool_registry = tool_registry
        self._builtin_tools = builtin_tools
        self._events = events
        self._reported_left_out = 0
        self._left_out: set[tuple[str, str]] = set()
        self._ordered_conversation = ""
        self._tool_order: dict[str, int] = {}

    def select(self, conversation: str) -> tuple[ToolSpec, ...]:
        """Return the tools to offer in the next request of a conversation."""
        return self._keep_order(conversation, self._without_left_out(conversation, self._tool_specs()))

    def leave_out(self, conversation: str, server: str) -> None:
        """Leave the tools of a server out of the requests of a conversation, until mcphost exits."""
        self._left_out.add((conversation, server))

    def find_server(self, name: str) -> str:
        """Return the server of a tool by its name for the model, "" for a tool of mcphost."""
        return self._tool_registry.find_server(name)

    def _without_left_out(self, conversation: str, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        if not self._left_out:
            return specs
        return tuple(spec for spec in specs if (conversation, self.find_server(spec.name)) not in self._left_out)

    def _keep_order(self, conversation: str, specs: tuple[ToolSpec, ...]) -> tuple[ToolSpec, ...]:
        """Return the tools in the same order as in earlier requests of the conversation, followed by new ones.

        Providers cache the beginning of a request, which contains the tools.
        """
        if self._ordered_conversation != conversation:
            self._ordered_conversation, self._tool_order = conversation, {}
        for spec in specs:
            self._tool_order.setdefault(spec.name, len(self._tool_order))
        return tuple(sorted(specs, key=lambda spec: self._tool_order[spec.name]))

    def _tool_specs(self) -> tuple[ToolSpec, ...]:
        limit = self._max_tools
        left_out = len(self._tool_registry.available_tools()) - limit
        if left_out > 0 and left_out != self._reported_left_out:
            self._events.notify(
                "warning",
                f"{left_out} tools are not offered to the model: it gets {limit} at most.",
                "Disable servers that this conversation does not need.",
            )
            self._reported_left_out = left_out
        builtin_specs = self._builtin_tools.specs()
        return (*self._tool_registry.specs(limit - len(builtin_specs)), *builtin_specs)
