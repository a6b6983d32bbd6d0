"""Summaries of questions to the user and their answers for the audit log."""

import hashlib
from collections.abc import Mapping
from typing import Any

from mcphost.errors import UsageError
from mcphost.host.audit.audit_summary import origin_details
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import (
    Accept,
    AllowOnce,
    AllowRule,
    ApproveTool,
    Deny,
    EditedReply,
    EditedRequest,
    FillForm,
    PassEditedResult,
    ReviewResult,
    TrustProject,
    TrustServer,
    WithholdResult,
    passed_parts,
)
from mcphost.host.questions.tool_changes import AcceptToolChanges, ReviewToolChanges

_TOPICS = {
    "approve_tool": "tool", "trust_server": "trust", "continue_turn": "turn", "review_sampling": "sampling",
    "review_reply": "sampling", "fill_form": "form", "visit_url": "url", "retry_call": "url", "share_roots": "roots",
    "tools_changed": "drift", "trust_project": "file", "review_result": "result", "approve_cost": "budget",
    "offer_compaction": "turn", "review_compaction": "turn", "open_page": "page", "page_message": "page",
}  # fmt: skip
"""Maps kinds of questions to kinds of audit rows; a kind that is missing here is used unchanged."""
ANSWER_LABELS = {
    "AllowOnce": "once", "AllowSession": "session", "AllowAlways": "always", "AllowRule": "rule", "Deny": "deny",
    "TrustOnce": "once", "TrustAlways": "always", "DoNotTrust": "deny", "ApproveUnchanged": "as shown",
    "EditedRequest": "edited", "EditedReply": "edited", "ShareOnce": "once", "ShareSession": "session",
    "ShareAlways": "always", "NeverShare": "never", "SharePerServer": "each", "DoNotShare": "deny",
    "OpenInBrowser": "in browser", "PastedRedirect": "pasted", "DeclineSignIn": "deny",
    "PassResult": "passed", "PassEditedResult": "changed", "WithholdResult": "withheld",
    "Accept": "accept", "Decline": "decline", "Cancel": "cancel", "AcceptUrl": "visited",
    "SwitchSignInMethod": "other way", "EnteredClient": "entered", "DeclineClient": "deny",
    "KeepInMemory": "for this run", "KeepInPlainFile": "in a file", "KeepInEncryptedFile": "in a sealed file",
    "UseSummary": "summary used", "KeepMessages": "deny",
    "EnterPassphrase": "passphrase", "LeaveLocked": "deny",
    "SendOnce": "once", "RaiseBudget": "raised", "UseCheaperModel": "cheaper model", "CompactConversation": "compacted",
    "DeferTools": "deferred tools", "StopTurn": "stop",
}  # fmt: skip

_RECORDED_ANSWERS: tuple[type[Any], ...] = (
    AllowOnce,
    AllowRule,
    Accept,
    Deny,
    EditedReply,
    EditedRequest,
    PassEditedResult,
    WithholdResult,
)


def answer_label(question: Question[Any], answer: Any) -> str:
    """Return a short label for the user's answer to a question, such as "once, edited" or "deny"."""
    if isinstance(question, ReviewToolChanges):
        accepted, held_back = split_tools(question, answer)
        if accepted and question.offers_session and answer.for_session:
            return "kept, session"
        return "held back" if not accepted else "kept some" if held_back else "kept"
    match answer:
        case bool():
            return "yes" if answer else "no"
        case AllowOnce(arguments=dict()):
            return "once, edited"
        case AllowRule(arguments=dict()):
            return "rule, edited"
        case _ if tokens := getattr(answer, "max_output_tokens", 0):  # SendOnce, loaded with the first such question
            return f"once, {tokens:,} tokens at most"
        case _:
            name = type(answer).__name__
            return ANSWER_LABELS.get(name) or "".join(f" {c.lower()}" if c.isupper() else c for c in name).strip()


def split_tools(question: ReviewToolChanges, answer: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a pair: the names of the tools whose changes the user accepted, and the names of the others.

    The other tools stay in quarantine. Only the tools in *question* are included.
    """
    accepted = frozenset(answer.tools if isinstance(answer, AcceptToolChanges) else ())
    names = tuple(change.tool for change in question.changes)
    return tuple(name for name in names if name in accepted), tuple(name for name in names if name not in accepted)


def question_topic(question: Question[Any]) -> str:
    """Return the `kind` of the audit rows about a question, such as "tool" for ApproveTool."""
    return _TOPICS.get(question.KIND, question.KIND)


def answer_details(question: Question[Any], answer: Any) -> dict[str, Any]:
    """Return the details to record in the audit row of an answer; {} for most answers.

    - For an approved tool call: the origins of its arguments.
    - For a model request that was approved with a shorter maximum output: this maximum in tokens.
    - For changed tools: the names of the accepted and of the quarantined ones.
    - For a reviewed result: its sizes in bytes before and after the review, and the SHA-256 of the text that the model
      received.
    """
    if isinstance(question, ApproveTool):
        return origin_details(question.origins)
    if tokens := getattr(answer, "max_output_tokens", 0):
        return {"max_output_tokens": tokens}
    if isinstance(question, ReviewToolChanges) and answer is not None:
        accepted, held_back = split_tools(question, answer)
        return {"kept": list(accepted), "held_back": list(held_back)}
    if not isinstance(question, ReviewResult) or answer is None:
        return {}
    from mcphost.host.content_rendering import join_parts  # loaded with the first result

    passed = (
        join_parts(passed_parts(question, answer)).model_text.encode("utf-8", "replace")
        if passed_parts(question, answer)
        else b""
    )
    original_size = len(join_parts(question.parts).model_text.encode("utf-8", "replace"))
    return {"given": len(passed), "of": original_size, "sha256": hashlib.sha256(passed).hexdigest() if passed else ""}


def sent_arguments(question: Question[Any], answer: Any) -> Mapping[str, Any] | None:
    """Return the tool arguments or form content whose digest is recorded in an answer's audit row.

    Returns None if the question has neither, or if the form may contain a secret.
    """
    if isinstance(question, ReviewResult):
        return question.arguments
    if isinstance(question, ApproveTool):
        edited = answer.arguments if isinstance(answer, AllowOnce | AllowRule) else None
        return question.arguments if edited is None else edited
    if isinstance(question, FillForm) and isinstance(answer, Accept):
        # Short text can be guessed from its digest, so no digest is recorded for likely secrets.
        return None if _has_secret_field(question) else _form_content(question, answer)
    return None


def _form_content(question: FillForm, answer: Accept) -> dict[str, Any] | None:
    """Return the content of the user's form, with defaults filled in.

    Returns None if the content is invalid and therefore not sent.
    """
    from mcphost.host.questions.form_fields import validate_content  # loaded with the first form

    try:
        return validate_content(question.fields, answer.content)
    except UsageError:
        return None


def _has_secret_field(question: Question[Any]) -> bool:
    return isinstance(question, FillForm) and any(field.secret for field in question.fields)


def question_subject(question: Question[Any]) -> str:
    """Return the tool, command, host or model that a question is about, or "" for other questions."""
    if isinstance(question, TrustServer):
        return " ".join(question.command) or question.url
    if isinstance(question, TrustProject):
        return ", ".join(one.path for one in question.texts)
    if isinstance(question, ApproveTool) and question.skill:
        return f"{question.tool}:{question.skill}"
    for name in ("tool", "host", "model"):
        if value := getattr(question, name, ""):
            return str(value)
    return ""


def is_recordable(question: Question[Any], answer: Any) -> bool:
    """Return whether the text of an answer may be recorded.

    The result is False for a form with secret fields, for an answer without text, and for an answer that is a secret,
    such as a passphrase.
    """
    return isinstance(answer, _RECORDED_ANSWERS) and not _has_secret_field(question)


def resolve_answer(question: Question[Any], answer: Any) -> Any:
    """Return the answer; for a submitted form, fill in the defaults of missing fields."""
    if isinstance(question, FillForm) and isinstance(answer, Accept):
        content = _form_content(question, answer)
        return answer if content is None else Accept(content)
    return answer
