"""Share compiled bytecode between the workers of a test run: each file is compiled by one worker only."""

import zlib
from collections.abc import Iterable
from contextlib import suppress
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion import rewrite as pytest_rewrite

from tests.flows import fork_sockets

TESTS = Path(__file__).parent
PACKAGE = TESTS.parent / "mcphost"
rewrite: Any = pytest_rewrite


def compile_unclaimed(config: pytest.Config, tests: Iterable[Path]) -> None:
    """Compile all files that have no current bytecode and that no other worker has claimed."""
    claims = fork_sockets.socket_folder() / "bytecode"
    claims.mkdir(exist_ok=True)
    rewritten = sorted(tests)
    plain = [path for folder in (PACKAGE, TESTS) for path in sorted(folder.rglob("*.py")) if not _is_rewritten(path)]
    for path in (*plain, *(path for path in rewritten if _is_rewritten(path))):
        if not _claim(claims / f"{zlib.crc32(str(path).encode()):08x}"):
            continue
        with suppress(SyntaxError):  # the import reports it
            if _is_rewritten(path):
                _compile_with_assertions(config, path)
            else:
                SourceFileLoader(path.stem, str(path)).get_code(path.stem)


def _claim(path: Path) -> bool:
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _is_rewritten(path: Path) -> bool:
    return path.is_relative_to(TESTS) and (path.name == "conftest.py" or path.name.startswith("test_"))


def _compile_with_assertions(config: pytest.Config, path: Path) -> None:
    """Compile a file with pytest's assertion rewriting, for which pytest offers no public function."""
    cache = rewrite.get_cache_dir(path)
    pyc = cache / f"{path.stem}{rewrite.PYC_TAIL}"
    if rewrite._read_pyc(path, pyc) is None and rewrite.try_makedirs(cache):
        source_hash, code = rewrite._rewrite_test(path, config)
        rewrite._write_pyc(config.stash[rewrite.assertstate_key], code, source_hash, pyc)
