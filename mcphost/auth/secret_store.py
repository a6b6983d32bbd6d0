"""Which place secrets go to: the keyring, a file that the user chose when there is no keyring, or this run's memory.

The choice is the user's: `secrets.store` in config.toml, or an answer to the one question asked about it.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

import anyio

from mcphost.auth.file_backend import PLAIN_FILE, SEALED_FILE, FileVault, SealedVault
from mcphost.auth.keyring_backend import SecretVault
from mcphost.config.schema import SecretStore
from mcphost.errors import McpHostError

Place = SecretStore
MOST_TRIES = 5
"""How often a wrong pass phrase may be typed before the question ends."""
WRONG = "That is not the pass phrase of this file."


class Owner(Protocol):
    """Whose secrets these are. Both methods wait for a person and may be cancelled."""

    async def choose_storage(
        self, *, servers: tuple[str, ...], reason: str, plain_file: str, sealed_file: str, is_new: bool, note: str
    ) -> tuple[str, str]:
        """There is no usable keyring (`reason`); where should the sign-ins to these servers be kept? The place, and
        for an encrypted file its pass phrase.

        `is_new`: there is no encrypted file yet, so that its pass phrase is chosen now. `note` is about an answer
        that could not be used.
        """
        ...

    async def ask_passphrase(self, *, file: str, note: str) -> str | None:
        """The pass phrase of that file; None leaves it locked."""
        ...


class Places:
    """All places and the one in use. `folder` holds the files; None: there are none. `owner` None: nobody is asked.

    `chosen` is what the user wrote; "" means the keyring, and asking when it fails, if `asks`: else the owner is asked
    for a pass phrase at most. `remember` writes a choice down and returns what to tell the user about it.
    """

    def __init__(
        self,
        keyring: SecretVault,
        folder: Path | None,
        *,
        chosen: Place = "",
        owner: Owner | None = None,
        asks: bool = True,
        remember: Callable[[Place], Awaitable[str]] | None = None,
        warn: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.warn = warn
        self._keyring = keyring
        self._plain = FileVault(folder / PLAIN_FILE, self._warn) if folder else None
        self._sealed = SealedVault(folder / SEALED_FILE, self._warn) if folder else None
        self._chosen: Place = chosen
        self._owner = owner
        self._asks = asks and owner is not None and folder is not None
        self._remember = remember
        self._answered = False
        self._asking = anyio.Lock()
        self._left_locked = False

    @property
    def place(self) -> Place:
        """Where new secrets go."""
        return "keyring" if self._chosen == "" else self._chosen

    @property
    def may_ask(self) -> bool:
        """Whether the user can still be asked for a place instead of the keyring."""
        return self._asks and not self._chosen and not self._answered

    @property
    def is_declined(self) -> bool:
        """Whether the user knows that nothing is kept, having just said so."""
        return self._answered and not self._chosen

    @property
    def is_locked(self) -> bool:
        """Whether the place in use waits for a pass phrase."""
        return self.place == "encrypted" and self._sealed is not None and not self._sealed.is_open

    def vault(self, place: str) -> SecretVault | None:
        """Who keeps secrets there; None for this run's memory, or a place this version does not know."""
        match place:
            case "keyring":
                return self._keyring
            case "file":
                return self._plain
            case "encrypted":
                return self._sealed
            case _:
                return None

    async def choose(self, servers: tuple[str, ...], reason: str) -> None:
        """Ask where to keep sign-ins, once a run; afterwards `place` is the answer. Never raises McpHostError.

        Cancelling the question is no answer; once it was answered, that is carried out.
        """
        async with self._asking:
            owner, plain, sealed = self._owner, self._plain, self._sealed
            if not self.may_ask or owner is None or plain is None or sealed is None:
                return
            note = ""
            while True:
                place, phrase = await owner.choose_storage(
                    servers=servers, reason=reason, plain_file=str(plain.path), sealed_file=str(sealed.path),
                    is_new=not sealed.exists, note=note,
                )  # fmt: skip
                # It was answered: whoever quits now has decided all the same.
                with anyio.CancelScope(shield=True):
                    note = await self._objection(sealed, phrase) if place == "encrypted" else ""
                    if not note:
                        await self._decide(place)
                        return

    async def _objection(self, sealed: SealedVault, phrase: str) -> str:
        """What is against that pass phrase, or against the file; "" when it is open now."""
        try:
            if phrase and await sealed.unlock(phrase):
                return ""
        except McpHostError as error:
            return f"{error.message} {error.hint}".strip()
        return WRONG if phrase else "The pass phrase is empty."

    async def _decide(self, place: str) -> None:
        self._answered = True
        if place in ("file", "encrypted"):
            self._chosen = "file" if place == "file" else "encrypted"
            if self._remember is not None:
                self._warn(await self._remember(self._chosen))

    async def unlock(self) -> bool:
        """Whether the encrypted file is open now. Its pass phrase is asked for once a run, also when it is refused.

        Never raises McpHostError: a file that cannot be used is told, and stays locked.
        """
        async with self._asking:
            sealed = self._sealed
            if sealed is None or sealed.is_open or self._owner is None or self._left_locked:
                return sealed is not None and sealed.is_open
            note = ""
            for _ in range(MOST_TRIES):
                phrase = await self._owner.ask_passphrase(file=str(sealed.path), note=note)
                if phrase is None:
                    break
                try:
                    if phrase and await sealed.unlock(phrase):
                        return True
                except McpHostError as error:
                    self._warn(f"{error.message} {error.hint}".strip())
                    break
                note = WRONG
            self._left_locked = True
            return False

    def _warn(self, text: str) -> None:
        if text:
            self.warn(text)


RESERVED = "sign-in-"
"""How the names of our own entries begin; a configuration cannot refer to them."""


async def referenced(keyring: SecretVault, folder: Path, name: str) -> str | None:
    """The secret behind `${keyring:NAME}`: from the keyring, else from the plain file if there is one.

    Never a sign-in: those belong to one server each, and a configuration may come from anywhere. Raises McpHostError.
    """
    if name.startswith(RESERVED):
        return None
    plain = FileVault(folder / PLAIN_FILE)
    if not plain.path.exists():
        return await keyring.get(name)
    found = await plain.get(name)
    return await keyring.get(name) if found is None else found
