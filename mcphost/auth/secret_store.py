"""Storage of secrets: the keyring, a file that the user chose instead, or memory.

The user chooses the place with `secrets.store` in config.toml, or is asked for it if the keyring cannot be
used.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import anyio

from mcphost.auth.file_backend import ENCRYPTED_FILE, PLAIN_FILE, EncryptedFileBackend, FileBackend
from mcphost.auth.keyring_backend import SecretBackend
from mcphost.config.schema import SecretStore
from mcphost.errors import McpHostError, join_sentences
from mcphost.paths import is_missing
from mcphost.sign_in_types import check_entries

StoragePlace = SecretStore
MAX_PASSPHRASE_ATTEMPTS = 5
"""Number of wrong passphrases after which mcphost stops asking."""
WRONG_PASSPHRASE = "That is not the passphrase of this file."  # noqa: S105 - a message


class SecretStorageInteraction(Protocol):
    """Interface for asking the user about the storage of secrets. All methods can be cancelled."""

    async def choose_storage(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> tuple[str, str]:
        """Ask where to store tokens when the keyring cannot be used; return the place and the passphrase.

        The passphrase is "" unless the place is the encrypted file.

        - *servers*: the servers whose tokens need to be stored.
        - *reason*: why the keyring cannot be used.
        - *plain_file*, *sealed_file*: the paths of the unencrypted and the encrypted file.
        - *is_new*: whether the encrypted file does not exist yet, so that the user chooses its passphrase.
        - *note*: what was wrong with the user's previous input; "" the first time.
        """
        ...

    async def ask_passphrase(self, *, file: str, note: str) -> str | None:
        """Ask for the passphrase of the secrets file at the path *file*.

        Returns None if the user leaves the file locked. *note* says what was wrong with the previous passphrase, or
        is "" the first time.
        """
        ...


class SecretStorage:
    """The places where secrets can be stored, and the place in use.

    - *directory*: the folder for files with secrets; None disables storage in files.
    - *configured_place*: the place that the user configured. If it is "", the keyring is used, and the user is asked
      for another place when the keyring fails.
    - *interaction*: asks the user for a place or a passphrase; if it is None, the user is never asked.
    - *can_ask_place*: if this is False, the user is asked only for passphrases.
    - *save_choice*: saves the user's choice of a place in the configuration, and returns a message about this.
    """

    def __init__(
        self,
        keyring: SecretBackend,
        directory: Path | None,
        *,
        configured_place: StoragePlace = "",
        interaction: SecretStorageInteraction | None = None,
        can_ask_place: bool = True,
        save_choice: Callable[[StoragePlace], Awaitable[str]] | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.warn = warn
        self._keyring = keyring
        self._plain = FileBackend(directory / PLAIN_FILE, self._warn) if directory else None
        self._encrypted = EncryptedFileBackend(directory / ENCRYPTED_FILE, self._warn) if directory else None
        self._chosen_place: StoragePlace = configured_place
        self._interaction = interaction
        self._can_ask_place = can_ask_place and interaction is not None and directory is not None
        self._save_choice = save_choice
        self._has_answered = False
        self._question_lock = anyio.Lock()
        self._has_declined_unlock = False

    @property
    def place(self) -> StoragePlace:
        """The place where new secrets are stored."""
        return "keyring" if self._chosen_place == "" else self._chosen_place

    @property
    def can_ask(self) -> bool:
        """Whether the user can still be asked for a place other than the keyring."""
        return self._can_ask_place and not self._chosen_place and not self._has_answered

    @property
    def is_declined(self) -> bool:
        """Whether the user was asked and chose not to store anything."""
        return self._has_answered and not self._chosen_place

    @property
    def is_locked(self) -> bool:
        """Whether the place in use is the encrypted file, and its passphrase has not been entered yet."""
        return self.place == "encrypted" and self.is_encrypted_file_locked

    @property
    def is_encrypted_file_locked(self) -> bool:
        """Whether the passphrase of the encrypted file has not been entered yet in this process.

        The file can contain secrets even if new secrets are stored in another `place`. False if storage in files is
        disabled.
        """
        return self._encrypted is not None and not self._encrypted.is_unlocked

    @property
    def encrypted_path(self) -> str:
        """The path of the encrypted file, or "" if storage in files is disabled."""
        return "" if self._encrypted is None else str(self._encrypted.path)

    def get_backend(self, place: str) -> SecretBackend | None:
        """Return the backend for *place*.

        Returns None if *place* means memory only, or is unknown to this version of mcphost.
        """
        match place:
            case "keyring":
                return self._keyring
            case "file":
                return self._plain
            case "encrypted":
                return self._encrypted
            case _:
                return None

    async def ask_place(self, servers: tuple[str, ...], reason: str) -> None:
        """Ask the user, once per run, where to store tokens when the keyring cannot be used.

        *servers* are the servers whose tokens need to be stored, and *reason* is the reason why the keyring cannot be
        used. If the user chooses a file, `place` is that file afterwards; if the user refuses, `is_declined` is True.
        Does nothing if `can_ask` is False. If this call is cancelled before the user has chosen, the next call asks
        again. Never raises McpHostError.
        """
        async with self._question_lock:
            interaction, plain, encrypted = self._interaction, self._plain, self._encrypted
            if not self.can_ask or interaction is None or plain is None or encrypted is None:
                return
            note, is_chosen = "", False
            with check_entries():
                while not is_chosen:
                    place, passphrase = await interaction.choose_storage(
                        servers=servers, reason=reason, plain_file=str(plain.path), sealed_file=str(encrypted.path),
                        is_new=not encrypted.exists, note=note,
                    )  # fmt: skip
                    # The answer takes effect even if the user quits now.
                    with anyio.CancelScope(shield=True):
                        note = await self._passphrase_error(encrypted, passphrase) if place == "encrypted" else ""
                        if is_chosen := not note:
                            await self._apply_choice(place)

    async def _passphrase_error(self, backend: EncryptedFileBackend, passphrase: str) -> str:
        """Try to unlock the encrypted file with *passphrase*; return "" on success, otherwise an error message."""
        try:
            if passphrase and await backend.unlock(passphrase):
                return ""
        except McpHostError as error:
            return str(error)
        return WRONG_PASSPHRASE if passphrase else "The passphrase is empty."

    async def _apply_choice(self, place: str) -> None:
        self._has_answered = True
        if place in ("file", "encrypted"):
            self._chosen_place = "file" if place == "file" else "encrypted"
            if self._save_choice is not None:
                self._warn(await self._save_choice(self._chosen_place))

    async def unlock(self) -> bool:
        """Unlock the encrypted file, asking for its passphrase; return whether it is unlocked.

        If the user leaves the file locked, the user is not asked again in this run, unless `ask_again` is called.
        Never raises McpHostError: if the file cannot be used, it stays locked and the user is warned.
        """
        async with self._question_lock:
            encrypted = self._encrypted
            if encrypted is None or encrypted.is_unlocked or self._interaction is None or self._has_declined_unlock:
                return encrypted is not None and encrypted.is_unlocked
            with check_entries():
                is_unlocked = await self._ask_passphrase(encrypted, self._interaction)
            self._has_declined_unlock = not is_unlocked
            return is_unlocked

    def ask_again(self) -> None:
        """Allow the next `unlock` to ask for the passphrase, even if the user has left the file locked before."""
        self._has_declined_unlock = False

    async def _ask_passphrase(self, encrypted: EncryptedFileBackend, interaction: SecretStorageInteraction) -> bool:
        note = ""
        for _ in range(MAX_PASSPHRASE_ATTEMPTS):
            passphrase = await interaction.ask_passphrase(file=str(encrypted.path), note=note)
            if passphrase is None:
                return False
            try:
                if passphrase and await encrypted.unlock(passphrase):
                    return True
            except McpHostError as error:
                self._warn(str(error))
                return False
            note = WRONG_PASSPHRASE
        return False

    def _warn(self, text: str) -> None:
        if text:
            self.warn(text)


RESERVED_PREFIX = "sign-in-"
"""The prefix of the entries that mcphost itself stores; a configuration cannot refer to them."""


async def resolve_reference(keyring: SecretBackend, directory: Path, name: str) -> str | None:
    """Return the secret for a reference `${keyring:NAME}` with this *name*, or None if there is none.

    The plain-text secrets file in *directory* is searched first, then *keyring*. mcphost's stored tokens and OAuth
    clients are never returned, because a configuration file could send them to another server. Raises McpHostError if
    the file or the keyring cannot be read.
    """
    if name.startswith(RESERVED_PREFIX):
        return None
    plain = FileBackend(directory / PLAIN_FILE)
    try:
        is_in_keyring = is_missing(plain.path)
    except OSError:
        is_in_keyring = False  # reading it raises an error that names it
    if is_in_keyring:
        return await keyring.get(name)
    secret = await plain.get(name)
    return await keyring.get(name) if secret is None else secret


class NamedSecrets:
    """Backend for the secrets of servers and models: the keyring, or the plain-text file in *directory*.

    References such as `${keyring:NAME}` are looked up in both the keyring and the file (see `resolve_reference`).
    Storing or removing a secret in one of them therefore also removes a copy that an earlier configuration left in the
    other. *warn* receives messages about the file, and about copies that could not be removed.
    """

    def __init__(
        self, keyring: SecretBackend, directory: Path, *, is_file: bool, warn: Callable[[str], None] = lambda text: None
    ) -> None:
        """Create the backend; secrets are stored in the file if *is_file* is set, otherwise in the keyring.

        *directory* is the folder that contains the file. *warn* receives messages about the file, and about copies
        that could not be removed.
        """
        self._keyring = keyring
        self._file = FileBackend(directory / PLAIN_FILE, warn)
        self._is_file = is_file
        self._warn = warn
        self._used: SecretBackend = self._file if is_file else keyring

    async def get(self, name: str) -> str | None:
        """Return the secret, or None if there is none.

        If secrets are stored in the file, only the file is read. If they are stored in the keyring, the file is read as
        well when the keyring does not contain the secret or cannot be read.
        """
        if self._is_file:
            return await self._file.get(name)
        try:
            secret = await self._keyring.get(name)
        except McpHostError:
            if (secret := await self._file.get(name)) is None:
                raise
            return secret
        return await self._file.get(name) if secret is None else secret

    async def set(self, name: str, secret: str) -> None:
        """Store or replace the secret, and remove any copy of it from the other place (the keyring or the file).

        A copy in a keyring that cannot be read is not removed.
        """
        await self._used.set(name, secret)
        if self._is_file:
            try:
                if await self._keyring.get(name) is None:
                    return
            except McpHostError:  # nothing suggests that there is a copy
                return
        await self._delete_copy(name)

    async def delete(self, name: str) -> None:
        """Remove the secret from the keyring and from the file, even if one of them fails.

        A missing secret is not an error.
        """
        try:
            await self._used.delete(name)
        finally:
            await self._delete_copy(name)

    async def describe(self) -> str:
        """Return a description of the place where secrets are stored. Raises McpHostError if it cannot be used."""
        return await self._used.describe()

    async def _delete_copy(self, name: str) -> None:
        try:
            if self._is_file:
                await self._keyring.delete(name)
            elif await self._file.get(name) is not None:
                await self._file.delete(name)
        except McpHostError as error:
            text = (
                f"A copy of the secret {name} may still be in the keyring."
                if self._is_file
                else f"A copy of the secret {name} may still be in {self._file.path}."
            )
            self._warn(join_sentences(text, error.message))
