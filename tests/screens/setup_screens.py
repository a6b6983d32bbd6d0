"""The screens of the set-up for `screenshots.py`: models, keys, profiles, servers, the registry, and a diagnosis."""

import json
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import anyio

from mcphost.config.other_host_entries import ForeignServer
from mcphost.config.rule_syntax import parse_rule
from mcphost.config.schema import HookConfig, HookSettings, HostConfig, ModelConfig, Profile, ServerConfig
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.host import events
from mcphost.host.config_changes import ConfigChanges
from mcphost.host.servers.import_plan import ImportCandidate
from mcphost.host.servers.registry_installer import InstallDraft, InstallReview, RegistryInstaller
from mcphost.host.setup import SetupOffers
from mcphost.llm.model_finder import AvailableModel
from mcphost.registry.package_digests import PackageDigest
from mcphost.serialization import replace
from mcphost.translation import _
from mcphost.tui.screens.config_changes import ConfigChangesScreen
from mcphost.tui.screens.profiles import ProfilesScreen
from mcphost.tui.screens.registry import RegistryScreen
from mcphost.tui.screens.setup import SetupScreen
from tests.fakes.package_tools import INTEGRITY
from tests.fakes.registry_entries import ENTRIES
from tests.screens.fake_host import FakeHost

_FOLDER = tempfile.TemporaryDirectory(prefix="registry-")
MODELS = (
    AvailableModel(
        config=ModelConfig(name="anthropic/claude-sonnet-4-5"), provider="anthropic", provider_title="Anthropic",
        origin="ANTHROPIC_API_KEY is set", context_window=200_000, supports_tools=True, supports_images=True,
        input_price=3.0, output_price=15.0, is_favorite=True, is_recent=True,
    ),
    AvailableModel(
        config=ModelConfig(name="ollama_chat/qwen3:8b", api_base="http://127.0.0.1:11434"), provider="ollama",
        provider_title="Ollama", origin="Ollama at 127.0.0.1:11434", context_window=40_960, supports_tools=True,
    ),
    AvailableModel(
        config=ModelConfig(name="ollama_chat/gemma3:4b", api_base="http://127.0.0.1:11434"), provider="ollama",
        provider_title="Ollama", origin="Ollama at 127.0.0.1:11434", supports_tools=False,
    ),
    AvailableModel(
        config=ModelConfig(name="xai/grok-4"), provider="xai", provider_title="xAI", key_variable="XAI_API_KEY",
        context_window=2_000_000, supports_tools=True, supports_reasoning=True, input_price=3.0, output_price=15.0,
    ),
)  # fmt: skip


def _candidate(name: str, host: str, *command: str, secrets: tuple[str, ...] = ()) -> ImportCandidate:
    server = ServerConfig(name=name, command=command[0], args=command[1:])
    entry = {"command": command[0], "args": list(command[1:])}
    found = ForeignServer(name=name, host=host, file="/home/me/.claude.json", entry=entry)
    return ImportCandidate(found=found, hosts=(host,), state="new", name=name, server=server, secrets=secrets)


FOUND = (
    _candidate("time", "Claude Code", "uvx", "mcp-server-time"),
    _candidate("github", "Cursor", "npx", "-y", "server-github@1.2.0", secrets=("env.GITHUB_TOKEN",)),
    _candidate("files", "Cursor", "npx", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/a long folder"),
)
STEPS = (
    make_step("configuration", "ok", "mcp.json of the user"),
    make_step("command", "ok", "/usr/bin/npx -y @modelcontextprotocol/server-filesystem /home/me"),
    make_step("protocol", "ok", "2026-07-28 (stateless era)"),
    make_step("tools", "warning", "in quarantine, because they changed: read_file", "Review them: /servers, then c."),
)
FAILED = make_step("command", "failed", "'uvx' was not found in PATH.", "uvx comes with uv: https://docs.astral.sh/uv/")


class PicturedSetup:
    """A fake setup that lists the models, and edits servers of which each has the same entry."""

    is_first_run = False
    can_undo = False

    @property
    def server_editor(self) -> "PicturedSetup":
        """The fake itself."""
        return self

    @property
    def api_keys(self) -> "PicturedSetup":
        """The fake itself."""
        return self

    async def find_place(self) -> str:
        """Return where a key would be stored."""
        return "keyring"

    async def list_models(self) -> tuple[AvailableModel, ...]:
        """Return the models of the pictures."""
        return MODELS

    async def find_listed_models(self, known: Any) -> tuple[AvailableModel, ...]:
        """Return no models, because no provider is asked."""
        return ()

    async def find_late_models(self, known: Any) -> tuple[AvailableModel, ...]:
        """Return no models."""
        return ()

    def list_files(self) -> dict[str, Path]:
        """Return the files to which a new server can be written, by scope."""
        folder = Path("/home/me/.config/mcphost")
        return {"user": folder / "mcp.json", "local": folder / "local.json", "project": Path(".mcp.json")}

    async def find_other_files(self, name: str) -> tuple[str, ...]:
        """Return no other files with an entry of this name."""
        return ()

    async def read_entry(self, name: str) -> dict[str, Any]:
        """Return the entry of a server."""
        return {"command": "npx", "args": ["-y", f"server-{name}@1.2.0"], "env": {"TOKEN": "${keyring:github}"}}


Opener = Callable[[Any, FakeHost], Awaitable[None]]


@dataclass(frozen=True)
class SetupStep:
    """A setup of one screen: what opens it, a text on it, the keys pressed then, and the text they lead to.

    Both texts must be the same in every language.
    """

    open: Opener
    text: str
    keys: tuple[str, ...] = ()
    shown: str = ""

    async def __call__(self, pilot: Any, host: FakeHost) -> None:
        """Open the screen, press the keys, and wait for the texts."""
        await self.open(pilot, host)
        await _wait_for(pilot, self.text)
        await pilot.press(*self.keys)
        await _wait_for(pilot, self.shown)
        await pilot.pause()


async def _wait_for(pilot: Any, text: str) -> None:
    """Wait until the screen shows *text*, at most half a minute."""
    with anyio.fail_after(30):
        while text not in _screen_text(pilot.app.screen):
            await anyio.sleep(0.01)
            pilot.app.screen._on_timer_update()


def _screen_text(screen: Any) -> str:
    lines = screen._compositor.render_strips()
    return "\n".join("".join(segment.text for segment in line) for line in lines)


def _start_card(offers: SetupOffers) -> Opener:
    async def show(pilot: Any, host: FakeHost) -> None:
        host.views = ()
        host.put(events.ServerState("files", "stopped"))
        await pilot.pause()
        pilot.app.push_screen(SetupScreen(cast("Any", PicturedSetup()), offers, is_invited=True))

    return show


async def _models(pilot: Any, host: FakeHost) -> None:
    host.setup = PicturedSetup()
    await pilot.press("ctrl+b")


async def _profiles(pilot: Any, host: FakeHost) -> None:
    review = Profile(
        name="review", description="Reads code, changes nothing", model=MODELS[0].config, servers=("git", "files"),
        system_prompt="You review code. Name the line of each fault.",
    )  # fmt: skip
    config = HostConfig(profiles=(review, Profile(name="quick", model=MODELS[1].config)), profile="review")
    pilot.app.push_screen(ProfilesScreen(config, replace(review, name="", description="")))


class _OfflineInstaller(RegistryInstaller):
    """An installer that knows the digests of all packages without asking npm or uv."""

    async def ask_digest(self, draft: InstallDraft, values: Mapping[str, Sequence[str]]) -> InstallReview:
        package = draft.option.package
        if package is not None:
            draft.digests[package.registry_type, package.identifier, package.version] = PackageDigest(INTEGRITY)
        return await super().ask_digest(draft, values)


async def _registry(pilot: Any, host: FakeHost) -> None:
    folder = Path(_FOLDER.name)
    file = folder / "registry.json"
    file.write_text(json.dumps({"servers": ENTRIES}))
    places = cast("Any", SimpleNamespace(cache_dir=folder, data_dir=folder))
    editor = cast("Any", SimpleNamespace(config_dir=Path("/home/me/.config/mcphost"), folder=Path("/home/me")))
    installer = _OfflineInstaller(str(file), places, cast("Any", ()), editor, cast("Any", None))
    pilot.app.push_screen(RegistryScreen(installer))


async def _servers(pilot: Any, host: FakeHost) -> None:
    host.setup = PicturedSetup()
    await pilot.press("f3")


def _diagnosis(*steps: DiagnosisStep) -> Opener:
    async def diagnose(*_: Any) -> AsyncIterator[DiagnosisStep]:
        for step in steps:
            yield step

    async def measure(server: str) -> float:
        return 0.0042

    async def show(pilot: Any, host: FakeHost) -> None:
        host.features.measure_round_trip = measure  # type: ignore[attr-defined]
        with patch("mcphost.host.servers.diagnosis.diagnose_server", diagnose):
            await pilot.press("f3", "i")
            await _wait_for(pilot, _(steps[-1].name))

    return show


async def _config_changes(pilot: Any, host: FakeHost) -> None:
    old = ServerConfig(name="time", command="uvx", args=("mcp-server-time",), env={"KEY": "a"})
    new = replace(old, args=("mcp-server-time", "--local-timezone", "Europe/Berlin"), env={"KEY": "b"})
    hook = HookSettings(event="before_call", command=("/home/me/bin/check-call", "--strict"), match=("files",))
    changes = ConfigChanges(
        config=HostConfig(), added=(ServerConfig(name="git", command="uvx", args=("mcp-server-git",)),),
        changed=((old, new),), removed=("slack",), model=MODELS[1].config, never_added=("files/delete*",),
        hooks_added=(HookConfig(settings=hook, rules=(parse_rule("files"),)),), theme="light",
    )  # fmt: skip
    pilot.app.push_screen(ConfigChangesScreen(changes))


NEW_SERVER_KEYS = (
    *("n", *"uvx mcp-server-time", "tab", *"LOCAL_TIMEZONE=Europe/Berlin", "enter", *"API_TOKEN=quiet-0123-river"),
    *("tab", "tab", *"~/services"),
)
SETUP_SCREENS: dict[str, Opener] = {
    "start_card": SetupStep(_start_card(SetupOffers(MODELS[:3], FOUND)), "□ files", ("ctrl+a",), "■ files"),
    "start_card_ollama": SetupStep(_start_card(SetupOffers(MODELS[1:3])), "gemma3:4b"),
    "start_card_nothing": SetupStep(_start_card(SetupOffers()), "esc", tuple("sk-ant-1"), "•" * 8),
    "models": SetupStep(_models, "xai/grok"),
    "model_form": SetupStep(_models, "xai/grok", ("ctrl+e",), "${env:TEAM}"),
    "model_new": SetupStep(_models, "xai/grok", ("ctrl+n",), "${env:TEAM}"),
    "model_key": SetupStep(_models, "xai/grok", (*"grok", "enter", *"xai-1"), "•" * 5),
    "profiles": SetupStep(_profiles, "ollama_chat/qwen3"),
    "profile_form": SetupStep(_profiles, "ollama_chat/qwen3", ("n", *"mine"), "mine"),
    "registry": SetupStep(_registry, "github.com/ada/weather"),
    "install_form": SetupStep(_registry, "github.com/ada/weather", (*["down"] * 5, "enter"), "<tenant>"),
    "install_form_long": SetupStep(_registry, "github.com/ada/weather", ("enter",), "cache_dir"),
    "server_form": SetupStep(_servers, "npx -y files-server", ("n", *"uvx mcp-server-time"), "uvx mcp-server-time"),
    "server_form_settings": SetupStep(_servers, "npx -y files-server", NEW_SERVER_KEYS, "~/services"),
    "server_edit": SetupStep(_servers, "npx -y files-server", ("e",), '"command": "npx"'),
    "tool_form": SetupStep(_servers, "npx -y files-server", ("t", "enter"), "files · search_files"),
    "diagnosis": SetupStep(_diagnosis(*STEPS), " ms"),
    "diagnosis_failed": SetupStep(_diagnosis(STEPS[0], FAILED), "https://docs.astral.sh/uv/"),
    "config_changes": SetupStep(_config_changes, "files/delete*", ("down", "down"), "KEY"),
}
