"""The front end of commands at a terminal: sign-in, storage of secrets, passphrases."""

import sys
from typing import TYPE_CHECKING, TypeVar, cast

from mcphost.cli.output import end_status, print_note, set_status
from mcphost.cli.prompts import TerminalInput, is_interactive
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.secret_storage import (
    ChooseSecretStorage,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInMemory,
    KeepInPlainFile,
    LeaveLocked,
    SecretStorageVerdict,
    UnlockSecrets,
    UnlockVerdict,
)
from mcphost.host.questions.sign_in import (
    ClientVerdict,
    DeclineClient,
    DeclineSignIn,
    EnterClientId,
    EnteredClient,
    OpenInBrowser,
    PastedRedirect,
    SignInQuestion,
)
from mcphost.sanitize import sanitize

if TYPE_CHECKING:
    from mcphost.sign_in import SignInProgress


A = TypeVar("A")


class TerminalFrontend:
    """Reads a redirect URL from any standard input; asks about secrets only at a terminal."""

    who = "person"

    def __init__(self, *, open_browser: bool = False) -> None:
        self._open_browser = open_browser
        self._input = TerminalInput()
        secret = {ChooseSecretStorage.KIND, UnlockSecrets.KIND} if is_interactive() else set[str]()
        self.kinds = frozenset({SignInQuestion.KIND, EnterClientId.KIND, *secret})

    async def ask(self, question: Question[A]) -> A:
        """Return the user's answer, or the refusal of a question that cannot be asked here."""
        if question.KIND not in self.kinds:
            return question.refusal()
        end_status()
        if isinstance(question, SignInQuestion):
            return cast("A", await self._sign_in(question))
        if isinstance(question, EnterClientId):
            return cast("A", await self._enter_client_id(question))
        if isinstance(question, ChooseSecretStorage):
            return cast("A", await self._choose_storage(question))
        if isinstance(question, UnlockSecrets):
            return cast("A", await self._enter_passphrase(question))
        return question.refusal()

    async def _sign_in(self, question: SignInQuestion) -> OpenInBrowser | PastedRedirect | DeclineSignIn:
        from mcphost.auth.browser import open_url

        if question.note:
            print_note(question.note)
        else:
            print_note(
                f"{question.server} wants you to sign in at {question.host} (authorization server {question.issuer})."
            )
            for warning in question.warnings:
                print_note(f"Careful: {warning}")
            if question.account:
                print_note(f"It will be stored as the account {question.account}.")
            print_note(f"It asks for: {' '.join(question.scopes) or 'no particular scopes'}.")
            print_note(
                f"Open this address and enter the code {question.code}:" if question.code else "Open this address:"
            )
            sys.stderr.write(f"\n{question.url}\n\n")
            if self._open_browser and await open_url(question.url):
                print_note("Opened in your browser.")
        if question.code:
            print_note("Waiting for the code to be entered; press ctrl+c to stop.")
            return OpenInBrowser()
        print_note("If the browser cannot come back here, paste the address it ended at:")
        while (text := await self._input.read_line()) is not None:
            if text:
                return PastedRedirect(text)
        return OpenInBrowser()

    async def _enter_client_id(self, question: EnterClientId) -> ClientVerdict:
        print_note(question.note)
        print_note(f"Register mcphost at {question.issuer} for the address {question.redirect_uri}")
        print_note("and enter the client id it got there. It is sent there and nowhere else.")
        sys.stderr.write("Client id (empty: do not sign in): ")
        sys.stderr.flush()
        client_id = await self._input.read_line()
        if not client_id:
            return DeclineClient()
        prompt = "Client secret, which is not shown (empty: there is none): "
        secret = await self._input.read_secret(prompt) if is_interactive() else await self._input.read_line()
        return EnteredClient(client_id, secret or "")

    async def _choose_storage(self, question: ChooseSecretStorage) -> SecretStorageVerdict:
        if question.note:
            print_note(question.note)
        else:
            print_note(
                f"Signed in to {', '.join(question.servers)}, but no keyring can keep that. {question.reason}".strip()
            )
            print_note("Where should it be stored?")
            for line in (
                "  n  nowhere: it is forgotten when this command ends",
                f"  e  encrypted under a passphrase, in {question.sealed_file}",
                f"  f  in {question.plain_file}, which only you may read; not encrypted",
            ):
                sys.stderr.write(sanitize(line, keep_newlines=False) + "\n")
        match "e" if question.note else await self._input.read_choice("[n] "):
            case "f":
                return KeepInPlainFile()
            case "e":
                return await self._enter_new_passphrase(question)
            case _:
                return KeepInMemory()

    async def _enter_new_passphrase(self, question: ChooseSecretStorage) -> SecretStorageVerdict:
        """Read a passphrase, twice if it is new; an empty one means no storage."""
        while phrase := await self._input.read_secret("Passphrase (empty: keep it nowhere): "):
            if not question.is_new or await self._input.read_secret("The same again: ") == phrase:
                return KeepInEncryptedFile(phrase)
            print_note("The two differ.")
        return KeepInMemory()

    async def _enter_passphrase(self, question: UnlockSecrets) -> UnlockVerdict:
        if question.note:
            print_note(question.note)
        phrase = await self._input.read_secret(f"Passphrase of {sanitize(question.file, keep_newlines=False)}: ")
        return EnterPassphrase(phrase) if phrase else LeaveLocked()


def format_polling(progress: "SignInProgress") -> str:
    """Return the state of polling for a device code in words."""
    times = "once" if progress.polls == 1 else f"{progress.polls} times"
    asked = f"Asked {times}" if progress.polls else "Not asked yet"
    again = f"again in {progress.interval:g} s" + (" (slowed down)" * progress.slowed)
    left = max(0, round(progress.seconds))
    return f"{asked}, {again}; {left // 60}:{left % 60:02} left."


class SignInProgressPrinter:
    """Prints the steps of a sign-in on stderr; polling is redrawn on a terminal and printed once elsewhere."""

    def __init__(self) -> None:
        self._last_text = ""
        self._was_slowed = False

    def update(self, progress: "SignInProgress") -> None:
        """Print one step."""
        if progress.interval:
            self._print_polling(progress)
            return
        end_status()
        if progress.step not in ("person", "done", "over") and progress.text != self._last_text:
            print_note(f"{progress.text[0].upper()}{progress.text[1:]}…")
        self._last_text = progress.text

    def _print_polling(self, progress: "SignInProgress") -> None:
        if not progress.polls:
            return  # the address and the code are shown next
        if not set_status(format_polling(progress)) and progress.slowed != self._was_slowed:
            print_note(format_polling(progress))
        self._was_slowed = progress.slowed
