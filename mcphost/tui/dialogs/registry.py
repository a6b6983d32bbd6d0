"""Registry of question types and their dialogs, which are imported on first use."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    ApproveTool,
    ContinueTurn,
    FillForm,
    RetryCall,
    ReviewReply,
    ReviewResult,
    ReviewSampling,
    ReviewToolChanges,
    ShareRoots,
    TrustServer,
    VisitUrl,
)
from mcphost.host.questions.secret_storage import ChooseSecretStorage, UnlockSecrets
from mcphost.host.questions.sign_in import EnterClientId, SignInQuestion

if TYPE_CHECKING:
    from mcphost.tui.dialogs.dialog import AnyDialog

# Names of module and class, because importing the dialogs would delay the first frame.
DIALOGS: dict[type[Question[Any]], tuple[str, str]] = {
    ApproveTool: ("tool_consent", "ToolConsentDialog"),
    ReviewToolChanges: ("tools_changed", "ReviewToolChangesDialog"),
    TrustServer: ("trust_server", "TrustServerDialog"),
    ContinueTurn: ("tool_consent", "ContinueTurnDialog"),
    SignInQuestion: ("sign_in", "SignInDialog"),
    ChooseSecretStorage: ("secret_storage", "ChooseSecretStorageDialog"),
    UnlockSecrets: ("secret_storage", "UnlockSecretsDialog"),
    EnterClientId: ("sign_in", "EnterClientIdDialog"),
    ShareRoots: ("share_roots", "ShareRootsDialog"),
    ReviewSampling: ("sampling", "ReviewSamplingDialog"),
    ReviewReply: ("sampling", "ReviewReplyDialog"),
    FillForm: ("fill_form", "FillFormDialog"),
    ReviewResult: ("review_result", "ReviewResultDialog"),
    VisitUrl: ("visit_url", "VisitUrlDialog"),
    RetryCall: ("visit_url", "RetryCallDialog"),
}
QUESTION_KINDS = frozenset(kind.KIND for kind in DIALOGS)


def create_dialog(question: Question[Any]) -> "AnyDialog | None":
    """Return the dialog for a question; None if there is none, so that the question is refused."""
    place = DIALOGS.get(type(question))
    if isinstance(question, ShareRoots) and question.askers:
        place = ("share_roots", "SharePerServerDialog")
    if place is None:
        return None
    return cast("AnyDialog", getattr(import_module(f"mcphost.tui.dialogs.{place[0]}"), place[1])(question))
