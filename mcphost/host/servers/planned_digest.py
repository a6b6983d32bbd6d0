"""The digest of the package that an install plan runs, compared with what the registry and the lock file state."""

from collections.abc import MutableMapping
from pathlib import Path

import anyio.to_thread

from mcphost.config.lock_file import LOCK_FILE, read_lock
from mcphost.config.schema import ServerConfig
from mcphost.errors import LockFileError, RegistryError
from mcphost.registry.entries import RegistryPackage
from mcphost.registry.package_digests import (
    PackageDigest,
    Query,
    ask_npm_file,
    ask_queries,
    find_query,
    is_same_package,
)
from mcphost.serialization import Struct, replace

KnownDigests = MutableMapping[Query, PackageDigest]
"""Digests received from npm and uv, keyed by package."""

_PENDING = "It is being requested from npm or uv."


class PlannedDigest(Struct, frozen=True, kw_only=True):
    """The digest of the package that an install plan runs; if it is "", `problem` is the reason.

    `mismatches` contains a sentence for each difference from the registry's entry or the lock file, and for each
    comparison that cannot be made, for example because the package index does not have the version.
    """

    digest: str = ""
    problem: str = ""
    files: tuple[str, ...] = ()
    """See `PackageDigest.files`."""

    mismatches: tuple[str, ...] = ()
    is_pending: bool = False
    """Whether the digest has not been requested yet."""

    @property
    def lines(self) -> tuple[str, ...]:
        """The line of the plan that shows the digest, as a tuple with one string."""
        return (f"digest: {self.digest or f'unknown. {_PENDING if self.is_pending else self.problem}'}",)

    def check(self, *, server: str = "", command: str = "") -> None:
        """Raise RegistryError if there are mismatches, for example if the lock file contains another digest.

        The error's hint suggests running *command*, which installs the package, with `--accept-digest`. If *command* is
        "", the hint suggests repeating the current command with *server* and `--accept-digest`.
        """
        if self.mismatches:
            raise RegistryError(
                self.mismatches[0],
                f"Nothing was changed. To use the package anyway: {command} --accept-digest"
                if command
                else f"Nothing was changed. To use the package anyway, repeat the command with {server} and "
                "--accept-digest.",
            )


async def plan_digest(
    server: ServerConfig | None,
    package: RegistryPackage | None,
    file: Path,
    known: KnownDigests | None = None,
    *,
    asks: bool = True,
) -> PlannedDigest | None:
    """Return the digest of the package that a planned server runs.

    *package* is the package in the registry's entry. *file* is the configuration file to which the server would be
    written; the digest is compared with the lock file next to it. Returns None if the server does not run a package
    from npm, PyPI or NuGet.

    *known* caches the digests that npm and uv returned, including failures; new ones are added to it. If *asks* is
    false, npm and uv are not run; the result is marked as pending if *known* does not contain the digest. Never raises
    McpHostError.
    """
    query = await find_query(server) if server is not None else None
    if query is None or isinstance(query, PackageDigest):
        return None if query is None else PlannedDigest(problem=query.problem)
    known = {} if known is None else known
    if query not in known:
        if not asks:
            return PlannedDigest(is_pending=True)
        known.update(await ask_queries([query]))
    found, (kind, name, version) = known[query], query
    mismatches = [found.problem] if found.is_missing else []
    if kind == "npm" and found.digest and package is not None and package.file_sha256:
        # The schema of server.json (2025-12-11): clients must compare `fileSha256` of any package before they run it.
        if not (found.files or found.file_problem):
            if not asks:
                return PlannedDigest(is_pending=True)
            try:
                found = replace(found, files=(await ask_npm_file(name, version, found.digest),))
            except RegistryError as error:
                found = replace(found, file_problem=error.message)
            known[query] = found
        if found.file_problem:
            problem = "The SHA-256 given in the registry cannot be compared."
            mismatches.append(f"{problem} {found.file_problem}")
    if found.files and package is not None and package.file_sha256 and package.file_sha256 not in found.files:
        mismatches.append(f"The package index has no file of {name} {version} with the SHA-256 given in the registry.")
    if found.digest:
        mismatches += await anyio.to_thread.run_sync(_compare_with_lock, file.with_name(LOCK_FILE), query, found.digest)
    return PlannedDigest(digest=found.digest, problem=found.problem, files=found.files, mismatches=tuple(mismatches))


def _compare_with_lock(path: Path, query: Query, digest: str) -> list[str]:
    """Compare *digest*, the digest of the package in *query*, with the digests in the lock file at *path*.

    Returns a list of one sentence if the lock file has another digest of the same version or cannot be used,
    otherwise an empty list.
    """
    try:
        servers = read_lock(path)[0].servers.values()
    except FileNotFoundError:
        return []
    except LockFileError as error:
        problem = "The digest cannot be checked against the lock file."
        return [f"{problem} {error.message}"]
    packages = [one.package for one in servers if one.package is not None]
    locked = {
        one.digest
        for one in packages
        if one.digest and is_same_package((one.type, one.name.partition("[")[0], one.version), query)
    }
    if not locked or digest in locked:
        return []
    _kind, name, version = query
    return [f"The digest of {name} {version} differs from the one in {path}."]
