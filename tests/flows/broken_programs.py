"""Broken programs of servers, with the step, the reason and the fix that a diagnosis names."""

import sys
from typing import Any

PYTHON = sys.executable
WORKING = """
import json, sys
INFO = {"name": "x", "version": "1"}
for line in sys.stdin:
    message = json.loads(line)
    method, result = message.get("method"), None
    if method == "initialize":
        result = {"protocolVersion": REVISION, "capabilities": {"tools": {}}, "serverInfo": INFO}
    elif method == "tools/list":
        result = {"tools": TOOLS}
    if "id" in message:
        body = {"result": result} if result is not None else {"error": {"code": -32601, "message": "unknown"}}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
"""


def program(code: str) -> dict[str, Any]:
    return {"command": PYTHON, "args": ["-c", code]}


def working(before: str = "", revision: str = "2025-06-18", tools: str = "[]") -> dict[str, Any]:
    return program(before + WORKING.replace("REVISION", repr(revision)).replace("TOOLS", tools))


def fails_with(text: str, status: int = 1) -> dict[str, Any]:
    """Return a server's entry whose command prints an error message and exits with *status*."""
    return program(f"import sys; sys.stderr.write({text!r} + chr(10)); sys.exit({status})")


BROKEN_PROGRAMS: dict[str, tuple[dict[str, Any], str, str, str]] = {
    "npx is absent": ({"command": "npx", "env": {"PATH": "/nowhere"}}, "command", "'npx'", "Node.js"),
    "uvx is absent": ({"command": "uvx", "env": {"PATH": "/nowhere"}}, "command", "'uvx'", "uv"),
    "docker is absent": ({"command": "docker", "env": {"PATH": "/nowhere"}}, "command", "'docker'", "Docker"),
    "an unknown command": ({"command": "nope-x"}, "command", "'nope-x' was not found in PATH", "absolute path"),
    "an absolute path without a file": ({"command": "/nowhere/x"}, "command", "/nowhere/x does not exist", ""),
    "a relative path": ({"command": "./gone/server"}, "command", "is relative", "absolute path"),
    "a folder as the command": ({"command": "/usr"}, "command", "/usr is a folder", "program in it"),
    "a path of Windows": (
        {"command": "C:\\Program Files\\nodejs\\node.exe"},
        "command",
        "'C:\\Program Files\\nodejs\\node.exe' is a path of Windows.",
        "/mnt/c",
    ),
    "a program that only Windows has": ({"command": "cmd", "args": ["/c", "npx"]}, "command", "'cmd'", "after /c"),
    "a file that is not executable": ({"command": "/etc/passwd"}, "command", "not executable", "chmod +x"),
    "a working folder that is gone": ({"command": PYTHON, "cwd": "/nowhere"}, "folder", "/nowhere", "Create it"),
    "a working folder of Windows": (
        {"command": PYTHON, "cwd": "C:\\Users\\ada"},
        "folder",
        "\\Users\\ada' does not exist.",
        "Create it",
    ),
    "a variable without a value": ({"command": "${env:NOPE_MCP}"}, "configuration", "NOPE_MCP", ""),
    "a variable of env without a value": (
        {"command": PYTHON, "env": {"A": "${env:NOPE_MCP}"}},
        "configuration",
        "NOPE_MCP",
        "",
    ),
    "a disabled server": ({"command": PYTHON, "disabled": True}, "configuration", "disabled", "servers enable x"),
    "another version of node": (
        fails_with("npm error code EBADENGINE\nnpm error engine Unsupported engine"),
        "process",
        "exited with status 1",
        "version of Node.js",
    ),
    "another version of Python": (
        fails_with(
            "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because the current Python version (3.11.2)"
            " does not satisfy Python>=3.13, we can conclude that the requirements are unsatisfiable."
        ),
        "process",
        "3.11.2",
        "another version of Python",
    ),
    "a full disk": (fails_with("npm error code ENOSPC\nnpm error no space left"), "process", "ENOSPC", "Free space"),
    "a Python package that is missing": (program("import gone_module_x"), "process", "gone_module_x", "uvx"),
    "a node package that is missing": (
        fails_with("Error: Cannot find module '/srv/dist/index.js'"),
        "process",
        "index.js",
        "npm install",
    ),
    "a script that is missing": (
        {"command": PYTHON, "args": ["/nowhere/server.py"]},
        "process",
        "server.py",
        "path in args",
    ),
    "an unknown npm package": (fails_with("npm error code E404\nnpm error 404 x"), "process", "E404", "check its name"),
    "an unknown PyPI package": (
        fails_with("Because x was not found in the package registry, no solution found"),
        "process",
        "x was",
        "check its name",
    ),
    "a package runner without a network": (
        fails_with("npm error request to host failed, getaddrinfo ENOTFOUND host"),
        "process",
        "ENOTFOUND",
        "HTTPS_PROXY",
    ),
    "a corporate certificate": (
        fails_with("Error: self-signed certificate in chain"),
        "process",
        "self-signed",
        "EXTRA_CA",
    ),
    "docker is not running": (
        fails_with("Cannot connect to the Docker daemon at unix:///var/run/docker.sock."),
        "process",
        "Docker",
        "Start Docker",
    ),
    "a variable that the server needs": (
        fails_with("Error: GITHUB_TOKEN environment variable is not set"),
        "process",
        "GITHUB_TOKEN",
        "${keyring:github_token}",
    ),
    "wrong arguments": (fails_with("error: unrecognized arguments: --foo", 2), "process", "status 2", "args"),
    "a port that is taken": (
        fails_with("OSError: [Errno 98] Address already in use"),
        "process",
        "in use",
        "another port",
    ),
    "a program that starts another one, which is not in PATH": (
        fails_with("env: 'node': No such file or directory", 127),
        "process",
        "env: 'node'",
        "It needs node, which is not in its PATH",
    ),
    "a program that env does not find on macOS": (
        fails_with("env: node: No such file or directory", 127),
        "process",
        "env: node",
        "It needs node, which is not in its PATH",
    ),
    "a shell that does not find a program": (
        fails_with("sh: 1: mcp-server-foo: not found", 127),
        "process",
        "not found",
        "It needs mcp-server-foo, which is not in its PATH",
    ),
    "a program of node that does not find another one": (
        fails_with("Error: spawn uvx ENOENT"),
        "process",
        "ENOENT",
        "It needs uvx, which is not in its PATH",
    ),
    "a node that lacks what the server uses": (
        fails_with("ReferenceError: File is not defined\n    at undici/lib/webidl.js:531:48\n\nNode.js v18.20.4"),
        "process",
        "File is not defined",
        "too old",
    ),
    "a module of node that is started as a script": (
        fails_with("import x from 'y'\n^^^^^^\nSyntaxError: Cannot use import statement outside a module"),
        "process",
        "import statement",
        "package.json",
    ),
    "a setting that is a mistake of node": (
        fails_with("TypeError [ERR_INVALID_ARG_TYPE]: The path argument must be a string. Received undefined"),
        "process",
        "ERR_INVALID_ARG_TYPE",
        "Its error output is in",
    ),
    "a variable that a Python server needs": (
        fails_with("    os.environ['FOO_TOKEN']\nKeyError: 'FOO_TOKEN'"),
        "process",
        "FOO_TOKEN",
        "Set FOO_TOKEN",
    ),
    "a setting that a Python server needs": (
        fails_with("ValidationError: 1 validation error for Settings\napi_key\n  Field required [type=missing]"),
        "process",
        "Field required",
        'as variables in "env"',
    ),
    "a version of an npm package that is missing": (
        fails_with("npm error code ETARGET\nnpm error notarget No matching version found for x@9.9.9."),
        "process",
        "x@9.9.9",
        "no such version",
    ),
    "a cache of npx that is broken": (
        fails_with("npm error code ENOTEMPTY\nnpm error syscall rename\nnpm error path /home/u/.npm/_npx/1/x"),
        "process",
        "_npx",
        "~/.npm/_npx",
    ),
    "a program of a PyPI package that has another name": (
        fails_with("An executable named `x` is not provided by package `x`.\nThe following executables are available:"),
        "process",
        "not provided by package",
        "uvx --from PACKAGE PROGRAM",
    ),
    "a container with a terminal": (fails_with("the input device is not a TTY"), "process", "TTY", "-t from args"),
    "a container without the right to start": (
        fails_with("docker: permission denied while trying to connect to the Docker daemon socket"),
        "process",
        "Docker daemon socket",
        "group docker",
    ),
    "a folder of a container that is missing": (
        fails_with('docker: invalid mount config for type "bind": bind source path does not exist: /Users/me/x.'),
        "process",
        "/Users/me/x",
        "Create that folder",
    ),
    "a system that is too old": (
        fails_with("/x: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /x)"),
        "process",
        "GLIBC_2.38",
        "for a newer system",
    ),
    "a library that a package needs": (
        fails_with("ImportError: libGL.so.1: cannot open shared object file: No such file or directory"),
        "process",
        "libGL.so.1",
        "Install the library",
    ),
    "a library that is missing": (
        fails_with(
            "/x: error while loading shared libraries: libssl.so.1.1: cannot open shared object file: No such"
            " file or directory",
            127,
        ),
        "process",
        "libssl.so.1.1",
        "Install the library",
    ),
    "another version of Java": (
        fails_with("java.lang.UnsupportedClassVersionError: X has been compiled by a more recent version"),
        "process",
        "UnsupportedClassVersionError",
        "newer version of Java",
    ),
    "another version of .NET": (
        fails_with("You must install or update .NET to run this application.\nFramework: '9.0.0'", 150),
        "process",
        "9.0.0",
        "version of .NET",
    ),
    "a jar that is missing": (fails_with("Error: Unable to access jarfile /x/y.jar"), "process", "y.jar", "the path"),
    "a permission of Deno": (
        fails_with("error: NotCapable: Requires net access to x, run again with the --allow-net flag"),
        "process",
        "--allow-net",
        "in args",
    ),
    "a browser that is missing": (
        fails_with("browserType.launch: Executable doesn't exist at /x\nPlease run: npx playwright install"),
        "process",
        "playwright install",
        "browser",
    ),
    "version 2 of the SDK for a server of version 1": (
        fails_with("ModuleNotFoundError: No module named 'mcp.server.fastmcp'. This is mcp 2.x"),
        "process",
        "mcp.server.fastmcp",
        "mcp<2",
    ),
    "a whole command line as the command": (
        {"command": "npx -y @acme/server"},
        "command",
        "'npx -y @acme/server' is a program with its arguments",
        '"command": "npx", "args": ["-y", "@acme/server"]',
    ),
    "a path with a space": ({"command": "/opt/My App/server"}, "command", "/opt/My App/server does not exist", ""),
    "an address as the command": (
        {"command": "https://x.example/mcp"},
        "command",
        "is an address",
        '"url": "https://x.example/mcp"',
    ),
    "a program that ends at once": (program("pass"), "process", "status 0", "exited without a message"),
    "a program that is killed": (program("import os; os.kill(os.getpid(), 9)"), "process", "SIGKILL", "memory"),
    "a program that only prints its usage": (
        program("print('Usage: x [options]')"),
        "output",
        "Usage: x",
        "standard error",
    ),
    "a server of HTTP started as a program": (
        program("import time; print('Listening on http://localhost:3000', flush=True); time.sleep(60)"),
        "output",
        "Listening on",
        '"url"',
    ),
    "a program that says nothing": (
        program("import time; time.sleep(60)"),
        "answer",
        "did not answer",
        "is it a stdio MCP server",
    ),
    "JSON over several lines": (
        program('import sys\nfor line in sys.stdin: print(\'{\\n "jsonrpc":\\n "2.0"}\', flush=True)'),
        "output",
        "JSON",
        "",
    ),
    "an unknown revision": (working(revision="1999-01-01"), "protocol", "1999-01-01", "Update"),
    "an error as the answer to initialize": (
        program(
            "import json, sys\nfor line in sys.stdin:\n"
            " m = {**json.loads(line), 'error': {'code': -32000, 'message': 'MY_API_KEY is required'}}\n"
            " if m.pop('method', '') and m.pop('params', 1) and 'id' in m: print(json.dumps(m), flush=True)"
        ),
        "protocol",
        "MY_API_KEY is required",
        "Set MY_API_KEY",
    ),
}
