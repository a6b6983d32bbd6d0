"""Formatting of numbers for users: with a singular or plural noun, or as US dollars."""

from mcphost.translation import ngettext


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 line` or `1,234 lines`; the plural is formed with an s."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def translate_count(number: int, noun: str) -> str:
    """Return a number with its noun like `pluralize`, but in the language of the user interface.

    Pass *noun* as a literal, so that the tools that collect text for translation can find it.
    """
    return ngettext(f"{{number:,}} {noun}", f"{{number:,}} {noun}s", number).format(number=number)


def format_dollars(amount: float) -> str:
    """Format an amount of US dollars, such as "$12.30".

    Amounts between zero and ten cents have four decimal places, such as "$0.0042"; smaller ones are "<$0.0001".
    """
    if amount >= 0.1 or not amount:
        return f"${amount:,.2f}"
    return f"${amount:.4f}" if amount >= 0.0001 else "<$0.0001"
