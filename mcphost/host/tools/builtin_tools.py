"""The host's own tools for the model: skills, and the rest of truncated results."""

from collections.abc import Callable, Iterable

from mcphost.host.audit.audit_log import AuditLog
from mcphost.host.consent.policy import ConsentPolicy
from mcphost.host.event_queue import EventBus
from mcphost.host.reserved_names import LOAD_SKILL
from mcphost.host.servers.skills import Skills
from mcphost.host.tools.result_review import ResultReviewer
from mcphost.host.tools.result_tool import ResultTool
from mcphost.host.tools.skill_tool import SkillTool
from mcphost.host.tools.tool_outcome import ToolCallOutcome
from mcphost.llm.messages import Message, ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.store.results import ResultStore


class BuiltinTools:
    """The host's own tools: which ones are offered now, and their calls."""

    def __init__(
        self,
        skills: Skills,
        consent: ConsentPolicy,
        result_store: ResultStore,
        messages: Callable[[], Iterable[Message]],
        events: EventBus,
        reviewer: ResultReviewer,
        audit: AuditLog,
    ) -> None:
        """*messages* returns the messages of the open conversation."""
        self.skill_tool = SkillTool(skills, consent, events, reviewer, audit)
        self.result_tool = ResultTool(result_store, messages, events, reviewer)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Return the tools that have something to do."""
        return (*self.skill_tool.specs(), *self.result_tool.specs())

    def has_tool(self, name: str) -> bool:
        """Return whether the model may call the tool of this name now."""
        return any(spec.name == name for spec in self.specs())

    async def run(self, use: ToolUsePart, why: str) -> ToolCallOutcome:
        """Run one call of a builtin tool. Raises nothing but cancellation."""
        if use.name == LOAD_SKILL:
            return await self.skill_tool.run(use, why)
        return await self.result_tool.run(use, why)
