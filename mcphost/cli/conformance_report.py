"""What this build speaks of MCP, collected from the code's own tables: revisions, methods, transports, limits."""

from collections.abc import Iterable
from textwrap import wrap
from typing import Any, cast

from mcphost.serialization import Struct

LINE_WIDTH = 110


class RevisionSupport(Struct, frozen=True):
    """One revision: the methods in each direction, and the capabilities declared by a front that can ask anything."""

    revision: str
    era: str
    transports: tuple[str, ...]
    requests: tuple[str, ...]
    notices: tuple[str, ...]
    answered: tuple[str, ...]
    heard: tuple[str, ...]
    capabilities: dict[str, Any]


class Limit(Struct, frozen=True):
    """A bound on what a server can make us do."""

    name: str
    value: float
    unit: str


class ConformanceReport(Struct, frozen=True):
    """Everything; revisions newest first."""

    version: str
    revisions: tuple[RevisionSupport, ...]
    extensions: dict[str, tuple[str, ...]]
    schema_dialects: tuple[str, ...]
    limits: tuple[Limit, ...]


def collect_report() -> ConformanceReport:
    """Collect them; starts nothing and reads no file."""
    from mcphost import __version__
    from mcphost.client.client_info import capabilities_for
    from mcphost.protocol import methods
    from mcphost.protocol.revisions import Revision
    from mcphost.sandbox.schema_limits import DIALECTS

    declared = _declared_capabilities()
    return ConformanceReport(
        __version__,
        tuple(
            RevisionSupport(
                revision.value,
                revision.era,
                _transports(revision),
                methods.methods_in(revision, methods.CLIENT_REQUESTS),
                methods.methods_in(revision, methods.CLIENT_NOTIFICATIONS),
                methods.methods_in(revision, methods.SERVER_REQUESTS),
                methods.methods_in(revision, methods.SERVER_NOTIFICATIONS),
                capabilities_for(revision, declared),
            )
            for revision in sorted(Revision, reverse=True)
        ),
        {name: tuple(table) for name, table in methods.EXTENSION_REQUESTS.items()},
        DIALECTS,
        _limits(),
    )


def _transports(revision: Any) -> tuple[str, ...]:
    """HTTP+SSE carries the handshake only; Streamable HTTP came with 2025-03-26, and any revision fits on it."""
    return ("stdio", "streamable-http", "sse") if revision.era == "handshake" else ("stdio", "streamable-http")


def _declared_capabilities() -> dict[str, Any]:
    from mcphost.config.schema import ModelConfig, SamplingConfig
    from mcphost.errors import UsageError
    from mcphost.headless.question_answers import PipeFrontend
    from mcphost.host.audit.audit_log import create_in_memory_log
    from mcphost.host.events import EventBus
    from mcphost.host.lifetime import Lifetime
    from mcphost.host.model_selection import ModelSelection
    from mcphost.host.server_requests.request_handler import ServerRequestHandlerFactory
    from mcphost.host.server_requests.roots import Roots
    from mcphost.host.server_requests.sampling_models import SamplingModels
    from mcphost.llm.model import ChatModel

    def ignore_notice(kind: str, text: str) -> None:
        """Nothing happens at a desk where nobody asks."""

    def refuse_model(config: ModelConfig) -> ChatModel:
        raise UsageError(f"Nobody asks {config.name} here.")

    models = SamplingModels(ModelSelection(refuse_model, ModelConfig(), EventBus(), Lifetime()), SamplingConfig())
    return (
        ServerRequestHandlerFactory(PipeFrontend(), models, Roots(()), ignore_notice, create_in_memory_log())
        .create("")
        .capabilities
    )


def _limits() -> tuple[Limit, ...]:
    from mcphost.client import input_required, pagination
    from mcphost.config.schema import Limits
    from mcphost.protocol import jsonrpc
    from mcphost.sandbox import schema_limits
    from mcphost.transport import event_stream, http1, http_client
    from mcphost.transport import line_splitter as lines

    defaults = Limits()
    return (
        Limit("message, decoded", lines.MESSAGE_LIMIT, "bytes"),
        Limit("event of a stream", event_stream.EVENT_LIMIT, "bytes"),
        Limit("headers of an answer", http1.HEAD_LIMIT, "bytes"),
        Limit("members of a batch", jsonrpc.BATCH_LIMIT, "messages"),
        Limit("redirects, inside the origin", http_client.MAX_REDIRECTS, "times"),
        Limit("a list", pagination.MAX_ITEMS, "items"),
        Limit("pages of a list", pagination.MAX_PAGES, "pages"),
        Limit("input rounds of a request", input_required.MAX_ROUNDS, "rounds"),
        Limit("schema", schema_limits.MAX_SCHEMA_SIZE, "bytes"),
        Limit("depth of a schema", schema_limits.MAX_SCHEMA_DEPTH, "levels"),
        Limit("time to connect", defaults.connect_timeout, "seconds"),
        Limit("time of a request", defaults.request_timeout, "seconds"),
        Limit("time of a request that reports progress", defaults.request_timeout_max, "seconds"),
        Limit("time of a task", defaults.task_timeout, "seconds"),
    )


def format_report(report: ConformanceReport) -> list[str]:
    """The lines for a person."""
    lines = [f"mcphost {report.version} speaks these revisions of MCP:"]
    for one in report.revisions:
        lines += ["", f"{one.revision} ({one.era} era) over {', '.join(one.transports)}"]
        for what, names in (
            ("sends", one.requests),
            ("tells", one.notices),
            ("answers", one.answered),
            ("hears", one.heard),
            ("declares", _capability_names(one.capabilities)),
        ):
            lines += _wrap_names(f"  {what:<10}", names)
    lines += ["", "extensions:"]
    for name, sends in report.extensions.items():
        lines += _wrap_names(f"  {name}: ", sends)
    lines += ["", *_wrap_names("JSON Schema dialects: ", report.schema_dialects), "", "limits:"]
    return lines + [f"  {limit.name}: {limit.value:,.0f} {limit.unit}" for limit in report.limits]


def _wrap_names(start: str, names: Iterable[str]) -> list[str]:
    return wrap(", ".join(names), LINE_WIDTH, initial_indent=start, subsequent_indent=" " * 12, break_on_hyphens=False)


def _capability_names(capabilities: dict[str, Any]) -> list[str]:
    """Capabilities as `roots.listChanged`; one without members by its name."""
    names: list[str] = []
    for name, value in capabilities.items():
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        names += [f"{name}.{member}" for member, given in members.items() if given is not False] or [name]
    return names
