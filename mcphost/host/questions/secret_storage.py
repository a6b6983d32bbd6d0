"""Questions about the storage of sign-ins without a keyring, the passphrase of the file, and their prompts."""

from typing import ClassVar

from mcphost.host.questions.frontend import Frontend, Question
from mcphost.serialization import Struct


class KeepInMemory(Struct, frozen=True):
    """Store the sign-in in memory until mcphost exits."""


class KeepInPlainFile(Struct, frozen=True):
    """Store sign-ins unencrypted, in a file that only the user may read."""


class KeepInEncryptedFile(Struct, frozen=True):
    """Store sign-ins in a file encrypted with this passphrase."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "KeepInEncryptedFile(…)"


SecretStorageVerdict = KeepInMemory | KeepInPlainFile | KeepInEncryptedFile


class ChooseSecretStorage(Question[SecretStorageVerdict], frozen=True, kw_only=True):
    """Where to store these sign-ins, as no keyring is usable (`reason`); they are in use already.

    `is_new`: the encrypted file does not exist yet, so the passphrase is chosen now. `note`: why the question is
    repeated.
    """

    KIND: ClassVar[str] = "keep_secrets"
    servers: tuple[str, ...]
    reason: str
    plain_file: str
    sealed_file: str
    is_new: bool = True
    note: str = ""

    def refusal(self) -> SecretStorageVerdict:
        """Return the answer that refuses."""
        return KeepInMemory()


class EnterPassphrase(Struct, frozen=True):
    """The passphrase of the file; never stored."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "EnterPassphrase(…)"


class LeaveLocked(Struct, frozen=True):
    """Continue without the content of the file."""


UnlockVerdict = EnterPassphrase | LeaveLocked


class UnlockSecrets(Question[UnlockVerdict], frozen=True, kw_only=True):
    """The passphrase of the file of sign-ins, asked once in a run.

    `note`: why the question is repeated.
    """

    KIND: ClassVar[str] = "unlock_secrets"
    file: str
    note: str = ""

    def refusal(self) -> UnlockVerdict:
        """Return the answer that refuses."""
        return LeaveLocked()


StorageChoice = tuple[str, str]


class SecretStoragePrompts:
    """Prompts through the frontend.

    A refusal keeps sign-ins in memory for this run and leaves an encrypted file locked.
    """

    def __init__(self, frontend: Frontend) -> None:
        self._frontend = frontend

    async def choose_storage(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> StorageChoice:
        """Return the place, and the passphrase for an encrypted file."""
        verdict = await self._frontend.ask(
            ChooseSecretStorage(
                server="",
                why="a sign-in worked, and no keyring can keep it",
                servers=servers,
                reason=reason,
                plain_file=plain_file,
                sealed_file=sealed_file,
                is_new=is_new,
                note=note,
            )
        )
        if isinstance(verdict, KeepInEncryptedFile):
            return "encrypted", verdict.pass_phrase
        return ("file" if isinstance(verdict, KeepInPlainFile) else "session"), ""

    async def ask_passphrase(self, *, file: str, note: str) -> str | None:
        """Return the passphrase, or None to leave the file locked."""
        verdict = await self._frontend.ask(
            UnlockSecrets(server="", why="sign-ins are kept in an encrypted file", file=file, note=note)
        )
        return verdict.pass_phrase if isinstance(verdict, EnterPassphrase) else None
