"""Explanation of why a connection failed: the step that failed, and what to do about it."""

import re
from collections.abc import Sequence
from shlex import quote

from mcphost.config.schema import ServerConfig
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.errors import (
    ConfigError,
    ConnectionLost,
    ConsentDenied,
    MalformedMessage,
    McpHostError,
    RequestRefused,
    RequestTimeout,
    SignInRequired,
    UnsupportedRevision,
)

_MAX_OUTPUT_CHARS = 20_000
_STDERR_CAUSES: tuple[tuple[str, str], ...] = (
    ("unsupported engine", "It needs another version of Node.js: see `node --version` and its README."),
    ("requires node", "It needs another version of Node.js: see `node --version` and its README."),
    ("syntaxerror: unexpected token", "This version of Node.js is too old for it: see `node --version`."),
    ("referenceerror: file is not defined", "This version of Node.js is too old for it: see `node --version`."),
    ("referenceerror: fetch is not defined", "This version of Node.js is too old for it: see `node --version`."),
    ("referenceerror: websocket is not defined", "This version of Node.js is too old for it: see `node --version`."),
    ("import statement outside a module", 'Build it, or write "type": "module" in its package.json.'),
    ("unsupportedclassversionerror", "It needs a newer version of Java: see `java -version`."),
    ("install or update .net", "It needs another version of .NET: see `dotnet --list-runtimes`."),
    ("unable to access jarfile", "Correct the path in args; write it in full."),
    ("shared object file:", "Install the library that the message names, or a build of the program for this system."),
    ("glibc", "The program is for a newer system."),
    ("run again with the --allow-", "Add the permission that the message names to Deno's options in args."),
    ("playwright install", "Install the browser that it drives, with the command in the message."),
    ("could not find chrome", "Install the browser that it drives: see its README."),
    ("'mcp.server.fastmcp'", "It needs version 1 of the MCP SDK for Python: uvx --with 'mcp<2', or pin it."),
    ("requires-python", "It needs another version of Python: name it, as in uvx --python 3.13."),
    ("requires a different python", "It needs another version of Python: name it, as in uvx --python 3.13."),
    ("does not satisfy python", "It needs another version of Python: name it, as in uvx --python 3.13."),
    ("no module named", "Install the Python package in the environment of this command, or start it with uvx."),
    ("cannot find module", "Install its packages (npm install, npm run build), or correct the path in args."),
    ("err_module_not_found", "Install its packages (npm install, npm run build), or correct the path in args."),
    ("can't open file", "Correct the path in args; write it in full."),
    ("no such file or directory", "Correct the path; write it in full."),
    ("etarget", "There is no such version of the package: correct it in args."),
    ("enotempty", "The cache of npx is broken: delete the folder ~/.npm/_npx, then try again."),
    ("e404", "There is no such package: check its name in args."),
    ("404 not found", "There is no such package or version: check its name in args."),
    ("not found in the package registry", "There is no such package: check its name in args."),
    ("no solution found", "No version of the package fits: check its name and version in args."),
    ("does not provide any executables", "Name the program: uvx --from PACKAGE PROGRAM."),
    ("is not provided by package", "Name the program: uvx --from PACKAGE PROGRAM."),
    ("could not determine executable", "Name the program: npx -p PACKAGE PROGRAM."),
    ("enotfound", "The network or a name cannot be reached: check the network, or set HTTPS_PROXY."),
    ("eai_again", "The network or a name cannot be reached: check the network, or set HTTPS_PROXY."),
    ("name or service not known", "The network or a name cannot be reached: check the network, or set HTTPS_PROXY."),
    ("failed to fetch", "The network or a name cannot be reached: check the network, or set HTTPS_PROXY."),
    ("self signed certificate", "Set NODE_EXTRA_CA_CERTS or SSL_CERT_FILE in env."),
    ("self-signed certificate", "Set NODE_EXTRA_CA_CERTS or SSL_CERT_FILE in env."),
    ("unable to get local issuer", "Set NODE_EXTRA_CA_CERTS or SSL_CERT_FILE in env."),
    ("eaddrinuse", "Another process uses the server's port: stop that process, or choose another port."),
    ("address already in use", "Another process uses the server's port: stop that process, or choose another port."),
    ("cannot connect to the docker daemon", "Start Docker."),
    ("connect to the docker daemon socket", "Add your account to the group docker, or start it with podman."),
    ("the input device is not a tty", "Remove -t from args; keep -i, which connects its standard input."),
    ("bind source path does not exist", "Create that folder on this machine, or correct the path in args."),
    ("pull access denied", "There is no such image, or it needs a login: docker login."),
    ("manifest unknown", "There is no such tag of the image."),
    ("no space left", "Free space on the disk."),
    ("enospc", "Free space on the disk."),
    ("exec format error", "It is for another processor or system, or a script without a first line such as #!/bin/sh."),
    ("permission denied", "Check the permissions of the file or folder that the message names."),
    ("eacces", "Check the permissions of the file or folder that the message names."),
    ("command not found", "Install that program, or write its path in full."),
    ("unrecognized arguments", "Correct args: see its README."),
    ("unknown option", "Correct args: see its README."),
    ("arguments are required", "Correct args: see its README."),
    ("field required", 'Set the values that the message names as variables in "env" of the entry: see its README.'),
    ("usage:", "Correct args: see its README."),
)  # fmt: skip
"""Lower-case text to find in a program's error output, and the hint to show; the first match is used."""

_MISSING_SETTING = re.compile(r"\b(?!ERR_|GLIBC|CXXABI_)([A-Z][A-Z0-9]{1,20}(?:_[A-Z0-9]{1,20}){1,5})\b")
_MISSING_PROGRAM = re.compile(
    r"\benv: ['‘`\ufffd]?([\w.+-]{1,40})['’\ufffd]?: No such file|\bspawn ([\w./+-]{1,60}) ENOENT|"
    r"\b(?:sh|bash|zsh): (?:line )?(?:\d{1,6}: )?([\w@./+-]{1,60}): (?:command )?not found"
)
"""Messages with which env, shells and Node.js report that a program was not found."""
_SETTING_WORDS = (
    "required",
    "missing",
    "not set",
    "must be set",
    "is not defined",
    "please set",
    "please provide",
    "undefined",
    "keyerror: ",
)
_STATUS_HINTS: dict[int, str] = {
    400: "Is an MCP server at this path? Try /mcp.",
    403: "The server refuses this account or address; check headers, or sign in with another account.",
    404: "The path is wrong: servers are often at /mcp or /sse.",
    405: "The path is wrong, or of the older transport: try /mcp, or /sse.",
    406: "Is an MCP server at this path? Try /mcp.",
    407: "The proxy wants a name and a password: write HTTPS_PROXY as http://NAME:PASSWORD@HOST:PORT.",
    421: "The server does not accept this host name: allow it in the server's settings, or correct url.",
    429: "The server limits requests: wait, then try again.",
    502: "The server behind the gateway does not answer: start it, or wait.",
    503: "The server is overloaded or starting: wait, then try again.",
    504: "The server behind the gateway does not answer: start it, or wait.",
}
_SSE_STATUSES = frozenset({200, 400, 405, 406})
"""HTTP statuses with which a Streamable HTTP server responds to the first GET request of an HTTP+SSE client."""
_STATUS = re.compile(r"HTTP(?:/1\.1)? (?:status )?(\d{3})|status (\d{3})")


def explain_failure(
    server: ServerConfig, error: McpHostError, stderr: Sequence[str], warnings: Sequence[str]
) -> DiagnosisStep:
    """Return the diagnosis step at which a connection attempt failed with *error*.

    *stderr* contains the last lines of the program's error output, and *warnings* the problems in its standard output.
    """
    if isinstance(error, ConsentDenied):
        return make_step("approval", "failed", error.message, error.hint)
    if isinstance(error, SignInRequired):
        return make_step(
            "sign-in", "failed", error.message, error.hint or f"Sign in: mcphost login {quote(server.name)}"
        )
    if isinstance(error, ConfigError):
        return make_step("configuration", "failed", error.message, error.hint)
    if isinstance(error, UnsupportedRevision):
        return make_step("protocol", "failed", error.message, error.hint)
    if server.is_stdio:
        return _explain_program(error, stderr, warnings)
    return _explain_http(server, error)


def _explain_program(error: McpHostError, stderr: Sequence[str], warnings: Sequence[str]) -> DiagnosisStep:
    output = "\n".join(stderr)[-_MAX_OUTPUT_CHARS:]
    cause = _find_cause(output or error.message)
    if isinstance(error, RequestRefused):
        return make_step("protocol", "failed", error.message, _find_missing_setting(error.message) or error.hint)
    printed = next((text for text in warnings if "standard output" in text or "prints JSON" in text), "")
    if printed:
        hint = "Only MCP messages may be printed there: logs and banners belong on standard error."
        if "Listening" in printed or "localhost" in printed or "http://" in printed:
            hint = 'It seems to be an HTTP server: write its address as "url", or find its option for stdio.'
        is_quoted = isinstance(error, RequestTimeout) and "; it print" in error.message
        detail = error.message if is_quoted else f"{printed.rstrip('.')}. {error.message}"
        return make_step("output", "failed", detail, hint)
    if isinstance(error, RequestTimeout):
        hint = cause or "It starts but sends nothing: is it a stdio MCP server? Try a longer connect_timeout."
        return make_step("answer", "failed", error.message, hint)
    if isinstance(error, MalformedMessage):
        return make_step("output", "failed", error.message, error.hint or "Report it to the server's author.")
    hint = cause or _default_program_hint(error, output)
    return make_step("process", "failed", error.message, hint)


def _default_program_hint(error: McpHostError, output: str) -> str:
    if "exited with status 0" in error.message and not output:
        return "It exited without a message: is it a stdio MCP server? Check args."
    if "SIGKILL" in error.message:
        return "The operating system ended it: is there enough memory?"
    return error.hint or "Run the command by hand in a terminal, and read what it prints."


def _find_cause(output: str) -> str:
    lower = output.lower()
    if program := _MISSING_PROGRAM.search(output):
        name = program[1] or program[2] or program[3]
        return f'It needs {name}, which is not in its PATH: install it, or set PATH in "env" of the entry.'
    setting = _find_missing_setting(output)
    return setting or next((hint for text, hint in _STDERR_CAUSES if text in lower), "")


def _find_missing_setting(text: str) -> str:
    """Return a hint to set the environment variable that *text* reports as missing.

    *text* is an error message or the output of the program. Returns "" if no line reports a missing variable.
    """
    for line in text.splitlines():
        lower = line.lower()
        if any(word in lower for word in _SETTING_WORDS) and (found := _MISSING_SETTING.search(line[:2_000])):
            return f'Set {found[1]} in "env" of the entry, for example as ${{keyring:{found[1].lower()}}}.'
    return ""


def _explain_http(server: ServerConfig, error: McpHostError) -> DiagnosisStep:
    text = error.message
    if isinstance(error, RequestTimeout):
        hint = error.hint or "Check the server's log."
        return make_step("answer", "failed", text, hint)
    status = _find_status(error)
    if hint := _find_wrong_transport(server, status):
        return make_step("HTTP", "failed", text, hint)
    if status >= 300:
        other = "Check the server's log." if status >= 500 else "Check url and headers."
        return make_step("HTTP", "failed", text, _STATUS_HINTS.get(status, other))
    lower = text.lower()
    if "html" in lower or "content type" in lower or isinstance(error, MalformedMessage):
        return make_step("HTTP", "failed", text, "This is another kind of server: check the path; try /mcp, or /sse.")
    if isinstance(error, RequestRefused):
        return make_step("protocol", "failed", text, _find_missing_setting(text) or error.hint)
    if isinstance(error, ConnectionLost) or "closed the connection" in lower:
        return make_step("HTTP", "failed", text, "Check the server's log; if it speaks TLS, write https:// in url.")
    return make_step("HTTP", "failed", text, error.hint or "Check url.")


def _find_wrong_transport(server: ServerConfig, status: int) -> str:
    """Return a hint to correct the entry if *status* suggests a wrong HTTP transport, otherwise "".

    *status* is the HTTP status of the failed request. The hint suggests another "type" or another path in the URL.
    """
    if server.transport == "sse" and status in _SSE_STATUSES:
        return 'Remove "type": "sse": the server seems to speak Streamable HTTP.'
    if server.transport == "streamable-http" and status == 405:
        return 'Correct the path (try /mcp); if the server speaks the older transport, write "type": "sse".'
    return ""


def _find_status(error: McpHostError) -> int:
    """Return the HTTP status of an error or of one of its causes, or 0 if none has a status."""
    cause: BaseException | None = error
    for _ in range(10):
        if cause is None:
            break
        status = getattr(cause, "status", 0)
        if isinstance(status, int) and status:
            return status
        cause = cause.__cause__
    found = _STATUS.search(error.message)
    return int(found[1] or found[2]) if found else 0
