"""May this server be started or reached? Approval binds to the digest of what would run, never to a name."""

from mcphost.config.digest import describe, server_digest
from mcphost.config.schema import ServerConfig
from mcphost.host.front import Front
from mcphost.host.questions import DoNotTrust, TrustAlways, TrustServer
from mcphost.store.grants import Grants, Trust


def question(server: ServerConfig, earlier: Trust | None) -> TrustServer:
    """Everything that would run or be reached, untruncated, without any secret value."""
    return TrustServer(
        server=server.name,
        why=f"it is configured in {server.file or 'your configuration'} and was not approved yet",
        command=server.argv if server.is_stdio else (),
        cwd=server.cwd,
        url=server.url,
        env_names=tuple(sorted(server.env)),
        header_names=tuple(sorted(server.headers)),
        file=server.file,
        changed=earlier.description if earlier else "",
    )


class Trusting:
    """Approvals of one run, backed by the stored ones."""

    def __init__(self, grants: Grants, front: Front) -> None:
        self._grants = grants
        self._front = front
        self._this_run: set[str] = set()

    async def allows(self, server: ServerConfig) -> bool:
        """Whether it may be used now; asks when nothing answers. Raises StoreError."""
        if await self.knows(server):
            return True
        verdict = await self._front.ask(question(server, await self._grants.trust(server.name)))
        if isinstance(verdict, DoNotTrust):
            return False
        self._this_run.add(server_digest(server))
        if isinstance(verdict, TrustAlways):
            await self.approve(server)
        return True

    async def knows(self, server: ServerConfig) -> bool:
        """Whether an approval covers exactly this server; never asks. Raises StoreError."""
        if server.source in ("flag", "demo") or server_digest(server) in self._this_run:
            return True
        earlier = await self._grants.trust(server.name)
        return earlier is not None and earlier.digest == server_digest(server)

    async def approve(self, server: ServerConfig) -> None:
        """Keep the user's approval. Raises StoreError."""
        await self._grants.approve(Trust(server.name, server_digest(server), "\n".join(describe(server))))
