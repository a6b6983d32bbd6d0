"""The palette: every action of the table in `keys`, found by its name."""

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from mcphost.tui.keys import ACTIONS


class Commands(Provider):
    """Offers every action but the palette itself."""

    async def discover(self) -> Hits:
        """Everything, before something is typed."""
        for action in ACTIONS:
            if action.name != "palette":
                yield DiscoveryHit(
                    f"{action.title}  ({action.shown})", partial(self._run, action.name), help=action.help
                )

    async def search(self, query: str) -> Hits:
        """What fits the words typed."""
        matcher = self.matcher(query)
        for action in ACTIONS:
            score = matcher.match(action.title)
            if score and action.name != "palette":
                yield Hit(score, matcher.highlight(action.title), partial(self._run, action.name), help=action.help)

    async def _run(self, name: str) -> None:
        await self.app.run_action(name)
