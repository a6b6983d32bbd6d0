"""Form that saves a resource to a new file."""

import re
from typing import TYPE_CHECKING

import anyio.to_thread

from mcphost.host.content_rendering import decode_contents
from mcphost.protocol.resources import Resource
from mcphost.translation import _
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.save_file import SaveFileForm, resolve_file_name, write_new_file

if TYPE_CHECKING:
    from mcphost.host.host import Host

_MAX_NAME = 80


def suggest_name(resource: Resource) -> str:
    """Return a file name without a folder, derived from the resource's URI and media type."""
    import mimetypes

    last = resource.uri.partition("?")[0].rpartition("/")[2] or resource.name
    name = re.sub(r"[^\w.-]+", "-", last[:1_000]).strip("-.")[:_MAX_NAME] or "resource"
    return name if "." in name else name + (mimetypes.guess_extension(resource.mime_type or "") or "")


class SaveResourceForm(SaveFileForm):
    """Form that reads a resource and writes its content to a new file."""

    def __init__(self, host: "Host", server: str, resource: Resource) -> None:
        super().__init__()
        self._host, self._server, self._resource = host, server, resource

    def headline(self) -> str:
        """Return the title."""
        return _("Save the resource")

    def description(self) -> str:
        """Return a line that names the server and the URI of the resource."""
        return clean_line(f"{self._server} · {self._resource.uri}", 500)

    def suggest_name(self) -> str:
        """Return a file name derived from the resource's URI and media type."""
        return suggest_name(self._resource)

    async def write(self, name: str) -> str:
        """Read the resource, write its content to the file *name*, and return a message to show to the user.

        Raises McpHostError if the resource cannot be read or does not have exactly one part, or if the file cannot be
        written.
        """
        result = await self._host.features.read_resource(self._server, self._resource.uri)
        content = await anyio.to_thread.run_sync(decode_contents, result.contents)
        return await anyio.to_thread.run_sync(write_new_file, resolve_file_name(name), content)
