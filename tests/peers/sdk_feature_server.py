"""The server of `sdk_server` with all other features of revision 2026-07-28 added; it is started in the same way."""

from typing import Any

from mcp.server.mcpserver import Context, Image
from mcp.types import (
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    ElicitRequest,
    ElicitRequestFormParams,
    InputRequiredResult,
    ListRootsRequest,
    PromptReference,
    ResourceLink,
    SamplingMessage,
    TextContent,
)
from pydantic import BaseModel
from sdk_server import main, server

FORM = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010806000000"
    "1f15c4890000000d49444154789c6360606060000000050001a5f645400000000049454e44ae426082"
)


class Weather(BaseModel):
    """The output schema of `weather`."""

    city: str
    degrees: float


@server.tool()
def weather(city: str) -> Weather:
    """Return the weather of a city as structured content."""
    return Weather(city=city, degrees=21.5)


@server.tool(structured_output=False)
def gallery() -> list[Any]:
    """Return every kind of content."""
    link = ResourceLink(type="resource_link", uri="demo://greeting", name="greeting")
    return ["text", Image(data=PIXEL, format="png"), link]


@server.tool(structured_output=False)
async def note(text: str, ctx: Context) -> str:
    """Send the text as a log message, and confirm it."""
    await ctx.log("warning", text)
    return f"noted {text}"


@server.tool(structured_output=False)
async def touch(ctx: Context) -> str:
    """Notify the client that the greeting has changed."""
    await ctx.notify_resource_updated("demo://greeting")
    return "touched"


@server.tool(structured_output=False)
def rounds(ctx: Context) -> "str | InputRequiredResult":
    """Request input in three rounds: a form, then the model and the folders, then only a state."""
    state = ctx.request_state
    if state is None:
        form = ElicitRequestFormParams(message="Your name?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)}, request_state="1:")
    if state == "1:":
        name = ctx.input_responses["who"].content["name"]
        asked = SamplingMessage(role="user", content=TextContent(type="text", text="Capital of France?"))
        sampling = CreateMessageRequest(params=CreateMessageRequestParams(messages=[asked], max_tokens=50))
        expected = {"model": sampling, "folders": ListRootsRequest()}
        return InputRequiredResult(input_requests=expected, request_state=f"2:{name}")
    if state.startswith("2:"):
        answers = ctx.input_responses
        told = f"{answers['model'].content.text} in {len(answers['folders'].roots)} folder"
        return InputRequiredResult(request_state=f"3:{state[2:]}: {told}")
    return state[2:]


@server.prompt()
def letter(to: str, ctx: Context) -> "str | InputRequiredResult":
    """A prompt that requests input."""
    if not ctx.input_responses:
        form = ElicitRequestFormParams(message="Who signs?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})
    return f"Write to {to}, signed {ctx.input_responses['who'].content['name']}"


@server.resource("demo://locked/{name}")
def locked(name: str, ctx: Context) -> "str | InputRequiredResult":
    """A resource that requests input."""
    if not ctx.input_responses:
        form = ElicitRequestFormParams(message="Whose?", requested_schema=FORM)
        return InputRequiredResult(input_requests={"who": ElicitRequest(params=form)})
    return f"{name} of {ctx.input_responses['who'].content['name']}"


@server.resource("demo://pixel", mime_type="image/png")
def pixel() -> bytes:
    """A picture."""
    return PIXEL


@server.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Complete languages and item numbers; fewer match if another argument is already filled in."""
    known = ["python", "pascal", "rust"] if isinstance(ref, PromptReference) else ["7", "77"]
    if context is not None and (context.arguments or {}).get("style") == "old":
        known = ["pascal"]
    return Completion(values=[value for value in known if value.startswith(argument.value)])


if __name__ == "__main__":
    main()
