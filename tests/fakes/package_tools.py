"""Fake npm and uv commands that record how they were started and print what a test wants."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_SCRIPT = """#!/bin/sh
PATH="$PATH:/usr/bin:/bin"
cd_files=$(ls -A | tr '\\n' ' ')
cat > '{home}/{name}.input'
printf '%s\\n' "{name} $*" >> '{home}/package-tools.log'
printf '%s\\n' "$PWD|$cd_files|$(env)" > '{home}/{name}.place'
[ -e '{home}/{name}.hangs' ] && exec sleep 600
[ -p '{home}/{name}.held' ] && read -r _ < '{home}/{name}.held'
[ "$1" = pack ] && [ -e '{home}/{name}.tgz' ] && cp '{home}/{name}.tgz' package-1.0.0.tgz && exit 0
cat '{home}/{name}.output'
cat '{home}/{name}.error' >&2
exit "$(cat '{home}/{name}.code')"
"""
INTEGRITY = f"sha512-{'A' * 86}=="
OTHER_INTEGRITY = f"sha512-{'B' * 86}=="


_OFFLINE_SCRIPT = """#!/bin/sh
case "$1 $2" in
"view "*|"pack "*|"pip compile") echo "{name}: no test asks a package index" >&2; exit 1 ;;
esac
exec '{program}' "$@"
"""


def refuse_index_queries(folder: Path) -> None:
    """Write npm and uv commands to *folder* that run the installed ones, but ask no package index about a version."""
    for name in ("npm", "uv"):
        if program := shutil.which(name):
            script = folder / name
            script.write_text(_OFFLINE_SCRIPT.format(name=name, program=program))
            script.chmod(0o755)


class FakePackageTools:
    """A folder with the commands npm and uv, to be put into PATH; both fail until a test sets what they print."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "package-tools"
        self.folder.mkdir(exist_ok=True)
        self._home = home
        for name in ("npm", "uv"):
            program = self.folder / name
            program.write_text(_SCRIPT.format(home=home, name=name))
            program.chmod(0o755)
            self.answer(name, "", error=f"{name}: no network", code=1)

    def answer(self, name: str, output: str | bytes, *, error: str = "", code: int = 0) -> None:
        """Let a command print these texts and exit with *code*."""
        raw = output if isinstance(output, bytes) else output.encode()
        (self._home / f"{name}.output").write_bytes(raw)
        (self._home / f"{name}.error").write_text(error)
        (self._home / f"{name}.code").write_text(str(code))

    def answer_npm(self, name: str, version: str, integrity: str = INTEGRITY, **more: Any) -> None:
        """Let npm print what `npm view --json` prints about one version of a package."""
        self.answer(
            "npm", json.dumps({"name": name, "version": version, "dist.integrity": integrity, **more}, indent=2)
        )

    def answer_npm_file(self, content: bytes) -> None:
        """Let `npm pack` download a file with this content."""
        (self._home / "npm.tgz").write_bytes(content)

    def answer_uv(self, name: str, version: str, *hashes: str) -> None:
        """Let uv print what `uv pip compile --generate-hashes` prints about one version of a package."""
        lines = [f"{name}=={version}", *(f"    --hash=sha256:{one}" for one in hashes)]
        self.answer("uv", " \\\n".join(lines) + "\n", error="Resolved 1 package in 7ms")

    def hang(self, name: str) -> None:
        """Let a command run until it is ended."""
        (self._home / f"{name}.hangs").touch()

    def hold(self, name: str) -> Callable[[], None]:
        """Let the next run of a command wait before it prints anything, and return a function that lets it go on."""
        pipe = self._home / f"{name}.held"
        os.mkfifo(pipe)

        def release() -> None:
            with pipe.open("w") as there:  # waits until the command reads
                there.write("go on\n")
            pipe.unlink()

        return release

    @property
    def started(self) -> list[str]:
        """The command lines with which the commands were started, without the folder."""
        log = self._home / "package-tools.log"
        return log.read_text().splitlines() if log.exists() else []

    def read_input(self, name: str) -> str:
        """Return the standard input of the command's last run."""
        return (self._home / f"{name}.input").read_text()

    def read_place(self, name: str) -> tuple[Path, set[str], dict[str, str]]:
        """Return the folder in which a command ran last, the files in it, and its environment."""
        folder, files, variables = (self._home / f"{name}.place").read_text().split("|", 2)
        pairs = (line.partition("=") for line in variables.splitlines())
        return Path(folder), set(files.split()), {name: value for name, _, value in pairs}
