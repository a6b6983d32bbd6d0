"""The keymap: every global action with its keys, footer button, palette entry and slash command."""

from typing import NamedTuple


class Action(NamedTuple):
    """A global action; `name` is the app's action, `slash` its command without the slash."""

    name: str
    keys: str
    key_display: str
    label: str
    title: str
    help: str
    slash: str = ""
    is_in_footer: bool = False
    priority: bool = False


ACTIONS: tuple[Action, ...] = (
    Action("palette", "ctrl+p", "^P", "palette", "Command palette", "Find any action by its name", is_in_footer=True),
    Action("help", "f1", "F1", "help", "Help", "Keys, commands and what the marks mean", "help", is_in_footer=True),
    Action(
        "toggle_servers",
        "f2",
        "F2",
        "servers",
        "Show or hide the server list",
        "Show or hide the list of servers",
        "sidebar",
        is_in_footer=True,
    ),
    Action(
        "servers",
        "f3",
        "F3",
        "inspect",
        "Servers",
        "What each server is and offers, its log; restart one",
        "servers",
        is_in_footer=True,
    ),
    Action(
        "resources",
        "f4",
        "F4",
        "resources",
        "Resources",
        "Browse resources, preview and attach one",
        "resources",
        is_in_footer=True,
    ),
    Action(
        "prompts",
        "f5",
        "F5",
        "prompts",
        "Prompts",
        "Browse prompts, fill one and insert it",
        "prompts",
        is_in_footer=True,
    ),
    Action("history", "f6", "F6", "history", "History", "Open an earlier conversation", "history", is_in_footer=True),
    Action("grants", "f7", "F7", "grants", "What is allowed", "What you allowed for longer; revoke it", "grants"),
    Action(
        "answer",
        "f8",
        "F8",
        "answer",
        "Answer the question that waits",
        "Enter the question that waits for you",
        "answer",
        priority=True,
    ),
    Action(
        "auto_approval",
        "f9",
        "F9",
        "unasked",
        "Let tools run unasked, or end it",
        "Let read-only tools run unasked; again: stop everything",
        "unasked",
        priority=True,
    ),
    Action("audit", "f10", "F10", "audit", "Audit", "What was asked, decided and done; check the record", "audit"),
    Action(
        "accounts",
        "f12",
        "F12",
        "accounts",
        "Accounts",
        "Whose account a server is used with; sign in and out",
        "accounts",
    ),
    Action(
        "folders",
        "ctrl+o",
        "^O",
        "folders",
        "Folders",
        "Folders that servers may be told of; add and take out",
        "folders",
    ),
    Action("stop", "escape", "esc", "stop", "Stop", "Stop the answer and its running tools", "stop", is_in_footer=True),
    Action(
        "continue_turn",
        "ctrl+r",
        "^R",
        "go on",
        "Go on or try again",
        "Go on with an answer that was cut off, or ask again when none came",
        "again",
    ),
    Action("new", "ctrl+n", "^N", "new", "New conversation", "Start afresh; the old one stays in the history", "new"),
    Action(
        "focus_transcript",
        "ctrl+t",
        "^T",
        "read",
        "Read the conversation",
        "Read on: brackets step, enter opens, c copies",
        "read",
    ),
    Action("theme", "ctrl+l", "^L", "theme", "Light or dark", "Change between the dark and the light theme", "theme"),
    Action(
        "copy_last", "ctrl+y", "^Y", "copy", "Copy the last answer", "Copy the last answer to the clipboard", "copy"
    ),
    Action("quit", "ctrl+q", "^Q", "quit", "Quit", "Save and leave", "quit", is_in_footer=True, priority=True),
)

# Keys of one part of the screen, for the help screen: (part, key, effect).
LOCAL_KEYS: tuple[tuple[str, str, str], ...] = (
    ("Message", "enter", "send"),
    ("Message", "shift+enter or ctrl+j", "new line"),
    ("Message", "up and down at the edges", "earlier messages"),
    ("Message", "page up and page down", "scroll the conversation"),
    ("Message", "/", "commands and the servers' prompts"),
    ("Message", "@", "attach a resource"),
    ("Message", "!server/tool key=value", "call a tool by hand, typed on one line"),
    ("Message", "a space before / or !", "send it as a message"),
    ("Conversation", "[ and ]", "previous and next message or tool"),
    ("Conversation", "enter", "open the whole result, unfold or fold"),
    ("Conversation", "c", "copy the message"),
    ("Conversation", "end", "back to the newest line"),
    ("Conversation", "esc", "back to the message"),
    ("Question", "F8, tab or a click", "enter it: before that its letters do nothing, and enter or esc denies"),
    ("Question", "esc or d", "deny; r denies with a reason"),
    ("Question", "a", "allow once"),
    ("Question", "s", "allow for this session"),
    ("Question", "A", "always allow, while server and tool stay what they are"),
    ("Question", "e", "edit the arguments; v shows them whole"),
    ("Editing", "ctrl+s", "apply; ctrl+e JSON or form, ctrl+g your own editor"),
    ("Sign-in", "o", "open the browser; p pastes the address where it ended"),
    ("Sign-in", "c", "a code instead of a browser, and back, where both are offered"),
    ("Sign-in", "q", "a QR code; y copies the address or the code"),
    ("Servers", "s", "sign in; o twice signs out; a shows its accounts"),
    ("Servers", "r", "start again; c shows changes, g the grants"),
    ("Servers", "f", "folders it may be told of"),
    ("Accounts", "enter", "use this account from now on"),
    ("Accounts", "n", "sign in under another name; s signs in anew, o twice signs out"),
    ("Folders", "a", "add one; n names it, x takes it out or puts it back"),
    ("Anywhere", "ctrl+c twice", "quit"),
)


def find_slash_command(word: str) -> Action | None:
    """Return the action with this slash command, or None."""
    return next((action for action in ACTIONS if action.slash == word), None)
