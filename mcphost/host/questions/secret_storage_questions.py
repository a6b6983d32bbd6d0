"""Questions about the storage of sign-ins without a keyring, and the passphrase of the file."""

from typing import ClassVar

from mcphost.host.questions.question import Question
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
