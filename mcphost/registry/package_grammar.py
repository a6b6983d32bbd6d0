"""Command lines that run packages, and the strict syntax that their parts must follow.

The syntax excludes leading dashes, whitespace, quotes and everything else that a program or a shell would
interpret.
"""

import posixpath
import re
from collections.abc import Collection, Iterator, Sequence

from mcphost.errors import RegistryError
from mcphost.registry.container_mounts import MOUNT_OPTIONS, check_mount
from mcphost.registry.entries import RegistryPackage
from mcphost.sanitize import quote_text
from mcphost.serialization import Struct
from mcphost.unicode_forms import split_url

_NPM_NAME = re.compile(r"(?:@[A-Za-z0-9][A-Za-z0-9._~-]{0,100}/)?[A-Za-z0-9][A-Za-z0-9._~-]{0,200}")
_NPM_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}\.[0-9]{1,9}(?:-[0-9A-Za-z.-]{1,100})?(?:\+[0-9A-Za-z.-]{1,100})?")
# Names and versions of Python packages (PEP 508 and PEP 440), without rare spellings of versions.
_PYPI_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
_PYPI_VERSION = re.compile(
    r"(?:[0-9]{1,9}!)?[0-9]{1,9}(?:\.[0-9]{1,9}){0,9}(?:[._-]?(?:alpha|beta|a|b|c|rc|pre|preview)[._-]?[0-9]{0,9})?"
    r"(?:[._-]?post[._-]?[0-9]{0,9})?(?:[._-]?dev[._-]?[0-9]{0,9})?(?:\+[A-Za-z0-9.]{1,60})?"
)
# The version of Python for uvx; anything else could be the path or the name of a program to run in its place.
_PYTHON_VERSION = re.compile(
    r"(?:(?:cpython|pypy|graalpy)@)?[0-9]{1,2}(?:\.[0-9]{1,3}){0,2}(?:(?:a|b|rc)[0-9]{1,3})?t?"
    r"|(?:[<>]=?|[=!~]=)[0-9]{1,2}(?:\.[0-9]{1,3}){0,2}(?:,(?:[<>]=?|[=!~]=)[0-9]{1,2}(?:\.[0-9]{1,3}){0,2}){0,4}"
)
_INTERPRETER = re.compile(r"(?:c?python|pypy|graalpy|pyodide)[0-9.]{0,10}")
_NUGET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
_NUGET_VERSION = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9}){1,3}(?:-[0-9A-Za-z.-]{1,100})?(?:\+[0-9A-Za-z.-]{1,100})?")
# An image reference (OCI distribution specification), with a tag or a digest.
_IMAGE = re.compile(
    r"(?P<name>[a-z0-9](?:[a-z0-9._-]{0,200}(?::[0-9]{1,5})?)?(?:/[a-z0-9][a-z0-9._-]{0,100}){0,8})"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,199}")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}")
_FLAG = re.compile(r"-{0,2}[A-Za-z0-9][A-Za-z0-9._:-]{0,100}")
SHA256 = re.compile(r"[0-9a-f]{64}")
_FRAMING_HEADERS = frozenset({
    "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade", "expect",
    "accept", "accept-encoding", "origin", "cookie",
})  # fmt: skip
"""HTTP and MCP headers that no registry entry may set."""
_PRIVATE_DOMAINS = frozenset({"intranet", "internal", "private", "corp", "home", "lan", "local", "localdomain", "test"})
"""Top-level domains of private networks (RFC 6762, appendix G)."""


class Runner(Struct, frozen=True):
    """A program that downloads and runs packages, with a hint on how to install it."""

    program: str
    install_hint: str


RUNNERS = {
    "npm": Runner("npx", "Install Node.js: https://nodejs.org"),
    "pypi": Runner("uvx", "Install uv: https://docs.astral.sh/uv"),
    "oci": Runner("docker", "Install Docker: https://docs.docker.com/get-docker"),
    "nuget": Runner("dnx", "Install the .NET SDK 10 or later: https://dotnet.microsoft.com/download"),
}
"""The programs that download and run packages, keyed by the package's `registryType`."""


class PackageWords(Struct, frozen=True):
    """The words of a command line that runs a package.

    Runtime arguments are inserted between `runner` and `package`.
    """

    runner: tuple[str, ...]
    package: tuple[str, ...]
    separator: tuple[str, ...] = ()
    """Words to insert before the package's own arguments, if any, so that the runner does not read them."""

    notes: tuple[str, ...] = ()


def package_words(package: RegistryPackage) -> PackageWords:
    """Return the words of a command line that runs exactly one version of a package.

    Raises RegistryError if the command line would be unsafe.
    """
    _check_host(package)
    name, version = package.identifier, package.version
    notes = ()
    if package.file_sha256:
        notes = (
            f"it gives the SHA-256 of the package, which {RUNNERS[package.registry_type].program} does not check.",
        )
    match package.registry_type:
        case "npm":
            _check(name, _NPM_NAME, version, _NPM_VERSION)
            return PackageWords(("npx", "-y"), (f"{name}@{version}",), notes=notes)
        case "pypi":
            _check(name, _PYPI_NAME, version.lower(), _PYPI_VERSION)
            if _INTERPRETER.fullmatch(name.lower()):
                raise RegistryError(f"uvx runs an interpreter instead of the package {name}.")
            return PackageWords(("uvx",), (f"{name}@{version}",), notes=notes)
        case "nuget":
            _check(name, _NUGET_NAME, version, _NUGET_VERSION)
            return PackageWords(("dnx",), (f"{name}@{version}", "--yes"), separator=("--",), notes=notes)
        case _:
            image, image_notes = _image_reference(package)
            return PackageWords(("docker", "run", "-i", "--rm"), (image,), notes=(*notes, *image_notes))


def _check(name: str, names: re.Pattern[str], version: str, versions: re.Pattern[str]) -> None:
    if not names.fullmatch(name):
        raise RegistryError(f"The package name {quote_text(name)} is not valid.")
    if not version:
        raise RegistryError(f"The package {name} has no version, so it could change at any time.")
    if not versions.fullmatch(version):
        raise RegistryError(f"The version {quote_text(version)} of {name} is not an exact version.")


def _image_reference(package: RegistryPackage) -> tuple[str, tuple[str, ...]]:
    """Return the reference to an OCI image, and a note if the image is not pinned by a digest.

    In older registry entries, the host, name and tag are separate. Raises RegistryError if the reference is invalid or
    has neither a tag nor a digest.
    """
    text = package.identifier
    if package.version and ":" not in text.rpartition("/")[2] and "@" not in text:
        host = split_url(package.registry_base_url).netloc if package.registry_base_url else ""
        text = f"{host}/{text}:{package.version}" if host else f"{text}:{package.version}"
    match = _IMAGE.fullmatch(text)
    if match is None or ".." in text:
        raise RegistryError(f"The image {quote_text(text)} is not a valid reference.")
    if match["digest"]:
        return text, ()
    if not match["tag"]:
        raise RegistryError(
            f"The image {quote_text(text)} has neither a tag nor a digest, so it could change at any time."
        )
    return text, (f"the tag {match['tag']} can be moved to another image; no digest pins it.",)


def _check_host(package: RegistryPackage) -> None:
    """Raise RegistryError if an entry's package seems to be in a private package registry.

    The address in the entry is never used: the runner gets the package from the package registry that the user
    configured, usually the public one. If the package is in a private registry, the public one could contain a
    different package with the same name. An address is accepted if its domain begins with the type of the package, such
    as npmjs.org for npm.
    """
    kind, address = package.registry_type, package.registry_base_url
    if kind == "oci" or not address:
        return
    try:
        parts = split_url(address)
        *_, name, top = parts.netloc.lower().split(".")
        is_usual = parts.scheme == "https" and "@" not in parts.netloc and ":" not in parts.netloc
    except ValueError:
        name, top, is_usual = "", "", False
    if not is_usual or not name.startswith(kind) or top in _PRIVATE_DOMAINS:
        raise RegistryError(
            f"The package is in the package registry {quote_text(address)}, which {RUNNERS[kind].program} does not use."
        )


def check_variable_name(name: str) -> None:
    """Check the name of an environment variable. Raises RegistryError if it is invalid."""
    if not _VARIABLE.fullmatch(name):
        raise RegistryError(f"The environment variable {quote_text(name)} has a name that is not valid.")


def check_header_name(name: str) -> None:
    """Check the name of an HTTP header. Raises RegistryError if it is invalid or reserved."""
    if not _HEADER.fullmatch(name) or name.lower() in _FRAMING_HEADERS or name.lower().startswith("mcp-"):
        raise RegistryError(f"The header {quote_text(name)} is not one that a server may ask for.")


def check_flag_name(name: str) -> None:
    """Check the name of a named argument, such as `--port`. Raises RegistryError if it is invalid."""
    if not _FLAG.fullmatch(name):
        raise RegistryError(f"The argument {quote_text(name)} has a name that is not valid.")


_DOCKER_VALUE_OPTIONS = frozenset({
    "-e", "--env", "-v", "--volume", "--mount", "-w", "--workdir", "-u", "--user", "-p", "--publish", "--network",
    "--name", "-m", "--memory", "--cpus", "--platform", "--pull", "--tmpfs", "--shm-size",
})  # fmt: skip
_OPTIONS: dict[str, tuple[frozenset[str], frozenset[str]]] = {
    "npm": (frozenset({"-y", "--yes", "-q", "--quiet", "--silent"}), frozenset()),
    "pypi": (frozenset({"-q", "--quiet", "--isolated", "--no-cache"}), frozenset({"--python", "-p"})),
    "nuget": (frozenset({"--yes", "-y"}), frozenset()),
    "oci": (frozenset({"-i", "--interactive", "--rm", "--init", "--read-only"}), _DOCKER_VALUE_OPTIONS),
}
"""For each package type, the runner's options that a registry entry may use: without a value, and with one."""
_IMPLIED = frozenset({"-y", "--yes", "-i", "--interactive", "--rm"})
_NETWORKS = frozenset({"none", "bridge", "default"})
"""Networks that a container may join. Any other connects the container to this machine or to a project's containers."""
_PORT = r"(?:[0-9]{1,5}(?:-[0-9]{1,5})?|<[^<>]{1,100}>)"
_LOCAL_PORT = re.compile(rf"(?:127\.0\.0\.1|\[::1\]):{_PORT}?:{_PORT}(?:/(?:tcp|udp|sctp))?")
"""Pattern for a published port that only this machine can reach; `<port>` is a value that has not been entered yet."""
_PORT_OPTIONS = frozenset({"-p", "--publish"})
_VARIABLE_OPTIONS = frozenset({"-e", "--env"})


def runtime_words(kind: str, words: Sequence[str], variables: Collection[str] = ()) -> tuple[str, ...]:
    """Return the runtime arguments in *words* without those that mcphost adds itself.

    *kind* is the type of the package. For a container, options that pass one of *variables* by name, without a value,
    are left out, too: mcphost adds such an option for each of these variables that has a value. Raises RegistryError
    for any option that is not known to be harmless, because it could run a program other than the package or give a
    container access to this machine.
    """
    kept: list[str] = []
    for option, value, used in _split_options(kind, words):
        if value is None:
            kept += [] if option in _IMPLIED else used
            continue
        if kind == "oci" and option in _VARIABLE_OPTIONS and value in variables:
            continue
        _check_option_value(kind, option, value)
        kept += used
    return tuple(kept)


def mount_values(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the option and the value of each mount in the runtime arguments of a container; see `runtime_words`."""
    for option, value, _ in _split_options("oci", words):
        if option in MOUNT_OPTIONS and value is not None:
            yield option, value


def opens_port(words: Sequence[str]) -> bool:
    """Return whether the runtime arguments of a container open a port; see `runtime_words`."""
    return any(option in _PORT_OPTIONS for option, _, _ in _split_options("oci", words))


def _split_options(kind: str, words: Sequence[str]) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield each option with its value (None if it has none) and the words that it consists of.

    Raises RegistryError for an option that is not known to be harmless.
    """
    plain, with_value = _OPTIONS[kind]
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, equals, value = word.partition("=")
        if word in plain:
            yield word, None, [word]
        elif option in with_value:
            if not equals:
                if not rest or rest[0].startswith("-"):
                    raise RegistryError(f"The runtime argument {quote_text(word)} has no value.")
                value = rest.pop(0)
            yield option, value, [word] if equals else [word, value]
        else:
            raise RegistryError(
                f"The runtime argument {quote_text(word)} could make {RUNNERS[kind].program} do something other "
                "than run the package."
            )


def _check_option_value(kind: str, option: str, value: str) -> None:
    if kind == "pypi" and not _PYTHON_VERSION.fullmatch(value):
        raise RegistryError(f"The runtime argument {option} {quote_text(value)} is not a version of Python.")
    if kind == "oci" and option in MOUNT_OPTIONS:
        check_mount(option, value)
    if kind == "oci" and option in _PORT_OPTIONS and not _LOCAL_PORT.fullmatch(value):
        raise RegistryError(
            f"The runtime argument {option} {quote_text(value)} could open a port of the container to other machines."
        )
    if kind == "oci" and option in _VARIABLE_OPTIONS:
        _check_container_variable(option, value)
    if option == "--network" and value not in _NETWORKS:
        raise RegistryError(
            f"The runtime argument --network {quote_text(value)} could connect the container to this machine or to "
            "a network of other containers."
        )


def _check_container_variable(option: str, value: str) -> None:
    """Check a runtime argument that sets an environment variable of a container.

    Raises RegistryError if the variable has an invalid name or no value. Without a value, docker would pass the
    value that the variable has on this machine.
    """
    name, equals, _ = value.partition("=")
    is_unknown = re.fullmatch(r"<[^<>]{1,100}>", name) is not None
    if not equals and not is_unknown:
        raise RegistryError(
            f"The runtime argument {option} {quote_text(value)} "
            "could give the container your own variable of this name."
        )
    if not is_unknown:
        check_variable_name(name)


class PackageReference(Struct, frozen=True):
    """The package that a command line runs; `version` and `digest` are "" if the command line omits them."""

    type: str
    name: str
    version: str = ""
    digest: str = ""
    word: int = 0
    """Index in the command line of the word that names the package."""


_TYPES = {"npx": "npm", "uvx": "pypi", "dnx": "nuget", "docker": "oci", "podman": "oci"}
_PACKAGE_OPTIONS = frozenset({"--package", "-p", "--from"})
_VALUE_OPTIONS = {
    "npm": frozenset({"--package", "-p", "--registry", "--cache", "--userconfig", "--prefix", "-w", "--workspace"}),
    "pypi": frozenset({
        "--from", "--with", "-w", "--with-editable", "--with-requirements", "--python", "-p", "--index", "--index-url",
        "-i", "--default-index", "--extra-index-url", "--constraints", "-c", "--directory", "--cache-dir",
    }),
    "nuget": frozenset({"--version", "--source", "--add-source", "--configfile", "--framework", "--verbosity", "-v"}),
    "oci": _DOCKER_VALUE_OPTIONS | {
        "--entrypoint", "--env-file", "-h", "--hostname", "-l", "--label", "--gpus", "--add-host",
    },
}  # fmt: skip
"""Common options of each runner that precede a package name and are followed by a value."""


def find_package(argv: Sequence[str]) -> PackageReference | None:
    """Return the package that a command line runs, or None if that is unclear.

    The runner must be npx, uvx, dnx, docker or podman.
    """
    program = posixpath.basename(argv[0].replace("\\", "/")).lower().removesuffix(".exe").removesuffix(".cmd")
    kind = _TYPES.get(program, "")
    start = 2 if kind == "oci" else 1
    if not kind or (kind == "oci" and list(argv[1:2]) != ["run"]):
        return None
    found = version = -1
    at = start
    while at < len(argv) and argv[at].startswith("-"):
        option, _, attached = argv[at].partition("=")
        has_value = option in _VALUE_OPTIONS[kind] and not attached
        if option in _PACKAGE_OPTIONS and found < 0 and option != ("-p" if kind == "pypi" else ""):
            found = at + has_value
        if kind == "nuget" and option == "--version":
            version = at + has_value
        at += 1 + has_value
    if found < 0 or kind in ("oci", "nuget"):
        found = at
    if found >= len(argv) or "${" in argv[found]:
        return None
    package = _split_package(kind, argv[found].partition("=")[2] if argv[found].startswith("-") else argv[found], found)
    if package is not None and kind == "nuget" and not package.version:
        if version < 0 and "--version" in argv:
            version = argv.index("--version") + 1
        text = argv[version] if 0 <= version < len(argv) else ""
        package = PackageReference(kind, package.name, text.rpartition("=")[2], word=found)
    return package


def is_exact_version(package: PackageReference) -> bool:
    """Return whether a reference to an npm or PyPI package names one version, not a range or a tag."""
    names, versions = {"npm": (_NPM_NAME, _NPM_VERSION), "pypi": (_PYPI_NAME, _PYPI_VERSION)}[package.type]
    is_name = names.fullmatch(package.name.partition("[")[0])
    return bool(is_name and versions.fullmatch(package.version.lower() if package.type == "pypi" else package.version))


def _split_package(kind: str, text: str, word: int) -> PackageReference | None:
    """Split a command-line word into the name and version of a package of the type *kind*.

    *word* is the index of the word in the command line. Returns None if the name is not valid.
    """
    if kind == "oci":
        match = _IMAGE.fullmatch(text)
        return PackageReference(kind, match["name"], match["tag"] or "", match["digest"] or "", word) if match else None
    at = text.find("@", 1)
    if kind == "pypi" and at < 0:
        at = text.find("==")
    name, version = (text[:at], text[at:].lstrip("@=")) if at > 0 else (text, "")
    names = {"npm": _NPM_NAME, "pypi": _PYPI_NAME, "nuget": _NUGET_NAME}[kind]
    return PackageReference(kind, name, version, word=word) if names.fullmatch(name.partition("[")[0]) else None
