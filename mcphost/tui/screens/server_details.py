"""Text describing a server in the details pane of the servers screen."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from mcphost.host.questions.sign_in import describe_scope
from mcphost.host.server_views import ServerView, estimate_definition_tokens
from mcphost.host.servers.accounts import describe_client, describe_discovery, describe_storage, describe_validity
from mcphost.host.servers.status import NEW_START_WORDS, RESTART_HINT
from mcphost.pluralize import translate_count
from mcphost.protocol.revisions import Revision
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import KeyTable
from mcphost.tui.screen_text import account_title, pad_cells
from mcphost.tui.widget_messages import Section
from mcphost.tui.widgets.log_text import format_line, group_lines
from mcphost.tui.widgets.long_text import HEADING_MARK

if TYPE_CHECKING:
    from mcphost.protocol.tools import Tool

_MAX_LOG_LINES = 20
_REPORTS = N_(" (reports changes)")
"""Suffix of a capability for which the server reports changes to the list."""


def describe_catalog(view: ServerView) -> str:
    """Return the numbers of tools, resources and prompts, with notes on token use and unavailable tools.

    The token use is the approximate number of tokens that the tool definitions add to each request. Tools are
    unavailable if they are quarantined after a change, or turned off.
    """
    tokens = _count_tokens(view)
    notes = [
        _("; about {tokens:,} tokens in each request").format(tokens=tokens) if tokens else "",
        _("; {tools} quarantined after a change").format(tools=translate_count(len(view.quarantined), "tool"))
        if view.quarantined
        else "",
        _("; {tools} off").format(tools=translate_count(len(view.disabled_tools), "tool"))
        if view.disabled_tools
        else "",
    ]
    kinds = [
        translate_count(len(view.catalog.tools), "tool"),
        translate_count(len(view.catalog.resources), "resource"),
        translate_count(len(view.catalog.prompts), "prompt"),
    ]
    return join_list(kinds) + "".join(notes)


def translate_capabilities(english: str) -> str:
    """Translate *english*, a list of capabilities from `describe_capabilities`, into the user's language."""
    listed = english.split(", ") if english else []
    words = [one.removesuffix(_REPORTS) for one in listed]
    marks = [_(_REPORTS) if one.endswith(_REPORTS) else "" for one in listed]
    return join_list(_(word) + mark for word, mark in zip(words, marks, strict=True))


def offer_sections(view: ServerView, keys: KeyTable) -> tuple[Section, ...]:
    """Return the sections of the details pane: a server's sign-in details, tools, instructions and log.

    If tools are quarantined, or invalid tools, prompts or resources were ignored, further sections list these.
    *keys* are the key bindings in use.
    """
    out: list[Section] = []
    if view.account is not None and (found := describe_discovery(view.account, _)):
        out.append(_make_section(_("sign-in details"), (f"{pad_cells(name, 15)}  {value}" for name, value in found)))
    if view.quarantined:
        title = keys.fill(_("quarantined after a change (press {servers-changes} to review)"))
        out.append(_make_section(title, view.quarantined))
    if view.catalog.tools:
        out.append(_make_section(_("tools"), (_describe_tool(view, tool) for tool in view.catalog.tools)))
    if view.facts is not None and view.facts.instructions:
        lines = view.facts.instructions.splitlines()[:200]
        out.append(_make_section(_("instructions for the model, truncated if long"), lines))
    if view.catalog.left_out:
        out.append(_make_section(_("ignored"), view.catalog.left_out))
    log = _make_log_section(view, keys)
    return (log, *out) if view.state in ("failed", "unreachable") else (*out, log)


def _make_log_section(view: ServerView, keys: KeyTable) -> Section:
    """Return the newest lines of the log, with a heading wherever their source or level changes.

    The lines below a heading are indented, so that a server cannot write a line that looks like a heading of mcphost.
    """
    lines = view.log[-_MAX_LOG_LINES:]
    rows: list[str] = []
    for heading, members in group_lines(lines):
        rows += [f"{heading}:", *(f"  {row}" for line in members for row in format_line(line).split("\n"))]
    if len(view.log) > len(lines):
        title = keys.fill(_("log, its newest {count} lines ({servers-log} shows all)"), count=len(lines))
    else:
        title = keys.fill(_("log ({servers-log} shows all)"))
    return _make_section(title, rows or [_("nothing yet")])


def _make_section(heading: str, lines: Iterable[str]) -> Section:
    return Section(f"{HEADING_MARK}{heading}", "\n".join(lines))


def _describe_tool(view: ServerView, tool: "Tool") -> str:
    """Return a tool's name and the first line of its description.

    If the tool is unavailable, a mark such as "(off)" is added.
    """
    held = _(" (quarantined)") if tool.name in view.quarantined else ""
    off = _(" (off)") if tool.name in view.disabled_tools else ""
    first = (tool.description or "").strip().split("\n")[0]
    return f"{tool.name}{held}{off}{f': {first[:300]}' if first else ''}"


def describe_account(view: ServerView) -> list[tuple[str, str]]:
    """Return name-value pairs for the account in use, or [] if there is none.

    The pairs are its name, issuer, scopes and storage.
    """
    account = view.account
    if account is None:
        return []
    told = [(describe_scope(scope, _), scope) for scope in account.scopes]
    rights = join_list(f"{words} ({scope})" if words else scope for words, scope in told)
    return [
        (_("signed in"), join_list([account_title(account.name), describe_validity(account, translate=_)])),
        (
            _("issuer"),
            join_list([account.issuer, describe_client(account, _)]) if account.client_kind else account.issuer,
        ),
        (_("scopes"), rights or _("none: what the server allows every user")),
        (_("stored"), describe_storage(account, _)),
    ]


def describe_next_step(view: ServerView, keys: KeyTable) -> str:
    """Return a hint about what the user can do next in the server's current state, or "" if there is none.

    For example, the hint for a failed server names the key that restarts the server. If the server's error has a hint,
    the text contains it. *keys* are the key bindings in use.
    """
    if view.state in ("untrusted", "sign_in"):
        return keys.fill(_("{servers-restart} shows the question again"))
    if view.state == "stopped":
        return keys.fill(_("{servers-restart} starts it"))
    hint = translate_sentence(view.hint)
    if view.state == "unreachable":
        return keys.fill(_("{servers-restart} tries now. {hint}"), hint=hint).rstrip()
    if view.state != "failed" or NEW_START_WORDS in view.hint:
        return hint
    if view.hint == RESTART_HINT:
        return keys.fill(_("{servers-restart} restarts it"))
    return keys.fill(_("{servers-restart} restarts it. {hint}"), hint=hint).rstrip()


def deprecation_note(view: ServerView) -> str:
    """Return a note if the server has requested roots although its protocol revision deprecates them.

    Otherwise, return "". Roots are deprecated in revision 2026-07-28.
    """
    asked = view.known_roots.roots is not None or view.known_roots.is_refused
    old = asked and view.facts is not None and view.facts.revision is Revision.V2026_07_28
    return _("; asking for folders is deprecated in its revision") if old else ""


def _count_tokens(view: ServerView) -> int:
    return sum(estimate_definition_tokens(tool) for tool in view.catalog.tools if tool.name not in view.disabled_tools)
