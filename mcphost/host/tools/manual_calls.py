"""Tool calls that the user makes without the model, with the same rules and hooks as the model's calls."""

from collections.abc import Collection
from shlex import quote
from typing import Any

from mcphost.errors import ConsentDenied
from mcphost.host.audit.audit_summary import arguments_digest
from mcphost.host.consent.grants import ToolHistory, identify_tool
from mcphost.host.consent.policy import ConsentPolicy, tool_question
from mcphost.host.questions.questions import ApproveTool, Deny
from mcphost.host.server_views import ManualCallResult, ReleasedResult, SchemaErrors
from mcphost.host.servers.servers import Servers
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.host.tools.approval_checks import CallForbidden
from mcphost.host.tools.call_executor import ToolExecutor
from mcphost.host.tools.hooks import HookDenied, HookFailed, HookNotes, ToolHooks
from mcphost.host.tools.page_records import make_stored_call
from mcphost.sandbox.schema_validator import SchemaValidator
from mcphost.serialization import replace


class ManualCalls:
    """Tool calls that the user makes without the model."""

    def __init__(
        self,
        servers: Servers,
        consent: ConsentPolicy,
        executor: ToolExecutor,
        validator: SchemaValidator,
        hooks: ToolHooks,
    ) -> None:
        self._hooks = hooks
        self._servers = servers
        self._consent = consent
        self._executor = executor
        self._validator = validator

    def make_call_id(self) -> str:
        """Return a new id for a call, so that the caller recognizes the call in events; see `call`."""
        return self._executor.make_manual_id()

    async def call(
        self,
        server: str,
        tool: str,
        arguments: dict[str, Any],
        *,
        call: str | None = None,
        typed_names: Collection[str] = (),
    ) -> ManualCallResult:
        """Call a tool and return its result.

        *call* is the id of the call in events, made by `make_call_id`; if it is None, a new id is used. *typed_names*
        are the names of arguments that the user typed one by one, which are checked for misspellings. Raises UsageError
        for an unknown tool or a misspelt name, and ConsentDenied if the server is not approved, the tool has changed,
        or a hook or a configured rule forbids the call. Other failures raise ServerError.
        """
        offered = await self._servers.get_tool(server, tool)
        if tool in offered.connection.tool_changes.quarantined:
            await self._consent.record_quarantined_call(offered, arguments)
            raise ConsentDenied(
                f"The tool {tool!r} of {server!r} changed and is quarantined.",
                f"Review the change: mcphost servers changes {quote(server)}",
            )
        if typed_names:
            from mcphost.host.tools.argument_names import check_argument_names

            check_argument_names(typed_names, offered.definition.tool.input_schema)
        arguments = await self._check_hooks(offered, arguments)
        await self._consent.check_manual_call(offered, arguments)
        try:
            execution = await self._executor.execute_manual(call or self.make_call_id(), offered, arguments)
        except CallForbidden:
            await self._consent.check_manual_call(offered, arguments)  # records the rule and names it in the error
            raise
        rendered = execution.rendered
        return ManualCallResult(
            execution.result,
            rendered.text,
            execution.seconds,
            execution.validation,
            arguments,
            rendered.user_text,
            rendered.user_images,
            rendered.model_text,
            rendered.images,
            offered.connection.target,
            make_stored_call(offered, arguments, execution.result) if offered.definition.page.resource_uri else None,
        )

    async def release(self, server: str, tool: str, result: ManualCallResult) -> ReleasedResult:
        """Return a result that the user passes on to the model; its text is preceded by notes from hooks.

        The hooks that follow a call are run first; if one of them replaces the text, the images are left out. Parts
        that are meant only for the user are left out, too, and the text says so in their place. Raises ConsentDenied if
        a hook withholds the result, and ServerError or UsageError if the tool no longer exists.
        """
        offered = await self._servers.get_tool(server, tool)
        await self._hooks.refresh()
        text = result.text if result.model_text is None else result.model_text
        images = result.images if result.model_images is None else result.model_images
        notes = HookNotes()
        rule_input = identify_tool(offered).to_rule_input(result.arguments or {})
        withheld = await self._hooks.review("", rule_input, text, is_error=result.is_error, notes=notes)
        if withheld:
            raise ConsentDenied(f"A hook withheld the result of {tool!r}: {withheld}", "Nothing was attached.")
        if notes.result is not None:
            return ReleasedResult(notes.text + notes.result)
        return ReleasedResult(notes.text + text, images)

    async def _check_hooks(self, offered: OfferedTool, arguments: dict[str, Any]) -> dict[str, Any]:
        """Run the hooks that precede a call; return the arguments, possibly changed. Raises ConsentDenied.

        Changed arguments must match the tool's schema. If one of the project's hooks changed the arguments, the user
        must approve the changed ones, because the user typed others. The hooks that follow a call are not run here, but
        when the user passes the result on to the model; see `release`.
        """
        await self._hooks.refresh()
        notes = HookNotes()
        try:
            checked = await self._hooks.check("", identify_tool(offered).to_rule_input(arguments), notes)
        except HookFailed as error:
            raise ConsentDenied(error.user_text, "Correct the hook.") from error
        except HookDenied as error:
            raise ConsentDenied(error.user_text, "Change the arguments or the hook.") from error
        if arguments_digest(checked) == arguments_digest(arguments):
            return arguments
        if errors := await offered.validate(checked, self._validator):
            raise ConsentDenied(
                f"The hook {notes.changed_by} changed the arguments. {errors.sentence}", "Correct the hook."
            )
        if notes.is_changed_by_project:
            await self._ask_about_change(offered, checked, notes)
        return checked

    async def _ask_about_change(self, offered: OfferedTool, arguments: dict[str, Any], notes: HookNotes) -> None:
        """Ask the user whether to make a call with arguments that a project's hook changed. Raises ConsentDenied."""
        make_question = tool_question(offered, arguments, call="", why=notes.why("you called it"))

        def make_fixed_question(history: ToolHistory) -> ApproveTool:
            return replace(make_question(history), editable=False)

        verdict = await self._consent.authorize(identify_tool(offered), arguments, make_fixed_question, call="")
        if isinstance(verdict, Deny):
            raise ConsentDenied(
                "A project's hook changed the arguments, and the changed call was not allowed.",
                verdict.reason or "Change the arguments or the hook.",
            )

    async def validate(self, server: str, tool: str, arguments: dict[str, Any]) -> SchemaErrors:
        """Validate arguments against a tool's input schema, without calling the tool, and return the errors.

        Raises UsageError for an unknown tool. Raises ServerError or ConsentDenied if the server cannot be used.
        """
        offered = await self._servers.get_tool(server, tool)
        return await offered.validate(arguments, self._validator)
