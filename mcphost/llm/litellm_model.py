"""LiteLlmModel: a litellm model behind ChatModel, with our own key check, deadlines, retries and limits.

worker = WorkerProcess(log)                                  # one for all models; close it when the program ends
model = LiteLlmModel(config, worker, environ=os.environ, keyring=vault.get)
"""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING

import anyio

from mcphost.config.schema import ModelConfig
from mcphost.errors import ModelError
from mcphost.llm import providers, worker_protocol
from mcphost.llm.answer_limits import MAX_ANSWER_LENGTH, MAX_ANSWER_SECONDS
from mcphost.llm.model import ModelEvent, ModelFacts, ModelRequest, RetryScheduled
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Struct

if TYPE_CHECKING:
    from mcphost.llm.errors import ErrorContext

MAX_ATTEMPTS = 3
MAX_RETRY_DELAY = 60.0
"""Seconds; a provider that asks for more patience gets none of ours: the user decides."""


class ModelDeadlines(Struct, frozen=True, kw_only=True):
    """Seconds. `first` covers connecting and thinking up to the first token; `idle` the pauses after; `total` all of
    one answer, other tries included."""

    first_token: float = 300.0
    idle: float = 60.0
    total: float = MAX_ANSWER_SECONDS
    retry_delay: float = 1.0
    """Before the second try; doubles for the third. A provider's retry-after wins."""


class LiteLlmModel:
    """A ChatModel reached through the worker. It does not own the worker: whoever made that closes it."""

    def __init__(
        self,
        config: ModelConfig,
        worker: WorkerProcess,
        *,
        environ: Mapping[str, str],
        keyring: providers.KeyLookup | None = None,
        deadlines: ModelDeadlines | None = None,
    ) -> None:
        self._config = providers.add_default_provider(config)
        self._worker = worker
        self._environ = environ
        self._keyring = keyring
        self._deadlines = deadlines or ModelDeadlines()
        self._facts = ModelFacts(context_window=config.context_window)
        self._has_loaded_facts = False

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
        await self._ensure_ready()

    async def load_facts(self) -> None:
        """Ask the worker what its list says of the model: no key is looked up and no provider reached."""
        await self._worker.ensure_ready()
        await self._load_facts()

    async def close(self) -> None:
        """Nothing of its own is left open: streams end with their blocks, and the worker has its own owner."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """One round; see ChatModel.stream."""
        async with aclosing(self._events(request)) as events:
            yield events

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        key = await self._ensure_ready()
        where = self._error_context(key)
        completion = self._make_completion_request(request, key)
        until = anyio.current_time() + self._deadlines.total
        for attempt in range(1, MAX_ATTEMPTS + 1):
            try:
                async with aclosing(self._attempt(completion, where, until)) as events:
                    async for event in events:
                        yield event
                return
            except _RetryableError as again:
                error = again.error
                seconds = error.retry_after
                if seconds is None:
                    seconds = self._deadlines.retry_delay * 2 ** (attempt - 1) * random.uniform(1, 1.25)  # noqa: S311
                if attempt == MAX_ATTEMPTS or seconds > MAX_RETRY_DELAY or anyio.current_time() + seconds > until:
                    raise error from None
            yield RetryScheduled(round(seconds, 2), error.message, attempt)
            await anyio.sleep(seconds)

    async def _attempt(
        self, request: worker_protocol.CompletionRequest, context: "ErrorContext", until: float
    ) -> AsyncGenerator[ModelEvent]:
        """One try. Raises _Again when nothing was received and trying again makes sense, else ModelError.

        `until`: the loop time at which it ends, whatever still comes.
        """
        from mcphost.llm.chat_completions import AnswerAssembler
        from mcphost.llm.errors import answer_too_long_error, is_retryable, make_model_error

        gathering = AnswerAssembler(context.provider)
        limit = self._deadlines.first_token
        call = self._worker.open_call()
        try:
            self._worker.send(
                worker_protocol.WorkerCommand(op="stream", call_id=call.call_id, request=request), call.call_id
            )
            while True:
                left = until - anyio.current_time()
                note = await call.get(min(limit, left)) if left > 0 else None
                if note is None:
                    raise (
                        self._deadline_error()
                        if left <= limit
                        else self._idle_error(limit, started=gathering.char_count > 0)
                    )
                if isinstance(note, worker_protocol.WorkerFailed):
                    error = make_model_error(note.failure, context)
                    if gathering.char_count == 0 and is_retryable(note.failure):
                        raise _RetryableError(error)
                    raise error
                if isinstance(note, worker_protocol.WorkerFinished) and not (
                    gathering.char_count or note.input_tokens or note.output_tokens
                ):
                    raise self._empty_answer_error()
                for event in gathering.feed(note):
                    yield event
                if isinstance(note, worker_protocol.WorkerFinished):
                    return
                limit = self._deadlines.idle
                if gathering.char_count > MAX_ANSWER_LENGTH:
                    raise answer_too_long_error(f"The answer passed {MAX_ANSWER_LENGTH:,} characters and was stopped.")
        finally:
            call.stop()

    def _idle_error(self, timeout: float, *, started: bool) -> ModelError:
        place = self._config.api_base or providers.parse_provider(self._config.name)
        what = "said nothing more" if started else "did not answer"
        return ModelError(
            f"{place} {what} for {timeout:g} s; the connection was closed.",
            "Send it again, or choose another model.",
            model_kind="network",
        )

    def _deadline_error(self) -> ModelError:
        place = self._config.api_base or providers.parse_provider(self._config.name)
        return ModelError(
            f"{place} did not finish its answer within {self._deadlines.total:g} s; the connection was closed.",
            "Give it more time with --timeout.",
            model_kind="network",
        )

    def _empty_answer_error(self) -> ModelError:
        """litellm reports a page of HTML or an empty body as an empty answer; a real one at least counts tokens."""
        place = self._config.api_base or providers.parse_provider(self._config.name)
        return ModelError(
            f"{place} answered with nothing that a model would say.", "Check the base address and the model's name."
        )

    def _error_context(self, key: providers.ProviderKey) -> "ErrorContext":
        from mcphost.llm.errors import ErrorContext  # with the first message: most of a start needs no model

        return ErrorContext(
            model=self.name,
            provider=providers.parse_provider(self.name) or self.name,
            key_name=key.variable,
            api_base=self._config.api_base,
            secret=key.value if key.value != providers.PLACEHOLDER_KEY else "",
        )

    def _make_completion_request(
        self, request: ModelRequest, key: providers.ProviderKey
    ) -> worker_protocol.CompletionRequest:
        from mcphost.llm.chat_completions import ApiRoute, encode_messages, encode_tools

        config = self._config
        provider = providers.parse_provider(config.name)
        responses = config.api == "responses"
        model = config.name
        if responses and "/responses/" not in model:
            head, _slash, rest = model.rpartition("/") if provider == "" else model.partition("/")
            model = f"{head or 'openai'}/responses/{rest}"
        road = ApiRoute(
            model=config.name,
            provider=provider,
            supports_images=self._facts.supports_images is not False,
            supports_result_images=responses or provider in providers.RESULT_IMAGE_PROVIDERS,
            replays_thinking=provider in providers.THINKING_REPLAY_PROVIDERS,
        )
        return worker_protocol.CompletionRequest(
            model=model,
            messages=encode_messages(request.messages, request.system, road),
            tools=encode_tools(request.tools),
            api_key=key.value,
            api_base=config.api_base,
            max_tokens=self._max_tokens(request),
            tool_choice="" if request.tool_choice == "auto" else request.tool_choice,
            temperature=request.temperature,
            reasoning_effort=config.reasoning_effort,
            uses_responses_api=responses or "/responses/" in model,
        )

    def _max_tokens(self, request: ModelRequest) -> int:
        """The tokens to ask for at most; providers refuse a number that is above what the model can write."""
        wanted = [most for most in (request.max_output_tokens, self._config.max_output_tokens) if most]
        known = [self._facts.max_output_tokens] if wanted and self._facts.max_output_tokens else []
        return min([*wanted, *known], default=0)

    async def _ensure_ready(self) -> providers.ProviderKey:
        """The key, with the worker running. A provider that nobody knows is told as that, not as a missing key."""
        try:
            key = await providers.find_key(self._config, self._environ, self._keyring)
        except ModelError:
            if not providers.is_known_provider(providers.parse_provider(self.name)):
                await self._worker.ensure_ready()
                await self._load_facts()
            raise
        await self._worker.ensure_ready()
        await self._load_facts()
        return key

    async def _load_facts(self) -> None:
        """Ask the worker once what its model list says. Raises ModelError for a provider that it does not have."""
        if self._has_loaded_facts:
            return
        call = self._worker.open_call()
        try:
            self._worker.send(
                worker_protocol.WorkerCommand(op="facts", call_id=call.call_id, model=self.name), call.call_id
            )
            note = await call.get(self._deadlines.idle)
        finally:
            call.stop()
        if isinstance(note, worker_protocol.WorkerModelFacts):
            if not note.provider:
                raise providers.unknown_provider_error(self._config.name)
            self._has_loaded_facts = True
            self._facts = ModelFacts(
                context_window=self._config.context_window or note.context_window,
                max_output_tokens=note.max_output_tokens,
                supports_images=note.supports_images if note.is_known else None,
                supports_tools=note.supports_tools if note.is_known else None,
                # A server that people run themselves, or another one behind the same name, has no listed price.
                input_price=note.input_price if not self._config.api_base else None,
                output_price=note.output_price if not self._config.api_base else None,
            )


class _RetryableError(Exception):
    """Carries the error that is worth another try."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(error.message)
        self.error = error
