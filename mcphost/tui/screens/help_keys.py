"""Table of the keys that work only in one part of the app, for the help screen."""

from mcphost.translation import N_

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
