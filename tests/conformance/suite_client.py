"""The client that the official conformance suite runs, which uses the real Host: `suite_client.py URL`.

The suite passes its input in the environment variables MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_CONTEXT.
"""

import json
import os
import sys
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import anyio
import httpx

sys.path.insert(0, str(Path(__file__).parents[2]))

from mcphost.auth.oauth_registry import OAuthRegistry
from mcphost.auth.token_store import TokenStore
from mcphost.cli.server_session_opener import LazySessionOpener
from mcphost.config.schema import HostConfig, OAuthConfig, ServerConfig
from mcphost.errors import McpHostError
from mcphost.host.bootstrap import build_host
from mcphost.host.host import Host
from mcphost.host.questions.frontend import Question
from mcphost.host.questions.questions import Accept, FillForm
from mcphost.host.questions.sign_in import OpenInBrowser, SignInPrompts, SignInQuestion
from mcphost.host.server_views import ServerView
from mcphost.protocol.skills import parse_skill_files
from mcphost.protocol.tools import Tool
from mcphost.serialization import loads, replace
from mcphost.store.database import Database
from mcphost.store.grants import GrantStore
from tests.fakes.memory_backend import MemoryBackend

A = TypeVar("A")
SERVER_NAME = "peer"
DOCUMENT_URL = "https://conformance-test.local/client-metadata.json"
MACHINE_SCENARIOS = frozenset(
    {
        "client-credentials-basic",
        "client-credentials-jwt",
        "wif-jwt-bearer",
        "enterprise-managed-authorization",
    }
)
CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
STUB_VALUES: dict[str, Any] = {
    "string": "text",
    "text": "text",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
}


class AcceptingFrontend:
    """A front end that accepts every form with its defaults, signs in when asked, and refuses everything else."""

    kinds = frozenset({FillForm.KIND, SignInQuestion.KIND})
    who = "person"

    async def ask(self, question: Question[A]) -> A:
        """Answer immediately."""
        if isinstance(question, SignInQuestion):
            if question.note:
                await anyio.sleep_forever()  # the browser received it
            return cast("A", OpenInBrowser())
        if not isinstance(question, FillForm):
            return question.refusal()
        needed = {
            field.name: STUB_VALUES[field.kind] for field in question.fields if field.required and not field.default
        }
        return cast("A", Accept(needed))


def stub_arguments(tool: Tool) -> dict[str, Any]:
    """Return arguments for a tool, with a value of the right type for each parameter."""
    properties = loads(tool.input_schema).get("properties", {})
    return {name: STUB_VALUES.get(str(schema.get("type")), "text") for name, schema in properties.items()}


async def list_features(host: Host, view: ServerView) -> None:
    """Do nothing more, because connecting has already listed everything."""


async def use_everything(host: Host, view: ServerView) -> None:
    """Call every tool, read every resource, and fill in every prompt."""
    for tool in view.catalog.tools:
        await host.tools.call(SERVER_NAME, tool.name, stub_arguments(tool))
    for resource in view.catalog.resources:
        await host.features.read_resource(SERVER_NAME, resource.uri)
    for prompt in view.catalog.prompts:
        await host.features.get_prompt(
            SERVER_NAME, prompt.name, {argument.name: "text" for argument in prompt.arguments}
        )


async def call_context_tools(host: Host, view: ServerView) -> None:
    """Call the tools that the suite lists in its context."""
    for call in CONTEXT["toolCalls"]:
        await host.tools.call(SERVER_NAME, call["name"], call["arguments"])


async def add_numbers(host: Host, view: ServerView) -> None:
    """Call the tool that adds two numbers."""
    await host.tools.call(SERVER_NAME, "add_numbers", {"a": 5, "b": 3})


async def echo_schema(host: Host, view: ServerView) -> None:
    """Send the schema of a tool back to the server exactly as it was listed."""
    tool = next(tool for tool in view.catalog.tools if tool.name == "json_schema_2020_12_tool")
    await host.tools.call(SERVER_NAME, "json_schema_echo", {"schema": loads(tool.input_schema)})


async def list_skills(host: Host, view: ServerView) -> None:
    """Check that skills are listed, and load none."""
    assert view.catalog.skills, view.catalog.left_out


async def load_skills(host: Host, view: ServerView) -> None:
    """Load every skill and read all of its files, as a host does for its model."""
    for skill in view.catalog.skills:
        await host.features.skills.load(SERVER_NAME, skill)
        for file in parse_skill_files(skill):
            await host.features.skills.read(SERVER_NAME, skill, file.uri)


SCENARIOS: dict[str, Callable[[Host, ServerView], Awaitable[None]]] = {
    "initialize": list_features,
    "request-metadata": list_features,
    "json-schema-ref-no-deref": list_features,
    "tools_call": add_numbers,
    "http-custom-headers": call_context_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skills,
    "sep-2640-client-verify-size": load_skills,
    "sep-2640-client-verify-frontmatter": load_skills,
}


async def browse(url: str) -> bool:
    """Follow the authorization server's redirects to the loopback listener, as a browser would."""
    async with httpx.AsyncClient(follow_redirects=True, trust_env=False, verify=False) as browser:
        return (await browser.get(url)).is_success


def create_oauth_registry() -> OAuthRegistry:
    """Return mcphost's OAuth registry with a fake browser and with secrets in memory."""
    return OAuthRegistry(
        TokenStore(MemoryBackend(), None), SignInPrompts(AcceptingFrontend(), browse), client_metadata_url=DOCUMENT_URL
    )


def issuer_url(url: str) -> str:
    """Return the issuer that the server's protected resource metadata names, which an operator would document."""
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource"
    for each in (f"{place}{parts.path}", place):
        answer = httpx.get(each, trust_env=False, verify=False)
        if answer.is_success:
            return answer.json()["authorization_servers"][0]
    raise AssertionError("this scenario has no metadata")


def oauth_config(scenario: str, url: str) -> OAuthConfig:
    """Return the OAuth settings that a user would write in mcp.json for this scenario."""
    known = OAuthConfig(client_id=CONTEXT.get("client_id", ""), client_secret=CONTEXT.get("client_secret", ""))
    if scenario.removeprefix("auth/") in MACHINE_SCENARIOS:
        known = replace(known, issuer=issuer_url(url))
    match scenario.removeprefix("auth/"):
        case "client-credentials-basic":
            return replace(known, grant="client_credentials")
        case "client-credentials-jwt":
            key, algorithm = CONTEXT["private_key_pem"], CONTEXT["signing_algorithm"]
            return replace(known, grant="client_credentials", key=key, algorithm=algorithm)
        case "wif-jwt-bearer":
            return replace(known, grant="workload", assertion=CONTEXT["valid_jwt"])
        case "enterprise-managed-authorization":
            return replace(
                known,
                grant="enterprise",
                idp_token=CONTEXT["idp_id_token"],
                idp_client_id=CONTEXT["idp_client_id"],
                idp_token_endpoint=CONTEXT["idp_token_endpoint"],
            )
        case _:
            return known


async def main(url: str) -> int:
    """Connect to the suite's server, run the scenario, and disconnect; return the exit code."""
    scenario = os.environ.get("MCP_CONFORMANCE_SCENARIO", "initialize")
    server = ServerConfig(name=SERVER_NAME, url=url, source="flag", oauth=oauth_config(scenario, url))
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder, "store.db"))
        opener = LazySessionOpener(HostConfig().limits, GrantStore(database), create_oauth_registry)
        host = build_host(
            HostConfig(servers=(server,)),
            store=database,
            opener=opener,
            model_factory=_no_model,
            frontend=AcceptingFrontend(),
        )
        try:
            async with host:
                view = await host.servers.ensure_ready(SERVER_NAME)
                await SCENARIOS.get(scenario, use_everything)(host, view)
        except McpHostError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        finally:
            await opener.close()
            await database.close()
    return 0


def _no_model(config: object) -> Any:
    raise AssertionError("no scenario needs a model")


if __name__ == "__main__":
    sys.exit(anyio.run(main, sys.argv[1]))
