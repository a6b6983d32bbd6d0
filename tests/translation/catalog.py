"""The catalog of translations, extracted from the code: `uv run python -m tests.translation.catalog` updates it.

New texts get an empty translation, texts that are gone are removed, and the compiled file is written beside it.
"""

import ast
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po

from tests.architecture.source_tree import PACKAGE, module_paths, parse

FOLDER = PACKAGE / "locale" / "zh_CN" / "LC_MESSAGES"
PO_FILE, MO_FILE = FOLDER / "mcphost.po", FOLDER / "mcphost.mo"
# Babel fills these in with the time of the run and with placeholders.
_CHANGING_HEADERS = tuple(
    f'"{name}'.encode()
    for name in ("POT-Creation", "PO-Revision", "Report-Msgid", "Last-Translator", "Language-Team", "Project-Id")
)
# Babel fills these in with the time of the run and with placeholders.
_CHANGING_HEADERS = tuple(
    f'"{name}'.encode()
    for name in ("POT-Creation", "PO-Revision", "Report-Msgid", "Last-Translator", "Language-Team", "Project-Id")
)
_ANY_DATE = datetime(2026, 1, 1, tzinfo=UTC)
_HEADER = "# Simplified Chinese translation of mcphost."


class MarkedText(NamedTuple):
    """A text that the code marks for translation; `plural` is empty if it has one form."""

    text: str
    plural: str = ""
    context: str = ""


def find_marked_texts(path: Path) -> Iterator[tuple[MarkedText, int]]:
    """Yield the marked texts of a module with their lines."""
    for node in ast.walk(parse(path)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        match node.func.id, [one.value for one in node.args if isinstance(one, ast.Constant)]:
            case (("_" | "N_"), [str(text)]):
                yield MarkedText(text), node.lineno
            case "ngettext", [str(text), str(plural), *_]:
                yield MarkedText(text, plural), node.lineno
            case "pgettext", [str(context), str(text)]:
                yield MarkedText(text, context=context), node.lineno
            case "translate_count", [*_, str(noun)]:
                yield MarkedText(f"{{number:,}} {noun}", f"{{number:,}} {noun}s"), node.lineno
            case _:
                pass


def extract() -> Catalog:
    """Return a catalog of all marked texts, without translations."""
    found = Catalog(locale="zh_CN", project="mcphost", charset="utf-8", header_comment=_HEADER, fuzzy=False)
    for path in module_paths():
        for one, _line in find_marked_texts(path):
            name = (one.text, one.plural) if one.plural else one.text
            found.add(name, locations=[(path.relative_to(PACKAGE).as_posix(), 0)], context=one.context or None)
    return found


def read() -> Catalog:
    """Return the translations of `PO_FILE`."""
    with PO_FILE.open("rb") as file:
        return read_po(file, locale="zh_CN")


def compile_catalog(catalog: Catalog) -> bytes:
    """Return the content of the compiled file."""
    catalog.creation_date = catalog.revision_date = _ANY_DATE
    written = io.BytesIO()
    write_mo(written, catalog)
    return written.getvalue()


def write(catalog: Catalog) -> None:
    """Write both files."""
    written = io.BytesIO()
    # Line numbers would change with every commit.
    write_po(written, catalog, width=120, sort_output=True, include_lineno=False, ignore_obsolete=True)
    lines = written.getvalue().splitlines(keepends=True)
    PO_FILE.write_bytes(b"".join(line for line in lines if not line.startswith(_CHANGING_HEADERS)))
    MO_FILE.write_bytes(compile_catalog(read()))


def main() -> None:
    """Update both files from the code, and print the texts without a translation."""
    catalog = extract()
    known = read()
    for message in catalog:
        old = known.get(message.id, message.context)
        if message.id and old is not None and old.string and not old.fuzzy:
            message.string = old.string
    write(catalog)
    missing = [message for message in catalog if message.id and not (message.string and all(message.string))]
    for message in missing:
        print(repr(message.id))
    print(f"{len(catalog)} texts, {len(missing)} without a translation")


if __name__ == "__main__":
    main()
