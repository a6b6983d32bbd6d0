"""Messages for resources and resource templates (specification: server/resources)."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable
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
    """Result of resources/read, which can have several contents, for example for a directory."""

    contents: tuple[ResourceContents, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if there are too many contents; `decode` turns the error into MalformedMessage."""
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


class UriIndex:
    """Set of resource URIs that finds the resources affected by an update notification.

    A notification about an updated resource can name a sub-resource: a URI that extends the URI of the resource with a
    path, query or fragment. The time taken by `find` grows with the length of the URI, not with the size of the set.
    """

    def __init__(self, uris: Iterable[str] = ()) -> None:
        self._uris: set[str] = set()
        self._counts: Counter[int] = Counter()
        self._lengths: list[int] = []
        for uri in uris:
            self.add(uri)

    def add(self, uri: str) -> None:
        """Add a URI; do nothing if it is present."""
        if uri in self._uris:
            return
        self._uris.add(uri)
        self._counts[len(uri)] += 1
        if self._counts[len(uri)] == 1:
            insort(self._lengths, len(uri))

    def discard(self, uri: str) -> None:
        """Remove a URI; do nothing if it is absent."""
        if uri not in self._uris:
            return
        self._uris.remove(uri)
        self._counts[len(uri)] -= 1
        if not self._counts[len(uri)]:
            del self._lengths[bisect_left(self._lengths, len(uri))]

    def find(self, uri: str) -> list[str]:
        """Return the URIs in the set that an update of *uri* affects, shortest first."""
        found: list[str] = []
        size = len(uri)
        for length in self._lengths:
            if length >= size:
                break
            if (uri[length] in "/#?" or uri[length - 1 : length] in "/#?") and (start := uri[:length]) in self._uris:
                found.append(start)
        if uri in self._uris:
            found.append(uri)
        return found
