"""What this build speaks of MCP, collected from the code's own tables: revisions, methods, transports, limits."""

from collections.abc import Iterable
from textwrap import wrap
from typing import Any, cast

from mcphost.data import Data

WIDTH = 110


class Spoken(Data, frozen=True):
    """One revision: the methods in each direction, and the capabilities declared by a front that can ask anything."""

    revision: str
    era: str
    transports: tuple[str, ...]
    requests: tuple[str, ...]
    notices: tuple[str, ...]
    answered: tuple[str, ...]
    heard: tuple[str, ...]
    capabilities: dict[str, Any]


class Limit(Data, frozen=True):
    """A bound on what a server can make us do."""

    name: str
    value: float
    unit: str


class Abilities(Data, frozen=True):
    """Everything; revisions newest first."""

    version: str
    revisions: tuple[Spoken, ...]
    extensions: dict[str, tuple[str, ...]]
    schema_dialects: tuple[str, ...]
    limits: tuple[Limit, ...]


def abilities() -> Abilities:
    """Collect them; starts nothing and reads no file."""
    from mcphost import __version__
    from mcphost.client.identity import capabilities_for
    from mcphost.protocol import methods
    from mcphost.protocol.revisions import Revision
    from mcphost.schemas.bounds import DIALECTS

    declared = _declared()
    return Abilities(
        __version__,
        tuple(
            Spoken(
                revision.value,
                revision.era,
                _transports(revision),
                methods.at(revision, methods.REQUESTS),
                methods.at(revision, methods.NOTICES),
                methods.at(revision, methods.ANSWERED),
                methods.at(revision, methods.HEARD),
                capabilities_for(revision, declared),
            )
            for revision in sorted(Revision, reverse=True)
        ),
        {name: tuple(table) for name, table in methods.EXTENSIONS.items()},
        DIALECTS,
        _limits(),
    )


def _transports(revision: Any) -> tuple[str, ...]:
    """HTTP+SSE carries the handshake only; Streamable HTTP came with 2025-03-26, and any revision fits on it."""
    return ("stdio", "streamable-http", "sse") if revision.era == "handshake" else ("stdio", "streamable-http")


def _declared() -> dict[str, Any]:
    from mcphost.config.schema import ModelConfig, SamplingConfig
    from mcphost.errors import UsageError
    from mcphost.headless.answers import PipeFront
    from mcphost.host.answering import Answering
    from mcphost.host.asks.desk import Desks
    from mcphost.host.asks.roots import Roots
    from mcphost.host.asks.sampling_models import SamplingModels
    from mcphost.host.feed import Feeds
    from mcphost.host.ledger.journal import in_memory
    from mcphost.llm.model import ChatModel

    def untold(kind: str, text: str) -> None:
        """Nothing happens at a desk where nobody asks."""

    def unmade(config: ModelConfig) -> ChatModel:
        raise UsageError(f"Nobody asks {config.name} here.")

    models = SamplingModels(Answering(unmade, ModelConfig(), Feeds()), SamplingConfig(), tuple)
    return Desks(PipeFront(), models, Roots(()), untold, in_memory()).desk("").capabilities


def _limits() -> tuple[Limit, ...]:
    from mcphost.client import input_rounds, listing
    from mcphost.config.schema import Limits
    from mcphost.protocol import jsonrpc
    from mcphost.schemas import bounds
    from mcphost.transport import eventstream, http1, http_client, lines

    defaults = Limits()
    return (
        Limit("message, decoded", lines.MESSAGE_LIMIT, "bytes"),
        Limit("event of a stream", eventstream.EVENT_LIMIT, "bytes"),
        Limit("headers of an answer", http1.HEAD_LIMIT, "bytes"),
        Limit("members of a batch", jsonrpc.BATCH_LIMIT, "messages"),
        Limit("redirects, inside the origin", http_client.MAX_REDIRECTS, "times"),
        Limit("a list", listing.MAX_ITEMS, "items"),
        Limit("pages of a list", listing.MAX_PAGES, "pages"),
        Limit("input rounds of a request", input_rounds.MAX_ROUNDS, "rounds"),
        Limit("schema", bounds.SIZE, "bytes"),
        Limit("depth of a schema", bounds.DEPTH, "levels"),
        Limit("time to connect", defaults.connect_timeout, "seconds"),
        Limit("time of a request", defaults.request_timeout, "seconds"),
        Limit("time of a request that reports progress", defaults.request_timeout_max, "seconds"),
        Limit("time of a task", defaults.task_timeout, "seconds"),
    )


def written(found: Abilities) -> list[str]:
    """The lines for a person."""
    lines = [f"mcphost {found.version} speaks these revisions of MCP:"]
    for one in found.revisions:
        lines += ["", f"{one.revision} ({one.era} era) over {', '.join(one.transports)}"]
        for what, names in (
            ("sends", one.requests),
            ("tells", one.notices),
            ("answers", one.answered),
            ("hears", one.heard),
            ("declares", _names(one.capabilities)),
        ):
            lines += _wrapped(f"  {what:<10}", names)
    lines += ["", "extensions:"]
    for name, sends in found.extensions.items():
        lines += _wrapped(f"  {name}: ", sends)
    lines += ["", *_wrapped("JSON Schema dialects: ", found.schema_dialects), "", "limits:"]
    return lines + [f"  {limit.name}: {limit.value:,.0f} {limit.unit}" for limit in found.limits]


def _wrapped(start: str, names: Iterable[str]) -> list[str]:
    return wrap(", ".join(names), WIDTH, initial_indent=start, subsequent_indent=" " * 12, break_on_hyphens=False)


def _names(capabilities: dict[str, Any]) -> list[str]:
    """Capabilities as `roots.listChanged`; one without members by its name."""
    names: list[str] = []
    for name, value in capabilities.items():
        members = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
        names += [f"{name}.{member}" for member, given in members.items() if given is not False] or [name]
    return names
