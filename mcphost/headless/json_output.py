"""Conversion of host data to JSON, in the same format for the `--json` option and for `mcphost pipe`."""

from base64 import b64encode
from typing import TYPE_CHECKING, Any

from mcphost.host.consent.grants import FolderAnswerStatus, GrantStatus
from mcphost.host.questions.sign_in import describe_scope
from mcphost.host.server_requests.root_folders import RootFolders
from mcphost.host.server_requests.roots import folder_info
from mcphost.host.server_views import ManualCallResult, ServerView
from mcphost.host.servers import accounts
from mcphost.host.servers.skills import SkillContent
from mcphost.protocol.prompts import Completion, GetPromptResult
from mcphost.protocol.resources import ReadResourceResult
from mcphost.sanitize import replace_surrogates
from mcphost.serialization import Raw, encode, loads, to_builtins
from mcphost.store.audit_reader import AuditVerification

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcphost.client.session import Account, StoredAccount
    from mcphost.config.schema import Profile
    from mcphost.llm.model_finder import AvailableModel

MAX_PARSED_BYTES = 256 * 1024
CATALOG_KINDS = ("tools", "resources", "templates", "prompts", "skills")


def to_json(value: Any) -> Any:
    """Return a struct as plain JSON data, with raw JSON members decoded."""
    return loads(encode(value))


def parse_wire_json(raw: Raw) -> Any:
    """Parse JSON sent by a server; JSON over 256 kB is returned as raw text, which takes much less memory."""
    if len(bytes(raw)) <= MAX_PARSED_BYTES:
        return loads(raw)
    return Raw(bytes(raw).replace(b"\r", b" ").replace(b"\n", b" "))  # each message on the pipe is one line


def grant_json(status: GrantStatus) -> dict[str, Any]:
    """Return a granted permission as JSON, including whether it applies now; times are in seconds since 1970."""
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
    """Return the user's stored decision about sharing a folder as JSON, including whether it applies now.

    Times are in seconds since 1970.
    """
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
    """Return as JSON the folders that can be shared, and the roots that each server has received.

    For each server, the JSON also contains whether the user agreed to share folders or declined.
    """
    server_roots = [
        {
            "server": view.name,
            "told": None if view.known_roots.roots is None else [root.uri for root in view.known_roots.roots],
            "refused": view.known_roots.is_refused,
            "agreed": view.known_roots.is_approved,
            "for_good": view.known_roots.is_permanent,
        }
        for view in servers
    ]
    return {"folders": [to_json(folder_info(one)) for one in root_folders.folders], "servers": server_roots}


def verification_json(verification: AuditVerification) -> dict[str, Any]:
    """Return the result of verifying the audit log as JSON; `ok` is true if no row was altered."""
    return {"ok": verification.is_intact, **to_builtins(verification)}


def catalog_json(view: ServerView, kind: str) -> list[dict[str, Any]]:
    """Return all items of one *kind* that a server offers, such as its tools, as JSON.

    Each item contains the name of the server.
    """
    if kind == "skills":
        return [
            {"server": view.name, "name": one.name, "description": one.description, **to_json(one)}
            for one in view.catalog.skills
        ]
    listed = [{"server": view.name, **to_json(entry)} for entry in getattr(view.catalog, kind)]
    if kind == "tools":
        # `off` is not part of the specification: mcphost does not offer the tool to the model.
        return [{**entry, "off": True} if entry["name"] in view.disabled_tools else entry for entry in listed]
    return listed


def server_json(view: ServerView) -> dict[str, Any]:
    """Return a server's state as JSON, with the negotiated protocol revision and the account.

    The JSON also contains the number of tools, prompts and so on that the server offers.
    """
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


def account_json(account: "Account") -> dict[str, Any]:
    """Return a signed-in account as JSON, with the time for which it remains valid, and descriptions of its scopes."""
    return {
        **{name: value for name, value in to_json(account).items() if name != "ends"},
        "name": account.name,
        "validity": accounts.validity(account),
        "lasts": accounts.describe_validity(account),
        "state": account_state(account),
        "rights": {scope: describe_scope(scope) for scope in account.scopes},
    }


def account_state(account: "Account") -> str:
    """Return how long an account stays signed in, such as "signed in for 3 more hours", or "expired"."""
    if accounts.validity(account) == "ended":
        return "expired"
    return f"signed in{',' if account.is_renewable else ''} {accounts.describe_validity(account)}"


def stored_account_json(stored: "StoredAccount", *, is_locked: bool = False) -> dict[str, Any]:
    """Return a stored account as JSON, including the configured servers that use it.

    If *is_locked* is true, the file with the account's tokens is locked. The JSON then contains the state "locked",
    unless the account has expired.
    """
    document = account_json(stored.account)
    if is_locked and document["state"] != "expired":
        document["state"] = "locked"
    return {
        **document,
        "in_use": bool(stored.used_by),
        "servers": list(stored.servers),
        "used_by": list(stored.used_by),
        "fixed_by": list(stored.configured_by),
        "configured": bool(stored.servers),
    }


def models_json(selected: str, models: "Iterable[AvailableModel]") -> dict[str, Any]:
    """Return as JSON the name of the *selected* model, and the models that can be chosen."""
    return {"selected": selected, "models": [_model_json(model) for model in models]}


def _model_json(model: "AvailableModel") -> dict[str, Any]:
    return {
        "name": model.config.name,
        "provider": model.provider,
        "usable": model.is_usable,
        "origin": model.origin,
        "key_variable": model.key_variable,
        "api_base": model.config.api_base,
        "context_window": model.context_window or None,
        "tools": model.supports_tools,
        "images": model.supports_images,
        "reasoning": model.supports_reasoning,
        "input_price": model.input_price,
        "output_price": model.output_price,
    }


def profile_json(profile: "Profile", *, is_selected: bool) -> dict[str, Any]:
    """Return a profile as JSON; a setting that the profile does not change is null.

    The headers and the base URL of the profile's model are left out.
    """
    model = profile.model
    return {
        "name": profile.name,
        "selected": is_selected,
        "description": profile.description,
        "model": None
        if model is None
        else {
            "name": model.name,
            "reasoning_effort": model.reasoning_effort or None,
            "temperature": model.temperature,
            "top_p": model.top_p,
            "max_output_tokens": model.max_output_tokens or None,
            "context_window": model.context_window or None,
        },
        "system_prompt": profile.system_prompt,
        "servers": None if profile.servers is None else list(profile.servers),
    }


def completion_json(completion: Completion) -> dict[str, Any]:
    """Return completion suggestions as JSON, including whether there are more."""
    return {"values": list(completion.values), "total": completion.total, "hasMore": completion.has_more}


def call_json(call: ManualCallResult) -> dict[str, Any]:
    """Return the result of a tool call as JSON, both as the server sent it and as readable text."""
    result = call.result
    document: dict[str, Any] = {"content": parse_wire_json(result.raw_content), "isError": result.is_error}
    if bytes(result.structured_content):
        document["structuredContent"] = parse_wire_json(result.structured_content)
    if call.validation.outcome != "none":
        document["check"] = {"outcome": call.validation.outcome, "text": call.validation.text}
    return {**document, "text": call.text, "seconds": round(call.seconds, 3)}


def contents_json(result: ReadResourceResult) -> dict[str, Any]:
    """Return the contents of a resource as JSON."""
    return {"contents": [to_json(one) for one in result.contents]}


def skill_json(skill_content: SkillContent) -> dict[str, Any]:
    """Return one verified file of a skill as JSON.

    The content is in `text`, or as base64 in `blob` if it is not UTF-8.
    """
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
    """Return the description and the messages of a prompt as JSON."""
    return {"description": prompt.description or "", "messages": to_builtins([to_json(one) for one in prompt.messages])}
