"""Bar shown while auto-approve is on: tools, remaining budget and the key that stops it."""

from typing import TYPE_CHECKING

from textual.content import Content
from textual.reactive import reactive
from textual.widget import Widget

from mcphost.pluralize import pluralize
from mcphost.tui.screen_text import clean_line

if TYPE_CHECKING:
    from mcphost.host.consent.auto_approve import AutoApprovalStatus


class AutoApprovalBar(Widget):
    """Bar that is visible only while `state` is set."""

    DEFAULT_CSS = """
    AutoApprovalBar { height: 1; display: none; padding: 0 1; }
    AutoApprovalBar { background: $warning; color: $background; text-style: bold; }
    AutoApprovalBar.on { display: block; }
    """
    state: "reactive[AutoApprovalStatus | None]" = reactive(None)

    def watch_state(self, state: "AutoApprovalStatus | None") -> None:
        """Show the bar only while there is a state."""
        self.set_class(state is not None, "on")

    def render(self) -> Content:
        """Return what fits; the stop key always."""
        state = self.state
        if state is None:
            return Content("")
        left = state.remaining
        minutes = f"{left.seconds / 60:.0f} min" if left.seconds >= 90 else f"{left.seconds:.0f} s"
        parts = [
            "▲ AUTO-APPROVE ON",
            f"{pluralize(state.tools, 'tool')} of {', '.join(state.servers)}",
            f"{left.calls} of {state.budget.calls} calls left",
            minutes,
            f"{left.tokens // 1000:,}k tokens",
        ]
        kill = "F9 to stop"
        while len(parts) > 1 and sum(len(part) + 3 for part in parts) + len(kill) + 2 > self.size.width:
            parts.pop()
        line = " · ".join(clean_line(part, 60) for part in parts)
        room = max(1, self.size.width - len(line) - len(kill))
        return Content(f"{line}{' ' * room}{kill}")
