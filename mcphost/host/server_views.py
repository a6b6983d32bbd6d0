"""Immutable views of servers, catalogs and results for frontends, and selection of the icons that may be shown."""

import binascii
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mcphost.client.session import ServerFacts
from mcphost.config.schema import ServerConfig
from mcphost.errors import McpHostError
from mcphost.host.events import ServerLog, ServerStateName
from mcphost.host.server_requests.root_folders import KnownRoots
from mcphost.llm.messages import ImagePart
from mcphost.pluralize import pluralize
from mcphost.protocol.base import Icon, is_set
from mcphost.protocol.prompts import Prompt
from mcphost.protocol.resources import Resource, ResourceTemplate
from mcphost.protocol.skills import Skill
from mcphost.protocol.tools import CallToolResult, Tool
from mcphost.serialization import Raw, Struct, decode_or_none
from mcphost.translation import N_
from mcphost.unicode_forms import split_url

if TYPE_CHECKING:
    from mcphost.client.session import Account
    from mcphost.sandbox.schema_validator import SchemaViolation
    from mcphost.store.page_results import StoredPageCall


class SchemaErrors(Struct, frozen=True):
    """Violations of an input schema, as one sentence and as a list; false in a boolean context if there are none."""

    sentence: str = ""
    faults: "tuple[SchemaViolation, ...]" = ()

    def __bool__(self) -> bool:
        return bool(self.sentence)


class OutputValidation(Struct, frozen=True):
    """Result of validating a tool's output against its output schema.

    `outcome` is one of these:

    - "none": nothing was checked, for example because there is no schema or the tool reported an error
    - "fits": the output is valid
    - "misfit": the output is invalid; `text` is the reason
    - "unchecked": the output could not be validated; `text` is the reason
    """

    outcome: Literal["none", "fits", "misfit", "unchecked"] = "none"
    text: str = ""


class Catalog(Struct, frozen=True):
    """The tools, resources, prompts and skills of one server, as last listed.

    `left_out` contains a sentence for each omitted entry.
    """

    tools: Sequence[Tool] = ()
    """The definitions of the tools; each is decoded when it is accessed."""

    resources: tuple[Resource, ...] = ()
    templates: tuple[ResourceTemplate, ...] = ()
    prompts: tuple[Prompt, ...] = ()
    skills: tuple[Skill, ...] = ()
    left_out: tuple[str, ...] = ()


def summarize_catalog(catalog: Catalog) -> str:
    """Return the numbers of tools, resources and prompts as text, such as "3 tools, 1 resource, 0 prompts"."""
    kinds = ((catalog.tools, "tool"), (catalog.resources, "resource"), (catalog.prompts, "prompt"))
    return ", ".join(pluralize(len(items), noun) for items, noun in kinds)


def estimate_definition_tokens(tool: Tool) -> int:
    """Estimate how many tokens a tool's definition adds to each model request."""
    from mcphost.llm.token_estimate import estimate_definition  # loaded with the first list of tools

    return estimate_definition(tool.name, tool.description or "", bytes(tool.input_schema))


def describe_capabilities(facts: ServerFacts) -> str:
    """Return the capabilities that a server declared, separated by commas, or "nothing" if it declared none."""
    given = facts.capabilities
    words = [
        name + (" (reports changes)" if item.list_changed else "")
        for name, item in (("tools", given.tools), ("resources", given.resources), ("prompts", given.prompts))
        if item is not None
    ]
    words.extend(
        name
        for name, raw in (
            (N_("logging"), given.logging),
            (N_("completions"), given.completions),
            ("tasks", given.tasks),
        )
        if bytes(raw)
    )
    return ", ".join(words) or "nothing"


class ServerView(Struct, frozen=True):
    """Snapshot of the state of one server.

    - `facts` is None until the server is ready.
    - `log` contains the newest lines, oldest first.
    - `counts` maps descriptions of unusual messages, such as dropped or refused ones, to the number of these
      messages since the server started.
    - `account` is the account in use; `sign_in_status` describes the progress of a sign-in.
    - `quarantined` contains the names of changed tools that the user has not accepted.
    - `known_roots` contains the folders that the server has received, and the user's answer about sharing them.
    """

    config: ServerConfig
    state: ServerStateName
    detail: str = ""
    hint: str = ""
    facts: ServerFacts | None = None
    catalog: Catalog = Catalog()
    log: tuple[ServerLog, ...] = ()
    counts: dict[str, int] = {}  # noqa: RUF012 - msgspec copies mutable defaults
    account: "Account | None" = None
    quarantined: tuple[str, ...] = ()
    known_roots: KnownRoots = KnownRoots()
    sign_in_status: str = ""
    starting_seconds: float = 0.0
    """Seconds since the server began to start; 0 unless it is starting."""

    disabled_tools: tuple[str, ...] = ()
    """The names of the tools that the user turned off for the model."""

    retry_seconds: float = 0.0
    """Seconds until mcphost next tries to reach an unreachable server; 0 if it does not, or is trying now."""

    @property
    def name(self) -> str:
        """The name of the server in the configuration."""
        return self.config.name


class OpenedPage(Struct, frozen=True):
    """An open interactive page of a tool, with its address on this machine, and whether a browser shows it now."""

    number: int
    server: str
    tool: str
    uri: str
    url: str
    port: int
    is_shown: bool = False


class ManualCallResult(Struct, frozen=True):
    """The result of a tool call by the user: as received, as text, and validated against the output schema.

    - `text` and `images` are for the user; `shown_text` is `text` preceded by mcphost's note on it.
    - `model_text` and `model_images` are for the model, without the parts that are meant only for the user. They
      are None if they would be the same as `text` and `images`.
    - `target` identifies the server; see `Message.servers`.
    - `page` is the record from which a later run can open the tool's interactive page, None if it has none.
    """

    result: CallToolResult
    text: str
    seconds: float
    validation: OutputValidation = OutputValidation()
    arguments: dict[str, Any] | None = None
    shown_text: str = ""
    images: tuple[ImagePart, ...] = ()
    model_text: str | None = None
    model_images: tuple[ImagePart, ...] | None = None
    target: str = ""
    page: "StoredPageCall | None" = None

    @property
    def is_error(self) -> bool:
        """Whether the tool reported an error, or the result does not match the tool's output schema."""
        return self.result.is_error or self.validation.outcome == "misfit"

    def find_user_images(self) -> tuple[int, ...]:
        """Return the indexes of the images that are meant only for the user."""
        allowed, found = list(self.images if self.model_images is None else self.model_images), list[int]()
        for at, image in enumerate(self.images):
            if image in allowed:
                allowed.remove(image)
            else:
                found.append(at)
        return tuple(found)


class ReleasedResult(NamedTuple):
    """The text and the images of a result that the user passes on to the model."""

    text: str
    images: tuple[ImagePart, ...] = ()


class TurnResult(Struct, frozen=True):
    """Result of a turn: the model's last text, the number of declined tool calls, and the error if the turn failed."""

    outcome: str
    text: str
    declined: int = 0
    failure: McpHostError | None = None

    @property
    def error(self) -> str:
        """The message of the error, "" if there is none."""
        return self.failure.message if self.failure is not None else ""

    @property
    def hint(self) -> str:
        """The hint of the error, "" if there is none."""
        return self.failure.hint if self.failure is not None else ""


DATA_LIMIT = 256 * 1024
ICON_LIMIT = 20
_IMAGE_PREFIXES = ("data:image/png;base64,", "data:image/jpeg;base64,", "data:image/webp;base64,")


def parse_icons(raw: Raw) -> tuple[Icon, ...]:
    """Decode a list of icons; return an empty tuple if the JSON is invalid."""
    return (decode_or_none(raw, tuple[Icon, ...]) or ()) if is_set(raw) else ()


def find_drawable(icons: tuple[Icon, ...], *, dark: bool) -> ImagePart | None:
    """Return the best icon that can be drawn without a network request, or None if there is none.

    The icon must be a data: URL with a PNG, JPEG or WebP image, whose first bytes match the declared type
    (specification 2026-07-28, basic#icons). Icons for a dark theme (if *dark* is true) or a light one are
    preferred, followed by icons for any theme.
    """
    from mcphost.sandbox.image_formats import HEADER_BYTES, identify_image  # loaded with the first icon

    theme = "dark" if dark else "light"
    order = {theme: 0, None: 1}
    for icon in sorted(allowed_icons(icons, ""), key=lambda icon: order.get(icon.theme, 2)):
        head, _, data = icon.src.partition(",")
        claimed = head[len("data:") :].partition(";")[0].lower()
        try:
            info = identify_image(binascii.a2b_base64(data[: HEADER_BYTES // 3 * 4]))
        except (binascii.Error, ValueError):
            continue
        if info is not None and info.mime_type == claimed and not info.is_too_big:
            return ImagePart(claimed, data)
    return None


def allowed_icons(icons: tuple[Icon, ...], server_url: str) -> tuple[Icon, ...]:
    """Return the icons that may be shown: embedded ones, and https icons from the origin of an https server."""
    return tuple(icon for icon in icons[:ICON_LIMIT] if _is_allowed(icon.src, server_url))


def _is_allowed(src: str, server_url: str) -> bool:
    if src[:5].lower() == "data:":
        return src.lower().startswith(_IMAGE_PREFIXES) and len(src) <= DATA_LIMIT
    try:
        source, server = split_url(src), split_url(server_url)
        return (
            source.scheme == "https"
            and server.scheme == "https"
            and bool(source.hostname)
            and source.hostname == server.hostname
            and (source.port or 443) == (server.port or 443)
            and source.username is None
        )
    except ValueError:
        return False
