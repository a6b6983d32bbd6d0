"""Profiles screen: choose a profile from config.toml for this run."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType

from mcphost.translation import N_, _
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs

if TYPE_CHECKING:
    from mcphost.config.schema import HostConfig, Profile

_ALL = N_("all that are enabled")


class ProfilesScreen(ListScreen):
    """List of profiles; its result is a profile's name, "" for none, or a new Profile to save and use.

    The result is None for no change.
    """

    TITLE_TEXT: ClassVar[str] = N_("Profiles")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No profiles yet. Press n to save the current settings as one, or write one in config.toml:\n\n"
        '[profiles.review]\nmodel = "openai/gpt-5"\nsystem_prompt = "You review code."\nservers = ["git"]'
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("use"), "screen.choose"),
        ("n", N_("save as new"), "screen.create"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.create"})
    BINDINGS: ClassVar[list[BindingType]] = [Binding("n", "create", show=False)]

    def __init__(self, config: "HostConfig", draft: "Profile") -> None:
        """Create the screen; *draft* has the settings in use, from which a new profile is made."""
        super().__init__()
        self._config = config
        self._draft = draft
        self.add_class("bare")

    def load(self) -> Sequence[ListRow]:
        """Return a row for each profile and, if there are any, a row for using no profile."""
        rows = [
            ListRow(profile, profile.name, _summarize(profile), "●" if profile.name == self._config.profile else "")
            for profile in self._config.profiles
        ]
        if rows:
            rows.append(
                ListRow(
                    None,
                    _("no profile"),
                    _("the settings in the configuration files"),
                    "" if self._config.profile else "●",
                )
            )
        return rows

    def show_details(self, row: ListRow) -> None:
        """Show the settings of the profile."""
        profile: Profile | None = row.value
        if profile is None:
            self.show_about(clean_pairs([(_("model"), self._config.model.name), (_("servers"), _(_ALL))]))
            return
        model = profile.model
        settings = {} if model is None else {"temperature": model.temperature, "reasoning": model.reasoning_effort}
        self.show_about(
            clean_pairs(
                [
                    (_("about"), profile.description),
                    (_("model"), _("unchanged") if model is None else model.name),
                    *((name, "" if value is None else str(value)) for name, value in settings.items()),
                    (
                        _("servers"),
                        _(_ALL) if profile.servers is None else ", ".join(profile.servers) or _("none"),
                    ),
                    (_("system prompt"), _("unchanged") if profile.system_prompt is None else profile.system_prompt),
                ]
            )
        )

    def action_choose(self) -> None:
        """Use the selected profile."""
        if row := self.current_row():
            self.open_row(row)

    def action_create(self) -> None:
        """Open a form that saves the settings in use as a new profile."""
        from mcphost.tui.screens.profile_form import ProfileForm

        def save(profile: "Profile | None") -> None:
            if profile is not None:
                self.dismiss(profile)

        taken = [profile.name for profile in self._config.profiles]
        self.app.push_screen(ProfileForm(self._draft, taken), save)  # pyright: ignore[reportUnknownMemberType]

    def open_row(self, row: ListRow) -> None:
        """Close the screen with the name of the chosen profile."""
        self.dismiss(row.value.name if row.value is not None else "")


def _summarize(profile: "Profile") -> str:
    servers = profile.servers
    parts = [
        profile.description,
        profile.model.name if profile.model is not None else "",
        "" if servers is None else _("servers: {servers}").format(servers=", ".join(servers) or "none"),
    ]
    return " · ".join(part for part in parts if part)
