"""What a front end may look at: immutable pictures of servers and their offers."""

from collections.abc import Sequence

from mcphost.client.session import Account, ServerFacts
from mcphost.config.schema import ServerConfig
from mcphost.host.events import ServerLog, ServerStateName
from mcphost.host.results.schema_verdict import OutputValidation
from mcphost.host.server_requests.root_list import KnownRoots
from mcphost.pluralize import pluralize
from mcphost.protocol.prompts import Prompt
from mcphost.protocol.resources import Resource, ResourceTemplate
from mcphost.protocol.skills import Skill
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.serialization import Struct


class Catalog(Struct, frozen=True):
    """One server's lists as last seen, and what had to be left out, in words."""

    tools: Sequence[Tool] = ()
    """Each is decoded anew whenever it is looked at."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    skills: tuple[Skill, ...] = ()
    left_out: tuple[str, ...] = ()


def summarize_catalog(catalog: Catalog) -> str:
    """How many tools, resources and prompts it has, in words."""
    kinds = ((catalog.tools, "tool"), (catalog.resources, "resource"), (catalog.prompts, "prompt"))
    return ", ".join(pluralize(len(found), noun) for found, noun in kinds)


class ServerView(Struct, frozen=True):
    """One server now. `facts` is None until it was ready once; `log` is the newest lines, oldest first.

    `counts` says how often something was left out, refused or odd since the program started, by kind in words.
    `account` is the sign-in that serves it, None for none; `signing` where a sign-in is that goes on, in words.
    `held` names the tools that changed and wait for the user to see how. `folders` is what it was told of the user's.
    """

    config: ServerConfig
    state: ServerStateName
    detail: str = ""
    hint: str = ""
    facts: ServerFacts | None = None
    catalog: Catalog = Catalog()
    log: tuple[ServerLog, ...] = ()
    counts: dict[str, int] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    account: Account | None = None
    quarantined: tuple[str, ...] = ()
    known_roots: KnownRoots = KnownRoots()
    sign_in_status: str = ""
    starting_seconds: float = 0.0
    """For how many seconds it has been starting; 0 when it is not."""

    disabled_tools: tuple[str, ...] = ()
    """Tools that are switched off: the model is not told of them."""

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name


class ManualCallResult(Struct, frozen=True):
    """What a call by hand gave: the raw result, its text, and what came of checking its structure."""

    result: CallToolResult
    text: str
    seconds: float
    validation: OutputValidation = OutputValidation()


class TurnResult(Struct, frozen=True):
    """How a turn ended. `declined` counts calls that were refused; `error` is empty unless it failed.

    `exit_code` is what a command ends with: 5 when a call was declined, 7 when the model did not come to an end, also
    because its rounds of tool calls were used up.
    """

    outcome: str
    text: str
    declined: int = 0
    error: str = ""
    hint: str = ""
    exit_code: int = 0


class ConversationInfo(Struct, frozen=True):
    """One stored conversation in a list; times are seconds since 1970."""

    id: str
    title: str
    model: str
    messages: int
    created: float
    updated: float
