"""Words for people that more than one room says."""


def pluralize(number: int, noun: str) -> str:
    """`1 line`, `1,234 lines`: the number and what is counted, whose plural takes an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
