"""Digests of exact package versions, as reported by the package tools on this machine.

The digests are requested from npm and uv, so the user's own configuration determines the package source, its
proxy and its credentials. The tools run in an empty folder, with only the few environment variables that
servers inherit, so no file or variable of a project can select another source. If the command or the environment
of a server could make it install its package from another source, no digest is requested. No package is built or
run, and only `ask_npm_file` downloads a package.
"""

import base64
import hashlib
import os
import re
import tempfile
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, cast

import anyio
import anyio.to_thread

from mcphost import paths
from mcphost.config.hooks import HookOutput
from mcphost.config.risky_variables import classify_variable
from mcphost.config.schema import ServerConfig
from mcphost.config.variable_references import resolve_target
from mcphost.errors import MalformedMessage, RegistryError
from mcphost.registry.package_grammar import PackageReference, find_package, is_exact_version
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import Struct, loads
from mcphost.transport.hook_process import HookRunner

QUERY_TIMEOUT = 30.0
"""Seconds after which a package tool is ended if it has not finished."""
MAX_QUERIES = 4
"""Maximum number of package tools that run at the same time."""
MAX_FILES = 2_000
"""Maximum number of files in a version of a Python package."""

_MAX_REASON = 400
_ENVIRONMENT = {"npm_config_update_notifier": "false", "UV_PYTHON_DOWNLOADS": "never", "NO_COLOR": "1"}
_MARKER_FILES = {"package.json": "{}\n", "uv.toml": ""}
"""Files at which npm and uv stop searching parent folders for a project's configuration."""
_HARMLESS_OPTIONS = {
    "npm": frozenset({"-y", "--yes", "-q", "--quiet", "--silent", "--"}),
    "pypi": frozenset({"-q", "--quiet", "-v", "--verbose", "--isolated", "--no-cache", "-n", "--"}),
}
_HARMLESS_VALUE_OPTIONS = {
    "npm": frozenset({"--package", "-p"}),
    "pypi": frozenset({"--from", "--with", "-w", "--python", "-p"}),
}
"""Options of npx and uvx that do not change where packages come from; any other might."""
_PACKAGE_OPTIONS = {"npm": ("--package", "-p"), "pypi": ("--from", "--with", "-w")}
"""Options of npx and uvx that name a package."""
_TOOL_VARIABLES = ("HOME", "USERPROFILE", "XDG_", "PATH", "NPM_CONFIG_", "UV_")
"""Prefixes of environment variables that determine which package tool runs, and with which configuration."""
# Digests as npm prints them (Subresource Integrity); SHA-1 is not accepted.
_INTEGRITY = re.compile(r"sha512-[A-Za-z0-9+/]{86}==|sha384-[A-Za-z0-9+/]{64}|sha256-[A-Za-z0-9+/]{43}=")
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9._-]{1,200})==([A-Za-z0-9.!+_-]{1,200})((?: --hash=[a-z0-9]{1,20}:[0-9a-f]{1,200})*)"
)
# What npm and uv say if the package index has no such package or version; the white space is made uniform before.
_NPM_NOT_FOUND = re.compile(r"npm (?:error|ERR!) code E404\b")
_UV_NOT_FOUND = re.compile(r"Because (?:there is no version of|\S{1,200} was not found in the package registry)")
_RELEASE = re.compile(r"([0-9.]*+)(.*)")
_SPELLINGS = re.compile(r"alpha|beta|preview|pre|(?<![a-z])c(?=[0-9])")
_SUFFIX = re.compile(r"[._-]?(a|b|rc|post|dev)[._-]?")
_SEPARATORS = re.compile(r"[-_.]+")
Query = tuple[str, str, str]
"""The type, the name and the exact version of a package."""


class PackageDigest(Struct, frozen=True):
    """The digest of an exact package version.

    If the digest is unknown, it is "", and `problem` is a sentence that gives the reason.
    """

    digest: str = ""
    problem: str = ""
    files: tuple[str, ...] = ()
    """The sorted SHA-256 digests of the package's files in hexadecimal.

    For a Python package, `digest` is computed from these. For an npm package, the digest of its one file is known only
    after `ask_npm_file` has downloaded it.
    """

    file_problem: str = ""
    """A sentence that says why `ask_npm_file` failed; "" if it succeeded or was not called."""

    is_missing: bool = False
    """Whether the package index has no such package or version, as opposed to a request that failed."""


class PackageNotFoundError(RegistryError):
    """Raised when the package index used by npm or uv does not contain the package or the version."""


async def ask_digests(servers: Mapping[str, ServerConfig]) -> dict[str, PackageDigest]:
    """Request the digests of the packages that servers run; return them keyed by the name of the server.

    Servers that do not run a package from npm, PyPI or NuGet are left out. The requests run concurrently, each for
    at most QUERY_TIMEOUT seconds.
    """
    found: dict[str, PackageDigest] = {}
    asked: dict[Query, list[str]] = {}
    for name, server in servers.items():
        query = await find_query(server)
        if isinstance(query, PackageDigest):
            found[name] = query
        elif query is not None:
            asked.setdefault(query, []).append(name)
    if asked:
        for key, answer in (await ask_queries(list(asked))).items():
            found.update(dict.fromkeys(asked[key], answer))
    return found


async def find_query(server: ServerConfig) -> "Query | PackageDigest | None":
    """Return the package that a server runs, if its digest can be requested.

    If the digest cannot be requested or trusted, the result is a PackageDigest whose `problem` gives the reason. The
    result is None if the server does not run a package from npm, PyPI or NuGet.
    """
    package = find_package(server.argv) if server.is_stdio else None
    if package is None or package.type == "oci":
        return None
    if problem := await anyio.to_thread.run_sync(_find_obstacle, server, package):
        return PackageDigest(problem=problem)
    return package.type, package.name.partition("[")[0], package.version


def _find_obstacle(server: ServerConfig, package: PackageReference) -> str:
    """Return the reason why a package's digest cannot be requested or trusted, or "" if it can.

    The reason is a sentence. A digest cannot be trusted if the server might run a different package than the one
    that the tools look up.
    """
    if package.type not in _HARMLESS_OPTIONS:
        return "No tool can be asked for the digest of a NuGet package."
    if not is_exact_version(package):
        return "The command does not name an exact version."
    if option := _find_unknown_option(package.type, server.argv):
        return f"The option {option} of its command can change where the package comes from."
    if _has_other_packages(package.type, server.argv):
        return "The command names more than one package, and a digest of one would say nothing about the others."
    if server.env_file and not server.env_file_digest:
        return "Its environment file, which can change where the package comes from, could not be read."
    for name in (*server.env, *server.env_file_names):
        risk = classify_variable(name)
        if risk == "packages" or (risk and name.strip().upper().replace("-", "_").startswith(_TOOL_VARIABLES)):
            shown = sanitize_line(name, 100)
            return f"The variable {shown} of its entry can change where the package comes from."
    if package.type == "npm" and (file := _find_npm_settings(resolve_target(server).cwd or os.getcwd())):
        return f"The file {sanitize(file, keep_newlines=False)} can change where the package comes from."
    return ""


def _find_unknown_option(kind: str, argv: tuple[str, ...]) -> str:
    """Return the first option of a package runner that is not known to be harmless, or "" if there is none.

    *kind* is the type of the package, and *argv* the command line that starts with the runner.
    """
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        option, equals, _ = argv[at].partition("=")
        if option in _HARMLESS_VALUE_OPTIONS[kind]:
            at += 1 if equals else 2
        elif argv[at] in _HARMLESS_OPTIONS[kind]:
            at += 1
        else:
            return sanitize_line(option, 100)
    return ""


def _has_other_packages(kind: str, argv: tuple[str, ...]) -> bool:
    """Return whether a command line names packages in addition to the one that it runs.

    The command line must not contain unknown options.
    """
    named: list[str] = []
    at = 1
    while at < len(argv) and argv[at].startswith("-"):
        option, equals, _ = argv[at].partition("=")
        named += [option] if option in _PACKAGE_OPTIONS[kind] else []
        at += 2 if option in _HARMLESS_VALUE_OPTIONS[kind] and not equals else 1
    return len(named) > 1 or any(option in ("--with", "-w") for option in named)


def _find_npm_settings(folder: str) -> str:
    """Return the path of the project's `.npmrc` that npx would use if started in *folder*, or "" if there is none."""
    start = Path(os.path.abspath(folder))
    marks = ("package.json", "node_modules")
    roots = (one for one in (start, *start.parents) if any(os.path.lexists(one / mark) for mark in marks))
    settings = next(roots, start) / ".npmrc"
    is_users_own = os.path.realpath(settings) == os.path.realpath(os.path.expanduser("~/.npmrc"))
    return str(settings) if os.path.lexists(settings) and not is_users_own else ""


async def ask_queries(queries: list[Query]) -> dict[Query, PackageDigest]:
    """Request the digests of several packages from npm and uv concurrently; see `ask_digests`."""
    answers: dict[Query, PackageDigest] = {}
    limiter = anyio.CapacityLimiter(MAX_QUERIES)
    runner = HookRunner()

    async def ask(query: Query, folder: str) -> None:
        kind, name, version = query
        async with limiter:
            try:
                answers[query] = await _TOOLS[kind](runner, folder, name, version)
            except RegistryError as error:
                is_missing = isinstance(error, PackageNotFoundError)
                answers[query] = PackageDigest(problem=error.message, is_missing=is_missing)

    try:
        with _make_empty_folder() as folder:
            async with anyio.create_task_group() as tasks:
                for query in queries:
                    tasks.start_soon(ask, query, folder)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        return dict.fromkeys(queries, PackageDigest(problem=f"No empty folder could be created: {reason}."))
    finally:
        with anyio.CancelScope(shield=True):
            await runner.close()
    return answers


def _make_empty_folder() -> "tempfile.TemporaryDirectory[str]":
    """Return a context manager for a private folder in which no project's configuration applies.

    The folder is not in the system's temporary directory, where other users could create configuration files in a
    parent folder. Raises OSError if the folder cannot be created.
    """
    folder = tempfile.TemporaryDirectory(
        prefix="packages-", dir=paths.make_private_directory(paths.cache_dir()), ignore_cleanup_errors=True
    )
    for name, text in _MARKER_FILES.items():
        Path(folder.name, name).write_text(text, encoding="utf-8")
    return folder


async def _ask_npm(runner: HookRunner, folder: str, name: str, version: str) -> PackageDigest:
    fields = ("name", "version", "dist.integrity")
    command = ("npm", "view", "--json", f"{name}@{version}", *fields)
    missing = PackageNotFoundError(f"npm found no version {version} of {name}.")
    output = await _run(runner, command, folder, b"", (_NPM_NOT_FOUND, missing))
    if not output.strip():
        raise missing  # as some versions of npm answer
    return PackageDigest(await anyio.to_thread.run_sync(read_npm_answer, output, name, version))


def read_npm_answer(output: bytes, name: str, version: str) -> str:
    """Return the digest of a package version from the output of `npm view --json`.

    Raises RegistryError if *output* is invalid, describes another version, or contains no digest.
    """
    try:
        answer = loads(output)
    except MalformedMessage as error:
        raise RegistryError("npm printed something other than JSON.") from error
    if isinstance(answer, list) and len(cast("list[Any]", answer)) == 1:
        answer = cast("list[Any]", answer)[0]
    members = cast("dict[str, Any]", answer) if isinstance(answer, dict) else {}
    if (members.get("name"), members.get("version")) != (name, version.partition("+")[0]):
        raise RegistryError("npm did not answer about this version of this package.")
    integrity = members.get("dist.integrity")
    words = sorted(integrity.split(), reverse=True) if isinstance(integrity, str) else []
    digest = next((word for word in words if _INTEGRITY.fullmatch(word)), "")
    if not digest:
        raise RegistryError("npm knows no SHA-256, SHA-384 or SHA-512 of this version.")
    return digest


async def ask_npm_file(name: str, version: str, digest: str) -> str:
    """Download an npm package with npm, and return the SHA-256 of the file in hexadecimal.

    Nothing in the package is run. *digest* is the integrity value that npm has reported for the package. Raises
    RegistryError if the file cannot be downloaded or does not match *digest*.
    """
    runner = HookRunner()
    try:
        with _make_empty_folder() as folder:
            await _run(runner, ("npm", "pack", "--ignore-scripts", f"{name}@{version}"), folder, b"")
            return await anyio.to_thread.run_sync(_read_npm_file, Path(folder), digest)
    except OSError as error:
        raise RegistryError(
            f"The file of the package could not be read: {error.strerror or type(error).__name__}."
        ) from error
    finally:
        with anyio.CancelScope(shield=True):
            await runner.close()


def _read_npm_file(folder: Path, digest: str) -> str:
    """Return the SHA-256 of the only package file in a folder.

    Raises RegistryError if there is not exactly one file, or if the file does not match *digest*, the integrity
    value that npm has reported.
    """
    files = [path for path in folder.glob("*.tgz") if path.is_file() and not path.is_symlink()]
    if len(files) != 1:
        raise RegistryError("npm downloaded no file of this package.")
    kind, _, expected = digest.partition("-")
    with files[0].open("rb") as file:
        found = base64.b64encode(hashlib.file_digest(file, kind).digest()).decode()
        if found != expected:
            raise RegistryError("npm downloaded another file than the one whose digest it reported.")
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


async def _ask_uv(runner: HookRunner, folder: str, name: str, version: str) -> PackageDigest:
    options = ("--no-deps", "--no-build", "--generate-hashes", "--no-header", "--no-annotate")
    command = ("uv", "pip", "compile", "-", *options, "--refresh-package", name)
    missing = PackageNotFoundError(f"uv found no version {version} of {name}.")
    output = await _run(runner, command, folder, f"{name}=={version}\n".encode(), (_UV_NOT_FOUND, missing))
    return await anyio.to_thread.run_sync(read_uv_answer, output, name, version)


def read_uv_answer(output: bytes, name: str, version: str) -> PackageDigest:
    """Return one digest for all files of a package version, from the output of `uv pip compile`.

    *output* must come from a call with the option `--generate-hashes`. The digest is the SHA-256 of the sorted
    SHA-256 digests of the files, one on each line. Raises RegistryError if *output* is invalid or describes another
    package or version.
    """
    joined = output.decode("utf-8", "replace").replace("\\\r\n", " ").replace("\\\n", " ")
    lines = [" ".join(line.split()) for line in joined.splitlines()]
    lines = [line for line in lines if line and not line.startswith(("#", "--"))]
    match = _REQUIREMENT.fullmatch(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise RegistryError("uv printed something other than one package with its digests.")
    if _normalize_name(match[1]) != _normalize_name(name) or not _is_same_version(match[2], version):
        raise RegistryError("uv did not answer about this version of this package.")
    hashes = {word.removeprefix("--hash=") for word in match[3].split()}
    if not 0 < len(hashes) <= MAX_FILES or not all(re.fullmatch(r"sha256:[0-9a-f]{64}", one) for one in hashes):
        raise RegistryError("uv did not print the SHA-256 of each file of this version.")
    digest = sha256("".join(f"{one}\n" for one in sorted(hashes)).encode()).hexdigest()
    return PackageDigest(f"sha256:{digest}", files=tuple(one.removeprefix("sha256:") for one in sorted(hashes)))


def is_same_package(one: Query, other: Query) -> bool:
    """Return whether two queries refer to the same version of the same package.

    Different spellings of names and versions are considered equal.
    """
    if one[0] != "pypi" or other[0] != "pypi":
        return one == other
    return _normalize_name(one[1]) == _normalize_name(other[1]) and _is_same_version(one[2], other[2])


def _normalize_name(name: str) -> str:
    """Return the normalized name of a Python package (PEP 503)."""
    return _SEPARATORS.sub("-", name).lower()


def _is_same_version(one: str, other: str) -> bool:
    """Return whether two versions of a Python package are equal (PEP 440); rare spellings are not recognized."""
    return _version_key(one) == _version_key(other)


def _version_key(text: str) -> tuple[list[str], str]:
    """Return a version's numbers without trailing zeros, and its suffix in normalized form (`a1` for `-alpha.1`)."""
    match = _RELEASE.fullmatch(_SUFFIX.sub(r"\1", _SPELLINGS.sub(_short_spelling, text.lower().removeprefix("0!"))))
    numbers, suffix = match.groups() if match else ("", text)
    parts = numbers.split(".")
    while len(parts) > 1 and not parts[-1].strip("0"):
        parts.pop()
    return parts, suffix


def _short_spelling(match: re.Match[str]) -> str:
    return {"alpha": "a", "beta": "b"}.get(match[0], "rc")


async def _run(
    runner: HookRunner,
    command: tuple[str, ...],
    folder: str,
    document: bytes,
    missing: tuple[re.Pattern[str], PackageNotFoundError] | None = None,
) -> bytes:
    """Run a package tool and return its output. Raises RegistryError if it fails.

    *missing* is a tuple of a pattern and an error: if the tool's error output matches the pattern, that error is
    raised.
    """
    result: HookOutput = await runner.run(command, folder, document, QUERY_TIMEOUT, _ENVIRONMENT)
    if result.failure:
        raise RegistryError(f"{command[0]} {result.failure.rstrip('.')}.")
    if result.code:
        if missing is not None and missing[0].search(" ".join(result.error_output.split())):
            raise missing[1]
        said = sanitize_line(" | ".join(result.error_output.splitlines()[:2]), _MAX_REASON)
        reason = f": {said.rstrip('.')}" if said else ""
        raise RegistryError(f"{command[0]} ended with code {result.code}{reason}.")
    return result.output


_TOOLS: dict[str, Callable[[HookRunner, str, str, str], Awaitable[PackageDigest]]] = {"npm": _ask_npm, "pypi": _ask_uv}
