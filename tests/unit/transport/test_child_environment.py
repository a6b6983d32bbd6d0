"""Tests for a server's environment variables: network settings stay, and no path depends on the working directory."""

import os

import pytest

from mcphost.redact import redact
from mcphost.transport.process import build_environment


@pytest.fixture(autouse=True)
def empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "http://proxy.example:3128") for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")),
        *((name, "http://proxy.example:3128") for name in ("http_proxy", "https_proxy", "all_proxy")),
        ("NO_PROXY", "localhost,.example"),
        ("no_proxy", "localhost,.example"),
        ("SSL_CERT_FILE", "/etc/ssl/company.pem"),
        ("SSL_CERT_DIR", "/etc/ssl/company"),
        ("REQUESTS_CA_BUNDLE", "/etc/ssl/company.pem"),
        ("CURL_CA_BUNDLE", "/etc/ssl/company.pem"),
        ("NODE_EXTRA_CA_CERTS", "/etc/ssl/company.pem"),
        ("NODE_USE_SYSTEM_CA", "1"),
        ("UV_NATIVE_TLS", "true"),
    ],
)
def test_a_server_gets_the_way_to_the_network(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    assert build_environment({}) == {"PATH": "/usr/bin:/bin", name: value}
    assert build_environment({name: "mine"})[name] == "mine"


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE"])
def test_certificates_at_a_relative_path_are_left_out(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "certs/ca.pem")
    assert name not in build_environment({})


@pytest.mark.parametrize("name", ["ANTHROPIC_API_KEY", "PYTHONPATH", "NODE_OPTIONS", "LD_PRELOAD", "GIT_SSH_COMMAND"])
def test_nothing_else_is_passed_on(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "x")
    assert build_environment({}) == {"PATH": "/usr/bin:/bin"}


def test_relative_folders_of_the_path_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", ":.:bin:/usr/bin:node_modules/.bin")
    assert build_environment({})["PATH"] == "/usr/bin"
    monkeypatch.setenv("PATH", ".")
    assert build_environment({})["PATH"] == os.defpath


def test_the_password_of_a_proxy_is_used_and_hidden_from_display(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = "http://me:p%40ssw0rd-of-mine@proxy.example:3128"
    monkeypatch.setenv("https_proxy", proxy)
    assert build_environment({})["https_proxy"] == proxy
    told = redact("407 for p@ssw0rd-of-mine and p%40ssw0rd-of-mine")
    assert "of-mine" not in told
