"""Source of a plan of installation: an entry of a registry, or a bundle that is downloaded first."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from mcphost.errors import RegistryError

if TYPE_CHECKING:
    from mcphost.cli.terminal_frontend import Confirmation, TerminalInput
    from mcphost.host.servers.server_editor import ServerEditor
    from mcphost.registry.bundle import OpenedBundle
    from mcphost.registry.plan import InstallOption, PlannedEntry


class PlanSource:
    """One way to run a server, with its inputs, and with its bundle once it is unpacked."""

    def __init__(self, option: "InstallOption", bundle: "OpenedBundle | None" = None) -> None:
        from mcphost.serialization import replace

        self.option = option if bundle is None else replace(option, inputs=bundle.manifest.inputs())
        self._bundle = bundle

    def plan(self, values: Mapping[str, Sequence[str]], *, show_missing: bool) -> "PlannedEntry":
        """Return the entry for mcp.json with these values. Raises UsageError or RegistryError."""
        from mcphost.registry.bundle_manifest import plan_bundle
        from mcphost.registry.plan import plan_entry

        if self._bundle is None:
            return plan_entry(self.option, values, show_missing=show_missing)
        return plan_bundle(self._bundle.manifest, self._bundle.folder, values, show_missing=show_missing)

    def asked_names(self) -> dict[str, dict[str, set[str]]]:
        """Return the names of the inputs in each variable and header, by section and name."""
        from mcphost.registry.updates import asked_names

        if self._bundle is None:
            return asked_names(self.option)
        return {"env": self._bundle.manifest.asked_names()}

    def discard(self) -> None:
        """Delete a bundle that was unpacked for this plan."""
        if self._bundle is not None:
            self._bundle.discard()


def describe_download(option: "InstallOption") -> dict[str, Any]:
    """Return the facts about a bundle before it is downloaded, as JSON data; {} if there is no bundle."""
    package = option.package
    if option.kind != "mcpb" or package is None:
        return {}
    return {"url": package.identifier, "sha256": package.file_sha256}


async def open_source(
    editor: "ServerEditor", option: "InstallOption", name: str, review: "Confirmation", terminal: "TerminalInput"
) -> PlanSource:
    """Create the source of a plan; a bundle is downloaded and unpacked after a question.

    Raises RegistryError, ConsentDenied or UsageError.
    """
    from mcphost import paths
    from mcphost.cli.output import show_status
    from mcphost.registry.bundle import MAX_BUNDLE_BYTES, fetch_bundle

    package = option.package
    if option.kind != "mcpb" or package is None:
        return PlanSource(option)
    folder = paths.data_dir() / "bundles"
    show_download(review, option)
    size = MAX_BUNDLE_BYTES // 1024**2
    question = f"Download it (at most {size} MB) and open it in {folder}? Nothing is started yet."
    await review.confirm_with(terminal, question, "Nothing was downloaded.")
    await editor.record_download(name, package.identifier, package.file_sha256)
    with show_status("Downloading…"):
        return PlanSource(option, await fetch_bundle(package, folder, name))


def show_download(review: "Confirmation", option: "InstallOption") -> None:
    """Show the address and the digest of a bundle."""
    for key, value in describe_download(option).items():
        review.show(f"  {key}: {value}")


def check_programs(option: "InstallOption", entry: Mapping[str, Any]) -> None:
    """Raise RegistryError if the program that runs a package or a bundle is not installed."""
    import os
    import shutil

    from mcphost.registry.package_grammar import RUNNERS

    command = str(entry.get("command", ""))
    if command and not os.path.isabs(command) and shutil.which(command) is None:
        runner = RUNNERS.get(option.kind)
        hint = runner.install_hint if runner is not None else f"Install it so that {command} is in PATH."
        raise RegistryError(f"{command} is not installed; nothing was changed.", hint)
