"""One server's tools, resources and prompts as last seen, with the digest of each tool; and what changed."""

from mcphost.client.listing import Listing, list_prompts, list_resources, list_templates, list_tools
from mcphost.client.session import Session
from mcphost.data import Data, Raw, replace
from mcphost.errors import Refused
from mcphost.host.fingerprint import fingerprint
from mcphost.host.views import Catalog
from mcphost.protocol.jsonrpc import METHOD_NOT_FOUND
from mcphost.protocol.resources import ResourceTemplate
from mcphost.protocol.tools import Tool


class ListedTool(Data, frozen=True):
    """A tool and the bytes that define it."""

    tool: Tool
    raw: Raw

    @property
    def digest(self) -> str:
        """Computed when asked for: most tools are never called."""
        return fingerprint(self.raw)


class Offers(Data, frozen=True):
    """Everything one server offers: the public catalog, and its tools by name."""

    catalog: Catalog = Catalog()
    tools: dict[str, ListedTool] = {}  # noqa: RUF012


class Difference(Data, frozen=True):
    """Names of tools that came, went, or are not what they were."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.added or self.removed or self.changed)


async def fetch(session: Session) -> Offers:
    """Every list the server declares, all pages. Raises what `Session.request` raises."""
    capabilities = session.facts.capabilities
    catalog = Catalog()
    named: dict[str, ListedTool] = {}
    left_out: list[str] = []
    if capabilities.tools is not None:
        listing = await list_tools(session)
        left_out.extend(listing.problems)
        for entry in listing.entries:
            if entry.value.name in named:
                left_out.append(f"A second tool named {entry.value.name[:200]!r} was left out.")
            elif not bytes(entry.value.input_schema).lstrip().startswith(b"{"):
                left_out.append(f"The tool {entry.value.name[:200]!r} was left out: its inputSchema is not an object.")
            else:
                named[entry.value.name] = ListedTool(entry.value, entry.raw)
        catalog = replace(catalog, tools=tuple(listed.tool for listed in named.values()))
    if capabilities.resources is not None:
        resources = await list_resources(session)
        templates = await _templates(session)
        left_out.extend((*resources.problems, *templates.problems))
        catalog = replace(catalog, resources=resources.values, templates=templates.values)
    if capabilities.prompts is not None:
        prompts = await list_prompts(session)
        left_out.extend(prompts.problems)
        catalog = replace(catalog, prompts=prompts.values)
    return Offers(replace(catalog, left_out=tuple(left_out)), named)


async def _templates(session: Session) -> Listing[ResourceTemplate]:
    try:
        return await list_templates(session)
    except Refused as error:
        # Servers that declare resources often leave this one method out.
        if error.code != METHOD_NOT_FOUND:
            raise
        return Listing()


def difference(before: Offers, after: Offers) -> Difference:
    """What changed between two looks at the same server."""
    old, new = before.tools, after.tools
    return Difference(
        added=tuple(name for name in new if name not in old),
        removed=tuple(name for name in old if name not in new),
        changed=tuple(
            name
            for name, tool in new.items()
            if name in old and bytes(old[name].raw) != bytes(tool.raw) and old[name].digest != tool.digest
        ),
    )
