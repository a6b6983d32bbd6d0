"""The `pipe` protocol: another program controls the whole host with one JSON object per line."""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup

from mcphost.config.rule_syntax import parse_rule
from mcphost.errors import MalformedMessage, McpHostError, UsageError
from mcphost.headless import json_output
from mcphost.headless.command_members import decode_line, get_number, get_object, get_text, get_texts
from mcphost.headless.conversation_commands import ConversationCommands
from mcphost.headless.exit_codes import call_exit_code, turn_exit_code
from mcphost.headless.held_back_events import HeldBackEvents
from mcphost.headless.line_io import MAX_LINE_BYTES, InputLines, LineWriter, OversizedLine
from mcphost.headless.question_answers import PipeFrontend
from mcphost.headless.run_input import read_files
from mcphost.headless.turn_order import TurnOrder
from mcphost.host.audit.audit_labels import KIND_LABELS
from mcphost.host.consent.auto_approve import BUDGET_FIELDS, AutoApprovalBudget
from mcphost.host.conversation.prompt_messages import make_prompt_messages
from mcphost.host.events import AnyEvent
from mcphost.host.host import Host
from mcphost.host.server_requests.roots import parse_root_scope
from mcphost.host.server_views import TurnResult
from mcphost.llm.model import ModelFacts
from mcphost.protocol.prompts import PromptReference, ResourceTemplateReference
from mcphost.serialization import convert, encode
from mcphost.store.audit_reader import AuditFilter, to_export, unknown_kind_error

CommandHandler = Callable[[dict[str, Any]], Awaitable[tuple[Any, int]]]
"""Handles a command's JSON object; returns the result and the matching exit code. Raises McpHostError."""


_WHO = "program"
"""The source that the audit log records for changes made with `mcphost pipe`."""


class PipeCommands:
    """Handlers for the commands of `mcphost pipe`; the member `do` of a command selects its handler.

    *emit* receives events that are not the result of a command.
    """

    def __init__(self, host: Host, frontend: PipeFrontend, emit: Callable[[dict[str, Any]], None]) -> None:
        self._host = host
        self._frontend = frontend
        self._emit = emit
        self._turn_order = TurnOrder()
        self.handlers: dict[str, CommandHandler] = {
            "connect": self._connect,
            "login": self._login,
            "logout": self._logout,
            "accounts": self._accounts,
            "use_account": self._use_account,
            "stop_login": self._stop_login,
            "list": self._list,
            "call": self._call,
            "read": self._read_resource,
            "prompt": self._prompt,
            "complete": self._complete,
            "skill": self._skill,
            "subscribe": self._subscribe,
            "unsubscribe": self._unsubscribe,
            "log_level": self._log_level,
            "audit": self._audit,
            "verify": self._verify,
            "send": self._send,
            "stop": self._stop,
            "background": self._background,
            "compact": self._compact,
            "autonomy": self._autonomy,
            "answer": self._answer,
            "grants": self._grants,
            "revoke": self._revoke,
            "preview": self._preview,
            "roots": self._roots,
            "switch": self._switch,
            **ConversationCommands(host, self._turn_order).handlers,
        }

    async def _connect(self, message: dict[str, Any]) -> tuple[Any, int]:
        name = get_text(message, "server")
        if self._host.servers.view(name).state in ("failed", "stopped", "untrusted", "sign_in"):
            self._host.servers.restart(name)
        return json_output.server_json(await self._host.servers.ensure_ready(name)), 0

    async def _login(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Sign in to a server; if the command has an `account`, use that account in this run and later ones."""
        account = get_text(message, "account") if "account" in message else None
        return json_output.server_json(await self._host.accounts.sign_in(get_text(message, "server"), account)), 0

    async def _logout(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Sign out of the command's `account` or, if it has none, of the account in use.

        If no account is in use afterwards, `left` in the result lists the remaining accounts.
        """
        account = get_text(message, "account") if "account" in message else None
        server = get_text(message, "server")
        revoked = await self._host.accounts.sign_out(server, account, who=_WHO)
        return {"revoked": revoked, "left": list(await self._host.accounts.unused_accounts(server))}, 0

    async def _accounts(self, message: dict[str, Any]) -> tuple[Any, int]:
        """List all stored accounts, including those for servers that are no longer configured."""
        return {
            "accounts": [json_output.stored_account_json(one) for one in await self._host.accounts.list_accounts()]
        }, 0

    async def _stop_login(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Cancel the sign-in to `server` that is in progress."""
        return {"stopped": self._host.accounts.cancel_sign_in(get_text(message, "server"))}, 0

    async def _use_account(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Connect to `server` with another stored `account`, in this run and in all later runs."""
        server, account = get_text(message, "server"), get_text(message, "account")
        view = await self._host.accounts.select_account(server, account, who=_WHO)
        return json_output.server_json(view), 0

    async def _list(self, message: dict[str, Any]) -> tuple[Any, int]:
        kind = message.get("kind", "tools")
        if kind not in json_output.CATALOG_KINDS:
            raise UsageError(f'"kind" must be one of {", ".join(json_output.CATALOG_KINDS)}.')
        name = get_text(message, "server")
        if message.get("refresh") is True:
            await self._host.features.refresh(name)
        view = await self._host.servers.ensure_ready(name)
        return {kind: json_output.catalog_json(view, kind)}, 0

    async def _call(self, message: dict[str, Any]) -> tuple[Any, int]:
        result = await self._host.tools.call(
            get_text(message, "server"), get_text(message, "tool"), get_object(message, "arguments")
        )
        return json_output.call_json(result), call_exit_code(result)

    async def _switch(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Enable `tool` of `server` for the model, or disable it if `on` is false.

        The change applies to this run and all later runs.
        """
        server, tool, on = get_text(message, "server"), get_text(message, "tool"), message.get("on")
        if not isinstance(on, bool):
            raise UsageError('"on" must be true or false.')
        if all(one.name != tool for one in (await self._host.servers.ensure_ready(server)).catalog.tools):
            raise UsageError(f"The server {server!r} has no tool named {tool!r}.", "The command list names them.")
        await self._host.servers.set_tool_enabled(server, tool, enabled=on, who=_WHO)
        return {"server": server, "tool": tool, "on": on}, 0

    async def _read_resource(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Read the resource with the given `uri`, or expand `template` with `values` and read that resource."""
        from mcphost.host.servers.features import expand_template

        server, values = get_text(message, "server"), get_texts(message, "values")
        uri = (
            expand_template(get_text(message, "template"), values)
            if "template" in message
            else get_text(message, "uri")
        )
        read = await self._host.features.read_resource(server, uri, bypass_cache=message.get("refresh") is True)
        return {"uri": uri, **json_output.contents_json(read)}, 0

    async def _prompt(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Return a prompt with its arguments filled in; if `insert` is true, add its messages to the conversation.

        With `insert`, later commands wait until the messages have been added, however long the server takes to respond.
        """
        server, name, arguments = (
            get_text(message, "server"),
            get_text(message, "name"),
            get_texts(message, "arguments"),
        )
        insert = message.get("insert", False)
        if not isinstance(insert, bool):
            raise UsageError('"insert" is true or false.')
        if not insert:
            return json_output.prompt_json(await self._host.features.get_prompt(server, name, arguments)), 0
        with self._turn_order.hold() as place:  # so that no later line opens another conversation first
            prompt = await self._host.features.get_prompt(server, name, arguments)
            await place.wait()
            model = self._host.model_selection.model
            facts = model.facts if model is not None else ModelFacts()
            made = await make_prompt_messages(server, name, prompt, facts, self._host.attachments)
            await self._host.conversation.insert(made)
        return json_output.prompt_json(prompt), 0

    async def _skill(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Load `skill`, given by name or URI; if `file` is given, return that file of the skill instead."""
        server, skills = get_text(message, "server"), self._host.features.skills
        skill = await skills.find(server, get_text(message, "skill"))
        content = await skills.load(server, skill)
        if "file" in message:
            content = await skills.read(server, skill, get_text(message, "file"))
        return json_output.skill_json(content), 0

    async def _complete(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Suggest values for an argument of `prompt` or a variable of `template`.

        `arguments` contains the values that have already been entered.
        """
        if ("prompt" in message) == ("template" in message):
            raise UsageError('Give either "prompt" with its name or "template" with its text.')
        prompt = "prompt" in message
        ref = (
            PromptReference(get_text(message, "prompt"))
            if prompt
            else ResourceTemplateReference(get_text(message, "template"))
        )
        value = message.get("value", "")
        if not isinstance(value, str):
            raise UsageError('"value" is not text.')
        completion = await self._host.features.complete(
            get_text(message, "server"), ref, get_text(message, "argument"), value, get_texts(message, "arguments")
        )
        return json_output.completion_json(completion), 0

    async def _subscribe(self, message: dict[str, Any]) -> tuple[Any, int]:
        await self._host.features.subscribe(get_text(message, "server"), get_text(message, "uri"))
        return {}, 0

    async def _unsubscribe(self, message: dict[str, Any]) -> tuple[Any, int]:
        was = await self._host.features.unsubscribe(get_text(message, "server"), get_text(message, "uri"))
        return {"was_subscribed": was}, 0

    async def _log_level(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Set the minimum level of log messages that the server sends; an empty `level` turns the messages off."""
        level = message.get("level")
        if not isinstance(level, str):
            raise UsageError('"level" is missing, or is not text.')
        await self._host.features.set_log_level(get_text(message, "server"), level)
        return {}, 0

    async def _audit(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Return the newest rows of the audit log that match `server`, `kind` and `text`.

        If `before` is given, only rows with smaller numbers are returned.
        """
        limit, before = get_number(message, "limit", 100, 1_000), get_number(message, "before", 0, 2**53)
        server, kind, text = (get_text(message, name) if name in message else "" for name in ("server", "kind", "text"))
        if kind and kind not in KIND_LABELS and not await self._host.audit.read_page(AuditFilter(kind=kind), 1):
            raise unknown_kind_error(kind, KIND_LABELS)
        query = AuditFilter(server=server, kind=kind, text=text, before=before)
        rows = await self._host.audit.read_page(query, limit)
        return {"rows": [to_export(row) for row in rows]}, 0

    async def _verify(self, message: dict[str, Any]) -> tuple[Any, int]:
        verification = await self._host.audit.verify()
        return json_output.verification_json(verification), 0 if verification.is_intact else 5

    async def _send(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Run a turn with the command's `text` and the files named in `files`; return the result and the exit code.

        Turns start in the order of their commands, however long it takes to read the files.
        """
        text, files = get_text(message, "text"), message.get("files", [])
        if not isinstance(files, list) or not all(isinstance(name, str) for name in cast("list[Any]", files)):
            raise UsageError('"files" is not a list of paths.')
        result, opened = TurnResult("stopped", ""), ""
        with self._turn_order.join() as place:
            attachments = await read_files(self._host, cast("list[str]", files), b"")
            await place.start()
            result = await self._host.conversation.send(text, attachments)
            opened = self._host.conversation.id
        if result.error:
            raise TurnFailed(result.error, result.hint, turn_exit_code(result))
        sent = {"outcome": result.outcome, "text": result.text, "declined": result.declined, "conversation": opened}
        return sent, turn_exit_code(result)

    async def _compact(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Summarize earlier messages after asking the user; if `undo` is true, stop using the summary instead."""
        if message.get("undo") is True:
            return {"undone": (await self._host.conversation.undo_compaction()).messages}, 0
        instructions = get_text(message, "instructions") if "instructions" in message else ""
        used = False
        with self._turn_order.join() as place:
            await place.start()
            used = await self._host.conversation.compact(instructions)
        return {"used": used}, 0

    async def _stop(self, message: dict[str, Any]) -> tuple[Any, int]:
        was_waiting = self._turn_order.stop()
        return {"stopped": self._host.conversation.stop() or was_waiting}, 0

    async def _background(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Move the running tool call with the id `call` to the background, so that the turn continues without it."""
        self._host.conversation.send_to_background(get_text(message, "call"))
        return {}, 0

    async def _autonomy(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Turn on auto-approval of `tools`, which maps server names to lists of tool names.

        Auto-approval ends when its budget of `calls`, `seconds` and `tokens` is used up. If `tools` is missing, turn
        auto-approval off and stop the running turn.
        """
        if "tools" not in message:
            was_waiting = self._turn_order.stop()
            return {"stopped": self._host.halt(who=_WHO) or was_waiting}, 0
        tools: dict[str, list[str]] = convert(get_object(message, "tools"), dict[str, list[str]], "tools")
        budget = convert(
            {name: message[name] for name in BUDGET_FIELDS if name in message}, AutoApprovalBudget, "budget"
        )
        for server in tools:
            await self._host.servers.ensure_ready(server)
        picked = [(server, tool) for server in tools for tool in tools[server]]
        running = self._host.auto_approval.start(picked, budget, who=_WHO)
        return json_output.to_json(running), 0

    async def _answer(self, message: dict[str, Any]) -> tuple[Any, int]:
        try:
            name, answer = get_text(message, "question"), message.get("answer")
            edited = self._frontend.edited_call(name, answer)
            errors = edited and await self._host.tools.validate(*edited)
            if errors:
                raise UsageError(errors.sentence, "Correct them and answer again.")
            self._frontend.answer(name, answer)
        except UsageError as error:
            self._emit({"event": "error", "question": message.get("question"), "message": str(error)})
            raise
        return {}, 0

    async def _grants(self, message: dict[str, Any]) -> tuple[Any, int]:
        """List granted permissions and stored answers about sharing folders, filtered by `server` and `text`."""
        server, text = (get_text(message, key) if key in message else "" for key in ("server", "text"))
        grants = await self._host.grants.list_grants(server=server, text=text)
        folders = await self._host.grants.list_folder_answers(server=server, text=text)
        return {
            "grants": [json_output.grant_json(one) for one in grants],
            "folders": [json_output.folder_answer_json(one) for one in folders],
        }, 0

    async def _revoke(self, message: dict[str, Any]) -> tuple[Any, int]:
        return {"revoked": (await self._host.grants.revoke(get_text(message, "grant"), who=_WHO)).id}, 0

    async def _preview(self, message: dict[str, Any]) -> tuple[Any, int]:
        """List past tool calls to the server named in `rule`, and whether the rule would have covered each of them."""
        past = await self._host.grants.preview(parse_rule(get_text(message, "rule")))
        return {"calls": [json_output.to_json(one) for one in past]}, 0

    async def _roots(self, message: dict[str, Any]) -> tuple[Any, int]:
        """Add the folder `add` to the list of shared folders, or remove the folder `remove`; return the list.

        If neither is given, nothing is changed. `name` is an optional name for the added folder, and `keep` is the
        scope of the change: run, project or user.
        """
        roots = self._host.roots
        if "add" in message and "remove" in message:
            raise UsageError('Give either "add" or "remove".')
        keep = parse_root_scope(message.get("keep", "run"))
        if "add" in message:
            name = message.get("name")
            if not isinstance(name, str | None):
                raise UsageError('"name" is not text.')
            await roots.add(get_text(message, "add"), name, keep, who=_WHO)
        elif "remove" in message:
            await roots.remove(get_text(message, "remove"), keep, who=_WHO)
        return json_output.roots_json(await roots.refresh(), self._host.servers.views()), 0


class TurnFailed(McpHostError):
    """Raised by the `send` command if the turn failed; `code` is the turn's exit code."""

    def __init__(self, message: str, hint: str, code: int) -> None:
        super().__init__(message, hint)
        self.code = code


DRAIN_SECONDS = 10
"""Seconds that running commands have to finish after the input ends."""
_FLUSH_SECONDS = 2
_log = logging.getLogger(__name__)


class PipeServer:
    """Server side of `mcphost pipe`: reads commands from stdin, and writes results and events to stdout.

    Must be created while the event loop is running.
    """

    def __init__(self, host: Host, frontend: PipeFrontend) -> None:
        self._host = host
        self._frontend = frontend
        self._writer = LineWriter(1)
        self._events = host.events.subscribe()
        self._running_ids: set[str | int] = set()
        self._running_count = 0  # with the commands that have no id
        self._idle = anyio.Event()
        self._held_back = HeldBackEvents()
        self._handlers = PipeCommands(host, frontend, self._emit).handlers
        frontend.set_emit(self._emit)

    async def run(self) -> int:
        """Start the host, serve until `quit` or the end of the input, and return the exit code.

        The caller must have entered the host's context, but not started the host.

        At the end, open questions are declined. After `quit`, running commands are cancelled immediately. After the end
        of the input, running commands have ten seconds to finish, or less if the other program closes its end of the
        output. In both cases, every command gets a result before the program exits.
        """
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._forward_events)
                tasks.start_soon(self._watch_reader, tasks.cancel_scope)
                self._host.start()
                quit_asked = await self._read_commands(tasks)
                self._frontend.refuse_all()
                if not quit_asked:
                    await self._wait_for_commands()
                tasks.cancel_scope.cancel()
        finally:
            self._write_pending_events()
            self._writer.close()
            with anyio.move_on_after(_FLUSH_SECONDS, shield=True):
                await self._writer.finished.wait()
        return 0

    async def _read_commands(self, tasks: TaskGroup) -> bool:
        """Read and run commands; return True after `quit`, False at the end of the input."""
        async for line in InputLines(0):
            if isinstance(line, OversizedLine):
                self._report_bad_line(None, f"The line is over {MAX_LINE_BYTES // 1_000_000} MB.")
                continue
            if not line.strip():
                continue
            command = self._parse(line)
            if command is None:
                continue
            command_id, do, message = command
            if do == "quit":
                self._write_result(command_id, {}, 0)
                return True
            if do == "wait":
                await self._wait(command_id, message)
                continue
            if command_id is not None:
                self._running_ids.add(command_id)
            self._running_count += 1
            tasks.start_soon(self._run_command, command_id, do, message)
        return False

    def _parse(self, line: bytes) -> tuple[Any, str, dict[str, Any]] | None:
        try:
            value = decode_line(line)
        except MalformedMessage as error:
            self._report_bad_line(None, error.message)
            return None
        if not isinstance(value, dict):
            self._report_bad_line(None, "The line is not a JSON object.")
            return None
        message = cast("dict[str, Any]", value)
        command_id, do = message.get("id"), message.get("do")
        if isinstance(command_id, bool) or not isinstance(command_id, int | str | None):
            self._report_bad_line(None, "An id must be text or a whole number.")
        elif not isinstance(do, str):
            self._report_bad_line(command_id, 'The line has no "do".')
        elif do not in self._handlers and do not in {"quit", "wait"}:
            unknown = UsageError(
                f"There is no command {do[:60]!r}.", f"Commands: {', '.join(self._handlers)}, wait, quit."
            )
            self._report_bad_line(command_id, str(unknown))
            if command_id is not None and command_id not in self._running_ids:
                self._write_error(command_id, unknown)  # each id gets a result
        elif command_id in self._running_ids:
            self._report_bad_line(command_id, f"A command with the id {command_id!r} is running.")
        else:
            return command_id, do, message
        return None

    async def _run_command(self, command_id: Any, name: str, message: dict[str, Any]) -> None:
        try:
            result, code = await self._handlers[name](message)
        except McpHostError as error:
            self._write_error(command_id, error)
        except anyio.get_cancelled_exc_class():
            self._write_error(command_id, _InterruptError("mcphost ended before the command was done."))
            raise
        except Exception:  # noqa: BLE001
            # Catch everything at the boundary of a command: a bug in one command must not end the others.
            _log.exception("pipe command %s", name)
            self._write_error(command_id, McpHostError("mcphost crashed.", "The log has the details."))
        else:
            self._write_result(command_id, result, code)
        finally:
            self._running_ids.discard(command_id)
            self._running_count -= 1
            if not self._running_count:
                self._idle.set()

    async def _wait(self, command_id: Any, message: dict[str, Any]) -> None:
        """Handle the command `wait`, which delays reading the next command by `seconds`."""
        seconds = message.get("seconds", 0)
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= 3600:
            self._write_error(command_id, UsageError('"seconds" must be a number from 0 to 3600.'))
            return
        await anyio.sleep(seconds)
        self._write_result(command_id, {}, 0)

    async def _wait_for_commands(self) -> None:
        """Wait up to ten seconds for running commands to finish, or until the reader closes the output."""
        with anyio.move_on_after(DRAIN_SECONDS):
            while self._running_count and not self._writer.is_reader_closed():
                self._idle = anyio.Event()
                with anyio.move_on_after(0.1):
                    await self._idle.wait()

    async def _forward_events(self) -> None:
        async for event in self._events:
            self._write_event(event)  # does not await, so that no result overtakes an earlier event

    async def _watch_reader(self, scope: anyio.CancelScope) -> None:
        await self._writer.finished.wait()  # `close` has not been called yet, so the reader has gone
        scope.cancel()

    def _write_event(self, event: AnyEvent) -> None:
        if self._writer.is_full and self._held_back.add(event):
            return
        self._write_held_back()
        self._writer.put(encode(event))

    def _write_held_back(self) -> None:
        if not self._held_back or self._writer.is_full:
            return
        count, kept = self._held_back.take()
        if count:
            message = f"{count} log, progress and resource events were left out: read faster."
            self._writer.put(encode({"event": "error", "message": message}))
        for event in kept:
            self._writer.put(encode(event))

    def _write_pending_events(self) -> None:
        for event in self._events.drain():
            self._write_event(event)

    def _emit(self, event: dict[str, Any]) -> None:
        self._write_pending_events()
        self._write_held_back()
        self._writer.put(encode(event))

    def _write_result(self, command_id: Any, result: Any, code: int) -> None:
        self._emit({"event": "result", "id": command_id, "ok": True, "exit": code, "result": result})

    def _write_error(self, command_id: Any, error: McpHostError) -> None:
        code = error.code if isinstance(error, TurnFailed | _InterruptError) else error.exit_code
        kind = {3: "config", 7: "model"}.get(code, error.kind) if isinstance(error, TurnFailed) else error.kind
        data = {"kind": kind, "message": error.message, "hint": error.hint}
        self._emit({"event": "result", "id": command_id, "ok": False, "exit": code, "error": data})

    def _report_bad_line(self, command_id: Any, text: str) -> None:
        self._emit({"event": "error", "id": command_id, "message": text})


class _InterruptError(McpHostError):
    kind = "interrupted"
    code = 130
