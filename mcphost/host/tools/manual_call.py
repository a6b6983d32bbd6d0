"""Calls of the user's own: checked like the model's, but without a question."""

from shlex import quote
from typing import Any

from mcphost.errors import ConsentDenied
from mcphost.host.consent.policy import ConsentPolicy
from mcphost.host.servers.servers import Servers
from mcphost.host.tools.executor import ToolExecutor
from mcphost.host.tools.schema_validation import ArgumentValidator, SchemaErrors
from mcphost.host.views import ManualCallResult


class ManualCalls:
    """The user's own calls of tools."""

    def __init__(
        self, servers: Servers, consent: ConsentPolicy, executor: ToolExecutor, validator: ArgumentValidator
    ) -> None:
        self._servers = servers
        self._consent = consent
        self._executor = executor
        self._validator = validator

    async def call(self, server: str, tool: str, arguments: dict[str, Any]) -> ManualCallResult:
        """Run a call.

        Raises ServerError, UsageError (unknown tool), and ConsentDenied for an unapproved server, a changed tool, or a
        call that the configuration never allows.
        """
        offered = await self._servers.get_tool(server, tool)
        if tool in offered.connection.tool_changes.quarantined:
            raise ConsentDenied(
                f"The tool {tool!r} of {server!r} changed and is quarantined.",
                f"Review the change: mcphost servers changes {quote(server)}",
            )
        await self._consent.check_manual_call(offered, arguments)
        execution = await self._executor.execute_manual(offered, arguments)
        return ManualCallResult(execution.result, execution.rendered.text, execution.seconds, execution.validation)

    async def validate(self, server: str, tool: str, arguments: dict[str, Any]) -> SchemaErrors:
        """Return the errors of these arguments against the tool's inputSchema, none if they may be sent.

        Raises ServerError, ConsentDenied or UsageError.
        """
        return await self._validator.validate(await self._servers.get_tool(server, tool), arguments)
