"""What a program gets as JSON: one shape for each kind of answer, the same in `--json` and on the pipe."""

from base64 import b64encode
from typing import Any

from mcphost.client.session import Account, Kept
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.host.questions.scope_descriptions import describe_scope
from mcphost.host.server_requests.root_list import RootFolders
from mcphost.host.server_requests.roots import folder_info
from mcphost.host.servers import accounts
from mcphost.host.servers.skills import SkillContent
from mcphost.host.views import ManualCallResult, ServerView
from mcphost.protocol.completion import Completion
from mcphost.protocol.prompts import GetPromptResult
from mcphost.protocol.resources import ReadResourceResult
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Raw, encode, loads, to_builtins
from mcphost.store.audit_reader import Verified

LOADED_LIMIT = 256 * 1024
KINDS = ("tools", "resources", "templates", "prompts", "skills")


def plain(value: Any) -> Any:
    """A wire value as plain JSON data, raw members included."""
    return loads(encode(value))


def wire_json(raw: Raw) -> Any:
    """JSON of a server for a document; a large one stays text, as objects take many times its bytes."""
    if len(bytes(raw)) <= LOADED_LIMIT:
        return loads(raw)
    return Raw(bytes(raw).replace(b"\r", b" ").replace(b"\n", b" "))  # a document may have to stay on one line


def permission(one: GrantStatus) -> dict[str, Any]:
    """A grant and whether it counts; times are seconds since 1970."""
    grant = one.grant
    return {
        "id": grant.id,
        "rule": grant.text,
        "server": grant.server,
        "tools": sorted(grant.tools),
        "account": grant.account,
        "scope": "session" if grant.session else grant.rule.scope,
        "place": grant.place,
        "created": grant.created,
        "expires": grant.rule.expires,
        "uses": grant.uses,
        "last_used": grant.last_used,
        "state": one.state,
        "why": one.why,
    }


def folder_permission(one: FolderAnswerStatus) -> dict[str, Any]:
    """A lasting answer about a folder and whether it counts; times are seconds since 1970."""
    answer = one.answer
    return {
        "id": answer.id,
        "server": answer.server,
        "folder": replace_surrogates(answer.path),
        "shared": answer.shared,
        "created": answer.created,
        "state": one.state,
        "why": one.why,
    }


def folders(found: RootFolders, servers: tuple[ServerView, ...]) -> dict[str, Any]:
    """The folders that servers may be told of, and what each server knows of them."""
    heard = [
        {
            "server": view.name,
            "told": None if view.known_roots.roots is None else [root.uri for root in view.known_roots.roots],
            "refused": view.known_roots.is_refused,
            "agreed": view.known_roots.is_approved,
            "for_good": view.known_roots.is_permanent,
        }
        for view in servers
    ]
    return {"folders": [plain(folder_info(one)) for one in found.folders], "servers": heard}


def verified(found: Verified) -> dict[str, Any]:
    """A check of the ledger."""
    return {"ok": found.ok, **to_builtins(found)}


def offers(view: ServerView, kind: str) -> list[dict[str, Any]]:
    """One list of a server, each entry with the server's name in front."""
    if kind == "skills":
        return [
            {"server": view.name, "name": one.name, "description": one.description, **plain(one)}
            for one in view.catalog.skills
        ]
    listed = [{"server": view.name, **plain(entry)} for entry in getattr(view.catalog, kind)]
    if kind == "tools":
        # Ours: whether the model is told of it.
        return [{**entry, "off": True} if entry["name"] in view.disabled_tools else entry for entry in listed]
    return listed


def server(view: ServerView) -> dict[str, Any]:
    """A server and how it is."""
    facts = view.facts
    return {
        "server": view.name,
        "state": view.state,
        "detail": view.detail,
        "hint": view.hint,
        "revision": facts.revision.value if facts else "",
        "era": facts.era if facts else "",
        "name": facts.info.name if facts else "",
        "version": facts.info.version if facts else "",
        "capabilities": plain(facts.capabilities) if facts else {},
        **{kind: len(getattr(view.catalog, kind)) for kind in KINDS},
        "left_out": list(view.catalog.left_out),
        "held": list(view.quarantined),
        "account": view.account.name if view.account else "",
        "counts": {what.replace(" ", "_"): number for what, number in view.counts.items()},
    }


def account(signed: Account) -> dict[str, Any]:
    """A sign-in, with what it means in words."""
    return {
        **{name: value for name, value in plain(signed).items() if name != "ends"},
        "name": signed.name,
        "validity": accounts.validity(signed),
        "lasts": accounts.describe_validity(signed),
        "state": state(signed),
        "rights": {scope: describe_scope(scope) for scope in signed.scopes},
    }


def state(signed: Account) -> str:
    """Whether it serves, and for how long, in words."""
    if accounts.validity(signed) == "ended":
        return "expired"
    return f"signed in{',' if signed.renews else ''} {accounts.describe_validity(signed)}"


def kept(one: Kept) -> dict[str, Any]:
    """A sign-in that is kept, and for which of the configured servers it is used."""
    return {
        **account(one.account),
        "in_use": bool(one.used_by),
        "servers": list(one.servers),
        "used_by": list(one.used_by),
        "fixed_by": list(one.fixed_by),
        "configured": bool(one.servers),
    }


def completion(found: Completion) -> dict[str, Any]:
    """Suggestions, and whether there are more of them."""
    return {"values": list(found.values), "total": found.total, "hasMore": found.has_more}


def outcome(called: ManualCallResult) -> dict[str, Any]:
    """A tool's result as it came, and the text people see."""
    result = called.result
    made: dict[str, Any] = {"content": wire_json(result.raw_content), "isError": result.is_error}
    if bytes(result.structured_content):
        made["structuredContent"] = wire_json(result.structured_content)
    if called.validation.outcome != "none":
        made["check"] = {"outcome": called.validation.outcome, "text": called.validation.text}
    return {**made, "text": called.text, "seconds": round(called.seconds, 3)}


def exit_code(called: ManualCallResult) -> int:
    """8 when the tool reported an error, 4 when the server broke its tool's promise."""
    if called.result.is_error:
        return 8
    return 4 if called.validation.outcome == "misfit" else 0


def contents(read: ReadResourceResult) -> dict[str, Any]:
    """What a resource holds."""
    return {"contents": [plain(one) for one in read.contents]}


def skill(read: SkillContent) -> dict[str, Any]:
    """One checked file of a skill: `text`, or `blob` as base64 for what is no text."""
    try:
        content = {"text": read.raw.decode()}
    except UnicodeDecodeError:
        content = {"blob": b64encode(read.raw).decode()}
    return {"server": read.server, "name": read.skill.name, "skill": read.skill.uri, "uri": read.uri, **content}


def filled(prompt: GetPromptResult) -> dict[str, Any]:
    """A filled prompt."""
    return {"description": prompt.description or "", "messages": to_builtins([plain(one) for one in prompt.messages])}
