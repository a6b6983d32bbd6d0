"""Diagnosis of a stdio server before its program is started: folder, command, interpreter and arguments."""

import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from shlex import quote

from mcphost.config.entry_keys import is_whole_command_line
from mcphost.config.schema import ServerConfig
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.errors import StartupError
from mcphost.redact import redact_patterns
from mcphost.transport.process import build_environment, find_command

MAX_SHEBANG_BYTES = 256
INSTALL_HINTS: dict[str, str] = {
    "npx": "npx comes with Node.js: install Node.js (https://nodejs.org), or a version manager such as nvm or fnm.",
    "npm": "npm comes with Node.js: install Node.js (https://nodejs.org).",
    "node": "Install Node.js (https://nodejs.org).",
    "bunx": "bunx comes with Bun: install Bun (https://bun.sh).",
    "bun": "Install Bun (https://bun.sh).",
    "deno": "Install Deno (https://deno.com).",
    "uvx": "uvx comes with uv: install uv (https://docs.astral.sh/uv).",
    "uv": "Install uv (https://docs.astral.sh/uv).",
    "pipx": "Install pipx (https://pipx.pypa.io).",
    "python": "Install Python, or write python3.",
    "python3": "Install Python (https://www.python.org).",
    "docker": "Install Docker (https://docs.docker.com), or Podman with its docker command.",
    "podman": "Install Podman (https://podman.io).",
    "dnx": "dnx comes with .NET 10 or newer: install the .NET SDK (https://dot.net).",
    "dotnet": "Install the .NET SDK (https://dot.net).",
    "java": "Install Java.",
    "go": "Install Go (https://go.dev).",
    "cargo": "Install Rust (https://rustup.rs).",
    "cmd": "cmd is only in Windows: write the program after /c as the command, and the rest as its args.",
    "cmd.exe": "cmd is only in Windows: write the program after /c as the command, and the rest as its args.",
}
_WINDOWS_PATH = re.compile(r"[A-Za-z]:[\\/]|\\\\")
_VERSION_MANAGER_FOLDERS = (
    ".nvm/versions/node/*/bin",
    ".local/share/fnm/node-versions/*/installation/bin",
    ".local/bin",
    ".cargo/bin",
    ".bun/bin",
    ".deno/bin",
    ".volta/bin",
    ".asdf/shims",
    ".pyenv/shims",
)
"""Folders in the home folder where version managers install programs; often, only shells have them in their PATH."""


def check_program(server: ServerConfig) -> Iterator[DiagnosisStep]:
    """Check whether a server's program can be started; yield the result of each step, up to the first failure.

    `${…}` references in the server's entry must already be expanded.
    """
    environment = build_environment(server.env)
    if server.cwd:
        if not os.path.isdir(server.cwd):
            yield make_step(
                "folder", "failed", f"The folder '{server.cwd}' does not exist.", "Create it, or correct cwd."
            )
            return
        yield make_step("folder", "ok", server.cwd)
    try:
        program = find_command(server.command, environment, server.cwd)
    except StartupError as error:
        yield _explain_missing(server, environment, error)
        return
    yield make_step("command", "ok", program)
    interpreter = _find_missing_interpreter(Path(program), environment)
    if interpreter.endswith("\r"):
        detail = f"{program} has Windows line endings, so its interpreter is not found."
        yield make_step("interpreter", "failed", detail, f"Convert it: dos2unix {quote(program)}")
        return
    if interpreter:
        hint = INSTALL_HINTS.get(interpreter.rpartition("/")[2], f"Install {interpreter}, or correct the first line.")
        yield make_step("interpreter", "failed", f"{program} needs {interpreter!r}, which is not there.", hint)
        return
    yield from _warn_about_arguments(server)


def _explain_missing(server: ServerConfig, environment: dict[str, str], error: StartupError) -> DiagnosisStep:
    command = server.command
    if _WINDOWS_PATH.match(command):
        hint = "Write the program's path on this system; in WSL, the drive C: is /mnt/c."
        return make_step("command", "failed", f"'{command}' is a path of Windows.", hint)
    if command.startswith(("http://", "https://")):
        hint = f'Write "url": {json.dumps(command)} instead of "command".'
        return make_step("command", "failed", f"{command!r} is an address.", hint)
    name, *rest = command.split() or [""]
    if is_whole_command_line(command, bool(server.args)) and (os.sep not in name or os.path.isfile(name)):
        command = redact_patterns(command)
        name, *rest = command.split()
        hint = f'Write "command": {json.dumps(name)}, "args": {json.dumps(rest)}.'
        return make_step("command", "failed", f"'{command}' is a program with its arguments.", hint)
    if os.sep not in command:
        if elsewhere := _find_elsewhere(command):
            return make_step(
                "command", "failed", f"'{command}' is not in PATH, but {elsewhere} exists.",
                f'Write "command": "{elsewhere}", or start mcphost from a shell whose PATH has its folder.',
            )  # fmt: skip
        hint = INSTALL_HINTS.get(command, "Install it, or write its absolute path as the command.")
        return make_step("command", "failed", f"'{command}' was not found in PATH.", hint)
    path = Path(server.cwd or ".", os.path.expanduser(command))
    if os.path.isdir(path):
        return make_step("command", "failed", f"{path} is a folder.", "Write the path of the program in it.")
    if os.path.exists(path):
        runner = {".py": "python3", ".js": "node", ".mjs": "node", ".ts": "npx tsx"}.get(path.suffix, "")
        hint = f'Write {runner!r} as the command and the file as its first argument, or run: chmod +x "{path}"'
        return make_step(
            "command", "failed", f"{path} is not executable.", hint if runner else f'Run: chmod +x "{path}"'
        )
    if not os.path.isabs(os.path.expanduser(command)):
        base = server.cwd or os.path.dirname(server.file) or os.getcwd()
        return make_step(
            "command", "failed", f"'{command}' is relative, and there is no {path}.",
            f"Write the absolute path, or the right cwd; relative paths start at {base}.",
        )  # fmt: skip
    return make_step("command", "failed", f"{path} does not exist.", error.hint or "Correct the path.")


def _find_elsewhere(command: str) -> str:
    """Return the path of *command* in a folder of a version manager such as nvm, or "" if it is not found."""
    home = Path.home()
    for pattern in _VERSION_MANAGER_FOLDERS:
        for folder in sorted(home.glob(pattern), reverse=True)[:20]:
            if found := shutil.which(command, path=str(folder)):
                return found
    return ""


def _find_missing_interpreter(program: Path, environment: dict[str, str]) -> str:
    """Return the interpreter named in the first line of a script if it is missing, otherwise "".

    The name ends with a carriage return if the script has Windows line endings.
    """
    try:
        with program.open("rb") as file:
            head = file.read(MAX_SHEBANG_BYTES)
    except OSError:
        return ""
    if not head.startswith(b"#!"):
        return ""
    line = head[2:].partition(b"\n")[0].decode("utf-8", "replace")
    words = line.split()
    if not words:
        return ""
    if line.endswith("\r"):
        return f"{words[-1]}\r"
    interpreter = words[0]
    if interpreter.rpartition("/")[2] == "env":
        named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
        if not named or shutil.which(named[0], path=environment.get("PATH")):
            return ""
        return named[0]
    return "" if os.path.exists(interpreter) else interpreter


def _warn_about_arguments(server: ServerConfig) -> Iterator[DiagnosisStep]:
    """Yield a warning for each argument that looks like the path of a file that does not exist."""
    for argument in server.args[:50]:
        looks_like_file = argument.endswith((".py", ".js", ".mjs", ".ts", ".json", ".jar", ".sh"))
        path = Path(server.cwd or ".", argument)
        if (
            looks_like_file
            and not argument.startswith(("-", "@", "http"))
            and not os.path.exists(path)
            and "=" not in argument
        ):
            hint = "Correct the argument; relative paths start at the server's working folder."
            yield make_step("arguments", "warning", f"There is no file {path}.", hint)
