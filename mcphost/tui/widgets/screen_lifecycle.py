"""A screen that does nothing late: what it put off, or works on, is dropped when it is being taken away by then."""

from collections.abc import Callable
from inspect import isawaitable
from typing import Any, cast

from textual.await_complete import AwaitComplete
from textual.css.query import NoMatches
from textual.worker import Worker


class ScreenLifecycle:
    """Drop what a screen does late: callbacks and ends of work that come while Textual takes its parts away.

    Stands before Screen among the bases. It is no DOMNode: Textual takes default CSS from the first base that is one,
    and a screen without the CSS of Screen has no background.
    """

    @property
    def is_open(self) -> bool:
        """Whether it is to stay: false while it is being taken away, and afterwards."""
        screen = cast("Any", self)
        return screen.is_attached and screen.display  # Textual displays nothing that is being removed

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """As ever, but only from on top: a second key that leaves would take away what is below, or end the program."""
        leaves, app = cast("Any", super()).dismiss, cast("Any", self).app
        return leaves(result) if app.screen is self else AwaitComplete()

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """As ever, but not for a screen that is gone by then."""

        def late() -> Any:
            return callback(*args, **kwargs) if self.is_open else None

        return cast("Any", super()).call_after_refresh(late)

    def run_worker(self, work: Any, *args: Any, **kwargs: Any) -> Worker[Any]:
        """As ever, for work on the event loop; what it looks for in vain in a screen that is gone is no mistake."""

        async def present() -> Any:
            try:
                done = work() if callable(work) else work
                return await done if isawaitable(done) else done
            except NoMatches:
                if self.is_open:
                    raise

        return cast("Any", super()).run_worker(present, *args, **kwargs)
