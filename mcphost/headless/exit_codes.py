"""Exit codes of `mcphost run` and of the commands of `mcphost pipe` for turns and tool calls."""

from mcphost.errors import ConsentDenied, ModelError, ServerError
from mcphost.host.server_views import ManualCallResult, TurnResult

TOOL_ERROR = 8


def turn_exit_code(result: TurnResult) -> int:
    """Return the exit code for a turn.

    - If the turn failed: the error's exit code.
    - If a tool call was declined: 5.
    - If the limit on rounds of tool calls was reached: 7.
    - Otherwise: 0.
    """
    if result.failure is not None:
        return result.failure.exit_code
    if result.declined:
        return ConsentDenied.exit_code
    return ModelError.exit_code if result.outcome == "rounds" else 0


def call_exit_code(call: ManualCallResult) -> int:
    """Return the exit code for a tool call.

    - If the tool reported an error: 8.
    - If the result does not match the tool's output schema: 4.
    - Otherwise: 0.
    """
    if call.result.is_error:
        return TOOL_ERROR
    return ServerError.exit_code if call.validation.outcome == "misfit" else 0
