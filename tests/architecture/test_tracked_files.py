"""Tests that no tracked file contains a package registry's host name or a path on a developer's machine."""

import re

from tests.architecture.source_tree import ROOT, tracked_files

# Classes such as [p] keep this file from matching itself.
FORBIDDEN = {
    "a resolved address in a lock file": re.compile(r'"resolved": *"http'),
    "a registry of a lock file": re.compile(r'registry = "h[t]tp'),
    "a package index": re.compile(r"^\s*(extra-)?index[-_]url\s*[=:]", re.MULTILINE),
    "a package address": re.compile(r'https?://[^ "]*/(simple/?"|[p]ackages/[0-9a-f]{2}/)'),
    "a registry's host": re.compile(
        r"\bregistry\.[n]pmjs|\b[p]ypi\.org\b|\bapi\.[n]uget\.org|\bfiles\.[p]ythonhosted", re.IGNORECASE
    ),
    "a path of a workplace": re.compile(r"/w[o]rk/[a-z.]|/f[a]rm/|\.\./s[h]ared"),
}
PICTURES = {".png", ".svg", ".ico", ".gif"}


def test_tracked_files_name_no_registry_and_no_local_path() -> None:
    found = []
    for path in tracked_files():
        if path.suffix in PICTURES:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        found += [f"{path.relative_to(ROOT)}: {what}" for what, pattern in FORBIDDEN.items() if pattern.search(text)]
    assert found == []


def test_no_python_lock_file_is_tracked() -> None:
    """uv.lock would contain the URL of the registry, and pyproject.toml already defines the supported versions."""
    assert [path.name for path in tracked_files() if path.name in {"uv.lock", "poetry.lock", "Pipfile.lock"}] == []
