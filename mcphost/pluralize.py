"""Numbers followed by a singular or plural noun."""


def pluralize(number: int, noun: str) -> str:
    """Return a number and its noun, such as `1 line` or `1,234 lines`; the plural is formed with an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
