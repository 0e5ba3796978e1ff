"""Certificate authorities made in a test, and what they issue, as PEM files."""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

HERE = ("127.0.0.1", "localhost")


@dataclass(frozen=True)
class Issued:
    """A certificate with its key. `chain` is what whoever shows it sends."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    above: tuple[x509.Certificate, ...] = ()

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)

    @property
    def chain_pem(self) -> bytes:
        return b"".join(c.public_bytes(Encoding.PEM) for c in (self.certificate, *self.above))

    def key_pem(self, password: bytes | None = None) -> bytes:
        how = BestAvailableEncryption(password) if password else NoEncryption()
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, how)

    def write(self, folder: Path, name: str) -> tuple[str, str]:
        """The paths of `NAME.pem` and `NAME.key`, written anew."""
        return put(folder / f"{name}.pem", self.chain_pem), put(folder / f"{name}.key", self.key_pem())


class Authority:
    """A root, or with `under` an intermediate authority."""

    def __init__(self, name: str = "an authority", under: Authority | None = None) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=True, path_length=None), True),
            (_usage(signs_certificates=True), True),
        ]
        certificate = _certificate(name, key, under.issued if under else None, extensions)
        above = (under.issued.certificate, *under.issued.above)[:-1] if under else ()
        self.issued = Issued(certificate, key, above)
        self._root = under is None

    def server(self, names: Sequence[str] = HERE, *, expired: bool = False) -> Issued:
        """A certificate for names and addresses of a server."""
        return self._issue(names[0], _names(names), ExtendedKeyUsageOID.SERVER_AUTH, expired)

    def client(self, *names: str, common_name: str = "a client", expired: bool = False) -> Issued:
        """A client certificate; a name with `://` becomes a URI (SPIFFE ids are), any other a DNS name."""
        return self._issue(common_name, _names(names), ExtendedKeyUsageOID.CLIENT_AUTH, expired)

    def write(self, path: Path) -> str:
        """The authority's own certificate as a CA file, written anew."""
        return put(path, self.issued.pem)

    def trusting(self, shown: tuple[str, str] | None = None) -> ssl.SSLContext:
        """A caller's context that believes this authority only, and shows a certificate (paths) if asked for one."""
        context = ssl.create_default_context(cadata=self.issued.pem.decode())
        if shown is not None:
            context.load_cert_chain(*shown)
        return context

    def _issue(
        self, name: str, names: list[x509.GeneralName], usage: x509.ObjectIdentifier, expired: bool
    ) -> Issued:
        key = ec.generate_private_key(ec.SECP256R1())
        extensions: list[tuple[x509.ExtensionType, bool]] = [
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage([usage]), False),
        ]
        if names:
            extensions.append((x509.SubjectAlternativeName(names), False))
        certificate = _certificate(name, key, self.issued, extensions, expired=expired)
        return Issued(certificate, key, () if self._root else (self.issued.certificate, *self.issued.above))


def put(path: Path, content: bytes) -> str:
    """Write a file as a whole: whoever reads sees the old content or the new."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_bytes(content)
    fresh.replace(path)
    return str(path)


class Volume:
    """A folder that changes as a Kubernetes volume does: files are links through `..data`, which is turned."""

    def __init__(self, folder: Path, **files: bytes) -> None:
        self.folder = folder
        self._version = 0
        folder.mkdir()
        self.turn(**files)
        for name in files:
            (folder / name).symlink_to(Path("..data") / name)

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def turn(self, **files: bytes) -> None:
        """Put other files in place of all, in one step."""
        self._version += 1
        version = self.folder / f"..version_{self._version}"
        version.mkdir()
        for name, content in files.items():
            (version / name).write_bytes(content)
        fresh = self.folder / "..data_tmp"
        fresh.symlink_to(version.name)
        os.replace(fresh, self.folder / "..data")


def _names(names: Sequence[str]) -> list[x509.GeneralName]:
    return [_name(name) for name in names]


def _name(name: str) -> x509.GeneralName:
    if "://" in name:
        return x509.UniformResourceIdentifier(name)
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: Issued | None,
    extensions: list[tuple[x509.ExtensionType, bool]],
    *,
    expired: bool = False,
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now - timedelta(days=1) if expired else now + timedelta(days=1))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key((issuer.key if issuer else key).public_key()),
            False,
        )
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer.key if issuer else key, hashes.SHA256())
