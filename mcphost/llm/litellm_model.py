"""RemoteModel: a litellm model behind ChatModel, with our own key check, deadlines, retries and limits.

worker = WorkerProcess(log)                                  # one for all models; close it when the program ends
model = RemoteModel(config, worker, environ=os.environ, keyring=vault.get)
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.llm import providers, worker_protocol
from mcphost.llm.answer_limits import MAX_CHARS, MAX_SECONDS
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, Retrying
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.llm.errors import Where

TRIES = 3
LONGEST_WAIT = 60.0
"""Seconds; a provider that asks for more patience gets none of ours: the user decides."""


class Deadlines(Struct, frozen=True, kw_only=True):
    """Seconds. `first` covers connecting and thinking up to the first token; `idle` the pauses after; `total` all of
    one answer, other tries included."""

    first: float = 300.0
    idle: float = 60.0
    total: float = MAX_SECONDS
    pause: float = 1.0
    """Before the second try; doubles for the third. A provider's retry-after wins."""


class RemoteModel:
    """A ChatModel reached through the worker. It does not own the worker: whoever made that closes it."""

    def __init__(
        self,
        config: ModelConfig,
        worker: WorkerProcess,
        *,
        environ: Mapping[str, str],
        keyring: providers.KeyLookup | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self._config = providers.with_provider(config)
        self._worker = worker
        self._environ = environ
        self._keyring = keyring
        self._deadlines = deadlines or Deadlines()
        self._facts = ModelFacts(context_window=config.context_window)
        self._asked = False

    @property
    def name(self) -> str:
        """The configured `provider/model`."""
        return self._config.name

    @property
    def label(self) -> str:
        """The same: nothing prettier is known."""
        return self._config.name

    @property
    def facts(self) -> ModelFacts:
        """Hints from litellm's model list; what the user configured wins."""
        return self._facts

    async def prepare(self) -> None:
        """Check the key, start the worker, learn what is known of the model. Raises ModelError; cancellable."""
        await self._ready()

    async def learn(self) -> None:
        """Ask the worker what its list says of the model: no key is looked up and no provider reached."""
        await self._worker.ready()
        await self._learn()

    async def close(self) -> None:
        """Nothing of its own is left open: streams end with their blocks, and the worker has its own owner."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """One round; see ChatModel.stream."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        key = await self._ready()
        where = self._where(key)
        completion = self._completion(request, key)
        until = anyio.current_time() + self._deadlines.total
        for attempt in range(1, TRIES + 1):
            try:
                async with aclosing(self._attempt(completion, where, until)) as events:
                    async for event in events:
                        yield event
                return
            except _Again as again:
                error = again.error
                seconds = error.retry_after
                if seconds is None:
                    seconds = self._deadlines.pause * 2 ** (attempt - 1) * random.uniform(1, 1.25)  # noqa: S311
                if attempt == TRIES or seconds > LONGEST_WAIT or anyio.current_time() + seconds > until:
                    raise error from None
            yield Retrying(round(seconds, 2), error.message, attempt)
            await anyio.sleep(seconds)

    async def _attempt(
        self, completion: worker_protocol.Completion, where: "Where", until: float
    ) -> AsyncGenerator[ModelEvent]:
        """One try. Raises _Again when nothing was received and trying again makes sense, else ModelError.

        `until`: the loop time at which it ends, whatever still comes.
        """
        from mcphost.llm.chat_completions import Gathering
        from mcphost.llm.errors import explain, too_long, worth_another_try

        gathering = Gathering(where.provider)
        limit = self._deadlines.first
        call = self._worker.begin()
        try:
            self._worker.send(worker_protocol.Command(op="stream", id=call.number, call=completion), call.number)
            while True:
                left = until - anyio.current_time()
                note = await call.get(min(limit, left)) if left > 0 else None
                if note is None:
                    raise self._late() if left <= limit else self._silence(limit, started=gathering.size > 0)
                if isinstance(note, worker_protocol.Failed):
                    error = explain(note.failure, where)
                    if gathering.size == 0 and worth_another_try(note.failure):
                        raise _Again(error)
                    raise error
                if isinstance(note, worker_protocol.Done) and not (
                    gathering.size or note.input_tokens or note.output_tokens
                ):
                    raise self._nothing()
                for event in gathering.take(note):
                    yield event
                if isinstance(note, worker_protocol.Done):
                    return
                limit = self._deadlines.idle
                if gathering.size > MAX_CHARS:
                    raise too_long(f"The answer passed {MAX_CHARS:,} characters and was stopped.")
        finally:
            call.stop()

    def _silence(self, limit: float, *, started: bool) -> ModelError:
        place = self._config.api_base or providers.provider_of(self._config.name)
        what = "said nothing more" if started else "did not answer"
        return ModelError(
            f"{place} {what} for {limit:g} s; the connection was closed.",
            "Send it again, or choose another model.",
            model_kind="network",
        )

    def _late(self) -> ModelError:
        place = self._config.api_base or providers.provider_of(self._config.name)
        return ModelError(
            f"{place} did not finish its answer within {self._deadlines.total:g} s; the connection was closed.",
            "Give it more time with --timeout.",
            model_kind="network",
        )

    def _nothing(self) -> ModelError:
        """litellm reports a page of HTML or an empty body as an empty answer; a real one at least counts tokens."""
        place = self._config.api_base or providers.provider_of(self._config.name)
        return ModelError(
            f"{place} answered with nothing that a model would say.", "Check the base address and the model's name."
        )

    def _where(self, key: providers.KeyFound) -> "Where":
        from mcphost.llm.errors import Where  # with the first message: most of a start needs no model

        return Where(
            model=self.name,
            provider=providers.provider_of(self.name) or self.name,
            key_name=key.name,
            api_base=self._config.api_base,
            secret=key.value if key.value != providers.DUMMY_KEY else "",
        )

    def _completion(self, request: ModelRequest, key: providers.KeyFound) -> worker_protocol.Completion:
        from mcphost.llm.chat_completions import Road, messages_json, tools_json

        config = self._config
        provider = providers.provider_of(config.name)
        responses = config.api == "responses"
        model = config.name
        if responses and "/responses/" not in model:
            head, _slash, rest = model.rpartition("/") if provider == "" else model.partition("/")
            model = f"{head or 'openai'}/responses/{rest}"
        road = Road(
            model=config.name,
            provider=provider,
            images=self._facts.takes_images is not False,
            images_in_results=responses or provider in providers.IMAGES_IN_RESULTS,
            replays_thinking=provider in providers.THINKING_REPLAYED,
        )
        return worker_protocol.Completion(
            model=model,
            messages=messages_json(request.messages, request.system, road),
            tools=tools_json(request.tools),
            key=key.value,
            api_base=config.api_base,
            max_tokens=self._most(request),
            tool_choice="" if request.tool_choice == "auto" else request.tool_choice,
            temperature=request.temperature,
            reasoning_effort=config.reasoning_effort,
            responses=responses or "/responses/" in model,
        )

    def _most(self, request: ModelRequest) -> int:
        """The tokens to ask for at most; providers refuse a number that is above what the model can write."""
        wanted = [most for most in (request.max_output_tokens, self._config.max_output_tokens) if most]
        known = [self._facts.max_output_tokens] if wanted and self._facts.max_output_tokens else []
        return min([*wanted, *known], default=0)

    async def _ready(self) -> providers.KeyFound:
        """The key, with the worker running. A provider that nobody knows is told as that, not as a missing key."""
        try:
            key = await providers.find_key(self._config, self._environ, self._keyring)
        except ModelError:
            if not providers.is_known(providers.provider_of(self.name)):
                await self._worker.ready()
                await self._learn()
            raise
        await self._worker.ready()
        await self._learn()
        return key

    async def _learn(self) -> None:
        """Ask the worker once what its model list says. Raises ModelError for a provider that it does not have."""
        if self._asked:
            return
        call = self._worker.begin()
        try:
            self._worker.send(worker_protocol.Command(op="facts", id=call.number, model=self.name), call.number)
            note = await call.get(self._deadlines.idle)
        finally:
            call.stop()
        if isinstance(note, worker_protocol.Facts):
            if not note.provider:
                raise providers.no_provider(self._config.name)
            self._asked = True
            self._facts = ModelFacts(
                context_window=self._config.context_window or note.context_window,
                max_output_tokens=note.max_output,
                takes_images=note.vision if note.known else None,
                takes_tools=note.tools if note.known else None,
                # A server that people run themselves, or another one behind the same name, has no listed price.
                input_price=note.input_price if not self._config.api_base else None,
                output_price=note.output_price if not self._config.api_base else None,
            )


class _Again(Exception):
    """Carries the error that is worth another try."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(error.message)
        self.error = error
