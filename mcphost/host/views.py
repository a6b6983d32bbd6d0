"""Immutable views of servers and their offers for frontends."""

from collections.abc import Sequence
from typing import Literal

from mcphost.client.session import Account, ServerFacts
from mcphost.config.schema import ServerConfig
from mcphost.host.events import ServerLog, ServerStateName
from mcphost.host.server_requests.root_list import KnownRoots
from mcphost.pluralize import pluralize
from mcphost.protocol.prompts import Prompt
from mcphost.protocol.resources import Resource, ResourceTemplate
from mcphost.protocol.skills import Skill
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.serialization import Struct


class OutputValidation(Struct, frozen=True):
    """Outcome of a validation: `none` if the tool has no schema; `text` is a sentence on the rest."""

    outcome: Literal["none", "fits", "misfit", "unchecked"] = "none"
    text: str = ""


class Catalog(Struct, frozen=True):
    """The lists of one server as last fetched; `left_out` names omitted entries."""

    tools: Sequence[Tool] = ()
    """Each is decoded on access."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    skills: tuple[Skill, ...] = ()
    left_out: tuple[str, ...] = ()


def summarize_catalog(catalog: Catalog) -> str:
    """Return the number of tools, resources and prompts as a phrase."""
    kinds = ((catalog.tools, "tool"), (catalog.resources, "resource"), (catalog.prompts, "prompt"))
    return ", ".join(pluralize(len(items), noun) for items, noun in kinds)


class ServerView(Struct, frozen=True):
    """A snapshot of one server.

    `facts` is None until it is ready; `log` has the newest lines, oldest first. `counts` has the number of dropped,
    refused or unusual messages since the start, by kind in words. `account` is the sign-in in use, `sign_in_status` the
    progress of a sign-in, in words. `quarantined` names the changed tools. `known_roots` is what the server received of
    the user's folders.
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
    """Seconds since the start began, 0 unless it is starting."""

    disabled_tools: tuple[str, ...] = ()
    """Tools that are off for the model."""

    @property
    def name(self) -> str:
        """The configured name."""
        return self.config.name


class ManualCallResult(Struct, frozen=True):
    """The result of a manual call: raw, as text, and the validation of its structure."""

    result: CallToolResult
    text: str
    seconds: float
    validation: OutputValidation = OutputValidation()


class TurnResult(Struct, frozen=True):
    """The outcome of a turn. `declined` counts refused calls; `error` is empty unless it failed.

    `exit_code` is that of a command: 5 when a call was declined, 7 when the model did not finish, for example because
    its rounds of tool calls were used up.
    """

    outcome: str
    text: str
    declined: int = 0
    error: str = ""
    hint: str = ""
    exit_code: int = 0
