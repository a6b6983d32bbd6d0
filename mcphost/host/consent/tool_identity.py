"""What consent is about: one tool of one server, each with the digest of what it is now."""

from typing import Any

from mcphost.config.rules import Rule, covers_name
from mcphost.host.consent.rule_matching import Asked
from mcphost.host.servers.catalog import ListedTool
from mcphost.host.servers.tool_registry import Offered
from mcphost.protocol.tools import Tool
from mcphost.serialization import Data
from mcphost.store.grants import Grant


class Subject(Data, frozen=True, kw_only=True):
    """A tool, and beside it everything that its server offered when the question arose.

    A rule about several tools is bound to those: what a server adds while its question is open was not seen.
    `claim_counts`: the server claims that the tool only reads, and the user chose to believe it.
    """

    server: str
    server_digest: str
    tool: str
    digest: str
    beside: dict[str, ListedTool] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    account: str = ""
    folder: str | None = None
    claim_counts: bool = False

    def asked(self, arguments: dict[str, Any]) -> Asked:
        """A call of it, as rules see it."""
        return Asked(server=self.server, tool=self.tool, arguments=arguments, account=self.account, folder=self.folder)


def subject_of(offered: Offered) -> Subject:
    """That tool now."""
    connection, listed = offered.connection, offered.listed
    return Subject(
        server=connection.config.name,
        server_digest=connection.digest,
        tool=listed.name,
        digest=listed.digest,
        beside=connection.offers.tools,
        account=connection.account,
        folder=connection.folder,
        claim_counts=reads_only(listed.tool) and connection.config.trust_annotations,
    )


def reads_only(tool: Tool) -> bool:
    """Whether its server claims that it only reads: a claim, which nobody checked."""
    claims = tool.annotations
    return claims is not None and claims.read_only_hint is True and claims.destructive_hint is not True


def granted(subject: Subject, rule: Rule) -> Grant:
    """The grant of that rule, bound to what it covers now."""
    tools = {name: listed.digest for name, listed in subject.beside.items() if covers_name(rule.tool, name)}
    if covers_name(rule.tool, subject.tool):
        tools[subject.tool] = subject.digest
    return Grant(rule=rule, server_digest=subject.server_digest, tools=tools, account=subject.account)
