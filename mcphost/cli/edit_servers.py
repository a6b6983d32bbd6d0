"""Commands `servers add`, `edit`, `remove`, `enable`, `disable` and `restart`."""

import argparse
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from shlex import join, quote
from typing import TYPE_CHECKING, Any, cast

from mcphost.cli.parser import build_options
from mcphost.cli.printing import print_error, print_note, print_text
from mcphost.config.description_lines import translate_line
from mcphost.errors import ConfigError, ConsentDenied, McpHostError, UsageError, join_sentences
from mcphost.serialization import as_object
from mcphost.translation import N_, _, translate_sentence

if TYPE_CHECKING:
    from mcphost.cli.parser import CommandParser, Options
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.schema import HostConfig, ServerConfig, ServerInput
    from mcphost.config.server_files import ServerEdit
    from mcphost.host.servers.server_file_editor import SavedServer, ServerFileEditor

_MAX_PASTED_BYTES = 400_000
SAVED = {
    "added": N_("Added {name} in {file}"),
    "changed": N_("Changed {name} in {file}"),
    "imported": N_("Imported {name} in {file}"),
    "installed": N_("Installed {name} in {file}"),
    "updated": N_("Updated {name} in {file}"),
}
"""Messages about saved changes, keyed by what was done."""
_RELOAD_NOTE = N_("A running chat reports the change; /reload there applies it.")
_ADD_HINT = "mcphost servers add NAME -- COMMAND ARGUMENT…, or NAME URL, or --json JSON"


def add_arguments(action: str, parser: "CommandParser") -> None:
    """Add the arguments of *action*, such as `add` in `servers add`, to *parser*."""
    from mcphost.cli.server_arguments import add_entry_scope_flag, add_scope_flag

    if action in ("add", "edit"):
        parser.usage = N_("%(prog)s NAME [flags] [-- COMMAND ARGUMENT… | URL]")
        parser.add_argument("name", nargs="?", metavar="NAME", help="name of the server")
        parser.add_argument("target", nargs="*", metavar="COMMAND|URL", help="after --: the program and its arguments")
        _add_entry_flags(parser)
        if action == "add":
            parser.add_argument("--json", metavar="JSON|-", dest="pasted", help="an entry or a file, as in a README")
            parser.add_argument("--replace", action="store_true", help="replace a server of this name")
            add_scope_flag(parser, "-s")
        else:
            parser.add_argument(
                "--unset-env", action="append", default=[], metavar="NAME", help="remove a variable of the program"
            )
            parser.add_argument("--unset-header", action="append", default=[], metavar="NAME", help="remove a header")
            add_entry_scope_flag(parser, action)
    else:
        add_entry_scope_flag(parser, action)
        parser.add_argument("name", metavar="NAME", help="name of the server")
        if action == "remove":
            parser.add_argument(
                "--forget", action="store_true",
                help="also delete its secrets, its sign-ins and its unpacked bundle, unless another server uses them",
            )  # fmt: skip
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")


def _add_entry_flags(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-e", "--env", action="append", default=[], metavar="NAME=VALUE",
        help="a variable of the program; NAME alone asks for the value; secrets go to the keyring",
    )  # fmt: skip
    parser.add_argument(
        "-H", "--header", action="append", default=[], metavar="NAME: VALUE", help="a header to send with requests"
    )
    parser.add_argument(
        "--cwd", type=_real_path, metavar="DIR",
        help="working directory of the program (default: the folder of the configuration file)",
    )  # fmt: skip
    parser.add_argument(
        "--watch", action="append", metavar="PATTERN",
        help="restart the program when such a file changes ('*.py'); repeatable; edit replaces the former patterns",
    )  # fmt: skip
    parser.add_argument(
        "-t", "--transport", choices=("auto", "http", "sse"), default="auto", help="the transport of a URL"
    )


def _real_path(text: str) -> str:
    from mcphost.config.typed_servers import resolve_folder

    return resolve_folder(text)


def split_command_line(action: str, arguments: list[str]) -> tuple[list[str], list[str]]:
    """Split the arguments of `servers add` or `edit` into mcphost's own and, after `--`, a server's command line.

    Usually, the command line follows the first `--`, as in `NAME -- PROGRAM ARGUMENT`. If the word immediately after
    the first `--` begins with a dash, it is the server's name, because a program's name cannot begin with a dash. The
    command line then follows the name, as in `-- -NAME -- PROGRAM` or, without the second `--`, `-- -NAME PROGRAM`.
    For any other *action*, all arguments are mcphost's own.
    """
    if "--" not in arguments or action not in ("add", "edit"):
        return arguments, []
    at = arguments.index("--")
    if arguments[at + 1 : at + 2] and arguments[at + 1].startswith("-"):
        following = arguments[at + 2 :]
        return arguments[: at + 2], following[following[:1] == ["--"] :]
    return arguments[:at], arguments[at + 1 :]


def run(command: str, args: argparse.Namespace) -> int:
    """Run the `servers` action `add`, `edit`, `remove`, `enable`, `disable` or `restart`; return the exit code."""
    from mcphost.cli.command_runner import run_command

    options = build_options(args)
    if options.mcp_config:
        raise UsageError("--mcp-config names files that mcphost only reads.", "Leave it out, or edit the file.")
    target = _find_target(getattr(args, "target", []), args.command_line)

    async def work() -> int:
        match args.action:
            case "add":
                return await _add(options, args, target)
            case "edit":
                return await _edit(options, args, target)
            case "remove":
                return await _remove(options, args, yes=args.yes, forgets=args.forget)
            case "restart":
                return await _restart(options, args)
            case _:
                return await _set_disabled(options, args, disabled=args.action == "disable")

    return run_command(options, work)


def _find_target(before: list[str], command_line: list[str]) -> list[str]:
    """Return the URL, or the program and its arguments: the words *before* `--`, or the *command_line* after it.

    Raises UsageError if there are words both before and after `--`. Also raises UsageError if the last word in *before*
    begins with a dash, because a program's name cannot begin with a dash.
    """
    if before and before[-1].startswith("-"):
        raise UsageError(f"A program cannot begin with a dash: {before[-1]}.", "Write it first, directly after --.")
    if before and command_line:
        raise UsageError(
            "There is a word between the name and --."
            if len(before) == 1
            else f"There are {len(before)} words between the name and --.",
            "Write the program and all of its arguments after --, or a URL without --.",
        )
    return before or command_line


@asynccontextmanager
async def open_server_editor(options: "Options") -> "AsyncGenerator[tuple[ServerFileEditor, HostConfig]]":
    """Open a ServerFileEditor, which changes server entries, and load the configuration.

    Raises ConfigError if the configuration cannot be read.
    """
    from mcphost import paths
    from mcphost.cli.build_host import load_configuration, open_grants_and_audit
    from mcphost.cli.secret_storage import CommandSecretEntries
    from mcphost.host.servers.server_file_editor import ServerFileEditor

    async with open_grants_and_audit() as (grants, audit):
        config = await load_configuration(options, grants)
        secrets = CommandSecretEntries(options, config.secret_store)
        config_dir = paths.config_dir(options.config_dir)
        editor = ServerFileEditor(config_dir, Path.cwd(), grants, audit, secrets)
        editor.prepare_secrets = secrets.prepare
        yield editor, config


async def _restart(options: "Options", args: argparse.Namespace) -> int:
    import anyio.to_thread

    from mcphost import paths
    from mcphost.cli.choose_entry import choose_entry, require_valid
    from mcphost.config.restart_requests import RestartRequests

    async with open_server_editor(options) as (editor, config):
        server = choose_entry(config, (editor.config_dir, editor.folder), args.name, args.scope)
        require_valid(config, server)
    await anyio.to_thread.run_sync(RestartRequests(paths.state_dir()).add, server.name, server.file)
    if any(one is server for one in config.servers):
        text = _("Every running chat restarts {name} within seconds. Other commands start servers of their own.")
    else:
        text = _("Running chats that use this entry restart {name} within seconds.")
    print_text(text.format(name=args.name))
    return 0


async def _add(options: "Options", args: argparse.Namespace, target: list[str]) -> int:
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.typed_servers import make_entry

    if args.pasted is not None:
        return await _add_pasted(options, args, target)
    if not args.name or not target:
        raise UsageError("What should be added?", _ADD_HINT)
    entry = await _apply_flags(make_entry(target, args.cwd), args, TerminalInput())
    async with open_server_editor(options) as (editor, config):
        entry, notes = _keep_restrictions(editor, config, args, args.name, entry)
        saved = await editor.add(args.name, entry, args.scope, replace=args.replace)
        print_saved(saved, "added")
        await _forget_replaced_secrets(editor, config, saved)
    for note in notes:
        print_note(translate_sentence(note))
    _print_warnings(saved.edit)
    print_text(
        _("It has not been started yet. To see whether it answers: mcphost servers check {name}").format(
            name=quote(args.name)
        )
    )
    return 0


def _keep_restrictions(
    editor: "ServerFileEditor", config: "HostConfig", args: argparse.Namespace, name: str, entry: dict[str, Any]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Return *entry* with the restrictions, such as disabled tools, of the entry that it replaces, and notes on them.

    If no entry is replaced, because `--replace` is missing or the file has no entry with this *name*, *entry* is
    returned unchanged. See `foreign_entries.keep_restrictions`.
    """
    from mcphost.config.foreign_entries import keep_restrictions
    from mcphost.config.server_files import find_entry, scope_file

    file = scope_file(args.scope, editor.config_dir, editor.folder)
    old = find_entry(file, name) if args.replace else None
    return (entry, ()) if old is None else keep_restrictions(name, old, entry, config.sampling.limits)


async def _add_pasted(options: "Options", args: argparse.Namespace, target: list[str]) -> int:
    """Show what each server in pasted JSON would start or connect to, ask for confirmation, and add the servers."""
    from mcphost.cli.servers import summarize_command
    from mcphost.cli.terminal_frontend import Confirmation, TerminalInput, ask_missing_inputs, is_interactive
    from mcphost.config.approval_digest import with_file_digests
    from mcphost.config.approval_text import describe_server, show_foreign_values
    from mcphost.config.foreign_entries import drop_reserved_settings
    from mcphost.config.pasted_servers import check_pasted_server, parse_pasted_servers
    from mcphost.config.server_files import plan_set, scope_file
    from mcphost.host.servers.server_approval import server_warnings

    if target:
        raise UsageError("Pass either a command, a URL or --json.", _ADD_HINT)
    text = args.pasted if args.pasted != "-" else sys.stdin.buffer.read(_MAX_PASTED_BYTES).decode(errors="replace")
    entries = parse_pasted_servers(text, args.name or "")
    if args.name and len(entries) == 1:
        entries = {args.name: next(iter(entries.values()))}
    elif args.name:
        raise UsageError(f"The text has {len(entries)} servers, which keep their names.", "Leave the name out.")
    review, terminal = Confirmation(yes=args.yes, as_json=False), TerminalInput()
    async with open_server_editor(options) as (editor, config):
        summaries: list[str] = []
        seen: dict[str, ServerConfig] = {}
        typed = {text.partition("=")[0].strip() for text in args.env}  # the user's own values stay masked
        for name, entry in entries.items():
            check_pasted_server(name, entry)
            own, notes = drop_reserved_settings(name, entry)
            own, kept_notes = _keep_restrictions(editor, config, args, name, own)
            entries[name] = await _apply_flags(own, args, terminal)
            edit = plan_set(scope_file(args.scope, editor.config_dir, editor.folder), name, entries[name],
                            replace=args.replace)  # fmt: skip
            if edit.server is None:
                continue
            server = seen[name] = with_file_digests(edit.server)
            summaries.append(f"{name} · {summarize_command(server)}")
            pasted = {key: value for key, value in show_foreign_values(server).items() if key[1] not in typed}
            review.show(name, *(f"  {translate_line(line)}" for line in describe_server(server, pasted)))
            review.show(*(f"  {translate_sentence(note)}" for note in (*notes, *kept_notes)))
            for warning in (*server_warnings(server), *_find_warnings(edit)):
                review.show(_("  Warning: {warning}").format(warning=translate_sentence(warning)))
        review.show("", *summaries)
        await review.confirm_with(
            terminal, "Add and approve it?" if len(entries) == 1 else "Add and approve them?", "Nothing was added."
        )
        reader = terminal if is_interactive() and not args.yes else None
        answers: dict[tuple[str, ServerInput], str] = {}
        for name, entry in entries.items():
            saved = await editor.add(name, entry, args.scope, replace=args.replace, seen=seen.get(name))
            print_saved(saved, "added")
            await _forget_replaced_secrets(editor, config, saved)
            _print_warnings(saved.edit)
            if saved.server is not None:
                await ask_missing_inputs(editor, saved.server, reader, answers, _("the pasted text"))
    return 0


async def _edit(options: "Options", args: argparse.Namespace, target: list[str]) -> int:
    """Apply the command-line flags to a server's entry or, if there are none, open the entry in the user's editor."""
    from mcphost.cli.choose_entry import choose_entry
    from mcphost.cli.entry_editor import keep_refused_text, open_in_editor
    from mcphost.cli.terminal_frontend import TerminalInput
    from mcphost.config.typed_servers import make_entry, parse_entry

    if not args.name:
        raise UsageError("Which server?", "mcphost servers edit NAME; names: mcphost servers list")
    async with open_server_editor(options) as (editor, config):
        server = choose_entry(config, (editor.config_dir, editor.folder), args.name, args.scope)
        before = editor.read_entry(server)
        given = target or args.env or args.header or args.unset_env or args.unset_header
        has_flags = bool(given or args.cwd is not None or args.transport != "auto" or _own_settings(args))
        text = "" if has_flags else await open_in_editor(args.name, before)
        with keep_refused_text(text):
            if has_flags:
                kept = {key: value for key, value in before.items() if key not in ("command", "args", "url", "type")}
                entry = _unset({**kept, **make_entry(target, args.cwd)} if target else before, args)
                entry = await _apply_flags(entry, args, TerminalInput())
            else:
                entry = parse_entry(text, args.name)
            if entry == before:
                print_text(_("Nothing was changed."))
                return 0
            is_approved = await editor.is_approved(server) and not _changes_env_file(editor, server, entry)
            saved = await editor.change(server, entry, expected=before, is_approved=is_approved)
        if saved.server is not None and not saved.is_approved and not has_flags:
            saved = await _ask_approval(editor, saved)
        print_saved(saved, "changed")
        await forget_unused_secrets(editor, server)
        _print_warnings(saved.edit)
        print_text(_(_RELOAD_NOTE))
    return 0


async def _forget_replaced_secrets(editor: "ServerFileEditor", config: "HostConfig", saved: "SavedServer") -> None:
    file = str(saved.edit.file.path)
    for server in config.servers:
        if (server.name, server.file) == (saved.edit.name, file):
            await forget_unused_secrets(editor, server)


async def forget_unused_secrets(editor: "ServerFileEditor", before: "ServerConfig", *, is_quiet: bool = False) -> None:
    """Delete the server's secrets that mcphost had moved to the keyring, unless a configuration file still uses them.

    *before* is the server as it was before a saved change. The names of the deleted secrets are printed unless
    *is_quiet* is set.
    """
    from mcphost.cli.secret_storage import print_deleted, print_used_secrets
    from mcphost.host.servers.server_editor import describe_left_secrets

    data = await editor.find_unused_secrets(before)
    try:
        forgotten = await editor.forget(before, data)
        if not is_quiet:
            print_deleted(forgotten)
            print_used_secrets(editor.describe_used(before, data))
    except McpHostError as error:
        print_note(translate_sentence(describe_left_secrets(data, error)))


def _changes_env_file(editor: "ServerFileEditor", server: "ServerConfig", entry: dict[str, Any]) -> bool:
    """Return whether an edit would use an environment file that the user has not seen yet.

    The user has not seen the file if its path or content in *entry*, the edited entry, differs from that in *server*.
    Raises ConfigError if the file cannot be read.
    """
    from mcphost.config.approval_digest import with_file_digests
    from mcphost.config.approval_text import describe_env_path
    from mcphost.config.server_files import find_server_file, plan_set

    file = find_server_file(server, editor.config_dir, editor.folder)
    changed = plan_set(file, server.name, entry, replace=True).server
    if changed is None or describe_env_path(changed) in ("", describe_env_path(server)):
        return False
    with_file_digests(changed)
    return True


async def _ask_approval(editor: "ServerFileEditor", saved: "SavedServer") -> "SavedServer":
    """Show all settings of a saved server, and approve it if the user agrees.

    Returns *saved*, with `is_approved` set if the server was approved.
    """
    from mcphost.cli.servers import show_settings, summarize_command
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.config.approval_digest import server_digest, with_file_digests
    from mcphost.serialization import replace

    review = Confirmation(yes=False, as_json=False)
    if saved.server is None or not review.can_ask:
        return saved
    try:
        server = with_file_digests(saved.server)
        show_settings(review, server)
        review.show(summarize_command(server))
        review.confirm(f"Approve {server.name}?", "Nothing was approved.")
    except ConfigError as error:
        print_error(error)
        return saved
    except ConsentDenied:
        return saved
    if server_digest(saved.server) != server_digest(server):
        return saved  # a file that the approval covers has changed while the question was open
    await editor.approve(server)
    return replace(saved, is_approved=True)


async def _remove(options: "Options", args: argparse.Namespace, *, yes: bool, forgets: bool) -> int:
    from mcphost import paths
    from mcphost.cli.accounts import StoredSignIns
    from mcphost.cli.choose_entry import choose_entry, print_left_entries
    from mcphost.cli.secret_storage import print_deleted, print_used_secrets
    from mcphost.cli.terminal_frontend import Confirmation
    from mcphost.config.entry_scopes import load_other_entries
    from mcphost.config.target_secrets import masked_argv, masked_url
    from mcphost.host.servers.server_data import SecretDeletionError, UnreadableReferencesError

    name: str = args.name
    async with open_server_editor(options) as (editor, config):
        folders = editor.config_dir, editor.folder
        server = choose_entry(config, folders, name, args.scope, must_choose=True)
        others = [other for other in config.servers if other.name != name] + [*load_other_entries(server, *folders)]
        data = editor.find_data(server, others, paths.data_dir() / paths.BUNDLES_FOLDER)
        sign_ins = await StoredSignIns.load(options, config, server, others)
        review = Confirmation(yes=yes, as_json=False)
        target = join(masked_argv(server)) if server.is_stdio else masked_url(server)
        review.show(f"{name} ({server.file})", f"  {target or _('its entry is not valid')}")
        listed = await editor.find_deletable(server, data) if forgets else data
        stored = (*editor.describe_data(listed), *sign_ins.describe())
        for what in stored:
            text = _("  would also delete: {what}") if forgets else _("  kept: {what}")
            review.show(text.format(what=translate_sentence(what)))
        if stored and not forgets:
            review.show(_("  --forget deletes what is kept, too."))
        review.confirm(f"Remove {name}?", "Nothing was removed.")
        if forgets:
            await editor.read_secrets(data)  # nothing is removed if the keyring cannot be used
        saved = await editor.remove(server)
        print_text(_("Removed {name} from {path}").format(name=name, path=saved.edit.file.path))
        print_left_entries(name, folders)
        left: SecretDeletionError | None = None
        deleted: tuple[str, ...] = ()
        if forgets:
            try:
                deleted = await editor.forget(server, data)
            except UnreadableReferencesError as error:
                left = UnreadableReferencesError(
                    error.message,
                    join_sentences(error.hint, f"Then add {name} again with its references, and remove it again."),
                )
            except SecretDeletionError as error:
                left = error
            deleted += tuple(await sign_ins.sign_out())
            print_used_secrets(editor.describe_used(server, listed))
    print_deleted(deleted)
    if left is not None:
        raise left
    return 0


async def _set_disabled(options: "Options", args: argparse.Namespace, *, disabled: bool) -> int:
    from mcphost.cli.choose_entry import choose_entry, require_valid

    name: str = args.name
    async with open_server_editor(options) as (editor, config):
        server = choose_entry(config, (editor.config_dir, editor.folder), name, args.scope)
        require_valid(config, server)
        if server.disabled == disabled:
            text = _("{name} is already disabled.") if disabled else _("{name} is already enabled.")
            print_text(text.format(name=name))
            return 0
        saved = await editor.set_disabled(server, disabled=disabled)
    text = _("Disabled {name} in {file}") if disabled else _("Enabled {name} in {file}")
    print_text(text.format(name=name, file=saved.edit.file.path))
    print_text(_(_RELOAD_NOTE))
    return 0


def _find_warnings(edit: "ServerEdit") -> tuple[str, ...]:
    """Return the warnings of *edit*, and warnings about relative paths that the server will not find."""
    from mcphost.config.relative_paths import find_path_warnings

    return edit.warnings if edit.server is None else (*edit.warnings, *find_path_warnings(edit.server, Path.cwd()))


def _print_warnings(edit: "ServerEdit") -> None:

    for warning in _find_warnings(edit):
        print_note(translate_sentence(warning))


def _unset(entry: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """Apply `--unset-env` and `--unset-header` to a copy of an entry. Raises UsageError for a name not in *entry*."""
    entry = dict(entry)
    for names, key in ((args.unset_env, "env"), (args.unset_header, "headers")):
        for name in names:
            values = cast("dict[str, Any]", entry.get(key) or {})
            found = next(
                (one for one in values if one == name or (key == "headers" and one.lower() == name.lower())), ""
            )
            if not found:
                listed = ", ".join(values)
                raise UsageError(
                    f"{args.name} has no variable {name}." if key == "env" else f"{args.name} has no header {name}.",
                    f"It has: {listed}." if listed else "It has none.",
                )
            entry[key] = {one: value for one, value in values.items() if one != found}
            if not entry[key]:
                del entry[key]
    return entry


async def _apply_flags(entry: dict[str, Any], args: argparse.Namespace, terminal: "TerminalInput") -> dict[str, Any]:
    """Return a copy of an entry with the values given by command-line flags.

    Raises UsageError if a flag cannot be used with this kind of server, for example `--header` with a server that
    has a command.
    """
    from mcphost.cli.server_arguments import read_pairs
    from mcphost.config.typed_servers import TypedSettings

    is_url = "url" in entry
    if args.header and not is_url:
        raise UsageError("--header is for servers with a URL.", "Set a variable instead: --env NAME=VALUE")
    if args.env and is_url:
        raise UsageError("--env is for servers with a command.", "Set a header instead: --header 'NAME: VALUE'")
    if args.watch and is_url:
        raise UsageError("--watch is for servers with a command.", "Leave it out.")
    env = await read_pairs(args.env, "--env", "=", terminal)
    headers = await read_pairs(args.header, "--header", ":", terminal)
    entry = TypedSettings(env=env, headers=headers, cwd=args.cwd).apply(entry)
    if args.transport != "auto":
        if not is_url:
            raise UsageError("--transport is for servers with a URL.", "Leave it out.")
        entry["type"] = args.transport
    if settings := _own_settings(args):
        own = entry.get("mcphost")
        changed = {**as_object(own), **settings}
        if not settings.get("watch", True):
            del changed["watch"]
        entry["mcphost"] = changed
    return entry


def _own_settings(args: argparse.Namespace) -> dict[str, Any]:
    """Return the values of `--era`, `--timeout` and `--watch` as members of the entry's "mcphost" object.

    A flag that was not given is omitted. An empty value of `--watch` becomes an empty list.
    """
    settings: dict[str, Any]
    settings = {name: value for name in ("era", "timeout") if (value := getattr(args, name, None)) is not None}
    if args.watch is not None:
        settings["watch"] = [pattern for pattern in args.watch if pattern]
    timeout = settings.get("timeout")
    return {**settings, "timeout": int(timeout)} if timeout is not None and timeout == int(timeout) else settings


def print_saved(saved: "SavedServer", what: str) -> None:
    """Print a saved change, the secrets that were stored, and the approval, if any.

    *what* says how the server was changed: "added", "changed", "imported", "installed" or "updated".
    """
    from mcphost.config.target_secrets import masked_argv, masked_url

    edit = saved.edit
    print_text(_(SAVED[what]).format(name=edit.name, file=edit.file.path))
    for reference in saved.stored_secrets:
        text = (
            _("  a secret was stored in the secrets file as {reference}")
            if saved.stored_in == "file"
            else _("  a secret was stored in the keyring as {reference}")
        )
        print_text(text.format(reference=reference))
    if saved.is_approved and saved.server is not None:
        server = saved.server
        print_text(
            _("  approved: {command}").format(
                command=join(masked_argv(server)) if server.is_stdio else masked_url(server)
            )
        )
    elif edit.server is not None:
        print_note(_describe_unused(saved).format(name=edit.name, path=edit.file.path, quoted=quote(edit.name)))


def _describe_unused(saved: "SavedServer") -> str:
    """Return why a saved server is not used yet, and what the user can do about it.

    The caller must replace the placeholders {name}, {quoted} (the name, quoted for a shell) and {path} in the text.
    """
    if saved.server is not None:
        return _("{name} is not approved. Read its settings, and approve it: mcphost servers trust {quoted}")
    if saved.edit.file.source != "project":
        return _("{name} is not used yet: another file has a server with this name.")
    return _("{path} is not approved. Read it, then: mcphost servers trust .mcp.json")
