"""Messages for resources and resource templates (specification: server/resources)."""

from typing import Any, ClassVar

from mcphost.protocol.base import Annotations, CacheableResult, ClientRequest, EmptyResult, Icon, PaginatedResult
from mcphost.protocol.content import ResourceContents
from mcphost.serialization import Raw, WireStruct

MAX_CONTENTS = 10_000


class Resource(WireStruct, frozen=True):
    """A resource that a server offers."""

    uri: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: float | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


class ResourceTemplate(WireStruct, frozen=True):
    """Description of the resources whose URIs match an RFC 6570 template."""

    uri_template: str
    name: str = ""
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: Annotations | None = None
    icons: tuple[Icon, ...] = ()


class ListResourcesResult(PaginatedResult, frozen=True):
    """One page of resources, each as raw JSON."""

    resources: tuple[Raw, ...] = ()


class ListResources(ClientRequest[ListResourcesResult], frozen=True):
    """The resources/list request, which returns one page of resources."""

    METHOD: ClassVar[str] = "resources/list"
    RESULT: ClassVar[type[Any]] = ListResourcesResult
    cursor: str | None = None


class ListResourceTemplatesResult(PaginatedResult, frozen=True):
    """One page of resource templates, each as raw JSON."""

    resource_templates: tuple[Raw, ...] = ()


class ListResourceTemplates(ClientRequest[ListResourceTemplatesResult], frozen=True):
    """The resources/templates/list request, which returns one page of templates."""

    METHOD: ClassVar[str] = "resources/templates/list"
    RESULT: ClassVar[type[Any]] = ListResourceTemplatesResult
    cursor: str | None = None


class ReadResourceResult(CacheableResult, frozen=True):
    """Result of resources/read; it can have several entries, for example for a directory."""

    contents: tuple[ResourceContents, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if there are too many entries; decoding turns it into MalformedMessage."""
        if len(self.contents) > MAX_CONTENTS:
            raise ValueError(f"a resource of more than {MAX_CONTENTS:,} entries")


class ReadResource(ClientRequest[ReadResourceResult], frozen=True):
    """The resources/read request for the contents of one URI."""

    METHOD: ClassVar[str] = "resources/read"
    RESULT: ClassVar[type[Any]] = ReadResourceResult
    uri: str


class Subscribe(ClientRequest[EmptyResult], frozen=True):
    """The resources/subscribe request (before protocol revision 2026-07-28)."""

    METHOD: ClassVar[str] = "resources/subscribe"
    RESULT: ClassVar[type[Any]] = EmptyResult
    uri: str


class Unsubscribe(ClientRequest[EmptyResult], frozen=True):
    """The resources/unsubscribe request (before protocol revision 2026-07-28)."""

    METHOD: ClassVar[str] = "resources/unsubscribe"
    RESULT: ClassVar[type[Any]] = EmptyResult
    uri: str


class ResourceNotFoundData(WireStruct, frozen=True):
    """The `data` member of the error for an unknown resource."""

    uri: str = ""
