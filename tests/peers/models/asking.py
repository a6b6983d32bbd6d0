"""How the tests ask a model, and the roads they ask on."""

from typing import Any

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.llm.litellm_model import Deadlines, RemoteModel
from mcphost.llm.messages import Message, TextPart, ToolUsePart
from mcphost.llm.model import Finished, ModelEvent, ModelRequest, TextDelta, ThinkingDelta, ToolSpec, ToolUseReady
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw

KEY = "sk-test-0123456789abcdefghij"
ROADS = {
    "openai": ("openai/gpt-4o", "/v1", "auto"),
    "responses": ("openai/gpt-5", "/v1", "responses"),
    "anthropic": ("anthropic/claude-sonnet-4-5", "", "auto"),
    "gemini": ("gemini/gemini-2.5-pro", "/v1beta", "auto"),
    "ollama": ("ollama_chat/llama3.1", "", "auto"),
}
STREAMING = [road for road in ROADS if road != "ollama"]
TOOLS = (
    # pretty-printed on purpose: schemas arrive as the server wrote them, and travel on one line
    ToolSpec("fs__read", "Read a file", Raw(b'{"type": "object",\r\n "properties": {"path": {"type": "string"}}}')),
    ToolSpec("web__get", "Get a page", Raw(b'{"type":"object","properties":{"url":{"type":"string"}}}')),
)


class Heard:
    """What came of one round."""

    def __init__(self) -> None:
        self.events: list[ModelEvent] = []
        self.error: ModelError | None = None

    def of(self, kind: type[Any]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.of(TextDelta))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.of(ThinkingDelta))

    @property
    def uses(self) -> list[ToolUsePart]:
        return [event.use for event in self.of(ToolUseReady)]

    @property
    def finished(self) -> Finished:
        assert self.error is None, self.error
        return self.of(Finished)[0]


def model_on(road: str, base: str, worker: WorkerProcess, **deadlines: float) -> RemoteModel:
    name, path, api = ROADS[road]
    config = ModelConfig(name=name, api_base=base + path, api=api, api_key_env="TEST_KEY")
    return RemoteModel(config, worker, environ={"TEST_KEY": KEY}, deadlines=Deadlines(**{"pause": 0.01, **deadlines}))


def user(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


async def ask(model: RemoteModel, *messages: Message | str, tools: tuple[ToolSpec, ...] = TOOLS) -> Heard:
    """One round to its end, error included."""
    heard = Heard()
    conversation = tuple(user(message) if isinstance(message, str) else message for message in messages)
    try:
        async with model.stream(ModelRequest(messages=conversation, system="Be brief.", tools=tools)) as events:
            async for event in events:
                heard.events.append(event)
    except ModelError as error:
        heard.error = error
    return heard
