"""Approval of a project's `.mcp.json`, bound to its exact content."""

from pathlib import Path

from mcphost.config.loader import ProjectFile, read_project_file
from mcphost.errors import ConfigError, StoreError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.sanitize import replace_surrogates
from mcphost.store.grants import GrantStore, TrustedServer


async def approve_project(grants: GrantStore, audit: AuditLog, project: ProjectFile) -> None:
    """Record the user's approval of `.mcp.json` with exactly this content in the audit log, and store it.

    Raises StoreError or ConsentDenied.
    """
    subject = AuditSubject(kind="file", name=replace_surrogates(project.path), definition=project.digest)
    await audit.record_event(subject, "kept", decision="always", who="person")
    await grants.save_trusted(
        TrustedServer(replace_surrogates(project.path), project.digest, replace_surrogates(project.path))
    )


async def load_approved_project(grants: GrantStore, folder: Path | None = None) -> tuple[ProjectFile | None, str]:
    """Return the `.mcp.json` of a folder if its current content is approved, else None and the reason.

    *folder* defaults to the current directory. If there is no such file, the reason is "".
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
    changed = "changed since it was approved" if approved else "was not approved yet"
    return None, f"{project.path} is not used: it {changed}. Read it, then: mcphost servers trust .mcp.json"
