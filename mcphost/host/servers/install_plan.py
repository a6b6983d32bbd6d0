"""Install plans for review by the user: what would be started or reached, requirements and risks."""

import os
import shutil
from collections.abc import Mapping, Sequence, Set
from shlex import join
from typing import Any

from mcphost.config.approval_digest import describe_server, diff_lines
from mcphost.config.schema import ServerConfig
from mcphost.errors import RegistryError
from mcphost.host.servers.approval import server_warnings
from mcphost.registry.bundle import OpenedBundle
from mcphost.registry.bundle_manifest import plan_bundle
from mcphost.registry.entries import RegistryEntry
from mcphost.registry.package_grammar import RUNNERS
from mcphost.registry.plan import InstallOption, PlannedEntry, plan_entry
from mcphost.registry.plan_inputs import PlanInput
from mcphost.registry.updates import InstalledServer, merge_update
from mcphost.registry.updates import asked_names as list_asked_names
from mcphost.serialization import replace

REGISTRY_KEY = "registry"
"""Key under `mcphost` in an entry; its value records the registry, and the server's name and version there."""


class PlanSource:
    """Input of an install plan: one way to run a server, its inputs, and the unpacked bundle, if any."""

    def __init__(self, option: InstallOption, bundle: OpenedBundle | None = None) -> None:
        self.option = option if bundle is None else replace(option, inputs=bundle.manifest.inputs())
        self._bundle = bundle

    def plan(self, values: Mapping[str, Sequence[str]], *, show_missing: bool) -> PlannedEntry:
        """Return the entry for `mcp.json` with these input values. Raises UsageError or RegistryError.

        With *show_missing*, placeholders stand for required inputs without a value.
        """
        if self._bundle is None:
            return plan_entry(self.option, values, show_missing=show_missing)
        return plan_bundle(self._bundle.manifest, self._bundle.folder, values, show_missing=show_missing)

    def asked_names(self) -> dict[str, dict[str, set[str]]]:
        """Return the inputs that each variable or header uses, by section ("env" or "headers") and name."""
        if self._bundle is None:
            return list_asked_names(self.option)
        return {"env": self._bundle.manifest.asked_names()}

    def discard(self) -> None:
        """Delete the bundle, if one was unpacked for this plan."""
        if self._bundle is not None:
            self._bundle.discard()


def describe_download(option: InstallOption) -> dict[str, Any]:
    """Return the URL and SHA-256 of the bundle that must be downloaded, or {} if there is no bundle."""
    package = option.package
    if option.kind != "mcpb" or package is None:
        return {}
    return {"url": package.identifier, "sha256": package.file_sha256}


def check_programs(option: InstallOption, entry: Mapping[str, Any]) -> None:
    """Raise RegistryError if the program that runs the package or bundle is not installed."""
    command = str(entry.get("command", ""))
    if command and not os.path.isabs(command) and shutil.which(command) is None:
        runner = RUNNERS.get(option.kind)
        hint = runner.install_hint if runner is not None else f"Install it so that {command} is in PATH."
        raise RegistryError(f"{command} is not installed; nothing was changed.", hint)


def installed_programs() -> dict[str, str]:
    """Find the programs that run packages, such as npx and uvx; return their paths, keyed by program name."""
    found = {runner.program: shutil.which(runner.program) for runner in RUNNERS.values()}
    return {name: path for name, path in found.items() if path}


def absolute_place(place: str) -> str:
    """Return the URL of a registry unchanged, or the absolute path of a registry file."""
    return place if "://" in place else os.path.abspath(os.path.expanduser(place))


def with_registry(
    planned: PlannedEntry, option: InstallOption, server: RegistryEntry, place: str, values: dict[str, list[str]]
) -> dict[str, Any]:
    """Return the planned entry with a record of its origin in the registry, which `servers update` needs.

    The record includes the values of arguments. It excludes the values of variables and headers, which the entry
    itself contains, as references if they are secrets.
    """
    recorded = {one.name for one in option.inputs if one.place in ("argument", "address") and not one.is_secret}
    record: dict[str, Any] = {
        "url": place, "name": server.name, "version": server.version, "from": option.kind,
    }  # fmt: skip
    if kept := {name: texts for name, texts in values.items() if name in recorded}:
        record["inputs"] = kept
    return {**planned.entry, "mcphost": {REGISTRY_KEY: record}}


class PlanDescription:
    """Description of a plan for the user: a line for each property of the server and for each risk.

    `warnings` contains the risks, preceded by the warnings about the publisher; these are not in `lines`, because they
    are shown earlier.
    """

    def __init__(
        self, server: ServerConfig | None, details: Sequence[str], risks: Sequence[str], earlier: Sequence[str]
    ) -> None:
        self.server = server
        self.details = tuple(details)
        self.lines = [f"  {line}" for line in details] + [f"  Warning: {risk}" for risk in risks]
        self.warnings = [*earlier, *risks]


def describe_plan(
    server: ServerConfig | None, planned: PlannedEntry, option: InstallOption, earlier: Sequence[str]
) -> PlanDescription:
    """Describe what would be started or reached, with secrets masked, and the risks.

    *earlier* are the warnings about the publisher, which were already shown.
    """
    if server is None:
        return PlanDescription(None, (), (), earlier)
    masked = mask_server(server, planned)
    needs = ()
    if option.program:
        path = installed_programs().get(option.program)
        needs = (f"needs: {option.program} ({path or 'not installed'})",)
    summary = (f"runs: {join(masked.argv)}",) if masked.is_stdio else ()
    if option.inputs:
        summary = (*summary, f"inputs: {', '.join(map(describe_input, option.inputs))}")
    notes = tuple(f"{note[0].upper()}{note[1:]}" for note in planned.notes)
    risks = (*notes, *server_warnings(masked))
    return PlanDescription(masked, (*needs, *summary, *describe_server(masked)), risks, earlier)


def describe_input(one: PlanInput) -> str:
    """Describe an input: its name, whether it is required or secret, and its choices."""
    about = ["needed"] * one.is_required + ["secret"] * one.is_secret
    about += [" or ".join(one.choices)[:200]] if one.choices else []
    return f"{one.name} ({', '.join(about)})" if about else one.name


def mask_server(server: ServerConfig, planned: PlannedEntry) -> ServerConfig:
    """Return the server with every value masked that the registry declares secret."""
    changes: dict[str, dict[str, str]] = {"env": dict(server.env), "headers": dict(server.headers)}
    for place, key in planned.secret_keys:
        if key in changes[place] and "${" not in changes[place][key]:
            changes[place][key] = "${keyring:…}"
    return replace(server, env=changes["env"], headers=changes["headers"])


def plan_update(
    source: PlanSource,
    latest: RegistryEntry,
    place: str,
    record: InstalledServer,
    old_entry: Mapping[str, Any],
    typed: Mapping[str, list[str]],
    given: Set[str],
) -> tuple[dict[str, Any], PlannedEntry]:
    """Return the entry for a newer version, with the user's settings, and the plan it was made from.

    *typed* contains the input values that the user entered; *given* names the inputs whose values in the current entry
    are replaced by them. The plan names the inputs that still need a value. Raises UsageError or RegistryError.
    """
    values = {**record.values_for(source.option), **typed}
    planned = source.plan(values, show_missing=True)
    entry, planned = merge_update(planned, source.option.inputs, source.asked_names(), old_entry, given)
    own = with_registry(planned, source.option, latest, absolute_place(place), values)["mcphost"]
    return {**entry, "mcphost": {**entry.get("mcphost", {}), **own}}, planned


def describe_update(
    old: ServerConfig, new: ServerConfig | None, planned: PlannedEntry
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a diff of the server's description and the warnings that are new, both with secrets masked."""
    if new is None:
        return (), ()
    masked = mask_server(new, planned)
    lines = diff_lines(describe_server(old), describe_server(masked))
    changed = tuple(line for line in lines if not line.startswith("  "))
    known = server_warnings(old)
    return changed, (*planned.notes, *(warning for warning in server_warnings(masked) if warning not in known))
