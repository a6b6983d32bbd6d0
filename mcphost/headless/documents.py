"""What a program gets as JSON: one shape for each kind of answer, the same in `--json` and on the pipe."""

from base64 import b64encode
from typing import Any

from mcphost.data import encode, loads, to_plain
from mcphost.host.skills import SkillContent
from mcphost.host.views import ServerView, ToolOutcome
from mcphost.protocol.completion import Completion
from mcphost.protocol.prompts import PromptResult
from mcphost.protocol.resources import ReadResult

KINDS = ("tools", "resources", "templates", "prompts", "skills")


def plain(value: Any) -> Any:
    """A wire value as plain JSON data, raw members included."""
    return loads(encode(value))


def offers(view: ServerView, kind: str) -> list[dict[str, Any]]:
    """One list of a server, each entry with the server's name in front."""
    if kind == "skills":
        return [
            {"server": view.name, "name": one.name, "description": one.description, **plain(one)}
            for one in view.catalog.skills
        ]
    return [{"server": view.name, **plain(entry)} for entry in getattr(view.catalog, kind)]


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
        "counts": {what.replace(" ", "_"): number for what, number in view.counts.items()},
    }


def completion(found: Completion) -> dict[str, Any]:
    """Suggestions, and whether there are more of them."""
    return {"values": list(found.values), "total": found.total, "hasMore": found.has_more}


def outcome(called: ToolOutcome) -> dict[str, Any]:
    """A tool's result as it came, and the text people see."""
    result = called.result
    made: dict[str, Any] = {"content": [plain(block) for block in result.content], "isError": result.is_error}
    if bytes(result.structured_content):
        made["structuredContent"] = plain(result.structured_content)
    if called.checked.outcome != "none":
        made["check"] = {"outcome": called.checked.outcome, "text": called.checked.text}
    return {**made, "text": called.text, "seconds": round(called.seconds, 3)}


def exit_code(called: ToolOutcome) -> int:
    """8 when the tool reported an error, 4 when the server broke its tool's promise."""
    if called.result.is_error:
        return 8
    return 4 if called.checked.outcome == "misfit" else 0


def contents(read: ReadResult) -> dict[str, Any]:
    """What a resource holds."""
    return {"contents": [plain(one) for one in read.contents]}


def skill(read: SkillContent) -> dict[str, Any]:
    """One checked file of a skill: `text`, or `blob` as base64 for what is no text."""
    try:
        content = {"text": read.raw.decode()}
    except UnicodeDecodeError:
        content = {"blob": b64encode(read.raw).decode()}
    return {"server": read.server, "name": read.skill.name, "skill": read.skill.uri, "uri": read.uri, **content}


def filled(prompt: PromptResult) -> dict[str, Any]:
    """A filled prompt."""
    return {"description": prompt.description or "", "messages": to_plain([plain(one) for one in prompt.messages])}
