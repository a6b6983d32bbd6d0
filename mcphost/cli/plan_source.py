"""Confirmation and download of an MCP bundle, which is unpacked before its installation is planned."""

from typing import TYPE_CHECKING

from mcphost.translation import _

if TYPE_CHECKING:
    from mcphost.cli.terminal_frontend import Confirmation, TerminalInput
    from mcphost.host.servers.install_plan import PlanSource
    from mcphost.host.servers.server_editor import ServerEditor
    from mcphost.registry.plan import InstallOption


async def open_source(
    editor: "ServerEditor", option: "InstallOption", name: str, review: "Confirmation", terminal: "TerminalInput"
) -> "PlanSource":
    """Return the source of an install plan; a bundle is downloaded and unpacked first, if the user agrees.

    Raises RegistryError, ConsentDenied or UsageError.
    """
    from mcphost import paths
    from mcphost.cli.output import show_status
    from mcphost.host.servers.install_plan import PlanSource
    from mcphost.registry.bundle import MAX_BUNDLE_BYTES, fetch_bundle

    package = option.package
    if option.kind != "mcpb" or package is None:
        return PlanSource(option)
    folder = paths.data_dir() / paths.BUNDLES_FOLDER
    show_download(review, option)
    size = MAX_BUNDLE_BYTES // 1024**2
    await review.confirm_with(
        terminal,
        f"Download it (at most {size} MB) and open it in {folder}? Nothing is started yet.",
        "Nothing was downloaded.",
    )
    await editor.record_download(name, package.identifier, package.file_sha256)
    with show_status(_("Downloading…")):
        return PlanSource(option, await fetch_bundle(package, folder, name))


def show_download(review: "Confirmation", option: "InstallOption") -> None:
    """Show the URL and the SHA-256 digest of the bundle that would be downloaded."""
    from mcphost.cli.output import translate_line
    from mcphost.host.servers.install_plan import describe_download

    for key, value in describe_download(option).items():
        review.show(f"  {translate_line(f'{key}: {value}')}")
