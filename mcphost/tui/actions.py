"""Table of global actions, with their keys, footer labels, command palette entries and slash commands."""

from typing import NamedTuple

from mcphost.translation import N_


class Action(NamedTuple):
    """A global action of the app, and how the user can invoke it.

    - `name`: Textual's name of the action.
    - `keys`: the default keys, separated by commas, or "" if there are none. The user can change them, so look up the
      keys in use in `mcphost.tui.key_table`.
    - `label`: the text in the footer, which shows the action if `is_in_footer` is true.
    - `title` and `help`: the texts in the command palette.
    - `slash`: the slash command, without the slash, or "". Its aliases are in `command_names.ALIASES`.
    - `priority`: whether the keys take precedence over those of the focused widget.
    - `takes_value`: whether a value can follow the slash command, as in `/theme fjord`.
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
