"""Context report: an estimate of the size of the next model request in tokens, for each part of it."""

from collections.abc import Iterator, Sequence
from functools import partial

import anyio.to_thread

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.budget.token_shares import measure_shares
from mcphost.host.conversation.instructions import Instructions
from mcphost.host.conversation.model_request import ModelRequestBuilder
from mcphost.host.conversation.result_shortening import ResultShortening
from mcphost.host.conversation.summarizer import SummaryStage
from mcphost.host.conversation.tool_selection import Preference, ToolSelection
from mcphost.host.event_bus import EventBus
from mcphost.host.model_selection import ModelSelection
from mcphost.host.page_contexts import PageContexts
from mcphost.host.runtime_settings import RuntimeSettings
from mcphost.host.servers.servers import Servers, ServerStartup
from mcphost.host.servers.tool_registry import ToolRegistry
from mcphost.host.servers.tool_toggles import ToolToggles
from mcphost.host.tools.builtin_tools import BuiltinTools
from mcphost.llm.messages import Message
from mcphost.llm.model import TokenShare
from mcphost.llm.token_estimate import estimate_part_tokens, estimate_tool_tokens
from mcphost.serialization import Struct


class ContextTool(Struct, frozen=True):
    """A tool, the estimated size of its definition in tokens, and whether the next request contains it.

    `server` is "" for a built-in tool of mcphost. `preference` is the user's choice for the tool (see
    `ToolSelection.prefer`).
    """

    server: str
    name: str
    tokens: int
    is_sent: bool
    preference: Preference = "auto"


class ContextReport(Struct, frozen=True, kw_only=True):
    """The estimated contents of the next model request.

    - `window`: the size of the model's context window in tokens, or an assumed size.
    - `is_assumed`: whether `window` is assumed, because the size is unknown.
    - `counted`: the provider's token count for the last request and its response; 0 if it is unknown.
    - `tools`: the tools, largest definition first.
    - `shortened`: the number of tool results that the request contains in shortened form.
    - `summarized`: the number of messages that a summary replaces.
    """

    window: int
    is_assumed: bool = False
    model: str = ""
    counted: int = 0
    shares: tuple[TokenShare, ...] = ()
    tools: tuple[ContextTool, ...] = ()
    messages: int = 0
    shortened: int = 0
    summarized: int = 0
    system: str = ""
    uses_project_instructions: bool = True
    """Whether the AGENTS.md files of the project are read; see the setting `project_instructions`."""

    @property
    def total(self) -> int:
        """The estimated total size of the next model request in tokens."""
        return sum(share.tokens for share in self.shares)


class ContextMeter:
    """Meter that estimates how many tokens each part of the open conversation's next model request takes."""

    def __init__(
        self,
        requests: ModelRequestBuilder,
        tools: ToolSelection,
        active: ActiveConversation,
        model_selection: ModelSelection,
        instructions: Instructions,
    ) -> None:
        self._requests = requests
        self._active = active
        self._model_selection = model_selection
        self._instructions = instructions
        self.tools = tools
        """The selection of tools that the open conversation's requests offer."""

    async def measure(self) -> ContextReport:
        """Measure the request that would be sent now, without sending or changing anything."""
        conversation = self._active.current
        request = self._requests.preview(conversation)
        shares = await anyio.to_thread.run_sync(partial(measure_shares, request, self._requests.find_server))
        sent = {spec.name for spec in request.tools}
        tools = [
            ContextTool(
                offer.server,
                offer.tool,
                estimate_tool_tokens(offer.spec),
                offer.spec.name in sent,
                self.tools.preference(offer.server, offer.tool),
            )
            for offer in self.tools.list_offers()
        ]
        builtin = [
            ContextTool("", spec.name, estimate_tool_tokens(spec), True)
            for spec in request.tools
            if not self._requests.find_server(spec.name)
        ]
        model = self._model_selection.model
        return ContextReport(
            window=self._model_selection.window,
            is_assumed=model is None or not model.facts.context_window,
            model=model.name if model is not None else "",
            counted=_find_count(conversation.messages, conversation.beginning_changed_at),
            shares=(*shares, *_measure_contexts(self._active.page_contexts)),
            tools=tuple(sorted((*tools, *builtin), key=lambda tool: -tool.tokens)),
            messages=len(conversation.messages) - conversation.covered,
            shortened=sum(1 for _ in _iter_shortened(conversation.messages, request.messages)),
            summarized=conversation.covered,
            system=request.system,
            uses_project_instructions=self._instructions.uses_project,
        )


def _measure_contexts(contexts: PageContexts) -> Iterator[TokenShare]:
    """Yield the estimated size of each page context that is sent with the next user message."""
    for waiting in contexts.waiting:
        yield TokenShare("attachments", waiting.part.server, tokens=estimate_part_tokens(waiting.part))


def _find_count(messages: Sequence[Message], since: float) -> int:
    for message in reversed(messages):
        if message.usage is not None and message.usage.input_tokens:
            usage = message.usage
            return usage.input_tokens + usage.output_tokens if message.at > since else 0
    return 0


def _iter_shortened(stored: Sequence[Message], sent: tuple[Message, ...]) -> Iterator[str]:
    """Yield the call id of each tool result that is shorter in the request than in the stored message."""
    # A summary replaces the first messages, so both sequences are compared from the end.
    for before, after in zip(reversed(stored), reversed(sent), strict=False):
        if after is not before:
            pairs = zip(before.results, after.results, strict=False)
            yield from (whole.use_id for whole, short in pairs if whole.text != short.text)


class RequestParts:
    """The request builder with its stages, and the meter that measures the requests it builds."""

    def __init__(  # noqa: PLR0913 - what the stages need
        self,
        settings: RuntimeSettings,
        *,
        conversation: ActiveConversation,
        model_selection: ModelSelection,
        events: EventBus,
        servers: Servers,
        startup: ServerStartup,
        tool_registry: ToolRegistry,
        tool_toggles: ToolToggles,
        builtin_tools: BuiltinTools,
        instructions: Instructions,
    ) -> None:
        tools = ToolSelection(
            settings,
            tool_registry=tool_registry,
            tool_toggles=tool_toggles,
            builtin_tools=builtin_tools,
            conversation=conversation,
            model_selection=model_selection,
            events=events,
        )
        shortening = ResultShortening(
            settings,
            active=conversation,
            model_selection=model_selection,
            result_tool=builtin_tools.result_tool,
            events=events,
        )
        self.builder = ModelRequestBuilder(
            settings,
            servers=servers,
            startup=startup,
            tools=tools,
            model_selection=model_selection,
            instructions=instructions,
            shortening=shortening,
            message_stages=(SummaryStage(),),
        )
        self.context = ContextMeter(self.builder, tools, conversation, model_selection, instructions)
