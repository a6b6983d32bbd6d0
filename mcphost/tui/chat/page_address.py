"""Address of an interactive page as seen from the user's machine, if mcphost runs over SSH."""

from collections.abc import Mapping

from mcphost.translation import _
from mcphost.tui.screen_text import clean_line


def forward_hint(port: int, environ: Mapping[str, str]) -> str:
    """Return a sentence with the command that makes a page reachable from the user's machine; "" without SSH."""
    command = forward_command(port, environ)
    return _("First, on your own machine, run: {command}").format(command=command) if command else ""


def forward_command(port: int, environ: Mapping[str, str]) -> str:
    """Return the SSH command that forwards *port*, or "" if mcphost does not run over SSH.

    The page must have the same port on the user's machine, because it accepts only requests sent to its own address.
    """
    parts = environ.get("SSH_CONNECTION", "").split()
    if len(parts) != 4:
        return ""
    user, host, ssh_port = environ.get("USER", ""), parts[2], parts[3]
    target = clean_line(f"{user}@{host}" if user else host, 200)
    other = () if ssh_port == "22" else ("-p", clean_line(ssh_port, 10))
    return " ".join(("ssh", *other, "-N", "-L", f"{port}:127.0.0.1:{port}", target))
