"""A server for both protocol eras, written with the official Python SDK.

Its argument is `stdio` or `http`; `http json` answers without event streams. Over HTTP it prints its port.
"""

import socket
import sys

import anyio
import uvicorn
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    InputRequiredResult,
    ListRootsRequest,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel

server = MCPServer("sdk-peer", version="1.2.3", instructions="A peer for tests.", log_level="CRITICAL")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
async def slow(steps: int, seconds: float, ctx: Context) -> str:
    """Count with progress."""
    for step in range(steps):
        await anyio.sleep(seconds)
        await ctx.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


@server.tool()
def fail() -> str:
    """Fail at every call."""
    raise ToolError("it went wrong")


@server.tool(structured_output=False)
def big(size: int) -> str:
    """Return a text with this many characters."""
    return "x" * size


@server.tool(structured_output=False)
def greet(ctx: Context) -> "str | InputRequiredResult":
    """Ask for a name through an input request, then greet (2026-07-28 only)."""
    if not ctx.input_responses:
        form = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        request = ElicitRequest(params=ElicitRequestFormParams(message="Your name?", requested_schema=form))
        return InputRequiredResult(input_requests={"who": request}, request_state="remember me")
    answer = ctx.input_responses["who"]
    return f"Hello {answer.content['name']}, state {ctx.request_state}"


class Person(BaseModel):
    """A form for a person's data."""

    name: str
    age: int = 30


@server.tool(structured_output=False)
async def old_form(ctx: Context) -> str:
    """Request a form in the way of revisions before 2026-07-28."""
    await ctx.elicit("Who are you?", Person)
    return "thanks"


@server.tool(structured_output=False)
async def survey(ctx: Context) -> "str | InputRequiredResult":
    """Request a form, a URL, sampling and roots: all at once, or one by one before revision 2026-07-28."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="Capital of France?"))
    if ctx.protocol_version != "2026-07-28":
        user = await ctx.elicit("Who are you?", Person)
        visited = await ctx.elicit_url("Sign in.", "https://example.com/in", "e-1")
        said = await ctx.session.create_message(messages=[message], max_tokens=50, system_prompt="Be brief.")
        roots = await ctx.session.list_roots()
        name = f"{user.data.name} {user.data.age}" if user.action == "accept" else user.action
        answers = [name, visited.action, said.content.text, said.model, *(str(root.uri) for root in roots.roots)]
        return " | ".join(answers)
    if not ctx.input_responses:
        schema = Person.model_json_schema()
        form = ElicitRequestFormParams(message="Who are you?", requested_schema=schema)
        address = ElicitRequestURLParams(message="Sign in.", url="https://example.com/in", elicitation_id="e-1")
        params = CreateMessageRequestParams(messages=[message], max_tokens=50, system_prompt="Be brief.")
        return InputRequiredResult(
            input_requests={
                "form": ElicitRequest(params=form),
                "address": ElicitRequest(params=address),
                "model": CreateMessageRequest(params=params),
                "folders": ListRootsRequest(),
            },
            request_state="opaque",
        )
    result = ctx.input_responses
    content = result["form"].content or {}
    name = f"{content['name']} {content['age']}" if result["form"].action == "accept" else result["form"].action
    model = result["model"]
    answers = [name, result["address"].action, model.content.text, model.model]
    return " | ".join([*answers, *(str(root.uri) for root in result["folders"].roots)])


@server.tool(structured_output=False)
async def change(ctx: Context) -> str:
    """Add a tool and notify the client."""
    server.add_tool(lambda: "new", name="added", description="A new tool")
    await ctx.notify_tools_changed()
    if ctx.protocol_version != "2026-07-28":
        await ctx.session.send_tool_list_changed()
    return "changed"


@server.resource("demo://greeting", mime_type="text/plain")
def greeting() -> str:
    """A greeting."""
    return "hello"


@server.resource("demo://items/{ident}")
def item(ident: str) -> str:
    """An item."""
    return f"item {ident}"


@server.prompt()
def review(code: str) -> str:
    """Review code."""
    return f"Please review: {code}"


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        app = server.streamable_http_app(json_response="json" in sys.argv)
        listener = socket.create_server(("127.0.0.1", 0))
        print(listener.getsockname()[1], flush=True)
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
