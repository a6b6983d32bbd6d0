"""Valid server messages of both protocol eras, which the fuzzers mutate."""

from typing import Any

JsonObject = dict[str, Any]

INFO = {"name": "fuzz", "version": "1", "title": "Fuzz é ✓ 漢"}
CAPABILITIES: JsonObject = {
    "tools": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
    "prompts": {"listChanged": True},
    "logging": {},
    "completions": {},
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "extensions": {"io.modelcontextprotocol/tasks": {}, "io.modelcontextprotocol/skills": {}},
}
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "x-mcp-header": "A"}}, "required": ["a"]}
ICON = {"src": "https://example.com/i.png", "mimeType": "image/png", "sizes": ["48x48"]}
ANNOTATIONS = {"audience": ["user"], "priority": 0.5, "lastModified": "2025-01-01T00:00:00Z"}
CONTENT: list[JsonObject] = [
    {"type": "text", "text": "hé ✓ 漢 \ud83d\ude00", "annotations": ANNOTATIONS},
    {"type": "image", "data": "aGVsbG8=", "mimeType": "image/png"},
    {"type": "audio", "data": "aGVsbG8=", "mimeType": "audio/wav"},
    {"type": "resource_link", "uri": "demo://a", "name": "a", "icons": [ICON], "size": 5},
    {"type": "resource", "resource": {"uri": "demo://a", "text": "x", "mimeType": "text/plain"}},
    {"type": "resource", "resource": {"uri": "demo://b", "blob": "aGVsbG8="}},
]
TASK = {"taskId": "t1", "status": "working", "createdAt": "2025-11-25T10:00:00Z", "ttl": 60000, "pollInterval": 5}
TOOL = {"name": "t1", "description": "A tool", "inputSchema": SCHEMA, "icons": [ICON]}
LONG_TOOL = {"name": "o", "inputSchema": SCHEMA, "outputSchema": SCHEMA, "execution": {"taskSupport": "required"}}
SKILL = {
    "uri": "skill://a/SKILL.md",
    "frontmatter": {"name": "a", "description": "d"},
    "resources": [{"uri": "skill://a/SKILL.md", "digest": "sha256:" + "0" * 64, "size": 5}],
}
PAGE = {"ttlMs": 100, "cacheScope": "private"}
COMPLETION = {"completion": {"values": ["a", "b"], "total": 2, "hasMore": False}}
RESULTS: dict[str, list[JsonObject]] = {
    "tools/list": [{"tools": [TOOL, LONG_TOOL]}],
    "tools/call": [
        {"content": CONTENT, "isError": False},
        {"content": CONTENT[:1], "structuredContent": {"a": 1.5}, "isError": True},
        {"task": TASK},
    ],
    "resources/list": [{"resources": [{"uri": "demo://a", "name": "a", "size": 5, "annotations": ANNOTATIONS}]}],
    "resources/templates/list": [{"resourceTemplates": [{"uriTemplate": "demo://{a}", "name": "a"}]}],
    "resources/read": [{"contents": [{"uri": "demo://a", "text": "x"}, {"uri": "demo://b", "blob": "aGVsbG8="}]}],
    "prompts/list": [{"prompts": [{"name": "p", "arguments": [{"name": "x", "required": True}]}]}],
    "prompts/get": [{"description": "d", "messages": [{"role": "user", "content": item} for item in CONTENT]}],
    "completion/complete": [COMPLETION],
    "ping": [{}],
    "logging/setLevel": [{}],
    "resources/subscribe": [{}],
    "subscriptions/listen": [{}],
    "tasks/get": [TASK, {**TASK, "status": "completed"}, {**TASK, "status": "input_required"}],
    "tasks/result": [{"content": CONTENT[:1]}],
    "tasks/list": [{"tasks": [TASK]}],
    "tasks/cancel": [{**TASK, "status": "cancelled"}],
    "tasks/update": [{}],
    "skills/list": [{"skills": [SKILL]}],
    "skills/get": [{"skill": SKILL}],
}  # fmt: skip
CREATE: JsonObject = {"messages": [{"role": "user", "content": CONTENT[0]}], "maxTokens": 10, "systemPrompt": "s"}
FORM: JsonObject = {
    "type": "object",
    "properties": {"name": {"type": "string", "minLength": 1}, "n": {"type": "integer", "default": 3}},
    "required": ["name"],
}
LINK: JsonObject = {"mode": "url", "message": "m", "url": "https://a.example", "elicitationId": "e"}
ELICIT: JsonObject = {"message": "Who?", "requestedSchema": FORM}
SERVER_REQUESTS: list[JsonObject] = [
    {"method": "ping"},
    {"method": "roots/list"},
    {"method": "sampling/createMessage", "params": CREATE},
    {"method": "elicitation/create", "params": ELICIT},
    {"method": "elicitation/create", "params": LINK},
    {"method": "tasks/get", "params": {"taskId": "t1"}},
    {"method": "unknown/method", "params": {}},
]  # fmt: skip
NOTIFICATIONS: list[JsonObject] = [
    {"method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5, "total": 1, "message": "m"}},
    {"method": "notifications/message", "params": {"level": "info", "logger": "l", "data": {"a": [1]}}},
    {"method": "notifications/tools/list_changed"},
    {"method": "notifications/prompts/list_changed"},
    {"method": "notifications/resources/list_changed"},
    {"method": "notifications/resources/updated", "params": {"uri": "demo://a"}},
    {"method": "notifications/cancelled", "params": {"requestId": 1, "reason": "r"}},
    {"method": "notifications/tasks/status", "params": TASK},
    {"method": "notifications/elicitation/complete", "params": {"elicitationId": "e"}},
    {"method": "notifications/subscriptions/acknowledged", "params": {"notifications": {"toolsListChanged": True}}},
]
ERRORS: list[JsonObject] = [
    {"code": -32601, "message": "Method not found"},
    {"code": -32602, "message": "Invalid params", "data": {"why": [1, {"a": None}]}},
    {"code": -32022, "message": "Unsupported", "data": {"supported": ["2026-07-28"], "requested": "x"}},
    {"code": -32042, "message": "URL", "data": {"elicitations": [LINK]}},
]  # fmt: skip
INPUT_REQUIRED: list[JsonObject] = [
    {"inputRequests": {"q": {"method": "elicitation/create", "params": ELICIT}}, "requestState": "s"},
    {"inputRequests": {"q": {"method": "roots/list"}, "r": {"method": "sampling/createMessage", "params": CREATE}}},
    {"requestState": "again"},
]


def initialize_result(revision: str) -> JsonObject:
    """Return a valid result of `initialize`."""
    return {"protocolVersion": revision, "capabilities": CAPABILITIES, "serverInfo": INFO, "instructions": "Be kind."}


def discover_result() -> JsonObject:
    """Return a valid result of `server/discover`."""
    return {"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, **PAGE,
            "_meta": {"io.modelcontextprotocol/serverInfo": INFO}}  # fmt: skip


def result_for(method: str, *, stateless: bool, which: int = 0) -> JsonObject:
    """Return one of several valid results for a request with this method."""
    choices = RESULTS.get(method, [{}])
    body = dict(choices[which % len(choices)])
    if stateless:
        body = {"resultType": "complete", **body, **(PAGE if "list" in method or "read" in method else {})}
    return body
