"""mcphost [chat] and mcphost demo: the terminal UI."""

import argparse
import gc
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from functools import partial
from threading import Timer
from typing import TYPE_CHECKING

from mcphost.cli import parser as parsing
from mcphost.errors import McpHostError, StoreError, UsageError

if TYPE_CHECKING:
    from mcphost.cli.options import Options
    from mcphost.config.schema import HostConfig
    from mcphost.tui.app import McpHostApp

GC_PAUSE_SECONDS = 2.0
GREETING = """Everything here is real but the model: demo (not an AI) follows a few simple rules.

Try, one after the other:

   what is 2 + 40?
   remember to buy milk        and then   show my notes
   count slowly to 10          and stop it with Escape
   delete all notes            which says that it destroys something
   order tea                   the server asks back, with a form
   open a page                 it sends you to an address
   ask the model               it asks the model something

The first time a tool is wanted you are asked. Nothing of yours is touched, and all of this is gone when you leave."""


def add_arguments(command: str, parser: argparse.ArgumentParser) -> None:
    """The arguments of `chat`; `demo` has none."""
    if command == "chat":
        parsing.add_model(parser)
        parser.add_argument(
            "--resume",
            nargs="?",
            const="",
            metavar="ID",
            default=argparse.SUPPRESS,
            help="continue that conversation, or the latest one",
        )


def run(command: str, given: argparse.Namespace) -> int:
    """Show the screen until the user leaves."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("The chat needs a terminal.", "Without one use: mcphost run PROMPT, or mcphost pipe.")
    if command == "demo":
        with temporary_places():
            return _chat(given, demo=True)
    return _chat(given, demo=False)


def _chat(given: argparse.Namespace, *, demo: bool) -> int:
    # Imports make only long-lived objects; collecting among them costs a tenth of the time to the first frame.
    gc.disable()
    import anyio

    from mcphost import log
    from mcphost.cli.running import options_of

    options = options_of(given, one_shot=False, demo=demo)
    log.set_up(options.log_level)
    ended: list[str] = []
    try:
        anyio.run(_show, options, ended)
    finally:
        if ended and not demo and not options.quiet:
            _say(f"to continue this conversation: mcphost --resume {ended[0][:12]}")
    return 0


def _say(text: str) -> None:
    with suppress(OSError):  # the terminal may be what was lost
        sys.stderr.write(f"mcphost: {text}\n")
        sys.stderr.flush()


async def _show(options: "Options", ended: list[str]) -> None:
    import anyio

    from mcphost.cli.compose import open_host
    from mcphost.cli.running import resume
    from mcphost.tui.app import McpHostApp
    from mcphost.tui.front import TuiFront

    front = TuiFront()
    apps: list[McpHostApp] = []
    async with anyio.create_task_group() as tasks:
        # Around the host: a second signal must not cut the closing of servers short.
        tasks.start_soon(_leave_on_signals, apps)
        waiting = Timer(1.0, _say, ["waiting for servers to end, five seconds at most"])
        try:
            async with open_host(options, front, open_url=_open_url, only=partial(with_known_theme, options)) as host:
                if options.resume is not None:
                    await resume(host, options.resume)
                app = McpHostApp(
                    host, front, theme=host.config.theme, greeting=GREETING if options.demo else "", demo=options.demo
                )
                apps.append(app)
                front.bind(app)
                tasks.start_soon(_collect_again)
                await app.run_async()
                waiting.start()
                if host.conversation_id:
                    ended.append(host.conversation_id)
                if app.crashed is not None:
                    raise app.crashed
        finally:
            waiting.cancel()
        tasks.cancel_scope.cancel()


def with_known_theme(options: "Options", config: "HostConfig") -> "HostConfig":
    """The same with a problem more when there is no theme of the configured name."""
    from mcphost import paths
    from mcphost.config.load import SETTINGS_FILE
    from mcphost.data import replace
    from mcphost.tui import themes

    names = themes.names()
    if not config.theme or config.theme in names:
        return config
    file = paths.config_dir(options.config_dir) / SETTINGS_FILE
    problem = f'{file}: "theme" is {config.theme!r}, which is none of: {", ".join(names)}; {themes.DEFAULT} is used.'
    return replace(config, problems=(*config.problems, problem))


async def _open_url(url: str) -> bool:
    from mcphost.auth.browser import open_url

    return await open_url(url)


async def _leave_on_signals(apps: "list[McpHostApp]") -> None:
    """A request to end, or a lost terminal, ends like quit: terminal restored, conversation saved, servers closed."""
    import anyio

    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGHUP, signal.SIGINT) as signals:
        async for number in signals:
            for app in apps:
                # In the user's editor ctrl+c is the editor's.
                if number != signal.SIGINT or not app.is_away:
                    app.request_quit()


async def _collect_again() -> None:
    import anyio

    await anyio.sleep(GC_PAUSE_SECONDS)
    gc.freeze()
    gc.enable()


@contextmanager
def temporary_places() -> Generator[None]:
    """All places mcphost writes to are new, temporary folders, removed at the end; a crash leaves the log's."""
    import shutil
    import tempfile

    from mcphost.cli.failures import innermost

    try:
        folder = tempfile.mkdtemp(prefix="mcphost-demo-")
    except OSError as error:
        raise StoreError(f"The demo's temporary folder cannot be made: {error}.", "Check TMPDIR.") from error
    gone = folder
    places = {kind: os.path.join(folder, kind.lower()) for kind in ("CONFIG", "DATA", "STATE", "CACHE")}
    try:
        for kind, place in places.items():
            os.environ[f"MCPHOST_{kind}_DIR"] = place
        yield
    except Exception as error:
        if not isinstance(innermost(error), McpHostError):
            gone = ""
            for kind in ("CONFIG", "DATA", "CACHE"):
                shutil.rmtree(places[kind], ignore_errors=True)
        raise
    finally:
        if gone:
            shutil.rmtree(gone, ignore_errors=True)
