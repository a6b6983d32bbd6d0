"""Features: what a user may do with a server besides its tools: resources, templates, prompts, completion."""

from collections.abc import Mapping

from mcphost.client.session import Session
from mcphost.host import templates
from mcphost.host.servers import Servers
from mcphost.protocol.completion import MAX_VALUES, Argument, Complete, Completion, Context, Ref
from mcphost.protocol.prompts import GetPrompt, PromptResult
from mcphost.protocol.resources import ReadResource, ReadResult
from mcphost.protocol.revisions import Revision


class Features:
    """Made by the host and reached as `host.features`; every method may be called from any task of the host.

    What waits for a server starts it when it is not started, and raises ServerError, Declined or UsageError.
    """

    def __init__(self, servers: Servers) -> None:
        self._servers = servers

    async def _session(self, server: str) -> Session:
        return await self._servers.start(server).session()

    # -- resources
    async def read(self, server: str, uri: str) -> ReadResult:
        """Read one resource, its address exactly as given."""
        session = await self._session(server)
        return await session.request(ReadResource(uri))

    def variables(self, template: str) -> tuple[str, ...]:
        """What a form has to ask for before `expand`. Raises UsageError for what is no template."""
        return templates.variables(template)

    def expand(self, template: str, values: Mapping[str, str]) -> str:
        """The address that a template and values make (RFC 6570), bounded. Raises UsageError."""
        return templates.expand(template, values)

    # -- prompts
    async def prompt(self, server: str, name: str, arguments: Mapping[str, str]) -> PromptResult:
        """Fill one prompt."""
        session = await self._session(server)
        return await session.request(GetPrompt(name, dict(arguments)))

    # -- completion
    async def complete(
        self, server: str, ref: Ref, argument: str, value: str, context: Mapping[str, str] | None = None
    ) -> Completion:
        """What the server suggests for an argument of which `value` is typed; `context` is what is filled in already.

        A server that declared no completions is not asked: NotOffered.
        """
        session = await self._session(server)
        facts = session.facts
        filled = Context(dict(context)) if context and facts.revision >= Revision.V2025_06_18 else None
        found = (await session.request(Complete(ref, Argument(argument, value), filled))).completion
        values = found.values[:MAX_VALUES]
        return Completion(values, found.total, found.has_more or len(found.values) > MAX_VALUES)
