"""The command palette, which lists the current page's actions and all global actions with their keys.

A page is a full-screen view over the chat, such as the list of servers. The actions are listed in groups until
the user types a query; then only the matching actions are listed.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from rich.align import Align
from rich.text import Text
from textual import on
from textual.app import ComposeResult
from textual.command import Command, CommandList, CommandPalette, Hit, Hits, Provider
from textual.content import Content
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from mcphost.translation import N_, _
from mcphost.tui.actions import ACTIONS, Action
from mcphost.tui.command_names import aliases_of
from mcphost.tui.key_table import keys_in_use
from mcphost.tui.screen_reader import is_reader
from mcphost.tui.widgets.status_bars import KeyBar

GROUPS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        N_("Conversation"),
        (
            *("history", "find", "focus_transcript", "recall", "edit_message", "copy_last", "new", "stop"),
            *("continue_turn", "rewind", "fork", "retry", "retry_with", "call_again"),
            *("summarize", "summary", "undo_summary", "export"),
        ),
    ),
    (
        N_("Servers"),
        (
            *("servers", "resources", "prompts", "undo_insert", "attach_result", "app", "tasks", "accounts", "folders"),
            *("registry", "toggle_servers"),
        ),
    ),
    (N_("Permissions"), ("answer", "auto_approval", "grants", "audit")),
    (N_("Model"), ("model", "context", "pin_tool", "costs", "profile", "system_prompt", "instructions")),
    ("mcphost", ("help", "theme", "setup", "reload", "quit")),
)
"""The groups of the palette with their actions, in the order in which they are listed."""
_CHAT_ACTIONS = {"continue_turn", "find", "focus_transcript"}
"""Actions that do nothing while a page is open over the chat."""
_LEAVING_ACTIONS = {"screen.leave", "leave"}
MAX_WIDTH = 100
"""Maximum width of the palette in cells."""
_TITLE_CELLS = 34
_MIN_WIDTH_WITH_HELP = 70
_PADDING = 2


@dataclass(eq=False)
class ActionHit(Hit):
    """An action that the palette lists.

    In `title`, the letters that match the query may be highlighted. `group` is the heading under which the action
    is listed, or "" while the user searches.
    """

    title: Content = Content("")  # noqa: RUF009 - immutable
    key: str = ""
    group: str = ""


def layout_action(title: Content, text: str, key: str, width: int) -> Content:
    """Return a line of *width* cells: the title, the description *text*, and the key at the right edge.

    The description is dimmed. A long description is truncated, and a narrow line has no description.
    """
    keys = Content.styled(key, "$accent")
    left = max(0, width - keys.cell_length - _PADDING)
    if width < _MIN_WIDTH_WITH_HELP:
        return Content.assemble(title.truncate(left, ellipsis=True, pad=True), " " * _PADDING, keys)
    title = title.truncate(_TITLE_CELLS, ellipsis=True, pad=True)
    about = Content.styled(text, "$muted").truncate(left - _TITLE_CELLS - _PADDING, ellipsis=True, pad=True)
    return Content.assemble(title, " " * _PADDING, about, " " * _PADDING, keys)


class ActionPalette(CommandPalette):
    """Textual's command palette with one action per line, group headings, and translated messages.

    The bottom line shows a description of the highlighted action, because the action's own line may be too narrow
    for it.
    """

    DEFAULT_CSS: ClassVar[str] = """
    ActionPalette > Vertical {
        margin-top: 2; max-width: 100; background: $surface;
        &:dark { background: $surface; }
    }
    ActionPalette #--input { height: 3; border: none; padding: 1 2; background: $panel; }
    ActionPalette CommandInput, ActionPalette CommandInput:focus { border: none; height: 1; padding: 0; }
    ActionPalette CommandList {
        border: none; padding: 0 0 1 0; background: $surface;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    ActionPalette #action-help { dock: bottom; height: auto; padding: 0 2; background: $panel; color: $text; }
    ActionPalette #action-help.empty { display: none; }
    ActionPalette CommandList > .option-list--option { text-style: none; }
    ActionPalette CommandList > .option-list--option-disabled { color: $text; }
    """

    def __init__(self) -> None:
        super().__init__(placeholder=_("Search for commands…"), id="--command-palette")
        self._listed: list[Command] = []

    def compose(self) -> ComposeResult:
        """Create the palette, and the line below it."""
        yield from super().compose()
        yield Static("", id="action-help", classes="empty", markup=False)

    def _show_help(self, text: str) -> None:
        line = self.query_one("#action-help", Static)
        line.set_class(not text, "empty")
        line.update(Content(text))

    def _refresh_command_list(self, command_list: CommandList, commands: list[Command], clear_current: bool) -> None:
        if is_reader(self):  # a screen reader needs the title, key and help as one text
            super()._refresh_command_list(command_list, commands, clear_current)
            return
        self._show_help("")
        self._listed = sorted(commands, key=lambda command: command.hit.score, reverse=True)
        command_list.clear_options().add_options(self._layout_rows())
        command_list.action_first()
        self._list_visible = bool(self._listed)
        self._hit_count = len(self._listed)

    def _layout_rows(self) -> Iterator[Option]:
        """Yield the listed actions, each in one line, and the headings of their groups."""
        width = min(MAX_WIDTH, self.size.width) - 2 * _PADDING - 1  # the scrollbar
        group = ""
        for command in self._listed:
            hit = command.hit
            if not isinstance(hit, ActionHit):
                yield command
                continue
            if hit.group != group:
                group = hit.group
                yield Option(Content.styled(group, "bold $accent"), disabled=True)
            yield Command(layout_action(hit.title, hit.help or "", hit.key, width), hit, id=command.id)

    def on_resize(self) -> None:
        """Fit the listed actions to the new width."""
        commands = self.query_one(CommandList)
        if self._listed and self._hit_count and not is_reader(self):
            selected = commands.highlighted
            commands.clear_options().add_options(self._layout_rows())
            commands.highlighted = selected

    @on(OptionList.OptionHighlighted)
    def _handle_highlight(self, event: OptionList.OptionHighlighted) -> None:
        """Describe the highlighted action in the bottom line; for the first action, scroll up to its group heading."""
        hit = event.option.hit if isinstance(event.option, Command) else None
        self._show_help(hit.help or "" if isinstance(hit, ActionHit) and not is_reader(self) else "")
        if event.option_index <= 1:
            event.option_list.scroll_home(animate=False)

    def _start_no_matches_countdown(self, search_value: str) -> None:
        self._stop_no_matches_countdown()
        self._no_matches_timer = self.set_timer(
            self._NO_MATCHES_COUNTDOWN, partial(self._show_no_matches, bool(search_value))
        )

    def _show_no_matches(self, is_search: bool) -> None:
        self._show_help("")
        if is_search:
            text = Align.center(Text(_("No matches found"), style="not bold"))
            self.query_one(CommandList).add_option(Option(text, disabled=True, id=self._NO_MATCHES))
        self._list_visible = is_search


class CommandPaletteProvider(Provider):
    """Source of the palette's entries: the actions of the page behind the palette, and global actions.

    Only global actions that are available on that page are listed. The action that opens the palette and the action
    that closes the page are omitted.
    """

    async def discover(self) -> Hits:
        """Yield every action by group; Textual calls this to fill the palette before the user has typed anything."""
        for key, title, action in self._page_actions():
            yield self._page_hit(key, title, action, 0.0, Content(title), _("This page"))
        actions = {action.name: action for action in ACTIONS}
        for group, names in GROUPS:
            for name in names:
                if self._is_available(name):
                    yield self._hit(actions[name], 0.0, Content(_(actions[name].title)), _(group))

    async def search(self, query: str) -> Hits:
        """Yield the actions that match the query.

        A page's action matches if its title matches. A global action matches if its title, label or slash command
        matches, or if every word of the query occurs in these texts, in its description or in one of its aliases.
        """
        matcher = self.matcher(query)
        for key, title, action in self._page_actions():
            if score := matcher.match(title):
                yield self._page_hit(key, title, action, score, matcher.highlight(title), "")
        words = query.casefold().split()
        for action in ACTIONS:
            # Match any name of the action: "theme" must find "Light or dark".
            names = (_(action.title), _(action.label), action.title, action.label, action.slash)
            score = max(map(matcher.match, names))
            texts = " ".join((*names, *aliases_of(action), action.help, _(action.help))).casefold()
            score = score or 0.1 * all(word in texts for word in words)
            if score and action.name != "palette" and self._is_available(action.name):
                yield self._hit(action, score, matcher.highlight(_(action.title)), "")

    def _page_actions(self) -> Iterator[tuple[str, str, str]]:
        """Yield the key, title and action name of each action of the page behind the palette.

        Yields nothing if the chat is behind the palette.
        """
        if self.screen is getattr(self.app, "chat", None):
            return
        for bar in self.screen.query(KeyBar):
            for key, label, action in bar.list_keys():
                if action not in _LEAVING_ACTIONS:
                    title = _(label)
                    yield key, title[:1].upper() + title[1:], action

    def _page_hit(self, key: str, title: str, action: str, score: float, shown: Content, group: str) -> ActionHit:
        spoken = Content.assemble(shown, f"  ({key})")
        return ActionHit(score, spoken, partial(self._run, action), text=title, title=shown, key=key, group=group)

    def _is_available(self, name: str) -> bool:
        return name not in _CHAT_ACTIONS or self.screen is getattr(self.app, "chat", None)

    def _hit(self, action: Action, score: float, title: Content, group: str) -> ActionHit:
        key = keys_in_use(self).long(action.name)
        shown = Content.assemble(title, f"  ({key})") if key else title
        return ActionHit(
            score, shown, partial(self._run, action.name), help=_(action.help), title=title, key=key, group=group
        )

    async def _run(self, name: str) -> None:
        await self.app.run_action(name)
