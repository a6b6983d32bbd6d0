"""The user's approval of servers and of projects' `.mcp.json` files.

An approval of a server is bound to a digest of its settings, such as the command or URL. An approval of a file
is bound to a digest of its content.
"""

import os
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mcphost.config.approval_digest import ONLY_MASKED, ShownValues, server_digest, with_file_digests
from mcphost.config.env_file import describe_env_file
from mcphost.config.json_files import decode_text, parse_json
from mcphost.config.loader import ProjectFile, read_project_file
from mcphost.config.schema import ServerConfig
from mcphost.config.target_secrets import masked_argv, masked_url
from mcphost.config.variable_references import resolve_target
from mcphost.errors import ConfigError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.events import NoticeLevel
from mcphost.host.questions.frontend import Frontend, ask_until_decided
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import replace
from mcphost.store.grants import GrantStore, TrustedServer
from mcphost.unicode_forms import describe_name_risk

if TYPE_CHECKING:
    from mcphost.host.questions.questions import TrustServer, TrustVerdict


_MAX_EMPTY_BYTES = 10_000
"""Maximum size of a project's file that is searched for servers before it is approved."""


def make_question(
    server: ServerConfig, earlier: TrustedServer | None, shown: ShownValues = ONLY_MASKED
) -> "TrustServer":
    """Create the approval question, which shows everything that would be started or contacted.

    Secret values are masked, except those in *shown*. *earlier* is the previous approval of a server with this name, or
    None; the question shows what has changed since then.
    """
    from mcphost.config import approval_text
    from mcphost.host.questions.questions import TrustServer

    environment, headers = approval_text.masked_environment(server, shown), approval_text.masked_headers(server, shown)
    lines = approval_text.describe_server(server)
    changed = approval_text.diff_lines(earlier.description.splitlines(), lines) if earlier else ()
    state = "changed since you approved it" if changed else "was not approved yet"
    return TrustServer(
        server=server.name,
        why=f"it is configured in {server.file or 'your configuration'} and {state}",
        command=masked_argv(server) if server.is_stdio else (),
        cwd=server.cwd,
        env_file=approval_text.describe_env_path(server),
        url=masked_url(server),
        ca_file=approval_text.describe_ca_file(server),
        env_names=tuple(environment),
        environment=environment,
        header_names=tuple(headers),
        headers=headers,
        sign_in={} if server.is_stdio else approval_text.masked_sign_in(server),
        filled_in=approval_text.describe_references(server),
        expansion=approval_text.masked_expansion(server),
        file=server.file,
        trusts_claims=server.trust_annotations,
        restrictions=approval_text.describe_restrictions(server),
        warnings=server_warnings(server),
        changed=changed,
    )


def server_warnings(server: ServerConfig) -> tuple[str, ...]:
    """Return a warning, as a sentence, for each risk visible in a server's configuration entry."""
    from mcphost.config.approval_text import hide_secret_values
    from mcphost.host.servers.command_risks import (  # imported with the first question
        address_risks,
        argument_risks,
        command_risks,
        environment_risks,
        project_file_risks,
        reference_risks,
        url_secret_risks,
    )

    target = resolve_target(server)
    if server.is_stdio:
        names = {*server.env, *(describe_env_file(server)[2] if server.env_file else ())}
        risks = (*command_risks(target.argv), *argument_risks(server), *environment_risks(names))
    else:
        risks = (*address_risks(target.url), *url_secret_risks(server))
    name_risks = [danger] if (danger := describe_name_risk(server.name)) else []
    risks = (*name_risks, *risks, *reference_risks(server), *project_file_risks(server))
    return tuple(f"It {hide_secret_values(server, danger)}" for danger in risks)


class RunApprovals:
    """Approvals of servers that last until mcphost exits.

    These are the approvals of servers in `--mcp-config` files, and those that the user gave for this session only.
    """

    def __init__(self, servers: Iterable[ServerConfig] = ()) -> None:
        """Approve those of *servers* that `is_approved_by_flag` accepts, with their current configuration only."""
        self._named_by_flag = {(one.name, server_digest(one)) for one in servers if is_approved_by_flag(one)}
        self._session_approvals: set[tuple[str, str]] = set()

    def add(self, name: str, digest: str) -> None:
        """Approve the server *name* with this digest until mcphost exits."""
        self._session_approvals.add((name, digest))

    def find_source(self, server: ServerConfig, digest: str) -> str:
        """Return "session" or "flag" if the server with this digest is approved for this run, else ""."""
        if (server.name, digest) in self._session_approvals:
            return "session"
        is_named = (server.name, digest) in self._named_by_flag and is_approved_by_flag(server)
        return "flag" if is_named else ""


class ServerApprovals:
    """Permanent and session approvals of servers; the user is asked about servers that are not approved."""

    def __init__(
        self,
        grants: GrantStore,
        frontend: Frontend,
        audit: AuditLog,
        run: RunApprovals,
        *,
        notify: Callable[[NoticeLevel, str], None] = lambda level, text: None,
    ) -> None:
        """Create the approvals for one run; *notify* receives user-facing messages with their level."""
        self.audit = audit
        self._notify = notify
        self._run = run
        self._grants = grants
        self._frontend = frontend
        self._shown: dict[tuple[str, str], ShownValues] = {}

    def show_values(self, server: ServerConfig, shown: ShownValues) -> None:
        """Set the values of variables and headers to show when the user is asked to approve this exact configuration.

        This applies only to this run. *shown* contains values that someone other than the user wrote, such as the
        publisher of the server. The approval question shows them even if they are now stored in the keyring.
        """
        self._shown[server.name, server_digest(server)] = shown

    async def ask_approval(self, server: ServerConfig) -> bool:
        """Return whether the server may be used; ask the user if it is not yet approved.

        The question is withdrawn if another process stores an approval of exactly this server in the meantime. Raises
        StoreError, ConfigError or ConsentDenied.
        """
        if await self.is_approved(server):
            return True
        from mcphost.host.questions.questions import DoNotTrust, TrustAlways, TrustOnce

        digest, bound_server = "", server
        verdict: TrustVerdict | None = DoNotTrust()
        while digest != server_digest(server):  # a covered file may have changed while the question was open
            bound_server = with_file_digests(server)
            digest = server_digest(bound_server)
            shown = self._shown.get((server.name, digest), ONLY_MASKED)
            question = make_question(bound_server, await find_approval(self._grants, server.name), shown)
            verdict = await self._ask_until_approved(question, bound_server)
            if verdict is not None and not isinstance(verdict, TrustOnce | TrustAlways):
                return False
        if verdict is None:
            return True
        self._run.add(server.name, digest)
        if isinstance(verdict, TrustAlways):
            await approve(self._grants, self.audit, bound_server)
        return True

    async def _ask_until_approved(self, question: "TrustServer", bound_server: ServerConfig) -> "TrustVerdict | None":
        """Ask the user to approve a server and return the answer.

        Returns None, and withdraws the question, if another process stores an approval of *bound_server* in the
        meantime. *bound_server* is the server with digests of the files that an approval covers.
        """
        verdict = await ask_until_decided(self._frontend, question, partial(self.is_approved, bound_server))
        if verdict is None:
            name = bound_server.name
            self._notify("info", f"The server {name!r} was approved elsewhere, so its question was withdrawn.")
        return verdict

    async def authorize(self, server: ServerConfig) -> ServerConfig | None:
        """Ask the user to approve the server if necessary; return its configuration, or None if the user refuses.

        The returned configuration contains digests of the files that the approval covers; connecting with it fails if
        one of these files changes. Raises StoreError, ConfigError or ConsentDenied.
        """
        while await self.ask_approval(server):
            bound_server = with_file_digests(server)
            if await self.is_approved(bound_server):
                return bound_server
        return None

    async def approved_config(self, server: ServerConfig) -> ServerConfig:
        """Return the configuration with file digests, as `authorize` does, but without asking the user.

        Returns *server* itself if it is not approved. Raises StoreError.
        """
        try:
            bound_server = with_file_digests(server)
        except ConfigError:
            return server
        return bound_server if await self.is_approved(bound_server) else server

    async def has_connected(self, server: ServerConfig) -> bool:
        """Return whether mcphost has connected to the server with this configuration before.

        Raises StoreError.
        """
        from mcphost.client.connect import endpoint_digest

        digest = endpoint_digest(resolve_target(await self.approved_config(server)))
        return await self._grants.load_eras(digest) is not None

    async def is_approved(self, server: ServerConfig) -> bool:
        """Return whether the server is approved with exactly this configuration; never ask the user.

        Raises StoreError.
        """
        return bool(await self.find_source(server))

    async def find_source(self, server: ServerConfig) -> str:
        """Return how this exact server configuration was approved; see `approval_source`. Raises StoreError."""
        return await approval_source(self._grants, server, self._run)


def is_approved_by_flag(server: ServerConfig) -> bool:
    """Return whether the server comes from a `--mcp-config` file, which approves it for this run.

    A server that depends on the folder in which mcphost was started may run this folder's files. It is therefore
    approved only if the `--mcp-config` file is inside the folder too. If the file is elsewhere, the same option would
    approve the files of any folder in which mcphost is started.
    """
    if server.source != "flag" or not server.startup_folder:
        return server.source == "flag"
    return Path(os.path.realpath(server.file)).is_relative_to(os.path.realpath(server.startup_folder))


async def approval_source(grants: GrantStore, server: ServerConfig, run: RunApprovals | None = None) -> str:
    """Return how this exact server configuration was approved, or "" if it was not.

    The result is one of these:

    - "session": approved until mcphost exits
    - "flag": approved by the option `--mcp-config`
    - "demo": the demo server
    - "always": approved permanently

    A running chat passes *run*, because `--mcp-config` approves only the content that its files had when mcphost
    started. Commands that have just read these files pass None. Raises StoreError if the stored approvals cannot be
    read and the server is not approved for this run.
    """
    if server.source == "demo":
        return "demo"
    digest = server_digest(server)
    source = ("flag" if is_approved_by_flag(server) else "") if run is None else run.find_source(server, digest)
    if source == "flag":
        return source
    try:
        earlier = await find_approval(grants, server.name)  # includes an approval given in this run
    except StoreError:
        if not source:
            raise
        return source
    return "always" if earlier is not None and earlier.digest == digest else source


async def find_approval(grants: GrantStore, name: str) -> TrustedServer | None:
    """Return the stored approval of the server *name*, or None if there is none. Raises StoreError.

    Approvals of files are stored in the same table, under the absolute path of the file. An absolute path is therefore
    never the name of an approved server.
    """
    return None if os.path.isabs(name) else await grants.find_trusted(name)


async def approve(grants: GrantStore, audit: AuditLog, server: ServerConfig) -> None:
    """Record the user's approval of this exact server configuration in the audit log, and store it.

    Raises StoreError, ConsentDenied or ConfigError.
    """
    from mcphost.config.approval_text import describe_server

    server = with_file_digests(server)
    covers = describe_server(server)
    subject = AuditSubject(kind="trust", server=server.name, definition=server_digest(server))
    await audit.record_event(subject, "kept", decision="always", who="person", detail={"covers": covers})
    await grants.save_trusted(TrustedServer(server.name, server_digest(server), "\n".join(covers)))


async def carry_over(grants: GrantStore, audit: AuditLog, before: ServerConfig, after: ServerConfig) -> bool:
    """Transfer approval and grants from *before* to *after*; return False if *before* was not approved.

    *before* and *after* are the configurations of a server before and after mcphost edited its entry at the user's
    request. Raises StoreError or ConsentDenied.
    """
    from mcphost.config.approval_text import describe_server

    covers = describe_server(after)
    earlier = await find_approval(grants, before.name)
    if earlier is None or earlier.digest != server_digest(before):
        return False
    subject = AuditSubject(kind="trust", server=after.name, definition=server_digest(after))
    detail = {"covers": covers, "instead_of": server_digest(before)}
    await audit.record_event(subject, "carried", decision="always", who="person", detail=detail)
    return await grants.carry_over_server(
        server_digest(before), TrustedServer(after.name, server_digest(after), "\n".join(covers))
    )


async def approve_project(grants: GrantStore, audit: AuditLog, project: ProjectFile) -> None:
    """Record in the audit log that the user approved this content of `.mcp.json`, and store the approval.

    Raises StoreError or ConsentDenied.
    """
    subject = AuditSubject(kind="file", name=replace_surrogates(project.path), definition=project.digest)
    await audit.record_event(subject, "kept", decision="always", who="person")
    await grants.save_trusted(
        TrustedServer(replace_surrogates(project.path), project.digest, replace_surrogates(project.path))
    )


async def is_project_approved(grants: GrantStore, project: ProjectFile) -> bool:
    """Return whether the user approved exactly this content of a project's `.mcp.json`. Raises StoreError."""
    approved = await grants.find_trusted(replace_surrogates(project.path))
    return approved is not None and approved.digest == project.digest


async def load_approved_project(grants: GrantStore, folder: Path | None = None) -> tuple[ProjectFile | None, str]:
    """Return a folder's `.mcp.json` if it is approved, and otherwise the reason why it is not used.

    The result is a pair of the file, None if it is not used, and the reason. The reason is "" if the file's current
    content is approved, if the file is empty, or if the folder has no such file. *folder* defaults to the current
    directory.
    """
    try:
        project = read_project_file(folder or Path.cwd())
        if project is None:
            return None, ""
        approved = await grants.find_trusted(replace_surrogates(project.path))
    except (ConfigError, StoreError, OSError) as error:
        return None, str(error)
    if approved is not None and approved.digest == project.digest:
        return project, ""
    if _is_empty(project):
        return None, ""
    changed = "changed since it was approved" if approved else "was not approved yet"
    return None, f"{project.path} is not used: it {changed}. Read it, then: mcphost servers trust .mcp.json"


def _is_empty(project: ProjectFile) -> bool:
    """Return whether a project's file has no server, not even an invalid one, and no shared folder."""
    text = project.content.strip()
    if not text:
        return True
    if len(text) > _MAX_EMPTY_BYTES:
        return False
    try:
        document = parse_json(decode_text(text, project.path), project.path)
    except ConfigError:
        return False
    members = cast("dict[str, object]", document) if isinstance(document, dict) else {"": document}
    return not set(members) - {"mcpServers", "servers", "inputs"} and not any(members.values())


def find_carried(before: ServerConfig | None, typed: ServerConfig | None) -> ServerConfig | None:
    """Return *before* with file digests if an approval of it also covers *typed*; otherwise, return None.

    *before* is a server before a change, and *typed* is the changed server as the user entered it, before secrets in
    its entry are moved to the keyring.
    """
    if before is None or typed is None:
        return None
    try:
        known = with_file_digests(before)
        return known if server_digest(known) == server_digest(with_file_digests(typed)) else None
    except ConfigError:  # a server whose files cannot be read is not approved
        return None


def with_digests_of(server: ServerConfig, seen: ServerConfig) -> ServerConfig:
    """Return *server* with the file digests in *seen*, for each file that both configurations name."""
    if server.env_file == seen.env_file:
        server = replace(server, env_file_digest=seen.env_file_digest, env_file_names=seen.env_file_names)
    return replace(server, ca_digest=seen.ca_digest) if server.ca_file == seen.ca_file else server
