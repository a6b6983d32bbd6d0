"""Notices about never-rules (rules that forbid tool calls) for tools that their server does not have."""

from collections.abc import Callable, Iterable

from mcphost.config.rules import Rule
from mcphost.config.schema import ServerConfig
from mcphost.host.builtin_tool_names import LOAD_SKILL
from mcphost.host.event_bus import EventBus


class NeverRuleNotices:
    """Notices that warn the user, once for each never-rule, if the rule has no effect because no server has its tool.

    No notices are shown before `start` is called; commands that report such rules themselves do not call it.
    """

    def __init__(
        self, list_rules: Callable[[], tuple[Rule, ...]], events: EventBus, servers: Iterable[ServerConfig]
    ) -> None:
        self._list_rules = list_rules
        self._events = events
        self._configured = frozenset(server.name for server in servers if not server.disabled)
        self._tools: dict[str, list[str]] = {}
        self._reported: set[str] = set()
        self._is_started = False

    def start(self) -> None:
        """Show notices from now on, beginning with the next call of `handle_tools`."""
        self._is_started = True

    def handle_tools(self, server: str, tools: Iterable[str]) -> None:
        """Record the tools of *server*, and report the never-rules that match no tool.

        A rule that can also match tools of other configured servers is reported only when their tools are known, too.
        """
        self._tools[server] = [*tools, LOAD_SKILL]
        rules = self._list_rules()
        if not self._is_started or not rules:
            return
        from mcphost.config.rule_warnings import find_rules_without_tool

        undecided = self._configured - self._tools.keys()
        for text in find_rules_without_tool(rules, self._tools, undecided):
            if text not in self._reported:
                self._reported.add(text)
                self._events.notify("warning", text)
