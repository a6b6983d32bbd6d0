"""Model requests for the tests, and the provider APIs to which they are sent."""

import base64
from typing import Any

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.llm.litellm_model import LiteLlmModel, ModelDeadlines
from mcphost.llm.messages import Message, ToolUsePart
from mcphost.llm.model import ModelEvent, ModelRequest, StreamFinished, TextDelta, ThinkingDelta, ToolSpec, ToolUseReady
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw
from tests.fakes.model import user_message

KEY = "sk-test-0123456789abcdefghij"
PICTURE = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"0" * 40).decode()
API_ROUTES = {
    "openai": ("openai/gpt-4o", "/v1", "auto"),
    "responses": ("openai/gpt-5", "/v1", "responses"),
    "anthropic": ("anthropic/claude-sonnet-4-5", "", "auto"),
    "gemini": ("gemini/gemini-2.5-pro", "/v1beta", "auto"),
    "ollama": ("ollama_chat/llama3.1", "", "auto"),
    "compatible": ("openai/some-local-model", "/v1", "auto"),
}
"""The model, the path of its address and the API of each road; "compatible" is a server that litellm does not know."""
TOOLS = (
    # pretty-printed on purpose: schemas arrive as the server wrote them, and travel on one line
    ToolSpec("fs__read", "Read a file", Raw(b'{"type": "object",\r\n "properties": {"path": {"type": "string"}}}')),
    ToolSpec("web__get", "Get a page", Raw(b'{"type":"object","properties":{"url":{"type":"string"}}}')),
)


class ModelRound:
    """The result of one round with a model."""

    def __init__(self) -> None:
        self.events: list[ModelEvent] = []
        self.error: ModelError | None = None

    def events_of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events_of(TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events_of(ThinkingDelta))

    @property
    def uses(self) -> list[ToolUsePart]:
        return [event.use for event in self.events_of(ToolUseReady)]

    @property
    def finished(self) -> StreamFinished:
        assert self.error is None, self.error
        return self.events_of(StreamFinished)[0]


def create_model(route: str, base: str, worker: WorkerProcess, **deadlines: float) -> LiteLlmModel:
    name, path, api = API_ROUTES[route]
    config = ModelConfig(name=name, api_base=base + path, api=api, api_key_env="TEST_KEY")
    return LiteLlmModel(
        config, worker, environ={"TEST_KEY": KEY}, deadlines=ModelDeadlines(**{"retry_delay": 0.01, **deadlines})
    )


def always_has_list_prices(_config: ModelConfig) -> bool:
    """Stand in for `providers.has_list_prices`, which knows that a test's server is not the provider's own."""
    return True


async def ask_model(model: LiteLlmModel, *messages: Message | str, tools: tuple[ToolSpec, ...] = TOOLS) -> ModelRound:
    """Run one round of the model to its end, even if it ends with an error."""
    heard = ModelRound()
    conversation = tuple(user_message(message) if isinstance(message, str) else message for message in messages)
    try:
        async with model.stream(ModelRequest(messages=conversation, system="Be brief.", tools=tools)) as events:
            async for event in events:
                heard.events.append(event)
    except ModelError as error:
        heard.error = error
    return heard
