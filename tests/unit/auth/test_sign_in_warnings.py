"""Tests for the warnings about suspicious URLs and tokens that are shown before a sign-in."""

import pytest

from mcphost.auth.sign_in_context import sign_in_warnings

SERVER = "https://mcp.example/tenant/mcp"


@pytest.mark.parametrize(
    ("url", "issuer", "is_told"),
    [
        ("https://as.example/authorize?x=1", "https://as.example/t", False),
        ("https://login.as.example/authorize", "https://as.example", False),
        ("https://AS.example:443/authorize", "https://as.example", False),
        ("https://github.com/login/oauth/authorize", "https://as.example", True),
        ("https://as.example/authorize", "https://login.as.example", True),
        ("https://notas.example/authorize", "https://as.example", True),
        ("http://127.0.0.1:9001/authorize", "http://127.0.0.1:9000", True),
    ],
)
@pytest.mark.parametrize("has_code", [True, False])
def test_an_address_outside_the_issuer_is_reported(url: str, issuer: str, is_told: bool, has_code: bool) -> None:
    found = sign_in_warnings(url, issuer, SERVER, SERVER, has_code=has_code)
    assert bool(found) is is_told
    assert ("code may be from someone else" in "".join(found)) is (is_told and has_code)


@pytest.mark.parametrize(
    ("resource", "is_told"),
    [
        (SERVER, False),
        (f"{SERVER}/", False),
        ("HTTPS://MCP.example/tenant/mcp", False),
        ("https://mcp.example", True),
        ("https://mcp.example/tenant", True),
    ],
)
def test_a_token_for_more_than_the_server_is_reported(resource: str, is_told: bool) -> None:
    found = sign_in_warnings("https://as.example/a", "https://as.example", resource, SERVER, has_code=False)
    assert (f"everything below {resource}, not only to this server" in "".join(found)) is is_told


@pytest.mark.parametrize(
    ("url", "token_endpoint", "recipient"),
    [
        ("https://shared.example/good/authorize", "https://evil.example/token", "evil.example"),
        ("https://login.shared.example/authorize", "https://shared.example/mine/token", "shared.example"),
        ("https://login.shared.example/authorize", "https://login.shared.example/token", "shared.example"),
        ("https://shared.example/mine/authorize", "https://shared.example/mine/token", ""),
        ("https://shared.example/oauth2/mine/authorize", "https://shared.example/oauth2/mine/token", ""),
    ],
)
@pytest.mark.parametrize("has_code", [True, False])
def test_an_issuer_that_is_one_path_of_a_host_gets_no_results_of_other_pages_without_a_warning(
    url: str, token_endpoint: str, recipient: str, has_code: bool
) -> None:
    found = sign_in_warnings(
        url, "https://shared.example/mine", SERVER, SERVER, has_code=has_code, token_endpoint=token_endpoint
    )
    assert bool(found) is bool(recipient)
    assert f"and {recipient} gets the result" in "".join(found) or not recipient


def test_an_issuer_that_is_a_whole_host_may_have_its_token_endpoint_elsewhere() -> None:
    assert not sign_in_warnings(
        "https://accounts.example/authorize",
        "https://accounts.example",
        SERVER,
        SERVER,
        has_code=False,
        token_endpoint="https://tokens.example/token",
    )
