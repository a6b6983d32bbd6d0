"""The peers of the interop matrix: how each is started, the expected era, and the features it lacks."""

from dataclasses import dataclass, field
from pathlib import Path

from mcphost.config.schema import Limits
from mcphost.protocol.revisions import Era
from tests.flows.fork_server import sdk_server_command
from tests.peers import node
from tests.peers.interop import installs

HERE = Path(__file__).parent
DELAYS = (0, 1, 3)
START_LIMITS = Limits(connect_timeout=90)
"""A Python library takes long to import on a busy machine."""

TIMED_OUT = "not within"
"""The beginning of the error of a probe that took too long."""

_SAME_FEATURE = {
    "form at start": "form",
    "question at start": "form",
    "lists kept": "list changes",
    "subscription kept": "subscriptions",
}
"""Probes that need the feature of another probe: what lacks the one lacks the other."""


@dataclass(frozen=True)
class KnownLimitation:
    """A feature that a release lacks: the reason, and words that the failing probe's error must contain."""

    reason: str
    evidence: str


@dataclass(frozen=True, eq=False)
class Peer:
    """A release of an MCP library in one mode; `demanded` is the protocol era that the configuration requests.

    `limits` contains the probes that must fail, with the reasons.
    """

    name: str
    library: str
    transports: tuple[str, ...]
    era: Era = "handshake"
    mode: str = "-"
    demanded: Era | None = None
    limits: dict[str, KnownLimitation] = field(default_factory=dict)

    @property
    def is_typescript(self) -> bool:
        """Whether the library is a release of the TypeScript SDK."""
        return self.library in ("sdk-first", "sdk-one", "server")

    def command(self, transport: str, delay: float) -> list[str]:
        """Return the command that starts the peer over this transport. Raises PeersMissing."""
        if self.is_typescript:
            script = str(HERE / "typescript_peer.mjs")
            return [
                node.node_executable(),
                script,
                installs.node_modules(),
                self.library,
                self.mode,
                transport,
                str(delay),
            ]
        if self.library == "mcp2":
            return sdk_server_command(HERE / "python_peer.py", self.library, transport, str(delay))
        return [installs.python(self.library), str(HERE / "python_peer.py"), self.library, transport, str(delay)]


@dataclass(frozen=True)
class Cell:
    """A combination that the matrix tests: one peer over one transport, started after a delay in seconds."""

    peer: Peer
    transport: str
    delay: int = 0

    def __str__(self) -> str:
        late = f" +{self.delay} s" if self.delay else ""
        return f"{self.peer.name} {self.transport}{late}"

    @property
    def era(self) -> Era:
        """The protocol era that is expected; over HTTP+SSE it is always the handshake era."""
        return "handshake" if self.transport == "sse" else self.peer.era

    def limit(self, probe: str) -> KnownLimitation | None:
        """Return why the probe must fail on this peer, or None if it must pass."""
        if probe == "question at start" and (self.era == "stateless" or not self.peer.is_typescript):
            return _NO_EARLY_REQUEST if self.era == "stateless" else _NO_START_HOOK
        for name in (probe, _SAME_FEATURE.get(probe, probe)):
            for key in (f"{name} {self.transport}", name):
                if key in self.peer.limits:
                    return self.peer.limits[key]
        return None


_NO_FORMS = KnownLimitation(
    "forms came with revision 2025-06-18; Server has no such method", "elicitInput is not a function"
)
_NO_EARLY_REQUEST = KnownLimitation(
    "the stateless era has no requests outside of a call of the client", "no question at the start"
)
_NO_START_HOOK = KnownLimitation(
    "the server class of the library has no hook that runs after the handshake", "no question at the start"
)
_NO_COMPLETION = KnownLimitation("the library has no way to answer completion/complete", "does not offer completions")
_NO_SUBSCRIBE = KnownLimitation("the library has no way to answer resources/subscribe", "offers no subscriptions")
_NO_LISTEN = KnownLimitation("the library answers -32601 to subscriptions/listen", "offers no subscriptions")
_ONLY_LISTEN = KnownLimitation(
    "the library subscribes to resources in the stateless era only", "offers no subscriptions"
)
_NO_STREAM = KnownLimitation("createMcpHandler serves the handshake era without sessions: GET gets 405", TIMED_OUT)
_NO_REQUESTS = KnownLimitation(
    "createMcpHandler serves the handshake era without sessions: a tool cannot ask the client",
    "per-request legacy serving cannot receive server-to-client requests",
)
_NO_SESSION_CAPABILITIES = KnownLimitation(
    "createMcpHandler serves the handshake era without sessions: it forgets what the client can answer",
    "Client does not support form elicitation",
)
_OLD_DUAL = {
    "question at start http": _NO_SESSION_CAPABILITIES,
    "list changes http": _NO_STREAM,
    "subscriptions http": _NO_STREAM,
    "form http": _NO_REQUESTS,
    "sampling http": _NO_REQUESTS,
    "roots http": _NO_REQUESTS,
}

INTEROP_PEERS = (
    Peer("TypeScript 1.0", "sdk-first", ("stdio", "sse"), limits={"form": _NO_FORMS}),
    Peer("TypeScript 1.x", "sdk-one", ("stdio", "http", "sse")),
    Peer("TypeScript 2.x dual", "server", ("stdio", "http"), "stateless", "dual"),
    Peer("TypeScript 2.x stateless", "server", ("stdio", "http"), "stateless", "modern"),
    Peer("TypeScript 2.x legacy", "server", ("stdio", "http"), "handshake", "legacy"),
    Peer(
        "TypeScript 2.x dual, old era",
        "server",
        ("stdio", "http"),
        "handshake",
        "dual",
        "handshake",
        limits=_OLD_DUAL,
    ),
    Peer("Python 1.x", "mcp1", ("stdio", "http", "sse"), limits={"subscriptions": _NO_SUBSCRIBE}),
    Peer("Python 2.x", "mcp2", ("stdio", "http", "sse"), "stateless", limits={"subscriptions sse": _ONLY_LISTEN}),
    Peer(
        "Python 2.x, old era",
        "mcp2",
        ("stdio", "http"),
        demanded="handshake",
        limits={"subscriptions": _ONLY_LISTEN},
    ),
    Peer(
        "FastMCP 2",
        "fastmcp2",
        ("stdio", "http", "sse"),
        limits={"completion": _NO_COMPLETION, "subscriptions": _NO_SUBSCRIBE},
    ),
    Peer(
        "FastMCP 3",
        "fastmcp3",
        ("stdio", "http", "sse"),
        limits={"completion": _NO_COMPLETION, "subscriptions": _NO_SUBSCRIBE},
    ),
    Peer(
        "FastMCP 4",
        "fastmcp4",
        ("stdio", "http", "sse"),
        "stateless",
        limits={"subscriptions": _NO_LISTEN, "subscriptions sse": _NO_SUBSCRIBE},
    ),
    Peer(
        "FastMCP 4, old era",
        "fastmcp4",
        ("stdio", "http"),
        demanded="handshake",
        limits={"subscriptions": _NO_SUBSCRIBE},
    ),
)
DELAYED_IN_TESTS = (("TypeScript 2.x dual", 1), ("Python 2.x", 1))
"""Peers whose late start, in seconds, is a part of every test run."""


def all_cells() -> list[Cell]:
    """Return the combinations of every peer with each of its transports and, on stdio, each start delay."""
    return [
        Cell(peer, transport, delay)
        for peer in INTEROP_PEERS
        for transport in peer.transports
        for delay in (DELAYS if transport == "stdio" else (0,))
    ]


def always_run_cells() -> list[Cell]:
    """Return the combinations that every test run includes.

    These are the peers that need nothing but npm and the development dependencies, over each of their transports.
    """
    return [
        cell
        for cell in all_cells()
        if (cell.delay == 0 and cell.peer.library not in installs.REQUIREMENTS)
        or (cell.peer.name, cell.delay) in DELAYED_IN_TESTS
    ]
