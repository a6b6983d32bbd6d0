"""Guides for models: `llms-install.md` in a server's repository, as Cline's marketplace introduced it.

See https://github.com/cline/mcp-marketplace, "llms-install.md". Nobody checks such a file, so it is shown as text of a
stranger, and a model that gets it has nothing but the usual tools, which ask for each call.
"""

import logging
from urllib.parse import quote

import anyio

from mcphost.auth.url_policy import UnsafeUrl, check_url
from mcphost.errors import McpHostError, RegistryError
from mcphost.registry.entries import SourceRepository
from mcphost.serialization import Struct
from mcphost.transport.http_client import create_client
from mcphost.unicode_forms import split_url

GUIDE_FILE = "llms-install.md"
MAX_GUIDE_BYTES = 64 * 1024
GUIDE_TIMEOUT = 15.0
_log = logging.getLogger(__name__)


class InstallGuide(Struct, frozen=True):
    """A guide and the address it came from."""

    url: str
    text: str


def guide_url(repository: SourceRepository) -> str:
    """Return the address of the guide in a repository. Raises RegistryError if the host is not known."""
    try:
        parts = split_url(repository.url)
    except ValueError as error:
        raise RegistryError("The address of the repository is not valid.") from error
    words = [word for word in parts.path.removesuffix(".git").split("/") if word]
    folder = [word for word in repository.subfolder.split("/") if word]
    if parts.scheme != "https" or len(words) < 2 or any(word in (".", "..") for word in (*words, *folder)):
        raise RegistryError("The entry names no repository that a guide could be in.")
    path = "/".join(quote(word, safe="") for word in (*folder, GUIDE_FILE))
    if parts.netloc == "github.com":
        owner, name = (quote(word, safe="") for word in words[:2])
        return f"https://raw.githubusercontent.com/{owner}/{name}/HEAD/{path}"
    if parts.netloc == "gitlab.com":
        project = "/".join(quote(word, safe="") for word in words)
        return f"https://gitlab.com/{project}/-/raw/HEAD/{path}"
    raise RegistryError("Guides are looked for on github.com and gitlab.com only.", "Open the repository in a browser.")


async def fetch_guide(url: str) -> InstallGuide:
    """Download a guide; at most MAX_GUIDE_BYTES, within GUIDE_TIMEOUT seconds. Raises RegistryError."""
    try:
        check_url(url, "address of the guide")
        client = create_client(split_url(url).hostname or "", url, {}, warn=_log.warning)
    except (UnsafeUrl, McpHostError) as error:
        raise RegistryError(error.message) from error
    try:
        with anyio.fail_after(GUIDE_TIMEOUT):
            response = await client.request("GET", b"", {"accept": "text/plain, text/markdown"})
            try:
                if response.status != 200:
                    raise RegistryError(f"The repository has no {GUIDE_FILE} (HTTP {response.status}).")
                return InstallGuide(url, (await response.read_body(MAX_GUIDE_BYTES)).decode("utf-8", "replace"))
            finally:
                response.close()
    except TimeoutError as error:
        raise RegistryError(f"{url} did not answer within {GUIDE_TIMEOUT:g} s.") from error
    except RegistryError:
        raise
    except McpHostError as error:
        raise RegistryError(f"The guide cannot be read: {error.message}") from error
    finally:
        await client.close()
