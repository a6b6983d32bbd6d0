"""Tests for the URLs that a sign-in may use, and for the canonical URL of an MCP server."""

import ipaddress
from collections.abc import Sequence

import pytest

from mcphost.auth.url_policy import UnsafeUrl, UrlPolicy, address_scope, canonical_url, check_url, resource_covers

pytestmark = pytest.mark.anyio


@pytest.mark.req("auth.https-endpoints", "auth.ssrf.https", "auth.url-scheme", "sec.url-sanitise")
@pytest.mark.parametrize(
    "url",
    [
        "http://as.example/token",
        "javascript:alert(1)",
        "data:text/html,x",
        "file:///etc/passwd",
        "vbscript:x",
        "//as.example/x",
        "https://",
        "https://user@as.example/",
        "https://user:pw@as.example/",
        "https://@as.example/",
        "https://as.example/#part",
        "https://as.example/#",
        "https://as.example:0/",
        "https://as.example:99999/",
        "https://as.example/a b",
        "https://as.example\\@evil.example/",
        "https://as.example/\x1b]0;x",
        "https://аs.example/",
        'https://as.example/"$(id)"',
        "http://localhost.evil.example/",
        "http://127.0.0.1.evil.example/",
        "-https://as.example",
        "https://as.example/" + "a" * 5000,
    ],
)
def test_a_dangerous_url_is_refused(url: str) -> None:
    with pytest.raises(UnsafeUrl, match="token endpoint"):
        check_url(url, "token endpoint")


@pytest.mark.req("auth.https-endpoints", "auth.ssrf.https")
@pytest.mark.parametrize(
    "url",
    ["https://as.example/t?x=1", "http://localhost:9/x", "http://127.0.0.1:9/", "http://[::1]:9/", "http://127.9.9.9/"],
)
def test_https_and_loopback_addresses_are_used(url: str) -> None:
    assert check_url(url, "token endpoint") == url


@pytest.mark.req("auth.resource.canonical", "auth.resource.specific")
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("HTTPS://MCP.Example.COM/Mcp", "https://mcp.example.com/Mcp"),
        ("https://mcp.example.com/", "https://mcp.example.com"),
        ("https://mcp.example.com", "https://mcp.example.com"),
        ("https://mcp.example.com:443/mcp#x", "https://mcp.example.com/mcp"),
        ("https://mcp.example.com:8443/mcp/", "https://mcp.example.com:8443/mcp/"),
        ("https://mcp.example.com/mcp?tenant=1", "https://mcp.example.com/mcp?tenant=1"),
        ("http://[::1]:80/mcp", "http://[::1]/mcp"),
    ],
)
def test_the_canonical_url_keeps_significant_parts(url: str, expected: str) -> None:
    assert canonical_url(url) == expected


@pytest.mark.req("auth.resource.accept-upper", "auth.prm.resource-match")
@pytest.mark.parametrize(
    ("resource", "fits"),
    [
        ("https://mcp.example/mcp", True),
        ("HTTPS://MCP.EXAMPLE/mcp", True),
        ("https://mcp.example", True),
        ("https://mcp.example/", True),
        ("https://mcp.example:443/mcp/", True),
        ("https://mcp.example/mc", False),
        ("https://mcp.example/mcp/deeper", False),
        ("https://evil.example/mcp", False),
        ("http://mcp.example/mcp", False),
        ("https://mcp.example:8443/mcp", False),
        ("https://mcp.example/mcp?x=1", False),
        ("", False),
        ("https://[broken", False),
    ],
)
def test_only_metadata_of_this_server_is_about_this_server(resource: str, fits: bool) -> None:
    assert resource_covers(resource, "https://mcp.example/mcp") is fits


def create_policy(**addresses: Sequence[str]) -> UrlPolicy:
    table = {name.replace("_", "."): value for name, value in addresses.items()}

    async def resolve(host: str, port: int) -> Sequence[str]:
        return table[host]

    return UrlPolicy("https://mcp.example/mcp", resolver=resolve)


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    "address",
    [
        "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254", "127.0.0.1", "0.0.0.0", "100.64.0.1", "::1",
        "fe80::1",
        "fc00::1", "::ffff:169.254.169.254", "::ffff:10.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "224.0.0.1",
        "::",
        "240.0.0.1", "198.18.0.1",
    ],
)  # fmt: skip
async def test_a_public_server_cannot_point_into_a_private_network(address: str) -> None:
    guard = create_policy(mcp_example=["203.0.114.1"], as_example=["203.0.114.2", address])
    with pytest.raises(UnsafeUrl, match="leads to"):
        await guard.resolve_addresses("https://as.example/token", "token endpoint")


@pytest.mark.req("auth.ssrf.private")
async def test_a_literal_private_address_is_refused_without_a_lookup() -> None:
    guard = create_policy(mcp_example=["203.0.114.1"])
    for url in ("https://169.254.169.254/latest", "https://[::ffff:127.0.0.1]/", "https://[fe80::1]/"):
        with pytest.raises(UnsafeUrl):
            await guard.resolve_addresses(url, "metadata")


@pytest.mark.req("auth.ssrf.private")
async def test_a_server_inside_a_network_may_point_into_it_and_to_the_world() -> None:
    guard = create_policy(
        mcp_example=["10.0.0.1"], as_example=["10.9.9.9"], world_example=["203.0.114.9"], m_example=["127.0.0.1"]
    )
    assert await guard.resolve_addresses("https://as.example/", "x") == ["10.9.9.9"]
    assert await guard.resolve_addresses("https://world.example/", "x") == ["203.0.114.9"]
    with pytest.raises(UnsafeUrl):
        await guard.resolve_addresses("https://m.example/", "x")


@pytest.mark.req("auth.ssrf.private")
async def test_the_user_can_allow_private_addresses() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return {"mcp.example": ["203.0.114.1"], "as.example": ["10.0.0.2"], "meta.example": ["169.254.169.254"]}[host]

    guard = UrlPolicy("https://mcp.example/mcp", resolver=resolve, allow_private=True)
    assert await guard.resolve_addresses("https://as.example/", "x") == ["10.0.0.2"]
    with pytest.raises(UnsafeUrl):
        await guard.resolve_addresses("https://meta.example/", "x")


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    ("server", "target"),
    [
        (["203.0.114.1", "127.0.0.1"], "http://127.0.0.1:9000/run"),
        (["127.0.0.1"], "http://127.0.0.1:9000/run"),
        (["203.0.114.1", "10.0.0.1"], "https://10.0.0.2/"),
        (["169.254.169.254"], "https://169.254.169.254/"),
        (["10.0.0.1", "127.0.0.1"], "http://localhost:9000/run"),
    ],
)
async def test_a_name_that_also_resolves_to_loopback_may_not_point_to_loopback(server: list[str], target: str) -> None:
    with pytest.raises(UnsafeUrl, match="leads to"):
        await create_policy(mcp_example=server, localhost=["127.0.0.1"]).resolve_addresses(
            target, "registration endpoint"
        )


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    "answers",
    [[["203.0.114.1"], ["10.0.0.77"]], [["10.0.0.77"], ["203.0.114.1"], ["10.0.0.77"]]],
    ids=["first public", "later public"],
)
async def test_a_name_that_was_public_once_does_not_become_private(answers: list[list[str]]) -> None:
    remaining = list(answers)

    async def resolve(host: str, port: int) -> Sequence[str]:
        return remaining.pop(0) if host == "mcp.example" else ["10.0.0.5"]

    guard = UrlPolicy("https://mcp.example/mcp", resolver=resolve)
    for _ in answers[:-1]:
        await guard.resolve_addresses("https://mcp.example/.well-known/oauth-protected-resource", "metadata")
    with pytest.raises(UnsafeUrl, match="leads to"):
        await guard.resolve_addresses("https://ci.example/build", "registration endpoint")


@pytest.mark.req("auth.ssrf.private")
async def test_a_server_that_only_the_proxy_could_find_does_not_become_private() -> None:
    answers: list[Sequence[str]] = [[], ["10.0.0.77"]]

    async def resolve(host: str, port: int) -> Sequence[str]:
        return answers.pop(0) if host == "mcp.example" else ["10.0.0.5"]

    guard = UrlPolicy("https://mcp.example/mcp", resolver=resolve)
    await guard.check_proxied("https://mcp.example/.well-known/oauth-protected-resource", "metadata")
    with pytest.raises(UnsafeUrl, match="leads to"):
        await guard.check_proxied("https://ci.example/build", "registration endpoint")


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize("url", ["http://localhost:3000/mcp", "http://127.0.0.1:3000/mcp", "https://[::1]/mcp"])
async def test_a_server_that_the_user_runs_here_may_point_here(url: str) -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "::1"]

    guard = UrlPolicy(url, resolver=resolve)
    assert await guard.resolve_addresses("http://127.0.0.1:9000/token", "token endpoint") == ["127.0.0.1"]


@pytest.mark.req("auth.ssrf.private")
async def test_two_local_servers_under_a_name_get_a_configuration_hint() -> None:
    guard = create_policy(mcp_example=["127.0.0.1"], as_example=["127.0.0.1"])
    with pytest.raises(UnsafeUrl, match="own name leads to a loopback address") as exc_info:
        await guard.resolve_addresses("https://as.example/", "authorization server")
    assert '"mcphost": {"oauth": {"private": true}}' in exc_info.value.hint


@pytest.mark.req("auth.ssrf.private")
async def test_no_hint_suggests_a_forbidden_rule() -> None:
    with pytest.raises(UnsafeUrl, match="link-local") as exc_info:
        await create_policy(mcp_example=["203.0.114.1"]).resolve_addresses("https://169.254.169.254/", "token endpoint")
    assert "private" not in exc_info.value.hint


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    ("address", "where"),
    [
        ("::10.0.0.1", "private"), ("::127.0.0.1", "loopback"), ("::169.254.169.254", "link-local"),
        ("::ffff:10.0.0.1", "private"), ("::ffff:0:10.0.0.1", "private"), ("::ffff:0:127.0.0.1", "loopback"),
        ("64:ff9b::10.0.0.1", "private"), ("64:ff9b::169.254.169.254", "link-local"),
        ("64:ff9b:1::10.0.0.1", "private"), ("64:ff9b:1::8.8.8.8", "private"), ("64:ff9b:1:a00:1::", "private"),
        ("64:ff9b:1::169.254.169.254", "link-local"), ("2002:a00:1::1", "private"), ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::", "link-local"), ("fec0::1", "private"), ("feff::1", "private"),
        ("2001:0:a00:1::f5ff:fffe", "reserved"), ("2001:0:808:808::80ff:fffe", "reserved"),
        ("2606:4700::5efe:10.0.0.1", "private"), ("2606:4700::200:5efe:192.168.0.1", "private"),
        ("5f00::1", "reserved"), ("3fff::1", "reserved"), ("2001:db8::1", "private"), ("::1", "loopback"),
        ("::", "reserved"), ("ff02::1", "reserved"), ("fe80::1", "link-local"), ("fc00::1", "private"),
        ("2606:4700::1111", "public"), ("64:ff9b::8.8.8.8", "public"), ("2002:808:808::1", "public"),
    ],
)  # fmt: skip
def test_an_ipv6_address_is_as_private_as_the_address_inside_it(address: str, where: str) -> None:
    assert address_scope(ipaddress.ip_address(address)) == where


@pytest.mark.parametrize("host", ["2002:7f00:1::", "64:ff9b::127.0.0.1", "::127.0.0.1", "64:ff9b:1::127.0.0.1"])
def test_plain_http_is_for_this_machine_and_not_for_its_address_inside_another(host: str) -> None:
    with pytest.raises(UnsafeUrl, match="not encrypted"):
        check_url(f"http://[{host}]/token", "token endpoint")
    assert check_url("http://[::ffff:127.0.0.1]:9/", "token endpoint")


@pytest.mark.req("auth.ssrf.private")
@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1.", "169.254.169.254.", "2130706433.", "0x7f000001.", "1.2.3.4.5", "256.256.256.256", "127.0.0.0x",
        "%31%32%37.0.0.1", "127%2e0.0.1", "as.example;x", "as.example,x", "as..example", ".as.example", "localhost..",
        "*.example", "[v1.x]",
    ],
)  # fmt: skip
def test_a_host_that_programs_read_in_different_ways_is_refused(host: str) -> None:
    with pytest.raises(UnsafeUrl, match="is not a valid address"):
        check_url(f"https://{host}/token", "token endpoint")


@pytest.mark.parametrize("host", ["as.example.", "as_1.example", "xn--pple-43d.example", "1.as", "intranet", "[::1]"])
def test_names_and_addresses_with_one_meaning_are_used(host: str) -> None:
    assert check_url(f"https://{host}/token", "token endpoint")


@pytest.mark.req("auth.https-endpoints", "auth.ssrf.https")
async def test_plain_http_is_refused_if_the_network_says_that_localhost_is_elsewhere() -> None:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return ["127.0.0.1", "203.0.114.9"]

    guard = UrlPolicy("http://localhost:3000/mcp", resolver=resolve)
    with pytest.raises(UnsafeUrl, match="not encrypted"):
        await guard.resolve_addresses("http://localhost.:9000/token", "token endpoint")
