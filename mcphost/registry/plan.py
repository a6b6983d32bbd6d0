"""Install plans: conversion of a registry entry to an mcp.json entry with a command or a URL."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from mcphost.auth.url_policy import UnsafeUrl, check_url
from mcphost.config.approval_digest import ShownValues
from mcphost.config.secrets import KnownSecrets
from mcphost.errors import RegistryError, UsageError
from mcphost.registry.container_mounts import host_path_inputs, is_volume_name, mark_input, volume_name
from mcphost.registry.entries import RegistryEntry, RegistryInput, RegistryPackage, RegistryTransport
from mcphost.registry.package_grammar import (
    RUNNERS,
    SHA256,
    check_flag_name,
    check_header_name,
    check_variable_name,
    mount_values,
    opens_port,
    package_words,
    runtime_words,
)
from mcphost.registry.plan_inputs import (
    InputValues,
    PlanInput,
    ValueSource,
    argument_words,
    check_text,
    check_texts,
    check_values,
    exposure_notes,
    list_inputs,
    list_variables,
    merge_inputs,
    variable_texts,
)
from mcphost.registry.planned_values import PlannedValue, planned_pairs
from mcphost.sanitize import sanitize, sanitize_line
from mcphost.serialization import Struct, replace

Kind = Literal["npm", "pypi", "oci", "nuget", "mcpb", "remote"]
KINDS: tuple[Kind, ...] = ("npm", "pypi", "oci", "nuget", "mcpb", "remote")
_TYPES = {"streamable-http": "http", "sse": "sse"}
_GENERIC_NAMES = frozenset({"mcp", "server", "mcp-server", "mcp_server", "api"})


class InstallOption(Struct, frozen=True, kw_only=True):
    """One way to use a server: as a package or at a remote URL.

    `problem` is the reason why the option cannot be used, or "" if it can be used.
    """

    kind: str
    label: str
    package: RegistryPackage | None = None
    remote: RegistryTransport | None = None
    inputs: tuple[PlanInput, ...] = ()
    problem: str = ""

    @property
    def program(self) -> str:
        """The program that must be installed to run the package, or "" if none is needed."""
        runner = RUNNERS.get(self.kind)
        return runner.program if runner is not None else ""


class PlannedEntry(Struct, frozen=True, kw_only=True):
    """A planned entry for mcp.json, with its variables and headers, and with notes for the user."""

    entry: dict[str, Any]
    values: tuple[PlannedValue, ...] = ()
    """The variables and headers, with the parts that the user entered."""

    missing: tuple[str, ...] = ()
    """Names of required inputs without values; the entry has a placeholder such as `<API_KEY>` for each."""

    notes: tuple[str, ...] = ()

    @property
    def secret_keys(self) -> tuple[tuple[str, str], ...]:
        """The places in the entry where the user enters a secret, such as `("env", "API_KEY")`."""
        return tuple(value.keys for value in self.values if value.has_secret)

    @property
    def secrets(self) -> KnownSecrets:
        """The secrets that the user entered, keyed by place; the publisher's values are never secrets."""
        return {value.keys: value.secrets for value in self.values}

    @property
    def published(self) -> dict[str, dict[str, str]]:
        """The publisher's values that look like secrets, keyed by section and name, such as "env" and "API_URL".

        These values are recorded with the mcp.json entry, because mcphost would otherwise hide them later as secrets of
        the user.
        """
        found: dict[str, dict[str, str]] = {}
        for value in self.values:
            if text := value.published:
                found.setdefault(value.keys[0], {})[value.keys[1]] = text
        return found

    @property
    def shown(self) -> ShownValues:
        """The variables and headers for display, with only the user's secrets hidden."""
        return {value.keys: value.shown for value in self.values}


def list_options(server: RegistryEntry) -> tuple[InstallOption, ...]:
    """Return all ways to use a server, in the order of its registry entry: packages, then remotes."""
    options = [_package_option(package) for package in server.packages]
    return (*options, *(_remote_option(remote) for remote in server.remotes))


def choose_option(server: RegistryEntry, wanted: str, installed: Mapping[str, str]) -> InstallOption:
    """Return the first usable option, preferring options whose program is already installed.

    If *wanted* is not "", only options of this kind are considered. *installed* maps program names to paths. Raises
    UsageError if there is no option of this kind, and RegistryError if no option can be used.
    """
    options = list_options(server)
    if not options:
        raise RegistryError(f"{server.name} {server.version} has neither a package nor an address.", _read_more(server))
    fitting = [option for option in options if wanted in ("", option.kind)]
    if not fitting:
        kinds = ", ".join(dict.fromkeys(sanitize(option.kind, keep_newlines=False) for option in options))
        raise UsageError(f"{server.name} {server.version} has no {wanted}.", f"Available: {kinds}.")
    usable = [option for option in fitting if not option.problem]
    if not usable:
        raise RegistryError(f"{server.name} cannot be installed. {fitting[0].problem}", _read_more(server))
    ready = (option for option in usable if not option.program or option.program in installed)
    return next(ready, usable[0])


def _read_more(server: RegistryEntry) -> str:
    url = server.repository.url or server.website_url
    if not url:
        return "Add it by hand if you trust it: mcphost servers add NAME -- COMMAND."
    url = sanitize_line(url, 200)
    return f"Add it by hand if you trust it: mcphost servers add NAME -- COMMAND; its documentation: {url}"


def _package_option(package: RegistryPackage) -> InstallOption:
    label = f"{package.registry_type} {package.identifier} {package.version}".rstrip()
    option = InstallOption(kind=package.registry_type, label=label, package=package)
    try:
        _check_package(package)
        if package.registry_type == "mcpb":
            check_bundle(package)
            return option
        environment = package.environment_variables
        inputs = merge_inputs((
            *list_inputs("argument", package.runtime_arguments),
            *list_inputs("argument", package.package_arguments),
            *list_inputs("environment", environment),
        ))  # fmt: skip
        _check_secrets(inputs)
        if option.kind == "oci":
            inputs = _leave_host_paths_to_user(package, inputs)
        option = replace(option, inputs=inputs)
        # Planning with placeholders checks the complete command before the user is asked for values.
        _plan_package(option, package, _Values(inputs, check_values(inputs, {}), show_missing=True))
    except (RegistryError, UsageError) as error:
        return replace(option, problem=error.message)
    return option


def _check_package(package: RegistryPackage) -> None:
    kind = package.registry_type
    if kind not in RUNNERS and kind != "mcpb":
        shown = sanitize_line(kind, 40)
        raise RegistryError(f"mcphost installs no packages of the type {shown!r}.")
    if package.transport.type != "stdio":
        raise RegistryError("The package is a web server: start it, then add its address.")
    check_texts(package.runtime_arguments, "argument")
    check_texts(package.package_arguments, "argument")
    check_texts(package.environment_variables, "environment")
    for variable in package.environment_variables:
        check_variable_name(variable.name)


def _leave_host_paths_to_user(package: RegistryPackage, inputs: tuple[PlanInput, ...]) -> tuple[PlanInput, ...]:
    """Remove the defaults of inputs that determine which folders of this machine a container can access.

    Returns all inputs. A default that is the name of a volume is kept, because a volume is not a folder of this
    machine. Raises RegistryError if the entry itself names a folder of this machine, even as one of several choices.
    """
    marks = ValueSource(inputs, {one.name: (mark_input(one.name),) for one in inputs}, show_missing=False)
    words = argument_words(package.runtime_arguments, marks, check_flag_name)
    names = frozenset[str]().union(*(host_path_inputs(option, value) for option, value in mount_values(words)))
    changed: list[PlanInput] = []
    for one in inputs:
        if one.name not in names or (one.choices and all(map(is_volume_name, one.choices))):
            changed.append(one)
            continue
        if one.choices:
            shown = sanitize_line(", ".join(one.choices), 200)
            raise RegistryError(f"{one.name} gives the container access to one of these folders: {shown}.")
        has_volume = one.default is not None and is_volume_name(one.default)
        changed.append(replace(one, default=one.default if has_volume else None, is_host_path=True))
    return tuple(changed)


def check_bundle(package: RegistryPackage) -> None:
    """Check that an MCPB package has an allowed URL and a SHA-256. Raises RegistryError if it does not."""
    try:
        check_url(package.identifier, "address of the bundle")
    except UnsafeUrl as error:
        raise RegistryError(error.message) from error
    if not SHA256.fullmatch(package.file_sha256):
        raise RegistryError("The bundle has no SHA-256, so the download cannot be verified.")


def _check_secrets(inputs: Sequence[PlanInput]) -> None:
    """Check that no required secret would become part of a command-line argument or the server's URL.

    Other programs can read the arguments, and the URL is written to a file. Raises RegistryError if a required secret
    would be exposed in this way.
    """
    for one in inputs:
        if one.is_secret and one.is_required and one.place in ("argument", "address"):
            where = "an argument, which every program here can read" if one.place == "argument" else "the address"
            raise RegistryError(f"It takes the secret {one.name} in {where}.")


def _remote_option(remote: RegistryTransport) -> InstallOption:
    option = InstallOption(kind="remote", label=f"{remote.type} {remote.url}", remote=remote)
    try:
        if remote.type not in _TYPES:
            raise RegistryError(f"mcphost does not know the transport {sanitize(remote.type[:40])!r}.")
        for text in (remote.url, *variable_texts(remote.variables.values())):
            check_text(text)
        check_texts(remote.headers, "header")
        for header in remote.headers:
            check_header_name(header.name)
        inputs = merge_inputs((
            *list_variables("address", remote.url, remote.variables),
            *list_inputs("header", remote.headers),
        ))  # fmt: skip
        _check_secrets(inputs)
        option = replace(option, inputs=inputs)
        _plan_remote(remote, _Values(inputs, check_values(inputs, {}), show_missing=True))
    except (RegistryError, UsageError) as error:
        return replace(option, problem=error.message)
    return option


def plan_entry(option: InstallOption, given: InputValues, *, show_missing: bool = False) -> PlannedEntry:
    """Create the entry for mcp.json, with the user's values filled in.

    *given* maps input names to the user's values. Raises UsageError for an invalid or missing value, and
    RegistryError for a URL that is not allowed. With *show_missing*, a missing value is replaced by a placeholder
    instead.
    """
    known = {one.name for one in option.inputs}
    if unknown := next((name for name in given if name not in known), ""):
        names = ", ".join(one.name for one in option.inputs)
        raise UsageError(
            f"There is no input {sanitize(unknown[:100])!r}.", f"Inputs: {names}." if names else "It has no inputs."
        )
    checked = check_values(option.inputs, given)
    missing = tuple(one.name for one in option.inputs if one.is_required and one.name not in checked)
    if missing and not show_missing:
        raise UsageError(
            f"{missing[0]} needs a value.",
            f"Set it: --set {missing[0]}=VALUE, or run the command at a terminal to type it.",
        )
    values = _Values(option.inputs, checked, show_missing=show_missing)
    if option.remote is not None:
        planned = _plan_remote(option.remote, values)
    elif option.package is not None and option.package.registry_type in RUNNERS:
        planned = _plan_package(option, option.package, values)
    else:
        raise RegistryError("Download the bundle before planning its installation.")
    return replace(planned, missing=missing, notes=(*planned.notes, *exposure_notes(option.inputs, checked)))


class _Values(ValueSource):
    """Checked input values for an install option, used to build environment variables and headers."""

    def plan(self, section: str, ones: Sequence[RegistryInput]) -> tuple[PlannedValue, ...]:
        """Return the values of the environment variables or headers that are defined in *ones*.

        *section* is the section of the mcp.json entry to which the values belong, "env" or "headers". Variables and
        headers without a value are left out. If a name is defined more than once, the last definition counts.
        """
        planned: dict[str, PlannedValue] = {}
        for number, one in enumerate(ones, 1):
            if parts := self.parts_of(one, number):
                planned[one.name] = PlannedValue((section, one.name), parts)
        return tuple(planned.values())


def _plan_package(option: InstallOption, package: RegistryPackage, values: _Values) -> PlannedEntry:
    kind = option.kind
    words = package_words(package)
    variables = values.plan("env", package.environment_variables)
    env = planned_pairs(variables)
    names = {variable.name for variable in package.environment_variables}
    runtime = runtime_words(kind, argument_words(package.runtime_arguments, values, check_flag_name), names)
    if kind == "oci":
        # Without a value, docker takes the variable from its own environment, so the arguments contain no secret.
        runtime = (*runtime, *(word for name in env for word in ("-e", name)))
    own = argument_words(package.package_arguments, values, check_flag_name)
    command = (*words.runner, *runtime, *words.package, *(words.separator if own else ()), *own)
    entry: dict[str, Any] = {"command": command[0], "args": list(command[1:])}
    if env:
        entry["env"] = env
    notes = words.notes
    if kind == "oci":
        notes = (*notes, *_mount_notes(runtime), *_port_notes(runtime))
    return PlannedEntry(entry=entry, values=variables, notes=notes)


def _mount_notes(runtime: Sequence[str]) -> tuple[str, ...]:
    volumes = [volume_name(option, value) for option, value in mount_values(runtime)]
    notes = ("the container gets access to folders of this machine.",) if "" in volumes else ()
    shared = (name for name in dict.fromkeys(volumes) if name)
    return (*notes, *(f"the container uses the volume {name}, with everything in it." for name in shared))


def _port_notes(runtime: Sequence[str]) -> tuple[str, ...]:
    return ("the container opens a port that every program on this machine can use.",) if opens_port(runtime) else ()


def _plan_remote(remote: RegistryTransport, values: _Values) -> PlannedEntry:
    url = values.fill(remote.url, remote.variables)
    if url is None:
        raise UsageError("The address has a part without a value.", "Set it with --set NAME=VALUE.")
    check_address(url)
    headers = values.plan("headers", remote.headers)
    entry: dict[str, Any] = {"type": _TYPES[remote.type], "url": url}
    if headers:
        entry["headers"] = planned_pairs(headers)
    return PlannedEntry(entry=entry, values=headers)


_UNKNOWN_PART = re.compile(r"<[^<>/]{1,100}>")
_UNKNOWN_PORT = re.compile(rf":[0-9]*(?:{_UNKNOWN_PART.pattern})+")


def check_address(url: str) -> None:
    """Check that the URL of a remote server is https, or http to this machine.

    The URL may contain placeholders such as `<port>`. Raises RegistryError for any other URL.
    """
    try:
        # Parts that are not known yet have placeholders: a port, a label of the host, or the start of the URL.
        known = _UNKNOWN_PART.sub("x", _UNKNOWN_PORT.sub(":1", url))
        check_url(f"https://{known}" if url.startswith("<") else known, "address of the server")
    except UnsafeUrl as error:
        raise RegistryError(error.message) from error


def suggest_name(server: RegistryEntry) -> str:
    """Suggest a short name for mcp.json, based on the part of the server's name after the namespace.

    If that part is generic, the name is based on the publisher.
    """
    namespace, _, name = server.name.partition("/")
    return namespace.rpartition(".")[2] if name.lower() in _GENERIC_NAMES else name.lstrip("-._") or namespace
