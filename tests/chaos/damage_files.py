"""Damage the stored files of a real mcphost at random: no command may crash, and any loss must be reported.

Use `python -m tests.chaos.damage_files --count 500` for a longer run. Each round copies a store with conversations, a
permission and an audit log, damages one of the files, and runs commands with the copy. A changed letter in a stored
text cannot be detected, because SQLite has no checksums, but a missing conversation can.
"""

import argparse
import json
import random
import shutil
import sqlite3
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from mcphost.serialization import Struct
from tests.flows.program import DEMO, Program

_CONVERSATIONS = 3
_TARGETS = ("data/mcphost.db", "data/ledger.db", "state/ledger.head")
_TOLD = ("damaged", "cannot", "failed", "newer", "broken", "missing")

Damage = Callable[[Path, random.Random], None]


def truncate(file: Path, chance: random.Random) -> None:
    """Cut off the file at a random position."""
    content = file.read_bytes()
    file.write_bytes(content[: chance.randrange(len(content) + 1)])


def blank(file: Path, chance: random.Random) -> None:
    """Overwrite a part of the file with zeros, as happens after a power failure."""
    content = bytearray(file.read_bytes())
    start = chance.randrange(len(content))
    end = min(len(content), start + chance.choice((16, 512, 4096, 20_000)))
    content[start:end] = bytes(end - start)
    file.write_bytes(content)


def scribble(file: Path, chance: random.Random) -> None:
    """Change some bytes of the file."""
    content = bytearray(file.read_bytes())
    for _ in range(chance.choice((1, 8, 200))):
        content[chance.randrange(len(content))] = chance.randrange(256)
    file.write_bytes(content)


def scribble_head(file: Path, chance: random.Random) -> None:
    """Change a byte in the database's header or in the schema after it."""
    content = bytearray(file.read_bytes())
    content[chance.randrange(min(len(content), 200))] = chance.randrange(256)
    file.write_bytes(content)


def swap_pages(file: Path, chance: random.Random) -> None:
    """Swap two pages of the database."""
    content = file.read_bytes()
    pages = [content[at : at + 4096] for at in range(0, len(content), 4096)]
    first, second = chance.randrange(len(pages)), chance.randrange(len(pages))
    pages[first], pages[second] = pages[second], pages[first]
    file.write_bytes(b"".join(pages))


def replace(file: Path, chance: random.Random) -> None:
    """Replace the content of the file with unrelated bytes."""
    file.write_bytes(chance.choice((b"", b"not a database", b"{}", chance.randbytes(9_000))))


def use_other_schema(file: Path, chance: random.Random) -> None:
    """Replace the file with a database from another program or from a much newer mcphost."""
    if chance.random() < 0.5:
        file.write_bytes(b"")
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file)) as db:
        db.executescript("PRAGMA user_version = 999; CREATE TABLE IF NOT EXISTS recipes (name TEXT);")


def drop_table(file: Path, chance: random.Random) -> None:
    """Drop a table of the database, as a curious user might."""
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(file)) as db:
        names = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        db.execute(f'DROP TABLE "{chance.choice(names)}"')
        db.commit()


def become_folder(file: Path, chance: random.Random) -> None:
    """Replace the file with a folder."""
    del chance
    file.unlink()
    file.mkdir()


def vanish(file: Path, chance: random.Random) -> None:
    """Delete the file."""
    del chance
    file.unlink()


DAMAGES: tuple[Damage, ...] = (
    truncate, blank, scribble, scribble_head, swap_pages, replace, use_other_schema, drop_table, become_folder, vanish,
)  # fmt: skip


_RECOVERABLE = (scribble_head, swap_pages)
"""Damage that leaves every message readable, because the pages that have them are kept."""


class Outcome(Struct, frozen=True):
    """The results of all commands with a damaged file: exit codes, messages, and how many conversations were listed."""

    codes: tuple[int, ...]
    told: str
    listed: int


def fill_store(program: Program) -> None:
    """Store some conversations, a permission and audit rows."""
    program.configure(demo=DEMO)
    program.run("servers", "trust", "demo", "--yes")
    for number in range(_CONVERSATIONS):
        done = program.run("run", "--model", "demo", "--allow", "demo/add", f"what is {number} + 40?")
        assert done.returncode == 0, done.stderr
    assert len(list_conversations(program)[0]) == _CONVERSATIONS


def list_conversations(program: Program) -> tuple[tuple[str, ...], int, str]:
    """Return the ids of the listed conversations, the exit code, and the messages printed to standard error."""
    done = program.run("sessions", "--json")
    found: list[dict[str, str]] = json.loads(done.stdout)["sessions"] if done.returncode == 0 else []
    return tuple(one["id"] for one in found), done.returncode, done.stderr.decode()


def use_store(program: Program) -> Outcome:
    """Run commands that read and write all kinds of stored data."""
    listed, code, told = list_conversations(program)
    commands = (
        *(("sessions", "show", one) for one in listed),
        ("sessions", "search", "what"),
        ("grants", "--json"),
        ("audit", "--json"),
        ("audit", "verify"),
        ("run", "--model", "demo", "--allow", "demo/add", "what is 2 + 40?"),
        ("call", "demo", "add", "a=1", "b=2"),
    )
    done = [program.run(*command) for command in commands]
    verified = done[commands.index(("audit", "verify"))].stdout.decode()
    texts = [told, *(one.stderr.decode() for one in done), verified]
    return Outcome((code, *(one.returncode for one in done)), "\n".join(texts), len(listed))


def salvage(program: Program, aside: Path, what: str) -> int:
    """Salvage the conversations of a damaged store, and return their number."""
    done = program.run("sessions", "salvage", str(aside), "--json")
    assert done.returncode in (0, 1), f"salvage failed in {what}\n{done.stderr.decode()}"
    found: int = json.loads(done.stdout)["conversations"]
    assert (done.returncode == 0) == (found > 0), f"salvage ended with {done.returncode} in {what}"
    return found


def run_rounds(folder: Path, count: int, seed: int) -> dict[str, int]:
    """Damage *count* copies of a store, and count the outcomes: each is "told" or "unharmed".

    Also counted are the conversation stores that were put aside, and the conversations salvaged from them. Raises
    AssertionError at the first crash, unreported loss, or damaged file that was moved without naming it.
    """
    original = folder / "original"
    original.mkdir()
    fill_store(Program(original))
    chance, totals = random.Random(seed), Counter[str]()
    for number in range(count):
        damage, target = DAMAGES[number % len(DAMAGES)], chance.choice(_TARGETS)
        home = folder / f"copy-{number}"
        shutil.copytree(original, home, ignore=shutil.ignore_patterns("work"))
        damage(home / target, chance)
        program = Program(home)
        outcome = use_store(program)
        what = f"round {number}: {damage.__name__} of {target}: {outcome.codes}\n{outcome.told[-3_000:]}"
        assert "crashed" not in outcome.told, f"a crash in {what}"
        assert "Traceback" not in outcome.told, f"a traceback in {what}"
        for aside in (home / target).parent.glob("*.damaged-*"):
            if not aside.name.endswith(("-wal", "-shm")):
                assert aside.name in outcome.told, f"a damaged file was moved without a word in {what}"
                if aside.name.startswith("mcphost.db"):
                    totals["put aside"] += 1
                    found = salvage(program, aside, what)
                    assert found == _CONVERSATIONS or damage not in _RECOVERABLE, f"{found} salvaged in {what}"
                    totals["conversations salvaged"] += found
        is_told = any(word in outcome.told.lower() for word in _TOLD)
        assert outcome.listed == _CONVERSATIONS or is_told, f"a silent loss in {what}"
        totals["told" if is_told else "unharmed"] += 1
        shutil.rmtree(home)
    return dict(totals)


def main() -> None:
    """Run the script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        sys.stdout.write(json.dumps(run_rounds(Path(folder), args.count, args.seed)) + "\n")


if __name__ == "__main__":
    main()
