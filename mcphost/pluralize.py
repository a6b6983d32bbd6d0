"""Formatting of numbers for users: with a singular or plural noun, as US dollars, or as a duration."""

from mcphost.translation import _, ngettext


def pluralize(number: int, noun: str) -> str:
    """Return a number with its noun, such as `1 line` or `1,234 lines`; the plural gets an "s"."""
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


def format_cost(amount: float | None, *, has_unknown: bool = False) -> str:
    """Format a cost in US dollars for display: "$0.50", "free", "unknown", or "$0.50 + unknown".

    *amount* is None if the cost is unknown. *has_unknown* means that the cost of some part is unknown and not
    included in *amount*.
    """
    if amount is None or (has_unknown and not amount):
        return _("unknown")
    if has_unknown:
        return format_dollars(amount) + _(" + unknown")
    return format_dollars(amount) if amount else _("free")


def format_prices(input_price: float | None, output_price: float | None) -> str:
    """Format prices in US dollars per million input and output tokens, such as "$3 / $15", "free" or "unknown"."""
    if input_price is None or output_price is None:
        return _("unknown")
    return f"${input_price:g} / ${output_price:g}" if input_price or output_price else _("free")


def format_duration(seconds: float) -> str:
    """Format a duration in at most two units, such as "42 s", "3 min 5 s" or "2 h 10 min"."""
    minutes, rest = divmod(int(seconds), 60)
    if not minutes:
        return _("{seconds} s").format(seconds=rest)
    if minutes < 60:
        return _("{minutes} min {seconds} s").format(minutes=minutes, seconds=rest)
    return _("{hours} h {minutes} min").format(hours=minutes // 60, minutes=minutes % 60)


def format_countdown(seconds: float) -> str:
    """Format the remaining seconds as minutes and seconds, such as "1:05"; a negative number becomes "0:00"."""
    left = max(0, round(seconds))
    return f"{left // 60}:{left % 60:02}"
