"""A clock that a test can set."""


class ManualClock:
    """A clock that always returns `now`, which the test changes."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
