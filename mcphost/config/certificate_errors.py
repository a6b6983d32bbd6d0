"""Explanations for certificates that OpenSSL rejects because they violate RFC 5280."""

import ssl

_STANDARD_VIOLATIONS = range(80, 94)  # X509_V_ERR_PATHLEN_INVALID_FOR_NON_CA to X509_V_ERR_EXTENSIONS_REQUIRE_VERSION_3

STANDARD_HINT = (
    "Python 3.13 and newer require that certificates follow RFC 5280. Issue the certificate and that of its authority "
    "again with current tools, or run mcphost with Python 3.12."
)


def violates_standard(error: ssl.SSLCertVerificationError) -> bool:
    """Return whether OpenSSL rejected a certificate, or one of its authorities, for violating RFC 5280.

    Private certificate authorities often lack the key identifiers that RFC 5280 requires. Python 3.13 and later reject
    them, because VERIFY_X509_STRICT is set by default.
    """
    return error.verify_code in _STANDARD_VIOLATIONS
