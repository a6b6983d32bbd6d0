"""Editor that changes configured servers in their files and in the running program."""

import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import anyio.to_thread

from mcphost.config.approval_digest import ONLY_MASKED, ShownValues
from mcphost.config.approval_text import show_foreign_values
from mcphost.config.entry_scopes import find_scopes
from mcphost.config.foreign_entries import drop_reserved_settings
from mcphost.config.schema import ServerConfig
from mcphost.config.secret_masking import HIDDEN
from mcphost.config.secrets import NOTHING_KNOWN, KnownSecrets
from mcphost.config.server_files import Scope, ServerEdit
from mcphost.errors import McpHostError, UsageError, join_sentences
from mcphost.host.servers.server_data import (
    SecretDeletionError,
    ServerData,
    UnreadableReferencesError,
    find_bundle_folder,
)
from mcphost.host.servers.server_file_editor import SavedServer, ServerFileEditor
from mcphost.host.servers.servers import Servers
from mcphost.serialization import replace

_MAX_UNDO = 20


class _Change:
    """A change that can be undone; the secrets and input values that it deleted are kept here, in memory only."""

    def __init__(
        self,
        saved: SavedServer,
        server: ServerConfig | None = None,
        data: ServerData | None = None,
        secrets: Mapping[str, str] | None = None,
    ) -> None:
        self.saved = saved
        self.server = server
        self.data = data
        self.secrets = secrets or {}


def describe_left_secrets(data: ServerData, error: McpHostError) -> str:
    """Return sentences about unused secrets that could not be deleted.

    *data* contains the names of the secrets, and *error* is the reason.
    """
    if isinstance(error, UnreadableReferencesError):
        return join_sentences(str(error), "Then add the reference to the secret again, and remove it again.")
    cause = error.__cause__ if isinstance(error, SecretDeletionError) else error
    message = cause.message if isinstance(cause, McpHostError) else error.message
    note = f"A secret that nothing refers to is still stored: {', '.join(data.secrets)}."
    return f"{note} {message}"


class ServerEditor:
    """Editor of configured servers for a user interface; changes take effect immediately.

    When a server that is not approved starts, the user is asked to approve it. If a method raises ConfigError,
    UsageError, StoreError or ConsentDenied, nothing was changed, unless the method states otherwise.
    """

    def __init__(self, editor: ServerFileEditor, servers: Servers, bundles: Path) -> None:
        """Create an editor of *servers*; *bundles* is the folder that contains all unpacked bundles."""
        self._editor = editor
        self._servers = servers
        self._bundles = bundles
        self._undo: list[_Change] = []
        self._unused_bundles: list[tuple[ServerConfig, Path]] = []

    @property
    def can_undo(self) -> bool:
        """Whether `undo` has a change to undo."""
        return bool(self._undo)

    async def read_entry(self, name: str) -> dict[str, Any]:
        """Return the configuration entry of a server as written in its file."""
        return await anyio.to_thread.run_sync(self._editor.read_entry, self._servers.find(name).config)

    async def find_other_files(self, name: str) -> tuple[str, ...]:
        """Return the other files with an entry for *name*; those entries are neither used nor changed."""
        server = self._servers.find(name).config
        entries = await anyio.to_thread.run_sync(find_scopes, name, self._editor.config_dir, self._editor.folder)
        return tuple(entry.path for entry in entries if entry.path != server.file)

    def list_files(self) -> dict[Scope, Path]:
        """Return the configuration file of each scope to which a server can be added, the usual scope first."""
        return self._editor.list_files()

    async def add(self, entries: Mapping[str, dict[str, Any]], scope: Scope = "user") -> list[SavedServer]:
        """Add pasted or typed servers to the configuration file of *scope* and start them; return the saved servers.

        Servers in a project's file that is not approved are not started.

        The pasted text may come from someone else, for example from a README. Settings that only the user may choose
        are therefore omitted and named in the notes of the saved server, and the approval question shows values that
        may be code.
        """
        saved: list[SavedServer] = []
        for name, entry in entries.items():
            own, notes = drop_reserved_settings(name, entry)
            added = await self._editor.add(name, own, scope, is_approved=False)
            await self._apply(added, _find_shown_values(own, added.server))
            saved.append(replace(added, notes=notes))
        return saved

    async def install(
        self, name: str, entry: dict[str, Any], *, is_approved: bool, secrets: KnownSecrets, shown: ShownValues
    ) -> SavedServer:
        """Add one server to the user's mcp.json and start it; see ServerFileEditor.add.

        See ServerApprovals.show_values for *shown*.
        """
        saved = await self._editor.add(name, entry, is_approved=is_approved, secrets=secrets)
        return await self._apply(saved, shown)

    async def change(
        self,
        name: str,
        entry: dict[str, Any],
        *,
        expected: Mapping[str, Any] | None = None,
        is_approved: bool = False,
        secrets: KnownSecrets = NOTHING_KNOWN,
        shown: ShownValues = ONLY_MASKED,
    ) -> SavedServer:
        """Replace the entry of a server in its file and reconnect to the server; see ServerFileEditor.change.

        *expected* is the entry that the user began to edit. Raises ConfigError if the file no longer contains this
        entry.

        Secrets that mcphost had moved to the keyring are deleted if no file refers to them after the change, and are
        listed in the `notes` of the result. They stay in memory so that `undo` can restore them. See
        ServerApprovals.show_values for *shown*.
        """
        config = self._servers.find(name).config
        saved = await self._editor.change(config, entry, expected=expected, is_approved=is_approved, secrets=secrets)
        data = await self._editor.find_unused_secrets(config)
        used = self._editor.describe_used(config, data)
        kept = tuple(f"Kept, because {file} refers to it: {what}." for what, file in used)
        saved = replace(saved, notes=(*saved.notes, *kept))
        try:
            stored = await self._editor.read_secrets(data)
        except McpHostError as error:
            note = describe_left_secrets(data, error)
            return replace(await self._apply(saved, shown), notes=(*saved.notes, note))
        if not stored:
            return await self._apply(saved, shown)
        await self._record(_Change(saved, config, data, stored), shown)
        try:
            await self._editor.forget(config, data)
            note = f"Deleted, as nothing refers to it any more: {', '.join(stored)}."
        except McpHostError as error:
            note = describe_left_secrets(data, error)
        return replace(saved, notes=(*saved.notes, note))

    async def set_disabled(self, name: str, *, disabled: bool) -> SavedServer:
        """Disable a server and close its connection, or enable and start it."""
        return await self._apply(await self._editor.set_disabled(self._servers.find(name).config, disabled=disabled))

    def find_data(self, name: str) -> ServerData:
        """Return the data stored for a server outside its configuration entry: secrets, input values and a bundle.

        Data that another configured server also uses is left out.
        """
        server = self._servers.find(name).config
        others = [connection.config for connection in self._servers if connection.config is not server]
        return self._editor.find_data(server, others, self._bundles)

    async def find_deletable(self, name: str) -> ServerData:
        """Return the data that is deleted if the server is removed together with its data.

        This is the result of `find_data` without the secrets that a configuration file still refers to. If a
        configuration file cannot be read, no secrets are included. Raises ConfigError or UsageError if the server
        cannot be removed.
        """
        return await self._editor.find_deletable(self._servers.find(name).config, self.find_data(name))

    async def remove(self, name: str, *, forgets: bool = False) -> SavedServer:
        """Remove a server from its file and close its connection; the tokens of its accounts are kept.

        If *forgets* is true, the server's secrets, input values and unpacked bundle are also deleted. So that `undo`
        can restore them, the deleted values stay in memory, and the bundle is deleted only by `close`. Raises
        UnreadableReferencesError if the server was removed, but its secrets were kept.
        """
        server = self._servers.find(name).config
        if not forgets:
            return await self._apply(await self._editor.remove(server))
        data, deletable = self.find_data(name), await self.find_deletable(name)
        secrets = await self._editor.read_secrets(deletable)
        saved = await self._record(_Change(await self._editor.remove(server), server, deletable, secrets))
        if deletable.bundle is not None:
            self._unused_bundles.append((server, deletable.bundle))
        try:
            await self._editor.forget(server, replace(data, bundle=None))
        except UnreadableReferencesError as error:
            raise UnreadableReferencesError(
                error.message, join_sentences(error.hint, "Then undo the removal, and remove the server again.")
            ) from error
        return saved

    async def close(self) -> None:
        """Delete the bundles of removed servers whose data was also deleted, unless the removal was undone."""
        used = {find_bundle_folder(connection.config, self._bundles) for connection in self._servers}
        for server, folder in self._unused_bundles:
            use = await self._editor.find_use(server, ServerData(bundle=folder))
            if folder not in used and not use.keeps_bundle:
                await anyio.to_thread.run_sync(shutil.rmtree, folder, True)

    async def undo(self) -> str:
        """Undo the latest change, restore the secrets that it deleted, and return the name of the changed server.

        Raises UsageError if there is no change to undo, and ConfigError if the file was changed in the meantime. Raises
        SecretDeletionError if the change was undone, but secrets that it had stored could not be deleted.
        """
        if not self._undo:
            raise UsageError("There is no change to undo.")
        change = self._undo[-1]
        left: SecretDeletionError | None = None
        if change.server is None or change.data is None:
            try:
                await self._editor.undo(change.saved)
            except SecretDeletionError as error:
                left = error
        else:
            await anyio.to_thread.run_sync(change.saved.edit.check_undo)  # before the keyring is changed
            try:
                await self._editor.restore(change.server, change.data, change.secrets)
                await self._editor.undo(change.saved)
            except SecretDeletionError as error:
                left = error
            except McpHostError:
                with suppress(McpHostError):  # the keyring may be the reason
                    await self._editor.forget(change.server, replace(change.data, bundle=None))
                raise
        self._undo.pop()
        await self._update(change.saved.edit)
        if left is not None:
            raise left
        return change.saved.edit.name

    async def _apply(self, saved: SavedServer, shown: ShownValues = ONLY_MASKED) -> SavedServer:
        return await self._record(_Change(saved), shown)

    async def _record(self, change: _Change, shown: ShownValues = ONLY_MASKED) -> SavedServer:
        self._undo = [*self._undo, change][-_MAX_UNDO:]
        await self._update(change.saved.edit, shown)
        return change.saved

    async def _update(self, edit: ServerEdit, shown: ShownValues = ONLY_MASKED) -> None:
        """Add, update or remove the edited server in the running program, so that it matches the configuration files.

        See ServerApprovals.show_values for *shown*.
        """
        name = edit.name
        server = await self._editor.load_server(name, edit.file)
        known = any(connection.config.name == name for connection in self._servers)
        if server is None:
            if known:
                self._servers.remove(name)
        elif known:
            self._servers.update(server, shown)
        else:
            self._servers.add(server, shown)


def _find_shown_values(entry: Mapping[str, Any], server: ServerConfig | None) -> ShownValues:
    """Return the values of a pasted entry's variables to show in the approval question.

    Values that may be code are included, even if they are now stored in the keyring. *server* is the server as
    loaded from the file, or None if it is not used.
    """
    if server is None or not server.is_stdio:
        return ONLY_MASKED
    pasted = {name: str(text) for name, text in cast("dict[str, object]", entry.get("env") or {}).items()}
    return {key: text for key, text in show_foreign_values(replace(server, env=pasted)).items() if text != HIDDEN}
