"""Search for the line of an entry in a TOML file, for error messages; tomllib does not report it."""


def find_entry_line(text: str, table: str, key: str) -> int:
    """Return the line number (1-based) of *key* in the top-level table *table*, or 0 if it is not found.

    A line inside a multi-line string may be mistaken for the entry, so use the number only in messages.
    """
    current = ""
    for number, line in enumerate(text.split("\n"), 1):
        if line.lstrip().startswith("["):
            current = _unquote(line.partition("#")[0].strip().removeprefix("[").removesuffix("]"))
            continue
        name, equals, _ = line.partition("=")
        if equals and current == table and _unquote(name) == key:
            return number
        if equals and not current:
            first, dot, rest = name.partition(".")
            if _unquote(first) == table and (not dot or _unquote(rest) == key):
                return number
    return 0


def _unquote(name: str) -> str:
    name = name.strip()
    return name[1:-1] if len(name) > 1 and name[0] == name[-1] and name[0] in "\"'" else name
