"""Conversion of stored timestamps, which may be invalid, to local date and time."""

from datetime import datetime


def local_moment(seconds: float) -> datetime | None:
    """Convert a Unix timestamp to local date and time.

    Returns None for 0, which means unknown, and for an invalid timestamp.
    """
    try:
        return datetime.fromtimestamp(seconds).astimezone() if seconds else None
    except (ValueError, OverflowError, OSError, TypeError):
        return None


def format_moment(seconds: float) -> str:
    """Format a Unix timestamp as local date and time, to the minute.

    Returns "" for 0, which means unknown, and for an invalid timestamp.
    """
    moment = local_moment(seconds)
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""
