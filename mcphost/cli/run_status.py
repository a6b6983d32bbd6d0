"""The status line of `mcphost run`: what is waited for, how long, and the progress of calls."""

from mcphost.cli.output import end_status, format_progress, set_status, update_status
from mcphost.headless.run import StatusDisplay
from mcphost.host.events import ToolProgress


class TerminalStatus(StatusDisplay):
    """Status line on standard error; nothing is shown if that is not a terminal."""

    def show(self, text: str, *, keep_time: bool = False) -> None:
        """Show a text and how long it has been shown; with *keep_time*, the time of the previous text goes on."""
        if keep_time:
            update_status(text, keep_time=True)
        else:
            set_status(text)

    def show_progress(self, text: str, progress: ToolProgress) -> None:
        """Show the progress of a call after a text, with a bar if its total is known."""
        shown = format_progress(progress.progress, progress.total, progress.message)
        self.show(f"{text}{shown}", keep_time=True)

    def end(self) -> None:
        """Remove the line, before anything else is printed."""
        end_status()
