"""ChatModel that calls litellm in a worker process, with key lookup, deadlines, retries and limits."""

import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread

from mcphost.config.schema import ModelConfig
from mcphost.errors import ConfigError, ModelError
from mcphost.llm import providers, worker_protocol
from mcphost.llm.answer_limits import MAX_ANSWER_LENGTH, MAX_ANSWER_SECONDS
from mcphost.llm.model import (
    ModelEvent,
    ModelFacts,
    ModelRequest,
    RetryScheduled,
    ToolQuarantined,
    ToolSimplified,
    ToolSpec,
    ToolsRefused,
)
from mcphost.llm.worker_client import WorkerProcess
from mcphost.serialization import Raw, Struct, replace

if TYPE_CHECKING:
    from mcphost.config.remembered_models import ToolRefusals
    from mcphost.llm.errors import ErrorContext
    from mcphost.llm.refused_tools import RefusedTool

MAX_ATTEMPTS = 3
MAX_TOOL_SEARCHES = 5
"""Maximum number of searches for refused tools per answer; the next answer continues with the remaining tools."""

_NO_SCHEMA = Raw(b"null")
_PROBE_MESSAGES = Raw(b'[{"role":"user","content":"hi"}]')
_PROBE_TOKENS = 16
"""The smallest limit on output tokens that OpenAI's Responses API accepts."""

MAX_RETRY_DELAY = 60.0
"""Maximum delay in seconds before a retry; if a provider requests a longer delay, the request is not retried."""


class ModelDeadlines(Struct, frozen=True, kw_only=True):
    """Time limits for one answer, in seconds.

    - `first_token`: for connecting, and for waiting for the first piece of the answer.
    - `idle`: for each pause between two pieces of the answer.
    - `total`: for all attempts together, including the time until the worker has loaded litellm.
    """

    first_token: float = 300.0
    idle: float = 60.0
    total: float = MAX_ANSWER_SECONDS
    retry_delay: float = 1.0
    """Delay before the second attempt; it is doubled before the third. A Retry-After header overrides both."""
    tool_search: float = 60.0
    """Time limit for one search, with test requests, for the tools that a provider refuses."""


class LiteLlmModel:
    """ChatModel that calls litellm in *worker*, a process that several models can share."""

    def __init__(
        self,
        config: ModelConfig,
        worker: WorkerProcess,
        *,
        environ: Mapping[str, str],
        keyring: providers.KeyLookup | None = None,
        deadlines: ModelDeadlines | None = None,
        load_refusals: "Callable[[], ToolRefusals] | None" = None,
    ) -> None:
        """Create a model.

        *config* configures the model, and *worker* is the process that calls litellm. API keys are read from *environ*
        or else from *keyring*. *load_refusals* returns the store in which the model is recorded for later runs if its
        provider rejects tools; if it is None, nothing is recorded.
        """
        self._config = providers.add_local_address(providers.add_default_provider(config), environ)
        self._worker = worker
        worker.add_user(self)
        self._environ = environ
        self._keyring = keyring
        self._deadlines = deadlines or ModelDeadlines()
        self._facts = replace(ModelFacts(context_window=config.context_window), **self._configured_prices())
        self._has_loaded_facts = self._has_served_facts = self._supports_answer_schema = False
        self._has_reported_tools = False
        self._load_refusals = load_refusals
        self._refusal = ToolsRefused()
        self._is_refusal_new = False
        self._quarantined: set[tuple[str, str, bytes]] = set()
        self._simplified: dict[tuple[str, str, bytes], ToolSpec] = {}

    @property
    def name(self) -> str:
        """Name of the model in the configuration, in the form `provider/model`."""
        return self._config.name

    @property
    def label(self) -> str:
        """Display name, which is the same as `name`."""
        return self._config.name

    @property
    def _place(self) -> str:
        return self._config.api_base or providers.parse_provider(self._config.name)

    @property
    def facts(self) -> ModelFacts:
        """Facts about the model: from the configuration, or else from its own server, or else from litellm's list."""
        return self._facts

    async def prepare(self) -> None:
        """Find the API key, start the worker and load the model's facts. Raises ModelError; safe to cancel."""
        async with self._limit_loading(anyio.current_time() + self._deadlines.total):
            await self._ensure_ready()

    async def load_facts(self) -> None:
        """Load the facts about the model from litellm's list, without an API key or a request to the provider."""
        async with self._limit_loading(anyio.current_time() + self._deadlines.total):
            await self._worker.ensure_ready()
            await self._load_facts()

    async def close(self) -> None:
        """Stop using the worker process, which ends unless another model or a call is still using it.

        A later request starts the process again.
        """
        await self._worker.release(self)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ModelEvent]]:
        """Stream the answer to one request; see ChatModel.stream."""
        async with aclosing(self._events(request)) as events:
            yield events

    @asynccontextmanager
    async def _limit_loading(self, deadline: float) -> AsyncGenerator[None]:
        """Return a context manager that raises ModelError if its block has not finished by *deadline*.

        *deadline* is a time on the event loop's clock.
        """
        with anyio.CancelScope(deadline=deadline) as scope:
            yield
        if scope.cancelled_caught:
            from mcphost.llm.errors import preparation_error

            raise preparation_error(self._deadlines.total)

    async def _events(self, request: ModelRequest) -> AsyncGenerator[ModelEvent]:
        deadline = anyio.current_time() + self._deadlines.total
        async with self._limit_loading(deadline):
            key = await self._ensure_ready()
            headers = await self._expand_headers()
        context = self._error_context(key)
        attempt = 1
        searches = 0
        while True:
            if request.tools and self._facts.supports_tools is False:
                request = replace(request, tools=(), tool_choice="auto")
                if not self._has_reported_tools:
                    self._has_reported_tools = True
                    yield self._refusal
            offered = (self._simplified.get(_key(spec), spec) for spec in request.tools)
            request = replace(request, tools=tuple(spec for spec in offered if _key(spec) not in self._quarantined))
            completion = self._make_completion_request(request, key, headers)
            try:
                async with aclosing(self._attempt(completion, context, deadline)) as events:
                    async for event in events:
                        yield event
                return
            except _ToolsRefusedError as refused:
                self._disable_tools(refused)
                continue
            except _DefinitionRefusedError as refused:
                searches += 1
                if searches > MAX_TOOL_SEARCHES:
                    raise refused.error from None
                for tool in await self._find_refused_tools(request, completion, context, refused):
                    yield self._replace_refused_tool(tool)
                continue
            except _RetryableError as retryable:
                error = retryable.error
                seconds = error.retry_after
                if seconds is None:
                    seconds = self._deadlines.retry_delay * 2 ** (attempt - 1) * random.uniform(1, 1.25)  # noqa: S311
                if attempt == MAX_ATTEMPTS or seconds > MAX_RETRY_DELAY or anyio.current_time() + seconds > deadline:
                    raise error from None
            yield RetryScheduled(round(seconds, 2), error.message, attempt)
            await anyio.sleep(seconds)
            attempt += 1

    async def _attempt(
        self, request: worker_protocol.CompletionRequest, context: "ErrorContext", deadline: float
    ) -> AsyncGenerator[ModelEvent]:
        """Send the request once and yield the events of the answer.

        *deadline* is a time on the event loop's clock. Errors are raised as follows:

        - _RetryableError: nothing was received, and the same request may succeed later
        - _ToolsRefusedError: the request may succeed without tools
        - _DefinitionRefusedError: the request may succeed without some of the tools
        - ModelError: any other failure
        """
        from mcphost.llm import errors
        from mcphost.llm.chat_completions import AnswerAssembler

        assembler = AnswerAssembler(context.provider)
        limit = self._deadlines.first_token
        call = self._worker.open_call()
        try:
            self._worker.send(
                worker_protocol.WorkerCommand(op="stream", call_id=call.call_id, request=request), call.call_id
            )
            while True:
                left = deadline - anyio.current_time()
                event = await call.get(min(limit, left)) if left > 0 else None
                if event is None:
                    if left <= limit:
                        raise errors.deadline_error(self._place, self._deadlines.total)
                    raise errors.idle_error(self._place, limit, started=assembler.char_count > 0)
                if isinstance(event, worker_protocol.WorkerFailed):
                    error = errors.make_model_error(event.failure, context)
                    if assembler.char_count == 0:
                        self._check_tools_refused(request, event.failure, error)
                    if assembler.char_count == 0 and errors.is_retryable(event.failure):
                        raise _RetryableError(error)
                    raise error
                if isinstance(event, worker_protocol.WorkerFinished) and not (
                    assembler.char_count or event.input_tokens or event.output_tokens
                ):
                    raise errors.empty_answer_error(self._place)
                if isinstance(event, worker_protocol.WorkerFinished):
                    await self._remember_refusal()
                for model_event in assembler.feed(self._apply_prices(event)):
                    yield model_event
                if isinstance(event, worker_protocol.WorkerFinished):
                    return
                limit = self._deadlines.idle
                if assembler.char_count > MAX_ANSWER_LENGTH:
                    raise errors.answer_too_long_error(
                        f"The answer exceeded {MAX_ANSWER_LENGTH:,} characters and was stopped."
                    )
        finally:
            call.stop()

    def _check_tools_refused(
        self, request: worker_protocol.CompletionRequest, failure: worker_protocol.CallFailure, error: ModelError
    ) -> None:
        """Raise _ToolsRefusedError or _DefinitionRefusedError if the request failed because of its tools.

        *error* is shown to the user if no attempt with fewer tools succeeds.
        """
        from mcphost.llm.errors import explain_failure, refuses_tools
        from mcphost.llm.refused_tools import refuses_definition

        if bytes(request.tools) == b"[]":
            return
        reason = explain_failure(failure, request.api_key)
        if self._config.tools == "auto" and refuses_tools(failure):
            raise _ToolsRefusedError(reason, error)
        if refuses_definition(failure):
            raise _DefinitionRefusedError(reason, error)

    def _disable_tools(self, refused: "_ToolsRefusedError") -> None:
        """Stop offering tools to this model, because its provider rejected them.

        Raises ModelError if tools were already disabled; without this error, the same request would be repeated
        endlessly.
        """
        if self._facts.supports_tools is False:
            raise refused.error from None
        self._facts = replace(self._facts, supports_tools=False)
        self._refusal, self._is_refusal_new = ToolsRefused(refused.reason), True

    async def _remember_refusal(self) -> None:
        """Record for later runs that the provider rejects tools; call this after a request without tools succeeded."""
        if self._is_refusal_new and self._load_refusals is not None:
            self._is_refusal_new = False
            config, reason = self._config, self._refusal.reason
            with suppress(OSError, ConfigError):  # at worst, the next run sends the tools again
                await anyio.to_thread.run_sync(self._load_refusals().record, config.name, config.api_base, reason)

    async def _recall_refusal(self) -> None:
        """Disable tools if the provider rejected them in an earlier run."""
        if self._load_refusals is None or self._config.tools != "auto" or self._facts.supports_tools is False:
            return
        known = await anyio.to_thread.run_sync(self._load_refusals().find, self._config.name, self._config.api_base)
        if known is not None:
            self._facts = replace(self._facts, supports_tools=False)
            self._refusal = ToolsRefused(known.reason, known.refused_at)

    def _replace_refused_tool(self, tool: "RefusedTool") -> ToolSimplified | ToolQuarantined:
        """Use the simplified form of a rejected tool in later requests, or omit the tool if it has none.

        Returns the event that reports the change to the user.
        """
        if tool.simple is not None:
            self._simplified[_key(tool.spec)] = tool.simple
            return ToolSimplified(tool.spec.name, tool.reason)
        self._quarantined.add(_key(tool.spec))
        return ToolQuarantined(tool.spec.name, tool.reason)

    async def _find_refused_tools(
        self,
        request: ModelRequest,
        completion: worker_protocol.CompletionRequest,
        context: "ErrorContext",
        refused: "_DefinitionRefusedError",
    ) -> "list[RefusedTool]":
        """Send small test requests to find the tools that the provider rejects.

        *completion* is the request that the provider rejected with *refused*. Raises ModelError if a test request
        fails for another reason, or if no rejected tool is found within the time limit.
        """
        from mcphost.llm.chat_completions import encode_tools
        from mcphost.llm.refused_tools import find_refused_tools, simplify_refused

        small = replace(
            completion,
            messages=_PROBE_MESSAGES,
            max_tokens=_PROBE_TOKENS,
            tool_choice="",
            temperature=None,
            top_p=None,
            reasoning_effort="",
            answer_schema=_NO_SCHEMA,
        )

        async def probe(tools: Sequence[ToolSpec]) -> str:
            deadline = anyio.current_time() + self._deadlines.first_token
            attempt = self._attempt(replace(small, tools=encode_tools(tools)), context, deadline)
            try:
                async with aclosing(attempt) as events:
                    async for _event in events:
                        break  # the provider accepts the tools
            except _DefinitionRefusedError as again:
                return again.reason
            except (_RetryableError, _ToolsRefusedError):
                return ""
            return ""

        found: list[RefusedTool] = []
        with anyio.move_on_after(self._deadlines.tool_search):
            suspects = await find_refused_tools(request.tools, refused.reason, probe)
            found = [await simplify_refused(tool, probe) for tool in suspects]
        if not found:
            raise refused.error from None
        return found

    async def _expand_headers(self) -> dict[str, str]:
        """Return the configured HTTP headers with their references to variables and secrets expanded.

        Raises ModelError if a referenced value is missing.
        """
        if not self._config.headers:
            return {}
        from mcphost.llm.model_headers import expand_headers

        return await expand_headers(self._config.headers, self._environ, self._keyring)

    def _error_context(self, key: providers.ProviderKey) -> "ErrorContext":
        from mcphost.llm.errors import ErrorContext  # not needed to start the program

        return ErrorContext(
            model=self.name,
            provider=providers.parse_provider(self.name) or self.name,
            key_name=key.variable,
            api_base=self._config.api_base,
            secret=key.value if key.value != providers.PLACEHOLDER_KEY else "",
            is_key_set=bool(self._environ.get(key.variable, "").strip()),
        )

    def _make_completion_request(
        self, request: ModelRequest, key: providers.ProviderKey, headers: dict[str, str]
    ) -> worker_protocol.CompletionRequest:
        from mcphost.llm.chat_completions import ApiRoute, encode_messages, encode_tools
        from mcphost.llm.prompt_cache import marks_cache

        config = self._config
        provider = providers.parse_provider(config.name)
        responses = config.api == "responses"
        model = config.name
        if responses and "/responses/" not in model:
            head, _slash, rest = model.rpartition("/") if provider == "" else model.partition("/")
            model = f"{head or 'openai'}/responses/{rest}"
        route = ApiRoute(
            model=config.name,
            provider=provider,
            supports_images=self._facts.supports_images is not False,
            supports_result_images=responses or provider in providers.RESULT_IMAGE_PROVIDERS,
            supports_pdf=self._facts.supports_pdf is not False,
            supports_audio=self._facts.supports_audio is True and not responses,
            replays_thinking=provider in providers.THINKING_REPLAY_PROVIDERS,
            replays_reasoning_text=not responses and providers.accepts_reasoning_text(config),
            marks_cache=marks_cache(config.name),
            has_tools=bool(request.tools),
        )
        return worker_protocol.CompletionRequest(
            model=model,
            messages=encode_messages(request.messages, request.system, route),
            tools=encode_tools(request.tools),
            api_key=key.value,
            api_base=config.api_base,
            max_tokens=self._max_tokens(request),
            tool_choice="" if request.tool_choice == "auto" else request.tool_choice,
            is_parallel=request.is_parallel,
            temperature=config.temperature if request.temperature is None else request.temperature,
            top_p=config.top_p,
            drops_unsupported=request.temperature is not None,  # a server requested it
            headers=headers,
            reasoning_effort=config.reasoning_effort,
            answer_schema=request.answer_schema if self._can_send_schema(request, provider) else _NO_SCHEMA,
            api="responses" if "/responses/" in model else config.api,
            context_window=self._facts.context_window if provider in providers.OLLAMA_PROVIDERS else 0,
        )

    def _can_send_schema(self, request: ModelRequest, provider: str) -> bool:
        """Return whether this request can include a JSON Schema for the answer.

        Only OpenAI accepts a schema together with tools: other providers reject the combination, or litellm turns the
        schema into a tool that the model must call. Ollama applies a schema to any model.
        """
        return (
            bytes(request.answer_schema) != b""
            and (self._supports_answer_schema or provider in providers.OLLAMA_PROVIDERS)
            and (not request.tools or provider in ("openai", "azure"))
        )

    def _supports_tools(self, event: worker_protocol.WorkerModelFacts) -> bool | None:
        if self._config.tools == "auto":
            return event.supports_tools if event.is_known else None
        return self._config.tools == "always"

    def _max_tokens(self, request: ModelRequest) -> int:
        """Return the maximum number of output tokens for a request, or 0 for no limit.

        The result never exceeds the model's own maximum, because providers reject a larger number.
        """
        limits = [limit for limit in (request.max_output_tokens, self._config.max_output_tokens) if limit]
        if limits and self._facts.max_output_tokens:
            limits.append(self._facts.max_output_tokens)
        return min(limits, default=0)

    async def _ensure_ready(self) -> providers.ProviderKey:
        """Start the worker, load the facts about the model and return the API key. Raises ModelError.

        If the provider is unknown, the error says so, instead of reporting a missing key.
        """
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
        """Load what is not known yet about the model, such as its context window and prices. Raises ModelError."""
        if not self._has_loaded_facts:
            await self._load_listed_facts()
        if self._has_loaded_facts and not self._has_served_facts:
            await self._load_served_facts()

    async def _load_served_facts(self) -> None:
        """Load the facts that the model's server reports, if it is Ollama or runs on this machine.

        If Ollama does not respond, the request is repeated the next time that facts are loaded.
        """
        config = self._config
        if not providers.has_own_server(config):
            self._has_served_facts = True
            return
        from mcphost.llm.local_servers import OLLAMA_CONTEXT, LocalModel, find_served_model

        served = await find_served_model(config, self._environ)
        is_ollama = providers.parse_provider(config.name) in providers.OLLAMA_PROVIDERS
        self._has_served_facts = served is not None or not is_ollama
        served, facts = served or LocalModel(id=""), self._facts
        listed = min(facts.context_window, OLLAMA_CONTEXT) if is_ollama else facts.context_window
        window = config.context_window or served.context_window or listed
        has_own_tools = config.tools == "auto" and self._refusal == ToolsRefused() and served.supports_tools is not None
        self._facts = replace(
            facts,
            context_window=min(window, served.max_context_window or window),
            supports_tools=served.supports_tools if has_own_tools else facts.supports_tools,
            supports_images=facts.supports_images if served.supports_images is None else served.supports_images,
        )

    async def _load_listed_facts(self) -> None:
        """Load the facts from litellm's list. Raises ModelError, for example for an unknown provider."""
        call = self._worker.open_call()
        try:
            self._worker.send(
                worker_protocol.WorkerCommand(op="facts", call_id=call.call_id, model=self.name), call.call_id
            )
            event = await call.get(self._deadlines.idle)
        finally:
            call.stop()
        if isinstance(event, worker_protocol.WorkerFailed):
            from mcphost.llm.errors import make_model_error

            raise make_model_error(event.failure, self._error_context(providers.ProviderKey("", "")))
        if isinstance(event, worker_protocol.WorkerModelFacts):
            if not event.provider:
                raise providers.unknown_provider_error(self._config.name)
            self._has_loaded_facts = True
            self._supports_answer_schema = event.supports_answer_schema
            self._facts = ModelFacts(
                context_window=self._config.context_window or event.context_window,
                max_output_tokens=event.max_output_tokens,
                supports_images=event.supports_images if event.is_known else None,
                supports_tools=self._supports_tools(event),
                supports_pdf=bool(event.supports_pdf) if event.is_known else None,  # litellm lists only those that do
                supports_audio=event.supports_audio if event.is_known else None,
                **self._prices(event),
            )
            await self._recall_refusal()

    def _prices(self, event: worker_protocol.WorkerModelFacts) -> dict[str, float | None]:
        """Return the configured prices or, if there are none, litellm's list prices, in US dollars per token.

        litellm's prices are in *event*. They are not used for a model at a configured URL, because the server at that
        URL may have other prices.
        """
        if configured := self._configured_prices():
            return configured
        if not providers.has_list_prices(self._config):
            return {}
        return {
            "input_price": event.input_price,
            "cached_input_price": event.cached_input_price,
            "output_price": event.output_price,
        }

    def _configured_prices(self) -> dict[str, float | None]:
        """Return the prices in the configuration, in US dollars per token; empty if there are none.

        The user's own server on this machine is free, unless the configuration has prices for it.
        """
        config = self._config
        if config.input_price is not None and config.output_price is not None:
            cached = config.cached_input_price
            return {
                "input_price": config.input_price / 1e6,
                "cached_input_price": None if cached is None else cached / 1e6,
                "output_price": config.output_price / 1e6,
            }
        return {"input_price": 0.0, "output_price": 0.0} if providers.is_own_server(config) else {}

    def _apply_prices(self, event: worker_protocol.WorkerEvent) -> worker_protocol.WorkerEvent:
        """Return the event; replace the cost in a WorkerFinished event if litellm's prices do not apply to this model.

        The new cost is computed from the configured prices; it is None if no prices are configured.
        """
        if not isinstance(event, worker_protocol.WorkerFinished):
            return event
        prices = self._configured_prices()
        if not prices:
            return event if providers.has_list_prices(self._config) else replace(event, cost=None, saved=0)
        price, cached_price = prices["input_price"] or 0, prices.get("cached_input_price")
        cached = min(event.cached_tokens, event.input_tokens)
        saved = 0 if cached_price is None else cached * (price - cached_price)
        cost = event.input_tokens * price - saved + event.output_tokens * (prices["output_price"] or 0)
        return replace(event, cost=cost, saved=max(0, saved))


class _RefusedError(Exception):
    def __init__(self, reason: str, error: ModelError) -> None:
        super().__init__(reason)
        self.reason = reason
        self.error = error


class _ToolsRefusedError(_RefusedError):
    """Raised when the provider does not support tools; `error` is the ModelError of the failed request."""


class _DefinitionRefusedError(_RefusedError):
    """Raised when the provider rejects a tool's definition; `error` is the ModelError of the failed request."""


def _key(spec: ToolSpec) -> tuple[str, str, bytes]:
    """Return a key for a tool that changes whenever the tool's name, description or schema changes."""
    return spec.name, spec.description, bytes(spec.schema)


class _RetryableError(Exception):
    """Raised when an attempt fails but may be repeated; `error` is the ModelError for the failed attempt."""

    def __init__(self, error: ModelError) -> None:
        super().__init__(error.message)
        self.error = error
