"""A fake web browser that runs a few lines of Python."""

import sys
from pathlib import Path

from tests.terminal.terminal import Terminal

GET_URL = "import urllib.request as u\nu.build_opener(u.ProxyHandler({})).open(url)"


def create_browser(folder: Path, body: str) -> str:
    """Create a browser that runs the Python code *body* with the URL in the variable `url`; return its command."""
    program = folder / "browser"
    program.write_text(f"#!{sys.executable}\nimport sys\nurl = sys.argv[1]\n{body}\n")
    program.chmod(0o755)
    return str(program)


def open_sign_in_question(folder: Path, config: str, program: str) -> Terminal:
    terminal = Terminal(folder, environment={"BROWSER": program})
    terminal.__enter__()
    terminal.start_chat("--mcp-config", config)
    terminal.wait_for_question("Sign in to tracker?", "tools:read", "o open the browser")
    return terminal


NO_KEYRING = {"DBUS_SESSION_BUS_ADDRESS": "unix:path=/nonexistent"}
