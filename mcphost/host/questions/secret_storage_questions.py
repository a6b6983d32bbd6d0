"""Where sign-ins are kept when no keyring can keep them, and the pass phrase of their file, as questions."""

from typing import ClassVar

from mcphost.host.questions.question import Question
from mcphost.serialization import Struct


class KeepInMemory(Struct, frozen=True):
    """Keep the sign-in in memory; it is forgotten when mcphost ends."""


class KeepInPlainFile(Struct, frozen=True):
    """Keep it, and later ones, in a file that only the user may read, as it is."""


class KeepInEncryptedFile(Struct, frozen=True):
    """Keep it, and later ones, in a file encrypted under this pass phrase."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "KeepSealed(…)"


SecretStorageVerdict = KeepInMemory | KeepInPlainFile | KeepInEncryptedFile


class ChooseSecretStorage(Question[SecretStorageVerdict], frozen=True, kw_only=True):
    """There is no usable keyring (`reason`). Where should these sign-ins be kept? They are in use meanwhile.

    `is_new`: the encrypted file does not exist yet, so the pass phrase is chosen now. `note`: why it is asked again.
    """

    KIND: ClassVar[str] = "keep_secrets"
    servers: tuple[str, ...]
    reason: str
    plain_file: str
    sealed_file: str
    is_new: bool = True
    note: str = ""

    def refusal(self) -> SecretStorageVerdict:
        return KeepInMemory()


class EnterPassphrase(Struct, frozen=True):
    """What opens the file; never stored."""

    pass_phrase: str

    def __repr__(self) -> str:
        return "PassPhrase(…)"


class LeaveLocked(Struct, frozen=True):
    """Do without what is in the file."""


UnlockVerdict = EnterPassphrase | LeaveLocked


class UnlockSecrets(Question[UnlockVerdict], frozen=True, kw_only=True):
    """The pass phrase of the file in which sign-ins are kept, asked for once a run. `note`: why it is asked again."""

    KIND: ClassVar[str] = "unlock_secrets"
    file: str
    note: str = ""

    def refusal(self) -> UnlockVerdict:
        return LeaveLocked()
