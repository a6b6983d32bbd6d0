"""resources/list, resources/templates/list and resources/read (specification: server/resources)."""

from typing import Any, ClassVar

from mcphost.protocol.base import Annotations, Cacheable, Call, Empty, Icon, Page
from mcphost.protocol.content import ResourceContents
from mcphost.serialization import Raw, Wire

MOST_CONTENTS = 10_000


class Resource(Wire, frozen=True):
    """A resource a server offers."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


class ResourceTemplate(Wire, frozen=True):
    """A family of resources, as an RFC 6570 template."""

    uri_template: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


class ResourcePage(Page, frozen=True):
    """One page, entries raw."""

    resources: tuple[Raw, ...] = ()


class ListResources(Call[ResourcePage], frozen=True):
    """resources/list."""

    METHOD: ClassVar[str] = "resources/list"
    RESULT: ClassVar[type[Any]] = ResourcePage
    cursor: str | None = None


class TemplatePage(Page, frozen=True):
    """One page, entries raw."""

    resource_templates: tuple[Raw, ...] = ()


class ListTemplates(Call[TemplatePage], frozen=True):
    """resources/templates/list."""

    METHOD: ClassVar[str] = "resources/templates/list"
    RESULT: ClassVar[type[Any]] = TemplatePage
    cursor: str | None = None


class ReadResult(Cacheable, frozen=True):
    """What a resource holds; a directory-like resource may give several entries."""

    contents: tuple[ResourceContents, ...] = ()

    def __post_init__(self) -> None:
        """Refuse more entries than anybody reads; raises ValueError, which decoding turns into MalformedMessage."""
        if len(self.contents) > MOST_CONTENTS:
            raise ValueError(f"a resource of more than {MOST_CONTENTS:,} entries")


class ReadResource(Call[ReadResult], frozen=True):
    """resources/read."""

    METHOD: ClassVar[str] = "resources/read"
    RESULT: ClassVar[type[Any]] = ReadResult
    uri: str


class Subscribe(Call[Empty], frozen=True):
    """resources/subscribe (handshake era)."""

    METHOD: ClassVar[str] = "resources/subscribe"
    RESULT: ClassVar[type[Any]] = Empty
    uri: str


class Unsubscribe(Call[Empty], frozen=True):
    """resources/unsubscribe (handshake era)."""

    METHOD: ClassVar[str] = "resources/unsubscribe"
    RESULT: ClassVar[type[Any]] = Empty
    uri: str


class NotFound(Wire, frozen=True):
    """The data of the error for a resource that is not there."""

    uri: str = ""
