"""Notices about changes to the configuration files, and the screen that applies the changes."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from textual.screen import Screen

from mcphost.config.schema import KeyConfig, Profile
from mcphost.errors import McpHostError
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.screens.chat import ChatScreen
from mcphost.tui.transcript.blocks import NoticeBlock

if TYPE_CHECKING:
    from mcphost.host.config_change_detector import ConfigChangeDetector
    from mcphost.host.config_changes import ConfigChanges
    from mcphost.tui.screens.profiles import ProfileChange

_NOT_IN_DEMO = N_("The demo has no configuration files.")


class ConfigurableApp(Protocol):
    """The part of the app's interface that ConfigChangeNotices uses.

    It opens screens, and applies changes to the configured theme and keys.
    """

    def open_page(self, screen: Screen[Any], on_result: Callable[[Any], None] | None = None) -> None:
        """Open the screen over the chat, and pass its result to *on_result* when it is closed."""
        ...

    def use_theme(self, name: str) -> None:
        """Switch to the theme *name*."""
        ...

    def use_keys(self, keys: tuple[KeyConfig, ...]) -> None:
        """Apply the configured *keys*."""
        ...


class ConfigChangeNotices:
    """Watcher that reports and applies changes to the configuration files, and switches profiles."""

    def __init__(
        self, config_change_detector: "ConfigChangeDetector | None", chat: ChatScreen, app: ConfigurableApp
    ) -> None:
        self._detector = config_change_detector
        self._chat = chat
        self._app = app
        self._replaceable: list[NoticeBlock] = []
        """Notices about changes that are not applied; the next notice about the files replaces them."""

    async def watch(self) -> None:
        """Watch the configuration files until cancelled.

        Return immediately in the demo, which has no configuration files.
        """
        if self._detector is not None:
            await self._detector.watch(self._handle_change)

    async def _handle_change(self, change: "ConfigChanges | McpHostError") -> None:
        self._remove_replaceable()
        if isinstance(change, McpHostError):
            self._add_replaceable(
                "warning",
                _("The changed configuration is not used. {message}").format(
                    message=translate_sentence(change.message)
                ),
                change.hint,
            )
            return
        add_problem = self._add_replaceable if change.needs_confirmation else self._add_notice
        for problem in change.problems:
            add_problem("warning", problem)
        if change.needs_confirmation:
            lines = _("; ").join(change.describe(_))
            hint = _("Review and apply it with /reload.")
            if change.added:
                hint = _("New servers wait until you apply the other changes. Review and apply all with /reload.")
            text = _("The configuration files changed: {lines}.").format(lines=lines)
            self._add_replaceable("info", " ".join(filter(None, (text, _describe_rest(change)))), hint)
        elif not change.is_empty:
            self._apply(change)

    async def review(self) -> None:
        """Compare the files with the configuration in use, and open the screen for applying changes.

        If there is nothing to apply, add a notice to the chat instead.
        """
        from mcphost.tui.screens.config_changes import ConfigChangesScreen

        if self._detector is None:
            self._chat.notify(_(_NOT_IN_DEMO), markup=False)
            return
        try:
            changes = await self._detector.check()
        except McpHostError as error:
            self._remove_replaceable()  # one of them may be about the same error
            self._add_replaceable("error", error.message, error.hint)
            return
        if not changes.can_apply:
            self._add_notice("info", _describe_rest(changes) or _("Nothing changed in the configuration files."))
            return
        page = ConfigChangesScreen(changes, self._chat.host.running_calls.list)
        self._app.open_page(page, self._apply_if_confirmed)

    def open_profiles(self, selected: str = "") -> None:
        """Open the screen for choosing a profile, with the cursor on the profile *selected*, if it exists."""
        from mcphost.tui.screens.profiles import ProfilesScreen

        if self._detector is None:
            self._chat.notify(_(_NOT_IN_DEMO), markup=False)
            return
        host = self._chat.host
        draft = Profile(
            name="",
            model=host.model_selection.config if host.model_selection.config.name else None,
            system_prompt=host.conversation.system_prompt or host.model_selection.system_prompt or None,
            servers=tuple(view.name for view in host.servers.views() if not view.config.disabled),
        )
        self._app.open_page(ProfilesScreen(self._detector.config, draft, selected), self._use_profile_if_chosen)

    @property
    def profiles(self) -> tuple[Profile, ...]:
        """The profiles in config.toml; empty in the demo."""
        return self._detector.profiles if self._detector is not None else ()

    def use_profile(self, name: str) -> None:
        """Use the profile *name* in this run, or no profile if *name* is "".

        While the model is answering, show a notification instead.
        """
        self._use_profile_if_chosen(name)

    def _use_profile_if_chosen(self, chosen: "str | Profile | ProfileChange | None") -> None:
        from mcphost.tui.screens.profiles import ProfileChange

        if isinstance(chosen, ProfileChange):
            self._chat.run_worker(partial(self._change_profile, chosen), group="setup")
        elif chosen is not None:
            self._chat.run_worker(partial(self._use_profile, chosen), group="setup")

    async def _use_profile(self, chosen: str | Profile) -> None:
        if self._detector is None or self._refuse_while_answering():
            return
        name = chosen if isinstance(chosen, str) else chosen.name
        try:
            if isinstance(chosen, str):
                changes = await self._detector.use_profile(chosen)
            else:
                from mcphost.config.settings_edits import save_profile  # imported late, because only this needs it

                changes = await self._detector.edit_profile(name, partial(save_profile, profile=chosen), name)
        except McpHostError as error:
            self._add_notice("error", error.message, error.hint)
            return
        for problem in changes.problems:
            self._add_notice("warning", problem)
        done = _("; ").join(changes.describe(_))
        if name:
            text = _("Using the profile {name}: {done}.") if done else _("Using the profile {name}.")
        else:
            text = _("Using no profile: {done}.") if done else _("Using no profile.")
        self._add_notice("info", text.format(name=name, done=done))
        self._chat.refresh_status()

    async def _change_profile(self, change: "ProfileChange") -> None:
        """Change or remove a profile in config.toml, and show the list of profiles again.

        If the profile is in use, its new settings take effect immediately; after its removal, no profile is in use.
        """
        from mcphost.config.settings_edits import change_profile, remove_profile

        if self._detector is None or self._refuse_while_answering():
            return
        name, profile, in_use = change.name, change.profile, self._detector.config.profile
        edit = partial(remove_profile, name=name) if profile is None else partial(change_profile, profile=profile)
        is_in_use = name == in_use
        try:
            if is_in_use:  # the changed file must not be compared with this profile
                await self._detector.use_profile("")
            use = "" if is_in_use and profile is None else in_use
            try:
                changes = await self._detector.edit_profile(name, edit, use)
            except McpHostError:
                if is_in_use:
                    await self._detector.use_profile(name)
                raise
        except McpHostError as error:
            self._add_notice("error", error.message, error.hint)
            return
        for problem in changes.problems:
            self._add_notice("warning", problem)
        saved = _("Saved the profile {name} in {file}.")
        text = _("Removed the profile {name} from {file}.") if profile is None else saved
        self._chat.notify(text.format(name=name, file=self._detector.config.settings_file), markup=False)
        self._chat.refresh_status()
        if self._chat.is_current:  # the user may have opened another page meanwhile
            self.open_profiles(name)

    def _apply_if_confirmed(self, changes: "ConfigChanges | None") -> None:
        if changes is not None and not self._refuse_while_answering():
            self._remove_replaceable()
            for problem in changes.problems:
                self._add_notice("warning", problem)
            self._apply(changes)

    def _apply(self, changes: "ConfigChanges") -> None:
        if self._detector is None:
            return
        try:
            self._detector.apply(changes)
        except McpHostError as error:
            self._add_notice("error", error.message, error.hint)
            return
        if changes.theme is not None:
            self._app.use_theme(changes.theme)
        if any(one.name.startswith("keys.") for one in changes.settings):
            self._app.use_keys(self._chat.host.settings.keys)
        self._chat.presenter.show_costs = self._chat.host.settings.budget.show_in_answers
        done = _("; ").join(changes.describe(_))
        text = _("Applied from the configuration files: {done}.").format(done=done) if done else ""
        if notice := " ".join(filter(None, (text, _describe_rest(changes)))):
            self._add_notice("info", notice)
        self._chat.refresh_status()

    def _refuse_while_answering(self) -> bool:
        is_busy = self._chat.host.conversation.is_busy or self._chat.is_sending
        if is_busy:
            self._chat.notify(_("Still answering. Press Esc to stop, then try again."), markup=False, timeout=6)
        return is_busy

    def _add_replaceable(self, level: str, text: str, hint: str = "") -> None:
        notice = NoticeBlock(level, translate_sentence(text), translate_sentence(hint))
        self._replaceable.append(notice)
        self._chat.presenter.transcript.add(notice)

    def _remove_replaceable(self) -> None:
        for notice in self._replaceable:
            self._chat.presenter.transcript.remove_block(notice)
        self._replaceable.clear()

    def _add_notice(self, level: str, text: str, hint: str = "") -> None:
        self._chat.presenter.add_notice(level, text, hint)


def _describe_rest(changes: "ConfigChanges") -> str:
    if not changes.at_start:
        return ""
    settings = join_list([change.describe(_) for change in changes.at_start])
    reasons = " ".join(dict.fromkeys(_(change.restart_reason) for change in changes.at_start))
    return _("After a restart: {settings}. {reasons}").format(settings=settings, reasons=reasons)
