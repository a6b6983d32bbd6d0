"""The exception hierarchy, with the kind and the exit code of each error.

    McpHostError                  message, hint (what the user can do)
    ├─ UsageError                 the command line or another input is invalid
    ├─ ConfigError                a configuration file is invalid
    │  └─ LockFileError            a project's lock file exists but cannot be used
    ├─ ServerError                server (its configured name)
    │  ├─ StartupError            the process did not start, or the URL cannot be reached
    │  ├─ ConnectionLost          the server was connected and the connection was lost
    │  │  ├─ UnreadInputError     the server did not read its input and was stopped
    │  │  └─ RequestNotSent       there was no connection: nothing ran
    │  ├─ RequestTimeout          no response in time
    │  ├─ UnsupportedCapability   not declared by the server, so not sent
    │  ├─ RequestRefused          a JSON-RPC error: code, data
    │  ├─ MalformedMessage        a message violates the specification
    │  ├─ UnsupportedRevision     the server and the client have no protocol revision in common
    │  ├─ TooManyInputRounds      too many `input_required` results to one request
    │  └─ SignInRequired          the server requires a sign-in
    ├─ ModelError                 kind: auth, quota, context, overloaded, refused, network, bad_request, other
    ├─ RegistryError              a server registry, or an entry in it
    ├─ LockMismatch               servers differ from a project's lock file
    ├─ ConsentDenied              refused by the user or a rule (not a failure)
    └─ StoreError                 the database

Each layer raises only errors of its own branch above, and translates others that it catches (`raise … from`). An error
that a tool reports is a result for the model, not an exception.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal, cast

from mcphost.sanitize import sanitize_line

ModelErrorKind = Literal["auth", "quota", "context", "overloaded", "refused", "network", "bad_request", "other"]


STDERR_TAIL_LINES = 3
"""Number of lines of a program's error output that are quoted in an error about the program."""
_SHOWN_LINE_LENGTH = 400
_ENDINGS = (".", "!", "?", ":", ";", "…")
_WIDE_ENDINGS = ("。", "！", "？", "：", "；")


def describe_stderr_tail(lines: Iterable[str]) -> str:
    """Return the last lines of error output as text to append to a message: "; it last said: …".

    The lines are sanitized. Returns "" if all lines are blank.
    """
    from mcphost.redact import redact  # imported with the first error, not with the first frame

    shown = [sanitize_line(redact(line.strip()), _SHOWN_LINE_LENGTH) for line in lines if line.strip()]
    return f"; it last said: {' | '.join(shown)}" if shown else ""


def join_sentences(*sentences: str) -> str:
    """Join sentences with spaces, leaving out empty ones and adding missing periods between sentences.

    The last sentence is not changed, because it may end with a command or a path for the user to copy.
    """
    joined = ""
    for sentence in filter(None, map(str.strip, sentences)):
        if joined.endswith(_WIDE_ENDINGS):
            joined += sentence  # Chinese has no space between sentences
        elif joined:
            joined += f"{'' if joined.endswith(_ENDINGS) else '.'} {sentence}"
        else:
            joined = sentence
    return joined


class McpHostError(Exception):
    """Base class of errors for the user: a short message, and a hint on how to fix the problem.

    Message and hint can quote a server, the output of a process, or a model provider, so registered secrets are
    redacted.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        from mcphost.redact import redact_registered

        self.message = redact_registered(message)
        self.hint = redact_registered(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return join_sentences(self.message, self.hint) if self.hint else self.message


def unwrap_error(error: BaseException) -> BaseException:
    """Return the error to report from nested exception groups: the first McpHostError, or else the first error."""
    while isinstance(error, BaseExceptionGroup):
        group = cast("BaseExceptionGroup[BaseException]", error)
        error = (group.subgroup(McpHostError) or group).exceptions[0]
    return error


class UsageError(McpHostError):
    """Raised when the command line, or other input from the user, is invalid."""

    exit_code = 2
    kind = "usage"


class ConfigError(McpHostError):
    """Raised when a configuration file is invalid.

    The message names the file and the key, and the hint suggests a fix.
    """

    exit_code = 3
    kind = "config"


class LockFileError(ConfigError):
    """Raised when a project's lock file exists but cannot be used.

    The file is invalid, unreadable, or of an unsupported version.
    """


class StoreError(McpHostError):
    """Raised when the database cannot be opened, read or written."""

    kind = "store"


class KeyringMissing(McpHostError):
    """Raised when there is no keyring in which a secret could be stored."""


class RegistryError(McpHostError):
    """Raised when a server registry cannot be reached, or its data about a server cannot be used."""

    exit_code = 4
    kind = "registry"


class ConsentDenied(McpHostError):
    """Raised when the user or a rule refuses an action, or there is no user to ask.

    The action was not performed. The message never quotes a server, because it is sent to the model without being shown
    to the user for review first.
    """

    exit_code = 5
    kind = "declined"


class LockMismatch(McpHostError):
    """Raised when servers differ from their records in the project's lock file."""

    exit_code = 9
    kind = "drift"


class ModelError(McpHostError):
    """Raised when a model request fails; `model_kind` is the reason, which determines what the user can do."""

    exit_code = 7
    kind = "model"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        model_kind: ModelErrorKind = "other",
        retry_after: float | None = None,
        details: str = "",
    ) -> None:
        super().__init__(message, hint)
        self.model_kind: ModelErrorKind = model_kind
        self.retry_after = retry_after
        self.details = details


class ServerError(McpHostError):
    """An error in the communication with one server; `server` is the server's configured name.

    `may_have_run` is True if the request may have had an effect.
    """

    exit_code = 4
    kind = "server"
    may_have_run = False

    def __init__(self, message: str, hint: str = "", *, server: str = "") -> None:
        super().__init__(message, hint)
        self.server = server


class StartupError(ServerError):
    """Raised when the server's process does not start, or its URL cannot be reached."""

    kind = "cannot_start"


class ConnectionLost(ServerError):
    """Raised when the connection to a running server is lost."""

    kind = "connection_lost"
    may_have_run = True


class UnreadInputError(ConnectionLost):
    """Raised when a server was stopped because it neither read its input nor printed anything."""


class RequestNotSent(ConnectionLost):
    """Raised when a request cannot be sent because there is no connection."""

    may_have_run = False


class RequestTimeout(ServerError):
    """Raised when the server does not respond in time; the request is cancelled."""

    kind = "timeout"
    may_have_run = True


class MalformedMessage(ServerError):
    """Raised when a message from the server violates the specification."""

    kind = "malformed"
    may_have_run = True


class UnsupportedCapability(ServerError):
    """Raised when the server has not declared a capability that a request needs; the request is not sent."""

    kind = "not_offered"


class TooManyInputRounds(ServerError):
    """Raised when a server requests input too many times during one request.

    Only servers with protocol revision 2026-07-28 or later can request input in this way.
    """

    kind = "too_many_rounds"


class SignInRequired(ServerError):
    """Raised when the server requires the user to sign in, or rejects the current credentials."""

    exit_code = 6
    kind = "sign_in"


class SignInUnchanged(SignInRequired):
    """Raised when the user declines to sign in again, for example to grant more scopes.

    The current credentials remain in use.
    """


class UnsupportedRevision(ServerError):
    """Raised when there is no protocol revision that both mcphost and the server support."""

    kind = "revision"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        server_revisions: tuple[str, ...] = (),
        client_revisions: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message, hint)
        self.server_revisions = server_revisions
        self.client_revisions = client_revisions


class RequestRefused(ServerError):
    """Raised when the server responds with a JSON-RPC error.

    `code`, `server_message` and `data` are the error's code, message and decoded data.
    """

    kind = "refused"

    def __init__(
        self, message: str, hint: str = "", *, code: int = 0, data: Any = None, server_message: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.data = data
        from mcphost.redact import redact_registered

        self.server_message = redact_registered(server_message) or self.message
