"""Translated labels for audit rows, which store kinds, events and decisions as English words."""

import re

from mcphost.translation import N_, _, translate_sentence

KIND_LABELS = {
    "account": N_("account"), "browser": N_("browser"), "budget": N_("budget"), "config": N_("configuration"),
    "connection": N_("connection"),
    "drift": N_("changed tools"), "enter_client": N_("client ID"), "file": N_("file"), "form": N_("form"),
    "grant": N_("permission"), "hook": N_("hook"), "keep_secrets": N_("secret storage"), "ledger": N_("audit log"),
    "mode": N_("auto-approve"), "process": N_("server"), "result": N_("result"), "roots": N_("folders"),
    "sampling": N_("sampling"), "sign_in": N_("sign-in"), "skill": N_("skill"), "system_prompt": N_("system prompt"),
    "tool": N_("tool"), "trust": N_("server"), "turn": N_("turn"), "unlock_secrets": N_("secret storage"),
    "url": N_("link"), "waiting_calls": N_("waiting calls"), "write_arguments": N_("arguments"),
    "write_rule": N_("rule"), "page": N_("page"),
}  # fmt: skip
EVENT_LABELS = {
    "added": N_("added"), "answered": N_("answered"), "began": N_("began"), "broken": N_("broken"),
    "carried": N_("carried over"), "carried over": N_("carried over"), "changed": N_("changed"),
    "chosen": N_("chosen"), "decided": N_("decided"), "downloaded": N_("downloaded"), "ended": N_("ended"),
    "given": N_("given"),
    "held back": N_("quarantined"), "imported": N_("imported"), "installed": N_("installed"), "kept": N_("approved"),
    "refused": N_("answer not recorded"), "removed": N_("removed"), "restored": N_("restored"),
    "reused": N_("result reused"), "revoked": N_("revoked"), "shared": N_("shared"), "started": N_("started"),
    "switched off": N_("disabled"), "switched on": N_("enabled"), "told": N_("shared"),
    "undescribed": N_("not described"), "undone": N_("undone"), "updated": N_("updated"),
    "withdrawn": N_("question withdrawn"), "asked": N_("asked"), "closed": N_("closed"), "opened": N_("opened"),
}  # fmt: skip
DECISION_LABELS = {
    "accept": N_("submitted"), "allow": N_("allowed"), "always": N_("always allowed"),
    "as shown": N_("allowed as shown"), "background": N_("ran in the background"), "cancel": N_("canceled"),
    "cheaper model": N_("cheaper model used"),
    "closed": N_("closed"), "compacted": N_("conversation compacted"), "connected": N_("connected"),
    "continued": N_("continued"),
    "decline": N_("declined"), "declined": N_("declined"), "deferred tools": N_("tools left to the search"),
    "denied": N_("denied"), "deny": N_("denied"),
    "endTurn": N_("end of turn"), "maxTokens": N_("token limit"), "stopSequence": N_("stop sequence"),
    "each": N_("answered for each server"), "edited": N_("edited, then allowed"), "entered": N_("entered"),
    "erased here": N_("deleted only here"), "error": N_("error"), "failed": N_("failed"),
    "for this run": N_("kept in memory"), "held back": N_("quarantined"), "in a file": N_("stored in a file"),
    "in a sealed file": N_("stored in an encrypted file"), "in browser": N_("opened in the browser"),
    "kept": N_("kept"), "kept some": N_("kept in part"),
    "kept, session": N_("kept, with later changes"), "left out tools": N_("tools left out"),
    "lost": N_("lost"), "never": N_("never allowed"), "no": N_("answered no"), "not chosen": N_("not chosen"),
    "not done": N_("not done"), "not opened": N_("not opened"), "not recorded": N_("not recorded"),
    "not sent": N_("not sent"), "not sent again": N_("not sent again"), "not signed out": N_("not signed out"),
    "ok": N_("finished"), "once": N_("allowed once"), "once, edited": N_("edited, then allowed once"),
    "opened": N_("opened"), "other way": N_("another way chosen"), "passed": N_("sent to the model"),
    "passphrase": N_("unlocked"), "pasted": N_("address pasted"), "raised": N_("budget raised"),
    "rule": N_("allowed by a new rule"), "rule, edited": N_("edited, then allowed by a new rule"),
    "running": N_("still running"),
    "session": N_("allowed for this session"), "stop": N_("stopped"), "stopped": N_("stopped"),
    "summary used": N_("summary used"), "visited": N_("visited"), "withheld": N_("withheld"),
    "yes": N_("answered yes"), "its grant was revoked": N_("its permission was revoked"),
    "another account is used": N_("another account is used"), "the tool changed": N_("the tool changed"),
    "a rule forbids it": N_("a rule forbids it"), "auto-approve ended": N_("auto-approve ended"),
}  # fmt: skip
SOURCE_LABELS = {
    "answer": N_("answer"), "config": N_("config"), "nobody": N_("nobody"), "person": N_("you"),
    "project": N_("project"), "program": N_("program"), "rules": N_("rules"), "grant": N_("permission"),
    "session": N_("permission for this session"), "rule": N_("rule"), "claim": N_("trusted claim"), "hook": N_("hook"),
    "autonomy": N_("auto-approve"), "page": N_("page of the server"),
    "flag": N_("command line"), "once": N_("answer"), "always": N_("permanent permission"), "user": N_("you"),
}  # fmt: skip
_OUTCOME_LABELS = {
    ("process", "failed"): N_("did not start"),
    ("process", "lost"): N_("crashed"),
    ("process", "ok"): N_("stopped"),
    ("result", "changed"): N_("edited, then sent to the model"),
}
"""Labels of decisions that have a special meaning for one kind of row, keyed by kind and decision."""
_START_LABELS = {"connection": N_("opening"), "process": N_("starting")}
"""Labels of rows that record a start, by kind; the start can still fail, because the row is written before it."""
_SHOWS_ONLY_DECISION = frozenset({"answered", "decided", "ended"})
_SEPARATORS = re.compile(r"(, |: )")


def kind_label(kind: str) -> str:
    """Return the translated name of an audit row's kind, such as "tool".

    An unknown kind is returned unchanged.
    """
    return _(KIND_LABELS[kind]) if kind in KIND_LABELS else kind


def source_label(who: str) -> str:
    """Return the translated name of the source of a decision, such as the user or a grant.

    An unknown source is returned unchanged.
    """
    return _(SOURCE_LABELS[who]) if who in SOURCE_LABELS else who


def decision_label(decision: str) -> str:
    """Return the translation of a recorded decision or outcome, such as "allowed once".

    Words without a translation are returned unchanged. *decision* can have several parts, such as "not sent: the tool
    changed", or begin with a number, as in "2 folders".
    """
    if decision in DECISION_LABELS:
        return _(DECISION_LABELS[decision])
    return "".join(
        _(DECISION_LABELS[part])
        if part in DECISION_LABELS
        else translate_sentence(part)
        if part[:1].isdigit()
        else part
        for part in _SEPARATORS.split(decision)
    )


def outcome_label(kind: str, event: str, decision: str) -> str:
    """Return a label for the outcome in an audit row, such as "allowed once", or "crashed" for a server."""
    if decision and (event in _SHOWS_ONLY_DECISION or (event == "kept" and decision != "always")):
        special = _OUTCOME_LABELS.get((kind, decision))
        return _(special) if special else decision_label(decision)
    name = _START_LABELS.get(kind, EVENT_LABELS[event]) if event == "started" else EVENT_LABELS.get(event, "")
    label = _(name) if name else event
    # "always" only says that a change of the configuration is permanent.
    return f"{label}: {decision_label(decision)}" if decision not in ("", "always") else label


def event_label(kind: str, event: str, decision: str) -> str:
    """Return a label for an audit row, built from its kind and outcome, such as "tool allowed once"."""
    return _("{kind} {outcome}").format(kind=kind_label(kind), outcome=outcome_label(kind, event, decision))


def search_text(kind: str, event: str, decision: str, who: str) -> str:
    """Return an audit row's translated labels in lower case, for searching."""
    return f"{event_label(kind, event, decision)}\n{source_label(who)}".lower()
