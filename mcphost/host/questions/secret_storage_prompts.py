"""Prompts of `auth.secret_store`: the storage of sign-ins, and the passphrase of the file."""

from mcphost.host.questions.frontend import Frontend
from mcphost.host.questions.secret_storage_questions import (
    ChooseSecretStorage,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInPlainFile,
    UnlockSecrets,
)

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
