"""Table of global actions, with their keys, footer labels, command palette entries and slash commands."""

from collections.abc import Mapping
from typing import NamedTuple

from mcphost.translation import N_


class Action(NamedTuple):
    """A global action of the app, and how the user can invoke it.

    `name` is Textual's action name. `keys` are the default keys, separated by commas, or "" if there are none; the user
    can change them, so look up the keys in use in `mcphost.tui.key_table`. `label` is shown in the footer, `title` and
    `help` in the command palette. `slash` is the slash command, without the slash; other names for it are in
    `ALIASES`. If `takes_value` is true, a value can follow the command, as in `/theme fjord`.
    """

    name: str
    keys: str
    label: str
    title: str
    help: str
    slash: str = ""
    is_in_footer: bool = False
    priority: bool = False
    takes_value: bool = False

    @property
    def default_keys(self) -> tuple[str, ...]:
        """The default keys, beginning with the key that is shown to the user; () if there are none."""
        return tuple(self.keys.split(",")) if self.keys else ()


ACTIONS: tuple[Action, ...] = (
    Action("palette", "ctrl+p", N_("palette"), N_("Command palette"), N_("Search all actions"), is_in_footer=True),
    Action("help", "f1", N_("help"), N_("Help"), N_("Show keys, commands and symbols"), "help", is_in_footer=True),
    Action(
        "toggle_servers",
        "f2",
        N_("sidebar"),
        N_("Show or hide the sidebar"),
        N_("Show or hide the list of servers"),
        "sidebar",
        is_in_footer=True,
    ),
    Action(
        "servers",
        "f3",
        N_("servers"),
        N_("Servers"),
        N_("Show status, tools and logs; restart a server"),
        "servers",
        is_in_footer=True,
        takes_value=True,
    ),
    Action(
        "resources",
        "f4",
        N_("resources"),
        N_("Resources"),
        N_("Browse, preview and attach resources"),
        "resources",
        is_in_footer=True,
    ),
    Action(
        "prompts",
        "f5",
        N_("prompts"),
        N_("Prompts"),
        N_("Browse prompts; fill one in and insert it"),
        "prompts",
        is_in_footer=True,
    ),
    Action(
        "history", "f6", N_("history"), N_("History"), N_("Open an earlier conversation"), "history", is_in_footer=True
    ),
    Action(
        "recall",
        "ctrl+r,ctrl+up",
        N_("recall"),
        N_("Recall an earlier message"),
        N_("Search your messages in all conversations; insert one into the message"),
        "recall",
    ),
    Action(
        "edit_message",
        "ctrl+g",
        N_("editor"),
        N_("Edit the message in your editor"),
        N_("Open the message in $VISUAL or $EDITOR; the text that you save comes back"),
        "editor",
    ),
    Action("grants", "f7", N_("permissions"), N_("Permissions"), N_("Show and revoke permissions"), "grants"),
    Action(
        "answer",
        "f8",
        N_("answer"),
        N_("Answer the waiting question"),
        N_("Go to the question that is waiting for you"),
        "answer",
        priority=True,
    ),
    Action("app", "", N_("page"), N_("Open a tool's page"), N_("Open an interactive page in the browser"), "app"),
    Action("tasks", "", N_("tasks"), N_("Tasks"), N_("Show what is running and its progress; cancel it"), "tasks"),
    Action(
        "auto_approval",
        "f9",
        N_("auto-approve"),
        N_("Auto-approve"),
        N_("Auto-approve read-only tools; pressed again, turn it off and stop running tools"),
        "auto-approve",
        priority=True,
    ),
    Action("audit", "f10", N_("audit"), N_("Audit log"), N_("Show the audit log and verify it"), "audit"),
    Action("accounts", "f12", N_("accounts"), N_("Accounts"), N_("Choose accounts; sign in and out"), "accounts"),
    Action(
        "folders",
        "ctrl+o",
        N_("folders"),
        N_("Shared folders"),
        N_("Choose the folders whose paths servers may get"),
        "folders",
    ),
    Action(
        "stop", "escape", N_("stop"), N_("Stop"), N_("Stop the answer and its running tools"), "stop", is_in_footer=True
    ),
    Action(
        "continue_turn",
        "ctrl+down",
        N_("continue"),
        N_("Continue or retry"),
        N_("Continue an answer that was cut off, or request a missing one again"),
        "again",
    ),
    Action(
        "new",
        "ctrl+n",
        N_("new"),
        N_("New conversation"),
        N_("Start a new conversation; the current one stays in the history"),
        "new",
    ),
    Action(
        "rewind",
        "",
        N_("go back"),
        N_("Go back and edit a message"),
        N_("Edit an earlier message, answer it again, fork there, or open another branch"),
        "rewind",
    ),
    Action(
        "retry",
        "",
        N_("answer again"),
        N_("Answer the last message again"),
        N_("Ask the selected model again; the first answer stays stored"),
        "retry",
    ),
    Action(
        "retry_with",
        "",
        N_("other model"),
        N_("Answer again with another model"),
        N_("Choose a model that answers at once; the first answer stays stored"),
        "retry-with",
        takes_value=True,
    ),
    Action(
        "call_again",
        "",
        N_("call again"),
        N_("Answer again with new results"),
        N_("Answer the last message again; tools whose results were reused are called again"),
        "call-again",
    ),
    Action(
        "fork",
        "",
        N_("fork"),
        N_("Fork the conversation"),
        N_("Continue in a copy; the original stays in the history"),
        "fork",
    ),
    Action(
        "summarize",
        "",
        N_("summarize"),
        N_("Summarize earlier messages"),
        N_("The model gets a summary of all but the last messages; you read and edit it first"),
        "compact",
        takes_value=True,
    ),
    Action(
        "summary",
        "",
        N_("summary"),
        N_("Show the summary"),
        N_("Show each sentence with the messages that it summarizes"),
        "summary",
    ),
    Action(
        "undo_summary",
        "",
        N_("undo summary"),
        N_("Undo the summary"),
        N_("The model gets the messages themselves again"),
        "undo-summary",
    ),
    Action(
        "focus_transcript",
        "ctrl+t",
        N_("read"),
        N_("Read the conversation"),
        N_("Move between messages, open and copy them"),
        "read",
        priority=True,
    ),
    Action(
        "find",
        "ctrl+f",
        N_("find"),
        N_("Find in the conversation"),
        N_("Find text in messages, reasoning and results, also in folded ones"),
        "find",
        priority=True,
    ),
    Action(
        "model",
        "ctrl+b",
        N_("model"),
        N_("Choose a model"),
        N_("Switch to another model, also in the middle of a conversation"),
        "model",
        takes_value=True,
    ),
    Action(
        "context",
        "",
        N_("context"),
        N_("Context"),
        N_("Show what fills the model's window, and choose which tools are sent"),
        "context",
    ),
    Action(
        "pin_tool",
        "",
        N_("always send"),
        N_("Always send a tool"),
        N_("Send the selected tool of a server in each request, or end that"),
        "pin",
    ),
    Action(
        "costs",
        "",
        N_("costs"),
        N_("Costs"),
        N_("Show what this turn, the conversation and the last 30 days cost"),
        "cost",
    ),
    Action(
        "setup",
        "",
        N_("set up"),
        N_("Set up models and servers"),
        N_("Search this machine for keys, local models and servers of other hosts"),
        "setup",
    ),
    Action(
        "registry",
        "",
        N_("registry"),
        N_("Find servers in the registry"),
        N_("Search the registry; install or update a server"),
        "registry",
    ),
    Action(
        "profile",
        "",
        N_("profile"),
        N_("Choose a profile"),
        N_("Use another profile of config.toml: model, system prompt and servers"),
        "profile",
        takes_value=True,
    ),
    Action(
        "system_prompt",
        "",
        N_("system prompt"),
        N_("System prompt of this conversation"),
        N_("Show, change or undo what the model is told before the conversation"),
        "system",
    ),
    Action(
        "instructions",
        "",
        N_("instructions"),
        N_("Instructions"),
        N_("Show which AGENTS.md files the model follows"),
        "instructions",
    ),
    Action(
        "reload",
        "",
        N_("reload"),
        N_("Reload the configuration"),
        N_("Show what changed in the configuration files, and apply it"),
        "reload",
    ),
    Action(
        "attach_result",
        "",
        N_("attach"),
        N_("Attach a tool's result"),
        N_("Attach the result of your latest manual call to your message"),
        "attach",
    ),
    Action(
        "export",
        "",
        N_("export"),
        N_("Export the conversation"),
        N_("Write this conversation to a new file: Markdown, HTML or JSON"),
        "export",
        takes_value=True,
    ),
    Action(
        "undo_insert",
        "alt+u",
        N_("take back"),
        N_("Undo an inserted prompt"),
        N_("Remove the last inserted prompt; its messages are kept as a branch"),
        "take-back",
    ),
    Action(
        "theme",
        "ctrl+l",
        N_("theme"),
        N_("Choose a theme"),
        N_("Choose dark or light colors; each theme is previewed"),
        "theme",
        priority=True,
        takes_value=True,
    ),
    Action(
        "copy_last",
        "ctrl+y",
        N_("copy"),
        N_("Copy the last answer"),
        N_("Copy the last answer to the clipboard"),
        "copy",
    ),
    Action("quit", "ctrl+q", N_("quit"), N_("Quit"), N_("Save and quit"), "quit", is_in_footer=True, priority=True),
)

# Keys that work only in one part of the app, for the help screen: (part, key, effect).
LOCAL_KEYS: tuple[tuple[str, str, str], ...] = (
    (N_("Message"), "enter", N_("send")),
    (N_("Message"), N_("shift+enter or ctrl+j"), N_("new line")),
    (
        N_("Message"),
        N_("enter during an answer"),
        N_("send it after the answer; up edits it, shift+tab any"),
    ),
    (N_("Message"), N_("{message-steer} during an answer"), N_("send it after the next tool result")),
    (
        N_("Message"),
        N_("up and down at the edges"),
        N_("earlier messages of this conversation; {recall} searches those of all"),
    ),
    (
        N_("Message"),
        N_("esc twice"),
        N_("go back: edit an earlier message, or answer it again (when nothing is written)"),
    ),
    (N_("Message"), N_("page up and page down"), N_("scroll the conversation")),
    (N_("Message"), "/", N_("commands and the servers' prompts")),
    (N_("Message"), N_("/theme fjord"), N_("choose at once; also /model, /retry-with, /profile, /servers, /export")),
    (N_("Message"), "@", N_("attach a file or resource; @file:10-40 only lines, tab enters a folder")),
    (N_("Message"), N_("tab after a paste"), N_("unfold a long one; attach the files of pasted paths")),
    (N_("Message"), "ctrl+v", N_("attach the image in the clipboard")),
    (
        N_("Message"),
        "shift+tab",
        N_(
            "the attachments: {attachments-open} views one, {attachments-remove} removes it, {attachments-refresh} "
            "refreshes it"
        ),
    ),
    (N_("Message"), N_("!server/tool key=value"), N_("call a tool directly")),
    (N_("Message"), N_("a space before / or !"), N_("send it as a message")),
    (N_("Conversation"), "{conversation-previous} {conversation-next}", N_("previous and next message or tool")),
    (N_("Conversation"), "{conversation-open}", N_("open the whole result, unfold or fold")),
    (
        N_("Conversation"),
        "{conversation-previous-message} {conversation-next-message}",
        N_("your previous and next message"),
    ),
    (N_("Conversation"), "{conversation-copy}", N_("copy the message")),
    (
        N_("Conversation"),
        "{conversation-copy-part}",
        N_("copy its code, table or result; {conversation-copy-values} the table as tab-separated values"),
    ),
    (N_("Conversation"), "{conversation-edit}", N_("go back to your message and edit it")),
    (
        N_("Conversation"),
        "{conversation-background}",
        N_("move the running call to the background; its result comes later"),
    ),
    (N_("Conversation"), "{conversation-page}", N_("open the interactive page of the call in the browser")),
    (N_("Conversation"), "end", N_("back to the newest line")),
    (N_("Conversation"), "esc", N_("back to the message")),
    (N_("Find"), N_("enter or down"), N_("next match; shift+enter or up: the previous one")),
    (
        N_("Question"),
        N_("{answer}, tab or a click"),
        N_("enter it; until then letters do nothing, and enter or esc denies"),
    ),
    (N_("Question"), N_("esc or d"), N_("deny; r denies with a reason")),
    (N_("Question"), "a", N_("allow once")),
    (N_("Question"), "s", N_("allow for this session")),
    (
        N_("Question"),
        "A",
        N_("always allow; a call by a rule that you choose, until its server or tool changes"),
    ),
    (N_("Question"), "e", N_("edit the arguments; v shows them in full")),
    (N_("Editing"), "ctrl+s", N_("apply; ctrl+e JSON or form, ctrl+g your editor")),
    (N_("Sign-in"), "o", N_("open the browser; p pastes the redirect address")),
    (N_("Sign-in"), "c", N_("switch between browser and code")),
    (N_("Sign-in"), "q", N_("a QR code; y copies the address or the code")),
    (N_("Lists"), "{list-search}", N_("search; letters without a meaning of their own search, too")),
    (N_("Lists"), "tab", N_("the details, to read them")),
    (
        N_("Servers"),
        "{servers-sign-in}",
        N_("sign in; {servers-sign-out} twice signs out; {servers-accounts} shows its accounts"),
    ),
    (
        N_("Servers"),
        "{servers-tools}",
        N_("its tools: enter calls one, {tools-toggle} turns it on or off, {tools-pin} pins it (always sent)"),
    ),
    (
        N_("Servers"),
        "{servers-restart}",
        N_(
            "restart; {servers-stop} stops it for now, {servers-diagnose} diagnoses, {servers-messages} shows its "
            "messages, {servers-changes} changes, {servers-permissions} permissions"
        ),
    ),
    (N_("Servers"), "{servers-registry}", N_("the registry: enter installs or updates a server")),
    (
        N_("Servers"),
        "{servers-remove}",
        N_("twice: remove it; {servers-remove-with-data} also deletes its secrets and sign-ins, {servers-undo} undoes"),
    ),
    (N_("Servers"), "{servers-folders}", N_("folders shared with it")),
    (N_("Tasks"), "{tasks-background}", N_("move the call to the background; its result comes later")),
    (N_("Tasks"), "{tasks-cancel}", N_("twice: cancel a call, end a subscription or forget a task")),
    (
        N_("Context"),
        "{context-pin}",
        N_(
            "always send a server's tools; {context-defer} makes them available by search only, {context-auto} decides "
            "automatically"
        ),
    ),
    (N_("Accounts"), "enter", N_("use this account from now on")),
    (
        N_("Accounts"),
        "{accounts-add}",
        N_("add an account; {accounts-sign-in} signs in again, {accounts-sign-out} twice signs out"),
    ),
    (
        N_("Folders"),
        "{folders-add}",
        N_("add one; {folders-name} names it, {folders-remove} removes or restores it"),
    ),
    (N_("Anywhere"), N_("ctrl+c twice"), N_("quit")),
)


class Alias(NamedTuple):
    """Another name for a command, often the name that similar programs use.

    `action` is the name of the action that the alias runs. If `action` is "", the alias runs nothing, and `hint` is
    a sentence that explains what to use instead. In `hint`, the name of an action in braces stands for that
    action's key, and {settings_file} stands for config.toml.
    """

    action: str = ""
    hint: str = ""


_SETTINGS_HINT = N_(
    "Settings are in {settings_file}; {reload} applies changes. /model, /profile and /theme choose one at once."
)
_LANGUAGE_HINT = N_(
    'To change the language, write language = "en", "zh-CN" or "auto" under [screen] in {settings_file}. It takes '
    "effect at the next start."
)
ALIASES: Mapping[str, Alias] = {
    "allowed-tools": Alias("grants"),
    "branches": Alias("rewind"),
    "budget": Alias("costs"),
    "clear": Alias("new"),
    "commands": Alias("help"),
    "config": Alias(hint=_SETTINGS_HINT),
    "continue": Alias("continue_turn"),
    "conversations": Alias("history"),
    "costs": Alias("costs"),
    "doctor": Alias(
        hint=N_(
            "To diagnose a server, press {servers}, then {servers-diagnose}. For the whole setup, run: mcphost doctor"
        )
    ),
    "edit": Alias("rewind"),
    "exit": Alias("quit"),
    "jobs": Alias("tasks"),
    "keys": Alias("help"),
    "lang": Alias(hint=_LANGUAGE_HINT),
    "language": Alias(hint=_LANGUAGE_HINT),
    "login": Alias("accounts"),
    "logout": Alias("accounts"),
    "mcp": Alias("servers"),
    "memory": Alias("instructions"),
    "models": Alias("model"),
    "permissions": Alias("grants"),
    "profiles": Alias("profile"),
    "prompt-history": Alias("recall"),
    "q": Alias("quit"),
    "reset": Alias("new"),
    "resume": Alias("history"),
    "save": Alias("export"),
    "search": Alias("find"),
    "sessions": Alias("history"),
    "settings": Alias(hint=_SETTINGS_HINT),
    "summarize": Alias("summarize"),
    "themes": Alias("theme"),
    "tools": Alias(
        hint=N_(
            "To list a server's tools, press {servers}, then {servers-tools}; {context} shows which ones the model "
            "gets."
        )
    ),
    "unasked": Alias("auto_approval"),
    "usage": Alias("costs"),
}
"""All other names of commands. A custom command with the same name takes precedence."""


def find_slash_command(word: str) -> Action | None:
    """Return the action whose slash command is *word*, given without the slash; None if there is none."""
    return next((action for action in ACTIONS if action.slash and word == action.slash), None)


def find_alias(word: str) -> Action | None:
    """Return the action that the alias *word* runs, or None if *word* is not an alias or has only a hint."""
    alias = ALIASES.get(word)
    return next((one for one in ACTIONS if one.name == alias.action), None) if alias is not None else None


def aliases_of(action: Action) -> tuple[str, ...]:
    """Return the aliases of an action, without slashes."""
    return tuple(name for name, alias in ALIASES.items() if alias.action == action.name)


class ParsedCommand(NamedTuple):
    """A parsed slash command: the word after the slash, the action that it runs, and a value.

    `action` is None if the word is an alias that has only a hint. `value` is the text after the word, or "" if
    there is none.
    """

    word: str
    action: Action | None
    value: str

    @property
    def takes_value(self) -> bool:
        """Whether a name or path can follow the command."""
        return self.action is not None and self.action.takes_value

    @property
    def is_complete(self) -> bool:
        """Whether the command can run as typed: it has no value, or it has one and accepts a value."""
        return not self.value or self.takes_value


def parse_slash_command(text: str) -> ParsedCommand | None:
    """Parse a line such as `/theme fjord`; return None if it does not begin with a known command or alias."""
    if not text.startswith("/"):
        return None
    word, *rest = text[1:].split(None, 1) if text[1:2].strip() else ("",)
    action = find_slash_command(word) or find_alias(word)
    if action is None and word not in ALIASES:
        return None
    return ParsedCommand(word, action, rest[0].rstrip() if rest else "")
