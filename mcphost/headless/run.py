"""A single turn without a user interface (`mcphost run`), printed as text or JSON.

Rules decide which tools may be called.
"""

import sys
from collections.abc import Callable, Container, Sequence
from shlex import quote
from typing import Any, Literal, Protocol, TypeVar, cast

import anyio

from mcphost.client.capabilities import NO_USER_HINT
from mcphost.config.schema import find_unread_settings
from mcphost.errors import ConfigError, ConsentDenied, LockFileError, McpHostError, ModelError
from mcphost.headless.exit_codes import turn_exit_code
from mcphost.headless.run_input import AnswerSchema, RunInput, read_files, retry_prompt
from mcphost.headless.run_rules import (
    can_run_any_tool,
    print_quarantined_tools,
    print_rules_without_tool,
    quote_rule,
)
from mcphost.host.events import (
    AnyEvent,
    ModelRetrying,
    NoticeEvent,
    ResultReviewed,
    RoundStarted,
    ServerLog,
    ServerState,
    TextDeltaEvent,
    ToolFinished,
    ToolProgress,
    ToolProposed,
    ToolStarted,
    TurnFinished,
)
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Frontend, Question
from mcphost.host.questions.questions import AllowOnce, ApproveTool, Deny
from mcphost.host.server_views import TurnResult
from mcphost.llm.model import Usage
from mcphost.sanitize import escape_line_separators, escape_unsafe_json, sanitize
from mcphost.serialization import Struct, dumps, encode, replace
from mcphost.store.conversations import RUN_PREFIX
from mcphost.translation import N_, _, join_list, translate_sentence

A = TypeVar("A")
OutputFormat = Literal["text", "json", "events"]
WAITING_NOTE_DELAY = 1.0
"""Seconds after which `mcphost run` prints the names of the servers that it is waiting for."""
_TOOL_CHANGED = "The tool or its server changed since it was approved; approve it again in the chat."
_NO_CONSENT = "No rule allows it, and there is no user to ask."


class RunFrontend(Frontend):
    """Front end without a user: allows tool calls if `--yes` is given, and declines all other questions.

    A tool call that an `--allow` rule covers is allowed without asking the front end.
    """

    def __init__(self, *, yes: bool = False) -> None:
        self._allow_all = yes

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of questions that this front end answers: only the approval of tool calls.

        It is not asked to review tool results: a result that must be reviewed is not sent to the model, because there
        is no user.
        """
        return frozenset({ApproveTool.KIND})

    @property
    def who(self) -> str:
        """Who answers questions, as recorded in the audit log: always "rules", because there is no user."""
        return "rules"

    async def ask(self, question: Question[A]) -> A:
        """Allow a tool call if `--yes` is given; decline all other questions.

        A call is also declined if the tool's definition has changed since it was approved.
        """
        if isinstance(question, ApproveTool):
            # A definition that changed since its approval must be reviewed, whatever a rule says.
            if question.has_changed:
                return cast("A", Deny(_TOOL_CHANGED, is_by_user=False))
            return cast("A", AllowOnce() if self._allow_all else Deny(_NO_CONSENT, is_by_user=False))
        return question.refusal()


class CallReport(Struct, frozen=True):
    """A tool call made during the turn, as printed by `--output json`."""

    server: str
    tool: str
    arguments: dict[str, Any] | None
    outcome: str
    text: str
    seconds: float


class RunReport(Struct, frozen=True, kw_only=True):
    """The JSON document that `--output json` prints; `declined` is the number of declined tool calls."""

    outcome: str
    text: str
    exit_code: int
    declined: int = 0
    error: str = ""
    hint: str = ""
    model: str = ""
    conversation: str = ""
    calls: tuple[CallReport, ...] = ()
    usage: Usage = Usage()
    value: Any = None
    """The parsed answer if `--schema` is given and the answer matches it, else None."""


class RunFinished(Struct, frozen=True, kw_only=True, tag_field="event", tag="finished"):
    """The JSON object that `--output events` prints as its last line; see RunReport for the members."""

    exit_code: int
    outcome: str = ""
    text: str = ""
    declined: int = 0
    error: str = ""
    hint: str = ""
    value: Any = None


class AnswerPrinter(Protocol):
    """Interface for showing the model's answer while it is being received."""

    def write(self, text: str) -> None:
        """Show the next piece of the answer."""
        ...

    def end_line(self) -> None:
        """End the current line, so that other output starts on a new line."""
        ...


class StatusDisplay(Protocol):
    """Interface for the status line, which shows what `mcphost run` is waiting for."""

    def show(self, text: str, *, keep_time: bool = False) -> bool:
        """Show *text* and the time since it was first shown; return whether the user can see it.

        If *keep_time* is set, the displayed time continues from the previous text instead of starting at zero.
        """
        ...

    def show_progress(self, text: str, progress: ToolProgress) -> None:
        """Show *text* followed by the progress of a tool call."""
        ...

    def end(self) -> None:
        """Remove the status line before other output is printed."""
        ...


_ROUNDS_USED_UP = N_("The model reached the limit of tool call rounds.")
_ROUNDS_HINT = N_("Allow more with --max-rounds.")


class _NoStatus(StatusDisplay):
    """Status display that shows nothing, for output to a file or a program."""

    def show(self, text: str, *, keep_time: bool = False) -> bool:
        """Show nothing and return False."""
        return False

    def show_progress(self, text: str, progress: ToolProgress) -> None:
        """Do nothing."""

    def end(self) -> None:
        """Do nothing."""


class _PlainAnswer(AnswerPrinter):
    """Printer that shows the model's answer as plain text without control characters."""

    def __init__(self) -> None:
        self._is_mid_line = False

    def write(self, text: str) -> None:
        """Print the next piece of the answer."""
        sys.stdout.write(sanitize(text))
        sys.stdout.flush()
        self._is_mid_line = not text.endswith("\n")

    def end_line(self) -> None:
        """End the current line unless it is empty."""
        if self._is_mid_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._is_mid_line = False


async def run_turn(
    host: Host,
    prompt: str,
    *,
    output: OutputFormat,
    quiet: bool = False,
    yes: bool = False,
    sent: RunInput = RunInput(),  # noqa: B008 - immutable
    answer_printer: AnswerPrinter | None = None,
    status: StatusDisplay | None = None,
) -> int:
    """Start the servers that are needed, send *prompt*, print events and the result, and return the exit code.

    The caller must have entered the host's context, but not started the host. Without *yes*, a server is started only
    if a call to at least one of its tools may be allowed. *sent* contains files and the schema for the answer. If the
    answer does not match the schema, the model is asked once more; if the second answer does not match either, the exit
    code is 7. On a terminal, *answer_printer* shows the answer, and *status* shows what the run is waiting for.

    Raises ConfigError if no model is selected or a project's lock file cannot be used, and ConsentDenied if a server is
    not approved. Raises UsageError if a file in *sent* cannot be attached, and ModelError if the model's provider is
    unknown.
    """
    if host.model_selection.model is None:
        if unread := find_unread_settings(host.config.problems):
            raise ConfigError(unread)
        place = host.config.settings_file
        raise ConfigError("No model is chosen.", f"Use --model PROVIDER/MODEL, or set [model] name in {place}.")
    attachments, schema = await read_files(host, sent.files, sent.stdin), sent.schema
    if schema is not None:
        host.model_selection.answer_schema = schema.schema
    printer = _EventPrinter(output, answer_printer, status or _NoStatus(), quiet=quiet)
    feed = host.events.subscribe()
    result, value, exit_code = TurnResult("failed", ""), None, 0
    async with anyio.create_task_group() as tasks:

        async def listen() -> None:
            async for event in feed:
                printer.handle(event)

        tasks.start_soon(listen)
        wanted = [view.name for view in host.servers.views() if yes or await can_run_any_tool(host, view)]
        host.start(resume_orphaned_tasks=False, only=wanted)
        problem = await wait_for_servers(host, wanted, printer.print_message, printer.print_starting)
        if problem is not None:
            for event in feed.drain():
                printer.handle(event)
            tasks.cancel_scope.cancel()
            raise problem
        host.conversation.set_title_prefix(RUN_PREFIX)
        print_rules_without_tool(host, printer.print_message)
        is_missing_tool = print_quarantined_tools(host, printer.print_message, yes=yes)
        result = await host.conversation.send(prompt, attachments)
        if schema is not None:
            result, value = await _enforce_schema(host, schema, result, printer.print_message)
        exit_code = turn_exit_code(result) or (ConsentDenied.exit_code if is_missing_tool else 0)
        for event in feed.drain():
            printer.handle(event)
        tasks.cancel_scope.cancel()
    printer.print_result(host, result, exit_code, value)
    return exit_code


async def _enforce_schema(
    host: Host, schema: AnswerSchema, result: TurnResult, print_message: Callable[[str], None]
) -> tuple[TurnResult, Any]:
    """Validate the answer against the schema; return the turn's result and the parsed answer.

    If the answer does not match, the model is asked once more in a second turn. In this case, the result of the second
    turn is returned, with the number of declined calls in both turns. If the second answer does not match either, or if
    an answer cannot be validated, the result contains an error and the parsed answer is None.
    """
    try:
        check = None
        if result.outcome == "done":
            check = await schema.check(result.text)
            if check.problem and check.is_checked:
                print_message(
                    _("the answer does not match the schema, asking again: {problem}").format(
                        problem=translate_sentence(check.problem)
                    )
                )
                # It quotes the answer, which may contain text of a server, so it must not count as typed.
                again = await host.conversation.send(retry_prompt(check.problem), is_automatic=True)
                result = replace(again, declined=result.declined + again.declined)
                check = await schema.check(result.text) if result.outcome == "done" else None
    finally:
        await schema.close()
    if check is None or not check.problem:
        return result, check.value if check else None
    error = (
        f"The answer does not match the schema of --schema. {check.problem}"
        if check.is_checked
        else f"The answer could not be compared with the schema of --schema. {check.problem}"
    )
    return replace(result, outcome="failed", failure=ModelError(error)), None


async def wait_for_servers(
    host: Host,
    wanted: Container[str],
    print_message: Callable[[str], None],
    print_starting: Callable[[Sequence[str]], None],
) -> McpHostError | None:
    """Wait until the *wanted* servers are ready or have failed; return an error that ends the run, or None.

    There are two such errors: an enabled server is not approved, or the lock file of a wanted server's project cannot
    be used. A server that fails for another reason does not end the run.

    - *print_message* receives a message with the names of enabled servers that are not wanted, and therefore not
      started. It is not called if an unwanted server is not approved. If standard error is not a terminal, it is called
      only if no enabled server is wanted.
    - *print_starting* receives the names of the servers that are still starting, if the wait takes longer than a
      second.
    """
    enabled = [view.name for view in host.servers.views() if not view.config.disabled]
    unused = [name for name in enabled if name not in wanted]
    untrusted = [name for name in unused if not await host.servers.is_approved(name)]
    starting = {name for name in enabled if name in wanted}
    unusable: list[LockFileError] = []

    async def wait_ready(name: str) -> None:
        try:
            await host.servers.ensure_ready(name)
        except ConsentDenied:
            untrusted.append(name)
        except LockFileError as error:
            unusable.append(error)
        except McpHostError:
            pass  # reported as an event; the turn continues with the other servers
        starting.discard(name)
        if not starting:
            waiting.cancel()

    async def report_waiting() -> None:
        with waiting:
            await anyio.sleep(WAITING_NOTE_DELAY)
            print_starting(sorted(starting))

    waiting = anyio.CancelScope()
    if unused and not untrusted and (sys.stderr.isatty() or not starting):
        text = (
            _("not started, since no rule allows a call: {names}. To use it: --allow {rule}")
            if len(unused) == 1
            else _("not started, since no rule allows a call: {names}. To use one of them: --allow {rule}")
        )
        print_message(text.format(names=quote_names(unused), rule=quote_rule(unused[0])))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report_waiting)
        for name in tuple(starting):
            tasks.start_soon(wait_ready, name)
        if not starting:
            waiting.cancel()
    if untrusted:
        return not_approved_error(tuple(sorted(untrusted)))
    return unusable[0] if unusable else None


def quote_names(names: Sequence[str]) -> str:
    """Return the names in quotation marks, separated by commas."""
    return ", ".join(map(repr, names))


def not_approved_error(names: tuple[str, ...]) -> ConsentDenied:
    """Return an error that explains that these servers are not approved, and how to approve them."""
    return ConsentDenied(
        f"The server {names[0]!r} is not approved."
        if len(names) == 1
        else f"The servers {quote_names(names)} are not approved.",
        f"Review and approve it with: mcphost servers trust {quote(names[0])}",
    )


def print_start_failure(error: McpHostError, output: OutputFormat) -> None:
    """Print a result with the error of a run that could not start.

    This applies to the formats "events" and "json"; with "text", nothing is printed.
    """
    if output == "events":
        _print_json_line(RunFinished(exit_code=error.exit_code, outcome="failed", error=error.message, hint=error.hint))
    elif output == "json":
        _print_json(RunReport(
            outcome="failed", text="", exit_code=error.exit_code, error=error.message, hint=error.hint,
        ))  # fmt: skip


class _EventPrinter:
    """Printer for events, in the selected output format; human-readable messages go to standard error."""

    def __init__(
        self, output: OutputFormat, answer_printer: AnswerPrinter | None, status: StatusDisplay, *, quiet: bool
    ) -> None:
        self._output = output
        self._status = status
        self._is_quiet = quiet
        is_streaming = output == "text" and sys.stdout.isatty()
        self._answer = (answer_printer or _PlainAnswer()) if is_streaming else None
        self._proposed: dict[str, ToolProposed] = {}
        self._started: dict[str, ToolStarted] = {}
        self._calls: list[CallReport] = []
        self._usage = Usage()

    def handle(self, event: AnyEvent) -> None:
        """Print an event, or use it to update the status line and the report."""
        if self._output == "events":
            _print_json_line(event)
            return
        self._update_status(event)
        match event:
            case TextDeltaEvent() if self._answer is not None:
                self._status.end()
                self._answer.write(event.text)
            case ToolProposed():
                self._proposed[event.call] = event
            case ToolStarted():
                self._started[event.call] = event
                self.print_message(f"{event.server}/{event.tool} {dumps(event.arguments)}")
                self._status.show(_("Calling {server}/{tool}…").format(server=event.server, tool=event.tool))
            case ToolFinished():
                self._record_call(event)
            case ResultReviewed(outcome="withheld"):
                name = f"{event.server}/{event.tool}"
                rule = quote_rule(event.server, event.tool)
                text = _(
                    "withheld from the model: the result of {name}. "
                    "To pass such results without a review: --pass-results {rule}"
                )
                self.print_message(text.format(name=name, rule=rule), always=True)
            case TurnFinished():
                self._usage = self._usage + event.usage
            case ModelRetrying():
                reason = translate_sentence(event.reason)
                self.print_message(
                    _("retrying in {seconds:g} s: {reason}").format(seconds=event.seconds, reason=reason)
                )
            case ServerState(state="failed" | "sign_in"):
                self.print_message(f"{event.server}: {translate_sentence(event.detail)}", always=True)
            case ServerLog(source="client") if NO_USER_HINT in event.text:
                self.print_message(translate_sentence(event.text), always=True)
            case NoticeEvent():
                text = f"{translate_sentence(event.text)} {translate_sentence(event.hint)}"
                self.print_message(text.strip(), always=event.level == "error")
            case _:
                pass

    def _update_status(self, event: AnyEvent) -> None:
        match event:
            case ServerState(state="connecting"):
                self._status.show(_("Starting {server}…").format(server=event.server))
            case RoundStarted():
                self._status.show(_("Waiting for {model}…").format(model=event.label or event.model))
            case ToolProgress() if started := self._started.get(event.call):
                self._status.show_progress(
                    _("Calling {server}/{tool}: ").format(server=started.server, tool=started.tool), event
                )
            case TurnFinished():
                self._status.end()
            case _:
                pass

    def _record_call(self, event: ToolFinished) -> None:
        proposed, started = self._proposed.get(event.call), self._started.get(event.call)
        arguments = started.arguments if started else proposed.arguments if proposed else None
        self._calls.append(CallReport(event.server, event.tool, arguments, event.outcome, event.text, event.seconds))
        name = f"{event.server}/{event.tool}" if event.server else event.tool
        if event.outcome == "declined" and event.text not in (_NO_CONSENT, ""):
            text = _("declined: {name}: {reason}")
            self.print_message(text.format(name=name, reason=translate_sentence(event.text)[:1000]), always=True)
        elif event.outcome == "declined":
            text = _("declined: {name}. To allow it: --allow {rule}") if event.server else _("declined: {name}.")
            rule = quote_rule(event.server, event.tool) if event.server else ""
            self.print_message(text.format(name=name, rule=rule), always=True)
        elif event.outcome != "ok":
            self.print_message(f"{_(event.outcome)}: {name}: {event.text[:500]}")

    def print_message(self, text: str, *, always: bool = False) -> None:
        """Print a human-readable message to standard error; in quiet mode, do so only if *always* is true."""
        if self._is_quiet and not always:
            return
        self._status.end()
        if self._answer is not None:
            self._answer.end_line()
        sys.stderr.write(f"mcphost: {sanitize(text, keep_newlines=False)[:2000]}\n")

    def print_starting(self, names: Sequence[str]) -> None:
        """Show which servers are still starting: in the status line if there is one, otherwise as a message."""
        if not self._status.show(_("Starting {names}…").format(names=join_list(names)), keep_time=True):
            self.print_message(_("waiting for {names} to start").format(names=quote_names(names)))

    def print_result(self, host: Host, result: TurnResult, exit_code: int, value: Any = None) -> None:
        """Print the result of the turn in the selected format; *value* is the parsed answer if there is a schema."""
        self._status.end()
        model = host.model_selection.model
        if result.outcome == "rounds" and not result.error:
            result = replace(result, failure=ModelError(_ROUNDS_USED_UP, _ROUNDS_HINT))
        if self._output == "events":
            _print_json_line(RunFinished(
                exit_code=exit_code, outcome=result.outcome, text=result.text, declined=result.declined,
                error=result.error, hint=result.hint, value=value,
            ))  # fmt: skip
        elif self._output == "json":
            _print_json(RunReport(
                outcome=result.outcome, text=result.text, exit_code=exit_code, declined=result.declined,
                error=result.error, hint=result.hint, model=model.name if model else "",
                conversation=host.conversation.id, calls=tuple(self._calls), usage=self._usage,
                value=value,
            ))  # fmt: skip
        else:
            self._print_text_result(result)

    def _print_text_result(self, result: TurnResult) -> None:
        if self._answer is not None:
            self._answer.end_line()
        elif result.text:
            sys.stdout.write(result.text if result.text.endswith("\n") else result.text + "\n")
        sys.stdout.flush()
        if result.error:
            text = f"{translate_sentence(result.error)} {translate_sentence(result.hint)}"
            self.print_message(text.strip(), always=True)


def _print_json_line(value: Any) -> None:
    text = escape_line_separators(encode(value)).decode()
    sys.stdout.write((escape_unsafe_json(text) if sys.stdout.isatty() else text) + "\n")
    sys.stdout.flush()


def _print_json(value: Any) -> None:
    text = dumps(value, indent=2)
    sys.stdout.write((escape_unsafe_json(text) if sys.stdout.isatty() else text) + "\n")
    sys.stdout.flush()
