"""mcphost's source files and all tracked files, as the architecture tests read them."""

import ast
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "mcphost"


def module_paths() -> list[Path]:
    """Return the files of all modules in mcphost."""
    return sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    """Return the module name of a file, such as `mcphost.log`; for `__init__.py`, the package name."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of one file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def docstring_summary(path: Path) -> str:
    """Return the first paragraph of a module's docstring as one line, or "" if it has none."""
    docstring = ast.get_docstring(parse(path)) or ""
    return " ".join(docstring.split("\n\n")[0].split())


def tracked_files() -> list[Path]:
    """Return all files tracked by git or, in an unpacked source archive, all files."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return [path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts]
    return [path for name in listed.split("\0") if name and (path := ROOT / name).is_file()]
