"""Keeps the requests of the model worker at the address that the user configured; for the worker process only.

A request carries the user's key and the whole conversation. httpx follows redirects to any origin when litellm asks for
it, and takes only `Authorization` off the way: the key headers of Anthropic and Gemini would go along.
"""

from typing import Any


class RedirectRefused(Exception):
    """The provider sent the request elsewhere; the message says where, as a sentence for the user."""


def refuse_redirects(async_client: Any, sync_client: Any) -> None:
    """Refuse every redirect that `httpx.AsyncClient` and `httpx.Client` meet from now on."""
    send, send_blocking = async_client.send, sync_client.send

    async def refusing(self: Any, request: Any, **options: Any) -> Any:
        response = await send(self, request, **{**options, "follow_redirects": False})
        if response.has_redirect_location:
            await response.aclose()
            raise _make_error(response)
        return response

    def refusing_blocking(self: Any, request: Any, **options: Any) -> Any:
        response = send_blocking(self, request, **{**options, "follow_redirects": False})
        if response.has_redirect_location:
            response.close()
            raise _make_error(response)
        return response

    async_client.send, sync_client.send = refusing, refusing_blocking


def _make_error(response: Any) -> RedirectRefused:
    host, place = response.request.url.host, response.headers["location"][:200]
    return RedirectRefused(f"The provider at {host} redirects to {place!a}, which was not followed.")
