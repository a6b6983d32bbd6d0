"""Question type -> dialog; the only place that knows all dialogs."""

from typing import Any

from mcphost.host.questions import (
    ApproveTool,
    ContinueTurn,
    FillForm,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareRoots,
    SignIn,
    TrustServer,
    VisitUrl,
)
from mcphost.tui.dialogs.continue_turn import ContinueTurnDialog
from mcphost.tui.dialogs.dialog import AnyDialog
from mcphost.tui.dialogs.fill_form import FillFormDialog
from mcphost.tui.dialogs.review_sampling import ReviewReplyDialog, ReviewSamplingDialog
from mcphost.tui.dialogs.share_roots import ShareRootsDialog
from mcphost.tui.dialogs.sign_in import SignInDialog
from mcphost.tui.dialogs.tool_consent import ToolConsent
from mcphost.tui.dialogs.trust_server import TrustServerDialog
from mcphost.tui.dialogs.visit_url import RetryCallDialog, VisitUrlDialog


def dialog_for(question: Question[Any]) -> AnyDialog | None:
    """The dialog that asks it; None for a question this screen cannot ask, which means its refusal."""
    if isinstance(question, ApproveTool):
        return ToolConsent(question)
    if isinstance(question, TrustServer):
        return TrustServerDialog(question)
    if isinstance(question, ContinueTurn):
        return ContinueTurnDialog(question)
    if isinstance(question, SignIn):
        return SignInDialog(question)
    if isinstance(question, ShareRoots):
        return ShareRootsDialog(question)
    if isinstance(question, ReviewSampling):
        return ReviewSamplingDialog(question)
    if isinstance(question, ReviewReply):
        return ReviewReplyDialog(question)
    if isinstance(question, FillForm):
        return FillFormDialog(question)
    if isinstance(question, VisitUrl):
        return VisitUrlDialog(question)
    if isinstance(question, RetryCall):
        return RetryCallDialog(question)
    return None
