"""Search for configuration files that still refer to a server's data, including files of other projects."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio.to_thread

from mcphost.config.loader import PROJECT_FILE
from mcphost.config.secret_references import find_referenced_secrets, may_refer_to_folder
from mcphost.errors import McpHostError, StoreError
from mcphost.host.servers.server_data import ServerData
from mcphost.serialization import Struct, replace
from mcphost.store.grants import GrantStore


class DataUse(Struct, frozen=True, kw_only=True):
    """Result of a search in configuration files for references to a server's secrets and its bundle.

    - `unused`: the secrets to which no file refers.
    - `used`: the other secrets, each with a file that refers to it.
    - `keeps_bundle`: whether a file refers to the server's bundle, or may do so because it cannot be read.
    - `unreadable`: the error if a file, or the list of approved files, cannot be read; otherwise None. A file that
      could not be read may refer to secrets in `unused`.
    """

    unused: tuple[str, ...] = ()
    used: tuple[tuple[str, Path], ...] = ()
    unreadable: McpHostError | None = None
    keeps_bundle: bool = False

    def without_kept(self, data: ServerData) -> ServerData:
        """Return *data*, without its bundle if a file still needs the bundle."""
        return replace(data, bundle=None) if self.keeps_bundle else data


async def find_data_use(
    data: ServerData, files: Iterable[Path], grants: GrantStore, planned: Mapping[Path, bytes] | None = None
) -> DataUse:
    """Search *files* and all approved `.mcp.json` files for references to a server's secrets and its bundle.

    *data* contains the names of the secrets and the folder of the bundle. Several servers may have been installed from
    the same bundle. *planned* maps files to content that is searched instead of the content on disk.
    """
    names = data.secrets
    if not names and data.bundle is None:
        return DataUse()
    known, failure = [*files], None
    try:
        known += map(Path, await grants.list_trusted_files(PROJECT_FILE))
    except StoreError as error:  # callers have already saved a change
        failure = error
    found, unreadable = await anyio.to_thread.run_sync(find_referenced_secrets, known, planned)
    folder = data.bundle
    keeps = folder is not None and (
        failure is not None or await anyio.to_thread.run_sync(may_refer_to_folder, folder, known, planned)
    )
    return DataUse(
        unused=tuple(name for name in names if name not in found),
        used=tuple((name, found[name]) for name in names if name in found),
        unreadable=failure or unreadable,
        keeps_bundle=keeps,
    )
