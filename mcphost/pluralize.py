"""Counts with singular and plural nouns."""


def pluralize(number: int, noun: str) -> str:
    """Return a number and its noun, such as `1 line` or `1,234 lines`; the plural adds an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
