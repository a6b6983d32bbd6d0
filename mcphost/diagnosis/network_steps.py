"""Diagnosis of an HTTP server before any request is sent: URL, proxy, host name, port and certificate."""

import asyncio
import errno
import socket
import ssl
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any, cast

import anyio
import anyio.to_thread

from mcphost.config.approval_digest import load_authorities
from mcphost.config.certificate_errors import STANDARD_HINT, violates_standard
from mcphost.config.schema import ServerConfig
from mcphost.config.target_secrets import masked_url
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.errors import McpHostError
from mcphost.proxies import proxy_for
from mcphost.unicode_forms import split_url

STEP_SECONDS = 5.0
_MAX_ADDRESSES = 4
_DEFAULT_PORTS = {"http": 80, "https": 443}
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
# OpenSSL's X509_V_ERR codes (x509_vfy.h).
_NOT_YET_VALID, _EXPIRED, _SELF_SIGNED, _SELF_SIGNED_IN_CHAIN = 9, 10, 18, 19
_UNKNOWN_ISSUER = (2, 20, 21)
_WRONG_NAME = (62, 64)


async def check_address(server: ServerConfig) -> AsyncIterator[DiagnosisStep]:
    """Check whether a server's URL can be reached; yield the result of each step, up to the first failure.

    `${…}` references in the server's entry must already be expanded.
    """
    try:
        parts = split_url(server.url)
        scheme, host, port = parts.scheme, parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 0)
    except ValueError as error:
        yield make_step("URL", "failed", f"{masked_url(server)!r} is not a valid URL: {error}.", "Correct url.")
        return
    if scheme not in _DEFAULT_PORTS or not host:
        yield make_step(
            "URL", "failed", f"{masked_url(server)!r} is not an address of a server.", "Write http:// or https://."
        )
        return
    yield make_step("URL", "ok", masked_url(server))
    try:
        proxy = proxy_for(server.url)
    except McpHostError as error:
        yield make_step("proxy", "failed", error.message, "Correct HTTPS_PROXY, HTTP_PROXY or ALL_PROXY.")
        return
    if proxy:
        async for step in _check_proxy(proxy, host):
            yield step
        return
    addresses = await _resolve(host, port)
    if isinstance(addresses, DiagnosisStep):
        yield addresses
        return
    yield make_step("name", "ok", f"{host}: {', '.join(addresses)}")
    reachable = await _connect_any(addresses, host, port)
    yield reachable
    if reachable.status == "ok" and scheme == "https":
        yield await _check_certificate(server, host, port)


async def _check_proxy(proxy: str, host: str) -> AsyncIterator[DiagnosisStep]:
    parts = split_url(proxy)
    place, port = parts.hostname or "", parts.port or _DEFAULT_PORTS.get(parts.scheme, 80)
    shown = f"{place}:{port}"
    addresses = await _resolve(place, port)
    hint = f"Correct the proxy's variable, or add {host} to NO_PROXY."
    if isinstance(addresses, DiagnosisStep):
        yield make_step("proxy", "failed", f"The proxy {shown} cannot be resolved: {addresses.detail}", hint)
        return
    reached = await _connect_any(addresses, place, port)
    if reached.status == "ok":
        yield make_step("proxy", "ok", f"{shown}; it resolves {host} and connects to it")
    else:
        yield make_step("proxy", "failed", f"The proxy {shown} cannot be reached: {reached.detail}", hint)


async def _resolve(host: str, port: int) -> tuple[str, ...] | DiagnosisStep:
    try:
        with anyio.fail_after(STEP_SECONDS):
            found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except TimeoutError:
        return make_step(
            "name",
            "failed",
            f"The name {host} was not resolved within {STEP_SECONDS:g} s.",
            "Check the network and DNS.",
        )
    except (OSError, UnicodeError) as error:
        hint = "Check the spelling of the URL, the network and the VPN."
        return make_step("name", "failed", f"The host name {host} cannot be resolved ({_reason(error)}).", hint)
    return tuple(dict.fromkeys(str(entry[4][0]) for entry in found))[:_MAX_ADDRESSES]


async def _connect_any(addresses: tuple[str, ...], host: str, port: int) -> DiagnosisStep:
    """Return the result of the step "port": success if any address accepts a connection, otherwise the last failure."""
    failure = make_step("port", "failed", f"{host} has no address.", "Check DNS.")
    for address in addresses:
        began = time.monotonic()
        try:
            with anyio.fail_after(STEP_SECONDS):
                stream = await anyio.connect_tcp(address, port)
        except (OSError, TimeoutError) as error:
            failure = _explain_refusal(error, host, address, port)
            continue
        await stream.aclose()
        return make_step("port", "ok", f"{address} port {port}, {1000 * (time.monotonic() - began):.0f} ms")
    return failure


def _explain_refusal(error: BaseException, host: str, address: str, port: int) -> DiagnosisStep:
    cause: BaseException | None = error
    while cause is not None and getattr(cause, "errno", None) is None:
        inner = (
            cast("BaseExceptionGroup[BaseException]", cause).exceptions if isinstance(cause, BaseExceptionGroup) else ()
        )
        cause = inner[0] if inner else cause.__cause__
    number = getattr(cause, "errno", None)
    if number == errno.ECONNREFUSED:
        is_local = host in _LOOPBACK_NAMES
        hint = "Start the server, or correct the port in url." if is_local else "Check the port in url, and the server."
        return make_step(
            "port", "failed", f"Nothing listens at {address} port {port}: the connection was refused.", hint
        )
    if isinstance(error, TimeoutError) or number == errno.ETIMEDOUT:
        return make_step(
            "port", "failed", f"{address} port {port} did not answer within {STEP_SECONDS:g} s.",
            "Check the network, the VPN and firewalls; behind a proxy, set HTTPS_PROXY.",
        )  # fmt: skip
    hint = "Check the network and the VPN."
    return make_step("port", "failed", f"{address} port {port} cannot be reached ({_reason(cause or error)}).", hint)


async def _check_certificate(server: ServerConfig, host: str, port: int) -> DiagnosisStep:
    context = await anyio.to_thread.run_sync(partial(ssl.create_default_context))
    if server.ca_file:
        try:
            await anyio.to_thread.run_sync(load_authorities, context, server.ca_file, server.ca_digest)
        except (McpHostError, ssl.SSLError, ValueError) as error:
            return make_step(
                "certificate", "failed", f"caFile cannot be used: {error}", "It must contain certificates in PEM form."
            )
    try:
        with anyio.fail_after(STEP_SECONDS):
            _, writer = await asyncio.open_connection(host, port, ssl=context, server_hostname=host)
    except ssl.SSLCertVerificationError as error:
        return _explain_certificate(error, host)
    except ssl.SSLError as error:
        if "WRONG_VERSION_NUMBER" in str(error) or "RECORD_LAYER" in str(error):
            return make_step(
                "certificate", "failed", f"{host} port {port} does not speak TLS.", "Write http:// in url."
            )
        return make_step("certificate", "failed", f"No secure connection: {_reason(error)}.", "Check the server's TLS.")
    except TimeoutError:
        hint = "Does the server use HTTPS? If not, write http:// in url."
        return make_step("certificate", "failed", f"{host} did not answer TLS within {STEP_SECONDS:g} s.", hint)
    except OSError as error:
        hint = "Does the server use HTTPS? If not, write http:// in url."
        return make_step("certificate", "failed", f"{host} ended the TLS handshake ({_reason(error)}).", hint)
    details = cast("dict[str, Any]", writer.get_extra_info("peercert") or {})
    version = cast("ssl.SSLObject", writer.get_extra_info("ssl_object")).version()
    writer.close()
    return make_step("certificate", "ok", f"{version}, valid until {details.get('notAfter', 'unknown')}")


def _explain_certificate(error: ssl.SSLCertVerificationError, host: str) -> DiagnosisStep:
    code = error.verify_code
    if code == _NOT_YET_VALID:
        now = time.strftime("%Y-%m-%d %H:%M")
        return make_step(
            "certificate", "failed", f"The certificate of {host} is not valid yet; this machine's clock says {now}.",
            "Set the clock.",
        )  # fmt: skip
    if code == _EXPIRED:
        now = time.strftime("%Y-%m-%d")
        return make_step(
            "certificate", "failed", f"The certificate of {host} has expired; this machine's date is {now}.",
            "Renew it at the server; check this machine's clock too.",
        )  # fmt: skip
    if code in _WRONG_NAME:
        return make_step(
            "certificate", "failed", f"The certificate is for another name than {host}.",
            "Write the name of the certificate in url.",
        )  # fmt: skip
    if code in (_SELF_SIGNED, _SELF_SIGNED_IN_CHAIN, *_UNKNOWN_ISSUER):
        return make_step(
            "certificate", "failed",
            f"The certificate of {host} is from an unknown authority ({error.verify_message}).",
            'Set "caFile" in the entry\'s "mcphost", or SSL_CERT_FILE, to that authority\'s certificate.',
        )  # fmt: skip
    if violates_standard(error):
        return make_step(
            "certificate", "failed",
            f"The certificate of {host}, or of its authority, does not follow RFC 5280: {error.verify_message}.",
            STANDARD_HINT,
        )  # fmt: skip
    return make_step(
        "certificate", "failed", f"The certificate of {host} was rejected: {error.verify_message}.", "Renew it."
    )


def _reason(error: BaseException) -> str:
    return getattr(error, "strerror", "") or getattr(error, "reason", "") or str(error) or type(error).__name__
