"""Writes the table of rooms in ARCHITECTURE.md from the docstrings: `uv run python -m tests.house.write_tables`."""

from tests.house.tree import PACKAGE, ROOT, module_name, purpose

BEGIN, END = "<!-- rooms: written by tests/house/write_tables.py -->", "<!-- end of rooms -->"

# From the lowest floor up, as in the diagram.
ORDER = (
    "",
    "demo",
    "protocol",
    "config",
    "transport",
    "schemas",
    "pictures",
    "auth",
    "llm",
    "store",
    "client",
    "host",
    "headless",
    "tui",
    "cli",
)


def tables() -> str:
    """One heading and one table for each package, lowest floor first."""
    found = {path.parent.relative_to(PACKAGE).as_posix().replace(".", "") for path in PACKAGE.rglob("__init__.py")}
    order = sorted(found, key=lambda room: (ORDER.index(room.split("/")[0]), room))
    return "\n".join(_table(room) for room in order)


def _table(room: str) -> str:
    package = PACKAGE / room
    lines = [f"### `{module_name(package / '__init__.py')}` — {purpose(package / '__init__.py')}", ""]
    rows = [path for path in sorted(package.glob("*.py")) if path.name != "__init__.py"]
    if rows:
        lines += ["| module | what it is for |", "|---|---|"]
        lines += [f"| `{module_name(path)}` | {purpose(path)} |" for path in rows]
        lines += [""]
    return "\n".join(lines)


def main() -> None:
    """Replace what stands between the two marks."""
    page = ROOT / "ARCHITECTURE.md"
    before, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{tables()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
