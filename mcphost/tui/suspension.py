"""Suspension of the TUI while another program, such as the user's editor, uses the terminal."""

import signal
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

from mcphost.errors import UsageError
from mcphost.translation import _

if TYPE_CHECKING:
    from textual.app import App


@contextmanager
def suspend_terminal(app: "App[None]") -> Generator[None]:
    """Suspend the app, so that another program can use the terminal inside the `with` block.

    SIGQUIT is ignored inside the block. An exception raised inside the block propagates once the screen has been
    restored. Raises UsageError if the app quits inside the block.
    """

    def ignored(*_unused: object) -> None:
        """Do nothing; unlike SIG_IGN, this handler is not inherited by child processes."""

    failure: BaseException | None = None
    before = signal.signal(signal.SIGQUIT, ignored)
    try:
        with app.suspend(), app.batch_update():
            try:
                yield
            except BaseException as error:  # noqa: BLE001 - Textual does not resume after any
                failure = error
            if not app.is_running or cast("Any", app)._exit:
                # The app is exiting: raise, so that Textual does not take over the terminal again.
                raise failure or UsageError(_("mcphost is quitting."))
    finally:
        signal.signal(signal.SIGQUIT, before)
    if failure is not None:
        raise failure
