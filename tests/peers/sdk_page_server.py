"""A server with an interactive page (MCP Apps), written with the official Python SDK; its argument is `stdio`."""

import json

from mcp.server import MCPServer

server = MCPServer("sdk-pages", version="1.0.0", log_level="CRITICAL")
URI = "ui://clock/page"
PAGE = "<!doctype html><title>Clock</title><p id=time>…</p>"


@server.resource(
    URI,
    name="clock",
    mime_type="text/html;profile=mcp-app",
    meta={"ui": {"csp": {"connectDomains": ["https://time.example.com"]}}},
)
def page() -> str:
    """Return the page."""
    return PAGE


@server.tool(meta={"ui": {"resourceUri": URI}}, structured_output=False)
def show_clock(city: str) -> str:
    """Show the time of a city."""
    return json.dumps({"city": city, "time": "12:00"})


@server.tool(meta={"ui": {"resourceUri": URI, "visibility": ["app"]}}, structured_output=False)
def tick(by: int) -> str:
    """Return a later time."""
    return f"12:{by:02}"


if __name__ == "__main__":
    server.run("stdio")
