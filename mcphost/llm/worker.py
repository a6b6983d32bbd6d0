"""Worker process that reads commands, calls litellm and writes events.

Only this module and `litellm_patches`, which no other module imports, import litellm. Start it as `python -P -m
mcphost.llm.worker` with pipes as file descriptors 0 and 1. Before litellm is imported, both descriptors are duplicated
and then redirected, because litellm prints to standard output. When the input pipe is closed, the process exits
immediately, even during the import, so that it never outlives the host.

Pitfalls, observed with litellm 1.105:

- The import downloads a price list and loads `.env` from the current folder unless two variables in LITELLM_ENVIRONMENT
  are set.
- Leaving a stream with `break` keeps the connection to the provider open. The only way to leave a stream early is to
  cancel the task that iterates over it.
- Some providers' clients retry by default.
"""

import gc
import logging
import math
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from functools import partial
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from mcphost.llm import worker_protocol
from mcphost.llm.answer_limits import (
    MAX_ANSWER_SECONDS,
    AnswerMeter,
    AnswerTooLong,
    CompressionRefused,
    ErrorInAnswer,
    ProxyUnusable,
    RedirectRefused,
)
from mcphost.llm.argument_names import CallRestorer, rename_in_messages
from mcphost.llm.litellm_patches import BAD_CALL_ATTRIBUTE, FINISH_REASON_ATTRIBUTE, is_call_lost, is_refused
from mcphost.llm.providers import is_official_base
from mcphost.llm.responses_api import ResponsesStream, make_responses_arguments, refuses_summary
from mcphost.llm.stream_events import StreamSummary, SurrogateJoiner, make_events, trim_chunks
from mcphost.llm.tool_call_splitter import ToolCallSplitter
from mcphost.llm.tool_schemas import ToolSchemaAdapter
from mcphost.llm.worker_protocol import EventBatch, exception_chain, make_failure
from mcphost.sandbox.process_limits import limit_data_memory
from mcphost.serialization import Struct, loads

LITELLM_ENVIRONMENT = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_MODE": "PRODUCTION",
    "HF_HUB_OFFLINE": "1",
}
OPENAI_COMPATIBLE_PREFIXES = ("openai/", "lm_studio/", "hosted_vllm/", "llamafile/")
"""Prefixes of models that litellm may not know; for unknown models, it would reject some configured parameters."""
OPENAI_PROVIDERS = ("openai", "azure")
"""Providers with the Responses API, which may store chat completions unless `store` is false."""
BAD_CALL_REASON = "malformed_call"
"""Finish reason reported if the model tried to call a tool in a form that its provider does not accept."""
UNKNOWN_FINISH_REASON = "unknown"
"""Finish reason reported for a stream that ended without a finish reason; litellm would report `stop`."""
MISSING_FINISH_REASON = "Stream ended before a finish_reason was received"
"""Text of litellm 1.110's error for a Chat Completions stream that ended without a finish reason."""
PREFIXES_WITHOUT_FINISH_REASON = ("gemini/", "vertex_ai/")
"""Providers whose finish reason litellm does not keep; `patch_gemini_finish_reasons` detects Gemini's."""
SKIP_BRIDGE = "_skip_responses_api_bridge"
"""Argument of litellm's `acompletion` that keeps a request in Chat Completions."""
MAX_DATA_BYTES = 2 * 1024**3
"""Limit on the data memory of the process; a request that needs more fails."""
OWN_ERRORS = (AnswerTooLong, CompressionRefused, ErrorInAnswer, ProxyUnusable, RedirectRefused)
"""Exceptions with a message for the user, which mcphost raises while litellm sends a request or reads the answer."""
PROVIDER_TIMEOUT = 3600.0
"""Timeout in seconds that is passed to litellm; mcphost's own deadlines cancel a request earlier."""


def detach_pipes() -> tuple[int, int]:
    """Return copies of file descriptors 0 and 1; redirect 0 to the null device and 1 to standard error."""
    commands, events = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(2, 1)
    os.close(null)
    return commands, events


class EventWriter:
    """Thread-safe writer of events to the pipe that the host reads."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lock = threading.Lock()

    def send(self, event: worker_protocol.WorkerEvent, meter: AnswerMeter | None = None) -> None:
        """Write an event. Raises AnswerTooLong, without writing, if the event exceeds the limits of *meter*."""
        view = memoryview(worker_protocol.encode_line(event))
        if meter is not None:
            meter.add_line(len(view))
        with self._lock:
            while view:
                try:
                    view = view[os.write(self._descriptor, view) :]
                except OSError:
                    os._exit(0)  # the host has closed the pipe


def import_litellm(result: list[Any]) -> None:
    """Import and patch litellm; append the module to *result*, or the exception if the import fails.

    On Linux, the priority of the current thread is lowered slightly (nice value 3), so that the import does not delay
    the first key presses in the terminal. A nice value of 10 would be too much: on a busy machine, an import of 5 s
    would take a minute, and the priority cannot be raised again.
    """
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 3)
    gc.disable()  # an import creates no garbage, but collection would take a third of its time
    try:
        import httpx
        import litellm

        from mcphost.llm import litellm_patches, response_limits

        configure_litellm(litellm)
        response_limits.limit_responses(httpx.Response)
        response_limits.disable_compression(httpx.AsyncClient)
        litellm_patches.refuse_redirects(httpx.AsyncClient, httpx.Client)
        litellm_patches.check_proxies(httpx.AsyncClient)
        litellm_patches.patch_litellm()
        result.append(litellm)
    except BaseException as error:  # noqa: BLE001 - reported by the main thread
        result.append(error)
    finally:
        gc.enable()


def configure_litellm(litellm: Any) -> None:
    """Turn off litellm's output, log handlers, retries and unreported changes to requests."""
    litellm.suppress_debug_info = True
    litellm.drop_params = False
    litellm.num_retries = 0
    litellm.disable_hf_tokenizer_download = True
    for name in ("LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "httpx", "openai", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.setLevel(logging.ERROR)
    logging.captureWarnings(True)


def _model_parameters(request: worker_protocol.CompletionRequest) -> dict[str, Any]:
    """Return the request's sampling parameters and headers as keyword arguments for litellm."""
    arguments: dict[str, Any] = {}
    if request.max_tokens:
        arguments["max_tokens"] = request.max_tokens
    if request.temperature is not None:
        arguments["temperature"] = request.temperature
    if request.top_p is not None:
        arguments["top_p"] = request.top_p
    if request.drops_unsupported:
        arguments["drop_params"] = True
    if request.context_window:
        arguments["num_ctx"] = request.context_window
    if request.headers:
        arguments["extra_headers"] = request.headers
    if request.reasoning_effort:
        arguments["reasoning_effort"] = request.reasoning_effort
        if request.model.startswith(OPENAI_COMPATIBLE_PREFIXES):
            arguments["allowed_openai_params"] = ["reasoning_effort"]
    if schema := loads(request.answer_schema):
        # Not strict: OpenAI's strict form refuses most schemas that were not written for it.
        named = {"name": "answer", "schema": schema, "strict": False}
        arguments["response_format"] = {"type": "json_schema", "json_schema": named}
    return arguments


class LiteLlmWorker:
    """Command loop of the worker process; each model request runs in a task with its own cancel scope."""

    def __init__(self, litellm: Any, writer: EventWriter) -> None:
        self._litellm = litellm
        self._writer = writer
        self._cancel_scopes: dict[int, anyio.CancelScope] = {}
        self._models_without_summaries: set[tuple[str, str]] = set()
        self._schemas = ToolSchemaAdapter()
        # litellm 1.105 raises plain exceptions for a model that is not in its list.
        self._unlisted_error: type[Exception] = getattr(litellm.exceptions, "ModelNotMappedError", Exception)

    async def serve(self, lines: MemoryObjectReceiveStream[bytes]) -> None:
        """Execute the commands in *lines* until the stream ends."""
        async with anyio.create_task_group() as group:
            async for line in lines:
                self._dispatch(worker_protocol.decode_command(line), group)

    def _dispatch(self, command: worker_protocol.WorkerCommand, group: TaskGroup) -> None:
        if command.op == "facts":
            self._writer.send(self._load_facts(command))
        elif command.op == "stop":
            scope = self._cancel_scopes.pop(command.call_id, None)
            if scope is not None:
                scope.cancel()
        elif command.request is not None:
            scope = self._cancel_scopes[command.call_id] = anyio.CancelScope(
                deadline=anyio.current_time() + MAX_ANSWER_SECONDS
            )
            group.start_soon(self._run_call, command.call_id, command.request, scope)

    async def _run_call(
        self, call_id: int, request: worker_protocol.CompletionRequest, scope: anyio.CancelScope
    ) -> None:
        ended = False
        with scope:
            try:
                await self._stream(call_id, request, scope)
            except Exception as error:  # noqa: BLE001 - every error of litellm is reported
                # The libraries wrap errors that are raised while they read.
                ours = [cause for cause in exception_chain(error) if isinstance(cause, OWN_ERRORS)]
                self._writer.send(worker_protocol.WorkerFailed(call_id, make_failure(ours[0] if ours else error)))
            ended = True
        if self._cancel_scopes.pop(call_id, None) is not None and not ended and anyio.current_time() >= scope.deadline:
            late = AnswerTooLong(f"The answer took longer than {MAX_ANSWER_SECONDS / 60:g} minutes and was stopped.")
            self._writer.send(worker_protocol.WorkerFailed(call_id, make_failure(late)))

    async def _stream(self, call_id: int, request: worker_protocol.CompletionRequest, scope: anyio.CancelScope) -> None:
        target = self._resolve(request.model, request.api_base)
        tools, names = self._schemas.adapt_tools(loads(request.tools), target.provider, target.name)
        arguments = self._litellm_arguments(request, target, tools)
        rename_in_messages(arguments["messages"], names)
        stream, summary, convert = await self._open_stream(call_id, request, target, arguments)
        restorer, splitter = CallRestorer(call_id, names), ToolCallSplitter()
        meter, joiner = AnswerMeter(), SurrogateJoiner()
        batch = EventBatch(lambda event: self._writer.send(event, meter))
        source: Any = None
        try:
            async for chunk in end_without_reason(stream):
                source = getattr(stream, "completion_stream", None) or source
                if scope.cancel_called:
                    continue
                try:
                    meter.add_chunk()
                    for event in restorer.restore(splitter.split(convert(chunk))):
                        summary.has_content = True
                        summary.char_count += len(getattr(event, "text", ""))
                        batch.put(joiner.join(event))
                except AnswerTooLong as error:
                    # Leaving the loop would keep the connection open; cancelling the task closes it.
                    batch.discard()
                    self._writer.send(worker_protocol.WorkerFailed(call_id, make_failure(error)))
                    scope.cancel()
                summary.is_estimated |= trim_chunks(stream)
            self._correct_reason(request, stream, source, summary)
            for event in restorer.finish():
                summary.char_count += len(getattr(event, "text", ""))
                batch.put(event)
            batch.flush()
        except Exception:
            batch.flush()  # keep what was received before the failure
            raise
        finally:
            batch.discard()
            close = getattr(stream, "aclose", None) or getattr(getattr(stream, "response", None), "aclose", None)
            if close is not None:
                with anyio.CancelScope(shield=True), suppress(Exception):
                    await close()
        if scope.cancel_called:
            return
        uses_cache = summary.cached_tokens or summary.cache_write_tokens
        uncached_cost = self._compute_cost(target, summary, is_cached=False) if uses_cache else None
        self._writer.send(summary.to_event(self._compute_cost(target, summary), uncached_cost))

    async def _open_stream(
        self,
        call_id: int,
        request: worker_protocol.CompletionRequest,
        target: "ResolvedModel",
        arguments: dict[str, Any],
    ) -> tuple[Any, StreamSummary, Callable[[Any], list[worker_protocol.WorkerEvent]]]:
        """Send a request; return the stream, its summary, and the function that converts a chunk to events.

        *target* is the model as litellm resolved it, and *arguments* are the keyword arguments for litellm's
        `acompletion`.
        """
        if self._uses_responses_api(request, target, arguments):
            summary = StreamSummary(call_id, "responses")
            stream = await self._open_response(request, target, arguments)
            return stream, summary, ResponsesStream(call_id, summary).make_events
        if request.api == "chat":
            arguments[SKIP_BRIDGE] = True
        for message in arguments["messages"]:
            message.pop("reasoning_items", None)
            message.pop(worker_protocol.ITEM_ORDER, None)
        stream = await self._litellm.acompletion(**arguments)
        summary = StreamSummary(call_id, "responses" if self._is_responses_stream(stream) else "chat")
        return stream, summary, partial(make_events, call_id, summary)

    async def _open_response(
        self, request: worker_protocol.CompletionRequest, target: "ResolvedModel", arguments: dict[str, Any]
    ) -> Any:
        """Send a request to the Responses API and return the stream of events.

        For a reasoning model, a summary of the reasoning is requested first. OpenAI refuses summaries for some models,
        and for organizations that are not verified. The request is then sent again without asking for a summary, and
        later requests to the same model and base URL do not ask for one either.
        """
        key = (request.model, request.api_base)
        is_summarized = (target.is_reasoning or bool(request.reasoning_effort)) and request.reasoning_effort != "none"
        if is_summarized and key not in self._models_without_summaries:
            try:
                return await self._litellm.aresponses(**make_responses_arguments(arguments, is_summarized=True))
            except self._litellm.exceptions.BadRequestError as error:
                if not refuses_summary(str(error)):
                    raise
                self._models_without_summaries.add(key)
        return await self._litellm.aresponses(**make_responses_arguments(arguments))

    def _correct_reason(
        self, request: worker_protocol.CompletionRequest, stream: Any, source: Any, summary: "StreamSummary"
    ) -> None:
        """Replace the finish reason in *summary* if it hides that the answer is incomplete or was refused.

        See `_is_truncated` for the other parameters.
        """
        if self._is_truncated(request, stream, source, summary):
            summary.reason = UNKNOWN_FINISH_REASON
        elif getattr(source, BAD_CALL_ATTRIBUTE, False):
            summary.reason = BAD_CALL_REASON
        elif is_call_lost(stream):
            summary.reason = worker_protocol.LOST_CALL_REASON
        elif summary.reason == "stop" and is_refused(stream):
            summary.reason = "content_filter"  # litellm's reason for other providers' refusals

    @staticmethod
    def _is_truncated(
        request: worker_protocol.CompletionRequest, stream: Any, source: Any, summary: "StreamSummary"
    ) -> bool:
        """Return whether the stream ended without a finish reason, which means that the answer was cut off.

        Returns False if that cannot be determined. *source* is the provider's own stream. The caller must take it from
        *stream* before *stream* ends, because litellm 1.110 removes it from *stream* at the end. *summary* shows
        whether the answer has any content.
        """
        gave_reason = getattr(source, FINISH_REASON_ATTRIBUTE, None)
        if gave_reason is not None:
            return not gave_reason
        is_unknown = request.model.startswith(PREFIXES_WITHOUT_FINISH_REASON) and summary.has_content
        return getattr(stream, "received_finish_reason", "") is None and not is_unknown

    def _litellm_arguments(
        self, request: worker_protocol.CompletionRequest, target: "ResolvedModel", tools: list[dict[str, Any]]
    ) -> dict[str, Any]:
        arguments: dict[str, Any] = {
            "model": request.model,
            "messages": loads(request.messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            "num_retries": 0,
            "max_retries": 0,
            "timeout": PROVIDER_TIMEOUT,
        }
        if request.api_key:
            arguments["api_key"] = request.api_key
        if request.api_base:
            arguments["api_base"] = request.api_base
        if tools:
            arguments["tools"] = tools
        if request.tool_choice and tools:
            arguments["tool_choice"] = request.tool_choice
        if tools and not request.is_parallel and self._takes_parallel_option(target):
            arguments["parallel_tool_calls"] = False
        arguments.update(_model_parameters(request))
        if target.provider in OPENAI_PROVIDERS:
            arguments["store"] = False
        return arguments

    def _resolve(self, model: str, api_base: str = "") -> "ResolvedModel":
        """Return the name, provider and base URL that litellm uses for a model, and litellm's facts about it.

        The facts are None if the model is not in litellm's list. All values are empty if litellm does not know the
        provider.
        """
        exceptions = self._litellm.exceptions
        try:
            name, provider, _key, base = self._litellm.get_llm_provider(model=model, api_base=api_base or None)
        except exceptions.BadRequestError:
            return ResolvedModel()  # the call itself refuses an unknown provider, with a better message
        try:
            info = cast("dict[str, Any]", self._litellm.get_model_info(model.replace("/responses/", "/")))
        except AttributeError:
            raise  # litellm no longer has the function
        except Exception:  # noqa: BLE001 - a model works without the facts of litellm's list
            info = None
        return ResolvedModel(str(name), str(provider), base or api_base or "", info)

    def _takes_parallel_option(self, target: "ResolvedModel") -> bool:
        """Return whether the provider supports `parallel_tool_calls`, which limits an answer to one tool call."""
        if not target.provider:
            return False
        names = self._litellm.get_supported_openai_params(model=target.name, custom_llm_provider=target.provider)
        return "parallel_tool_calls" in (names or ())

    def _uses_responses_api(
        self, request: worker_protocol.CompletionRequest, target: "ResolvedModel", arguments: dict[str, Any]
    ) -> bool:
        """Return whether the request is sent to the Responses API instead of the Chat Completions API.

        - If `request.api` is not "auto", it names the API to use.
        - Providers other than OpenAI and Azure use Chat Completions.
        - Reasoning models use the Responses API at the addresses of OpenAI and Azure, because only this API accepts
          earlier reasoning. Servers at other addresses may not support it.
        - For all other models, litellm's rules apply.
        """
        if request.api != "auto" or target.provider not in OPENAI_PROVIDERS:
            return request.api == "responses"
        if target.is_reasoning and is_official_base(request.api_base or _environment_base(target.provider)):
            return True
        info, _model = self._litellm.main.responses_api_bridge_check(
            model=target.name,
            custom_llm_provider=target.provider,
            tools=arguments.get("tools"),
            reasoning_effort=request.reasoning_effort or None,
            api_base=target.base or None,
        )
        return info.get("mode") == "responses"

    def _is_responses_stream(self, stream: Any) -> bool:
        inner = getattr(stream, "completion_stream", stream)
        return any("responses" in kind.__module__ or "Responses" in kind.__name__ for kind in type(inner).__mro__)

    def _compute_cost(
        self, target: "ResolvedModel", summary: "StreamSummary", *, is_cached: bool = True
    ) -> float | None:
        """Return the cost of an answer in US dollars, or None if litellm lists no price for the model.

        *summary* has the token counts. If *is_cached* is False, the result is the cost of the same answer without
        the provider's cache.
        """
        if not (summary.input_tokens or summary.output_tokens) or not target.provider:
            return None
        try:
            sent, received = self._litellm.cost_per_token(
                model=target.name.removeprefix("responses/"),
                custom_llm_provider=target.provider,
                prompt_tokens=summary.input_tokens,
                completion_tokens=summary.output_tokens,
                cache_read_input_tokens=summary.cached_tokens if is_cached else 0,
                cache_creation_input_tokens=summary.cache_write_tokens if is_cached else 0,
            )
        except self._unlisted_error:
            return None
        except Exception as error:  # noqa: BLE001 - the answer is complete; the host logs the worker's standard error
            logging.getLogger(__name__).warning("no price for %s: %r", target.name, error)
            return None
        cost = float(sent + received)
        return cost if 0 <= cost < math.inf else None

    def _load_facts(self, command: worker_protocol.WorkerCommand) -> worker_protocol.WorkerEvent:
        """Return an event with litellm's facts about a model, or WorkerFailed if litellm raises an exception."""
        try:
            target = self._resolve(command.model)
        except Exception as error:  # noqa: BLE001 - the host reports it
            return worker_protocol.WorkerFailed(command.call_id, make_failure(error))
        info = target.info
        if info is None:
            return worker_protocol.WorkerModelFacts(call_id=command.call_id, provider=target.provider)
        return worker_protocol.WorkerModelFacts(
            call_id=command.call_id,
            is_known=True,
            provider=target.provider,
            context_window=int(info.get("max_input_tokens") or 0),
            max_output_tokens=int(info.get("max_output_tokens") or 0),
            supports_images=info.get("supports_vision"),
            supports_tools=info.get("supports_function_calling"),
            supports_pdf=info.get("supports_pdf_input"),
            supports_audio=info.get("supports_audio_input"),
            supports_answer_schema=info.get("supports_response_schema") is True,
            input_price=info.get("input_cost_per_token"),
            cached_input_price=info.get("cache_read_input_token_cost"),
            output_price=info.get("output_cost_per_token"),
        )


class ResolvedModel(Struct, frozen=True):
    """A model with litellm's information about it.

    - `provider`: "" if litellm does not know the provider.
    - `info`: litellm's facts about the model, or None if the model is not in litellm's list.
    """

    name: str = ""
    provider: str = ""
    base: str = ""
    info: dict[str, Any] | None = None

    @property
    def is_reasoning(self) -> bool:
        """Whether litellm lists the model as a reasoning model."""
        return (self.info or {}).get("supports_reasoning") is True


def _environment_base(provider: str) -> str:
    """Return the base URL that an environment variable sets for the provider, or "" if none does."""
    names = ("AZURE_API_BASE",) if provider == "azure" else ("OPENAI_BASE_URL", "OPENAI_API_BASE")
    return next((value for name in names if (value := os.environ.get(name, "").strip())), "")


async def end_without_reason(stream: Any) -> AsyncGenerator[Any]:
    """Yield the chunks of *stream*, and ignore litellm 1.110's error for a stream without a finish reason.

    An answer without a finish reason was cut off, but its tokens and its cost are known and still reported. Older
    versions of litellm do not raise this error.
    """
    try:
        async for chunk in stream:
            yield chunk
    except Exception as error:
        if MISSING_FINISH_REASON not in str(error):
            raise


async def run(litellm: Any, writer: EventWriter, reader: "CommandReader") -> None:
    """Execute the commands that *reader* receives until the process ends.

    *litellm* is the imported module, and *writer* sends the events.
    """
    send, receive = anyio.create_memory_object_stream[bytes](float("inf"))
    reader.connect(send)
    await LiteLlmWorker(litellm, writer).serve(receive)


class CommandReader:
    """Background thread that reads the host's commands.

    Commands are queued until the event loop runs. The whole process exits when the pipe is closed.
    """

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "rb")
        self._lock = threading.Lock()
        self._queued_lines: list[bytes] = []
        self._deliver: Callable[[bytes], object] | None = None

    def start(self) -> None:
        """Start the thread."""
        threading.Thread(target=self._read, daemon=True, name="commands").start()

    def connect(self, send: MemoryObjectSendStream[bytes]) -> None:
        """Pass every line to *send* on the running event loop, beginning with the queued lines."""
        import asyncio

        loop = asyncio.get_running_loop()
        with self._lock:
            for line in self._queued_lines:
                send.send_nowait(line)
            self._deliver = partial(loop.call_soon_threadsafe, send.send_nowait)

    def _read(self) -> None:
        for line in self._file:
            with self._lock:
                if self._deliver is None:
                    self._queued_lines.append(line)
                else:
                    self._deliver(line)
        os._exit(0)  # the host has ended; open connections close with the process


def main() -> None:
    """Run the worker process. If litellm cannot be imported, report the error and exit with status 1."""
    limit_data_memory(MAX_DATA_BYTES)
    commands, descriptor = detach_pipes()
    os.environ.update(LITELLM_ENVIRONMENT)
    reader, writer = CommandReader(commands), EventWriter(descriptor)
    reader.start()
    result: list[Any] = []
    thread = threading.Thread(target=import_litellm, args=(result,), name="import")
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        writer.send(worker_protocol.WorkerFailed(worker_protocol.NO_CALL_ID, make_failure(result[0])))
        os._exit(1)
    from importlib.metadata import version

    writer.send(worker_protocol.WorkerReady(worker_protocol.NO_CALL_ID, version("litellm")))
    anyio.run(run, result[0], writer, reader)


if __name__ == "__main__":
    main()
