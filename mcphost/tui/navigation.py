"""Actions that open screens over the chat, and process what the user chooses on them."""

from collections.abc import Awaitable, Callable
from functools import cached_property, partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, cast

from textual.actions import SkipAction
from textual.screen import Screen
from textual.widgets import Input

from mcphost.sanitize import strip_hidden_text
from mcphost.translation import _
from mcphost.tui.input_guard import InputGuardApp
from mcphost.tui.notice_display import NoticeApp
from mcphost.tui.screen_text import clean_line
from mcphost.tui.screens.chat import ChatScreen
from mcphost.tui.transcript.transcript import Transcript
from mcphost.tui.widget_messages import (
    BackgroundRequested,
    CopyRequested,
    EditRequested,
    ImageDecodeRequested,
    LinkClicked,
    PromptRequested,
    QrCodeRequested,
    ServerSelected,
    TextViewRequested,
)
from mcphost.tui.widgets.composer import Composer

if TYPE_CHECKING:
    from textual.app import App

    from mcphost.config.schema import KeyConfig
    from mcphost.host.host import Host
    from mcphost.llm.messages import ResourcePart
    from mcphost.protocol.prompts import Prompt
    from mcphost.tui.chat.manual_calls import ManualCall
    from mcphost.tui.config_change_notices import ConfigChangeNotices
    from mcphost.tui.image_cache import ImageCache
    from mcphost.tui.screens.history import HistoryChoice
    from mcphost.tui.screens.models import ModelChoice
    from mcphost.tui.screens.setup import SetupChoice
    from mcphost.tui.terminal_graphics import TerminalGraphics


class NavigationApp(InputGuardApp, NoticeApp):
    """App with the actions that open screens over the chat; a screen's module is imported on first use.

    These actions are in a base class of the app, because Textual looks up `action_*` and `on_*` methods on the app.
    """

    chat: ChatScreen
    _host: "Host | None" = None
    image_cache: "ImageCache | None" = None
    _graphics: "TerminalGraphics | None" = None
    is_setup_postponed = False

    def action_command_palette(self) -> None:
        """Open the command palette, unless it is already open."""
        from textual.command import CommandPalette

        if not CommandPalette.is_open(cast("App[object]", self)):
            from mcphost.tui.command_palette import ActionPalette

            self.push_screen(ActionPalette())

    @property
    def host(self) -> "Host":
        """The attached host. Raises RuntimeError if none is attached yet."""
        if self._host is None:
            raise RuntimeError("No host is attached yet.")
        return self._host

    @cached_property
    def config_change_notices(self) -> "ConfigChangeNotices":
        """The object that watches the configuration files and reports changes; it is created on first use."""
        from mcphost.tui.config_change_notices import ConfigChangeNotices

        return ConfigChangeNotices(self.host.config_change_detector, self.chat, self)

    def use_theme(self, name: str) -> None:
        """Switch to the theme *name*.

        This base class does nothing; McpHostApp overrides the method.
        """

    def use_keys(self, keys: "tuple[KeyConfig, ...]") -> None:
        """Apply the configured *keys*; McpHostApp overrides this method, which does nothing here."""

    def open_page(self, screen: Screen[Any], on_result: Callable[[Any], None] | None = None) -> None:
        """Open a screen over the chat, in place of any other non-modal screen that is open there.

        *on_result* receives the screen's result.
        """
        # At most one screen is open over the chat: F3 replaces the screen that F4 opened.
        while len(self.screen_stack) > 1 and not self.screen.is_modal:
            self.pop_screen()
        self.push_screen(screen, on_result)

    def action_help(self) -> None:
        """Open the help screen, or close it if it is open."""
        from mcphost.tui.screens.help import HelpScreen

        if isinstance(self.screen, HelpScreen):
            self.screen.action_leave()
        else:
            self.open_page(HelpScreen())

    def action_servers(self) -> None:
        """Open the screen that lists all servers."""
        self._open_servers("")

    def _open_servers(self, name: str) -> None:
        from mcphost.tui.chat.manual_calls import ManualCall
        from mcphost.tui.screens.servers import ServersScreen

        def finish(result: "ManualCall | ResourcePart | None") -> None:
            if isinstance(result, ManualCall):
                self.chat.manual_calls.start(result)
            elif result is not None:
                self.chat.attachments.add(result)

        self.open_page(ServersScreen(self.host, name), finish)

    def action_registry(self) -> None:
        """Open the screen for installing servers from a registry."""
        from mcphost.tui.screens.registry import InstalledNotice, RegistryScreen

        def finish(result: "InstalledNotice | ResourcePart | None") -> None:
            if isinstance(result, InstalledNotice):
                self.notify(result.text, markup=False, timeout=8)
                self._open_servers(result.server)
            elif result is not None:
                self.chat.attachments.add(result)

        if self.host.setup is None:
            self.notify(_("The demo has only its own server."), markup=False)
        else:
            self.open_page(RegistryScreen(self.host.setup.registry), finish)

    def on_server_selected(self, message: ServerSelected) -> None:
        """Open the servers screen with the clicked server selected."""
        message.stop()
        self._open_servers(message.server)

    def on_text_view_requested(self, message: TextViewRequested) -> None:
        """Open the requested text in the viewer."""
        message.stop()
        from mcphost.tui.screens.text_viewer import TextViewerScreen

        whole = partial(self.host.results.read_all, message.full_text_file) if message.full_text_file else None
        title, text, seen = message.title, message.text, message.on_end_shown
        self.push_screen(TextViewerScreen(title, text, seen, whole, message.sections, message.language))

    def on_image_decode_requested(self, message: ImageDecodeRequested) -> None:
        """Start a worker that decodes the requested image in the decoder process."""
        message.stop()
        if self.image_cache is None:
            from mcphost.tui.image_cache import ImageCache

            self.image_cache = ImageCache()
        if self._graphics is None:
            from mcphost.tui.terminal_graphics import TerminalGraphics

            self._graphics = TerminalGraphics(self._driver, self.host.settings, self.image_cache)
            cast("Any", self).app_resume_signal.subscribe(self, self._send_pictures_again)
        self.run_worker(partial(self._decode_image, self._graphics, message), group="pictures")

    async def _decode_image(self, graphics: "TerminalGraphics", message: ImageDecodeRequested) -> None:
        message.on_decoded(await graphics.show(message.data, message.width, message.height))

    def _send_pictures_again(self, _unused: object) -> None:
        if self._graphics is not None:
            self.run_worker(self._graphics.send_again, group="pictures")

    def on_link_clicked(self, message: LinkClicked) -> None:
        """Copy the URL of the clicked link and show it in a notification. Links are never opened."""
        message.stop()
        self.post_message(CopyRequested(message.url))
        self.notify(clean_line(message.url, 600), title=_("Link, not opened"), markup=False, timeout=8)

    async def on_unmount(self) -> None:
        """Remove images from the terminal, and end the image decoder process if it was started."""
        if self._graphics is not None:
            self._graphics.close()
        if self.image_cache is not None:
            await self.image_cache.close()

    def on_qr_code_requested(self, message: QrCodeRequested) -> None:
        """Open a screen that shows the text as a QR code."""
        message.stop()
        from mcphost.tui.screens.qr_code import QrScreen

        self.push_screen(QrScreen(message.title, message.text))

    def action_model(self) -> None:
        """Open the screen for choosing a model."""
        self._open_models(self._use_model)

    def action_retry_with(self) -> None:
        """Open the screen for choosing another model, which then answers the last message again."""
        self._open_models(self._retry_with)

    def _open_models(self, use: "Callable[[ModelChoice | None], None]") -> None:
        setup = self.host.setup
        if setup is None:
            self.notify(_("The demo has only its own model."), markup=False)
            return
        from mcphost.tui.screens.models import ModelsScreen

        selection = self.host.model_selection
        facts = None if selection.model is None else selection.model.facts
        self.open_page(ModelsScreen(setup, selection.config, facts), use)

    def _use_model(self, choice: "ModelChoice | None") -> None:
        if choice is not None:
            self._start_use(choice)

    def _use_first_model(self, choice: "ModelChoice | None") -> None:
        self._use_model(choice)
        if choice is None and self.host.setup is not None:
            self.run_worker(self.host.setup.release_models, group="setup")

    def _retry_with(self, choice: "ModelChoice | None") -> None:
        if choice is not None:
            self._start_use(choice, partial(self._rewind, "retry"))

    def _start_use(self, choice: "ModelChoice", then: Callable[[], Awaitable[object]] | None = None) -> None:
        from mcphost.tui.screens.model_use import start_use

        start_use(self.chat, choice, then)

    def action_setup(self) -> None:
        """Search this machine for models and servers, and offer them to the user on the setup screen.

        If the message being written is an API key, it moves to the key input of that screen.
        """
        self.run_worker(partial(self._open_setup, is_invited=True), group="setup", exclusive=True)

    def offer_setup(self) -> None:
        """Open the setup screen if it was never shown, no model is configured and no flag specified a server.

        If the user is writing a message or another screen is open, show a notice that explains how to choose a model
        instead. If the open screen is modal, for example a question, also set `is_setup_postponed`, which makes the app
        call this method again when no question is left.
        """
        self.is_setup_postponed = False
        if self.host.model_selection.model is None:
            self.run_worker(partial(self._open_setup, is_invited=False), group="setup", exclusive=True)

    async def _open_setup(self, *, is_invited: bool) -> None:
        setup = self.host.setup
        if setup is None:
            if is_invited:
                self.notify(_("The demo needs no set-up."), markup=False)
            return
        if not is_invited and not setup.is_first_run:
            return
        from mcphost.llm.api_key_formats import is_api_key
        from mcphost.tui.screens.setup import SetupScreen

        offers = await setup.find()
        composer = self.chat.query_one(Composer)
        key = composer.draft.text.strip() if is_api_key(composer.draft.text) else ""
        is_free = self.screen is self.chat and not self.chat.composer_input.text
        if not is_invited and not is_free:
            # A user who is writing or reading is not interrupted, and a question is answered first.
            self.is_setup_postponed = self.screen.is_modal
            self.chat.explain_missing_model()
            await setup.release_models()
        else:
            setup.mark_shown()
            if key:  # the setup screen masks it
                composer.set_text("")
            self.open_page(SetupScreen(setup, offers, is_invited=is_invited, key=key), self._apply_setup)

    def _apply_setup(self, choice: "SetupChoice | None") -> None:
        if choice is not None and choice.typed:
            self.chat.composer_input.focus()
            self.chat.composer_input.insert(choice.typed)
        elif choice is not None and (choice.model is not None or choice.servers):
            self.run_worker(partial(self.chat.apply_setup, choice), group="setup")
        if choice is not None and choice.is_address_wanted:
            self.chat.open_model_form()
        elif choice is not None and choice.is_model_missing:
            self._open_models(self._use_first_model)
        elif choice is None or choice.model is None:
            if self.host.setup is not None:
                self.run_worker(self.host.setup.release_models, group="setup")
            if choice is None or not choice.typed:
                self.chat.explain_missing_model()

    def action_profile(self) -> None:
        """Open the screen for choosing a profile."""
        self.config_change_notices.open_profiles()

    def action_instructions(self) -> None:
        """Open the screen that lists the AGENTS.md files of the user and of the project."""
        from mcphost.tui.screens.instructions import InstructionsScreen

        self.open_page(InstructionsScreen(self.host))

    def action_reload(self) -> None:
        """Show what changed in the configuration files, and offer to apply it."""
        self.run_worker(self.config_change_notices.review, group="setup")

    def action_resources(self) -> None:
        """Open the resources screen, and attach the resource that the user selects there to the next message."""
        from mcphost.tui.screens.resources import ResourcesScreen

        def attach(chosen: tuple[str, str] | None) -> None:
            if chosen is not None:
                self.chat.attachments.add_resource(*chosen)

        self.open_page(ResourcesScreen(self.host), attach)

    def action_prompts(self) -> None:
        """Open the prompts screen; after a choice, ask for the prompt's arguments and insert the prompt."""
        from mcphost.tui.screens.prompts import open_prompts

        open_prompts(self.chat, self.open_page)

    def on_prompt_requested(self, message: PromptRequested) -> None:
        """Open the arguments form of the MCP prompt that the user selected from the "/" completions."""
        message.stop()
        for view in self.host.servers.views():
            for prompt in view.catalog.prompts:
                if (view.name, prompt.name) == (message.server, message.prompt):
                    self.fill_prompt(view.name, prompt)
                    return

    def fill_prompt(self, server: str, prompt: "Prompt") -> None:
        """Open a form for the arguments of an MCP prompt, then insert the resulting text or messages."""
        from mcphost.tui.screens.prompts import fill_prompt

        fill_prompt(self.chat, server, prompt)

    def action_undo_insert(self) -> None:
        """Remove the messages of the MCP prompt that was inserted last."""
        from mcphost.tui.screens.prompts import undo_insert

        if self.screen is self.chat:
            self.run_worker(partial(undo_insert, self.chat), group="turn")

    def action_system_prompt(self) -> None:
        """Open the form for the system prompt of the current conversation."""
        from mcphost.tui.screens.system_prompt import SystemPromptForm

        def tell(done: str | None) -> None:
            if done:
                self.notify(done, markup=False, timeout=6)
                self.chat.refresh_status()

        self.push_screen(SystemPromptForm(self.host), tell)

    def action_history(self) -> None:
        """Open the history screen, and load the conversation that the user selects there."""
        from mcphost.tui.screens.history import HistoryChoice, HistoryScreen

        def open_(choice: HistoryChoice | None) -> None:
            if choice is not None:
                self.run_worker(partial(self._open_conversation, choice), group="history")

        self.open_page(HistoryScreen(self.host), open_)

    def action_export(self) -> None:
        """Open a form that writes the current conversation to a file."""
        self.run_worker(self._open_export, group="export", exclusive=True)

    async def _open_export(self) -> None:
        from mcphost.errors import McpHostError
        from mcphost.tui.command_values import NOTHING_TO_EXPORT
        from mcphost.tui.screens.export import ExportForm

        conversation = self.host.conversation
        if not (conversation.messages or conversation.manual_calls):
            self.notify(_(NOTHING_TO_EXPORT), markup=False)
            return
        try:
            info = await self.host.history.find(conversation.id)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.push_screen(ExportForm(self.host.history, info))

    def action_recall(self) -> None:
        """Open a search over the user's earlier messages, and put the selected message into the composer."""
        from mcphost.tui.screens.input_history_search import InputHistoryScreen

        def fill(text: str | None) -> None:
            if text is not None:
                self.chat.query_one(Composer).recall_text(text)

        self.open_page(InputHistoryScreen(self.host), fill)

    def action_edit_message(self) -> None:
        """Open the message that the user is writing in the user's editor."""
        from mcphost.tui.message_editor import edit_message

        if self.screen is self.chat:
            edit_message(self.chat)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy text to the clipboard without control characters, which could run commands when pasted into a shell."""
        super().copy_to_clipboard(strip_hidden_text(text))

    def action_copy_last(self) -> None:
        """Copy the model's last answer to the clipboard as Markdown."""
        from mcphost.tui.transcript.last_answer import find_last_answer

        text = find_last_answer(self.chat.presenter.transcript)
        if text:
            self.copy_to_clipboard(text)
        self.notify(_("Copied.") if text else _("There is no answer yet."), markup=False, timeout=2)

    def action_continue_turn(self) -> None:
        """Ask the model to continue a truncated answer, or to answer the last message if it was not answered.

        Do nothing while another screen covers the chat.
        """
        if self.screen is self.chat:
            self.chat.continue_turn()

    def action_focus_transcript(self) -> None:
        """Focus the transcript immediately, before any later key is delivered."""
        if self.screen is not self.chat:
            raise SkipAction
        self.chat.set_focus(self.chat.query_one(Transcript))

    async def action_find(self) -> None:
        """Open the search bar and focus it immediately, before any later key is delivered."""
        from mcphost.tui.widgets.find_bar import FindBar

        if self.screen is not self.chat:
            raise SkipAction
        opened = self.chat.query(FindBar)
        if not opened:
            await self.chat.mount(FindBar(self.chat.query_one(Transcript)), before="#composer")
        self.chat.set_focus(self.chat.query_one(FindBar).query_one(Input))

    def action_context(self) -> None:
        """Open the screen that shows what fills the model's context window."""
        from mcphost.tui.screens.context import ContextScreen

        self.open_page(ContextScreen(self.host))

    def action_pin_tool(self) -> None:
        """Pin or unpin the tool that is selected on the tools screen.

        On other screens, explain how to select a tool.
        """
        from mcphost.tui.screens.tools import ToolsScreen

        if isinstance(self.screen, ToolsScreen):
            self.screen.pin_selected()
        else:
            text = _("Select the tool first: press {servers}, then {servers-tools}.")
            self.notify(self.key_table.fill(text), markup=False, timeout=6)

    def action_costs(self) -> None:
        """Open the screen that shows what model requests cost."""
        from mcphost.tui.screens.costs import CostsScreen

        self.open_page(CostsScreen(self.host))

    def connect_composer(self) -> None:
        """Make Up in the empty composer open the newest message for editing if the model has not answered it."""
        self.chat.query_one(Composer).edit_handler = self._edit_unanswered

    def _edit_unanswered(self, text: str) -> bool:
        from mcphost.tui.screens.rewind import edit_unanswered

        return edit_unanswered(self.chat, text)

    def action_rewind(self) -> None:
        """Open the rewind screen, where the user can go back to an earlier message."""
        self._open_rewind(None)

    def _open_rewind(self, selected: int | None) -> None:
        from mcphost.tui.screens.rewind import RewindChoice, RewindScreen, apply_rewind

        def finish(choice: RewindChoice | None) -> None:
            if choice is not None:
                self.run_worker(partial(apply_rewind, self.chat, choice), group="turn")

        self.open_page(RewindScreen(self.host, selected=selected), finish)

    def on_edit_requested(self, message: EditRequested) -> None:
        """Open the rewind screen with the requested user message selected."""
        message.stop()
        user_messages = (
            at
            for at, one in enumerate(self.host.conversation.messages)
            if one.role == "user" and one.late_result is None
        )
        self._open_rewind(next(islice(user_messages, message.index, None), None))

    def action_retry(self) -> None:
        """Ask the model to answer the last message again."""
        self._apply_rewind("retry")

    def action_call_again(self) -> None:
        """Ask the model to answer the last message again, without reusing the results of earlier tool calls."""
        self._apply_rewind("call_again")

    def action_fork(self) -> None:
        """Copy the conversation to a new one, and open the copy."""
        self._apply_rewind("fork")

    def _apply_rewind(self, action: Literal["retry", "call_again", "fork"]) -> None:
        """Retry the last message, with or without reusing results of earlier tool calls, or fork the conversation."""
        self.run_worker(partial(self._rewind, action), group="turn")

    async def _rewind(self, action: Literal["retry", "call_again", "fork"]) -> None:
        from mcphost.tui.screens.rewind import RewindChoice, apply_rewind

        await apply_rewind(self.chat, RewindChoice(action, len(self.host.conversation.messages)))

    def action_summarize(self) -> None:
        """Ask the model to summarize earlier messages."""
        from mcphost.tui.compaction_actions import summarize

        self.run_worker(partial(summarize, self.chat), group="turn")

    def action_undo_summary(self) -> None:
        """Stop using the summary; later requests contain the summarized messages again."""
        from mcphost.tui.compaction_actions import undo_summary

        self.run_worker(partial(undo_summary, self.chat), group="turn")

    def action_summary(self) -> None:
        """Show the current summary."""
        from mcphost.tui.compaction_actions import show_summary

        show_summary(self.chat)

    def action_grants(self) -> None:
        """Open the permissions screen."""
        from mcphost.tui.screens.grants import GrantsScreen

        self.open_page(GrantsScreen(self.host), lambda _unused: None)

    def action_accounts(self) -> None:
        """Open the accounts screen."""
        from mcphost.tui.screens.accounts import AccountsScreen

        self.open_page(AccountsScreen(self.host))

    def action_folders(self) -> None:
        """Open the screen that lists the folders shared with servers."""
        from mcphost.tui.screens.roots import RootsScreen

        self.open_page(RootsScreen(self.host))

    def action_tasks(self) -> None:
        """Open the screen that lists running calls, subscriptions, and tasks that were started in earlier runs."""
        from mcphost.tui.screens.tasks import TasksScreen

        self.open_page(TasksScreen(self.host))

    def on_background_requested(self, message: BackgroundRequested) -> None:
        """Let the turn continue without waiting for the requested tool call."""
        message.stop()
        self.send_to_background(message.call)

    def send_to_background(self, call: str) -> None:
        """Let the turn continue without waiting for the tool call with the id *call*.

        A notification states whether this succeeded.
        """
        from mcphost.errors import McpHostError

        try:
            self.host.conversation.send_to_background(call)
        except McpHostError as error:
            self.notify(str(error), severity="warning", markup=False, timeout=6)
        else:
            self.notify(_("The answer continues without it. /tasks shows the call."), markup=False, timeout=4)

    def action_audit(self) -> None:
        """Open the audit log screen."""
        from mcphost.tui.screens.audit import AuditScreen

        self.open_page(AuditScreen(self.host))

    async def _open_conversation(self, choice: "HistoryChoice") -> None:
        from mcphost.errors import McpHostError
        from mcphost.tui.screens.rewind import COPY_NOTE

        try:
            await self.host.conversation.open(choice.id)
            if choice.is_fork:
                await self.host.conversation.branches.fork(mark=_("copy"))
                self.notify(self.key_table.fill(_(COPY_NOTE)), markup=False, timeout=8)
        except McpHostError as error:
            self.notify(str(error), severity="error", markup=False)
