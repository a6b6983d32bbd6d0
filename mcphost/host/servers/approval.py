"""May this server be started or reached? Approval binds to the digest of what would run, never to a name."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from mcphost.config.approval_digest import (
    believed,
    describe,
    difference,
    filled_in,
    restrictions,
    server_digest,
    shown_environment,
    shown_headers,
    shown_sign_in,
)
from mcphost.config.certificates import bound
from mcphost.config.confusable_names import name_danger
from mcphost.config.schema import ServerConfig
from mcphost.errors import ConfigError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce, TrustServer, TrustVerdict
from mcphost.store.grants import Grants, Trust


def make_question(server: ServerConfig, earlier: Trust | None) -> TrustServer:
    """Everything that would run or be reached, untruncated, without any secret value."""
    environment, headers = shown_environment(server), shown_headers(server)
    return TrustServer(
        server=server.name,
        why=f"it is configured in {server.file or 'your configuration'} and was not approved yet",
        command=server.argv if server.is_stdio else (),
        cwd=server.cwd,
        url=server.url,
        ca_file=believed(server),
        env_names=tuple(environment),
        environment=environment,
        header_names=tuple(headers),
        headers=headers,
        sign_in={} if server.is_stdio else shown_sign_in(server),
        filled_in=filled_in(server),
        file=server.file,
        trusts_claims=server.trust_annotations,
        restrictions=restrictions(server),
        warnings=server_warnings(server),
        changed=difference(earlier.description.splitlines(), describe(server)) if earlier else (),
    )


def server_warnings(server: ServerConfig) -> tuple[str, ...]:
    """Return a sentence for each danger that can be seen in a server's entry."""
    from mcphost.host.servers.command_risks import (  # with the first question
        address_risks,
        command_risks,
        environment_risks,
        reference_risks,
    )
    from mcphost.host.servers.project_files import project_file_risks

    if server.is_stdio:
        found = (*command_risks(server.argv), *environment_risks(server.env))
    else:
        found = address_risks(server.url)
    named = [danger] if (danger := name_danger(server.name)) else []
    found = (*named, *found, *reference_risks(server), *project_file_risks(server))
    return tuple(f"It {danger}" for danger in found)


class ServerApprovals:
    """Approvals of one run, backed by the stored ones."""

    def __init__(self, grants: Grants, frontend: Frontend, journal: AuditLog) -> None:
        self.audit = journal
        self._grants = grants
        self._frontend = frontend
        self._session_approvals: set[tuple[str, str]] = set()

    async def ask_approval(self, server: ServerConfig) -> bool:
        """Whether it may be used now; asks when nothing answers. Raises StoreError, ConfigError."""
        if await self.is_approved(server):
            return True
        digest, held = "", server
        verdict: TrustVerdict = DoNotTrust()
        while digest != server_digest(server):  # a file that counts may have changed while the question was open
            held = bound(server)
            digest = server_digest(held)
            verdict = await self._frontend.ask(make_question(held, await self._grants.trust(server.name)))
            if not isinstance(verdict, TrustOnce | TrustAlways):
                return False
        self._session_approvals.add((server.name, digest))
        if isinstance(verdict, TrustAlways):
            await self.approve(held)
        return True

    async def authorize(self, server: ServerConfig) -> ServerConfig | None:
        """The server as it was approved, held to the certificates that this covers; asks when nothing answers.

        None when it may not be used. Raises StoreError, ConfigError.
        """
        while await self.ask_approval(server):
            held = bound(server)
            if await self.is_approved(held):
                return held
        return None

    async def approved_config(self, server: ServerConfig) -> ServerConfig:
        """The server as `admit` gives it; unchanged where nothing approved it. Raises StoreError."""
        try:
            held = bound(server)
        except ConfigError:
            return server
        return held if await self.is_approved(held) else server

    async def is_approved(self, server: ServerConfig) -> bool:
        """Whether an approval covers exactly this server; never asks. Raises StoreError."""
        return bool(await self.approval_source(server))

    async def approval_source(self, server: ServerConfig) -> str:
        """What approved exactly this server: as `approved`, or "session". Raises StoreError."""
        return (
            "session"
            if (server.name, server_digest(server)) in self._session_approvals
            else await approval_source(self._grants, server)
        )

    @asynccontextmanager
    async def record_connection(self, server: ServerConfig) -> AsyncGenerator[None]:
        """Around a connection: recorded before a process starts or an address is reached, and when it is over.

        Raises StoreError, Declined.
        """
        kind, what = ("process", " ".join(server.argv)) if server.is_stdio else ("connection", server.url)
        act = AuditSubject(kind=kind, server=server.name, name=what, definition=server_digest(server))
        effect = await self.audit.start_span(act, who=await self.approval_source(server))
        ended = "closed"
        try:
            yield
        except Exception:
            ended = "lost"
            raise
        finally:
            effect.end(ended)

    async def approve(self, server: ServerConfig) -> None:
        """Keep the user's approval, and record that. Raises StoreError, Declined, ConfigError."""
        await approve(self._grants, self.audit, server)


def is_approved_by_flag(server: ServerConfig) -> bool:
    """Whether naming its file with --mcp-config approves it for the run.

    A server that runs where mcphost was started is no part of what the user looked at when they wrote the file, so
    there naming it is not enough; unless the file itself is in that folder.
    """
    if server.source != "flag" or not server.started_in:
        return server.source == "flag"
    return Path(os.path.realpath(server.file)).is_relative_to(os.path.realpath(server.started_in))


async def approval_source(grants: Grants, server: ServerConfig) -> str:
    """What approves exactly this server: "flag", "demo", "always"; empty for nothing. Raises StoreError."""
    if server.source == "demo" or is_approved_by_flag(server):
        return server.source
    earlier = await grants.trust(server.name)
    return "always" if earlier is not None and earlier.digest == server_digest(server) else ""


async def approve(grants: Grants, audit: AuditLog, server: ServerConfig) -> None:
    """Record and keep the user's approval of exactly this server. Raises StoreError, Declined, ConfigError."""
    server = bound(server)
    covers = describe(server)
    act = AuditSubject(kind="trust", server=server.name, definition=server_digest(server))
    await audit.record_event(act, "kept", decision="always", who="person", detail={"covers": covers})
    await grants.approve(Trust(server.name, server_digest(server), "\n".join(covers)))


async def carry_over(grants: Grants, audit: AuditLog, before: ServerConfig, after: ServerConfig) -> bool:
    """The user had mcphost itself make `after` of `before`: what approved that approves this, and grants go along.

    Whether there was such an approval. Raises StoreError, Declined.
    """
    covers = describe(after)
    earlier = await grants.trust(before.name)
    if earlier is None or earlier.digest != server_digest(before):
        return False
    act = AuditSubject(kind="trust", server=after.name, definition=server_digest(after))
    detail = {"covers": covers, "instead_of": server_digest(before)}
    await audit.record_event(act, "carried", decision="always", who="person", detail=detail)
    return await grants.carry(server_digest(before), Trust(after.name, server_digest(after), "\n".join(covers)))
