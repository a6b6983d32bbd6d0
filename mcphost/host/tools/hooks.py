"""Hooks: the user's programs that run before or after tool calls, and can deny or change calls but never allow them."""

import json
import shlex
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from mcphost.config.hooks import (
    DENIAL,
    HookOutput,
    find_hooks_root,
    hooks_file,
    parse_project_hooks,
    read_project_hooks,
    unused_hooks_files,
)
from mcphost.config.project_texts import ProjectPlaces, ProjectText
from mcphost.config.rules import ORIGIN_OPERATORS
from mcphost.config.schema import HookConfig, HookEvent
from mcphost.errors import ConsentDenied, MalformedMessage, McpHostError, StoreError, UsageError
from mcphost.host.audit.audit_log import AuditLog, AuditSpan, AuditSubject
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.policy import OriginSearch
from mcphost.host.consent.rule_matching import RuleInput, RuleMatcher
from mcphost.host.event_bus import EventBus
from mcphost.host.project_file_approvals import USED, ProjectApprovals, ProjectFileStatus
from mcphost.host.servers.servers import Servers
from mcphost.host.tools.tool_outcome import ToolCallOutcome, ToolFailure
from mcphost.sanitize import replace_surrogates, sanitize, sanitize_line, strip_hidden_text
from mcphost.serialization import Struct, encode, loads, replace
from mcphost.threads import run_in_thread

DENY_CODE = 2
"""Exit code with which a hook denies a call; its standard error is the reason."""

MAX_RESULT_CHARACTERS = 200_000
"""Maximum number of characters of a result that are passed to a hook, and of the text that replaces the result."""

MAX_RUNNING_HOOKS = 8
"""Maximum number of hooks that run at once, because a model may propose hundreds of calls in one answer."""

_MAX_QUICK_ANSWER = 64 * 1024
"""Maximum size of a hook's output that is parsed on the event loop; parsing a megabyte takes 170 ms."""

_MAX_REASON = 500
_MAX_NOTE = 4_000
RunHook = Callable[[Sequence[str], str, bytes, float], Awaitable[HookOutput]]
"""Runs a command in a folder with an input and a time limit in seconds; see `transport/hook_process.py`."""


async def refuse_to_run(command: Sequence[str], folder: str, document: bytes, seconds: float) -> HookOutput:
    """Report a hook as failed without running it; used if this host cannot run hooks."""
    del command, folder, document, seconds
    return HookOutput(failure="was not started", start_error="hooks are not available here")


class HookDenied(ToolFailure):
    """Raised when a hook denies a call, or fails and is configured to deny calls on failure."""

    outcome = "declined"
    decision = "declined"

    def __init__(self, hook: str, reason: str) -> None:
        super().__init__("One of the user's hooks denied this call; the tool did not run.")
        self.user_text = f"The hook {hook} declined it: {reason}"
        self.reason = reason
        self.model_text = f"{self.model_text} Reason: {reason}"


class HookFailed(HookDenied):
    """Raised when a call is refused because a hook could not be run or failed.

    The parameter *problem* states which of the two happened: "could not be run" or "failed".
    """

    def __init__(self, hook: str, problem: str, reason: str) -> None:
        super().__init__(hook, reason)
        self.user_text = f"The hook {hook} {problem}, so the call was refused: {reason}"
        self.model_text = f"One of the user's hooks {problem}; the tool did not run. Reason: {reason}"


class HookVerdict(Struct, frozen=True):
    """Parsed output of a hook; None or "" stands for a member that is missing from the output.

    `denial` is the reason why the hook denies the call. `problem` is "could not be run" or "failed" if the call is
    denied only because the hook did not work.
    """

    problem: str = ""
    denial: str = ""
    arguments: dict[str, Any] | None = None
    result: str | None = None
    note: str = ""
    notice: str = ""


@dataclass(eq=False)
class HookNotes:
    """Effects of the hooks on one tool call: notes for the model, changed arguments, a changed result.

    - `changed_by`: the last hook that changed the arguments, "" for none.
    - `is_changed_by_project`: whether one of the project's hooks changed the arguments.
    - `result`: the text that replaces the result for the model, None if no hook changed it.
    - `checked`: a call and the arguments that its hooks returned, so that the hooks are not run again for the same
      call.
    - `arguments`: the current arguments if a hook or the user changed them, else None.
    """

    notes: list[str] = field(default_factory=list[str])
    changed_by: str = ""
    is_changed_by_project: bool = False
    result: str | None = None
    checked: tuple[RuleInput, dict[str, Any]] | None = None
    arguments: dict[str, Any] | None = None

    @property
    def editor(self) -> str:
        """A phrase that tells the model who changed the arguments: one of the user's hooks, or the user."""
        return "One of the user's hooks" if self.changed_by else "The user"

    def why(self, why: str) -> str:
        """Return the reason shown in the approval question, naming the hook that changed the arguments, if any."""
        return f"{why}; the hook {self.changed_by} changed its arguments" if self.changed_by else why

    def without_known(self, text: str) -> "HookNotes":
        """Return only the notes that *text*, the recorded result of an identical call, does not contain yet."""
        return HookNotes([note for note in self.notes if f"{_format_note(note)}\n" not in text])

    def add_to(self, outcome: ToolCallOutcome, *, is_reviewed: bool = False) -> ToolCallOutcome:
        """Return the outcome with the hooks' notes inserted before the text of the result.

        If *is_reviewed* is true, the user has reviewed the notes as part of the result, so they are not inserted again.
        In both cases, a sentence is inserted if a hook changed the result.
        """
        text = self._change_text if is_reviewed else self.text
        return replace(outcome, part=replace(outcome.part, text=text + outcome.part.text)) if text else outcome

    @property
    def text(self) -> str:
        """The hooks' notes for the model, or "" if there are none and no hook changed the result.

        If a hook changed the result, the text begins with a sentence that states this.
        """
        return self._change_text + self.written

    @property
    def written(self) -> str:
        """The notes that the hooks wrote for the model, as one text; "" if there are none."""
        return "".join(f"{_format_note(note)}\n\n" for note in self.notes)

    @property
    def _change_text(self) -> str:
        return "One of the user's hooks changed this result.\n\n" if self.result is not None else ""


class ToolHooks:
    """The user's hooks from the configuration, and the project's hooks once the user approves them.

    *find_own* returns the user's hooks, which may change while the program runs.
    """

    def __init__(  # noqa: PLR0913 - its parts
        self,
        find_own: Callable[[], Sequence[HookConfig]],
        places: ProjectPlaces | None,
        approvals: ProjectApprovals,
        run: RunHook,
        matcher: RuleMatcher,
        find_origins: OriginSearch,
        servers: Servers,
        audit: AuditLog,
        events: EventBus,
    ) -> None:
        self._find_own, self._places, self._approvals, self._run = find_own, places, approvals, run
        self._matcher, self._find_origins, self._servers = matcher, find_origins, servers
        self._audit, self._events = audit, events
        self._project: tuple[HookConfig, ...] = ()
        self._approved: ProjectText | None = None
        self._root: Path | None = None
        self._reported: set[str] = set()
        self._lock = anyio.Lock()
        self._limiter = anyio.CapacityLimiter(MAX_RUNNING_HOOKS)

    @property
    def _approved_digest(self) -> str:
        return "" if self._approved is None else self._approved.digest

    async def list_files(self) -> tuple[ProjectFileStatus, ...]:
        """Return the status of the project's hooks file if the user has approved or declined it, otherwise ().

        If the file has changed, but hooks approved earlier are still in effect, the status is that of the approved
        content. Raises StoreError.
        """
        if self._places is None:
            return ()
        root = self._root or await self._find_root(self._places)
        ignored = list[str]()  # reported when the file is read for use
        text = await anyio.to_thread.run_sync(read_project_hooks, root, ignored.append)
        approved = self._approved or await self._approvals.find_approved(hooks_file(root))
        found = [await self._approvals.find_status(one) for one in (text, approved) if one is not None]
        decided = [status for status in found if status is not None]
        return tuple(sorted(decided, key=lambda status: not status.is_used)[:1])

    async def forget(self, text: ProjectText) -> None:
        """Revoke the approval of the project's hooks file, and stop running its hooks. Raises StoreError."""
        async with self._lock:
            await self._approvals.forget(text)
            self._project, self._approved = (), None

    async def refresh(self, *, again: bool = False) -> None:
        """Read the project's hooks and ask the user about new or changed ones; report each problem once.

        If *again* is true, the user is also asked about a file declined earlier in this session.

        Approved hooks stay in effect until the user approves a changed file or revokes the approval, because a server
        that can write in the project must not be able to switch the hooks off. For the same reason, the project's
        folder is determined only once.
        """
        if self._places is None:
            return
        async with self._lock:
            problems: list[str] = []
            if (root := self._root) is None:
                root = await self._find_root(self._places)
                problems += await self._find_missing(self._places, root)
                await self._use_flagged(self._places.approved_hooks, root)
                self._root = root  # last, so that the next call does what a cancelled one left undone
            count = len(problems)
            text = await anyio.to_thread.run_sync(read_project_hooks, root, problems.append)
            is_unusable = len(problems) > count
            # Keep the previous hooks in effect until here, so that calls made in the meantime do not bypass all hooks.
            hooks = await self._find_approved(text, root, problems, is_unusable=is_unusable, again=again)
            self._project = hooks
            for problem in problems:
                if problem not in self._reported:
                    self._reported.add(problem)
                    self._events.notify("warning", problem)

    async def _use_flagged(self, text: ProjectText | None, root: Path) -> None:
        """Use the hooks file that a command-line flag approved; *text* is its content when mcphost started.

        A server that was started since then may have changed the file to switch the hooks off. An invalid file is not
        used; the error is reported when the project's file is read.
        """
        if text is None:
            return
        try:
            hooks = await anyio.to_thread.run_sync(parse_project_hooks, text, root)
            await self._approvals.ask("hooks", [text], hooks=hooks)
        except McpHostError:
            return
        self._project, self._approved = hooks, text

    async def _find_approved(
        self, text: ProjectText | None, root: Path, problems: list[str], *, is_unusable: bool, again: bool
    ) -> tuple[HookConfig, ...]:
        """Return the hooks in *text* if the user approves it, otherwise the hooks that were approved earlier.

        Hooks approved earlier stay in effect even if the user declines the changed file; they end only when their
        approval is revoked.

        *text* is the project's hooks file, None if there is none. If *is_unusable* is true, *text* is None because the
        file cannot be used. *root* is the project's folder. Sentences for the user about hooks that are not used are
        added to *problems*. If *again* is true, the user is also asked about a file declined earlier in this session.
        """
        digest, is_changed = "" if text is None else text.digest, is_unusable
        is_declined = False
        try:
            if text is not None:
                is_changed = True
                hooks = await anyio.to_thread.run_sync(parse_project_hooks, text, root)
                await self._approvals.ask("hooks", [text], again=again, hooks=hooks)
                source = await self._approvals.find_source(text)
                problems += self._approvals.describe_changed([(text, source)])
                is_declined = source == "refused"
                if source in USED:
                    self._approved = text
                    return hooks
        except McpHostError as error:
            problems.append(f"The project's hooks file is not used: {error.message}")
        earlier = await self._find_earlier(root, problems, is_declined=is_declined) if is_changed else None
        if earlier is not None:
            return earlier
        if self._project and digest != self._approved_digest:
            problems.append(
                "The project's hooks file is missing, or is not approved as it is now. "
                "The hooks approved before stay in effect until you quit."
            )
            return self._project
        return ()

    async def _find_earlier(
        self, root: Path, problems: list[str], *, is_declined: bool
    ) -> tuple[HookConfig, ...] | None:
        """Return the hooks that the user approved permanently before the hooks file changed.

        Sentences about the change are added to *problems*; *is_declined* means that the user declined the change.
        Returns None if there are no such hooks, if they cannot be read, or if a different version of the file was
        approved in this run.
        """
        path = hooks_file(root)
        try:
            approved = await self._approvals.find_approved(path)
            if approved is None or self._approved_digest not in ("", approved.digest):
                return None
            hooks = await anyio.to_thread.run_sync(parse_project_hooks, approved, root)
        except McpHostError:
            return None  # reported when the file in the project was read
        self._approved = approved
        name = sanitize(path, keep_newlines=False)
        if is_declined:
            problems.append(
                f"You declined the change of {name}. The version that you approved stays in effect. To stop using it, "
                "open /instructions."
            )
        else:
            problems.append(
                f"{name} has changed since you approved it. The version that you approved stays in effect. To review "
                "the change, start the chat in this project."
            )
        return hooks

    async def _find_root(self, places: ProjectPlaces) -> Path:
        """Return the folder of the hooks file that a command-line flag approved, or else the project's folder."""
        return places.hooks_root or await anyio.to_thread.run_sync(find_hooks_root, places)

    async def _find_missing(self, places: ProjectPlaces, root: Path) -> list[str]:
        """Return a sentence for each hooks file that the user approved earlier and that is not used now."""
        paths = await anyio.to_thread.run_sync(unused_hooks_files, places, root)
        try:
            missing = [sanitize(path, keep_newlines=False) for path in paths if await self._approvals.is_stored(path)]
        except StoreError:
            return []  # reported when the approvals are needed
        return [
            f"The hooks that you approved in {path} are not used: the file is missing, "
            "or the project's folder is another one now."
            for path in missing
        ]

    async def check(self, call: str, rule_input: RuleInput, notes: HookNotes) -> dict[str, Any]:
        """Run the hooks that precede a call, and return the arguments, possibly changed. Raises HookDenied.

        *rule_input* describes the call, and *call* is its id, "" for a call by the user. If a hook changes the
        arguments, later hooks are matched against the changed arguments and also receive them. Notes for the model are
        added to *notes*. Each run is recorded in the audit log.
        """
        for hook, is_project in self._select("before_call"):
            if not await self._matches(hook, rule_input):
                continue
            verdict = await self._ask(hook, "before_call", call, rule_input, {}, is_project=is_project)
            if verdict.denial:
                await self._record_denial(call, rule_input, hook)
                if verdict.problem:
                    raise HookFailed(hook.name, verdict.problem, verdict.denial)
                raise HookDenied(hook.name, verdict.denial)
            if verdict.arguments is not None and arguments_digest(verdict.arguments) != arguments_digest(
                rule_input.arguments
            ):
                rule_input = replace(rule_input, arguments=verdict.arguments)
                notes.changed_by = hook.name
                notes.is_changed_by_project |= is_project
                self._notify(rule_input, f"The hook {hook.name} changed the arguments")
            self._take_notes(hook, rule_input, verdict, notes)
        return rule_input.arguments

    async def review(self, call: str, rule_input: RuleInput, text: str, *, is_error: bool, notes: HookNotes) -> str:
        """Run the hooks that follow a call; return the reason why the result must be withheld, or "".

        *text* is the result, and *is_error* means that it reports an error. See `check` for the other parameters. Each
        hook receives the result as changed by earlier hooks; a changed result is stored in *notes*.
        """
        members: dict[str, Any] = {
            "result": text[:MAX_RESULT_CHARACTERS],
            "is_error": is_error,
            "is_cut": len(text) > MAX_RESULT_CHARACTERS,
        }
        for hook, is_project in self._select("after_call"):
            if not await self._matches(hook, rule_input):
                continue
            verdict = await self._ask(hook, "after_call", call, rule_input, members, is_project=is_project)
            if verdict.denial:
                await self._record_denial(call, rule_input, hook)
                why = f"it {verdict.problem}: {verdict.denial}" if verdict.problem else verdict.denial
                self._notify(rule_input, f"The hook {hook.name} withheld the result: {why}")
                return why
            if verdict.result is not None and verdict.result != _clean_text(members["result"]):
                members |= {"result": verdict.result, "is_cut": False}
                notes.result = verdict.result
                self._notify(rule_input, f"The hook {hook.name} changed the result that the model gets")
            self._take_notes(hook, rule_input, verdict, notes)
        return ""

    def _select(self, event: HookEvent) -> list[tuple[HookConfig, bool]]:
        """Return the hooks for an event as pairs of a hook and whether it is one of the project's hooks.

        The user's own hooks come last, so that they receive what the project's hooks changed. A list is returned, not a
        generator, because `refresh` may replace the project's hooks while one of them runs.
        """
        hooks = [*((one, True) for one in self._project), *((one, False) for one in self._find_own())]
        return [(one, is_project) for one, is_project in hooks if one.settings.event == event]

    async def _matches(self, hook: HookConfig, rule_input: RuleInput) -> bool:
        """Return whether a hook applies to a call; like a `never` rule, it also applies if the match is uncertain.

        A rule about one of the user's servers also covers the same server under a name that a project gave it.
        """
        if any(condition.operator in ORIGIN_OPERATORS for rule in hook.rules for condition in rule.conditions):
            origins = await self._find_origins(rule_input.server, rule_input.arguments)
            rule_input = replace(rule_input, origins=origins)
        inputs = [rule_input, *(replace(rule_input, server=name) for name in self._find_same(rule_input.server))]
        for rule in hook.rules:
            for one in inputs:
                if await self._matcher.match(rule, one) != "no":
                    return True
        return not hook.rules

    def _find_same(self, server: str) -> tuple[str, ...]:
        """Return the names of the user's servers that are the same server as *server*.

        *server* is the name of a server that a project configures.
        """
        try:
            return self._servers.find(server).config.matching_servers
        except UsageError:  # removed while its call ran
            return ()

    async def _ask(
        self,
        hook: HookConfig,
        event: HookEvent,
        call: str,
        rule_input: RuleInput,
        members: dict[str, Any],
        *,
        is_project: bool,
    ) -> HookVerdict:
        settings = hook.settings
        document = {
            "event": event, "call": call, "server": rule_input.server, "tool": rule_input.tool,
            "account": rule_input.account, "folder": rule_input.folder, "arguments": rule_input.arguments, **members,
        }  # fmt: skip
        subject = AuditSubject(kind="hook", server=rule_input.server, name=shlex.join(settings.command), call=call,
                               arguments=rule_input.arguments)  # fmt: skip
        span = AuditSpan(self._audit, subject)
        outcome = "stopped"
        try:
            project = replace_surrogates(hook.folder) if is_project else ""
            async with self._limiter:  # the hook's time limit begins when it starts
                await span.start(who="project" if project else "config", grant=project)
                output = await self._run(settings.command, hook.folder, encode(document) + b"\n", settings.timeout)
            if len(output.output) > _MAX_QUICK_ANSWER:
                verdict, failure = await run_in_thread(_read_verdict, event, output)
            else:
                verdict, failure = _read_verdict(event, output)
            if failure:
                problem = "could not be run" if output.start_error else "failed"
                failure = failure if failure.endswith(".") else f"{failure}."
                self._notify(rule_input, f"The hook {hook.name} {problem}: {failure}")
                outcome = "failed"
                # A script that is missing or unreadable makes most interpreters exit with the status that denies.
                is_denied = settings.on_failure == "deny" or output.code == DENY_CODE or _names_denial(output.output)
                verdict = HookVerdict(problem, failure) if is_denied else HookVerdict()
            else:
                has_changed = verdict.arguments is not None or verdict.result is not None
                outcome = "denied" if verdict.denial else "changed" if has_changed else "continued"
        except ConsentDenied as error:
            return HookVerdict("could not be run", error.message)  # the audit log cannot be written, so nothing may run
        finally:
            span.end(outcome)
        return verdict

    async def _record_denial(self, call: str, rule_input: RuleInput, hook: HookConfig) -> None:
        subject = AuditSubject(kind="tool", server=rule_input.server, name=rule_input.tool, call=call,
                               arguments=rule_input.arguments)  # fmt: skip
        try:
            await self._audit.record_decision(subject, "deny", who="hook", grant=hook.name)
        except ConsentDenied:
            return  # the call is denied in any case

    def _take_notes(self, hook: HookConfig, rule_input: RuleInput, verdict: HookVerdict, notes: HookNotes) -> None:
        if verdict.note:
            notes.notes.append(strip_hidden_text(verdict.note))
        if verdict.notice:
            self._notify(rule_input, f"The hook {hook.name} says: {verdict.notice}")

    def _notify(self, rule_input: RuleInput, text: str) -> None:
        where = sanitize(f"{rule_input.server} · {rule_input.tool}", keep_newlines=False)
        self._events.notify("info", f"{where}: {sanitize(text, keep_newlines=False)}")


def _read_verdict(event: HookEvent, output: HookOutput) -> tuple[HookVerdict, str]:
    """Parse a hook's output; return the verdict and an error, which is "" if the hook worked.

    The error is a phrase with the reason why the hook failed or could not be run.
    """
    if output.start_error:
        return HookVerdict(), _line(output.start_error)
    if output.failure:
        return HookVerdict(), f"it {output.failure}"
    if output.code == DENY_CODE:
        return HookVerdict(denial=_line(output.error_output) or "no reason given"), ""
    if output.code != 0:
        said = _line(output.error_output)
        return HookVerdict(), f"it exited with status {output.code}{f': {said}' if said else ''}"
    if not output.output.strip():
        return HookVerdict(), ""
    try:
        answer = loads(output.output, "answer")
    except MalformedMessage:
        return HookVerdict(), "it did not print JSON"
    if not isinstance(answer, dict):
        return HookVerdict(), "it did not print a JSON object"
    if repeated := _find_repeated_member(output.output):
        return HookVerdict(), f"it answered with the member {_line(repeated)!r} twice"
    return _parse_answer(event, cast("dict[str, Any]", answer))


def _names_denial(answer: bytes) -> bool:
    """Return whether a hook's output that cannot be parsed contains the decision "deny", which is then obeyed.

    The output may be invalid because the hook inserted an argument into its reason without escaping it.
    """
    return DENIAL.search(answer) is not None


def _find_repeated_member(answer: bytes) -> str:
    """Return the first member that an object in valid JSON has twice, or "" if there is none.

    If a hook inserts an argument into its reason without escaping it, the argument may add a second decision to the
    JSON, which a parser would use instead of the first one.
    """
    repeated: list[str] = []

    def note_repeated(members: list[tuple[str, Any]]) -> None:
        seen: set[str] = set()
        repeated.extend(name for name, _ in members if name in seen or seen.add(name))

    json.loads(answer, object_pairs_hook=note_repeated)
    return next(iter(repeated), "")


def _parse_answer(event: HookEvent, answer: dict[str, Any]) -> tuple[HookVerdict, str]:
    decision: Any = answer.get("decision", "continue")
    arguments: Any = answer.get("arguments")
    result: Any = answer.get("result")
    if unknown := sorted(set(answer) - {"decision", "reason", "arguments", "result", "note", "notice"}):
        return HookVerdict(), f"it answered with the unknown member {_line(unknown[0])!r}"
    if decision not in ("continue", "deny"):
        return HookVerdict(), f"it answered {_line(str(decision))!r}: a hook can deny or continue, never allow"
    if any(not isinstance(answer.get(key, ""), str) for key in ("reason", "note", "notice")):
        return HookVerdict(), "it answered with a reason or note that is not text"
    if arguments is not None and (event == "after_call" or not isinstance(arguments, dict)):
        return HookVerdict(), "it answered with arguments that cannot be used"
    if result is not None and (event == "before_call" or not isinstance(result, str)):
        return HookVerdict(), "it answered with a result that cannot be used"
    if result is not None and len(result) > MAX_RESULT_CHARACTERS:
        return HookVerdict(), f"it answered with a result of more than {MAX_RESULT_CHARACTERS:,} characters"
    if decision == "deny":
        return HookVerdict(denial=_line(answer.get("reason", "")) or "no reason given"), ""
    return HookVerdict(
        arguments=cast("dict[str, Any] | None", arguments),
        result=_clean_text(result) if result is not None else None,
        note=sanitize(answer.get("note", "")[:_MAX_NOTE]),
        notice=_line(answer.get("notice", "")),
    ), ""


def _format_note(note: str) -> str:
    return f"Note from one of the user's hooks: {note}"


def _clean_text(text: str) -> str:
    return strip_hidden_text(sanitize(text))


def _line(text: str) -> str:
    """Return the first 500 characters of a text that a hook wrote, as a single sanitized line."""
    return sanitize_line(" ".join(text.split()), _MAX_REASON)
