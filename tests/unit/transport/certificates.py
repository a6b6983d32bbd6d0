"""TLS certificates for servers on loopback, created for each test run."""

import datetime as dt
import ipaddress
import ssl
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


class CertificateAuthority:
    """A certificate authority that no system trusts; `file` is the path of its certificate.

    With *follows_standard* False, its certificates lack the extensions that Python 3.13 and later require (RFC 5280).
    """

    def __init__(self, folder: Path, *, follows_standard: bool = True) -> None:
        self._folder = folder
        self._follows_standard = follows_standard
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "An authority of our own")])
        certificate = self._sign(self._name, self._key, days=1, authority=True)
        self.file = str(folder / "authority.pem")
        Path(self.file).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))

    def context(self, host: str = "127.0.0.1", days: int = 1, starts_in: int = -10) -> ssl.SSLContext:
        """Return the TLS context of a server with this name or address.

        The certificate is valid from *starts_in* days from now (negative means in the past) until *days* days from now.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "A server")])
        certificate = self._sign(name, key, days=days, host=host, starts_in=starts_in)
        file = self._folder / "server.pem"
        file.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file)
        return context

    def _sign(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        days: int,
        host: str = "",
        authority: bool = False,
        starts_in: int = -10,
    ) -> x509.Certificate:
        today = dt.datetime.now(dt.UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(today + dt.timedelta(days=starts_in))
            .not_valid_after(today + dt.timedelta(days=days))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if self._follows_standard:
            issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
            builder = (
                builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
                .add_extension(issuer, critical=False)
                .add_extension(_make_key_usage(is_authority=authority), critical=True)
            )
        if host:
            try:
                names: x509.GeneralName = x509.IPAddress(ipaddress.ip_address(host))
            except ValueError:
                names = x509.DNSName(host)
            builder = builder.add_extension(x509.SubjectAlternativeName([names]), critical=False)
        return builder.sign(self._key, hashes.SHA256())


def require_standard(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check certificates on each version of Python as strictly as Python 3.13 and later do."""
    create = ssl.create_default_context

    def create_strict() -> ssl.SSLContext:
        context = create()
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", create_strict)


def _make_key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=is_authority, crl_sign=is_authority, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
