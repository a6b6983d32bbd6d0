"""What came back from the authorization server, judged before any of it is used or shown (RFC 9207)."""

from mcphost.auth.callback_server import Redirect
from mcphost.auth.client_registration import quoted
from mcphost.auth.discovery import IssuerDocument, Untrusted
from mcphost.auth.user_interaction import NotSignedIn
from mcphost.redact import register_server_secret


def code_of(redirect: Redirect, document: IssuerDocument, issuer: str) -> str:
    """The code, once the answer is known to come from the server we asked. Raises Untrusted, NotSignedIn."""
    if "iss" in redirect.params:
        if redirect.params["iss"] != document.issuer:
            raise Untrusted(f"The answer to the sign-in does not come from {issuer[:200]}; it was not used.")
    elif document.authorization_response_iss_parameter_supported:
        raise Untrusted(f"The answer to the sign-in does not say that it comes from {issuer[:200]}; it was not used.")
    if error := redirect.get("error"):
        words = [quoted(word) for word in (error, redirect.get("error_description"))]
        said = ": ".join(word for word in words if word)
        raise NotSignedIn(f"The authorization server {issuer[:200]} said: {said}.", "Sign in again.")
    code = redirect.get("code")
    if not code:
        raise NotSignedIn(f"The authorization server {issuer[:200]} sent neither a code nor an error.")
    register_server_secret(code)
    return code
