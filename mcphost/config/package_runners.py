"""Commands that download a program before they run it, so that their first start takes longer."""

from collections.abc import Sequence

INSTALLER_START_TIMEOUT = 120.0
"""Seconds that such a command may take until its server answers."""

_INSTALLERS = frozenset({"npx", "pnpx", "bunx", "uvx", "dlx"})
_INSTALLER_SUBCOMMANDS: dict[str, frozenset[str]] = {
    "npm": frozenset({"exec", "x"}),
    "pnpm": frozenset({"dlx", "exec"}),
    "yarn": frozenset({"dlx"}),
    "bun": frozenset({"x"}),
    "uv": frozenset({"run", "tool"}),
    "pipx": frozenset({"run"}),
    "docker": frozenset({"run", "compose"}),
    "podman": frozenset({"run", "compose"}),
    "nerdctl": frozenset({"run", "compose"}),
    "deno": frozenset({"run"}),
    "go": frozenset({"run"}),
    "cargo": frozenset({"run"}),
}
_MAX_SUBCOMMAND_POSITION = 6  # the program's own options may come before its subcommand
_EXECUTABLE_SUFFIXES = (".exe", ".cmd", ".bat")


def is_installer(argv: Sequence[str]) -> bool:
    """Return whether a command is known to download what it runs, such as `npx`, `uvx` or `docker run`."""
    if not argv:
        return False
    name = argv[0].replace("\\", "/").rsplit("/", 1)[-1].lower()
    for suffix in _EXECUTABLE_SUFFIXES:
        name = name.removesuffix(suffix)
    subcommands = _INSTALLER_SUBCOMMANDS.get(name, frozenset())
    return name in _INSTALLERS or not subcommands.isdisjoint(argv[1 : 1 + _MAX_SUBCOMMAND_POSITION])
