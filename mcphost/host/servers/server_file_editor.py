"""Editor for the files that configure servers, with approval, auditing and undo; secrets go to the keyring."""

import shutil
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, NamedTuple

import anyio
import anyio.to_thread

from mcphost.config.approval_digest import has_settings_of, server_digest, with_file_digests
from mcphost.config.loader import LOCAL_FILE, PROJECT_FILE, SERVERS_FILE, SETTINGS_FILE, load_config, make_project_file
from mcphost.config.rules import Rule
from mcphost.config.schema import ServerConfig, ServerInput
from mcphost.config.secrets import (
    NOTHING_KNOWN,
    KnownSecrets,
    PlaintextSecret,
    find_moved_secrets,
    find_own_secrets,
    find_plaintext_secrets,
    keyring_entry_name,
    replace_secret,
)
from mcphost.config.server_files import (
    Scope,
    ServerEdit,
    ServerFile,
    find_server_file,
    plan_remove,
    plan_set,
    plan_set_disabled,
    read_entry,
    scope_file,
)
from mcphost.config.server_inputs import INPUTS_FILE, check_input_value, save_input_value
from mcphost.errors import ConfigError, KeyringMissing, McpHostError
from mcphost.host.audit.audit_log import AuditLog, AuditSubject
from mcphost.host.servers.secret_use import DataUse, find_data_use
from mcphost.host.servers.server_approval import (
    RunApprovals,
    approval_source,
    approve,
    approve_project,
    carry_over,
    find_carried,
    is_project_approved,
    load_approved_project,
    with_digests_of,
)
from mcphost.host.servers.server_data import (
    SecretDeletionError,
    SecretEntries,
    ServerData,
    UnreadableReferencesError,
    describe_secret_place,
    find_bundle_folder,
)
from mcphost.serialization import Struct
from mcphost.serialization import replace as replace_fields
from mcphost.store.grants import GrantStore

if TYPE_CHECKING:
    from mcphost.config.loader import ConfigSources


class SavedServer(Struct, frozen=True, kw_only=True):
    """A saved change to a server's entry; `stored_secrets` names the keyring entries created for it.

    `server` is the server as loaded after the change. It is None if the server was removed, or if an entry with this
    name in another file is used instead. `notes` describes settings that were omitted. `carried` is the server before
    the change if its approval was transferred, because the change only moved secrets to the keyring; else None.
    """

    edit: ServerEdit
    server: ServerConfig | None
    stored_secrets: tuple[str, ...] = ()
    stored_in: str = "keyring"
    """Where these secrets are stored: "keyring" or "file"."""

    is_approved: bool = False
    carried: ServerConfig | None = None
    notes: tuple[str, ...] = ()


class _EditRequest(NamedTuple):
    """A request to write a server's entry; `what` names the action in the audit log.

    `secrets` contains the known secrets in variables and headers, keyed by section and name. `seen` is a configuration
    with the digests of the files that it names, whose content the user has seen or approved. `before` is the server
    before the change, and `expected` its entry when the user began to edit it.
    """

    file: ServerFile
    name: str
    entry: dict[str, Any]
    what: str
    replace: bool
    secrets: KnownSecrets
    seen: ServerConfig | None = None
    before: ServerConfig | None = None
    expected: Mapping[str, Any] | None = None

    def plan(self, entry: dict[str, Any]) -> ServerEdit:
        """Return a planned edit that writes *entry*, which is the requested entry or a copy of it without secrets."""
        return plan_set(self.file, self.name, entry, replace=self.replace, expected=self.expected)


def describe_missing_input(server: ServerConfig, definition: ServerInput) -> str:
    """Return a sentence that names an input without a value, and the command that sets it."""
    return (
        f"{server.name} needs the input {definition.id}. Set it: "
        f"mcphost servers input {quote(server.name)} {quote(definition.id)}"
    )


class ServerFileEditor:
    """Editor that adds, changes, disables and removes servers in their configuration files.

    Its methods raise ConfigError if a file or a value in it is invalid or cannot be read or written. They raise
    UsageError if the server's name is taken or the server is not configured in a file, StoreError if approvals
    cannot be read or stored, and ConsentDenied if a required audit row cannot be written.
    """

    def __init__(
        self,
        config_dir: Path,
        folder: Path,
        grants: GrantStore,
        audit: AuditLog,
        secrets: SecretEntries,
        run: RunApprovals | None = None,
        sources: "ConfigSources | None" = None,
    ) -> None:
        """Create an editor; *folder* is the folder mcphost was started in.

        *secrets* is the storage for secrets that are found in entries. A running chat passes *run* (see
        `approval_source`) and *sources*, so that the same `--mcp-config` files, options and profile apply to edited
        servers. If *sources* is None, the usual configuration files are read.
        """
        self.config_dir = config_dir
        self.folder = folder
        self._grants = grants
        self._audit = audit
        self._secrets = secrets
        self._run = run
        self._sources = sources
        self._written: ServerEdit | None = None
        """The edit that was written last."""

        self.prepare_secrets: Callable[[str], Awaitable[str]] | None = None
        """Called with the name of a server before its secrets are stored; returns where to store them, such as "file".

        The function may ask the user to choose.
        """

        self.on_never_rules: Callable[[Iterable[Rule]], None] = lambda rules: None
        """Called with the never-rules of each configuration that is loaded after a change."""

    def list_files(self) -> dict[Scope, Path]:
        """Return the configuration file of each scope to which a server can be added, the usual scope first."""
        scopes: tuple[Scope, ...] = ("user", "local", "project")
        return {scope: scope_file(scope, self.config_dir, self.folder).path for scope in scopes}

    def read_entry(self, server: ServerConfig) -> dict[str, Any]:
        """Return a server's entry as written in its configuration file. Raises ConfigError or UsageError."""
        return read_entry(self._file_of(server), server.name)

    async def add(
        self,
        name: str,
        entry: dict[str, Any],
        scope: Scope = "user",
        *,
        replace: bool = False,
        is_approved: bool = True,
        seen: ServerConfig | None = None,
        secrets: KnownSecrets = NOTHING_KNOWN,
    ) -> SavedServer:
        """Add a server. Plaintext secrets are stored in the keyring and replaced by references in the entry.

        See `find_plaintext_secrets` for *secrets*. *is_approved* means that the user has seen what the entry starts or
        contacts; the server is then approved with the entry as written to the file. *seen* is the server as it was
        shown to the user, with file digests (see `with_file_digests`); its files are approved only with this content.
        Raises ConfigError, UsageError, StoreError or ConsentDenied; in that case, nothing is written and no secret is
        stored.
        """
        file = scope_file(scope, self.config_dir, self.folder)
        plan = _EditRequest(file, name, entry, "added", replace, secrets, seen)
        return await self._set(plan, is_approved=is_approved)

    async def change(
        self,
        server: ServerConfig,
        entry: dict[str, Any],
        *,
        expected: Mapping[str, Any] | None = None,
        is_approved: bool = True,
        seen: ServerConfig | None = None,
        secrets: KnownSecrets = NOTHING_KNOWN,
    ) -> SavedServer:
        """Replace the entry of a configured server; see `add`, and `plan_set` for *expected*.

        If the change only moves secrets to the keyring, so that the same program is started or the same URL is
        contacted, the approval and the grants of the server are transferred to the new entry.

        Pass *seen*, the new entry, if the user has seen all of it, and not only what changes: it is then approved if
        *is_approved* is true. Without *seen*, it is approved only if the old entry was approved, too, and both refer to
        the same scripts and other files.
        """
        before = server
        if is_approved and seen is None:
            with suppress(ConfigError):  # a server whose files cannot be read is not approved
                server = await anyio.to_thread.run_sync(with_file_digests, server)
            is_approved = await self.is_approved(server)
            seen = server
        plan = _EditRequest(self._file_of(server), server.name, entry, "changed", True, secrets, seen, before, expected)
        return await self._set(plan, is_approved=is_approved)

    async def is_approved(self, server: ServerConfig) -> bool:
        """Return whether a server's current configuration is approved, not counting an approval for this session only.

        Raises StoreError.
        """
        return await approval_source(self._grants, server, self._run) not in ("", "session")

    async def approve(self, server: ServerConfig) -> None:
        """Approve a configured server as it is now. Raises StoreError, ConsentDenied or ConfigError."""
        await approve(self._grants, self._audit, server)

    async def set_disabled(self, server: ServerConfig, *, disabled: bool) -> SavedServer:
        """Disable or enable a configured server. Raises ConfigError, UsageError, StoreError or ConsentDenied."""
        edit = await anyio.to_thread.run_sync(
            lambda: plan_set_disabled(self._file_of(server), server.name, disabled=disabled)
        )
        return await self._save(edit, "disabled" if disabled else "enabled")

    async def remove(self, server: ServerConfig) -> SavedServer:
        """Remove a server from its file; keep the tokens of its accounts and its other data (see `forget`).

        Raises ConfigError, UsageError, StoreError or ConsentDenied.
        """
        edit = await anyio.to_thread.run_sync(plan_remove, self._file_of(server), server.name)
        return await self._save(edit, "removed")

    def find_data(self, server: ServerConfig, others: Iterable[ServerConfig], bundles: Path) -> ServerData:
        """Return the data that is stored for *server* and not used by any server in *others*.

        The keyring is not accessed. *bundles* is the folder that contains all unpacked bundles.
        """
        kept = tuple(others)
        folder = find_bundle_folder(server, bundles)
        if folder is not None and any(find_bundle_folder(other, bundles) == folder for other in kept):
            folder = None
        inputs = tuple(one for one in server.inputs if one.stored_value is not None)
        return ServerData(secrets=find_own_secrets(server, kept), inputs=inputs, bundle=folder)

    async def find_unused_secrets(self, before: ServerConfig) -> ServerData:
        """Return the secrets that mcphost moved to the keyring for a server and that no file uses any longer.

        *before* is the server before a saved change. The result's `used` contains the moved secrets that a file still
        uses. Files that cannot be read are not searched; in this case, `forget` raises UnreadableReferencesError.
        """
        use = await self.find_use(before, ServerData(secrets=find_moved_secrets(before)))
        return ServerData(secrets=use.unused, used=use.used)

    async def find_deletable(self, server: ServerConfig, data: ServerData) -> ServerData:
        """Return the part of *data* that `forget` deletes after `remove`.

        No secrets are included if a configuration file cannot be read. Raises ConfigError or UsageError if the server
        cannot be removed.
        """
        edit = await anyio.to_thread.run_sync(plan_remove, self._file_of(server), server.name)
        use = await self.find_use(server, data, edit)
        secrets = () if use.unreadable else use.unused
        return replace_fields(use.without_kept(data), secrets=secrets, used=use.used)

    async def find_use(self, server: ServerConfig, data: ServerData, *planned: ServerEdit) -> DataUse:
        """Search all configuration files, as they will be after the *planned* edits, for uses of *data*."""
        files = [Path(server.file)] if server.file else []
        own = (SERVERS_FILE, LOCAL_FILE, SETTINGS_FILE)
        files += [*(self.config_dir / name for name in own), self.folder / PROJECT_FILE]
        files += self._sources.files if self._sources is not None else ()
        return await find_data_use(data, files, self._grants, {edit.file.path: edit.content for edit in planned})

    def describe_data(self, data: ServerData) -> tuple[str, ...]:
        """Return a phrase for each item of *data*, with the place in which it is stored."""
        return data.describe(self.inputs_file, self._secrets.place_of)

    def describe_used(self, server: ServerConfig, data: ServerData) -> tuple[tuple[str, Path], ...]:
        """Return a (phrase, file) pair for each secret in *data* that a file other than the server's own still uses."""
        used = {name: file for name, file in data.used if str(file) != server.file}
        return tuple(zip(self.describe_data(ServerData(secrets=tuple(used))), used.values(), strict=True))

    async def read_secrets(self, data: ServerData) -> dict[str, str]:
        """Return the stored secrets of a server by name. Raises McpHostError if the keyring cannot be used."""
        found = {name: await self._secrets.get(name) for name in data.secrets}
        return {name: secret for name, secret in found.items() if secret is not None}

    async def forget(self, server: ServerConfig, data: ServerData) -> tuple[str, ...]:
        """Delete the data stored for a removed server; return a phrase for each deleted item.

        Secrets and bundles that a configuration file still refers to are kept; if such a file cannot be read, all of
        them are kept. Raises ConfigError, StoreError or ConsentDenied, and McpHostError if the keyring cannot be
        used. Raises SecretDeletionError if all other data was deleted but some secrets could not be deleted.
        """
        use = await self.find_use(server, data)
        unreadable, data = use.unreadable, use.without_kept(data)
        found = await self.read_secrets(replace_fields(data, secrets=use.unused))
        secrets = found if unreadable is None else {}
        deleted = self.describe_data(replace_fields(data, secrets=tuple(secrets)))
        for what in deleted:
            subject = AuditSubject(kind="file", server=server.name, name=what)
            await self._audit.record_event(subject, "removed", decision="always", who="person")
        for one in data.inputs:
            await anyio.to_thread.run_sync(save_input_value, self.config_dir, server, one.id, None)
        if data.bundle is not None:
            await anyio.to_thread.run_sync(shutil.rmtree, data.bundle, True)
        await self._delete_secrets(tuple(secrets))
        if found and unreadable is not None:
            raise UnreadableReferencesError(
                f"These secrets were not deleted: {', '.join(found)}. {unreadable.message}", unreadable.hint
            ) from unreadable
        return deleted

    async def _delete_secrets(self, names: tuple[str, ...]) -> None:
        """Delete as many of these secrets as possible.

        Raises SecretDeletionError, which names the secrets that could not be deleted.
        """
        left: list[str] = []
        failure: McpHostError | None = None
        for name in names:
            try:
                await self._secrets.delete(name)
            except McpHostError as error:
                left.append(name)
                failure = failure or error
        if failure is not None:
            raise SecretDeletionError(
                f"These secrets could not be deleted: {', '.join(left)}. {failure.message}", failure.hint
            ) from failure

    async def restore(self, server: ServerConfig, data: ServerData, secrets: Mapping[str, str]) -> None:
        """Restore the secrets and input values that `forget` deleted, but not the bundle.

        Raises ConfigError, StoreError or ConsentDenied; McpHostError if the keyring cannot be used.
        """
        for what in self.describe_data(replace_fields(data, secrets=tuple(secrets), bundle=None)):
            subject = AuditSubject(kind="file", server=server.name, name=what)
            await self._audit.record_event(subject, "undone", decision="always", who="person")
        for name, secret in secrets.items():
            await self._secrets.set(name, secret)
        for one in data.inputs:
            await anyio.to_thread.run_sync(save_input_value, self.config_dir, server, one.id, one.stored_value)

    async def load_server(self, name: str, edited: ServerFile | None = None) -> ServerConfig | None:
        """Load the configuration files and return the server *name*, or None if they contain no such server.

        With `--mcp-config`, mcphost reads only the files that this option names; in addition, this method finds a
        server that was added to the *edited* file. An unapproved `.mcp.json` is ignored, as when mcphost starts. Raises
        ConfigError.
        """
        if self._sources is not None:
            config = await self._sources.load(None)
            self.on_never_rules(config.never_rules)
            found = config.find_server(name)
            if found is not None or edited is None or edited.path in self._sources.files:
                return found
        project, _ = await load_approved_project(self._grants, self.folder)
        config = await anyio.to_thread.run_sync(lambda: load_config(self.config_dir, project=project))
        self.on_never_rules(config.never_rules)
        file = None if self._sources is None or edited is None else str(edited.path)
        return next((one for one in config.servers if one.name == name and file in (None, one.file)), None)

    async def undo(self, saved: SavedServer) -> None:
        """Undo a saved change: restore the file, and delete the keyring entries created for the change.

        Raises ConfigError if the file was changed in the meantime, and SecretDeletionError if the file was restored but
        keyring entries could not be deleted.
        """
        subject = AuditSubject(kind="file", server=saved.edit.name, name=str(saved.edit.file.path))
        await self._audit.record_event(subject, "undone", decision="always", who="person")
        with anyio.CancelScope(shield=True):
            edit = saved.edit
            is_trusted = await self._is_project_trusted(edit.file, edit.content)
            await anyio.to_thread.run_sync(edit.undo)
            if is_trusted and edit.before is not None:
                await self._trust_project(edit.file, edit.before.content)
            if saved.carried is not None and saved.server is not None:
                await self._carry_over(with_digests_of(saved.server, saved.carried), saved.carried)
            await self._delete_secrets(saved.stored_secrets)

    @property
    def inputs_file(self) -> Path:
        """The file that stores the values of inputs that are not passwords."""
        return self.config_dir / INPUTS_FILE

    async def has_input(self, definition: ServerInput) -> bool:
        """Return whether a value is stored for an input; False if the keyring cannot be used."""
        try:
            return await self._is_input_stored(definition)
        except ConfigError:
            return False

    def describe_input_place(self, definition: ServerInput) -> str:
        """Return a phrase for the place of an input's value: "keyring", "secrets file" or the path of the file."""
        if not definition.password:
            return str(self.inputs_file)
        return describe_secret_place(self._secrets.place_of(definition.keyring_entry))

    async def set_input(self, server: ServerConfig, definition: ServerInput, value: str | None) -> bool:
        """Store the value of a server's input; if *value* is None, delete the stored value.

        The value of a password input is stored with the secrets. Returns False, without a row in the audit log, if
        there was no value to delete. Raises ConfigError, StoreError or ConsentDenied.
        """
        if value is not None:
            check_input_value(definition, value)
        elif not await self._is_input_stored(definition):
            return False
        where = self.describe_input_place(definition)
        subject = AuditSubject(kind="file", server=server.name, name=f"{where}: input {definition.id}")
        await self._audit.record_event(
            subject, "removed" if value is None else "changed", decision="always", who="person"
        )
        if not definition.password:
            await anyio.to_thread.run_sync(save_input_value, self.config_dir, server, definition.id, value)
            return True
        try:
            if value is None:
                await self._secrets.delete(definition.keyring_entry)
            else:
                await self._secrets.set(definition.keyring_entry, value)
        except McpHostError as error:
            raise ConfigError(f"The input {definition.id} cannot be stored. {error.message}", error.hint) from error
        return True

    async def _is_input_stored(self, definition: ServerInput) -> bool:
        """Return whether a value is stored for an input. Raises ConfigError if the storage cannot be used."""
        if not definition.password:
            return definition.stored_value is not None
        try:
            return await self._secrets.get(definition.keyring_entry) is not None
        except McpHostError as error:
            raise ConfigError(f"The input {definition.id} cannot be read. {error.message}", error.hint) from error

    async def record_download(self, name: str, url: str, sha256: str) -> None:
        """Record in the audit log that a server's bundle will be downloaded; *sha256* is its expected digest.

        Raises ConsentDenied if the required audit row cannot be written.
        """
        subject = AuditSubject(kind="file", server=name, name=url, definition=sha256)
        await self._audit.record_event(subject, "downloaded", decision="always", who="person")

    def _file_of(self, server: ServerConfig) -> ServerFile:
        return find_server_file(server, self.config_dir, self.folder)

    async def _set(self, request: "_EditRequest", *, is_approved: bool) -> SavedServer:
        file, name, entry, what, _, known, seen, before, _ = request
        edit = await anyio.to_thread.run_sync(request.plan, entry)
        plaintext = find_plaintext_secrets(edit.server, known) if edit.server is not None else ()
        if plaintext and file.source == "project":
            raise ConfigError(
                f"{plaintext[0].location} is a secret, which does not belong in {file.path}. Nothing was written.",
                "Write ${env:NAME} as the value, or use the scope local.",
            )
        place = await self.prepare_secrets(name) if plaintext and self.prepare_secrets is not None else "keyring"
        stored: list[str] = []
        # After a secret is stored, either the file is written or the secret is deleted again.
        with anyio.CancelScope(shield=True):
            try:
                for secret in plaintext:
                    reference, is_new = await self._store_secret(name, secret)
                    stored += [reference] if is_new else []
                    entry = replace_secret(entry, secret, reference)
                carried: ServerConfig | None = None
                if plaintext:
                    carried = await anyio.to_thread.run_sync(find_carried, before, edit.server)
                    edit = await anyio.to_thread.run_sync(request.plan, entry)
                saved = await self._save(edit, what, tuple(stored), is_approved=is_approved, seen=seen, carried=carried)
                return replace_fields(saved, stored_in=place)
            except BaseException as error:
                if self._written is edit:
                    raise  # the file refers to the secrets
                try:
                    await self._delete_secrets(tuple(stored))
                except SecretDeletionError as failure:
                    if isinstance(error, McpHostError):
                        error.hint = f"{error.hint} {failure.message}".strip()
                raise
        raise AssertionError("a shield stops nothing")

    async def _store_secret(self, server: str, secret: PlaintextSecret) -> tuple[str, bool]:
        """Store a secret in the keyring; return the name of the keyring entry, and whether the entry is new.

        If the keyring already has an entry with this name, the entry is used again if it contains the same secret; if
        it contains another secret, a number is added to the name of the new entry. Raises ConfigError if the keyring
        cannot be used.
        """
        base = name = keyring_entry_name(server, secret)
        number = 1
        try:
            while (existing := await self._secrets.get(name)) not in (None, secret.expanded):
                number += 1
                name = f"{base}-{number}"
            await self._secrets.set(name, secret.expanded)
        except KeyringMissing as error:
            raise ConfigError(
                f"{secret.location} is a secret, and there is no keyring to store it in. Nothing was written.",
                "Set an environment variable and write ${env:NAME} as the value, install a keyring (GNOME Keyring, "
                "KWallet), or store secrets in a file that only you can read: mcphost servers secure --store file",
            ) from error
        except McpHostError as error:
            raise ConfigError(
                f"{secret.location} is a secret, which cannot be stored. {error.message} Nothing was written.",
                error.hint or "Set an environment variable, and write ${env:NAME} as the value.",
            ) from error
        return name, existing is None

    async def _save(
        self,
        edit: ServerEdit,
        what: str,
        stored: tuple[str, ...] = (),
        *,
        is_approved: bool = False,
        seen: ServerConfig | None = None,
        carried: ServerConfig | None = None,
    ) -> SavedServer:
        """Record the change in the audit log and write it; *what* is the recorded event.

        If *is_approved* is true, the server is then loaded from the changed file and approved. The approval is bound to
        the content that the files named in the server's entry had before the change was written. If *seen* is given and
        the files had other content when the user saw them, the server is not approved. If *carried* is given, its
        approval is transferred to the new server.
        """
        planned = edit.server
        if planned is not None and is_approved:
            known = planned if seen is None else with_digests_of(planned, seen)
            planned = await anyio.to_thread.run_sync(with_file_digests, known)  # before anything is written
            is_approved = seen is None or planned == known
        digest = server_digest(planned) if planned is not None else ""
        subject = AuditSubject(kind="file", server=edit.name, name=str(edit.file.path), definition=digest)
        await self._audit.record_event(subject, what, decision="always", who="person")
        with anyio.CancelScope(shield=True):
            is_trusted = await self._is_project_trusted(edit.file, edit.before.content if edit.before else None)
            await anyio.to_thread.run_sync(edit.apply)
            self._written = edit
            if is_trusted:
                await self._trust_project(edit.file, edit.content)
            server = await self._load(edit) if planned is not None else None
            # Another program may have changed the entry since it was written.
            if server is None or planned is None or not has_settings_of(server, planned):
                is_approved, carried = False, None
            if server is not None and carried is not None and not await self._carry_over(carried, server):
                carried = None
            if server is not None and planned is not None and is_approved:
                await approve(self._grants, self._audit, with_digests_of(server, planned))
            return SavedServer(
                edit=edit, server=server, stored_secrets=stored, is_approved=is_approved, carried=carried
            )
        raise AssertionError("a shield stops nothing")

    async def _carry_over(self, before: ServerConfig, after: ServerConfig) -> bool:
        """Transfer the approval of *before* to *after*, whether it is stored or for this run only.

        Returns False if *before* is not approved.
        """
        after = with_digests_of(after, before)
        run = self._run if self._run is not None and self._run.find_source(before, server_digest(before)) else None
        if run is not None:
            run.add(after.name, server_digest(after))
        return await carry_over(self._grants, self._audit, before, after) or run is not None

    async def _is_project_trusted(self, file: ServerFile, content: bytes | None) -> bool:
        """Return whether the user has approved a project's *file* with this content.

        If *content* is None, because the file does not exist yet, the result is True. If the file does not belong to a
        project, the result is False.
        """
        if file.source != "project" or content is None:
            return file.source == "project"
        return await is_project_approved(self._grants, make_project_file(file.path, content))

    async def _trust_project(self, file: ServerFile, content: bytes) -> None:
        """Approve the content that mcphost wrote to a project's file, even if the file has changed since then."""
        await approve_project(self._grants, self._audit, make_project_file(file.path, content))

    async def _load(self, edit: ServerEdit) -> ServerConfig | None:
        """Load the configuration files and return the edited server as mcphost now uses it.

        Returns None if the server is not used, or if an entry with this name in another file is used instead.
        """
        server = await self.load_server(edit.name, edit.file)
        return server if server is not None and server.file == str(edit.file.path) else None
