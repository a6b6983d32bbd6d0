"""What came back from the authorization server, judged before any of it is used or shown (RFC 9207)."""

from mcphost.auth.callback_server import AuthorizationResponse
from mcphost.auth.client_registration import quote_server_text
from mcphost.auth.discovery import AuthorizationServerMetadata, UntrustedMetadata
from mcphost.auth.user_interaction import SignInFailed
from mcphost.redact import register_server_secret


def extract_code(response: AuthorizationResponse, document: AuthorizationServerMetadata, issuer: str) -> str:
    """The code, once the answer is known to come from the server we asked. Raises UntrustedMetadata, SignInFailed."""
    if "iss" in response.params:
        if response.params["iss"] != document.issuer:
            raise UntrustedMetadata(f"The answer to the sign-in does not come from {issuer[:200]}; it was not used.")
    elif document.authorization_response_iss_parameter_supported:
        raise UntrustedMetadata(
            f"The answer to the sign-in does not say that it comes from {issuer[:200]}; it was not used."
        )
    if error := response.get("error"):
        words = [quote_server_text(word) for word in (error, response.get("error_description"))]
        said = ": ".join(word for word in words if word)
        raise SignInFailed(f"The authorization server {issuer[:200]} said: {said}.", "Sign in again.")
    code = response.get("code")
    if not code:
        raise SignInFailed(f"The authorization server {issuer[:200]} sent neither a code nor an error.")
    register_server_secret(code)
    return code
