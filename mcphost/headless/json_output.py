"""What a program gets as JSON: one shape for each kind of answer, the same in `--json` and on the pipe."""

from base64 import b64encode
from typing import Any

from mcphost.client.session import Account, StoredAccount
from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.host.questions.sign_in import describe_scope
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
from mcphost.store.audit_reader import AuditVerification

MAX_PARSED_BYTES = 256 * 1024
CATALOG_KINDS = ("tools", "resources", "templates", "prompts", "skills")


def to_json(value: Any) -> Any:
    """A wire value as plain JSON data, raw members included."""
    return loads(encode(value))


def parse_wire_json(raw: Raw) -> Any:
    """JSON of a server for a document; a large one stays text, as objects take many times its bytes."""
    if len(bytes(raw)) <= MAX_PARSED_BYTES:
        return loads(raw)
    return Raw(bytes(raw).replace(b"\r", b" ").replace(b"\n", b" "))  # a document may have to stay on one line


def grant_json(status: GrantStatus) -> dict[str, Any]:
    """A grant and whether it counts; times are seconds since 1970."""
    grant = status.grant
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
        "state": status.state,
        "why": status.why,
    }


def folder_answer_json(status: FolderAnswerStatus) -> dict[str, Any]:
    """A lasting answer about a folder and whether it counts; times are seconds since 1970."""
    answer = status.answer
    return {
        "id": answer.id,
        "server": answer.server,
        "folder": replace_surrogates(answer.path),
        "shared": answer.is_shared,
        "created": answer.created,
        "state": status.state,
        "why": status.why,
    }


def roots_json(root_folders: RootFolders, servers: tuple[ServerView, ...]) -> dict[str, Any]:
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
    return {"folders": [to_json(folder_info(one)) for one in root_folders.folders], "servers": heard}


def verification_json(verification: AuditVerification) -> dict[str, Any]:
    """A check of the ledger."""
    return {"ok": verification.is_intact, **to_builtins(verification)}


def catalog_json(view: ServerView, kind: str) -> list[dict[str, Any]]:
    """One list of a server, each entry with the server's name in front."""
    if kind == "skills":
        return [
            {"server": view.name, "name": one.name, "description": one.description, **to_json(one)}
            for one in view.catalog.skills
        ]
    listed = [{"server": view.name, **to_json(entry)} for entry in getattr(view.catalog, kind)]
    if kind == "tools":
        # Ours: whether the model is told of it.
        return [{**entry, "off": True} if entry["name"] in view.disabled_tools else entry for entry in listed]
    return listed


def server_json(view: ServerView) -> dict[str, Any]:
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
        "capabilities": to_json(facts.capabilities) if facts else {},
        **{kind: len(getattr(view.catalog, kind)) for kind in CATALOG_KINDS},
        "left_out": list(view.catalog.left_out),
        "held": list(view.quarantined),
        "account": view.account.name if view.account else "",
        "counts": {what.replace(" ", "_"): number for what, number in view.counts.items()},
    }


def account_json(account: Account) -> dict[str, Any]:
    """A sign-in, with what it means in words."""
    return {
        **{name: value for name, value in to_json(account).items() if name != "ends"},
        "name": account.name,
        "validity": accounts.validity(account),
        "lasts": accounts.describe_validity(account),
        "state": account_state(account),
        "rights": {scope: describe_scope(scope) for scope in account.scopes},
    }


def account_state(account: Account) -> str:
    """Whether it serves, and for how long, in words."""
    if accounts.validity(account) == "ended":
        return "expired"
    return f"signed in{',' if account.is_renewable else ''} {accounts.describe_validity(account)}"


def stored_account_json(stored: StoredAccount) -> dict[str, Any]:
    """A sign-in that is kept, and for which of the configured servers it is used."""
    return {
        **account_json(stored.account),
        "in_use": bool(stored.used_by),
        "servers": list(stored.servers),
        "used_by": list(stored.used_by),
        "fixed_by": list(stored.configured_by),
        "configured": bool(stored.servers),
    }


def completion_json(completion: Completion) -> dict[str, Any]:
    """Suggestions, and whether there are more of them."""
    return {"values": list(completion.values), "total": completion.total, "hasMore": completion.has_more}


def call_json(call: ManualCallResult) -> dict[str, Any]:
    """A tool's result as it came, and the text people see."""
    result = call.result
    made: dict[str, Any] = {"content": parse_wire_json(result.raw_content), "isError": result.is_error}
    if bytes(result.structured_content):
        made["structuredContent"] = parse_wire_json(result.structured_content)
    if call.validation.outcome != "none":
        made["check"] = {"outcome": call.validation.outcome, "text": call.validation.text}
    return {**made, "text": call.text, "seconds": round(call.seconds, 3)}


def call_exit_code(call: ManualCallResult) -> int:
    """8 when the tool reported an error, 4 when the server broke its tool's promise."""
    if call.result.is_error:
        return 8
    return 4 if call.validation.outcome == "misfit" else 0


def contents_json(result: ReadResourceResult) -> dict[str, Any]:
    """What a resource holds."""
    return {"contents": [to_json(one) for one in result.contents]}


def skill_json(skill_content: SkillContent) -> dict[str, Any]:
    """One checked file of a skill: `text`, or `blob` as base64 for what is no text."""
    try:
        content = {"text": skill_content.raw.decode()}
    except UnicodeDecodeError:
        content = {"blob": b64encode(skill_content.raw).decode()}
    return {
        "server": skill_content.server,
        "name": skill_content.skill.name,
        "skill": skill_content.skill.uri,
        "uri": skill_content.uri,
        **content,
    }


def prompt_json(prompt: GetPromptResult) -> dict[str, Any]:
    """A filled prompt."""
    return {"description": prompt.description or "", "messages": to_builtins([to_json(one) for one in prompt.messages])}
