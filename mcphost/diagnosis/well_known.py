"""Diagnosis step that checks the protected resource metadata of a remote server (RFC 9728).

The metadata names the server's authorization servers.
"""

import logging

import anyio

from mcphost.auth.discovery import ProtectedResourceMetadata, resource_metadata_urls
from mcphost.auth.url_policy import UnsafeUrl, check_url
from mcphost.config.schema import ServerConfig
from mcphost.diagnosis.steps import DiagnosisStep, make_step
from mcphost.errors import McpHostError
from mcphost.serialization import decode
from mcphost.transport.http_client import create_client

_SECONDS = 5.0
_MAX_BYTES = 64 * 1024
_log = logging.getLogger(__name__)


async def check_well_known(server: ServerConfig) -> DiagnosisStep:
    """Request the server's metadata from its well-known URLs and return the step "well-known".

    If the metadata is missing or cannot be read, the result is only a warning: without metadata, the sign-in follows
    protocol revision 2025-03-26, which did not require it. Redirects to other origins are not followed. Can be
    cancelled.
    """
    found: list[str] = []
    try:
        for url in resource_metadata_urls(server.url):
            check_url(url, "address of the metadata")
            with anyio.fail_after(_SECONDS):
                status, body = await _get(server, url)
            if status == 200:
                return _describe(url, body)
            found.append(f"{url} answered {status}")
    except TimeoutError:
        return make_step("well-known", "warning", f"No answer within {_SECONDS:g} s.", "Check the server's log.")
    except (UnsafeUrl, McpHostError) as error:
        return make_step("well-known", "warning", error.message, error.hint)
    hint = "The sign-in follows the rules of 2025-03-26. Its operator should publish the document."
    return make_step("well-known", "warning", f"The server has no metadata: {'; '.join(found)}.", hint)


def _describe(url: str, body: bytes) -> DiagnosisStep:
    try:
        document = decode(body, ProtectedResourceMetadata, f"document at {url}")
    except McpHostError as error:
        return make_step("well-known", "warning", error.message, "Report it to the server's operator.")
    issuers = ", ".join(document.authorization_servers) or "no authorization server"
    return make_step("well-known", "ok", f"{url} names {issuers}")


async def _get(server: ServerConfig, url: str) -> tuple[int, bytes]:
    client = create_client(server.name, url, {}, warn=_log.warning, ca_file=server.ca_file, ca_digest=server.ca_digest)
    try:
        response = await client.request("GET", b"", {"accept": "application/json"})
        try:
            return response.status, await response.read_body(_MAX_BYTES) if response.status == 200 else b""
        finally:
            response.close()
    finally:
        await client.close()
