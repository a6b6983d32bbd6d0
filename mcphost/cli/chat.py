"""Commands `chat` (the default) and `demo`, which run the terminal UI."""

import argparse
import asyncio
import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from importlib import import_module
from threading import Timer
from typing import TYPE_CHECKING, Any, cast

from mcphost.cli import parser as parsing
from mcphost.cli.parser import build_options
from mcphost.errors import McpHostError, StoreError, UsageError, unwrap_error
from mcphost.translation import N_, _, choose_language, set_language

if TYPE_CHECKING:
    from mcphost.cli.parser import Options
    from mcphost.config.schema import HostConfig
    from mcphost.tui.app import McpHostApp
    from mcphost.tui.themes import ThemeOptions

SETTINGS_FILE = "config.toml"
SERVED_DRIVER = "mcphost.tui.web_driver:ServedDriver"
"""The value of TEXTUAL_DRIVER for a chat that a browser shows."""

GREETING = N_("""Everything here is real except the model: demo (not an AI) follows a few simple rules.

Try these, in order:

   what is 2 + 40?
   remember to buy milk
   show my notes
   count slowly to 10     stop it with Escape
   delete all notes       a destructive tool
   order tea              the server sends a form
   open a page            the server sends a link
   ask the model          the server asks the model

You approve each tool call. Your files and settings are not touched, and everything is deleted when you leave.""")


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the `chat` command to *parser*; `demo` has none."""
    if command == "chat":
        parsing.add_model_flag(parser)
        parsing.add_resume_flag(parser)


def run(command: str, args: argparse.Namespace) -> int:
    """Run the terminal UI until the user quits, and return the exit code.

    Raises UsageError if standard input or output is not a terminal, or if a flag has no effect in the demo.
    """
    if not (sys.stdin.isatty() and sys.stdout.isatty()) and os.environ.get("TEXTUAL_DRIVER") != SERVED_DRIVER:
        raise UsageError("The chat needs a terminal.", "Without one use: mcphost run PROMPT, or mcphost pipe.")
    if command == "demo":
        with temporary_directories():
            return _chat(args, demo=True)
    return _chat(args, demo=False)


def _refuse_flags_of_chat(options: "Options") -> None:
    """Raise UsageError if *options*, those of the demo, choose servers, a model or a configuration."""
    chosen = {
        "--mcp-config": options.mcp_config,
        "--config-dir": options.config_dir,
        "--profile": options.profile,
        "--era": options.era,
        "--api-base": options.api_base,
        "--api-key-env": options.api_key_env,
    }
    for flag, value in chosen.items():
        if value:
            raise UsageError(
                f"{flag} has no effect in the demo, which has its own server and model.",
                'Leave it out, or start the chat without "demo".',
            )


def _chat(args: argparse.Namespace, *, demo: bool) -> int:
    from mcphost import paths

    options = build_options(args, one_shot=False, demo=demo)
    if demo:
        _refuse_flags_of_chat(options)
    if options.resume is not None and not os.path.exists(paths.database_file()):
        from mcphost.cli.printing import conversation_not_found

        raise conversation_not_found(options.resume)  # with a database, the host looks up the id once it is open
    # Importing creates only long-lived objects; collecting garbage meanwhile would take 10% of the start-up time.
    gc.disable()
    ended: list[str] = []
    try:
        asyncio.run(_run_app(options, ended))
    finally:
        if ended and not demo and not options.quiet:
            _print_note(_("to continue this conversation: mcphost --resume {id}").format(id=ended[0][:12]))
    return 0


def _print_note(text: str) -> None:
    with suppress(OSError):  # the terminal itself may be gone
        sys.stderr.write(f"mcphost: {text}\n")
        sys.stderr.flush()


async def _run_app(options: "Options", conversation_ids: list[str]) -> None:
    """Show an empty conversation immediately, then import and open the Host in the background.

    When the UI ends, the id of the open conversation is appended to *conversation_ids* if it can be resumed.
    """
    from mcphost.tui.app import McpHostApp
    from mcphost.tui.idle_garbage_collection import collect_garbage_in_pauses
    from mcphost.tui.key_table import build_key_table, read_key_settings

    # Until logging is set up, warnings would be written over the screen.
    logging.getLogger().addHandler(logging.NullHandler())
    settings = _read_screen_settings(options)
    set_language(choose_language(options.lang or _get_screen_setting(settings, "language"), os.environ))
    keys, _faults = build_key_table(read_key_settings(settings.get("keys")))
    app = McpHostApp(
        theme=_choose_theme(options, settings),
        keys=keys,
        reader=wants_reader(options, settings),
        greeting=_(GREETING) if options.demo else "",
        demo=options.demo,
    )
    user_left = asyncio.Event()
    failures: list[Exception] = []
    waiting = Timer(1.0, _print_note, [_("waiting up to five seconds for servers to stop")])
    _install_signal_handlers(app)
    try:
        # Not an anyio task group: importing anyio would take 10% of the time to the first frame.
        async with asyncio.TaskGroup() as tasks:
            opening = tasks.create_task(_run_host(options, app, user_left, failures, conversation_ids), name="host")
            collecting = tasks.create_task(collect_garbage_in_pauses(lambda: app.last_input_at), name="garbage")
            await app.run_async()
            collecting.cancel()
            waiting.start()
            user_left.set()
            if not app.has_host:
                opening.cancel()
    finally:
        waiting.cancel()
    if app.crash_error is not None:
        raise app.crash_error
    if failures:
        raise failures[0]


async def _run_host(
    options: "Options",
    app: "McpHostApp",
    user_left: asyncio.Event,
    failures: list[Exception],
    conversation_ids: list[str],
) -> None:
    """Open the Host after the first frame is drawn, and close it when the user quits.

    *user_left* is set when the user quits. If the conversation that is open at that time can be resumed, its id
    is appended to *conversation_ids*. An error ends the app and is appended to *failures*.
    """
    try:
        await app.first_frame_drawn.wait()
        # In a thread: the import takes as long as the first frame, and the user may already be typing.
        await asyncio.to_thread(_import_host, options)
        from mcphost.cli.build_host import open_host
        from mcphost.tui.frontend import TuiFrontend

        frontend = TuiFrontend()
        async with open_host(
            options, frontend, open_url=_open_url, adjust_config=partial(check_screen_settings, options)
        ) as host:
            if options.resume is not None:
                from mcphost.cli.command_runner import resume_conversation

                await resume_conversation(host, options.resume)
            app.attach(host, frontend)
            await user_left.wait()
            if host.conversation.can_be_resumed:
                conversation_ids.append(host.conversation.id)
    except Exception as error:  # noqa: BLE001 - raised again after the app has ended
        failures.append(error)
        app.request_quit()


def _import_host(options: "Options") -> None:
    from mcphost import log

    # Free the garbage of the first frame, so that the host reuses its memory.
    _collect_garbage()
    log.configure_logging(options.log_level)
    for name in (
        "mcphost.cli.build_host",
        "mcphost.tui.frontend",
        "mcphost.tui.transcript.presenter",
    ):
        import_module(name)
    _collect_garbage()
    gc.enable()


def _choose_theme(options: "Options", settings: Mapping[str, Any]) -> "ThemeOptions":
    """Return the theme settings that are needed to draw the first frame."""
    from mcphost import paths
    from mcphost.tui.themes import RememberedTheme, ThemeOptions

    if options.demo:
        return ThemeOptions()
    theme = settings.get("theme", "")
    configured, remembered = theme if isinstance(theme, str) else "", RememberedTheme(paths.state_dir())
    folder = paths.config_dir(options.config_dir) / "themes"
    return ThemeOptions(remembered.load(configured), configured, folder, remembered)


def wants_reader(options: "Options", settings: Mapping[str, Any]) -> bool:
    """Return whether screen reader mode is enabled by `--screen-reader` or in *settings*, the parsed config.toml."""
    return options.screen_reader or _get_screen_setting(settings, "reader") is True


def _get_screen_setting(settings: Mapping[str, Any], name: str) -> object:
    """Return the value of *name* in the `[screen]` table of the parsed config.toml, or None if it is missing."""
    screen = settings.get("screen")
    return cast("dict[str, Any]", screen).get(name) if isinstance(screen, dict) else None


def _read_screen_settings(options: "Options") -> dict[str, Any]:
    """Return the parsed config.toml for drawing the first frame; {} if it cannot be read, or in the demo."""
    from mcphost import paths

    try:
        text = (paths.config_dir(options.config_dir) / SETTINGS_FILE).read_text("utf-8")
        import tomllib

        return {} if options.demo else tomllib.loads(text)
    except (OSError, ValueError, RecursionError):  # opening the host reports the problem
        return {}


def check_screen_settings(options: "Options", config: "HostConfig") -> "HostConfig":
    """Return *config* with any errors in the theme and key bindings added to its list of problems."""
    from pathlib import Path

    from mcphost.config.toml_files import find_entry_line
    from mcphost.serialization import replace
    from mcphost.tui.key_table import build_key_table, has_kitty_keys

    config = check_theme(options, config)
    _keys, faults = build_key_table({one.action: one.keys for one in config.keys}, kitty=has_kitty_keys(os.environ))
    if not faults:
        return config
    text = ""
    with suppress(OSError, ValueError):
        text = Path(config.settings_file).read_text("utf-8")
    places = [(one, find_entry_line(text, "keys", one.entry)) for one in faults]
    problems = [f"{config.settings_file}{f', line {line}' if line else ''}: {one.text}" for one, line in places]
    return replace(config, problems=(*config.problems, *problems))


def check_theme(options: "Options", config: "HostConfig") -> "HostConfig":
    """Return *config*, with a problem added to its list if the configured theme does not exist."""
    from mcphost import paths
    from mcphost.serialization import replace
    from mcphost.tui import themes

    folder = paths.config_dir(options.config_dir)
    names = (themes.AUTO, *themes.names(folder / "themes"))
    if not config.theme or config.theme in names:
        return config
    file = folder / SETTINGS_FILE
    problem = f'{file}: "theme" is {config.theme!r}, which is not one of: {", ".join(names)}; {themes.DEFAULT} is used.'
    return replace(config, problems=(*config.problems, problem))


async def _open_url(url: str) -> bool:
    from mcphost.auth.browser import open_url

    return await open_url(url)


def _install_signal_handlers(app: "McpHostApp") -> None:
    """Quit on SIGTERM, SIGHUP or SIGINT, so that the conversation is saved and the servers stop."""

    def request_quit(number: int) -> None:
        # While an external editor runs, Ctrl+C is meant for the editor.
        if number != signal.SIGINT or not app.is_suspended:
            app.request_quit()

    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, request_quit, number)


def _collect_garbage() -> None:
    """Collect garbage, then exclude all remaining objects from later collections."""
    gc.collect()
    gc.freeze()


@contextmanager
def temporary_directories() -> Generator[None]:
    """Make mcphost write only to a temporary folder, which is deleted on exit.

    After a crash, the subfolder that contains the log is kept. Raises StoreError if the folder cannot be created.
    """
    import shutil
    import tempfile

    try:
        folder = tempfile.mkdtemp(prefix="mcphost-demo-")
    except OSError as error:
        raise StoreError(f"The demo's temporary folder cannot be created: {error}.", "Check TMPDIR.") from error
    removed = folder
    places = {kind: os.path.join(folder, kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    try:
        for kind, place in places.items():
            os.environ[f"MCPHOST_{kind}_DIR"] = place
        yield
    except Exception as error:
        if not isinstance(unwrap_error(error), McpHostError):
            removed = ""
            for kind in ("CONFIG", "DATA", "CACHE"):
                shutil.rmtree(places[kind], ignore_errors=True)
        raise
    finally:
        if removed:
            shutil.rmtree(removed, ignore_errors=True)
