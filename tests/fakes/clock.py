"""A clock that a test can set."""


class ManualClock:
    """A clock whose time is `now`, until a test changes it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
