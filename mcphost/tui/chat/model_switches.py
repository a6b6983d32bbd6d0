"""Counter of the model switches in progress.

Messages that the user sends during a switch wait until all switches have ended.
"""

from collections.abc import Awaitable, Callable


class ModelSwitches:
    """Counter of the model switches in progress.

    A switch takes time if the model must be looked up over the network. A message sent during a switch is meant for the
    new model, so it must not be sent before the switch has ended.
    """

    def __init__(self, on_end: Callable[[bool], None]) -> None:
        """Create a counter.

        *on_end* is called whenever the last switch in progress has ended. Its argument is True if all switches since
        the previous call of *on_end* have succeeded.
        """
        self._on_end = on_end
        self._count = 0
        self._has_failed = False
        self.needs_confirmation = False
        """Whether the next message is confirmed first, because a switch failed and the message may be for its model."""

    @property
    def is_active(self) -> bool:
        """Whether a switch is in progress."""
        return self._count > 0

    def begin(self, switch: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[None]]:
        """Count *switch* as in progress; return the function that runs it, which must be called exactly once.

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
