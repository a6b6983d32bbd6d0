"""A clock that tests move."""


class ManualClock:
    """A clock that stands still; set `now` to move it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
