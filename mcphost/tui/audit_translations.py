"""Translations of the words in audit rows, which are stored in English."""

import re

from mcphost.store.audit_store import AuditRow
from mcphost.translation import N_, _, translate_sentence

KINDS = {
    N_("account"), N_("browser"), N_("budget"), N_("connection"), N_("drift"), N_("enter_client"), N_("file"),
    N_("form"), N_("grant"), N_("hook"), N_("keep_secrets"), N_("ledger"), N_("mode"), N_("process"), N_("result"),
    N_("roots"), N_("sampling"), N_("sign_in"), N_("skill"), N_("system_prompt"), N_("tool"), N_("trust"), N_("turn"),
    N_("unlock_secrets"), N_("url"), N_("waiting_calls"), N_("write_arguments"), N_("write_rule"),
}  # fmt: skip
EVENTS = {
    N_("added"), N_("answered"), N_("began"), N_("broken"), N_("carried"), N_("carried over"), N_("changed"),
    N_("chosen"), N_("decided"), N_("downloaded"), N_("ended"), N_("held back"), N_("imported"), N_("installed"),
    N_("kept"), N_("refused"), N_("removed"), N_("restored"), N_("reused"), N_("revoked"), N_("shared"), N_("started"),
    N_("switched off"), N_("switched on"), N_("told"), N_("undescribed"), N_("undone"), N_("updated"), N_("withdrawn"),
}  # fmt: skip
DECISIONS = {
    N_("accept"), N_("allow"), N_("always"), N_("as shown"), N_("cancel"), N_("cheaper model"), N_("closed"),
    N_("compacted"), N_("continued"), N_("decline"), N_("declined"), N_("denied"), N_("deny"), N_("each"), N_("edited"),
    N_("entered"), N_("erased here"), N_("error"), N_("failed"), N_("for this run"), N_("in a file"),
    N_("in a sealed file"), N_("in browser"), N_("kept some"), N_("left out tools"), N_("lost"), N_("never"), N_("no"),
    N_("not chosen"), N_("not done"), N_("not opened"), N_("not recorded"), N_("not sent"), N_("not sent again"),
    N_("not signed out"), N_("ok"), N_("once"), N_("opened"), N_("other way"), N_("passed"), N_("passphrase"),
    N_("pasted"), N_("raised"), N_("rule"), N_("session"), N_("stop"), N_("stopped"), N_("summary used"), N_("visited"),
    N_("withheld"), N_("yes"), N_("its grant was revoked"), N_("another account is used"), N_("the tool changed"),
}  # fmt: skip
SOURCES = {
    N_("answer"), N_("config"), N_("nobody"), N_("person"), N_("program"), N_("rules"),
}  # fmt: skip
_KNOWN = KINDS | EVENTS | DECISIONS | SOURCES
_SEPARATORS = re.compile(r"(, |: )")


def translate_word(word: str) -> str:
    """Translate a kind, event, decision or source of an audit row; return unknown words unchanged.

    A decision may have several parts, such as "once, edited", or be a number, such as "2 folders".
    """
    return "".join(
        _(part) if part in _KNOWN else translate_sentence(part) if part[:1].isdigit() else part
        for part in _SEPARATORS.split(word)
    )


def describe_event(row: AuditRow) -> str:
    """Return what a row records, such as "tool answered: once"."""
    return _describe_words(row.kind, row.event, row.decision)


def describe_words(kind: str, event: str, decision: str, who: str) -> str:
    """Return the words under which a row is shown and searched, in lower case."""
    return f"{_describe_words(kind, event, decision)}\n{translate_word(who)}".lower()


def _describe_words(kind: str, event: str, decision: str) -> str:
    shown = f"{translate_word(kind)} {translate_word(event)}"
    return shown + (f": {translate_word(decision)}" if decision else "")
