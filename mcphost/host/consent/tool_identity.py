"""What consent is about: one tool of one server, each with the digest of what it is now."""

from typing import Any

from mcphost.config.rules import Rule, pattern_covers
from mcphost.host.consent.rule_matching import RuleInput
from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.tool_registry import OfferedTool
from mcphost.protocol.tools import Tool
from mcphost.serialization import Struct
from mcphost.store.grants import Grant


class ToolIdentity(Struct, frozen=True, kw_only=True):
    """A tool, and beside it everything that its server offered when the question arose.

    A rule about several tools is bound to those: what a server adds while its question is open was not seen.
    `claim_counts`: the server claims that the tool only reads, and the user chose to believe it.
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
        """A call of it, as rules see it."""
        return RuleInput(
            server=self.server, tool=self.tool, arguments=arguments, account=self.account, folder=self.folder
        )


def identify_tool(offered: OfferedTool) -> ToolIdentity:
    """That tool now."""
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
    """Whether its server claims that it only reads: a claim, which nobody checked."""
    claims = tool.annotations
    return claims is not None and claims.read_only_hint is True and claims.destructive_hint is not True


def make_grant(identity: ToolIdentity, rule: Rule) -> Grant:
    """The grant of that rule, bound to what it covers now."""
    tools = {name: listed.digest for name, listed in identity.server_tools.items() if pattern_covers(rule.tool, name)}
    if pattern_covers(rule.tool, identity.tool):
        tools[identity.tool] = identity.digest
    return Grant(rule=rule, server_digest=identity.server_digest, tools=tools, account=identity.account)
