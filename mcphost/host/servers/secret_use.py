"""Search for the configuration files, also of projects elsewhere, that still refer to the secrets of a server."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import anyio.to_thread

from mcphost.config.loader import PROJECT_FILE
from mcphost.config.secret_references import find_referenced_secrets
from mcphost.errors import McpHostError, StoreError
from mcphost.serialization import Struct
from mcphost.store.grants import GrantStore


class SecretUse(Struct, frozen=True, kw_only=True):
    """Secrets that no configuration file refers to, and those that stay with a file that refers to each.

    If a file or the list of approved files cannot be read, `unreadable` is the error; the unused secrets may then be
    those of such a file.
    """

    unused: tuple[str, ...] = ()
    used: tuple[tuple[str, Path], ...] = ()
    unreadable: McpHostError | None = None


async def find_secret_use(
    secrets: Iterable[str], files: Iterable[Path], grants: GrantStore, planned: Mapping[Path, bytes] | None = None
) -> SecretUse:
    """Look for references to *secrets* in *files*, and in the `.mcp.json` of each folder where the user approved one.

    *planned* maps files to content that is checked instead of the content on disk.
    """
    names = tuple(secrets)
    if not names:
        return SecretUse()
    known, failure = [*files], None
    try:
        known += map(Path, await grants.list_trusted_files(PROJECT_FILE))
    except StoreError as error:  # callers have already saved a change
        failure = error
    found, unreadable = await anyio.to_thread.run_sync(find_referenced_secrets, known, planned)
    return SecretUse(
        unused=tuple(name for name in names if name not in found),
        used=tuple((name, found[name]) for name in names if name in found),
        unreadable=failure or unreadable,
    )
