"""The tool-call pipeline: what decides on tool calls, runs them, and runs the turns around them."""

from collections.abc import Callable
from typing import NamedTuple

from anyio.abc import TaskGroup

from mcphost.config.schema import HostConfig
from mcphost.errors import StoreError
from mcphost.host.audit.audit_log import Journal
from mcphost.host.consent.active_grants import Standing
from mcphost.host.consent.auto_approve import Autonomy
from mcphost.host.consent.grants import Permissions
from mcphost.host.consent.policy import Consent, Written
from mcphost.host.consent.rule_matching import Matching
from mcphost.host.conversation.conversation import Conversation
from mcphost.host.conversation.system_prompt import system_prompt
from mcphost.host.conversation.turn import Turn
from mcphost.host.conversation.turn_queue import Turns
from mcphost.host.event_queue import Feeds
from mcphost.host.model_selection import Answering
from mcphost.host.questions.frontend import Front
from mcphost.host.questions.question_budget import OpenQuestions
from mcphost.host.servers.features import Features
from mcphost.host.servers.orphaned_tasks import LeftTasks
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.startup_wait import ServerStartup
from mcphost.host.servers.tool_registry import Toolbox
from mcphost.host.tools.builtin_tools import OwnTools
from mcphost.host.tools.executor import Performing
from mcphost.host.tools.pipeline import ToolCalls
from mcphost.host.tools.result_review import Reviewing
from mcphost.llm.model import ChatModel, ModelRequest, ToolSpec
from mcphost.sandbox.schema_validator import Checker
from mcphost.store.conversations import Conversations
from mcphost.store.grants import Grants
from mcphost.store.results import Results
from mcphost.store.roots import FolderAnswers


class Surroundings(NamedTuple):
    """What the pipeline shares with the rest of the host.

    `conversation` returns the open one; `tell` gets level, text and hint for the person.
    """

    answering: Answering
    conversation: Callable[[], Conversation]
    features: Features
    feeds: Feeds
    folders: FolderAnswers
    front: Front
    grants: Grants
    journal: Journal
    left: LeftTasks
    questions: OpenQuestions
    results: Results
    saved: Conversations
    servers: Servers
    startup: ServerStartup
    tell: Callable[[str, str, str], None]
    toolbox: Toolbox


class Pipeline:
    """Everything from a message to a result, wired together.

    The host makes it, and loads its modules, with the first message, call or look at grants: until then a chat only
    connects servers.
    """

    _told_tools = 0

    def __init__(self, config: HostConfig, host: Surroundings) -> None:
        self._config, self._host = config, host
        conversation, feeds, front, journal = host.conversation, host.feeds, host.front, host.journal
        self.checker = Checker()
        matching = Matching(self.checker)
        self.standing = Standing(host.grants, matching, lambda: conversation().id, self._tell_store)
        self.autonomy = Autonomy(lambda: host.toolbox.all().values(), conversation, feeds, journal)
        written = Written(config.allow, config.never, config.settings_file)
        self.consent = Consent(self.standing, front, matching, written, journal, self.autonomy.allows)
        reviewing = Reviewing(front, journal, feeds, host.servers, matching, config.passes, host.questions)
        self._own = OwnTools(host.features.skills, self.consent, host.results, lambda: tuple(conversation().messages),
                             feeds, reviewing, journal)  # fmt: skip
        self.performing = Performing(feeds, self.checker, self._own.results, host.left, journal, self.standing.stands)
        self.calls = ToolCalls(
            host.toolbox, self.consent, feeds, self.checker, self._own, self.performing, reviewing,
            config.limits.parallel_calls)  # fmt: skip
        self.permissions = Permissions(host.grants, host.saved, matching, host.servers, self.standing, journal,
                                       host.folders)  # fmt: skip
        self.turns = Turns(self._turn, conversation, host.answering, feeds, reviewing, host.startup.wait)

    def own(self, tasks: TaskGroup) -> None:
        """Run everything in this group from now on."""
        tasks.start_soon(self.standing.write_uses, name="uses of grants")
        self.turns.own(tasks)
        self.autonomy.own(tasks)

    async def close(self) -> None:
        """End the process that checks schemas."""
        await self.checker.close()

    def _turn(self, number: int, model: ChatModel) -> Turn:
        return Turn(
            number, model=model, request=self._request, conversation=self._host.conversation(), calls=self.calls,
            telling=(self._host.feeds, self._host.front), limits=self._config.limits,
            autonomy=self.autonomy,
        )  # fmt: skip

    def _request(self) -> ModelRequest:
        self._host.startup.tell_joined()
        return ModelRequest(
            messages=tuple(self._host.conversation().messages),
            system=system_prompt(self._config.system_prompt, self._host.servers),
            tools=self._specs(),
            max_output_tokens=self._host.answering.config.max_output_tokens,
        )

    def _specs(self) -> tuple[ToolSpec, ...]:
        limit = self._config.limits.tools_to_model
        left_out = len(self._host.toolbox.all()) - limit
        if left_out > 0 and left_out != self._told_tools:
            self._host.tell("warning", f"{left_out} tools are not offered to the model: it gets {limit} at most.",
                       "Disable servers that this conversation does not need.")  # fmt: skip
            self._told_tools = left_out
        own = self._own.specs()
        return (*self._host.toolbox.specs(limit - len(own)), *own)

    def _tell_store(self, error: StoreError) -> None:
        self._host.tell("error", error.message, error.hint)
