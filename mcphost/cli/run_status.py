"""Status line of `mcphost run`: what the run waits for, for how long, and the progress of tool calls."""

from mcphost.cli.output import end_status, format_progress, set_status, update_status
from mcphost.headless.run import StatusDisplay
from mcphost.host.events import ToolProgress


class TerminalStatus(StatusDisplay):
    """Status line on standard error; nothing is shown if standard error is not a terminal."""

    def show(self, text: str, *, keep_time: bool = False) -> bool:
        """Show *text* and the time since it appeared; return whether it is shown.

        With *keep_time*, the time since the previous text appeared is shown instead.
        """
        return update_status(text, keep_time=True) if keep_time else set_status(text)

    def show_progress(self, text: str, progress: ToolProgress) -> None:
        """Show *text* followed by the progress of a tool call, with a bar if its total is known."""
        shown = format_progress(progress.progress, progress.total, progress.message)
        self.show(f"{text}{shown}", keep_time=True)

    def end(self) -> None:
        """Remove the status line; called before anything else is printed."""
        end_status()
