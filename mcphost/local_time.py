"""Local date and time of stored timestamps, which may be damaged."""

from datetime import datetime


def local_moment(seconds: float) -> datetime | None:
    """Return a Unix timestamp as local date and time; None for 0, which means unknown, and for invalid timestamps."""
    try:
        return datetime.fromtimestamp(seconds).astimezone() if seconds else None
    except (ValueError, OverflowError, OSError, TypeError):
        return None


def format_moment(seconds: float) -> str:
    """Format a Unix timestamp as local date and time, to the minute; return "" where there is none."""
    moment = local_moment(seconds)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""
