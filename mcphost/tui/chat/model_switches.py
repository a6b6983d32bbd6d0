"""Switches to another model that are under way, for which the user's messages wait."""

from collections.abc import Awaitable, Callable


class ModelSwitches:
    """Counter of the model switches under way, some of which have to find the model in the network first.

    A message that is sent meanwhile was written for the new model, so it must not go to the old one.
    """

    def __init__(self, on_end: Callable[[bool], None]) -> None:
        """Create a counter; *on_end* is called when no switch is left, with whether all of them succeeded."""
        self._on_end = on_end
        self._count = 0
        self._has_failed = False

    @property
    def is_active(self) -> bool:
        """Whether a switch is under way."""
        return self._count > 0

    def begin(self, switch: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[None]]:
        """Count *switch* from now on; return the function that runs it, which must be called exactly once.

        *switch* returns whether the model was switched. If it returns False, raises an exception or is cancelled, the
        switch has failed.
        """
        self._count += 1

        async def run() -> None:
            has_switched = False
            try:
                has_switched = await switch()
            finally:
                self._end(has_switched)

        return run

    def _end(self, has_switched: bool) -> None:
        self._count -= 1
        self._has_failed = self._has_failed or not has_switched
        if not self._count:
            failed, self._has_failed = self._has_failed, False
            self._on_end(not failed)
