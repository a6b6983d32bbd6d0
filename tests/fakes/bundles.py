"""MCPB bundles (packaged servers) for the tests: ZIP files with a manifest, some of them hostile."""

import hashlib
import io
import json
import zipfile
from typing import Any

SERVER_FILE = "server/main.py"


def manifest(**more: Any) -> dict[str, Any]:
    """Return the manifest of a Python server that asks the user for a folder and a secret."""
    command = {
        "command": "python3",
        "args": ["${__dirname}/server/main.py", "--dir", "${user_config.folders}"],
        "env": {"PYTHONPATH": "${__dirname}/server/lib", "API_KEY": "${user_config.api_key}"},
    }
    return {
        "manifest_version": "0.3",
        "name": "notes",
        "version": "1.0.0",
        "description": "Notes",
        "author": {"name": "Ada"},
        "server": {"type": "python", "entry_point": SERVER_FILE, "mcp_config": command},
        "user_config": {
            "folders": {"type": "directory", "title": "Folders", "multiple": True, "required": True},
            "api_key": {"type": "string", "title": "Key", "sensitive": True, "required": False},
        },
        **more,
    }


def bundle(files: dict[str, bytes | str] | None = None, about: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of a bundle with a manifest, a server and the given files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(about if about is not None else manifest()))
        archive.writestr(SERVER_FILE, "print('server')\n")
        for name, content in (files or {}).items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def linked_bundle(target: str) -> bytes:
    """Return the bytes of a bundle that contains a symbolic link to *target*."""
    stream = io.BytesIO(bundle())
    with zipfile.ZipFile(stream, "a") as archive:
        info = zipfile.ZipInfo("server/link")
        info.external_attr = 0o120777 << 16
        archive.writestr(info, target)
    return stream.getvalue()


def sha256_of(content: bytes) -> str:
    """Return the SHA-256 digest of a bundle as registry entries contain it."""
    return hashlib.sha256(content).hexdigest()
