"""Screen for choosing, changing or removing a profile of config.toml, or saving the current settings as a new one.

A chosen profile applies to this run.
"""

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from mcphost.config.model_form_text import MODEL_FIELDS, format_fields
from mcphost.config.schema import Profile
from mcphost.serialization import replace
from mcphost.translation import N_, _, join_list
from mcphost.tui import input_guard
from mcphost.tui.key_table import fill_keys
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.text_inputs import LabeledInput, LabeledInputGroup, OrderedTextArea, wait_for_typed_text

if TYPE_CHECKING:
    from collections.abc import Container

    from mcphost.config.schema import HostConfig

_ALL = N_("all that are enabled")


class ProfileChange(NamedTuple):
    """A change to make to a profile in config.toml: its new settings, or None if it is to be removed."""

    name: str
    profile: Profile | None


class ProfilesScreen(ListScreen):
    """List of profiles; its result is the name of a profile to use, a new Profile to save and use, or a ProfileChange.

    The result is "" if the user chooses to use no profile, or None if the user cancels.
    """

    TITLE_TEXT: ClassVar[str] = N_("Profiles")
    EMPTY_TEXT: ClassVar[str] = N_(
        "No profiles yet. Press {profiles-add} to save the current settings as one, or write one in config.toml:\n\n"
        '[profiles.review]\nmodel = "openai/gpt-5"\nsystem_prompt = "You review code."\nservers = ["git"]'
    )
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("use"), "screen.choose"),
        ("n", N_("save as new"), "screen.create"),
        ("e", N_("edit"), "screen.edit"),
        ("x", N_("remove"), "screen.remove"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.create"})
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "create", show=False, id="profiles-add"),
        Binding("e", "edit", show=False, id="profiles-edit"),
        Binding("x", "remove", show=False, id="profiles-remove"),
    ]

    def __init__(self, config: "HostConfig", draft: "Profile", selected: str = "") -> None:
        """Create the screen; *draft* contains the settings in use, which can be saved as a new profile.

        The cursor starts on the profile named *selected*, or on the first profile if *selected* is "". If the user has
        just removed the profile with this name, the cursor starts on "no profile": a key that is still held down can
        then not remove another profile.
        """
        super().__init__()
        self._selected = selected
        self._pressed_at = input_guard.clock() if selected else 0.0  # the key that saved it may still be held down
        self._config = config
        self._draft = draft
        self._remove_candidate = ""
        self.add_class("bare")

    def find_again(self, before: ListRow | None, default: int) -> int:
        """Return the index of the row to select after the list was loaded.

        When the screen opens, this is the row of the profile that was passed as `selected`. Later, the base class
        determines the row, so that the same entry stays selected.
        """
        if before is None and self._selected:
            names = [row.title for row in self.visible_rows]
            return names.index(self._selected) if self._selected in names else max(default, len(names) - 1)
        return super().find_again(before, default)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each profile, followed by a row for "no profile"; if there is no profile, return no rows."""
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
        """Show a profile's settings or, for "no profile", the configured model."""
        profile: Profile | None = row.value
        self._remove_candidate = ""
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
                        _(_ALL) if profile.servers is None else join_list(profile.servers) or _("none"),
                    ),
                    (_("system prompt"), _("unchanged") if profile.system_prompt is None else profile.system_prompt),
                ]
            )
        )

    def action_create(self) -> None:
        """Open a form that saves the settings in use as a new profile."""

        def save(profile: "Profile | None") -> None:
            if profile is not None:
                self.dismiss(profile)

        taken = [profile.name for profile in self._config.profiles]
        known = [server.name for server in self._config.servers]
        self.app.push_screen(ProfileForm(self._draft, taken, known), save)  # pyright: ignore[reportUnknownMemberType]

    def action_edit(self) -> None:
        """Open a form that changes the selected profile."""
        row = self.current_row()
        profile: Profile | None = row.value if row is not None else None
        if profile is None:
            return

        def save(changed: "Profile | None") -> None:
            if changed is not None:
                self.dismiss(ProfileChange(changed.name, changed))

        known = [server.name for server in self._config.servers]
        form = ProfileForm(profile, (), known)
        self.app.push_screen(form, save)  # pyright: ignore[reportUnknownMemberType]

    def action_remove(self) -> None:
        """Close the screen with a ProfileChange that removes the selected profile.

        The first key press only asks for confirmation; the second one closes the screen.
        """
        row = self.current_row()
        profile: Profile | None = row.value if row is not None else None
        if profile is None:
            return
        if self._remove_candidate != profile.name:
            self._remove_candidate = profile.name
            text = fill_keys(self, _("Press {profiles-remove} again to remove it from config.toml."))
            self.show_about(Content.styled(text, "$warning"))
            return
        self.dismiss(ProfileChange(profile.name, None))

    def open_row(self, row: ListRow) -> None:
        """Close the screen with the chosen profile's name; do nothing if Enter is being held down."""
        now, before = input_guard.clock(), self._pressed_at
        self._pressed_at = now
        if now - before < input_guard.GUARD_SECONDS:
            return
        self.dismiss(row.value.name if row.value is not None else "")


def _summarize(profile: "Profile") -> str:
    servers = profile.servers
    parts = [
        profile.description,
        profile.model.name if profile.model is not None else "",
        "" if servers is None else _("servers: {servers}").format(servers=join_list(servers) or _("none")),
    ]
    return " · ".join(part for part in parts if part)


_MAX_MODEL_LENGTH = 200
_MAX_NAME_LENGTH = 60


class ProfileForm(FormScreen[Profile]):
    """Form for a new or an existing profile; its result is the profile to save, or None if the user cancels."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", show=False, priority=True)]
    DEFAULT_CSS = """
    ProfileForm LabeledInput { margin: 0; }
    ProfileForm #servers-about { color: $muted; }
    ProfileForm #model, ProfileForm #prompt-label { color: $muted; margin: 1 0 0 0; }
    ProfileForm TextArea { height: 5; border: none; padding: 0 1; background: $surface; }
    """

    def __init__(self, draft: Profile, taken: "Container[str]", servers: "Container[str]") -> None:
        """Create the form with the settings in *draft*; a new profile cannot have a name in *taken*.

        If *draft* has a name, the form changes the profile of this name; the name itself cannot be changed.

        *servers* are the names of the configured servers. If the user enters any other server name, the first attempt
        to save only shows a warning; a second attempt saves the profile.
        """
        super().__init__()
        self._draft = draft
        self._taken = taken
        self._servers = servers
        self._warned_servers: tuple[str, ...] = ()
        self._has_no_server = bool(draft.name) and draft.servers == ()
        """Whether the edited profile uses no servers; if so, an empty input stands for none instead of all."""

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False: a key is handled even if it was pressed just before the form appeared.

        Such a key does no harm, because only Ctrl+S saves the profile.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        name = clean_line(self._draft.name, _MAX_NAME_LENGTH)
        return _("Edit the profile {name}").format(name=name) if name else _("Save as a profile")

    def body(self) -> ComposeResult:
        """Yield inputs for the name, description, servers and system prompt, and a line about the model."""
        name = () if self._draft.name else (LabeledInput(_("name"), "name", placeholder=_("such as review")),)
        yield LabeledInputGroup(
            *name,
            LabeledInput(_("description"), "description", placeholder=_("optional")),
            LabeledInput(_("servers"), "servers", placeholder=_("none") if self._has_no_server else _(_ALL)),
        )
        if not self._has_no_server:
            yield Static(_("If no server is named, all that are enabled are used."), id="servers-about", markup=False)
        yield Static(f"{_('model')}: {self._describe_model()}", id="model", markup=False)
        yield Static(_("system prompt; if empty, the configured one is used"), id="prompt-label", markup=False)
        prompt = self._draft.system_prompt or ""
        yield OrderedTextArea(prompt, id="prompt", tab_behavior="focus", compact=True, soft_wrap=True)

    def _describe_model(self) -> str:
        if self._draft.model is None:
            return _("unchanged")
        texts = format_fields(self._draft.model)
        parts = [f"{_(label)} {texts[key]}" for key, label, _hint in MODEL_FIELDS if key != "name" and texts[key]]
        return clean_line(" · ".join((texts["name"], *parts)), _MAX_MODEL_LENGTH)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return ("leave", _("Back")), ("save", _("Save") if self._draft.name else _("Save and use"))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        if self._draft.name:
            return _("ctrl+s save · tab next field · esc back")
        return _("ctrl+s save and use · tab next field · esc back")

    def on_mount(self) -> None:
        """Fill in the description and the names of the servers, and focus the first input."""
        self.query_one("#description", Input).value = self._draft.description
        self.query_one("#servers", Input).value = ", ".join(self._draft.servers or ())
        self.query_one(LabeledInputGroup).focus_input()

    def action_save(self) -> None:
        """Close the form with the profile; if its name is missing, invalid or taken, show an error instead.

        If the profile contains servers that are not configured, the first call only shows their names.
        """
        self.run_worker(partial(self._finish), group="save", exclusive=True)

    async def _finish(self) -> None:
        keys = ("description", "servers") if self._draft.name else ("name", "description", "servers")
        inputs = {key: self.query_one(f"#{key}", Input) for key in keys}
        prompt = self.query_one("#prompt", OrderedTextArea)
        await wait_for_typed_text(*inputs.values(), prompt)
        texts = {key: field.value.strip() for key, field in inputs.items()}
        name = texts.get("name", self._draft.name)
        if not name or len(name) > _MAX_NAME_LENGTH or not name.isprintable():
            fault = _("The profile needs a name of at most {count} characters.")
            self.show_fault(fault.format(count=_MAX_NAME_LENGTH))
            return
        if name in self._taken:
            self.show_fault(_("There is already a profile {name!r}.").format(name=name))
            return
        servers = tuple(word.strip() for word in texts["servers"].split(",") if word.strip())
        unknown = tuple(one for one in servers if one not in self._servers)
        if unknown and unknown != self._warned_servers:
            self._warned_servers = unknown
            fault = _("There is no server named {names}. Press Ctrl+S again to save the profile as it is.")
            self.show_fault(fault.format(names=join_list(unknown)))
            return
        self.dismiss(
            replace(
                self._draft,
                name=name,
                description=texts["description"],
                servers=servers or (() if self._has_no_server else None),
                system_prompt=self._find_prompt(prompt.text),
            )
        )

    def _find_prompt(self, text: str) -> str | None:
        """Return the system prompt to save, or None if *text* is blank.

        A prompt that the user did not edit is returned unchanged, so that "" does not become None.
        """
        before = self._draft.system_prompt
        return before if text.strip() == (before or "").strip() else text.strip() or None
