"""Models screen for searching all models, choosing one, and editing its settings.

If the API key of the chosen model's provider is missing, the screen asks for it.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Input, Static

from mcphost.config.model_form_text import MODEL_FIELDS, InvalidModelFields, format_fields, parse_fields
from mcphost.config.schema import ModelConfig
from mcphost.errors import McpHostError
from mcphost.host.api_keys import PLACE_LABELS
from mcphost.llm.providers import add_default_provider
from mcphost.serialization import Struct, replace
from mcphost.translation import N_, _, join_list, translate_sentence
from mcphost.tui.key_table import KeyTable, keys_in_use
from mcphost.tui.screen_text import fold_separators
from mcphost.tui.screens.form_screen import FormScreen
from mcphost.tui.screens.list_screen import ListRow, ListScreen, clean_pairs
from mcphost.tui.widgets.text_inputs import (
    LabeledInput,
    LabeledInputGroup,
    OrderedInput,
    OrderedTextArea,
    wait_for_typed_text,
)

if TYPE_CHECKING:
    from textual.screen import Screen

    from mcphost.host.setup import Setup
    from mcphost.llm.model import ModelFacts
    from mcphost.llm.model_finder import AvailableModel


class ProviderKeyForm(FormScreen[ModelConfig]):
    """Form that asks for a model's API key and stores it, in the keyring if possible.

    Its result is the configuration of that model, or None if the user cancels.
    """

    DEFAULT_CSS = """
    ProviderKeyForm Input { height: 1; border: none; padding: 0 1; margin: 1 0; background: $surface; }
    """

    def __init__(
        self, setup: "Setup", config: ModelConfig, title: str, variable: str, *, is_replaced: bool = False
    ) -> None:
        """Create the form for the model that *config* describes.

        *title* is the name of the provider or the address of its API. *variable* is the name of the environment
        variable for the API key. *is_replaced* is true if the new key replaces an existing one.
        """
        super().__init__()
        self._setup = setup
        self._config = config
        self._title = title
        self._variable = variable
        self._is_replaced = is_replaced

    def headline(self) -> str:
        """Return the title, which contains the name of the provider or the address of its API."""
        return _("Key for {provider_title}").format(provider_title=self._title)

    def body(self) -> ComposeResult:
        """Yield an explanation and the input for the key."""
        about = _("The key replaces the one in use.") if self._is_replaced else _("{name} needs a key.")
        yield Static(about.format(name=self._config.name), id="about", markup=False)
        yield OrderedInput(password=True, id="key", compact=True, placeholder=self._variable)

    def on_mount(self) -> None:
        """Look up in the background where the key will be stored, and show it in the form."""
        super().on_mount()
        self.run_worker(self._show_place, group="key place")

    async def _show_place(self) -> None:
        place = _(PLACE_LABELS[await self._setup.api_keys.find_place()])
        text = _("{name} needs a key. It is {place}.")
        if self._is_replaced:
            text = _("The key replaces the one in use. It is {place}.")
        self.query_one("#about", Static).update(text.format(name=self._config.name, place=place))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter store and use · esc back")

    async def on_input_submitted(self, event: Input.Submitted) -> None:
        """Store the key and close the form; if that fails, show the error and keep the form open."""
        event.stop()
        key = event.value.strip()
        if not key:
            self.show_fault(_("Paste the key first."))
            return
        try:
            await self._setup.api_keys.store(key, self._config)
        except McpHostError as error:
            self.show_fault(str(error))
            return
        self.dismiss(self._config)


class ModelsScreen(ListScreen):
    """List of all models; its result is a ModelChoice, or None if the user cancels."""

    DEFAULT_CSS = """
    ModelsScreen EntryList, ModelsScreen #side { width: 1fr; }
    ModelsScreen EntryList { max-width: 70; }
    """
    TITLE_TEXT: ClassVar[str] = N_("Models")
    EMPTY_TEXT: ClassVar[str] = N_("Searching…")
    AUTO_FOCUS: ClassVar[str] = "#search"
    KEY_ROWS: ClassVar[tuple[tuple[str, str, str], ...]] = (
        ("enter", N_("use now"), "screen.choose"),
        ("ctrl+s", N_("use and save"), "screen.choose_default"),
        ("ctrl+e", N_("settings"), "screen.edit"),
        ("ctrl+n", N_("another"), "screen.create"),
        ("ctrl+t", N_("favorite"), "screen.toggle_favorite"),
        ("ctrl+d", N_("key"), "screen.replace_key"),
        ("ctrl+r", N_("retry tools"), "screen.retry_tools"),
    )
    ACTIONS_WITHOUT_ENTRY: ClassVar[frozenset[str]] = frozenset({"screen.create"})
    # With priority, because the search line has its own bindings for some of these keys.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "choose_default", show=False, priority=True, id="models-save"),
        Binding("ctrl+e", "edit", show=False, priority=True, id="models-settings"),
        Binding("ctrl+n", "create", show=False, priority=True, id="models-add"),
        Binding("ctrl+t", "toggle_favorite", show=False, priority=True, id="models-favorite"),
        Binding("ctrl+d", "replace_key", show=False, priority=True, id="models-key"),
        Binding("ctrl+r", "retry_tools", show=False, priority=True, id="models-retry-tools"),
    ]

    def __init__(self, setup: "Setup", current: ModelConfig, facts: "ModelFacts | None" = None) -> None:
        """Create the screen; *current* is the model in use, whose name is "" if there is none.

        *facts* are used for details of this model that are otherwise unknown, such as its context window.
        """
        super().__init__()
        self._setup = setup
        self._current = add_default_provider(current)
        self._facts = facts
        self._models: tuple[AvailableModel, ...] = ()
        self.add_class("bare")

    def on_mount(self) -> None:
        """Start looking for models in the background; in the meantime, the user can type a search."""
        self.run_worker(self._load_models)

    async def _load_models(self) -> None:
        self._models = self._add_facts_of_used(await self._setup.list_models())
        self.reload()
        self.run_worker(partial(self._add_models, self._setup.find_late_models))
        self.run_worker(partial(self._add_models, self._setup.find_listed_models))

    async def _add_models(
        self, find: "Callable[[Sequence[AvailableModel]], Awaitable[Sequence[AvailableModel]]]"
    ) -> None:
        """Call *find* with the models listed so far, and add the models that it returns to the list."""
        from mcphost.llm.model_finder import insert_usable_models

        found = await find(self._models)
        if found:
            self._models = self._add_facts_of_used(insert_usable_models(self._models, found))
            self.reload()

    def _add_facts_of_used(self, models: "Sequence[AvailableModel]") -> "tuple[AvailableModel, ...]":
        return tuple(_add_facts(model, self._facts) if self._is_used(model) else model for model in models)

    def load(self) -> Sequence[ListRow]:
        """Return a row for each model.

        The model in use comes first, even if it was not found. It is followed by favorites, recently used models, other
        models that can be used without adding an API key, and finally the remaining models.
        """
        used = [model for model in self._models if self._is_used(model)]
        others = [model for model in self._models if not self._is_used(model)]
        if not used and self._current.name and self._models:
            used = [_add_facts(_make_model(self._current), self._facts)]
        return [self._make_row(model) for model in (*used, *others)]

    def fold_text(self, text: str) -> str:
        """Return *text* in lowercase, with every dot, underscore and space replaced by a hyphen.

        Providers separate the parts of model names differently; this makes the names comparable.
        """
        return fold_separators(text)

    def _is_used(self, model: "AvailableModel") -> bool:
        own = self._current.api_base
        name = add_default_provider(model.config).name
        return name == self._current.name and (not own or model.config.api_base == own)

    def _make_row(self, model: "AvailableModel") -> ListRow:
        is_used = self._is_used(model)
        about = describe_model(model)
        return ListRow(
            model,
            model.config.name,
            f"{_('in use')} · {about}" if is_used and model.origin != _("in use") else about,
            mark="●" if is_used else "★" if model.is_favorite else "",
            mark_style="$accent" if model.is_usable else "$faint",
        )

    def show_details(self, row: ListRow) -> None:
        """Show the provider, context size, capabilities and price of a model."""
        model: AvailableModel = row.value
        self.show_about(
            clean_pairs(
                [
                    (_("model"), model.config.name),
                    (_("provider"), model.provider_title),
                    (
                        _("available"),
                        translate_sentence(model.origin)
                        or _("needs a key ({key_variable})").format(key_variable=model.key_variable),
                    ),
                    (_("address"), model.config.api_base),
                    (
                        _("context"),
                        _("{context_window:,} tokens").format(context_window=model.context_window)
                        if model.context_window
                        else _("unknown"),
                    ),
                    (_("tools"), _format_tools(model, keys_in_use(self))),
                    (_("images"), _format_ability(model.supports_images)),
                    (_("reasoning"), _format_ability(model.supports_reasoning)),
                    (_("price"), _format_price(model) or _("unknown")),
                    *_format_parameters(model.config),
                ]
            )
        )

    def open_row(self, row: ListRow) -> None:
        """Use the model in this run, without saving it as the default.

        If the provider's API key is missing, a form asks for it first.
        """
        self._use(row.value, is_default=False)

    def action_choose_default(self) -> None:
        """Use the selected model and save it as the default."""
        if row := self.current_row():
            self._use(row.value, is_default=True)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Use the selected model when Enter is pressed in the search box."""
        event.stop()
        self.action_choose()

    def action_edit(self) -> None:
        """Open a form with the selected model's settings."""
        if row := self.current_row():
            model: AvailableModel = row.value
            self._open_form(model.config)

    def action_create(self) -> None:
        """Open a form for a model that is not in the list."""
        self._open_form(ModelConfig())

    def _open_form(self, config: ModelConfig) -> None:
        def use(choice: ModelChoice | None) -> None:
            if choice is not None:
                self.dismiss(choice)

        self.app.push_screen(ModelForm(self._setup, config), use)  # pyright: ignore[reportUnknownMemberType]

    def action_toggle_favorite(self) -> None:
        """Add the selected model to the favorites, or remove it from them."""
        if row := self.current_row():
            self.run_worker(partial(self._toggle_favorite, row.value), group="favorite", exclusive=True)

    def action_replace_key(self) -> None:
        """Ask for a new API key for the selected model's provider, then use the model."""
        if not (row := self.current_row()):
            return
        model: AvailableModel = row.value
        variable = self._setup.api_keys.find_replaceable(model.config)
        if not variable:
            text = _("{name} needs no key.")
            if model.config.api_base and model.key_variable:
                text = _("{name} has its own address. Enter the variable of its key in its settings first.")
            self.notify(text.format(name=model.config.name), markup=False)
            return

        def use(config: ModelConfig | None) -> None:
            if config is not None:
                self.dismiss(ModelChoice(config, is_default=False))

        title = model.config.api_base.partition("://")[2] or model.provider_title
        form = ProviderKeyForm(self._setup, model.config, title, variable, is_replaced=model.is_usable)
        self.app.push_screen(form, use)  # pyright: ignore[reportUnknownMemberType]

    async def _toggle_favorite(self, model: "AvailableModel") -> None:
        try:
            is_favorite = await self._setup.toggle_favorite(model.config)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        changed = replace(model, is_favorite=is_favorite)
        self._models = tuple(changed if known is model else known for known in self._models)
        self.reload()

    def _key_bar_items(self) -> tuple[tuple[str, str, str], ...]:
        """Return a (key, label, action) tuple for each key.

        The key for `action_retry_tools` is included only if a provider has refused a request with tools.
        """
        is_refused = any(model.tools_refused_at for model in self._models)
        return tuple(key for key in super()._key_bar_items() if is_refused or key[2] != "screen.retry_tools")

    def action_retry_tools(self) -> None:
        """Offer tools to the selected model again if its provider has refused a request with tools."""
        if (row := self.current_row()) and row.value.tools_refused_at:
            self.run_worker(partial(self._retry_tools, row.value), group="retry", exclusive=True)

    async def _retry_tools(self, model: "AvailableModel") -> None:
        try:
            await self._setup.retry_tools(model.config)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        changed = replace(model, supports_tools=None, tools_refused_at=0)
        self._models = tuple(changed if known is model else known for known in self._models)
        self.reload()
        self.notify(_("{name} is offered tools again.").format(name=model.config.name), markup=False)

    def _use(self, model: "AvailableModel", *, is_default: bool) -> None:
        add_missing_key(self, self._setup, model, is_default=is_default, use=self.dismiss)


def add_missing_key(
    screen: "Screen[Any]",
    setup: "Setup",
    model: "AvailableModel",
    *,
    is_default: bool,
    use: "Callable[[ModelChoice], object]",
) -> None:
    """Pass *model* to *use* as a ModelChoice; if its provider's API key is missing, request the key first.

    *is_default* determines whether the choice is saved as the default. *use* is not called if the user cancels the
    form for the key.
    """
    if model.is_usable:
        use(ModelChoice(model.config, is_default))
        return

    def use_if_stored(config: ModelConfig | None) -> None:
        if config is not None:
            use(ModelChoice(config, is_default))

    form = ProviderKeyForm(setup, model.config, model.provider_title, model.key_variable)
    screen.app.push_screen(form, use_if_stored)  # pyright: ignore[reportUnknownMemberType]


def _make_model(config: ModelConfig) -> "AvailableModel":
    """Return a list entry for the model in use; it contains only the information in *config*."""
    from mcphost.llm.model_finder import AvailableModel

    provider = config.name.partition("/")[0]
    return AvailableModel(
        config=config,
        provider=provider,
        provider_title=provider,
        origin=_("in use"),
        context_window=config.context_window,
        input_price=config.input_price,
        output_price=config.output_price,
    )


def _add_facts(model: "AvailableModel", facts: "ModelFacts | None") -> "AvailableModel":
    """Return a copy of *model* in which unknown values are filled in from *facts*."""
    if facts is None:
        return model
    return replace(
        model,
        context_window=model.context_window or facts.context_window,
        supports_tools=facts.supports_tools if model.supports_tools is None else model.supports_tools,
        supports_images=facts.supports_images if model.supports_images is None else model.supports_images,
    )


def describe_model(model: "AvailableModel") -> str:
    """Return a line with a model's context size, price and capabilities, and the reason why it can be used.

    A narrow list truncates the line. The details that distinguish models of the same provider, such as the address of a
    self-hosted server, therefore come first. The reason, such as "ANTHROPIC_API_KEY is set", comes last.
    """
    title, _separator, address = model.origin.rpartition("at ")
    address, title = (address, title.strip()) if address in model.config.api_base else ("", model.origin)
    abilities = [
        name
        for name, is_supported in (
            (_("tools"), model.supports_tools),
            (_("images"), model.supports_images),
            (_("reasoning"), model.supports_reasoning),
        )
        if is_supported
    ]
    missing = _("{provider_title} · needs a key").format(provider_title=model.provider_title)
    context = _("{context_window} context").format(context_window=_format_tokens(model.context_window))
    parts = [
        address,
        "" if model.is_usable else missing,
        context if model.context_window else "",
        _format_short_price(model),
        *abilities,
        _("no tools") if model.supports_tools is False else "",
        translate_sentence(title),
    ]
    return " · ".join(filter(None, parts))


def _format_parameters(config: ModelConfig) -> list[tuple[str, str]]:
    """Return the names and values of a model's settings, without its name and the base URL of its API.

    For headers, only the names are returned, because the values may be secret.
    """
    texts = format_fields(config)
    pairs = [(_(label), texts[key]) for key, label, _placeholder in MODEL_FIELDS if key not in ("name", "api_base")]
    return [*pairs, (_("headers"), join_list(config.headers))]


def _format_ability(is_supported: bool | None) -> str:
    return _("unknown") if is_supported is None else _("yes") if is_supported else _("no")


def _format_tools(model: "AvailableModel", keys: KeyTable) -> str:
    if not model.tools_refused_at:
        return _format_ability(model.supports_tools)
    day = time.strftime("%Y-%m-%d", time.localtime(model.tools_refused_at))
    return keys.fill(_("no, refused on {day}; {models-retry-tools} tries again"), day=day)


def _format_price(model: "AvailableModel") -> str:
    if model.input_price is None or model.output_price is None:
        return ""
    if not model.input_price and not model.output_price:
        return _("free")
    return _("${input_price:g} in, ${output_price:g} out per million tokens").format(
        input_price=model.input_price, output_price=model.output_price
    )


def _format_short_price(model: "AvailableModel") -> str:
    """Return the prices per million input and output tokens, such as "$3/$15", or "" if they are unknown."""
    if model.input_price is None or model.output_price is None:
        return ""
    if not model.input_price and not model.output_price:
        return _("free")
    return f"${model.input_price:g}/${model.output_price:g}"


def _format_tokens(count: int) -> str:
    return f"{count / 1_000_000:.3g}M" if count >= 1_000_000 else f"{round(count / 1000)}k"


_ROOMY_HEIGHT = 26


class ModelChoice(Struct, frozen=True):
    """A model that the user chose, and whether to save it as the default."""

    config: ModelConfig
    is_default: bool


class ModelForm(FormScreen[ModelChoice]):
    """Form for a model's settings; its result is a ModelChoice, or None if the user cancels.

    Secrets in headers are stored in the keyring; the resulting settings refer to them as `${keyring:…}`.
    """

    DEFAULT_CSS = """
    ModelForm LabeledInput { margin: 0; }
    ModelForm TextArea { height: 3; border: none; padding: 0 1; background: $surface; margin: 0 0 0 16; }
    ModelForm #headers-label { margin: 1 0 0 0; color: $muted; }
    ModelForm.small #box { max-height: 100%; padding: 0 2; }
    ModelForm.small TextArea { height: 2; }
    ModelForm.small #headers-label { margin: 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "save", show=False, priority=True)]

    def __init__(self, setup: "Setup", config: ModelConfig) -> None:
        """Create a form with the settings in *config*.

        If the name in *config* is empty, the form is for a model that is not in the models list.
        """
        super().__init__()
        self._setup = setup
        self._config = config

    def was_hidden(self, seconds_ago: float) -> bool:
        """Return False, so that a key pressed before the form appeared is not ignored.

        A key that was meant for the models list does no harm: Enter only moves to the next field, and Ctrl+S saves the
        model, just as in the list.
        """
        return False

    def headline(self) -> str:
        """Return the title."""
        return _("Settings of {name}").format(name=self._config.name) if self._config.name else _("Another model")

    def body(self) -> ComposeResult:
        """Yield an input for each setting and a text area for the headers."""
        yield LabeledInputGroup(
            *(LabeledInput(_(label), key, placeholder=_(hint)) for key, label, hint in MODEL_FIELDS)
        )
        yield Static(_("headers, one per line, such as X-Team: ${env:TEAM}"), id="headers-label", markup=False)
        yield OrderedTextArea(id="headers", tab_behavior="focus", compact=True)

    def buttons(self) -> tuple[tuple[str, str], ...]:
        """Return the action and the label of each button."""
        return ("leave", _("Back")), ("use", _("Use now")), ("save", _("Use and save"))

    def key_hints(self) -> str:
        """Return the line that explains the keys."""
        return _("enter or tab next field · ctrl+s use and save · esc back")

    def on_mount(self) -> None:
        """Fill in the current settings and focus the first input."""
        for key, text in format_fields(self._config).items():
            if key == "headers":
                self.query_one("#headers", OrderedTextArea).text = text
            else:
                self.query_one(f"#{key}", Input).value = text
        self.query_one(LabeledInputGroup).focus_input()

    def on_resize(self) -> None:
        """Remove blank lines on a small screen, so that the buttons and the key hints remain visible."""
        self.set_class(self.size.height < _ROOMY_HEIGHT, "small")

    def on_labeled_input_group_submitted(self, event: LabeledInputGroup.Submitted) -> None:
        """Use the model if Enter was pressed in the last input."""
        event.stop()
        if event.index == len(MODEL_FIELDS) - 1:
            self.action_use()

    def action_use(self) -> None:
        """Use the model in this run, without saving it as the default."""
        self._submit(is_default=False)

    def action_save(self) -> None:
        """Use the model and save it as the default."""
        self._submit(is_default=True)

    def _submit(self, *, is_default: bool) -> None:
        self.run_worker(partial(self._finish, is_default=is_default), group="submit", exclusive=True)

    async def _finish(self, *, is_default: bool) -> None:
        inputs = {key: self.query_one(f"#{key}", Input) for key, _label, _hint in MODEL_FIELDS}
        headers = self.query_one("#headers", OrderedTextArea)
        await wait_for_typed_text(*inputs.values(), headers)
        texts = {"headers": headers.text, **{key: field.value for key, field in inputs.items()}}
        try:
            config = await self._setup.protect_headers(add_default_provider(parse_fields(texts)))
        except McpHostError as error:
            self.show_fault(str(error))
            if isinstance(error, InvalidModelFields):
                inputs.get(error.keys[0], headers).focus()
            return
        variable = await self._setup.api_keys.find_missing(config)
        if not variable:
            self.dismiss(ModelChoice(config, is_default))
            return

        def use(model: ModelConfig | None) -> None:
            if model is not None:
                self.dismiss(ModelChoice(model, is_default))

        title = config.api_base.partition("://")[2] or config.name.partition("/")[0]
        form = ProviderKeyForm(self._setup, config, title, variable)
        self.app.push_screen(form, use)  # pyright: ignore[reportUnknownMemberType]
