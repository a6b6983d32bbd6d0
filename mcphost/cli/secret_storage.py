"""Storage for secrets that commands move out of servers' entries: the keyring or, if the user chooses it, a file."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcphost.cli.printing import print_note, print_text
from mcphost.errors import ConfigError, KeyringMissing, McpHostError
from mcphost.sanitize import sanitize
from mcphost.translation import _, translate_sentence

if TYPE_CHECKING:
    from pathlib import Path

    from mcphost.auth.keyring_backend import SecretBackend
    from mcphost.cli.parser import Options
    from mcphost.config.schema import SecretStore


class CommandSecretEntries:
    """Named secrets in the keyring or in the file that the user chose; implements `SecretEntries` for commands.

    If there is no keyring and no storage location is configured, `prepare` asks the user for one at the terminal.
    """

    def __init__(self, options: "Options", store: "SecretStore") -> None:
        from mcphost.cli.build_host import open_secret_backend

        self._options = options
        self._store = store
        self._backend: SecretBackend = open_secret_backend(store)
        self._was_asked = False

    def place_of(self, name: str) -> str:
        """Return where the secret *name* is, or would be, stored: "keyring" or "file"."""
        return "file" if self._store == "file" else "keyring"

    async def get(self, name: str) -> str | None:
        """Return the secret with this name, or None if there is none."""
        return await self._backend.get(name)

    async def set(self, name: str, secret: str) -> None:
        """Store *secret* under *name*, in place of an earlier secret with this name."""
        await self._backend.set(name, secret)

    async def delete(self, name: str) -> None:
        """Delete the secret *name*; do nothing if there is no such secret."""
        await self._backend.delete(name)

    async def describe(self) -> str:
        """Return a description of where the secrets are stored.

        Raises McpHostError if the storage cannot be used.
        """
        return await self._backend.describe()

    async def prepare(self, server: str) -> str:
        """Return where a secret of *server* will be stored: "keyring" or "file".

        If no storage location is configured and there is no keyring, the user is asked first, but only once and only at
        a terminal.
        """
        from mcphost.cli.terminal_frontend import is_interactive

        if not (self._store or self._was_asked) and is_interactive():
            try:
                await self._backend.describe()
            except KeyringMissing as error:
                self._was_asked = True
                await self._ask(server, error)
            except McpHostError:
                pass  # storing the secret reports the problem
        return self.place_of("")

    async def _ask(self, server: str, error: McpHostError) -> None:
        import sys

        from mcphost import paths
        from mcphost.auth.file_backend import PLAIN_FILE
        from mcphost.cli.terminal_frontend import TerminalInput

        text = _("{server} has a secret, and there is no keyring to store it in. {reason}")
        print_note(text.format(server=server, reason=translate_sentence(error.message)))
        print_note(_("Where should it be stored?"))
        file = paths.data_dir() / PLAIN_FILE
        for line in (
            _("  n  nowhere: nothing is changed"),
            _("  f  in {file}, which only you may read; not encrypted").format(file=file),
        ):
            sys.stderr.write(sanitize(line, keep_newlines=False) + "\n")
        if await TerminalInput().read_choice("nf") == "f":
            await self.use_file()

    async def use_file(self) -> None:
        """Store secrets in the file from now on, and save this choice in config.toml.

        Raises ConfigError if the choice cannot be saved.
        """
        import anyio.to_thread

        from mcphost import paths
        from mcphost.cli.build_host import open_secret_backend
        from mcphost.config.loader import SETTINGS_FILE
        from mcphost.config.settings_edits import save_secret_store

        path = paths.config_dir(self._options.config_dir) / SETTINGS_FILE
        await anyio.to_thread.run_sync(save_secret_store, path, "file")
        self._store, self._backend = "file", open_secret_backend("file")
        print_note(_('Saved: secrets.store = "file" in {path}.').format(path=path))


async def choose_secret_store(options: "Options") -> int:
    """Configure a file that only the user can read as the secret storage (`servers secure --store file`).

    Returns the exit code. Raises ConfigError if another storage location is already set in config.toml.
    """
    from mcphost.cli.build_host import load_approved_configuration

    config = await load_approved_configuration(options)
    if config.secret_store not in ("", "file"):
        raise ConfigError(
            f'config.toml says [secrets] store = "{config.secret_store}".', "Change it there if you want another place."
        )
    if config.secret_store:
        print_text(_("Secrets are stored in a file already."))
    else:
        await CommandSecretEntries(options, "").use_file()
    return 0


def print_deleted(deleted: Iterable[str]) -> None:
    """Print a line for each item in *deleted*, such as a stored secret that only a removed server used."""
    for what in deleted:
        print_text(_("  deleted: {what}").format(what=translate_sentence(what)))


def print_used_secrets(used: "Iterable[tuple[str, Path]]") -> None:
    """Print a line for each secret that was kept because a configuration file still refers to it."""
    for what, file in used:
        print_text(_("  kept: {what}; {file} refers to it").format(what=translate_sentence(what), file=file))
