"""Values that follow slash commands, such as a theme in `/theme fjord` or a file in `/export talk.md`."""

from collections.abc import Awaitable, Callable, Sequence
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mcphost.errors import McpHostError
from mcphost.llm.providers import add_default_provider
from mcphost.translation import N_, _, join_list
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line, fold_separators
from mcphost.tui.screens.models import ModelChoice, add_missing_key, describe_model
from mcphost.tui.themes import AUTO
from mcphost.tui.widgets.completion_popup import CompletionItem

if TYPE_CHECKING:
    from mcphost.host.setup import Setup
    from mcphost.llm.model_finder import AvailableModel
    from mcphost.tui.config_change_notices import ConfigChangeNotices
    from mcphost.tui.screens.chat import ChatScreen
    from mcphost.tui.themes import ThemeChoice

NO_PROFILE = "none"
"""The value of `/profile` that stands for no profile, unless a profile has this name."""

_MAX_NEAR, _MAX_LISTED, _MAX_COMPARED = 5, 12, 5_000
_UNKNOWN = {
    "theme": N_('There is no theme "{name}".'),
    "profile": N_('There is no profile "{name}".'),
    "servers": N_('There is no server "{name}".'),
    "model": N_('The list has no model "{name}".'),
}
_IN_DEMO = N_("The demo has only its own model.")


class ValueActions(NamedTuple):
    """Functions of the app that apply the value of a slash command, such as a theme name."""

    use_theme: Callable[[str], None]
    open_server: Callable[[str], None]
    use_model: "Callable[[ModelChoice | None], None]"
    retry_with: "Callable[[ModelChoice | None], None]"


class CommandValues:
    """Completer and runner for slash commands that are followed by a value, such as `/theme fjord`."""

    def __init__(
        self, chat: "ChatScreen", themes: "ThemeChoice", profiles: "ConfigChangeNotices", actions: ValueActions
    ) -> None:
        self._chat, self._themes, self._profiles, self._actions = chat, themes, profiles, actions
        self._models: tuple[AvailableModel, ...] | None = None

    def complete(self, action: str) -> list[CompletionItem]:
        """Return a completion for each value of the command that runs *action*.

        Models are searched for in the background; until the search has ended, no model is returned.
        """
        match action:
            case "model" | "retry_with":
                if self._models is None:
                    self._models = ()
                    self._chat.run_worker(self._load_models, group="models")
                return [_item(one.config.name, describe_model(one)) for one in self._models]
            case "servers":
                return [_item(name) for name in self._server_names()]
            case "profile":
                about = {one.name: one.description for one in self._profiles.profiles}
                return [_item(name, about.get(name) or "") for name in self._profile_names()]
            case "theme":
                return [_item(name) for name in self._theme_names()]
            case _:
                return []

    async def _load_models(self) -> None:
        from mcphost.tui.widgets.composer import Composer

        if (setup := self._chat.host.setup) is not None:
            self._models = await setup.list_models()
            self._chat.query_one(Composer).popup.update()

    def apply(self, action: str, value: str, restore: Callable[[], None]) -> str:
        """Run the command of *action* with *value*; return an error message, or "" if there is no error.

        Commands that look up a model or write a file continue in the background. If such a command fails, a
        notification shows the reason, and *restore* is called to put the command line back into the composer.
        """
        match action:
            case "theme":
                return self._choose(action, value, self._theme_names(), self._actions.use_theme)
            case "servers":
                return self._choose(action, value, self._server_names(), self._actions.open_server)
            case "profile":
                return self._choose(action, value, self._profile_names(), self._use_profile)
            case "summarize":
                return self._summarize(value, restore)
            case "model" | "retry_with":
                setup = self._chat.host.setup
                if setup is None:
                    return _(_IN_DEMO)
                use = self._actions.use_model if action == "model" else self._actions.retry_with
                # Counted from here on, so that a message sent during the search for the model waits for it.
                switch = partial(self._use_model, setup, value, use, restore)
                counted = self._chat.model_switches.begin(switch)
                self._chat.run_worker(counted, group="command value")
            case _:
                return self._export(value, restore)
        return ""

    def _summarize(self, instructions: str, restore: Callable[[], None]) -> str:
        """Start a summary that follows the user's *instructions*; return an error message if these are too long.

        *restore* is called if the model is still answering; it puts the command line back into the composer.
        """
        from mcphost.host.conversation.summarizer import MAX_INSTRUCTIONS
        from mcphost.tui.compaction_actions import summarize

        if len(instructions) > MAX_INSTRUCTIONS:
            text = _("Instructions for a summary can have {count:,} characters at most.")
            return text.format(count=MAX_INSTRUCTIONS)
        self._chat.run_worker(partial(summarize, self._chat, instructions, restore), group="turn")
        return ""

    async def use_model(self, name: str) -> None:
        """Switch to the model *name*, which a custom command requires; do nothing if it is already in use."""
        from mcphost.config.profiles import switch_model
        from mcphost.tui.screens.model_use import begin_use

        current = self._chat.host.model_selection.config
        if name != current.name:
            await begin_use(self._chat, ModelChoice(switch_model(current, name), is_default=False))()

    def _choose(self, action: str, value: str, names: Sequence[str], use: Callable[[str], None]) -> str:
        found = [name for name in names if name == value] or [
            name for name in names if name.casefold() == value.casefold()
        ]
        if len(found) != 1:
            return describe_unknown(action, value, names)
        use(found[0])
        return ""

    def _theme_names(self) -> tuple[str, ...]:
        return (AUTO, *self._themes.names())

    def _server_names(self) -> tuple[str, ...]:
        return tuple(view.name for view in self._chat.host.servers.views())

    def _profile_names(self) -> tuple[str, ...]:
        names = tuple(profile.name for profile in self._profiles.profiles)
        return names if not names or NO_PROFILE in names else (*names, NO_PROFILE)

    def _use_profile(self, name: str) -> None:
        is_profile = any(profile.name == name for profile in self._profiles.profiles)
        self._profiles.use_profile(name if is_profile else "")

    def _start(self, work: Callable[[], Awaitable[str]], restore: Callable[[], None]) -> None:
        async def run() -> None:
            try:
                done = await work()
            except McpHostError as error:
                self._report(error, restore)
                return
            if done:
                self._chat.notify(done, markup=False, timeout=8)

        self._chat.run_worker(run, group="command value")

    def _report(self, error: McpHostError, restore: Callable[[], None]) -> None:
        self._chat.notify(str(error), severity="warning", markup=False, timeout=8)
        restore()

    async def _use_model(
        self, setup: "Setup", name: str, use: "Callable[[ModelChoice | None], None]", restore: Callable[[], None]
    ) -> bool:
        """Find the model called *name* and pass it to *use*, after asking for a missing API key.

        Return False if the model cannot be used yet. If it is not found, a notification shows the reason, and *restore*
        is called to put the command line back into the composer. *restore* is not called if queued messages return to
        the composer, because the command line would become part of these messages.
        """
        try:
            model = await self._find_model(setup, name)
        except McpHostError as error:
            # Messages that waited for the model go back to the composer; the command would become a part of them.
            is_replaced = self._chat.queue and not self._chat.is_turn_active
            self._report(error, (lambda: None) if is_replaced else restore)
            return False
        add_missing_key(self._chat, setup, model, is_default=False, use=use)
        return model.is_usable

    async def _find_model(self, setup: "Setup", name: str) -> "AvailableModel":
        models = await setup.list_models()
        found = find_models(models, name)
        if not found:
            from mcphost.llm.model_finder import insert_usable_models

            models = insert_usable_models(models, await setup.find_late_models(models))
            models = insert_usable_models(models, await setup.find_listed_models(models))
            found = find_models(models, name)
        if not found:
            hint = _("To add a model that is not in the list, open /model and press {models-add}.")
            hint = fill_keys(self._chat, hint)
            raise McpHostError(describe_unknown("model", name, [one.config.name for one in models]), hint)
        if len(found) > 1:
            names = join_list(clean_line(one.config.name, 60) for one in found[:_MAX_LISTED])
            raise McpHostError(_("Several models have this name: {names}.").format(names=names))
        return found[0]

    def _export(self, name: str, restore: Callable[[], None]) -> str:
        from mcphost.host.conversation.export import find_format
        from mcphost.tui.screens.export import WRONG_ENDING, write_export

        host = self._chat.host
        if not (host.conversation.messages or host.conversation.manual_calls):
            return _(NOTHING_TO_EXPORT)
        if find_format(name) is None:
            return _(WRONG_ENDING)

        async def write() -> str:
            written = await write_export(host.history, await host.history.find(host.conversation.id), name)
            rest = _(" The answer that is being written is not in it.") if host.conversation.is_busy else ""
            return written + rest

        self._start(write, restore)
        return ""


NOTHING_TO_EXPORT = N_("There is nothing to export yet: the conversation is empty.")


def _item(name: str, detail: str = "") -> CompletionItem:
    return CompletionItem("value", name, "", name, detail)


def find_models(models: Sequence["AvailableModel"], name: str) -> "list[AvailableModel]":
    """Return the models that match *name*, ignoring case.

    A model with exactly this name is returned alone. Otherwise, all models whose names end with a slash and *name* are
    returned, such as "openai/NAME"; if some of them can be used now, only these. If no model matches, the search is
    repeated with dots, hyphens, underscores and blanks treated alike.
    """
    return _find_folded(models, name, str.casefold) or _find_folded(models, name, fold_separators)


def _find_folded(models: Sequence["AvailableModel"], name: str, fold: Callable[[str], str]) -> "list[AvailableModel]":
    folded = fold(name)
    exact = [one for one in models if fold(one.config.name) == folded]
    exact = exact or [one for one in models if fold(add_default_provider(one.config).name) == folded]
    if exact:
        return exact[:1]
    short = [one for one in models if fold(one.config.name).endswith(f"/{folded}")]
    usable = [one for one in short if one.is_usable]
    return usable or short


def describe_unknown(action: str, value: str, names: Sequence[str]) -> str:
    """Return the error message for a command whose *value* is not one of *names*.

    *action* is the action that the command runs. The message lists the names that are similar to *value*. If no
    name is similar and there are at most 12 names, it lists all names.
    """
    text = _(_UNKNOWN[action]).format(name=clean_line(value, 60))
    folded = {name.casefold(): name for name in names[:_MAX_COMPARED]}
    word = value.casefold()[:100]
    near = [folded[one] for one in get_close_matches(word, folded, _MAX_NEAR, 0.6)]
    near += [name for one, name in folded.items() if word in one and name not in near]
    shown = near[:_MAX_NEAR] or (list(names) if len(names) <= _MAX_LISTED else [])
    if not shown:
        return text
    listed = join_list(clean_line(name, 60) for name in shown)
    return f"{text} " + (_("Similar: {names}.") if near else _("There are: {names}.")).format(names=listed)
