"""Tests for settings from config.toml, the environment and flags: which one wins, and which problems are reported."""

import os
import re
import tomllib
from pathlib import Path

import pytest

from mcphost.config.loader import find_file_problem, load_config
from mcphost.config.rule_syntax import format_rule
from mcphost.config.schema import BudgetConfig, HostConfig, Limits, ModelConfig
from mcphost.config.settings import Overrides
from mcphost.config.settings_edits import add_secret_store, save_model, save_secret_store
from mcphost.errors import ConfigError
from tests.parsed_settings import parse_settings


def read_settings(folder: Path, text: str, **more: str) -> HostConfig:
    (folder / "config.toml").write_text(text, encoding="utf-8")
    return load_config(folder, environ=more)


@pytest.mark.req("ping.send")
def test_everything_that_can_be_set(tmp_path: Path) -> None:
    config = read_settings(
        tmp_path,
        """
theme = "dark"
system_prompt = "Be brief."
[model]
name = "openai/x"
api_base = "http://127.0.0.1:1"
api_key_env = "MY_KEY"
api = "responses"
reasoning_effort = "low"
context_window = 1000
max_output_tokens = 100
[limits]
request_timeout = 1.5
request_timeout_max = 3
task_timeout = 7
connect_timeout = 2
ping_interval = 0
max_rounds = 4
parallel_calls = 5
tools_to_model = 6
[budget]
ask_above = 0.25
per_turn = 1
per_conversation = 5
per_day = 10.5
show_in_answers = false
""",
    )
    assert config == HostConfig(
        settings_file=str(tmp_path / "config.toml"),
        theme="dark", system_prompt="Be brief.",
        model=ModelConfig(
            name="openai/x", api_base="http://127.0.0.1:1", api_key_env="MY_KEY", api="responses",
            reasoning_effort="low", context_window=1000, max_output_tokens=100,
        ),
        limits=Limits(
            request_timeout=1.5, request_timeout_max=3, connect_timeout=2, max_rounds=4, parallel_calls=5,
            tools_to_model=6, task_timeout=7, ping_interval=0,
        ),
        budget=BudgetConfig(ask_above=0.25, per_turn=1, per_conversation=5, per_day=10.5, show_in_answers=False),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("theme = 5", '"theme" is a number, not text'),
        ("theem = 'x'", 'did you mean "theme"'),
        ("[model]\nnmae = 'x'", 'did you mean "model.name"'),
        ("[model]\napi = 'soap'", "auto, chat, responses"),
        ("[limits]\nmax_rounds = 'many'", '"limits.max_rounds" is text'),
        ("[limits]\nmax_rounds = 0", "not between 1 and 1000"),
        ("[limits]\nmax_rounds = 4.5", "is a number, not a whole number; the default (25) is used"),
        ("[limits]\nincludes_user_time = true", '"limits.includes_user_time" is unknown'),
        ("[limits]\nrequest_timeout = nan", "not between"),
        ("[limits]\nrequest_timeout = true", "is true or false"),
        ("limits = 3", "write [limits]"),
        ("system_prompt = '" + "x" * 200_001 + "'", "over 200000 characters"),
    ],
)
def test_wrong_value_is_named_and_its_default_used(tmp_path: Path, text: str, message: str) -> None:
    config = read_settings(tmp_path, text)
    assert len(config.problems) == 1
    assert message in config.problems[0]
    assert str(tmp_path / "config.toml") in config.problems[0]
    assert config.limits == Limits()


def test_file_that_is_not_toml_is_named_with_its_place(tmp_path: Path) -> None:
    assert "line 2, column 1" in read_settings(tmp_path, "theme = 'a'\n=\n").problems[0]
    assert "not valid TOML" in read_settings(tmp_path, "a = " + "[" * 10_000).problems[0]


def test_the_environment_overrides_the_file_and_flags_override_both(tmp_path: Path) -> None:
    config = read_settings(
        tmp_path, "[model]\nname = 'openai/a'", MCPHOST_MODEL="openai/b", MCPHOST_API_BASE="http://b"
    )
    assert (config.model.name, config.model.api_base) == ("openai/b", "http://b")
    config = load_config(
        tmp_path,
        environ={"MCPHOST_MODEL": "openai/b"},
        overrides=Overrides(model="openai/c", api_base="http://c", api_key_env="C_KEY"),
    )
    assert (config.model.name, config.model.api_base, config.model.api_key_env) == ("openai/c", "http://c", "C_KEY")


def test_url_and_key_of_one_provider_are_never_used_for_another(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[model]\nname = 'openai/a'\napi_base = 'http://a'\napi_key_env = 'A_KEY'")
    other = load_config(tmp_path, overrides=Overrides(model="anthropic/b")).model
    assert (other.api_base, other.api_key_env) == ("", "")
    same = load_config(tmp_path, overrides=Overrides(model="openai/b")).model
    assert (same.api_base, same.api_key_env) == ("http://a", "A_KEY")


def test_timeout_flag_is_the_hard_limit_of_every_request(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": "y", "mcphost": {"timeout": 100}}}}')
    config = load_config(tmp_path, overrides=Overrides(timeout=5))
    assert (config.limits.request_timeout, config.limits.request_timeout_max) == (5, 5)
    assert (config.limits.connect_timeout, config.limits.task_timeout) == (5, 5)
    assert config.servers[0].timeout is None


def test_era_and_rounds_of_the_command_line_win(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": "y", "mcphost": {"era": "stateless"}}}}')
    config = load_config(tmp_path, overrides=Overrides(era="handshake", max_rounds=3))
    assert config.servers[0].era == "handshake"
    assert config.limits.max_rounds == 3


@pytest.mark.req("life.era.user-override")
def test_an_era_on_the_command_line_overrides_a_demanded_revision(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text('{"mcpServers": {"x": {"command": "c", "mcphost": {"revision": "2025-06-18"}}}}')
    (plain,) = load_config(tmp_path, environ={}).servers
    (forced,) = load_config(tmp_path, environ={}, overrides=Overrides(era="stateless")).servers
    assert (plain.revision, plain.era) == ("2025-06-18", "auto")
    assert (forced.revision, forced.era) == (None, "stateless")


def test_the_never_list_is_read_as_rules(tmp_path: Path) -> None:
    config = read_settings(tmp_path, '[consent]\nnever = ["fs/delete*", "git/push?force=true"]\n')
    assert config.problems == ()
    texts = [format_rule(rule) for rule in config.never_rules]
    # A server's name may contain a slash: a forbidden call is forbidden in every reading.
    assert texts == ["fs/delete*", "git/push?force=true", "git%2Fpush?force=true"]


@pytest.mark.parametrize(
    "text",
    [
        '[consent]\nnever = ["fs/t?n"]\n',
        '[consent]\nnever = "fs"\n',
        "[consent]\nnever = [5]\n",
        '[consent]\nnever = ["fs"\n',
        '[consent]\nnever = ["fs"]\n[model\n',
        "\xff never",
    ],
)
def test_a_never_list_that_cannot_be_read_ends_the_start(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load_config(tmp_path)


@pytest.mark.parametrize(
    "raw",
    [
        b'[consent]\norigins = "ask"\n[model\n',
        '[consent]\nnever = ["fs"]\n'.encode("utf-16"),
        b'[consent]\nnever = ["fs"]\n#' + b"x" * 256_000,
    ],
    ids=["origins", "utf-16", "too large"],
)
def test_a_file_that_may_forbid_calls_and_cannot_be_read_ends_the_start(tmp_path: Path, raw: bytes) -> None:
    (tmp_path / "config.toml").write_bytes(raw)
    with pytest.raises(ConfigError, match=r"config\.toml"):
        load_config(tmp_path)


def test_results_are_not_deleted_earlier_while_the_file_that_says_when_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[results]\ndays = 365\n[model\n")
    results = load_config(tmp_path).results
    assert (results.days, results.megabytes) == (36_500, 1_000_000)


def test_a_settings_path_that_is_no_file_ends_the_start(tmp_path: Path) -> None:
    (tmp_path / "config.toml").symlink_to("config.toml")
    with pytest.raises(ConfigError, match="loop of symbolic links"):
        load_config(tmp_path)


def test_a_key_that_is_like_no_known_one_is_not_taken_for_a_typo(tmp_path: Path) -> None:
    (problem,) = read_settings(tmp_path, "[nonsense]\nx = 1\n").problems
    assert "it does nothing" in problem


@pytest.mark.parametrize(
    "before",
    [
        "",
        "# mine",
        'theme = "x" # why\n',
        '[model]\nname = "a/b"\r\n',
        "[secrets]",
        "[ secrets ] # here\nother = 1\n[model]\n",
    ],
)
def test_a_choice_is_saved_in_the_settings_and_nothing_else_changes(before: str) -> None:
    after = add_secret_store(before, "file")
    assert tomllib.loads(after)["secrets"]["store"] == "file"
    added = [] if "secrets" in before else ["[secrets]"]
    assert after.replace('store = "file"', "").split() == [*before.split(), *added]
    assert parse_settings(after, "c", [].append).secret_store == "file"


@pytest.mark.parametrize(
    "before",
    [
        '[secrets]\nstore = "keyring"',
        "secrets = 1\n",
        "not toml",
    ],
)
def test_a_choice_is_not_written_where_that_could_change_more(before: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        add_secret_store(before, "file")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("secrets.a = 1\nb = 2\n", 'secrets.a = 1\nsecrets.store = "file"\nb = 2\n'),
        ("secrets = {}\n", 'secrets = {store = "file"}\n'),
        (
            '[model]\nname = """\n[secrets]\n"""\n',
            '[model]\nname = """\n[secrets]\n"""\n\n[secrets]\nstore = "file"\n',
        ),
    ],
)
def test_a_choice_is_saved_however_the_table_is_written(before: str, after: str) -> None:
    assert add_secret_store(before, "file") == after


def test_the_settings_file_is_private_and_never_written_through_a_link(tmp_path: Path) -> None:
    path = tmp_path / "config" / "config.toml"
    save_secret_store(path, "encrypted")
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ConfigError, match="cannot be changed") as exc_info:
        save_secret_store(path, "file")
    assert 'store = "file"' in exc_info.value.hint
    path.rename(tmp_path / "dotfile")
    path.symlink_to(tmp_path / "dotfile")
    with pytest.raises(ConfigError, match="symbolic link"):
        save_secret_store(path, "file")


def test_an_unknown_place_for_secrets_is_named() -> None:
    problems: list[str] = []
    assert parse_settings('[secrets]\nstore = "paper"\nstor = 1', "c", problems.append).secret_store == ""
    assert len(problems) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("".join(f"k{n} = 1\n" for n in range(8_000)), "c: more than 12,000 keys, values, lines and escapes"),
        ('system_prompt = "' + "\\n" * 13_000 + '"', "c: more than 12,000 keys"),
        ("a." * 100 + "a = 1", "c: a key of more than 50 parts"),
        ("[" + "a." * 100 + "a]", "c: a key of more than 50 parts"),
        ("a = {" + "a." * 100 + "a = 1}", "c: a key of more than 50 parts"),
    ],
)
def test_a_file_that_would_take_long_to_parse_is_refused_by_its_name(text: str, message: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        parse_settings(text, "c", [].append)
    assert message in exc_info.value.message


def test_a_long_prompt_is_no_long_key() -> None:
    prompt = "A sentence. " * 5_000
    assert parse_settings(f'system_prompt = "{prompt}"', "c", [].append).system_prompt == prompt


def test_the_first_of_very_many_unknown_keys_are_named_and_the_others_counted() -> None:
    problems: list[str] = []
    parse_settings("".join(f"k{n} = 1\n" for n in range(500)), "c", problems.append)
    assert len(problems) == 21
    assert problems[-1] == "c: 480 more keys are unknown."


@pytest.mark.parametrize("table", ["audit", "ledger"])
def test_the_audit_table_is_read_by_its_name_and_by_the_former_one(table: str, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(f"[{table}]\nrequired = true\n")
    config = load_config(tmp_path)
    assert config.audit.required
    assert config.problems == ()


@pytest.mark.parametrize(
    "before",
    [
        "",
        'theme = "x"\n',
        "# mine\n[limits]\nmax_rounds = 3 # few\n",
        'model = "openai/old"\ntheme = "x"\n[limits]\nmax_rounds = 3\n',
        '[model] # which\nname = "openai/old" # n\napi_base = "http://localhost:1"\ncontext_window = 5\n\n[limits]\n',
        'model = {name = "openai/old"}\ntheme = "x"\n',
        'model.name = "openai/old"\ntheme = "x"\n',
    ],
)
def test_a_chosen_model_is_saved_and_everything_else_stays(before: str, tmp_path: Path) -> None:
    path = tmp_path / "config" / "config.toml"
    if before:
        path.parent.mkdir()
        path.write_text(before)
    save_model(path, ModelConfig(name="ollama_chat/qwen3", api_base="http://127.0.0.1:11434"))
    after = tomllib.loads(path.read_text())
    assert after.pop("model") == {"name": "ollama_chat/qwen3", "api_base": "http://127.0.0.1:11434"}
    expected = tomllib.loads(before)
    expected.pop("model", None)
    assert after == expected
    for comment in ("# mine", "# few", "# which"):
        assert path.read_text().count(comment) == before.count(comment)
    assert load_config(path.parent, environ={}).model.api_base == "http://127.0.0.1:11434"


def test_a_model_is_saved_with_its_parameters_and_headers_and_they_go_with_the_next_one(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("# mine\n[limits]\nmax_rounds = 3\n")
    model = ModelConfig(
        name="openai/x",
        temperature=0.5,
        top_p=1.0,
        tools="never",
        headers={"X-A": "${env:A}"},
        input_price=2.0,
        output_price=4.0,
    )
    save_model(path, model)
    assert load_config(tmp_path, environ={}).model == model
    save_model(path, ModelConfig(name="openai/y"))
    assert load_config(tmp_path, environ={}).model == ModelConfig(name="openai/y")
    assert "# mine" in path.read_text()


def test_headers_written_for_one_address_are_not_sent_to_another(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[model]\nname = 'openai/a'\napi_base = 'http://a'\nheaders = {X-A = 'b'}")
    assert load_config(tmp_path, environ={}).model.headers == {"X-A": "b"}
    for overrides in (Overrides(api_base="http://b"), Overrides(model="anthropic/c")):
        assert load_config(tmp_path, environ={}, overrides=overrides).model.headers == {}


def test_a_key_variable_for_one_address_is_not_used_for_another(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        "[model]\nname = 'openai/a'\napi_base = 'https://a'\napi_key_env = 'CORP_KEY'"
    )
    for base, key in (("https://a", "CORP_KEY"), ("http://b", "")):
        model = load_config(tmp_path, environ={"MCPHOST_API_BASE": base}).model
        assert (model.api_base, model.api_key_env) == (base, key)
    overrides = Overrides(api_base="http://b", api_key_env="OTHER_KEY")
    assert load_config(tmp_path, environ={}, overrides=overrides).model.api_key_env == "OTHER_KEY"


def test_settings_that_are_not_valid_are_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_text("[model\n")
    with pytest.raises(ConfigError) as exc_info:
        save_model(path, ModelConfig(name="demo"))
    assert "name = 'demo'" in exc_info.value.hint
    assert path.read_text() == "[model\n"


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("per_day = -1", '"budget.per_day" is not between 0 and 1000000.'),
        ('per_turn = "1"', '"budget.per_turn" is text, not a number.'),
        ("ask_above = nan", '"budget.ask_above" is not between 0 and 1000000.'),
    ],
)
def test_a_wrong_budget_is_refused_because_its_default_is_no_limit(tmp_path: Path, line: str, reason: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(reason)):
        read_settings(tmp_path, f"[budget]\n{line}")
    with pytest.raises(ConfigError, match="not a table"):
        read_settings(tmp_path, "budget = 5")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[budget]\nper_dya = 3", '"budget.per_dya" is unknown: did you mean "budget.per_day"?'),
        ("[budget]\nweekly = 3", '"budget.weekly" is unknown. Known keys: ask_above, per_turn'),
        ("[budgte]\nper_day = 3", '"budgte" is unknown: did you mean "budget"?'),
        ('[consent]\nnevr = ["fs"]', '"consent.nevr" is unknown: did you mean "consent.never"?'),
        ('[consnet]\nnever = ["fs"]', '"consnet" is unknown: did you mean "consent"?'),
        ('[[hook]]\nevent = "before_call"', '"hook" is unknown: did you mean "hooks"?'),
    ],
)
def test_a_misspelt_limit_or_rule_is_refused_because_it_would_not_apply(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        read_settings(tmp_path, text)
    assert reason in str(exc_info.value)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[consent]\n# mine\nnever = "fs"', "config.toml, line 3: "),
        ("[budget]\n\nweekly = 3", "config.toml, line 3: "),
        ("\n[budgte]\nper_day = 3", "config.toml, line 2: "),
        ("\nbudget = 5", "config.toml, line 2: "),
        ('[[hooks]]\nevent = "before_call"\ncommand = ["x"]\n\n[[hooks]]\nevent = "x"', "config.toml, line 5: "),
    ],
)
def test_a_refused_entry_is_named_with_its_line(tmp_path: Path, text: str, place: str) -> None:
    with pytest.raises(ConfigError) as exc_info:
        read_settings(tmp_path, text)
    assert place in exc_info.value.message


def test_a_wrong_value_is_reported_with_its_line() -> None:
    problems: list[str] = []
    parse_settings('[model]\nname = "a/b"\n\n[screen]\nreader = "yes"\nraeder = 1\n', "c", problems.append)
    assert [problem.partition(":")[0] for problem in problems] == ["c, line 6", "c, line 5"]


def test_a_wrong_value_for_screen_readers_is_reported() -> None:
    problems: list[str] = []
    assert parse_settings("[screen]\nreader = true\n", "config.toml", problems.append).screen.reader is True
    assert problems == []
    assert parse_settings('[screen]\nreader = "yes"\n', "config.toml", problems.append).screen.reader is False
    assert "screen.reader" in problems[0]


@pytest.mark.parametrize(("mode", "is_own_group", "is_told"), [
    (0o600, True, False), (0o644, True, False), (0o660, True, False), (0o660, False, True), (0o606, True, True),
    (0o666, True, True),
])  # fmt: skip
@pytest.mark.parametrize("name", ["", "config.toml", "mcp.json", "local.json"])
def test_settings_and_servers_that_other_users_can_change_are_pointed_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, is_own_group: bool, is_told: bool, name: str
) -> None:
    folder = tmp_path / "config"
    folder.mkdir(0o700)
    for file in ("config.toml", "mcp.json", "local.json"):
        (folder / file).write_text("" if file == "config.toml" else "{}")
        (folder / file).chmod(0o600)
    changed = folder / name
    changed.chmod(mode if name else mode | 0o100)
    monkeypatch.setattr(os, "getegid", lambda: changed.stat().st_gid if is_own_group else changed.stat().st_gid + 1)
    config = load_config(folder)
    assert [f"can change {changed} (mode " in problem for problem in config.problems] == [True] * is_told
    assert find_file_problem(config) == ""
