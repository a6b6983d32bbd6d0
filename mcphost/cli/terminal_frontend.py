"""Terminal front end for commands: reads lines and secrets, asks for confirmation, and handles sign-in."""

import os
import sys
from base64 import b64encode
from collections.abc import Generator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Literal, TextIO, TypeVar, cast

from mcphost.cli.printing import end_status, format_error, print_note, set_status
from mcphost.errors import ConsentDenied, McpHostError, UsageError
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.sign_in import (
    ChooseSecretStorage,
    ClientVerdict,
    DeclineClient,
    DeclineSignIn,
    EnterClientId,
    EnteredClient,
    EnterPassphrase,
    KeepInEncryptedFile,
    KeepInMemory,
    KeepInPlainFile,
    LeaveLocked,
    OpenInBrowser,
    PastedRedirect,
    SecretStorageVerdict,
    SignInQuestion,
    UnlockSecrets,
    UnlockVerdict,
)
from mcphost.pluralize import format_countdown
from mcphost.sanitize import sanitize
from mcphost.translation import _, join_list, translate_sentence

if TYPE_CHECKING:
    from mcphost.config.schema import ServerConfig, ServerInput
    from mcphost.headless.line_io import InputLines
    from mcphost.host.servers.server_file_editor import ServerFileEditor
    from mcphost.sign_in_types import SignInProgress


_URL_PREFIXES = ("http://", "https://")


def is_interactive() -> bool:
    """Return whether a user can read prompts on stderr and type on standard input."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stderr and sys.stderr.isatty())


class TerminalInput:
    """Reader of lines from standard input.

    All code in a command must share one instance, because lines that one instance has buffered are lost to any other.
    """

    def __init__(self) -> None:
        self._lines: InputLines | None = None

    async def read_line(self) -> str | None:
        """Return the next line, stripped, or None at the end of the input. Safe to cancel."""
        from mcphost.headless.line_io import InputLines

        if self._lines is None:
            self._lines = InputLines(0)
        async for line in self._lines:
            return line.decode(errors="replace").strip() if isinstance(line, bytes) else ""
        return None

    async def read_secret(self, prompt: str) -> str | None:
        """Show *prompt* and return the next line, typed without echo, or None at the end of the input.

        Input typed before the prompt is discarded.
        """
        try:
            end_status()
            with _disable_echo():  # before the prompt, so that no character is ever shown
                self.discard_input()
                sys.stderr.write(prompt)
                sys.stderr.flush()
                return await self.read_line()
        finally:
            sys.stderr.write("\n")  # even after ctrl+c, so that later output begins on a new line

    async def read_answer(self, prompt: str) -> str:
        """Show *prompt* and return the next line, or "" at the end of the input.

        Input typed before the prompt is discarded.
        """
        end_status()
        self.discard_input()
        sys.stderr.write(prompt)
        sys.stderr.flush()
        return await self.read_line() or ""

    async def read_choice(self, choices: str) -> str:
        """Show a prompt and return one of the letters in *choices*, in lower case; ask again after any other answer.

        Returns "" if the line is empty or the input has ended. Input typed before the prompt is discarded.
        """
        while True:
            self.discard_input()
            sys.stderr.write("[n] ")
            sys.stderr.flush()
            answer = (await self.read_line() or "").lower()
            if not answer or (len(answer) == 1 and answer in choices):
                return answer
            print_note(_("Type one of these letters: {letters}.").format(letters=join_list(choices)))

    def discard_input(self) -> None:
        """Discard what the user typed before a prompt was shown; do nothing without a terminal."""
        if not sys.stdin or not sys.stdin.isatty():
            return
        import termios

        termios.tcflush(0, termios.TCIFLUSH)
        if self._lines is not None:
            self._lines.discard()


@contextmanager
def _disable_echo() -> Generator[None]:
    """Turn off the terminal's echo inside the `with` block and restore it afterwards, even after Ctrl+C."""
    import termios

    before = termios.tcgetattr(0)
    silent = [*before]
    silent[3] &= ~termios.ECHO
    try:
        termios.tcsetattr(0, termios.TCSAFLUSH, silent)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


class Confirmation:
    """Text shown before a command changes something, followed by a yes-or-no question.

    The user is asked even if standard output is not a terminal: in `mcphost servers trust x | less`, for example, there
    is still a user at the terminal. The text is then written to the terminal instead of standard output.
    """

    def __init__(self, *, yes: bool, as_json: bool) -> None:
        self._is_interactive = not yes and sys.stdin.isatty()
        self._assume_yes = yes
        self._is_silent = as_json and not self._is_interactive
        self._output = _terminal_output(as_json=as_json) if self._is_interactive else sys.stdout

    @property
    def can_ask(self) -> bool:
        """Whether a user can be asked for confirmation."""
        return self._is_interactive and self._output is not None

    def show(self, *lines: str) -> None:
        """Show lines that the user needs in order to answer the question, with control characters made visible.

        A line break within a line is replaced with a visible mark, so that a server's name, for example, cannot fake a
        line of mcphost's own output.
        """
        if not self._is_silent and self._output is not None:
            self._output.writelines(f"{sanitize(line, keep_newlines=False)}\n" for line in lines)

    def confirm(self, question: str, declined_message: str) -> None:
        """Ask for confirmation; input typed before the question is discarded.

        Raises ConsentDenied with *declined_message*, or UsageError if the user cannot be asked and `--yes` was not
        given.
        """
        if not self._assume_yes:
            self._print_question(question, declined_message)
            _check_consent(sys.stdin.readline(), declined_message)

    async def confirm_with(self, terminal: TerminalInput, question: str, declined_message: str) -> None:
        """Ask for confirmation as `confirm` does, but read the answer through *terminal*.

        Commands that read all of their input through one TerminalInput must use this method.
        """
        if not self._assume_yes:
            terminal.discard_input()  # before the question is shown: what follows it is its answer
            self._print_question(question, declined_message)
            _check_consent(await terminal.read_line() or "", declined_message)

    def _print_question(self, question: str, declined_message: str) -> None:
        if not self._is_interactive or self._output is None:
            raise UsageError(
                f"{declined_message} There is no terminal to ask on."
                if self._is_interactive
                else f"{declined_message} There is no way to ask: standard input is not a terminal.",
                "Read the question, then pass --yes.",
            )
        import termios

        end_status()
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        self._output.write(f"{sanitize(translate_sentence(question), keep_newlines=False)} [y/N] ")
        self._output.flush()


def _check_consent(answer: str, declined_message: str) -> None:
    if answer.strip().lower() not in {"y", "yes"}:
        raise ConsentDenied(declined_message)


def _terminal_output(*, as_json: bool) -> TextIO | None:
    """Return a stream whose output the user at the terminal can see, or None if there is none.

    If *as_json* is true, standard output is not used, because it is reserved for JSON.
    """
    streams = (sys.stderr,) if as_json else (sys.stdout, sys.stderr)
    shown = next((stream for stream in streams if stream.isatty()), None)
    if shown is not None:
        return shown
    try:
        return open(os.ctermid(), "w", encoding="utf-8", errors="replace")
    except OSError:
        return None


A = TypeVar("A")
BrowserMode = Literal["never", "ask", "always"]
"""Whether a sign-in opens a browser. With "ask", the user is asked; without an interactive terminal, none is opened."""


class TerminalFrontend:
    """Front end that asks sign-in questions at a terminal.

    Redirect URLs and client IDs are read from standard input even if it is not a terminal. Questions about the
    storage of secrets are asked only at an interactive terminal.
    """

    who = "person"

    def __init__(self, *, browser: BrowserMode = "never") -> None:
        self._browser: BrowserMode = browser
        self._input = TerminalInput()
        secret = {ChooseSecretStorage.KIND, UnlockSecrets.KIND} if is_interactive() else set[str]()
        self.kinds = frozenset({SignInQuestion.KIND, EnterClientId.KIND, *secret})

    async def ask(self, question: Question[A]) -> A:
        """Return the user's answer; a question of a kind that this front end cannot ask is declined."""
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
        if question.note:
            print_note(question.note)
        else:
            print_note(
                _("{server} wants you to sign in at {host} (authorization server {issuer}).").format(
                    server=question.server, host=question.host, issuer=question.issuer
                )
            )
            for warning in question.warnings:
                print_note(_("Careful: {warning}").format(warning=translate_sentence(warning)))
            if question.account:
                print_note(_("It will be stored as the account {account}.").format(account=question.account))
            print_note(
                _("It asks for: {scopes}.").format(scopes=" ".join(question.scopes) or _("no particular scopes"))
            )
            print_note(
                _("Open this address and enter the code {code}:").format(code=question.code)
                if question.code
                else _("Open this address:")
            )
            sys.stderr.write(f"\n{question.url}\n\n")
            answer = await self._open_after_consent(question.url)
            if answer is not None:
                return answer
        if question.code:
            print_note(_("Waiting for the code to be entered; press Ctrl+C to stop."))
            return OpenInBrowser()
        print_note(_("If the browser cannot return here, paste the final address:"))
        while (text := await self._input.read_line()) is not None:
            if text:
                return PastedRedirect(text)
        return OpenInBrowser()

    async def _open_after_consent(self, url: str) -> PastedRedirect | DeclineSignIn | None:
        """Open the URL in a browser if the user agrees or has passed `--yes`.

        Returns the user's answer if the user declines, or pastes the redirect URL instead of opening the URL.
        Otherwise, returns None, and the sign-in continues in the browser. If mcphost has not opened a browser, the user
        must open the URL.
        """
        from mcphost.auth.browser import can_open_browser, open_url

        if self._browser == "never" or not can_open_browser():
            return None
        if self._browser == "ask":
            if not is_interactive():
                return None
            match await self._ask_to_open(url):
                case "":
                    pass
                case "n":
                    return DeclineSignIn()
                case pasted:
                    return PastedRedirect(pasted)
        print_note(_("Opened in your browser.") if await open_url(url) else _("No browser could be opened."))
        return None

    async def _ask_to_open(self, url: str) -> str:
        """Ask whether to open the URL; return "" to open it, "n" to decline, or a redirect URL that was pasted."""
        self._input.discard_input()
        while True:
            sys.stderr.write(_("Open it in your browser? Enter opens it, c copies it, n ends the sign-in: "))
            sys.stderr.flush()
            try:
                line = await self._input.read_line()
            except BaseException:  # for example, the user has opened the address, and the response has arrived
                sys.stderr.write("\n")
                raise
            answer = "n" if line is None else line if line.startswith(_URL_PREFIXES) else line.lower()
            if answer in {"", "n"} or answer.startswith(_URL_PREFIXES):
                return answer
            if answer == "c":
                encoded = b64encode(url.encode()).decode()
                sys.stderr.write(f"\x1b]52;c;{encoded}\a")
                print_note(_("Copied, if your terminal allows it."))

    async def _enter_client_id(self, question: EnterClientId) -> ClientVerdict:
        print_note(question.note)
        print_note(
            _("Register mcphost at {issuer} for the address {redirect_uri}").format(
                issuer=question.issuer, redirect_uri=question.redirect_uri
            )
        )
        print_note(_("and enter the client ID it got there. It is sent there and nowhere else."))
        self._input.discard_input()
        sys.stderr.write(_("Client ID (empty: do not sign in): "))
        sys.stderr.flush()
        client_id = await self._input.read_line()
        if not client_id:
            return DeclineClient()
        prompt = _("Client secret, which is not shown (empty: there is none): ")
        secret = await self._input.read_secret(prompt) if is_interactive() else await self._input.read_line()
        return EnteredClient(client_id, secret or "")

    async def _choose_storage(self, question: ChooseSecretStorage) -> SecretStorageVerdict:
        if question.note:
            print_note(question.note)
        else:
            text = _("Signed in to {servers}, but no keyring can store the sign-in. {reason}").format(
                servers=join_list(question.servers), reason=translate_sentence(question.reason)
            )
            print_note(text.strip())
            print_note(_("Where should it be stored?"))
            for line in (
                _("  n  nowhere: it is forgotten when this command ends"),
                _("  e  encrypted under a passphrase, in {file}").format(file=question.sealed_file),
                _("  f  in {file}, which only you may read; not encrypted").format(file=question.plain_file),
            ):
                sys.stderr.write(sanitize(line, keep_newlines=False) + "\n")
        match "e" if question.note else await self._input.read_choice("nef"):
            case "f":
                return KeepInPlainFile()
            case "e":
                return await self._enter_new_passphrase(question)
            case _:
                return KeepInMemory()

    async def _enter_new_passphrase(self, question: ChooseSecretStorage) -> SecretStorageVerdict:
        """Ask for the passphrase of the encrypted file; ask for it twice if the file does not exist yet.

        If the passphrase is empty, secrets are kept in memory only.
        """
        while phrase := await self._input.read_secret(_("Passphrase (empty: do not store it): ")):
            if not question.is_new or await self._input.read_secret(_("Repeat the passphrase: ")) == phrase:
                return KeepInEncryptedFile(phrase)
            print_note(_("The passphrases differ."))
        return KeepInMemory()

    async def _enter_passphrase(self, question: UnlockSecrets) -> UnlockVerdict:
        if question.note:
            print_note(question.note)
        phrase = await self._input.read_secret(
            _("Passphrase of {file}: ").format(file=sanitize(question.file, keep_newlines=False))
        )
        return EnterPassphrase(phrase) if phrase else LeaveLocked()


def format_polling(progress: "SignInProgress") -> str:
    """Describe the progress of an OAuth device flow: the number of polls so far, and the remaining time."""
    asked = _("Asked once") if progress.polls == 1 else _("Asked {count} times").format(count=progress.polls)
    asked = asked if progress.polls else _("Not asked yet")
    again = (_("again in {seconds:g} s (slowed down)") if progress.slowed else _("again in {seconds:g} s")).format(
        seconds=progress.interval
    )
    return _("{asked}, {again}; {time} left.").format(asked=asked, again=again, time=format_countdown(progress.seconds))


class SignInProgressPrinter:
    """Printer that reports the steps of a sign-in to stderr.

    On a terminal, the polling status is redrawn in place. If stderr is not a terminal, the polling status is printed
    only when the interval between polls has become longer.
    """

    def __init__(self) -> None:
        self._last_text = ""
        self._was_slowed = False

    def update(self, progress: "SignInProgress") -> None:
        """Print one step of the sign-in."""
        if progress.interval:
            self._print_polling(progress)
            return
        end_status()
        if progress.step not in ("person", "done", "over") and progress.text != self._last_text:
            text = translate_sentence(progress.text)
            print_note(f"{text[0].upper()}{text[1:]}…")
        self._last_text = progress.text

    def _print_polling(self, progress: "SignInProgress") -> None:
        if not progress.polls:
            return  # the address and the code are shown next
        if not set_status(format_polling(progress)) and progress.slowed != self._was_slowed:
            print_note(format_polling(progress))
        self._was_slowed = progress.slowed


async def ask_input_value(server: "ServerConfig", one: "ServerInput", reader: "TerminalInput") -> str:
    """Ask for the value of one of a server's inputs; a password is typed without echo.

    Raises UsageError if nothing is typed and the input has no default.
    """
    what = _("{input} (for {server})").format(input=one.description or one.id, server=server.name)
    if one.password:
        value = await reader.read_secret(_("{what}, not shown: ").format(what=what))
    else:
        for number, option in enumerate(one.options, 1):
            sys.stderr.write(f"  {number}. {sanitize(option, keep_newlines=False)}\n")
        proposed = f" [{sanitize(one.default, keep_newlines=False)}]" if one.default else ""
        value = await reader.read_answer(f"{what}{proposed}: ") or one.default
        if one.options and value not in one.options and value.isdecimal() and 0 < int(value[:6]) <= len(one.options):
            value = one.options[int(value) - 1]
    if not value:
        raise UsageError(
            f"{one.id} has no value.", f"Set it later: mcphost servers input {quote(server.name)} {quote(one.id)}"
        )
    return value


async def ask_missing_inputs(
    editor: "ServerFileEditor",
    server: "ServerConfig",
    reader: "TerminalInput | None",
    answers: "dict[tuple[str, ServerInput], str]",
    origin: str,
) -> None:
    """Ask for a new server's missing inputs or, if *reader* is None, print the commands that set them.

    Each typed value is added to *answers* and reused if another server from the same *origin* (such as another
    host's configuration file) has the same input. If no value is typed or a value cannot be stored, the error
    is printed, and the user is asked for the next input.
    """
    from mcphost.host.servers.server_file_editor import describe_missing_input
    from mcphost.serialization import replace

    for one in server.inputs:
        if await editor.has_input(one):
            continue
        if reader is None:
            print_note(describe_missing_input(server, one))
            continue
        key = origin, replace(one, keyring_entry="")
        try:
            if key not in answers:
                answers[key] = await ask_input_value(server, one, reader)
            await editor.set_input(server, one, answers[key])
        except McpHostError as error:
            print_note(format_error(error))
