"""Tests for finding model servers on this machine, with their documented responses over real HTTP."""

import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from mcphost.config.schema import ModelConfig
from mcphost.llm.local_servers import (
    LocalAddress,
    LocalModel,
    find_local_servers,
    list_addresses,
    load_model_details,
)
from tests.fakes.json_server import json_server

pytestmark = pytest.mark.anyio

OLLAMA: dict[str, Any] = {  # https://docs.ollama.com/api
    "GET /api/version": {"version": "0.12.6"},
    "GET /api/tags": {"models": [{"name": "qwen3:8b", "model": "qwen3:8b", "size": 5_200_000_000}, {"name": "tiny"}]},
}
LM_STUDIO: dict[str, Any] = {  # https://lmstudio.ai/docs/developer/rest
    "GET /api/v0/models": {
        "object": "list",
        "data": [
            {
                "id": "qwen2-vl-7b-instruct", "type": "vlm", "state": "loaded", "max_context_length": 32_768,
                "loaded_context_length": 4_096, "capabilities": ["tool_use"],
            },
            {"id": "nomic-embed", "type": "embeddings", "state": "not-loaded", "max_context_length": 2_048},
            {"id": "old", "type": "llm", "state": "not-loaded", "max_context_length": 8_192},
        ],
    }
}  # fmt: skip
LLAMA_CPP: dict[str, Any] = {  # llama.cpp, tools/server/README.md
    "GET /props": {
        "default_generation_settings": {"n_ctx": 16_384},
        "chat_template": "{% if tools %}…{% endif %}",
        "modalities": {"vision": False, "audio": False},
    },
    "GET /v1/models": {"object": "list", "data": [{"id": "gemma-3-4b", "owned_by": "llamacpp"}]},
}
VLLM: dict[str, Any] = {
    "GET /v1/models": {
        "object": "list",
        "data": [{"id": "meta-llama/Llama-3.1-8B", "owned_by": "vllm", "max_model_len": 131_072}],
    }
}


@contextmanager
def silent_listener() -> Generator[str]:
    """Listen on a port without ever answering; yield the URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


@pytest.mark.parametrize(
    ("answers", "kind", "models"),
    [
        (OLLAMA, "ollama", (LocalModel(id="qwen3:8b"), LocalModel(id="tiny"))),
        (
            LM_STUDIO,
            "lm_studio",
            (
                LocalModel(id="qwen2-vl-7b-instruct", context_window=4_096, supports_tools=True, supports_images=True),
                LocalModel(id="old", context_window=8_192, supports_images=False),
            ),
        ),
        (
            LLAMA_CPP,
            "llama_cpp",
            (LocalModel(id="gemma-3-4b", context_window=16_384, supports_tools=True, supports_images=False),),
        ),
        (VLLM, "vllm", (LocalModel(id="meta-llama/Llama-3.1-8B", context_window=131_072),)),
        (
            {"GET /v1/models": {"object": "list", "data": [{"id": "any"}]}},
            "openai_compatible",
            (LocalModel(id="any"),),
        ),
    ],
    ids=["Ollama", "LM Studio", "llama.cpp", "vLLM", "other"],
)
async def test_a_server_is_identified_by_its_own_api_at_any_port(
    answers: dict[str, Any], kind: str, models: tuple[LocalModel, ...]
) -> None:
    with json_server(answers) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
    assert (found.kind, found.url, found.models) == (kind, server.url, models)


async def test_a_slow_server_and_a_closed_port_do_not_hide_the_others() -> None:
    with json_server(OLLAMA) as ollama, json_server(VLLM) as vllm, silent_listener() as silent:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            closed = f"http://127.0.0.1:{probe.getsockname()[1]}"
        addresses = [LocalAddress(url) for url in (silent, ollama.url, closed, vllm.url)]
        found = await find_local_servers(addresses, seconds=2)
    assert [server.kind for server in found] == ["ollama", "vllm"]


@pytest.mark.parametrize(
    "answer",
    [
        b"<html>",
        b"[" * 100_000,
        {"version": 3},
        [],
        302,
        500,
        b'{"version": "' + b"x" * 2_000_000 + b'"}',
    ],
    ids=["HTML", "deep", "number", "list", "redirect", "error", "too large"],
)
async def test_other_programs_at_the_port_are_left_out(answer: Any) -> None:
    paths = ("/api/version", "/api/v0/models", "/props", "/v1/models")
    with json_server({f"GET {path}": answer for path in paths}) as server:
        assert await find_local_servers([LocalAddress(server.url)], seconds=10) == ()


async def test_names_that_cannot_be_shown_as_they_are_are_left_out() -> None:
    names = ["good", "bad\x1b[31m", "hidden\u202e", "", "x" * 201, 7, None, "line\nbreak"]
    answers = {**OLLAMA, "GET /api/tags": {"models": [{"model": name} for name in names]}}
    with json_server(answers) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
    assert [model.id for model in found.models] == ["good"]


async def test_finding_sends_only_get_requests() -> None:
    with json_server({}) as server:
        await find_local_servers([LocalAddress(server.url)], seconds=10)
    assert server.paths
    assert {path.partition(" ")[0] for path in server.paths} == {"GET"}


async def test_ollama_tells_the_context_size_and_abilities_of_each_model() -> None:
    shown = {
        "model_info": {"general.architecture": "qwen3", "qwen3.context_length": 40_960},
        "capabilities": ["completion", "tools", "thinking"],
    }
    with json_server({**OLLAMA, "POST /api/show": shown}) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
        detailed = await load_model_details(found, seconds=10)
    expected = LocalModel(
        id="qwen3:8b",
        context_window=32_768,
        max_context_window=40_960,
        can_chat=True,
        supports_tools=True,
        supports_images=False,
        supports_reasoning=True,
    )
    assert detailed.models[0] == expected
    asked = [request[2]["model"] for request in server.requests if request[0] == "POST"]
    assert sorted(asked) == ["qwen3:8b", "tiny"]


@pytest.mark.parametrize(
    ("capabilities", "chats"),
    [(["embedding"], False), (["completion", "embedding"], True), (["tools"], True), (None, True)],
)
async def test_a_model_that_only_embeds_text_is_no_chat_model(capabilities: list[str] | None, chats: bool) -> None:
    answers = {
        "GET /api/version": {"version": "0.12.6"},
        "GET /api/tags": {"models": [{"model": "bge-m3"}]},
        "POST /api/show": {"capabilities": capabilities, "model_info": {}},
    }
    with json_server(answers) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
        detailed = await load_model_details(found, seconds=10)
    assert [model.id for model in detailed.chat_models] == (["bge-m3"] if chats else [])


async def test_without_capabilities_the_name_tells_that_a_model_embeds_text() -> None:
    listed = [{"id": "nomic-embed-text"}, {"id": "owl"}]
    with json_server({"GET /v1/models": {"object": "list", "data": listed}}) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
    assert [model.id for model in found.chat_models] == ["owl"]


async def test_models_without_details_keep_their_unknown_values() -> None:
    with json_server({**OLLAMA, "POST /api/show": 404}) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
        assert await load_model_details(found, seconds=10) == found


@pytest.mark.parametrize(
    ("answers", "name", "path"),
    [
        (OLLAMA, "ollama_chat/qwen3:8b", ""),
        (LM_STUDIO, "lm_studio/qwen2-vl-7b-instruct", "/v1"),
        (LLAMA_CPP, "openai/gemma-3-4b", "/v1"),
        (VLLM, "hosted_vllm/meta-llama/Llama-3.1-8B", "/v1"),
    ],
    ids=["Ollama", "LM Studio", "llama.cpp", "vLLM"],
)
async def test_a_found_model_becomes_settings_for_litellm(answers: dict[str, Any], name: str, path: str) -> None:
    with json_server(answers) as server:
        (found,) = await find_local_servers([LocalAddress(server.url)], seconds=10)
    config = found.model_config(found.models[0])
    assert (config.name, config.api_base) == (name, f"{server.url}{path}")
    assert config.context_window == found.models[0].context_window


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("127.0.0.1:9999", "http://127.0.0.1:9999"),
        ("localhost", "http://localhost:11434"),
        ("0.0.0.0:5000", "http://127.0.0.1:5000"),
        (":7000", "http://127.0.0.1:7000"),
        ("http://localhost:8080/", "http://localhost:8080"),
        ("[::1]:9", "http://[::1]:9"),
        ("[::1]", "http://[::1]:11434"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(host: str, url: str) -> None:
    assert list_addresses({"OLLAMA_HOST": host})[0].url == url


@pytest.mark.parametrize(
    "url", ["http://192.168.1.4:11434", "https://ollama.example", "http://[::ffff:8.8.8.8]:80", "http://[bad"]
)
def test_addresses_on_other_machines_are_never_asked(url: str) -> None:
    own = [ModelConfig(name="openai/a", api_base=url)]
    assert url not in [address.url for address in list_addresses({"OLLAMA_HOST": url}, own)]
    assert len(list_addresses({"OLLAMA_HOST": url}, own)) == 3


async def test_the_usual_addresses_of_the_four_servers_are_asked_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [(address.url.rpartition(":")[2], address.kind) for address in list_addresses({})] == [
        ("11434", "ollama"),
        ("1234", "lm_studio"),
        ("8080", "llama_cpp"),
        ("8000", "vllm"),
    ]
    limits: list[float] = []
    move_on_after = anyio.move_on_after

    def record_limit(delay: float) -> anyio.CancelScope:
        limits.append(delay)
        return move_on_after(delay)

    monkeypatch.setattr(anyio, "move_on_after", record_limit)
    with silent_listener() as first, silent_listener() as second:
        assert await find_local_servers([LocalAddress(first), LocalAddress(second)]) == ()
    assert limits == [0.3]


def test_addresses_of_the_settings_are_added_once() -> None:
    more = ["http://localhost:9000/v1", "http://127.0.0.1:1234/v1", "http://localhost:11434"]
    addresses = list_addresses({}, [ModelConfig(name="openai/a", api_base=url) for url in more])
    assert [address.url for address in addresses].count("http://127.0.0.1:1234") == 1
    assert "http://localhost:11434" not in [address.url for address in addresses]
    assert LocalAddress("http://localhost:9000") in addresses


async def test_a_key_is_sent_only_to_the_address_that_names_it_and_only_for_its_list() -> None:
    listed = {"object": "list", "data": [{"id": "parrot"}]}
    keys = {"MY_KEY": "secret-of-mine"}
    with json_server({}) as locked, json_server({}) as other:
        is_known = lambda: locked.requests[-1][3].get("authorization") == "Bearer secret-of-mine"  # noqa: E731
        locked.answers["GET /v1/models"] = lambda _: listed if is_known() else 401
        own = ModelConfig(name="openai/parrot", api_base=f"{locked.url}/v1", api_key_env="MY_KEY")
        addresses = [
            one for one in list_addresses({"OLLAMA_HOST": other.url}, [own]) if one.url in (locked.url, other.url)
        ]
        (found,) = await find_local_servers(addresses, keys, seconds=10)
        assert found.model_config(found.models[0]) == own
        with_key = [request[1] for request in locked.requests if "authorization" in request[3]]
        assert with_key == ["/v1/models"]
        assert not any("authorization" in request[3] for request in other.requests)
        assert await find_local_servers(addresses, seconds=10) == (), "without its key, it is not listed"


def test_a_key_stays_with_the_spelling_of_the_address_that_names_it() -> None:
    own = ModelConfig(name="openai/a", api_base="http://localhost:8000/v1", api_key_env="MY_KEY")
    (address,) = [one for one in list_addresses({}, [own]) if one.url.endswith(":8000")]
    assert address.url == "http://127.0.0.1:8000"
    assert address.keys == (("http://localhost:8000", "MY_KEY"),)


async def test_a_server_that_lists_its_models_without_a_key_is_sent_none_and_gets_none() -> None:
    with json_server({"GET /v1/models": {"object": "list", "data": [{"id": "parrot"}]}}) as server:
        own = ModelConfig(name="openai/parrot", api_base=f"{server.url}/v1", api_key_env="MY_KEY")
        addresses = [one for one in list_addresses({}, [own]) if one.url == server.url]
        (found,) = await find_local_servers(addresses, {"MY_KEY": "secret-of-mine"}, seconds=10)
        assert found.model_config(found.models[0]).api_key_env == ""
        assert not any("authorization" in request[3] for request in server.requests)


async def test_the_keys_that_several_models_name_for_one_address_are_tried_in_order() -> None:
    names = ["GONE", "OLD_KEY", "", "OLD_KEY", "MY_KEY", "SPARE_KEY"]
    keys = {"OLD_KEY": "old-secret", "MY_KEY": "my-secret", "SPARE_KEY": "spare-secret", "OTHER_KEY": "other-secret"}
    with json_server({}) as server:
        listed = {"object": "list", "data": [{"id": "parrot"}]}
        sent = lambda: [request[3]["authorization"] for request in server.requests if "authorization" in request[3]]  # noqa: E731
        server.answers["GET /v1/models"] = lambda _: listed if sent()[-1:] == ["Bearer my-secret"] else 401
        own = [ModelConfig(name="openai/a", api_base=f"{server.url}/v1", api_key_env=name) for name in names]
        addresses = [one for one in list_addresses({}, own) if one.url == server.url]
        (found,) = await find_local_servers(addresses, keys, seconds=10)
        assert found.api_key_env == "MY_KEY"
        assert sent() == ["Bearer old-secret", "Bearer my-secret"]
