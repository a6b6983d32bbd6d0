"""Tests for profiles in config.toml: how they are parsed and selected, and what they change."""

import tomllib
from pathlib import Path

import pytest

from mcphost.config.loader import load_config
from mcphost.config.profiles import switch_model
from mcphost.config.schema import HostConfig, ModelConfig, Profile
from mcphost.config.settings import Overrides
from mcphost.config.settings_edits import change_profile, remove_profile, save_profile
from mcphost.errors import ConfigError, UsageError

SETTINGS = """
profile = "{chosen}"
system_prompt = "own"

[model]
name = "openai/gpt-5"
api_base = "https://proxy.example"
temperature = 1.0
headers = {{X-Key = "${{env:K}}"}}

[profiles.review]
description = "Careful"
model = "anthropic/claude-opus-4-5"
system_prompt = "You review."
servers = ["git"]

[profiles.cold.model]
temperature = 0

[profiles.moved.model]
api_base = "https://other.example"

[profiles.plain]
"""
SERVERS = '{"mcpServers": {"git": {"command": "git-mcp"}, "files": {"command": "files-mcp"}}}'


def load(home: Path, chosen: str = "", flag: str | None = None, **environ: str) -> HostConfig:
    (home / "config.toml").write_text(SETTINGS.format(chosen=chosen))
    (home / "mcp.json").write_text(SERVERS)
    return load_config(home, overrides=Overrides(profile=flag), environ=environ)


def test_a_profile_sets_model_prompt_and_servers(tmp_path: Path) -> None:
    config = load(tmp_path, flag="review")
    assert (config.profile, config.model, config.system_prompt) == (
        "review",
        ModelConfig(name="anthropic/claude-opus-4-5"),
        "You review.",
    )
    assert {server.name: server.disabled for server in config.servers} == {"git": False, "files": True}
    assert next(server for server in config.servers if server.name == "files").excluded_by == "review"
    assert config.problems == ()


def test_a_profile_without_a_name_of_a_model_changes_only_the_given_settings(tmp_path: Path) -> None:
    model = load(tmp_path, flag="cold").model
    assert (model.name, model.temperature, model.api_base) == ("openai/gpt-5", 0, "https://proxy.example")
    assert model.headers == {"X-Key": "${env:K}"}


def test_headers_written_for_one_address_are_not_sent_to_another(tmp_path: Path) -> None:
    model = load(tmp_path, flag="moved").model
    assert (model.api_base, model.headers) == ("https://other.example", {})


def test_an_empty_profile_changes_nothing(tmp_path: Path) -> None:
    plain, none = load(tmp_path, flag="plain"), load(tmp_path, flag="")
    assert (plain.model, plain.system_prompt, plain.servers) == (none.model, none.system_prompt, none.servers)


@pytest.mark.parametrize(
    ("chosen", "flag", "environ", "used"),
    [
        ("review", None, {}, "review"),
        ("review", None, {"MCPHOST_PROFILE": "cold"}, "cold"),
        ("review", "plain", {"MCPHOST_PROFILE": "cold"}, "plain"),
        ("review", "", {"MCPHOST_PROFILE": "cold"}, ""),
        ("", None, {}, ""),
    ],
)
def test_the_flag_precedes_the_environment_and_that_the_file(
    tmp_path: Path, chosen: str, flag: str | None, environ: dict[str, str], used: str
) -> None:
    assert load(tmp_path, chosen, flag, **environ).profile == used


def test_an_unknown_profile_of_the_flag_is_an_error_that_lists_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no profile 'previews'.*review, cold, moved, plain"):
        load(tmp_path, flag="previews")
    with pytest.raises(UsageError, match="has no profile"):
        load(tmp_path, MCPHOST_PROFILE="x")


def test_an_unknown_profile_of_the_file_is_a_problem_and_none_is_used(tmp_path: Path) -> None:
    config = load(tmp_path, "gone")
    assert config.profile == ""
    assert "has no profile 'gone'" in config.problems[0]


def test_unknown_servers_and_wrong_values_of_a_profile_are_reported(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[profiles.a]\nservers = ["gone", "\\u202e"]\nmodl = "x"\n[profiles.b]\nservers = "git"\nmodel = 3\n'
    )
    config = load_config(tmp_path, overrides=Overrides(profile="a"))
    text = "\n".join(config.problems)
    assert "profiles.a.modl" in text
    assert "profiles.b.servers" in text
    assert "profiles.b.model" in text
    assert "not configured: gone, " in text
    assert "\u202e" not in text


def test_at_most_a_hundred_profiles_count(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("".join(f"[profiles.p{number}]\n" for number in range(150)))
    config = load_config(tmp_path)
    assert len(config.profiles) == 100
    assert "150 profiles" in config.problems[0]


def test_another_model_of_a_provider_keeps_the_address_and_of_another_provider_does_not() -> None:
    model = ModelConfig(
        name="openai/a",
        api_base="https://x.example",
        context_window=9,
        input_price=2.0,
        output_price=4.0,
        tools="never",
    )
    assert switch_model(model, "openai/b") == ModelConfig(name="openai/b", api_base="https://x.example")
    assert switch_model(model, "gemini/b") == ModelConfig(name="gemini/b")
    assert switch_model(model, "openai/a") is model


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine\n[model]\nname = 'demo'\n",
        "[profiles.old]\nservers = []  # few\n",
        "profiles.old.description = 'x'\n",
    ],
)
def test_a_new_profile_is_saved_and_everything_else_stays(tmp_path: Path, before: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(before)
    model = ModelConfig(name="openai/x", temperature=0.5, headers={"X-A": "${env:A}"})
    profile = Profile(name="my own", description="Careful", model=model, system_prompt="One\ntwo.", servers=("git",))
    save_profile(path, profile)
    config = load_config(tmp_path, environ={})
    assert config.problems == ()
    assert next(one for one in config.profiles if one.name == "my own") == profile
    after = tomllib.loads(path.read_text())
    del after["profiles"]["my own"]
    assert {name: value for name, value in after.items() if value} == tomllib.loads(before)
    for comment in ("# mine", "# few"):
        assert path.read_text().count(comment) == before.count(comment)
    with pytest.raises(ConfigError, match="cannot be changed safely") as caught:
        save_profile(path, profile)
    assert "[profiles.my own]" in caught.value.hint


def test_a_new_profile_may_leave_everything_unchanged(tmp_path: Path) -> None:
    save_profile(tmp_path / "config.toml", Profile(name="plain"))
    assert load_config(tmp_path, environ={}).profiles == (Profile(name="plain"),)


EDITED = """# mine
profile = "review"  # by default

[profiles.review]  # strict
description = "Old"
model = {name = "openai/x", temperature = 0.5}  # cheap
servers = ["git"]
other = 1

[profiles.quick]
system_prompt = "Be quick."
"""


def test_a_profile_is_changed_and_its_model_and_comments_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(EDITED)
    change_profile(path, Profile(name="review", description="New", system_prompt="Be strict.", servers=None))
    text = path.read_text()
    wanted = {"description": "New", "model": {"name": "openai/x", "temperature": 0.5}, "other": 1}
    assert tomllib.loads(text)["profiles"]["review"] == {**wanted, "system_prompt": "Be strict."}
    assert [comment for comment in ("# mine", "# by default", "# strict", "# cheap") if comment not in text] == []
    change_profile(path, Profile(name="review", servers=()))
    assert tomllib.loads(path.read_text())["profiles"]["review"] == {
        "model": wanted["model"], "other": 1, "servers": [],
    }  # fmt: skip
    with pytest.raises(ConfigError, match="cannot be changed safely"):
        change_profile(path, Profile(name="none"))


@pytest.mark.parametrize(
    "text", [EDITED, "profiles.review.description = 'x'\n", "[profiles]\nreview = {servers = []}\n"]
)
def test_a_removed_profile_takes_its_selection_with_it_and_nothing_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    remove_profile(path, "review")
    left = tomllib.loads(path.read_text())
    assert {name: value for name, value in left.items() if value} == (
        {"profiles": {"quick": {"system_prompt": "Be quick."}}} if text == EDITED else {}
    )
    assert ("# mine" in path.read_text()) == (text == EDITED)
    assert load_config(tmp_path, environ={}).profile == ""
    with pytest.raises(ConfigError, match="cannot be changed safely"):
        remove_profile(path, "review")


NEIGHBOURS = """[profiles.review]
description = "Old"
system_prompt = '''
Line 1
Line 2'''

# The limits of my laptop
[limits]
max_rounds = 3

# Much slower
[profiles.quick.model]
name = "openai/x"
"""


def test_a_value_added_to_a_profile_leaves_the_comment_of_the_next_table_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text(NEIGHBOURS)
    change_profile(path, Profile(name="review", description="New", system_prompt="Line 1\nLine 2", servers=("git",)))
    before, after = NEIGHBOURS.split("\n# The limits")
    changed = before.replace("Old", "New") + 'servers = ["git"]\n'
    assert path.read_text() == f"{changed}\n# The limits{after}"


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_removed_profile_leaves_the_comment_of_the_next_table(tmp_path: Path, end: str) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(NEIGHBOURS.replace("\n", end).encode())
    remove_profile(path, "review")
    rest = NEIGHBOURS[NEIGHBOURS.index("# The limits") :]
    assert path.read_bytes().decode().lstrip() == rest.replace("\n", end)
    remove_profile(path, "quick")
    limits = "The limits of my laptop\n[limits]\nmax_rounds = 3\n\n"
    assert path.read_text().split("# ")[1:] == [limits, "Much slower\n"]


def test_a_line_of_a_text_that_looks_like_a_table_is_not_taken_for_one(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    text = "[profiles.a]\nsystem_prompt = '''\n[profiles.b]\nsay = 1\n'''\n\n[profiles.b]\ndescription = 'x'\n"
    path.write_text(text)
    change_profile(path, Profile(name="b", description="New"))
    assert path.read_text() == text.replace("'x'", '"New"')
    remove_profile(path, "b")
    assert tomllib.loads(path.read_text()) == {"profiles": {"a": {"system_prompt": "[profiles.b]\nsay = 1\n"}}}
