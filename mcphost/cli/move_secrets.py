"""Command `servers secure`: moves plaintext secrets from the user's server files into the keyring."""

from shlex import quote
from typing import TYPE_CHECKING

from mcphost.cli.printing import print_json, print_note, print_text
from mcphost.errors import ConfigError, McpHostError, UsageError
from mcphost.translation import _, translate_sentence

if TYPE_CHECKING:
    from mcphost.auth.keyring_backend import SecretBackend
    from mcphost.cli.parser import Options
    from mcphost.config.schema import ServerConfig
    from mcphost.config.secrets import PlaintextSecret
    from mcphost.config.server_files import ServerFile
    from mcphost.host.audit.audit_log import AuditLog
    from mcphost.store.grants import GrantStore


async def move_secrets(options: "Options", name: str, *, yes: bool, as_json: bool) -> int:
    """Move every plaintext secret in a server's entry into the keyring.

    The user is asked for confirmation unless *yes* is set. Raises UsageError if the entry is not in the user's own
    mcp.json or local.json, ConsentDenied if the user declines, and ConfigError if the file cannot be changed.
    """
    from pathlib import Path

    from mcphost import paths
    from mcphost.cli.build_host import load_configuration, open_grants_and_audit
    from mcphost.cli.command_runner import require_server
    from mcphost.cli.secret_storage import CommandSecretEntries
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.config.secrets import find_plaintext_secrets
    from mcphost.config.server_files import find_server_file

    async with open_grants_and_audit() as (grants, audit):
        config = await load_configuration(options, grants)
        server = require_server(config, name)
        if server.source != "user":
            raise UsageError(
                f"{name!r} is configured in {server.file}, which is not your own mcp.json.", "Only that one is changed."
            )
        secrets = find_plaintext_secrets(server)
        if not secrets:
            if as_json:
                print_json({"server": name, "moved": []})
            else:
                print_text(_("The entry of {name} has no plaintext secret.").format(name=name))
            return 0
        place = find_server_file(server, paths.config_dir(options.config_dir), Path.cwd())
        backend = CommandSecretEntries(options, config.secret_store)
        await backend.prepare(name)
        where = translate_sentence(await _describe_backend(backend))
        review = Confirmation(yes=yes, as_json=as_json)
        review.show(_("{name} ({file}), into: {where}").format(name=name, file=server.file, where=where))
        review.show(*(f"  {secret.location}" for secret in secrets))
        review.confirm("Move these secrets there?", "Nothing was moved.")
        moved, carried = list[dict[str, str]](), False
        while found := find_plaintext_secrets(server):  # found again, as a URL may have several
            secret = found[0]
            server, entry, carried = await _move_secret(server, place, secret, backend, grants, audit)
            moved.append({"value": secret.location, "reference": entry})
            if not as_json:
                print_text(_("{location} is now {entry}").format(location=secret.location, entry=entry))
    if as_json:
        print_json({"server": name, "moved": moved})
    elif carried:
        print_text(_("{name} stays approved: nothing else changed.").format(name=name))
    return 0


async def _move_secret(
    server: "ServerConfig",
    place: "ServerFile",
    secret: "PlaintextSecret",
    backend: "SecretBackend",
    grants: "GrantStore",
    audit: "AuditLog",
) -> "tuple[ServerConfig, str, bool]":
    """Move one secret in the server's entry in *place* to the keyring.

    Return the changed server, the `${…}` reference that replaces the secret, and whether the server is still approved.
    """
    import anyio

    # Once the secret has left the file, the approval must be carried over.
    with anyio.CancelScope(shield=True):
        after, entry = await _store_and_replace(server, place, secret, backend)
        return after, entry, await _carry_approval(grants, audit, server, after)
    raise AssertionError("a shield stops nothing")


async def _carry_approval(
    grants: "GrantStore", audit: "AuditLog", before: "ServerConfig", after: "ServerConfig"
) -> bool:
    """Approve a changed server entry if it was approved before the change; return whether it is approved now.

    *before* and *after* are the server as configured before and after the change.
    """
    from mcphost.host.servers.server_approval import carry_over

    try:
        return await carry_over(grants, audit, before, after)
    except McpHostError as error:
        print_note(
            _("Approve it again with: mcphost servers trust {name}. {message}").format(
                name=quote(after.name), message=translate_sentence(error.message)
            )
        )
        return False


async def _store_and_replace(
    server: "ServerConfig", place: "ServerFile", secret: "PlaintextSecret", backend: "SecretBackend"
) -> "tuple[ServerConfig, str]":
    """Store a secret in *backend*, and replace it in the server file *place* with a `${…}` reference to it.

    Return the changed server and the reference. If the file cannot be changed, the stored secret is deleted again, and
    ConfigError is raised.
    """
    import anyio.to_thread

    from mcphost.config.file_edits import read_snapshot, replace_if_unchanged
    from mcphost.config.secrets import keyring_entry_name, replace_in_config
    from mcphost.config.server_files import replace_secret_in_text

    path = place.path
    try:
        before = await anyio.to_thread.run_sync(read_snapshot, path)
        text = before.content.decode("utf-8")  # preserves a byte order mark
    except (FileNotFoundError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} was changed meanwhile; nothing was written.", "Try again.") from error
    mark = "\ufeff" if text.startswith("\ufeff") else ""
    name = keyring_entry_name(server.name, secret)
    try:
        number, base = 1, name
        while (kept := await backend.get(name)) not in (None, secret.expanded):
            number += 1
            name = f"{base}-{number}"
        after = mark + replace_secret_in_text(text[len(mark) :], place, server.name, secret, name)
        await backend.set(name, secret.expanded)
    except ConfigError:
        raise
    except McpHostError as error:
        raise ConfigError(f"{path} was not changed. {error.message}", error.hint) from error
    try:
        await anyio.to_thread.run_sync(replace_if_unchanged, path, before, after.encode("utf-8"))
    except ConfigError:
        if kept is None:
            await backend.delete(name)
        raise
    return replace_in_config(server, secret, name), f"${{keyring:{name}}}"


async def _describe_backend(backend: "SecretBackend") -> str:
    try:
        return await backend.describe()
    except McpHostError as error:
        raise ConfigError(
            f"Nothing was moved. {error.message}",
            "Use an environment variable: ${env:NAME} in mcp.json; or store secrets in a file that only you can read: "
            "mcphost servers secure --store file",
        ) from error
