"""The host's own tools for the model: skills, and the rest of results that were too big for it."""

from collections.abc import Callable, Iterable

from mcphost.host.audit.audit_log import Journal
from mcphost.host.consent.policy import Consent
from mcphost.host.event_queue import Feeds
from mcphost.host.reserved_names import LOAD_SKILL
from mcphost.host.servers.skills import Skills
from mcphost.host.tools.result_review import Reviewing
from mcphost.host.tools.result_tool import ResultTool
from mcphost.host.tools.skill_tool import SkillTool
from mcphost.host.tools.tool_outcome import Called
from mcphost.llm.messages import Message, ToolUsePart
from mcphost.llm.model import ToolSpec
from mcphost.store.results import Results


class OwnTools:
    """Which of them the model is offered now, and the way to each."""

    def __init__(
        self, skills: Skills, consent: Consent, stored: Results, said: Callable[[], Iterable[Message]], feeds: Feeds,
        reviewing: Reviewing, journal: Journal,
    ) -> None:  # fmt: skip
        """`said`: the messages of the open conversation."""
        self.skills = SkillTool(skills, consent, feeds, reviewing, journal)
        self.results = ResultTool(stored, said, feeds, reviewing)

    def specs(self) -> tuple[ToolSpec, ...]:
        """Those that there is something to do for."""
        return (*self.skills.specs(), *self.results.specs())

    def offers(self, name: str) -> bool:
        """Whether the model may call the tool of that name now."""
        return any(spec.name == name for spec in self.specs())

    async def run(self, use: ToolUsePart, why: str) -> Called:
        """One call of one of them. Raises nothing but cancellation."""
        if use.name == LOAD_SKILL:
            return await self.skills.run(use, why)
        return await self.results.run(use, why)
