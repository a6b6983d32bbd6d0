"""Question type -> dialog: the one list of what this screen can ask; a dialog is loaded when it is first needed."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from mcphost.host.questions.client_id_question import EnterClient
from mcphost.host.questions.questions import (
    ApproveTool,
    ContinueTurn,
    FillForm,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareRoots,
    ToolsChanged,
    TrustServer,
    VisitUrl,
)
from mcphost.host.questions.result_review_questions import ReviewResult
from mcphost.host.questions.secret_storage_questions import KeepSecrets, UnlockSecrets
from mcphost.host.questions.sign_in_questions import SignIn

if TYPE_CHECKING:
    from mcphost.tui.dialogs.dialog import AnyDialog

# The module in this folder, and its class: names, because loading them would cost time before the first frame.
DIALOGS: dict[type[Question[Any]], tuple[str, str]] = {
    ApproveTool: ("tool_consent", "ToolConsent"),
    ToolsChanged: ("tools_changed", "ToolsChangedDialog"),
    TrustServer: ("trust_server", "TrustServerDialog"),
    ContinueTurn: ("continue_turn", "ContinueTurnDialog"),
    SignIn: ("sign_in", "SignInDialog"),
    KeepSecrets: ("keep_secrets", "KeepSecretsDialog"),
    UnlockSecrets: ("keep_secrets", "UnlockSecretsDialog"),
    EnterClient: ("enter_client", "EnterClientDialog"),
    ShareRoots: ("share_roots", "ShareRootsDialog"),
    ReviewSampling: ("review_sampling", "ReviewSamplingDialog"),
    ReviewReply: ("review_reply", "ReviewReplyDialog"),
    FillForm: ("fill_form", "FillFormDialog"),
    ReviewResult: ("review_result", "ReviewResultDialog"),
    VisitUrl: ("visit_url", "VisitUrlDialog"),
    RetryCall: ("visit_url", "RetryCallDialog"),
}
KINDS = frozenset(kind.KIND for kind in DIALOGS)


def dialog_for(question: Question[Any]) -> "AnyDialog | None":
    """The dialog that asks it; None for a question this screen cannot ask, which means its refusal."""
    place = DIALOGS.get(type(question))
    if isinstance(question, ShareRoots) and question.askers:
        place = ("share_each", "ShareEachDialog")
    if place is None:
        return None
    return cast("AnyDialog", getattr(import_module(f"mcphost.tui.dialogs.{place[0]}"), place[1])(question))
