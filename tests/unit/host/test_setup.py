"""Tests for finding and configuring local models and servers, with real files, HTTP, database and processes."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcphost.config.loader import load_config
from mcphost.config.remembered_models import ToolRefusals
from mcphost.config.schema import ModelConfig
from mcphost.config.settings import Overrides
from mcphost.errors import McpHostError, ModelError, UsageError
from mcphost.host.events import NoticeEvent
from mcphost.llm import model_finder
from mcphost.llm.model_finder import insert_usable_models
from mcphost.llm.providers import find_key
from mcphost.serialization import replace
from tests.fakes.json_server import json_server
from tests.fakes.memory_backend import MemoryBackend
from tests.fakes.model import ScriptedModel
from tests.unit.host.setup_host import DEMO_ENTRY, open_setup

pytestmark = pytest.mark.anyio

SECRET = "sk-ant-0123456789abcdefghij"


class FailingBackend(MemoryBackend):
    """A secret store in which nothing can be stored or read."""

    async def set(self, name: str, secret: str) -> None:
        """Raise McpHostError."""
        raise McpHostError("There is no keyring.")

    async def get(self, name: str) -> str | None:
        """Raise McpHostError."""
        raise McpHostError("There is no keyring.")


def write_claude_code(home: Path, **servers: Any) -> None:
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))


async def test_keys_local_models_and_servers_are_found_and_nothing_is_written(tmp_path: Path) -> None:
    write_claude_code(tmp_path, demo=DEMO_ENTRY)
    answers = {"GET /api/version": {"version": "1"}, "GET /api/tags": {"models": [{"model": "qwen3"}]}}
    with json_server({**answers, "POST /api/show": {"capabilities": ["tools"]}}) as ollama:
        environ = {"ANTHROPIC_API_KEY": SECRET, "OLLAMA_HOST": ollama.url}
        async with open_setup(tmp_path, environ) as (_, setup):
            offers = await setup.find()
    assert [offer.config.name for offer in offers.models][:2] == ["anthropic/claude-sonnet-4-5", "ollama_chat/qwen3"]
    assert offers.models[0].origin == "ANTHROPIC_API_KEY is set"
    assert SECRET not in repr(offers)
    assert [candidate.name for candidate in offers.servers] == ["demo"]
    assert not (tmp_path / "config").exists()


class LoadedModel(ScriptedModel):
    """A model that records that its facts were loaded."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        self.loaded = anyio.Event()
        self.prepared = self.is_closed = False

    async def close(self) -> None:
        """Record the call."""
        self.is_closed = True

    async def load_facts(self) -> None:
        """Record the call, and fail like a model whose worker cannot start."""
        self.loaded.set()
        raise ModelError("The worker cannot start.")

    async def prepare(self) -> None:
        """Record the call."""
        self.prepared = True


async def test_the_best_model_is_loaded_while_the_user_reads_what_was_found(tmp_path: Path) -> None:
    created: list[LoadedModel] = []

    def create(config: ModelConfig) -> LoadedModel:
        created.append(LoadedModel(config.name))
        return created[-1]

    answers = {"GET /api/version": {"version": "1"}, "GET /api/tags": {"models": [{"model": "qwen3"}, {"model": "b"}]}}
    with json_server({**answers, "POST /api/show": {"capabilities": ["tools"]}}) as ollama:
        async with open_setup(tmp_path, {"OLLAMA_HOST": ollama.url}, model_factory=create) as (host, setup):
            offers = await setup.find()
            with anyio.fail_after(10):
                await created[0].loaded.wait()
            assert [model.name for model in created] == [offers.models[0].config.name]
            assert not created[0].prepared
            assert host.model_selection.model is None
            await setup.apply(offers.models[0].config, ())
            await setup.find()
            assert len(created) == 2


class EndlesslyLoadedModel(LoadedModel):
    """A model whose facts are never loaded."""

    async def load_facts(self) -> None:
        """Record the call, and wait."""
        self.loaded.set()
        await anyio.sleep_forever()


@pytest.mark.parametrize("kind", [LoadedModel, EndlesslyLoadedModel])
async def test_a_model_loaded_in_advance_is_closed_when_the_setup_is_left_without_one(
    tmp_path: Path, kind: type[LoadedModel]
) -> None:
    created: list[LoadedModel] = []

    def create(config: ModelConfig) -> LoadedModel:
        created.append(kind(config.name))
        return created[-1]

    answers = {"GET /api/version": {"version": "1"}, "GET /api/tags": {"models": [{"model": "qwen3"}]}}
    with json_server({**answers, "POST /api/show": {"capabilities": ["tools"]}}) as ollama:
        async with open_setup(tmp_path, {"OLLAMA_HOST": ollama.url}, model_factory=create) as (_, setup):
            offers = await setup.find()
            with anyio.fail_after(10):
                await created[0].loaded.wait()
                await setup.release_models()
            assert created[0].is_closed
            await setup.apply(offers.models[0].config, ())
            await setup.release_models()
            assert not created[-1].is_closed


async def test_each_model_loaded_in_advance_is_closed_when_another_one_is_loaded_or_selected(tmp_path: Path) -> None:
    created: list[LoadedModel] = []

    def create(config: ModelConfig) -> LoadedModel:
        created.append(EndlesslyLoadedModel(config.name))
        return created[-1]

    async with open_setup(tmp_path, model_factory=create) as (host, _):
        selection = host.model_selection
        for name in ("a", "a", "b"):
            selection.preload(ModelConfig(name=name))
            with anyio.fail_after(10):
                await created[-1].loaded.wait()
        assert [model.name for model in created] == ["a", "b"]
        await selection.discard_preloaded()
        assert [model.is_closed for model in created] == [True, True]
        selection.preload(ModelConfig(name="a"))
        selection.select(ModelConfig(name="c"))
        await anyio.wait_all_tasks_blocked()
        assert [model.is_closed for model in created] == [True, True, True, False]


async def test_files_of_other_hosts_in_the_folder_are_named_and_not_read(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (_, setup):
        file = tmp_path / "project" / ".vscode" / "mcp.json"
        file.parent.mkdir(parents=True)
        file.write_text(json.dumps({"servers": {"demo": DEMO_ENTRY}}))
        offers = await setup.find()
    assert offers.project_files == ((".vscode/mcp.json", "vscode"),)
    assert offers.servers == ()


async def test_a_model_that_refused_tools_is_listed_without_them_until_they_are_tried_again(tmp_path: Path) -> None:
    answers = {"GET /api/version": {"version": "1"}, "GET /api/tags": {"models": [{"model": "qwen3"}]}}
    with json_server({**answers, "POST /api/show": {"capabilities": ["tools"]}}) as ollama:
        ToolRefusals(tmp_path / "state").record("ollama_chat/qwen3", ollama.url, "no tools")
        async with open_setup(tmp_path, {"OLLAMA_HOST": ollama.url}) as (host, setup):
            (offer,) = (await setup.find()).models
            assert (offer.supports_tools, offer.tools_refused_at > 0) == (False, True)
            (listed,) = [model for model in await setup.list_models() if model.provider == "ollama"]
            assert (listed.supports_tools, listed.tools_refused_at > 0) == (False, True)
            await setup.use_model(offer.config, is_default=False)
            before = host.model_selection.model
            await setup.retry_tools(offer.config)
            assert host.model_selection.model is not before
            (offer,) = (await setup.find()).models
            assert (offer.supports_tools, offer.tools_refused_at) == (True, 0)


async def test_a_model_server_that_responds_after_the_first_search_is_found_by_the_longer_one(tmp_path: Path) -> None:
    answers = {"GET /api/version": {"version": "1"}, "GET /api/tags": {"models": [{"model": "qwen3"}]}}
    with json_server({**answers, "POST /api/show": {"capabilities": ["tools"]}}) as ollama:
        async with open_setup(tmp_path, {"OLLAMA_HOST": ollama.url}, probe_seconds=0) as (_, setup):
            offers = await setup.find()
            assert offers.models == ()
            (late,) = await setup.find_late_models(offers.models)
            assert (late.config.name, late.supports_tools) == ("ollama_chat/qwen3", True)
            assert await setup.find_late_models((late,)) == ()


async def test_a_slow_server_at_a_used_models_address_is_found_by_the_longer_search(tmp_path: Path) -> None:
    tags = {"models": [{"name": "small"}, {"name": "large"}]}
    with json_server({"GET /api/version": {"version": "0.12.6"}, "GET /api/tags": tags}) as server:
        async with open_setup(tmp_path, backend=MemoryBackend(), probe_seconds=0) as (_, setup):
            await setup.use_model(ModelConfig(name="ollama_chat/small", api_base=server.url), is_default=False)
            models = await setup.list_models()
            late = await setup.find_late_models(models)
    assert [model.config.name for model in late] == ["ollama_chat/large"]
    assert insert_usable_models((*models, *late), late) == (*models, *late), "no model is listed twice"


async def test_models_that_use_no_tools_come_last(tmp_path: Path) -> None:
    shown: dict[str, Any] = {"none": {"capabilities": []}, "unknown": {}, "good": {"capabilities": ["tools"]}}
    answers = {
        "GET /api/version": {"version": "1"},
        "GET /api/tags": {"models": [{"model": name} for name in shown]},
        "POST /api/show": lambda body: shown[body["model"]],
    }
    with json_server(answers) as server:
        async with open_setup(tmp_path, {"OLLAMA_HOST": server.url}) as (_, setup):
            names = [offer.config.name for offer in (await setup.find()).models]
    assert [name.rpartition("/")[2] for name in names if name.startswith("ollama_chat/")] == ["good", "unknown", "none"]


async def test_what_was_chosen_is_saved_approved_and_running(tmp_path: Path) -> None:
    write_claude_code(tmp_path, demo=DEMO_ENTRY)
    async with open_setup(tmp_path) as (host, setup):
        (candidate,) = (await setup.find()).servers
        result = await setup.apply(ModelConfig(name="anthropic/x"), [candidate], {"demo"})
        assert (result.model, result.servers, result.problems) == ("anthropic/x", ("demo",), ())
        assert host.model_selection.model is not None
        view = await host.servers.ensure_ready("demo")
        assert view.catalog.tools
        assert await host.servers.is_approved("demo")
    saved = load_config(tmp_path / "config")
    assert (saved.model.name, [server.name for server in saved.servers]) == ("anthropic/x", ["demo"])


async def test_a_server_whose_command_was_not_seen_or_has_a_risk_is_not_approved(tmp_path: Path) -> None:
    risky = {"command": sys.executable, "args": ["-c", "x"], "env": {"LD_PRELOAD": "/x.so"}}
    (tmp_path / ".env").write_text("A=b")
    from_file = {**DEMO_ENTRY, "args": ["x"], "envFile": str(tmp_path / ".env")}
    write_claude_code(tmp_path, unseen=DEMO_ENTRY, risky=risky, from_file=from_file)
    async with open_setup(tmp_path) as (host, setup):
        offers = await setup.find()
        await setup.apply(None, offers.servers, {"risky", "from_file"})
        for name in ("unseen", "risky", "from_file"):
            assert not await host.servers.is_approved(name)


async def test_a_part_that_fails_is_reported_and_the_rest_is_done(tmp_path: Path) -> None:
    write_claude_code(tmp_path, secret={**DEMO_ENTRY, "env": {"API_KEY": "abcdefghij0123456789"}}, demo=DEMO_ENTRY)
    async with open_setup(tmp_path, backend=FailingBackend()) as (host, setup):
        offers = await setup.find()
        result = await setup.apply(None, offers.servers, {"demo", "secret"})
        assert result.servers == ("demo",)
        assert "secret was not added" in result.problems[0]
        assert [view.name for view in host.servers.views()] == ["demo"]


async def test_a_server_that_needs_an_input_is_added_and_the_command_for_it_is_named(tmp_path: Path) -> None:
    path = tmp_path / ".config" / "Code" / "User" / "mcp.json"
    path.parent.mkdir(parents=True)
    entry = {**DEMO_ENTRY, "env": {"A": "${input:token}"}}
    inputs = [{"id": "token", "type": "promptString", "password": True}]
    path.write_text(json.dumps({"servers": {"demo": entry}, "inputs": inputs}))
    async with open_setup(tmp_path) as (_, setup):
        offers = await setup.find()
        result = await setup.apply(None, offers.servers)
    assert result.servers == ("demo",)
    assert result.problems == ("demo needs the input token. Set it: mcphost servers input demo token",)


async def test_a_pasted_key_is_stored_under_its_variable_and_found_again(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with open_setup(tmp_path, backend=backend) as (_, setup):
        offer = await setup.api_keys.store_for_provider(f" {SECRET}\n")
        assert offer is not None
        assert offer.config.name.startswith("anthropic/")
        assert await backend.get("ANTHROPIC_API_KEY") == SECRET
        assert (await setup.find()).models[0].origin == "ANTHROPIC_API_KEY is in the keyring"


async def test_a_new_key_is_used_instead_of_one_in_the_environment_until_the_program_ends(tmp_path: Path) -> None:
    backend = MemoryBackend()
    model = ModelConfig(name="gemini/gemini-x")
    environ = {"GOOGLE_API_KEY": "AIza-old", "OPENAI_API_KEY": "sk-other"}
    async with open_setup(tmp_path, backend=backend, environ=environ) as (host, setup):
        events = host.events.subscribe()
        assert (await find_key(model, environ, backend.get)).value == "AIza-old"
        await setup.api_keys.store("AIza-new", model)
        assert (await find_key(model, environ, backend.get)).value == "AIza-new"
        assert environ["OPENAI_API_KEY"] == "sk-other"
        _unchecked, notice = [event for event in events.drain() if isinstance(event, NoticeEvent)]
        assert notice.text.startswith("The key in GOOGLE_API_KEY is not used")


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        (ModelConfig(name="openai/gpt-x"), "OPENAI_API_KEY"),
        (ModelConfig(name="openai/x", api_base="https://proxy.example/v1"), ""),
        (ModelConfig(name="openai/x", api_base="https://proxy.example/v1", api_key_env="PROXY_KEY"), "PROXY_KEY"),
        (ModelConfig(name="ollama_chat/x"), ""),
        (ModelConfig(name="hosted_vllm/x"), ""),
    ],
)
async def test_a_key_is_replaced_only_where_it_cannot_become_that_of_another_address(
    tmp_path: Path, model: ModelConfig, variable: str
) -> None:
    async with open_setup(tmp_path) as (_, setup):
        assert setup.api_keys.find_replaceable(model) == variable


async def test_a_key_whose_storage_is_cancelled_leaves_the_one_in_the_environment(tmp_path: Path) -> None:
    class LockedBackend(MemoryBackend):
        async def set(self, name: str, secret: str) -> None:
            scope.cancel()
            await anyio.sleep_forever()

    environ = {"GOOGLE_API_KEY": "AIza-old"}
    async with open_setup(tmp_path, backend=LockedBackend(), environ=environ) as (_, setup):
        with anyio.CancelScope() as scope:
            await setup.api_keys.store("AIza-new", ModelConfig(name="gemini/gemini-x"))
    assert environ["GOOGLE_API_KEY"] == "AIza-old"


async def test_a_rejected_key_leaves_the_one_in_the_environment(tmp_path: Path) -> None:
    with json_server({"GET /models": 401}) as server:
        environ = {"OPENAI_API_KEY": "sk-old", "OPENAI_API_BASE": server.url}
        async with open_setup(tmp_path, environ=environ) as (_, setup):
            with pytest.raises(ModelError, match="rejects this key"):
                await setup.api_keys.store("sk-bad", ModelConfig(name="openai/gpt-x"))
    assert environ["OPENAI_API_KEY"] == "sk-old"


@pytest.mark.parametrize("text", ["", "  ", '""'])
async def test_an_empty_key_is_called_empty(tmp_path: Path, text: str) -> None:
    async with open_setup(tmp_path) as (_, setup):
        with pytest.raises(UsageError, match="The key is empty"):
            await setup.api_keys.store(text, ModelConfig(name="openai/gpt-x"))


@pytest.mark.parametrize("text", ["hello there", "sk-a\u2026z", "sk-a\nsk-b"])
async def test_a_text_that_cannot_be_a_key_is_not_stored(tmp_path: Path, text: str) -> None:
    backend = MemoryBackend()
    async with open_setup(tmp_path, backend=backend) as (_, setup):
        with pytest.raises(UsageError, match="not a key"):
            await setup.api_keys.store(text, ModelConfig(name="openai/x", api_base="http://127.0.0.1:9/v1"))
    assert await backend.get("OPENAI_API_KEY") is None


async def test_the_quotes_around_a_copied_key_are_left_out(tmp_path: Path) -> None:
    backend = MemoryBackend()
    with json_server({"GET /models": {"data": []}}) as server:
        async with open_setup(tmp_path, {"OPENAI_API_BASE": server.url}, backend) as (host, setup):
            events = host.events.subscribe()
            await setup.api_keys.store(' "sk-good" ', ModelConfig(name="openai/x"))
            assert not [event for event in events.drain() if isinstance(event, NoticeEvent)]
    assert await backend.get("OPENAI_API_KEY") == "sk-good"


async def test_a_key_that_could_not_be_checked_is_stored_and_the_user_is_told(tmp_path: Path) -> None:
    backend = MemoryBackend()
    with json_server({"GET /models": 503}) as server:
        async with open_setup(tmp_path, {"OPENAI_API_BASE": server.url}, backend) as (host, setup):
            events = host.events.subscribe()
            await setup.api_keys.store("sk-maybe", ModelConfig(name="openai/x"))
            (notice,) = [event for event in events.drain() if isinstance(event, NoticeEvent)]
    assert notice.text == "The key was not checked: OpenAI did not answer."
    assert await backend.get("OPENAI_API_KEY") == "sk-maybe"


async def test_a_provider_that_cannot_check_keys_is_not_said_to_be_silent(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (host, setup):
        events = host.events.subscribe()
        await setup.api_keys.store("key-1", ModelConfig(name="cohere/x"))
        texts = [event.text for event in events.drain() if isinstance(event, NoticeEvent)]
    assert texts == ["The key was not checked: mcphost cannot ask cohere."]


async def test_the_provider_of_a_quoted_key_is_recognized(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with open_setup(tmp_path, {"ANTHROPIC_API_BASE": "http://127.0.0.1:9"}, backend) as (_, setup):
        assert setup.api_keys.recognize_provider(f' "{SECRET}"') == "anthropic"
        await setup.api_keys.store_for_provider(f"'{SECRET}' ")
    assert await backend.get("ANTHROPIC_API_KEY") == SECRET


async def test_a_key_of_an_unknown_form_is_refused(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (_, setup):
        with pytest.raises(UsageError, match="does not show which provider"):
            await setup.api_keys.store_for_provider("hunter2")


async def test_without_a_keyring_a_key_is_used_until_the_program_ends_and_the_user_is_told(tmp_path: Path) -> None:
    backend = FailingBackend()
    async with open_setup(tmp_path, backend=backend) as (host, setup):
        events = host.events.subscribe()
        offer = await setup.api_keys.store_for_provider(SECRET)
        notice, _unchecked = [event for event in events.drain() if isinstance(event, NoticeEvent)]
        assert offer is not None
        assert offer.config.name.startswith("anthropic/")
        assert offer.origin == "ANTHROPIC_API_KEY is in memory"
        assert (await setup.find()).models[0].origin == "ANTHROPIC_API_KEY is in memory"
    text = "The key is kept in memory until mcphost quits. There is no keyring."
    assert (notice.level, notice.text) == ("warning", text)
    assert "Set ANTHROPIC_API_KEY in the environment" in notice.hint
    assert SECRET not in repr(notice)


async def test_the_start_card_is_due_once_and_only_without_a_model(tmp_path: Path) -> None:
    async with open_setup(tmp_path) as (_, setup):
        assert setup.is_first_run
        await setup.apply(ModelConfig(name="x/y"), [])
        assert not setup.is_first_run
    (tmp_path / "config" / "config.toml").unlink()
    async with open_setup(tmp_path) as (_, setup):
        assert setup.is_first_run
        setup.mark_shown()
    async with open_setup(tmp_path) as (_, setup):
        assert not setup.is_first_run


async def test_models_with_a_key_come_first_then_local_ones_then_all_others(tmp_path: Path) -> None:
    answers = {
        "GET /api/version": {"version": "0.12.6"},
        "GET /api/tags": {"models": [{"model": "qwen3:8b"}]},
        "POST /api/show": {"capabilities": ["tools"]},
    }
    with json_server(answers) as ollama:
        async with open_setup(tmp_path, {"OPENAI_API_KEY": SECRET, "OLLAMA_HOST": ollama.url}) as (_, setup):
            models = await setup.list_models()
    groups = [
        "key" if model.origin == "OPENAI_API_KEY is set" else "local" if model.origin else "others" for model in models
    ]
    assert list(dict.fromkeys(groups)) == ["key", "local", "others"]
    assert groups == sorted(groups, key=["key", "local", "others"].index)


async def test_models_of_their_makers_come_before_those_of_resellers(tmp_path: Path) -> None:
    async with open_setup(tmp_path, {"GROQ_API_KEY": SECRET}) as (_, setup):
        models = await setup.list_models()
    providers = list(dict.fromkeys(model.provider for model in models))
    assert providers[:7] == ["groq", "openai", "anthropic", "gemini", "mistral", "deepseek", "xai"]
    assert providers.index("aiand") > providers.index("moonshot")
    gpt = [model.config.name for model in models if "gpt" in model.config.name and not model.is_usable]
    assert gpt[0] == "openai/gpt-5", "the provider's default model"
    assert all("/ft:" not in name for name in gpt[:50]), "templates for fine-tuned models come last"


async def test_a_used_model_is_listed_first_with_its_parameters(tmp_path: Path) -> None:
    own = ModelConfig(name="openai/mine", api_base="http://127.0.0.1:9/v1", temperature=0.5)
    async with open_setup(tmp_path, {"OPENAI_API_KEY": SECRET}) as (_, setup):
        await setup.use_model(own, is_default=False)
        assert await setup.toggle_favorite(ModelConfig(name="openai/gpt-4o")) is True
        models = await setup.list_models()
    assert [model.config for model in models[:2]] == [ModelConfig(name="openai/gpt-4o"), own]
    assert [(model.is_favorite, model.is_recent, model.is_usable) for model in models[:2]] == [
        (True, False, True),
        (False, True, True),
    ]
    assert models[0].context_window > 0
    assert models[1].origin == "at 127.0.0.1:9/v1"
    assert sum(model.config.name == "openai/gpt-4o" for model in models) == 1


async def test_a_saved_model_is_the_one_in_use_at_the_next_start_also_with_a_profile(tmp_path: Path) -> None:
    file = tmp_path / "config" / "config.toml"
    file.parent.mkdir()
    before = 'profile = "review"\n\n[model]\nname = "a/default"\n\n[profiles.review]  # careful\nmodel = "a/strict"\n'
    file.write_text(before)
    chosen = ModelConfig(name="openai/new", temperature=0.5, headers={"X-Team": "research"})
    async with open_setup(tmp_path) as (_, setup):
        assert await setup.use_model(chosen, is_default=False) == ""
        assert file.read_text() == before
        assert await setup.use_model(chosen, is_default=True) == "the model of the profile review"
    config = load_config(file.parent)
    assert (config.profile, config.model) == ("review", chosen)
    assert load_config(file.parent, overrides=Overrides(profile="")).model.name == "a/default"
    assert "# careful" in file.read_text()

    file.write_text('profile = "review"\n\n[profiles.review]\nservers = []\n')
    async with open_setup(tmp_path) as (_, setup):
        assert await setup.use_model(chosen, is_default=True) == "your default"
    assert load_config(file.parent, overrides=Overrides(profile="")).model == chosen


async def test_a_secret_in_a_models_header_goes_to_the_keyring(tmp_path: Path) -> None:
    backend = MemoryBackend()
    async with open_setup(tmp_path, backend=backend) as (_, setup):
        headers = {"Authorization": f"Bearer {SECRET}", "X-Team": "research", "X-Key": "${env:KEY}"}
        safe = await setup.protect_headers(ModelConfig(name="openai/x", headers=headers))
    reference = safe.headers["Authorization"]
    assert reference.startswith("Bearer ${keyring:model-openai")
    assert await backend.get(reference[len("Bearer ${keyring:") : -1]) == SECRET
    assert (safe.headers["X-Team"], safe.headers["X-Key"]) == ("research", "${env:KEY}")


async def test_a_key_that_its_provider_rejects_is_not_stored(tmp_path: Path) -> None:
    backend = MemoryBackend()
    with json_server({"GET /v1/models?limit=1000": 401}) as server:
        async with open_setup(tmp_path, {"ANTHROPIC_API_BASE": server.url}, backend) as (_, setup):
            with pytest.raises(ModelError, match="Anthropic rejects this key") as exc_info:
                await setup.api_keys.store_for_provider(SECRET)
        assert server.requests[0][3]["x-api-key"] == SECRET
    assert SECRET not in str(exc_info.value)
    assert await backend.get("ANTHROPIC_API_KEY") is None


async def test_a_key_for_an_own_address_goes_to_the_keyring_and_not_to_the_provider(tmp_path: Path) -> None:
    backend = MemoryBackend()
    gateway = ModelConfig(name="anthropic/claude-x", api_base="https://gateway.example", api_key_env="GATEWAY_KEY")
    with json_server({"GET /v1/models?limit=1000": 401}) as server:
        async with open_setup(tmp_path, {"ANTHROPIC_API_BASE": server.url}, backend) as (_, setup):
            assert await setup.api_keys.find_missing(gateway) == "GATEWAY_KEY"
            await setup.api_keys.store(SECRET, gateway)
            assert await setup.api_keys.find_missing(gateway) == ""
            await setup.use_model(gateway, is_default=False)
            first = (await setup.list_models())[0]
        assert server.requests == []
    assert await backend.get("GATEWAY_KEY") == SECRET
    assert (first.config, first.origin) == (gateway, "GATEWAY_KEY is in the keyring")


async def test_a_server_of_this_machine_at_a_used_models_address_is_asked_for_its_models(tmp_path: Path) -> None:
    tags = {"models": [{"name": "small"}, {"name": "large"}]}
    with json_server({"GET /api/version": {"version": "0.12.6"}, "GET /api/tags": tags}) as server:
        async with open_setup(tmp_path, backend=MemoryBackend()) as (_, setup):
            await setup.use_model(ModelConfig(name="ollama_chat/small", api_base=server.url), is_default=False)
            models = await setup.list_models()
    listed = [model.config.name for model in models if model.config.api_base == server.url]
    assert listed == ["ollama_chat/small", "ollama_chat/large"]


async def test_only_a_server_of_this_machine_that_needs_no_key_is_free(tmp_path: Path) -> None:
    listed = {"object": "list", "data": [{"id": "parrot"}]}
    environ = {"MY_KEY": SECRET}
    with json_server({"GET /v1/models": listed}) as keyless, json_server({}) as locked:
        locked.answers["GET /v1/models"] = lambda _: listed if "authorization" in locked.requests[-1][3] else 401
        own = ModelConfig(name="openai/parrot", api_base=f"{keyless.url}/v1")
        models = {
            "free": own,
            "needs a key": replace(own, api_base=f"{locked.url}/v1", api_key_env="MY_KEY"),
            "has a key": replace(own, api_key_env="MY_KEY"),
            "on another machine": replace(own, api_base="https://gateway.example/v1"),
            "priced": replace(own, input_price=1.5, output_price=2.5),
        }
        async with open_setup(tmp_path, environ) as (_, setup):
            prices: dict[str, tuple[float | None, float | None]] = {}
            for name, model in models.items():
                await setup.use_model(model, is_default=False)
                (found,) = [one for one in await setup.list_models() if one.config == model]
                prices[name] = found.input_price, found.output_price
    unknown = (None, None)
    assert prices == {
        "free": (0, 0), "needs a key": unknown, "has a key": unknown, "on another machine": unknown,
        "priced": (1.5, 2.5),
    }  # fmt: skip


def write_model(home: Path, name: str, api_base: str) -> None:
    file = home / "config" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'[model]\nname = "{name}"\napi_base = "{api_base}"\ntemperature = 0.5\n')


async def test_the_server_at_the_configured_address_is_asked_for_its_models(tmp_path: Path) -> None:
    answers = {"GET /v1/models": {"object": "list", "data": [{"id": "owl"}, {"id": "parrot", "max_model_len": 4096}]}}
    with json_server(answers) as server:
        base = f"{server.url}/v1"
        write_model(tmp_path, "parrot", base)
        async with open_setup(tmp_path, {"OPENAI_API_KEY": SECRET}) as (_, setup):
            models = await setup.list_models()
            late = await setup.find_late_models(models)
        assert not any("authorization" in request[3] for request in server.requests)
    listed = [(one.config.name, one.config.temperature, one.is_usable) for one in models if one.config.api_base == base]
    assert listed == [("openai/parrot", 0.5, True), ("openai/owl", None, True)]
    assert models[0].config.name == "openai/parrot"
    assert models[0].context_window == 4096
    assert late == ()


async def test_a_missing_key_of_one_model_does_not_concern_the_others_at_its_address(tmp_path: Path) -> None:
    with json_server({"GET /v1/models": {"object": "list", "data": [{"id": "owl"}, {"id": "parrot"}]}}) as server:
        model = ModelConfig(name="openai/parrot", api_base=f"{server.url}/v1", api_key_env="GONE")
        async with open_setup(tmp_path, backend=MemoryBackend()) as (_, setup):
            await setup.toggle_favorite(model)
            models = await setup.list_models()
    listed = [one for one in models if one.config.api_base == model.api_base]
    assert [(one.config.name, one.is_usable, one.key_variable, one.config.api_key_env) for one in listed] == [
        ("openai/parrot", False, "GONE", "GONE"),
        ("openai/owl", True, "", ""),
    ]


async def test_the_configured_model_is_listed_although_its_server_does_not_run(tmp_path: Path) -> None:
    write_model(tmp_path, "openai/parrot", "http://127.0.0.1:9/v1")
    async with open_setup(tmp_path) as (_, setup):
        first = (await setup.list_models())[0]
    assert (first.config.name, first.origin, first.is_usable) == ("openai/parrot", "at 127.0.0.1:9/v1", True)


async def test_a_model_saved_with_and_without_its_provider_is_listed_once(tmp_path: Path) -> None:
    bare = ModelConfig(name="parrot", api_base="http://127.0.0.1:9/v1")
    async with open_setup(tmp_path) as (_, setup):
        await setup.toggle_favorite(bare)
        await setup.toggle_favorite(replace(bare, name="openai/parrot"))
        models = await setup.list_models()
    assert len([one for one in models if one.config.api_base]) == 1


@pytest.mark.parametrize("name", ["anthropic/claude-x", "openai/gpt-5"])
async def test_a_model_whose_key_variable_is_not_set_needs_that_key(tmp_path: Path, name: str) -> None:
    model = ModelConfig(name=name, api_key_env="OTHER_KEY")
    environ = {"ANTHROPIC_API_KEY": SECRET, "OPENAI_API_KEY": SECRET}
    async with open_setup(tmp_path, environ, MemoryBackend()) as (_, setup):
        await setup.toggle_favorite(model)
        first = (await setup.list_models())[0]
        assert await setup.api_keys.find_missing(model) == "OTHER_KEY"
    assert (first.config, first.is_usable, first.key_variable) == (model, False, "OTHER_KEY")


async def test_models_that_only_the_provider_lists_are_added_among_the_usable_ones(tmp_path: Path) -> None:
    answer = {"data": [{"id": "claude-new"}, {"id": "claude-sonnet-4-5"}]}
    with json_server({"GET /v1/models?limit=1000": answer}) as server:
        environ = {"ANTHROPIC_API_KEY": SECRET, "ANTHROPIC_API_BASE": server.url}
        async with open_setup(tmp_path, environ) as (_, setup):
            before = await setup.list_models()
            after = insert_usable_models(before, await setup.find_listed_models(before))
    added = [model for model in after if model not in before]
    assert [(model.config.name, model.origin) for model in added] == [
        ("anthropic/claude-new", "ANTHROPIC_API_KEY is set")
    ]
    at = after.index(added[0])
    assert after[at - 1].is_usable
    assert not after[at + 1].is_usable


async def test_the_server_of_a_model_of_ones_own_on_another_machine_is_asked_for_its_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_finder, "is_loopback", lambda url: False)  # the test may talk to this machine only
    model = ModelConfig(name="openai/parrot", api_key_env="GATEWAY_KEY", headers={"x-team": "birds"})
    listed = {"object": "list", "data": [{"id": "parrot"}, {"id": "owl"}, {"id": "text-embedding"}]}
    with json_server({"GET /v2/models": listed}) as server:
        model = replace(model, api_base=f"{server.url}/v2")
        async with open_setup(tmp_path, {"GATEWAY_KEY": SECRET}) as (_, setup):
            await setup.toggle_favorite(model)
            before = await setup.list_models()
            added = await setup.find_listed_models(before)
    assert [(one.config.name, one.config.api_base, one.key_variable, one.config.headers) for one in added] == [
        ("openai/owl", model.api_base, "GATEWAY_KEY", {"x-team": "birds"})
    ]
    assert all(one.is_usable for one in added)
    asked = [headers for _method, path, _body, headers in server.requests if path == "/v2/models"]
    assert len(asked) == 1
    assert "authorization" not in asked[0], "a key is sent over https only"
