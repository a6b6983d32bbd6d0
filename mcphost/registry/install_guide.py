"""Installation guides that a model can follow: the file `llms-install.md` in a server's repository.

The file is a convention of Cline's marketplace: https://github.com/cline/mcp-marketplace. Without such a file, the
README is the guide. Guides are not verified, so they are shown as untrusted text. A model that receives a guide has
only its usual tools, and every tool call needs the usual approval.
"""

import logging
from collections.abc import Sequence
from urllib.parse import quote

import anyio

from mcphost.auth.url_policy import UnsafeUrl, check_url
from mcphost.errors import McpHostError, RegistryError
from mcphost.registry.entries import SourceRepository
from mcphost.serialization import Struct
from mcphost.transport.http_client import create_client
from mcphost.unicode_forms import split_url

GUIDE_FILES = ("llms-install.md", "llms-installation.md", "README.md")
"""File names of guides, in the order in which they are tried."""
MAX_GUIDE_BYTES = 64 * 1024
GUIDE_TIMEOUT = 15.0
_log = logging.getLogger(__name__)


class InstallGuide(Struct, frozen=True):
    """The text of an installation guide, and the URL that it was downloaded from."""

    url: str
    text: str


def guide_urls(repository: SourceRepository) -> tuple[str, ...]:
    """Return the URLs at which a repository may have an installation guide, best first.

    Raises RegistryError if the repository's URL is invalid or its host is not supported.
    """
    try:
        parts = split_url(repository.url)
    except ValueError as error:
        raise RegistryError("The address of the repository is not valid.") from error
    words = [word for word in parts.path.removesuffix(".git").split("/") if word]
    folder = [word for word in repository.subfolder.split("/") if word]
    if parts.scheme != "https" or len(words) < 2 or any(word in (".", "..") for word in (*words, *folder)):
        raise RegistryError("The entry names no repository that a guide could be in.")
    if parts.netloc == "github.com":
        owner, name = (quote(word, safe="") for word in words[:2])
        root = f"https://raw.githubusercontent.com/{owner}/{name}/HEAD"
    elif parts.netloc == "gitlab.com":
        project = "/".join(quote(word, safe="") for word in words)
        root = f"https://gitlab.com/{project}/-/raw/HEAD"
    else:
        known = "Guides are available from github.com and gitlab.com only."
        raise RegistryError(known, "Open the repository in a browser.")
    return tuple("/".join((root, *(quote(word, safe="") for word in (*folder, file)))) for file in GUIDE_FILES)


async def fetch_guide(urls: Sequence[str]) -> InstallGuide:
    """Download the first installation guide that exists.

    Each URL is tried for at most GUIDE_TIMEOUT seconds. Raises RegistryError if there is no guide, or if the guide
    cannot be read or is larger than MAX_GUIDE_BYTES.
    """
    for url in urls:
        if (text := await _download(url)) is not None:
            return InstallGuide(url, text)
    raise RegistryError(f"The repository has no {', '.join(GUIDE_FILES[:-1])} or {GUIDE_FILES[-1]}.")


async def _download(url: str) -> str | None:
    """Return the text at a URL, or None if there is no such file. Raises RegistryError if it cannot be read."""
    try:
        check_url(url, "address of the guide")
        client = create_client(split_url(url).hostname or "", url, {}, warn=_log.warning)
    except (UnsafeUrl, McpHostError) as error:
        raise RegistryError(error.message) from error
    try:
        with anyio.fail_after(GUIDE_TIMEOUT):
            response = await client.request("GET", b"", {"accept": "text/plain, text/markdown"})
            try:
                if response.status == 404:
                    return None
                if response.status != 200:
                    raise RegistryError(f"{url} answered HTTP {response.status}.")
                return (await response.read_body(MAX_GUIDE_BYTES)).decode("utf-8", "replace")
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
