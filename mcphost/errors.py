"""The one exception tree, what each error means to the user, and its exit code.

    McpHostError                    message, hint (what the user can do)
    ├─ UsageError                   the command line was not understood
    ├─ ConfigError                  a file, a key and the fix
    ├─ ServerError                  server
    │  ├─ StartupError               the child or the address
    │  ├─ ConnectionLost            it was there and is gone
    │  │  └─ RequestNotSent                it could not be reached: nothing was run
    │  ├─ RequestTimeout            no answer in time
    │  ├─ UnsupportedCapability                the server did not declare it, so it was not sent
    │  ├─ Refused                   a JSON-RPC error: code, data
    │  ├─ MalformedMessage          what arrived is not what the specification says
    │  ├─ UnsupportedRevision       theirs, ours
    │  ├─ TooManyInputRounds             input_required without end
    │  └─ SignInRequired              the server wants an account
    ├─ ModelError                   kind: auth, quota, context, overloaded, refused, network, bad_request, other
    ├─ Declined                     the user or a rule said no (not a failure)
    └─ StoreError                   the database

A layer raises only its own branch and translates what it catches (`raise … from`).
A tool that reports an error is a result the model sees, not an exception.
"""

from collections.abc import Iterable
from typing import Any, ClassVar, Literal

from mcphost.sanitize import sanitize

ModelErrorKind = Literal["auth", "quota", "context", "overloaded", "refused", "network", "bad_request", "other"]


STDERR_TAIL_LINES = 3
"""How many lines of a program's error output an error about it repeats."""
_SHOWN_LINE_LENGTH = 400


def describe_stderr_tail(lines: Iterable[str]) -> str:
    """Return what continues "It ended": the last lines of its error output, cleaned, in one line; or nothing."""
    from mcphost.redact import redact  # with the first error, not with the first frame

    shown = [sanitize(redact(line.strip())[:_SHOWN_LINE_LENGTH], keep_newlines=False) for line in lines if line.strip()]
    return f"; it last said: {' | '.join(shown)}" if shown else ""


class McpHostError(Exception):
    """Something a user can understand: one short message, and a hint that says what to do.

    Both may quote a server, a child's last words or a provider, so the secrets we know are taken out here, once.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "error"

    def __init__(self, message: str, hint: str = "") -> None:
        from mcphost.redact import redact_registered

        self.message = redact_registered(message)
        self.hint = redact_registered(hint)
        super().__init__(self.message)

    def __str__(self) -> str:
        return f"{self.message} {self.hint}" if self.hint else self.message


class UsageError(McpHostError):
    """The command line was not understood."""

    exit_code = 2
    kind = "usage"


class ConfigError(McpHostError):
    """A configuration file cannot be used as it is; the message names file, key and fix."""

    exit_code = 3
    kind = "config"


class StoreError(McpHostError):
    """The database could not be opened, read or written."""

    kind = "store"


class ConsentDenied(McpHostError):
    """The user, a rule or the lack of consent said no; nothing was done."""

    exit_code = 5
    kind = "declined"


class ModelError(McpHostError):
    """The model could not answer; `model_kind` says what the user should do about it."""

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
    """Something went wrong between us and one server; `server` is its configured name.

    `may_have_run`: what was asked may have been done all the same.
    """

    exit_code = 4
    kind = "server"
    may_have_run = False

    def __init__(self, message: str, hint: str = "", *, server: str = "") -> None:
        super().__init__(message, hint)
        self.server = server


class StartupError(ServerError):
    """The child did not start or the address cannot be reached."""

    kind = "cannot_start"


class ConnectionLost(ServerError):
    """The server was there and is gone."""

    kind = "connection_lost"
    may_have_run = True


class UnreadInputError(ConnectionLost):
    """The server took nothing of what was written to it and said nothing; it was stopped."""


class RequestNotSent(ConnectionLost):
    """The request did not leave, because there was no connection: nothing was run."""

    may_have_run = False


class RequestTimeout(ServerError):
    """No answer in time; the server was told that nobody waits any more."""

    kind = "timeout"
    may_have_run = True


class MalformedMessage(ServerError):
    """What arrived is not what the specification says."""

    kind = "malformed"
    may_have_run = True


class UnsupportedCapability(ServerError):
    """The server did not declare what this request needs; nothing was sent."""

    kind = "not_offered"


class TooManyInputRounds(ServerError):
    """A stateless server asked for input again and again."""

    kind = "too_many_rounds"


class SignInRequired(ServerError):
    """The server wants an account, or refuses the one we have."""

    exit_code = 6
    kind = "sign_in"


class UnsupportedRevision(ServerError):
    """No protocol revision is known to both sides."""

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
    """The server answered with a JSON-RPC error; `data` is the decoded member or None, `said` its words alone."""

    kind = "refused"

    def __init__(
        self, message: str, hint: str = "", *, code: int = 0, data: Any = None, server_message: str = ""
    ) -> None:
        super().__init__(message, hint)
        self.code = code
        self.data = data
        from mcphost.redact import redact_registered

        self.server_message = redact_registered(server_message) or self.message
