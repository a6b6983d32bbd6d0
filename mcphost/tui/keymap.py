"""The keymap: all global actions with their keys, footer labels, command palette entries and slash commands."""

from typing import NamedTuple


class Action(NamedTuple):
    """A global action of the app, and how the user can invoke it.

    `name` is Textual's action name, `keys` its key binding and `key_display` the short form of the binding. `label` is
    shown in the footer, `title` and `help` in the command palette. `slash` and `aliases` are slash commands, without
    the slash.
    """

    name: str
    keys: str
    key_display: str
    label: str
    title: str
    help: str
    slash: str = ""
    is_in_footer: bool = False
    priority: bool = False
    aliases: tuple[str, ...] = ()


ACTIONS: tuple[Action, ...] = (
    Action("palette", "ctrl+p", "^P", "palette", "Command palette", "Search all actions", is_in_footer=True),
    Action("help", "f1", "F1", "help", "Help", "Show keys, commands and symbols", "help", is_in_footer=True),
    Action(
        "toggle_servers",
        "f2",
        "F2",
        "sidebar",
        "Show or hide the sidebar",
        "Show or hide the list of servers",
        "sidebar",
        is_in_footer=True,
    ),
    Action(
        "servers",
        "f3",
        "F3",
        "servers",
        "Servers",
        "Show status, tools and logs; restart a server",
        "servers",
        is_in_footer=True,
    ),
    Action(
        "resources",
        "f4",
        "F4",
        "resources",
        "Resources",
        "Browse, preview and attach resources",
        "resources",
        is_in_footer=True,
    ),
    Action(
        "prompts",
        "f5",
        "F5",
        "prompts",
        "Prompts",
        "Browse prompts; fill one in and insert it",
        "prompts",
        is_in_footer=True,
    ),
    Action("history", "f6", "F6", "history", "History", "Open an earlier conversation", "history", is_in_footer=True),
    Action("grants", "f7", "F7", "grants", "Permissions", "Show and revoke permissions", "grants"),
    Action(
        "answer",
        "f8",
        "F8",
        "answer",
        "Answer the waiting question",
        "Go to the question that waits for you",
        "answer",
        priority=True,
    ),
    Action(
        "auto_approval",
        "f9",
        "F9",
        "auto-approve",
        "Auto-approve",
        "Auto-approve read-only tools; press again to stop everything",
        "auto-approve",
        priority=True,
        aliases=("unasked",),
    ),
    Action("audit", "f10", "F10", "audit", "Audit log", "Show the audit log and verify it", "audit"),
    Action(
        "accounts",
        "f12",
        "F12",
        "accounts",
        "Accounts",
        "Choose accounts; sign in and out",
        "accounts",
    ),
    Action(
        "folders",
        "ctrl+o",
        "^O",
        "folders",
        "Shared folders",
        "Choose the folders whose paths servers may get",
        "folders",
    ),
    Action("stop", "escape", "esc", "stop", "Stop", "Stop the answer and its running tools", "stop", is_in_footer=True),
    Action(
        "continue_turn",
        "ctrl+r",
        "^R",
        "continue",
        "Continue or retry",
        "Continue an answer that was cut off, or ask again",
        "again",
    ),
    Action(
        "new",
        "ctrl+n",
        "^N",
        "new",
        "New conversation",
        "Start a new conversation; the current one stays in the history",
        "new",
    ),
    Action(
        "rewind",
        "",
        "/rewind",
        "go back",
        "Go back and edit a message",
        "Edit an earlier message, answer it again, fork there, or open another branch",
        "rewind",
        aliases=("edit", "branches"),
    ),
    Action(
        "retry",
        "",
        "/retry",
        "answer again",
        "Answer the last message again",
        "Ask the selected model again; the first answer stays stored",
        "retry",
    ),
    Action(
        "fork",
        "",
        "/fork",
        "fork",
        "Fork the conversation",
        "Go on in a copy; the original stays in the history",
        "fork",
    ),
    Action(
        "summarize",
        "",
        "/compact",
        "summarize",
        "Summarize earlier messages",
        "The model gets a summary of all but the last messages; you read and edit it first",
        "compact",
    ),
    Action(
        "summary",
        "",
        "/summary",
        "summary",
        "Show the summary",
        "Show each sentence with the messages it stands for",
        "summary",
    ),
    Action(
        "undo_summary",
        "",
        "/undo-summary",
        "undo summary",
        "Undo the summary",
        "The model gets the messages themselves again",
        "undo-summary",
    ),
    Action(
        "focus_transcript",
        "ctrl+t",
        "^T",
        "read",
        "Read the conversation",
        "Move with [ and ], open with enter, copy with c",
        "read",
    ),
    Action(
        "find",
        "ctrl+f",
        "^F",
        "find",
        "Find in the conversation",
        "Find text in messages, reasoning and results, also in folded ones",
        "find",
    ),
    Action(
        "model",
        "ctrl+b",
        "^B",
        "model",
        "Choose a model",
        "Switch to another model, also in the middle of a conversation",
        "model",
    ),
    Action(
        "setup",
        "",
        "/setup",
        "set up",
        "Set up models and servers",
        "Search this machine for keys, local models and servers of other hosts",
        "setup",
    ),
    Action(
        "registry",
        "",
        "/registry",
        "registry",
        "Find servers in the registry",
        "Search the registry; install or update a server",
        "registry",
    ),
    Action(
        "profile",
        "",
        "/profile",
        "profile",
        "Choose a profile",
        "Use another profile of config.toml: model, system prompt and servers",
        "profile",
    ),
    Action(
        "instructions",
        "",
        "/instructions",
        "instructions",
        "Instructions",
        "Show which AGENTS.md files the model follows",
        "instructions",
    ),
    Action(
        "reload",
        "",
        "/reload",
        "reload",
        "Reload the configuration",
        "Show what changed in the configuration files, and apply it",
        "reload",
    ),
    Action(
        "attach_result",
        "",
        "/attach",
        "attach",
        "Attach a tool's result",
        "Add the result of the latest call that you made by hand to your message",
        "attach",
    ),
    Action("theme", "ctrl+l", "^L", "theme", "Switch theme", "Switch between the dark and light themes", "theme"),
    Action(
        "copy_last", "ctrl+y", "^Y", "copy", "Copy the last answer", "Copy the last answer to the clipboard", "copy"
    ),
    Action("quit", "ctrl+q", "^Q", "quit", "Quit", "Save and quit", "quit", is_in_footer=True, priority=True),
)

# Keys that work only in one part of the app, for the help screen: (part, key, effect).
LOCAL_KEYS: tuple[tuple[str, str, str], ...] = (
    ("Message", "enter", "send"),
    ("Message", "shift+enter or ctrl+j", "new line"),
    ("Message", "enter during an answer", "send it after the answer; up takes it back"),
    ("Message", "ctrl+s during an answer", "send it after the next tool result"),
    ("Message", "up and down at the edges", "earlier messages"),
    ("Message", "page up and page down", "scroll the conversation"),
    ("Message", "/", "commands and the servers' prompts"),
    ("Message", "@", "attach a file or resource; @file:10-40 only lines, tab enters a folder"),
    ("Message", "!server/tool key=value", "call a tool directly"),
    ("Message", "a space before / or !", "send it as a message"),
    ("Conversation", "[ and ]", "previous and next message or tool"),
    ("Conversation", "enter", "open the whole result, unfold or fold"),
    ("Conversation", "{ and }", "previous and next message of yours"),
    ("Conversation", "c", "copy the message"),
    ("Conversation", "y", "copy its code, table or result; Y the table as tab-separated values"),
    ("Conversation", "e", "go back to your message and edit it"),
    ("Conversation", "end", "back to the newest line"),
    ("Conversation", "esc", "back to the message"),
    ("Find", "enter or down", "next match; shift+enter or up: the previous one"),
    ("Question", "F8, tab or a click", "enter it; until then letters do nothing, and enter or esc denies"),
    ("Question", "esc or d", "deny; r denies with a reason"),
    ("Question", "a", "allow once"),
    ("Question", "s", "allow for this session"),
    ("Question", "A", "always allow, until the server or tool changes"),
    ("Question", "e", "edit the arguments; v shows them in full"),
    ("Editing", "ctrl+s", "apply; ctrl+e JSON or form, ctrl+g your editor"),
    ("Sign-in", "o", "open the browser; p pastes the redirect address"),
    ("Sign-in", "c", "switch between browser and code"),
    ("Sign-in", "q", "a QR code; y copies the address or the code"),
    ("Servers", "s", "sign in; o twice signs out; a shows its accounts"),
    ("Servers", "t", "its tools: enter calls one, space turns it on or off"),
    ("Servers", "r", "restart; i diagnoses, c shows changes, g permissions"),
    ("Servers", "b", "the registry: enter installs or updates a server"),
    ("Servers", "f", "folders shared with it"),
    ("Accounts", "enter", "use this account from now on"),
    ("Accounts", "n", "add an account; s signs in again, o twice signs out"),
    ("Folders", "a", "add one; n names it, x removes or restores it"),
    ("Anywhere", "ctrl+c twice", "quit"),
)


def find_slash_command(word: str) -> Action | None:
    """Return the action with this slash command or alias, given without the slash, or None if there is none."""
    return next((action for action in ACTIONS if word in (action.slash, *action.aliases)), None)
