"""What the next request of the open conversation would contain, measured in tokens of the model's context window."""

from collections.abc import Iterator
from functools import partial

import anyio.to_thread

from mcphost.host.active_conversation import ActiveConversation
from mcphost.host.conversation.model_request import ModelRequestBuilder
from mcphost.host.conversation.request_shares import measure_shares
from mcphost.host.conversation.tool_selection import Preference, ToolSelection
from mcphost.host.model_selection import ModelSelection
from mcphost.llm.messages import Message
from mcphost.llm.token_estimate import estimate_tool_tokens
from mcphost.serialization import Struct
from mcphost.store.spending import TokenShare


class ContextTool(Struct, frozen=True):
    """A tool of a ready server: the estimated tokens of its definition, and whether the next request contains it.

    `server` is "" for a tool of mcphost. `preference` is what the user chose for it.
    """

    server: str
    name: str
    tokens: int
    is_sent: bool
    preference: Preference = "auto"


class ContextReport(Struct, frozen=True, kw_only=True):
    """The estimated parts of the next request.

    `window` is the context window in tokens, an assumed one if `is_assumed`. `counted` is what the provider counted for
    the last request and its answer, 0 if there was none. `tools` has the most expensive definitions first.
    `shortened` is how many results are sent in short form, and `summarized` how many messages as a summary.
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

    @property
    def total(self) -> int:
        """The estimated tokens of the next request."""
        return sum(share.tokens for share in self.shares)


class ContextMeter:
    """The contents of the next request of the open conversation, and the user's choices about its tools."""

    def __init__(
        self,
        requests: ModelRequestBuilder,
        tools: ToolSelection,
        active: ActiveConversation,
        model_selection: ModelSelection,
    ) -> None:
        self._requests = requests
        self._active = active
        self._model_selection = model_selection
        self.tools = tools
        """The selection of tools for the open conversation."""

    async def measure(self) -> ContextReport:
        """Measure what the next request would contain if it were sent now; nothing is sent or changed."""
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
            shares=shares,
            tools=tuple(sorted((*tools, *builtin), key=lambda tool: -tool.tokens)),
            messages=len(conversation.messages) - conversation.covered,
            shortened=sum(1 for _ in _iter_shortened(conversation.messages, request.messages)),
            summarized=conversation.covered,
            system=request.system,
        )


def _find_count(messages: list[Message], since: float) -> int:
    for message in reversed(messages):
        if message.usage is not None and message.usage.input_tokens:
            usage = message.usage
            return usage.input_tokens + usage.output_tokens if message.at > since else 0
    return 0


def _iter_shortened(stored: list[Message], sent: tuple[Message, ...]) -> Iterator[str]:
    """Yield the id of the call of each result that is sent in short form."""
    # A summary takes the place of the first messages, so both are compared from the end.
    for before, after in zip(reversed(stored), reversed(sent), strict=False):
        if after is not before:
            pairs = zip(before.results, after.results, strict=False)
            yield from (whole.use_id for whole, short in pairs if whole.text != short.text)
