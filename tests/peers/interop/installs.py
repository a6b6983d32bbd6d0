"""Isolated installations of the interop peers in the cache folder, one for each library."""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.peers import node

HERE = Path(__file__).parent
INSTALL_SECONDS = 300
REQUIREMENTS = {
    "mcp1": "mcp==1.30.0",
    "fastmcp2": "fastmcp==2.14.7",
    "fastmcp3": "fastmcp==3.4.10",
    "fastmcp4": "fastmcp==4.1.2",
}


def python(library: str) -> str:
    """Return a Python interpreter for which the library is installed. Raises PeersMissing.

    The library mcp2 is a development dependency; all others are installed on first use.
    """
    if library not in REQUIREMENTS:
        return sys.executable
    requirement = REQUIREMENTS[library]
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    folder = node.cache_folder() / hashlib.sha256(f"{requirement} {version}".encode()).hexdigest()[:16]
    program = folder / "venv" / "bin" / "python"
    if (folder / node.INSTALL_MARKER).exists():
        return str(program)
    uv = shutil.which("uv", path=f"{Path.home() / '.local/bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise node.PeersMissing("uv is not installed")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not (folder / node.INSTALL_MARKER).exists():
            _run([uv, "venv", "-q", "--clear", "--python", sys.executable, str(folder / "venv")])
            _run([uv, "pip", "install", "-q", "--python", str(program), requirement])
            (folder / node.INSTALL_MARKER).touch()
    return str(program)


def node_modules() -> str:
    """Return the `node_modules` folder that contains all tested releases of the TypeScript SDK. Raises PeersMissing."""
    return str(node.package_root(HERE) / "node_modules")


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=INSTALL_SECONDS)
    except subprocess.CalledProcessError as error:
        reason = error.stderr.decode(errors="replace").strip().splitlines()
        raise node.PeersMissing(f"{' '.join(command[:3])} failed: {' '.join(reason[:3])}") from error
    except subprocess.TimeoutExpired as error:
        raise node.PeersMissing(f"{' '.join(command[:3])} did not end within {INSTALL_SECONDS} s") from error
