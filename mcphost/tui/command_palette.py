"""The command palette: every action of the keymap, searchable by name."""

from functools import partial

from textual.command import DiscoveryHit, Hit, Hits, Provider

from mcphost.tui.keymap import ACTIONS


class CommandPaletteProvider(Provider):
    """Provider of every action but the palette itself."""

    async def discover(self) -> Hits:
        """Yield every action while nothing is typed."""
        for action in ACTIONS:
            if action.name != "palette":
                yield DiscoveryHit(
                    f"{action.title}  ({action.key_display})", partial(self._run, action.name), help=action.help
                )

    async def search(self, query: str) -> Hits:
        """Yield the actions that match the query."""
        matcher = self.matcher(query)
        for action in ACTIONS:
            # Match any name of the action: "theme" must find "Light or dark".
            score = max(map(matcher.match, (action.title, action.label, action.slash)))
            score = score or 0.1 * (query.lower() in action.help.lower())
            if score and action.name != "palette":
                shown = matcher.highlight(f"{action.title}  ({action.key_display})")
                yield Hit(score, shown, partial(self._run, action.name), help=action.help)

    async def _run(self, name: str) -> None:
        await self.app.run_action(name)
