"""Screen base class that drops deferred work when the screen is closed."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, cast

from textual.await_complete import AwaitComplete
from textual.css.query import NoMatches
from textual.worker import Worker


class ScreenLifecycle:
    """Drop deferred callbacks and results of a screen that is being removed.

    Precedes Screen among the bases. It is no DOMNode: Textual takes default CSS from the first base that is one, and a
    screen without Screen's CSS has no background.
    """

    @property
    def is_open(self) -> bool:
        """Whether the screen stays open: False while it is being removed and afterwards."""
        screen = cast("Any", self)
        return screen.is_attached and screen.display  # Textual does not display what is being removed

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close the screen if it is on top: a second key press would close the screen below, or end the program."""
        leaves, app = cast("Any", super()).dismiss, cast("Any", self).app
        return leaves(result) if app.screen is self else AwaitComplete()

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call after a refresh, unless the screen is closed by then."""

        def late() -> Any:
            """Run the callback if the screen is still open."""
            return callback(*args, **kwargs) if self.is_open else None

        return cast("Any", super()).call_after_refresh(late)

    def run_worker(self, work: Any, *args: Any, **kwargs: Any) -> Worker[Any]:
        """Run a worker on the event loop; a missing widget of a closed screen is no error."""

        async def present() -> Any:
            """Run the work; ignore missing widgets of a closed screen."""
            try:
                done = work() if callable(work) else work
                return await done if isawaitable(done) else done
            except NoMatches:
                if self.is_open:
                    raise

        return cast("Any", super()).run_worker(present, *args, **kwargs)
