"""Error messages for interactive pages, without paths, addresses or other data about the user."""

from mcphost.errors import ConsentDenied, McpHostError, RequestRefused, RequestTimeout, ServerError
from mcphost.host.questions.frontend import TooManyQuestions
from mcphost.host.servers.running_calls import RunningCallCancelled
from mcphost.host.tools.approval_checks import ApprovalVoid

NOT_ANSWERED = "mcphost could not answer the request."
NO_RESULT = "The call ended without a result."
ERROR_LIMIT = 1_000


def explain_to_page(error: McpHostError) -> str:
    """Return the error message for a page: the message of the page's own server, or a fixed sentence."""
    match error:
        case RequestRefused():
            return error.server_message[:ERROR_LIMIT]
        case RequestTimeout():
            return "The server did not answer in time."
        case ServerError():
            return "The server did not answer the request."
        case TooManyQuestions():
            return error.message[:ERROR_LIMIT]
        case RunningCallCancelled():
            return "The user cancelled the call."
        case ApprovalVoid():
            return "The call was not sent, because it is no longer allowed."
        case ConsentDenied():
            return "The user's configuration does not allow it."
        case _:
            return NOT_ANSWERED
