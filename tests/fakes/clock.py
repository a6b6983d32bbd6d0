"""A clock that tests set."""


class ManualClock:
    """A clock that stands still until a test sets `now`."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
