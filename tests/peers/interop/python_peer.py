"""A server written with the Python SDK or FastMCP that offers everything the interop matrix probes.

Usage: python_peer.py LIBRARY TRANSPORT DELAY. LIBRARY is mcp1, mcp2, fastmcp2, fastmcp3 or fastmcp4. TRANSPORT is
stdio, http or sse; the last two listen on $PEER_PORT (0 by default) and print their port. DELAY is the time in seconds
before anything is read. If $PEER_STARTS names a file, each start appends a line to it, and the process that wrote line
N offers the tool start_N as well.
"""

import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

import anyio
from mcp import types
from pydantic import BaseModel

LIBRARY, TRANSPORT, DELAY = sys.argv[1], sys.argv[2], float(sys.argv[3])
IS_FAST = LIBRARY.startswith("fastmcp")
HAS_ROUNDS = LIBRARY in ("mcp2", "fastmcp4")
if IS_FAST:
    from fastmcp import Context
    from fastmcp import FastMCP as Server
elif LIBRARY == "mcp1":
    from mcp.server.fastmcp import Context
    from mcp.server.fastmcp import FastMCP as Server
else:
    from mcp.server import MCPServer as Server
    from mcp.server.mcpserver import Context

server: Any = Server(f"python-{LIBRARY}")
state = {"was cancelled": False, "is waiting": False}
tool = server.tool()
QUESTION = {
    "messages": [types.SamplingMessage(role="user", content=types.TextContent(type="text", text="Capital?"))],
    "max_tokens": 20,
}


class Person(BaseModel):
    """A form for a person's data."""

    name: str


def has_rounds(ctx: Any) -> bool:
    """Return True in the stateless era, in which servers request input in the result of a call."""
    return HAS_ROUNDS and ctx.session.protocol_version == "2026-07-28"


def ask(request: Any) -> Any:
    return types.InputRequiredResult(input_requests={"it": request}, request_state="opaque")


@tool
def add(a: int, b: int) -> int:
    return a + b


@tool
async def steps(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3)
        await anyio.sleep(0.02)
    return "done"


@tool
async def log(ctx: Context) -> str:
    await ctx.warning("look here")
    return "logged"


@tool
async def wait() -> str:
    state["was cancelled"], state["is waiting"] = False, True
    try:
        await anyio.sleep(30)
    except anyio.get_cancelled_exc_class():
        state["was cancelled"] = True
        raise
    finally:
        state["is waiting"] = False
    return "waited"


@tool
def waiting() -> str:
    return str(state["is waiting"]).lower()


@tool
def cancelled() -> str:
    return str(state["was cancelled"]).lower()


@tool
async def change(ctx: Context) -> str:
    def added() -> str:
        return "new"

    server.tool()(added) if IS_FAST else server.add_tool(added)
    server.prompt(name="added")(added)
    server.resource("demo://added")(added)
    if LIBRARY == "mcp2":
        await ctx.notify_tools_changed()
        await ctx.notify_prompts_changed()
        await ctx.notify_resources_changed()
    if not has_rounds(ctx):
        await ctx.session.send_tool_list_changed()
        await ctx.session.send_prompt_list_changed()
        await ctx.session.send_resource_list_changed()
    elif IS_FAST:
        await ctx.send_notification(types.ToolListChangedNotification())
        await ctx.send_notification(types.PromptListChangedNotification())
        await ctx.send_notification(types.ResourceListChangedNotification())
    return "changed"


@tool
async def touch(ctx: Context) -> str:
    if LIBRARY == "mcp2" and has_rounds(ctx):
        await ctx.notify_resource_updated("demo://greeting")
    else:
        await ctx.session.send_resource_updated("demo://greeting")
    return "touched"


async def form(ctx: Context) -> Any:
    if not has_rounds(ctx):
        answer = await ctx.elicit("Your name?", Person)
        return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action
    if not ctx.input_responses:
        params = types.ElicitRequestFormParams(message="Your name?", requested_schema=Person.model_json_schema())
        return ask(types.ElicitRequest(params=params))
    answer = ctx.input_responses["it"]
    return f"Hello {answer.content['name']}" if answer.action == "accept" else answer.action


async def model(ctx: Context) -> Any:
    if not has_rounds(ctx):
        return (await ctx.session.create_message(**QUESTION)).content.text
    if not ctx.input_responses:
        return ask(types.CreateMessageRequest(params=types.CreateMessageRequestParams(**QUESTION)))
    return ctx.input_responses["it"].content.text


async def folders(ctx: Context) -> Any:
    if has_rounds(ctx) and not ctx.input_responses:
        return ask(types.ListRootsRequest())
    roots = ctx.input_responses["it"].roots if has_rounds(ctx) else (await ctx.session.list_roots()).roots
    return " ".join(str(root.uri) for root in roots)


for asking in (form, model, folders):
    if IS_FAST:
        server.tool(output_schema=None)(asking)
    else:
        server.tool(structured_output=False)(asking)


@tool
def crash() -> str:
    os._exit(3)


@tool
def greeted() -> str:
    return "no question at the start"


def add_start_tool(starts: Path) -> None:
    """Append a line to the file, and add a tool that is named after the number of its lines."""
    with starts.open("a") as file:
        file.write("start\n")
    number = len(starts.read_text().splitlines())
    server.tool(name=f"start_{number}")(lambda: "started")


@server.resource("demo://greeting")
def greeting() -> str:
    return "hello"


@server.resource("demo://items/{ident}")
def item(ident: str) -> str:
    return f"item {ident}"


@server.prompt()
def review(code: str) -> str:
    return f"Please review: {code}"


def complete(argument: Any) -> Any:
    values = [item for item in ("python", "pascal") if item.startswith(argument.value)]
    return types.Completion(values=values)


if not IS_FAST:  # FastMCP 2 and 3 cannot answer completions

    @server.completion()
    async def completion(ref: Any, argument: Any, context: Any) -> Any:
        return complete(argument)


if LIBRARY == "fastmcp4":
    server.add_completion_handler(lambda ref, argument, context: complete(argument))


def app() -> Any:
    if IS_FAST:
        return server.http_app(transport=TRANSPORT)
    return server.sse_app() if TRANSPORT == "sse" else server.streamable_http_app()


def main() -> None:
    if starts := os.environ.get("PEER_STARTS"):
        add_start_tool(Path(starts))
    time.sleep(DELAY)
    if TRANSPORT == "stdio":
        server.run(transport="stdio", **({"show_banner": False} if IS_FAST else {}))
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PEER_PORT", "0"))))
    print(listener.getsockname()[1], flush=True)
    config = uvicorn.Config(app(), log_level="critical", timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
