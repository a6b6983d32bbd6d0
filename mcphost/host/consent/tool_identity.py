"""Identity of a tool for consent: the server and the tool, each with its present digest."""

from typing import Any

from mcphost.config.rules import Rule, pattern_covers
from mcphost.host.consent.rule_matching import RuleInput
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import Tool
from mcphost.serialization import Struct
from mcphost.store.grants import Grant


class ToolIdentity(Struct, frozen=True, kw_only=True):
    """A tool, and all tools that its server offered when the question was asked.

    A rule about several tools is bound to these: tools added while the question is open were not shown.
    `is_read_only_trusted`: the server claims that the tool only reads, and the user trusts its claims.
    """

    server: str
    server_digest: str
    tool: str
    digest: str
    server_tools: dict[str, ToolDefinition] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    account: str = ""
    folder: str | None = None
    is_read_only_trusted: bool = False

    def to_rule_input(self, arguments: dict[str, Any]) -> RuleInput:
        """Return a call of the tool for rules."""
        return RuleInput(
            server=self.server, tool=self.tool, arguments=arguments, account=self.account, folder=self.folder
        )


def identify_tool(offered: OfferedTool) -> ToolIdentity:
    """Return the present identity of a tool."""
    connection, listed = offered.connection, offered.definition
    return ToolIdentity(
        server=connection.config.name,
        server_digest=connection.digest,
        tool=listed.name,
        digest=listed.digest,
        server_tools=connection.listing.tools,
        account=connection.account,
        folder=connection.folder,
        is_read_only_trusted=has_read_only_hint(listed.tool) and connection.config.trust_annotations,
    )


def has_read_only_hint(tool: Tool) -> bool:
    """Return whether the server claims that the tool only reads; the claim is unverified."""
    claims = tool.annotations
    return claims is not None and claims.read_only_hint is True and claims.destructive_hint is not True


def make_grant(identity: ToolIdentity, rule: Rule) -> Grant:
    """Return the grant of this rule, bound to the tools it covers now."""
    tools = {name: listed.digest for name, listed in identity.server_tools.items() if pattern_covers(rule.tool, name)}
    if pattern_covers(rule.tool, identity.tool):
        tools[identity.tool] = identity.digest
    return Grant(rule=rule, server_digest=identity.server_digest, tools=tools, account=identity.account)
