"""Questions of `auth.secret_store`: where to store sign-ins, and the passphrase of their file."""

from mcphost.host.questions.frontend import Front
from mcphost.host.questions.secret_storage_questions import (
    KeepInFile,
    KeepSealed,
    KeepSecrets,
    PassPhrase,
    UnlockSecrets,
)

Answer = tuple[str, str]


class Keeping:
    """Asks the front; a refusal keeps sign-ins for this run, and leaves a file locked."""

    def __init__(self, front: Front) -> None:
        self._front = front

    async def keep_secrets(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> Answer:
        """The place, and the pass phrase for an encrypted file."""
        verdict = await self._front.ask(
            KeepSecrets(
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
        if isinstance(verdict, KeepSealed):
            return "encrypted", verdict.pass_phrase
        return ("file" if isinstance(verdict, KeepInFile) else "session"), ""

    async def pass_phrase(self, *, file: str, note: str) -> str | None:
        """The pass phrase; None leaves it locked."""
        verdict = await self._front.ask(
            UnlockSecrets(server="", why="sign-ins are kept in an encrypted file", file=file, note=note)
        )
        return verdict.pass_phrase if isinstance(verdict, PassPhrase) else None
