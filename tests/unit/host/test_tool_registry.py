"""Tests that the tool names offered to the model are unique, whatever names the servers use."""

import re
from types import SimpleNamespace
from typing import Any

from mcphost.host.servers.catalog import ToolDefinition
from mcphost.host.servers.tool_registry import NAME_LIMIT, ToolRegistry
from mcphost.serialization import Raw


def ready_server(server: str, **words: str) -> Any:
    """Return a server that is ready; *words* maps the names of its tools to their descriptions."""
    tools = {
        name: ToolDefinition(name, Raw(f'{{"name":"{name}","description":"{said}"}}'.encode()))
        for name, said in words.items()
    }
    return SimpleNamespace(
        config=SimpleNamespace(name=server), is_ready=True, account="", listing=SimpleNamespace(tools=tools),
        tool_changes=SimpleNamespace(quarantined=frozenset[str](), is_quarantined=lambda _: False), tool=tools.get,
        tools=tools,
    )  # fmt: skip


def test_similar_names_are_distinguished_even_if_one_imitates_the_mark() -> None:
    alone = ToolRegistry(())
    alone.model_name("a b", "t")
    marked = alone.model_name("a.b", "t")
    toolbox = ToolRegistry(())
    # A third server's tool has the marked name of the second one's tool as its plain name.
    imitation = toolbox.model_name("a", marked.removeprefix("a_").removeprefix("_"))
    names = [
        toolbox.model_name("a_b", marked.removeprefix("a_b__")),
        toolbox.model_name("a b", "t"),
        toolbox.model_name("a.b", "t"),
    ]
    assert len({imitation, *names}) == 4
    assert names == [
        toolbox.model_name("a_b", marked.removeprefix("a_b__")),
        toolbox.model_name("a b", "t"),
        toolbox.model_name("a.b", "t"),
    ]


def test_long_names_fit_and_stay_apart() -> None:
    toolbox = ToolRegistry(())
    names = {toolbox.model_name("s", "x" * 100 + end) for end in "abc"}
    assert len(names) == 3
    assert all(len(name) <= NAME_LIMIT for name in names)


def test_names_begin_with_a_letter_or_an_underscore_as_providers_require() -> None:
    toolbox = ToolRegistry(())
    names = [toolbox.model_name(server, "get") for server in ("1mcp", "-x", "_y", "été", "z9")]
    assert names[:3] == ["_1mcp__get", "_-x__get", "_y__get"]
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in names)
    assert names[4] == "z9__get"


def test_tools_of_one_name_are_each_called_at_their_own_server() -> None:
    one, other = ready_server("one", add="of one"), ready_server("other", add="of the other")
    toolbox = ToolRegistry((one, other))
    offered = toolbox.available_tools()
    assert len(offered) == 2
    for name in offered:
        found = toolbox.resolve(name)
        assert found is not None
        assert found.connection is offered[name].connection
        assert found.definition.tool.description == offered[name].definition.tool.description


def test_an_offered_tool_stays_valid_only_while_it_is_listed_unchanged_and_enabled() -> None:
    server, off = ready_server("s", add="adds"), list[str]()
    toolbox = ToolRegistry((server,), lambda _, tool: "user" if tool in off else "")
    (offered,) = toolbox.available_tools().values()
    assert offered.is_current
    server.tools["add"] = ready_server("s", add="adds").tools["add"]
    assert offered.is_current, "listed anew as what it was"
    off.append("add")
    assert not offered.is_current
    off.clear()
    server.tools["add"] = ready_server("s", add="adds, and sends it away").tools["add"]
    assert not offered.is_current
    server.tools.clear()
    assert not offered.is_current


def test_the_names_of_a_removed_server_are_forgotten_unless_the_conversation_refers_to_them() -> None:
    first, other, later = ready_server("a b", x="", y=""), ready_server("a.b", z=""), ready_server("a_b", x="", y="")
    servers = [first, other]
    registry = ToolRegistry(servers)
    assert [offer.spec.name for offer in registry.list_offers()] == ["a_b__x", "a_b__y", "a_b__z"]
    servers[:] = [other, later]
    registry.forget_removed(lambda: {"a_b__y"})
    names = {(offer.server, offer.tool): offer.spec.name for offer in registry.list_offers()}
    assert names["a_b", "x"] == "a_b__x"
    assert names["a.b", "z"] == "a_b__z"
    assert names["a_b", "y"] not in ("a_b__x", "a_b__y", "a_b__z")
    assert registry.find_server("a_b__y") == "a b"
    assert registry.resolve("a_b__y") is None


def test_the_name_of_a_tool_is_kept_while_its_server_restarts_and_forgotten_once_it_is_not_listed() -> None:
    server, imitation = ready_server("a b", x="", y=""), ready_server("a_b", x="")
    registry = ToolRegistry([server, imitation])
    assert registry.model_name("a b", "x") == "a_b__x"
    server.is_ready = False
    registry.forget_removed(frozenset)
    assert registry.find_server("a_b__x") == "a b"
    server.is_ready = True
    del server.listing.tools["x"]
    registry.forget_removed(frozenset)
    assert registry.find_server("a_b__x") == ""
    assert registry.model_name("a_b", "x") == "a_b__x"
    assert registry.find_server("call_tool") == ""


def test_variation_selectors_that_spell_hidden_text_are_removed_from_descriptions_and_schemas() -> None:
    for text in ("\ufe01\ufe0f", "\\ufe01\\uFE0f", "\U000e0100"):
        schema = f'{{"properties":{{"a":{{"description":"Say{text}"}}}}}}'
        tool = ToolDefinition("t", Raw(f'{{"name":"t","description":"x{text}","inputSchema":{schema}}}'.encode()))
        server = ready_server("s")
        server.listing.tools["t"] = tool
        (offer,) = ToolRegistry([server]).list_offers()
        assert offer.spec.description == "x"
        assert b'"Say"' in bytes(offer.spec.schema)


def test_the_names_of_one_tool_are_found_without_looking_at_the_other_tools() -> None:
    asked: list[tuple[str, str]] = []

    def disabled_by(config: Any, tool: str) -> str:
        asked.append((config.name, tool))
        return "user" if config.name == "off" else ""

    starting, changed = ready_server("starting", add=""), ready_server("changed", add="")
    starting.is_ready = False
    changed.tool_changes.quarantined = frozenset({"add"})
    servers = [ready_server("one", add="", more=""), ready_server("off", add=""), ready_server("other", sub="")]
    registry = ToolRegistry([*servers, starting, changed], disabled_by)
    assert registry.find_names("add") == ["one__add"]
    assert asked == [("one", "add"), ("off", "add")]


def test_unknown_names_walk_the_tools_again_only_after_a_list_changed() -> None:
    class CountedTools(dict[str, ToolDefinition]):
        walks = 0

        def items(self) -> Any:
            self.walks += 1
            return super().items()

    server = ready_server("s", add="")
    server.listing.tools = tools = CountedTools(server.tools)
    servers = [server]
    registry = ToolRegistry(servers)
    assert [registry.resolve(f"s__{number}") for number in range(300)] == [None] * 300
    assert tools.walks == 1
    assert registry.resolve("s__add") is not None
    servers.append(ready_server("other", sub=""))
    assert registry.resolve("other__sub") is not None
    assert registry.resolve("other__mul") is None
    assert tools.walks == 2
