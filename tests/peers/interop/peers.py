"""The peers of the interop matrix: what to start, which era comes out, and what a release cannot do."""

from dataclasses import dataclass, field
from pathlib import Path

from mcphost.protocol.revisions import Era
from tests.peers import node
from tests.peers.interop import installs

HERE = Path(__file__).parent
DELAYS = (0, 1, 3)


@dataclass(frozen=True, eq=False)
class Peer:
    """One release of one library in one mode. `limits` names probes that must fail, and why they do."""

    name: str
    library: str
    transports: tuple[str, ...]
    era: Era = "handshake"
    mode: str = "-"
    limits: dict[str, str] = field(default_factory=dict)

    def command(self, transport: str, delay: float) -> list[str]:
        """The command that starts it. Raises PeersMissing."""
        if self.library in ("sdk-first", "sdk-one", "server"):
            script = str(HERE / "typescript_peer.mjs")
            return [node.node(), script, installs.node_modules(), self.library, self.mode, transport, str(delay)]
        return [installs.python(self.library), str(HERE / "python_peer.py"), self.library, transport, str(delay)]


@dataclass(frozen=True)
class Cell:
    """One peer over one transport, started that many seconds late."""

    peer: Peer
    transport: str
    delay: int = 0

    def __str__(self) -> str:
        late = f" +{self.delay} s" if self.delay else ""
        return f"{self.peer.name} {self.transport}{late}"

    @property
    def era(self) -> Era:
        """The era that comes out; HTTP+SSE carries the handshake era alone."""
        return "handshake" if self.transport == "sse" else self.peer.era

    def limit(self, probe: str) -> str:
        """Why the probe is expected to fail here; empty when it must pass."""
        return self.peer.limits.get(f"{probe} {self.transport}", self.peer.limits.get(probe, ""))


_NO_ELICITATION = "Server has no elicitInput: forms came with revision 2025-06-18"
_NO_COMPLETION = "the library has no way to answer completion/complete, and declares no completions"
_NO_SUBSCRIBE = "the library declares resources.subscribe false and has no way to answer resources/subscribe"
_NO_SUBSCRIBE_2026 = "the server declares resources.subscribe false, and answers -32601 to subscriptions/listen"
_NO_SUBSCRIBE_OLD = "MCPServer declares resources.subscribe in the stateless era only"

PEERS = (
    Peer("TypeScript 1.0", "sdk-first", ("stdio", "sse"), limits={"form": _NO_ELICITATION}),
    Peer("TypeScript 1.x", "sdk-one", ("stdio", "http", "sse")),
    Peer("TypeScript 2.x dual", "server", ("stdio", "http"), "stateless", "dual"),
    Peer("TypeScript 2.x stateless", "server", ("stdio", "http"), "stateless", "modern"),
    Peer("TypeScript 2.x legacy", "server", ("stdio", "http"), "handshake", "legacy"),
    Peer("Python 1.x", "mcp1", ("stdio", "http", "sse"), limits={"subscriptions": _NO_SUBSCRIBE}),
    Peer("Python 2.x", "mcp2", ("stdio", "http", "sse"), "stateless", limits={"subscriptions sse": _NO_SUBSCRIBE_OLD}),
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
    Peer("FastMCP 4", "fastmcp4", ("stdio", "http", "sse"), "stateless", limits={"subscriptions": _NO_SUBSCRIBE_2026}),
)
# What the tests always run: what needs no library besides those of the development dependencies and npm.
ALWAYS = (
    ("TypeScript 2.x dual", "stdio", 0),
    ("TypeScript 2.x dual", "stdio", 1),
    ("TypeScript 2.x dual", "http", 0),
    ("TypeScript 2.x stateless", "stdio", 0),
    ("TypeScript 2.x legacy", "http", 0),
    ("TypeScript 1.0", "stdio", 0),
    ("TypeScript 1.0", "sse", 0),
    ("TypeScript 1.x", "http", 0),
    ("Python 2.x", "stdio", 1),
    ("Python 2.x", "http", 0),
    ("Python 2.x", "sse", 0),
)


def cells() -> list[Cell]:
    """Every peer over every transport; on stdio with every start delay."""
    return [
        Cell(peer, transport, delay)
        for peer in PEERS
        for transport in peer.transports
        for delay in (DELAYS if transport == "stdio" else (0,))
    ]


def always() -> list[Cell]:
    """The cells that the tests always run."""
    return [cell for cell in cells() if (cell.peer.name, cell.transport, cell.delay) in ALWAYS]
