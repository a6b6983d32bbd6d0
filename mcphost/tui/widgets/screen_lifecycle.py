"""Mixins that make a closed screen ignore late callbacks and errors, and that separate layout from drawing."""

import asyncio
from collections.abc import Callable
from inspect import isawaitable
from typing import Any, cast

from textual.await_complete import AwaitComplete
from textual.css.query import NoMatches
from textual.geometry import Size
from textual.worker import Worker

from mcphost.tui.widgets.styled_on_mount import StyledOnce


class DrawnApart:
    """Mixin for a screen that is laid out in one turn of the event loop and drawn in the next one.

    Textual 8.2.8 does both in the same turn, which blocks the event loop about twice as long if many widgets have
    changed. Put the mixin before Screen in the list of base classes; it is deliberately not a DOMNode, for the reason
    given at StyledOnMount.
    """

    _is_laying_out = False
    _drawing: asyncio.Handle | None = None

    def _refresh_layout(self, size: Size | None = None, scroll: bool = False) -> None:
        self._is_laying_out = True
        try:
            cast("Any", super())._refresh_layout(size, scroll)
        finally:
            self._is_laying_out = False

    def _compositor_refresh(self) -> None:
        if self._drawing is not None:
            return  # everything that has changed is drawn then
        if self._is_laying_out:
            self._drawing = asyncio.get_running_loop().call_soon(self._draw)
        else:
            cast("Any", super())._compositor_refresh()

    async def _invoke_and_clear_callbacks(self) -> None:
        # What waits for a refresh, such as the delay in which a new question ignores keys, begins after the drawing.
        if self._drawing is None:
            await cast("Any", super())._invoke_and_clear_callbacks()

    def _draw(self) -> None:
        self._drawing = None
        screen = cast("Any", self)
        if screen.is_attached and screen.app.is_running:
            with screen._context():
                try:
                    # Widgets that have changed since the layout; Textual would forget them with those that it draws.
                    screen._compositor.update_widgets(screen._dirty_widgets)
                    cast("Any", super())._compositor_refresh()
                except Exception as error:  # noqa: BLE001
                    screen.app._handle_exception(error)  # the event loop would only log it
                screen.call_next(screen._invoke_and_clear_callbacks)


class ScreenLifecycle(DrawnApart, StyledOnce):
    """Mixin that makes a closed screen ignore late callbacks, and NoMatches errors in its workers.

    Textual raises NoMatches if a widget is missing, as all widgets of a closed screen are. Put the mixin before Screen
    in the list of base classes. It is deliberately not a DOMNode: Textual takes the default CSS from the first base
    class that is a DOMNode, and a screen without the CSS of Screen has no background.
    """

    @property
    def is_open(self) -> bool:
        """Whether the screen is open; False once its removal has begun."""
        screen = cast("Any", self)
        return screen.is_attached and screen.display  # Textual does not display a widget that is being removed

    @property
    def is_covered(self) -> bool:
        """Whether another screen hides this one; a dialog does not, because it leaves parts of this screen visible."""
        stack = cast("Any", self).app.screen_stack
        return self in stack and not all(screen.is_modal for screen in stack[stack.index(self) + 1 :])

    def dismiss(self, result: Any = None) -> AwaitComplete:
        """Close the screen with *result* if it is the top screen; otherwise, do nothing.

        Without this check, pressing a key twice could also close the screen below, or end the program.
        """
        leaves, app = cast("Any", super()).dismiss, cast("Any", self).app
        return leaves(result) if app.screen is self else AwaitComplete()

    def call_after_refresh(self, callback: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
        """Call *callback* after the next refresh, unless the screen has been closed by then.

        Return whether the callback was scheduled.
        """

        def late() -> Any:
            """Run the callback if the screen is still open."""
            return callback(*args, **kwargs) if self.is_open else None

        return cast("Any", super()).call_after_refresh(late)

    def run_worker(self, work: Any, *args: Any, **kwargs: Any) -> Worker[Any]:
        """Run *work* in a worker on the event loop; ignore NoMatches errors once the screen is closed."""

        async def present() -> Any:
            """Run the work; suppress NoMatches, an error about a missing widget, if the screen is closed."""
            try:
                done = work() if callable(work) else work
                return await done if isawaitable(done) else done
            except NoMatches:
                if self.is_open:
                    raise

        return cast("Any", super()).run_worker(present, *args, **kwargs)
