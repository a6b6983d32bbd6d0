"""A chat that shows a picture, to be run in a terminal: `python -m tests.terminal.picture_program`."""

from mcphost.host import events
from mcphost.llm.messages import Message, TextPart
from mcphost.tui.app import McpHostApp
from mcphost.tui.frontend import TuiFrontend
from mcphost.tui.themes import ThemeOptions
from tests.screens.fake_host import FakeHost
from tests.screens.sample_images import sunset_image


class PictureHost(FakeHost):
    """A fake host whose conversation begins with a picture."""

    def start(self, *, retry_unreachable: bool = False) -> None:
        super().start(retry_unreachable=retry_unreachable)
        self.put(events.TurnStarted(1, Message(role="user", parts=(TextPart("What is it?"), sunset_image()))))


def main() -> None:
    """Run the chat until the user quits."""
    frontend = TuiFrontend()
    app = McpHostApp(PictureHost(frontend), frontend, theme=ThemeOptions("dark"))  # type: ignore[arg-type]
    frontend.bind(app)
    app.run()


if __name__ == "__main__":
    main()
