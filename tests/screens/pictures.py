"""Pictures of the main screens: `python -m tests.screens.pictures FOLDER` writes SVG, and PNG where rsvg-convert is."""

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from mcphost.host import events
from mcphost.host.forms import Field, Option
from mcphost.host.questions import (
    ApproveTool,
    ContinueTurn,
    FillForm,
    Question,
    RetryCall,
    ReviewReply,
    ReviewSampling,
    ShareRoots,
    SignIn,
    TrustServer,
    VisitUrl,
)
from mcphost.protocol.asks import Root
from mcphost.protocol.tools import ToolAnnotations
from mcphost.tui.app import McpHostApp
from mcphost.tui.front import TuiFront
from tests.screens.fake_host import FakeHost

ANSWER = """There are **14**, in three modules. I will group them by module first:

| module | count | oldest |
|---|---:|---|
| `auth/token.py` | 6 | 2023-04-02 |
| `store/database.py` | 5 | 2024-11-19 |
| 中文模块.py | 3 | 2025-01-07 |

1. Read each one and its *surroundings*.
2. Open an issue per module, see <https://example.com/guide>.
   - with the line
   - and who wrote it

```python
def todo(path: Path) -> Iterator[str]:
    # every line that says so
    yield from (line for line in path.open() if "TODO" in line)
```

> A `Vec<T>` and a <div> stay what they are, [/] too.
"""


async def turn(host: FakeHost, number: int, text: str) -> str:
    """A conversation that shows every kind of block."""
    host.put(events.ThinkingDelta(number, "The user wants all TODOs. First I search, then I group them."))
    host.say(number, "I will search first.\n")
    host.put(events.ToolProposed("a", "files", "search_files", {"pattern": "TODO", "path": "./src"}))
    host.put(events.ToolStarted("a", "files", "search_files", {"pattern": "TODO", "path": "./src"}, "session"))
    host.put(
        events.ToolFinished(
            "a",
            "files",
            "search_files",
            "ok",
            "\n".join(f"src/auth/token.py:{n * 7}: TODO say why" for n in range(1, 15)),
            0.1,
        )
    )
    host.say(number, ANSWER)
    body = "The TODO says: rotate the key.\nIt is from 2023." + "\nA line of the issue's text." * 30
    call = {"repo": "acme/api", "title": "Remove TODO in auth/token.py:41", "body": body, "labels": ["debt", "auth"]}
    host.put(events.ToolProposed("b", "github", "create_issue", call))
    host.put(events.ToolStarted("b", "github", "create_issue", call, "once"))
    host.put(events.ToolProgress("b", "github", 3, 14, "issue 3 of 14"))
    call = {"repo": "acme/api", "title": "Remove \u202eTODO\x1b[31m in store", "body": body}
    host.put(events.ToolProposed("c", "github", "create_issue", call))
    await host.front.ask(
        ApproveTool(
            server="github",
            why="asked by the model, turn 3",
            call="c",
            tool="create_issue",
            arguments=call,
            description="Open an issue in a repository.",
            claims=ToolAnnotations(read_only_hint=False, destructive_hint=False),
        )
    )
    return ANSWER


async def busy_turn(host: FakeHost, number: int, text: str) -> str:
    """The picture of the README: one call done, an answer, one call that waits for the user."""
    host.put(events.ThinkingDelta(number, "They want every TODO as an issue. First I search, then I group."))
    host.say(number, "I will search first.\n")
    arguments = {"pattern": "TODO", "path": "./src"}
    host.put(events.ToolProposed("a", "files", "search_files", arguments))
    host.put(events.ToolStarted("a", "files", "search_files", arguments, "session"))
    found = (
        "src/auth/token.py:41: # TODO rotate the key",
        "src/auth/token.py:88: # TODO say why",
        "src/store/database.py:12: # TODO close on error",
    )
    host.put(events.ToolFinished("a", "files", "search_files", "ok", "\n".join(found), 0.041))
    host.say(
        number,
        "Three, in two modules:\n\n| module | count | oldest |\n|---|---|---|\n"
        "| `auth/token.py` | 2 | 2023-04-02 |\n| `store/database.py` | 1 | 2024-11-19 |\n\n"
        "I open **one issue for each**.\n",
    )
    call = {"repo": "acme/api", "title": "Rotate the key in auth/token.py", "labels": ["debt", "auth"]}
    await host.tool(
        "b",
        "github",
        "create_issue",
        call,
        why="the model asked for it in turn 3",
        claims=ToolAnnotations(read_only_hint=False, destructive_hint=False),
        description="Open an issue in a repository.",
    )
    return ""


Step = Callable[[Any, FakeHost], Awaitable[None]]


async def _settle(pilot: Any) -> None:
    await pilot.pause(0.5)
    await pilot.pause()


async def chat(pilot: Any, host: FakeHost) -> None:
    await pilot.press(*"Find every TODO under ./src and open an issue for each", "enter")
    await _settle(pilot)


async def chat_only(pilot: Any, host: FakeHost) -> None:
    await chat(pilot, host)
    await pilot.press("escape")
    await _settle(pilot)


async def trust(pilot: Any, host: FakeHost) -> None:
    pilot.app.run_worker(
        host.front.ask(
            TrustServer(
                server="files",
                why="It is configured but was never used before.",
                command=("npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/projects/a long folder"),
                env_names=("GITHUB_TOKEN",),
                file="/home/me/.config/mcphost/mcp.json",
            )
        )
    )
    pilot.app.run_worker(host.front.ask(ContinueTurn(server="", why="", rounds=25)))
    await _settle(pilot)


async def go_on(pilot: Any, host: FakeHost) -> None:
    pilot.app.run_worker(host.front.ask(ContinueTurn(server="", why="The model has used its 25 rounds.", rounds=25)))
    await _settle(pilot)


def question(asked: Question[Any]) -> Step:
    """A question over the chat."""

    async def step(pilot: Any, host: FakeHost) -> None:
        pilot.app.run_worker(host.front.ask(asked))
        await _settle(pilot)

    return step


ROOTS = ShareRoots(
    server="files",
    why="it asks without saying for which call",
    roots=(Root("file:///home/me/projects/a%20long%20folder", "project"), Root("file:///srv/%E4%B8%AD%E6%96%87")),
    gone=("/mnt/lost",),
)
SAMPLING = ReviewSampling(
    server="github",
    why="its tool summarize_issue runs and asks for it",
    messages=(
        {"role": "user", "content": {"type": "text", "text": "Summarize this issue:\n" + "A line of it.\n" * 12}},
        {"role": "assistant", "content": {"type": "text", "text": "It is about 中文 paths."}},
        {"role": "user", "content": [{"type": "text", "text": "Shorter."}]},
    ),
    model="anthropic/claude-sonnet",
    label="anthropic/claude-sonnet",
    max_tokens=1200,
    system="You summarize issues for a busy maintainer.",
    tools=({"name": "read_comment"}, {"name": "read_diff"}),
    include_context="thisServer",
)
FORM = FillForm(
    server="github",
    why="its tool create_issue runs and asks for it",
    message="Who should be named as the reporter?",
    fields=(
        Field(name="name", kind="text", title="Your name", required=True, min_length=2),
        Field(name="email", kind="text", format="email", description="Shown to maintainers only."),
        Field(name="priority", kind="choice", options=(Option("p1", "urgent"), Option("p2", "normal")), default="p2"),
        Field(name="labels", kind="choices", options=(Option("bug", "bug"), Option("ui", "ui")), max_items=2),
        Field(name="watch", kind="boolean", default=True),
    ),
)
VISIT = VisitUrl(
    server="github",
    why="its tool summarize_issue runs and asks for it",
    message="Connect your account so that private issues can be read.",
    url="https://xn--gthub-cta.com/login/oauth/authorize?client_id=Iv1.8a61f9b3a7aba766&state=" + "k3" * 40,
    host="xn--gthub-cta.com",
    warnings=("The host has letters that can look like others: it is xn--gthub-cta.com, shown as gíthub.com.",),
)
REPLY = ReviewReply(
    server="github",
    why="its tool summarize_issue runs and asks for it",
    content=(
        {"type": "text", "text": "Paths with **wide** letters are cut one cell too early."},
        {"type": "tool_use", "id": "1", "name": "read_comment", "input": {"number": 4}},
    ),
    model="anthropic/claude-sonnet",
    stop_reason="toolUse",
)


SIGN_IN = SignIn(
    server="github",
    why="the server github wants to know who you are",
    url="https://github.com/login/oauth/authorize?client_id=Iv1.8a61f9b3a7aba766&state=" + "k3" * 20,
    host="github.com",
    issuer="https://github.com",
    scopes=("repo", "read:org", "offline_access"),
    account="work",
)


def keys(*names: str) -> Step:
    async def step(pilot: Any, host: FakeHost) -> None:
        await pilot.press(*names)
        await _settle(pilot)

    return step


def then(first: Step, *names: str) -> Step:
    """A screen, and keys pressed in it."""

    async def step(pilot: Any, host: FakeHost) -> None:
        await first(pilot, host)
        await pilot.press(*names)
        await _settle(pilot)

    return step


def suggesting(*names: str) -> Step:
    """A form whose server knows what may be typed."""

    async def step(pilot: Any, host: FakeHost) -> None:
        paths = ["src/auth/token.py", "src/auth/session.py", "src/store/database.py", "中文/模块.py"]
        host.features.suggestions = {"path": paths + [f"src/module_{n}.py" for n in range(200)]}
        await pilot.press(*names)
        await _settle(pilot)
        await pilot.press("down", "down")
        await _settle(pilot)

    return step


SCREENS: dict[str, Step] = {
    "start": keys(),
    "readme": chat,
    "consent": chat,
    "chat": chat_only,
    "trust": trust,
    "go_on": go_on,
    "roots": question(ROOTS),
    "sampling": question(SAMPLING),
    "reply": question(REPLY),
    "visit": question(VISIT),
    "fill": question(FORM),
    "retry": question(RetryCall(server="github", why="its tool summarize_issue runs", urls=(VISIT.url,))),
    "form_text": then(question(FORM), "e"),
    "sign_in": question(SIGN_IN),
    "slash": keys("/"),
    "attach": keys("@"),
    "servers": keys("f3"),
    "resources": keys("f4"),
    "prompts": keys("f5"),
    "history": keys("f6"),
    "help": keys("f1"),
    "palette": keys("ctrl+p"),
    "form": keys("f5", "enter"),
    "suggestions": suggesting("f5", "enter", "s"),
    "template": suggesting("f4", "down", "down", "enter", "s"),
}


async def draw(name: str, size: tuple[int, int], theme: str) -> str:
    """One screen as SVG."""
    front = TuiFront()
    host = FakeHost(front, turn=busy_turn if name == "readme" else turn, no_model=name == "start")
    app = McpHostApp(
        host,
        front,
        theme=theme,
        demo=name == "start",  # type: ignore[arg-type]
        greeting="Welcome. Say: add 2 and 40." if name == "start" else "",
    )
    async with app.run_test(size=size, notifications=True) as pilot:
        front.bind(app)
        await _settle(pilot)
        await SCREENS[name](pilot, host)
        svg = app.export_screenshot(title="mcphost")
        app.request_quit()
    return _fitting(svg)


def _fitting(svg: str) -> str:
    """For rsvg-convert, which does not know textLength: a font of exactly the width the picture was laid out for."""
    svg = svg.replace("<text ", '<text xml:space="preserve" ').replace("Fira Code", "DejaVu Sans Mono")
    return svg.replace("font-size: 20px", f"font-size: {20 * 0.61 / 0.60205:.3f}px")


def write(folder: Path, name: str, size: tuple[int, int], theme: str) -> Path:
    """Draw one screen, write it as SVG, and as PNG where that is possible."""
    path = folder / f"{name}-{size[0]}x{size[1]}-{theme}.svg"
    path.write_text(asyncio.run(draw(name, size, theme)), "utf-8")
    if shutil.which("rsvg-convert"):
        subprocess.run(["rsvg-convert", str(path), "-o", str(path.with_suffix(".png"))], check=True)
    return path


def main(folder: Path, only: set[str]) -> None:
    """All of them, in both sizes and both themes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in SCREENS:
        if only and name not in only:
            continue
        for size in ((80, 24), (120, 40)):
            for theme in ("dark", "light"):
                print(write(folder, name, size, theme))


if __name__ == "__main__":
    main(Path(sys.argv[1]), set(sys.argv[2:]))
