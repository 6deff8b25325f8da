"""``penstock cert``: certificates for development and tests.

Each is signed by an authority of its own, whose key is not stored: a client that trusts the authority trusts this one
certificate, and no other can be created.
"""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import click
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.cli.failure import Failure
from penstock.cli.output import Output, json_option
from penstock.cli.security.identity import is_there
from penstock.clock import real_utc

_LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
_CLOCK_SKEW = timedelta(hours=1)  # for clients whose clock is behind
_COMMON_NAME_MAX = 64


class DevelopmentCertificate(NamedTuple):
    """A certificate with what belongs to it, all in PEM form."""

    authority: bytes
    certificate: bytes
    key: bytes


def make_certificate(
    name: str, names: tuple[str, ...], days: int, *, client: bool, now: datetime
) -> DevelopmentCertificate:
    """Makes a certificate for a server with these host names, or for a client of this name. Raises ValueError."""
    authority_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _subject(f"Penstock development authority for {name}")
    authority = _builder(issuer, issuer, authority_key.public_key(), days, now)
    authority = authority.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    authority = authority.add_extension(_usage(certificates=True), critical=True)
    issuing = authority.sign(authority_key, hashes.SHA256())

    leaf = _builder(_subject(name), issuer, key.public_key(), days, now)
    leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    leaf = leaf.add_extension(_usage(certificates=False), critical=True)
    purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
    leaf = leaf.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    leaf = leaf.add_extension(
        x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key()), critical=False
    )
    if names:
        leaf = leaf.add_extension(
            x509.SubjectAlternativeName([_general_name(each) for each in names]), critical=False
        )
    certificate = leaf.sign(authority_key, hashes.SHA256())
    return DevelopmentCertificate(
        issuing.public_bytes(Encoding.PEM),
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, days: int, now: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _subject(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:_COMMON_NAME_MAX])])


def _usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates, key_cert_sign=certificates, crl_sign=certificates,
        content_commitment=False, key_encipherment=False, data_encipherment=False, key_agreement=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name.encode("idna").decode() if not name.isascii() else name)


@click.command("cert")
@click.option(
    "--out", metavar="DIRECTORY", type=click.Path(path_type=Path), default=Path(), help="Where to write.  [.]"
)
@click.option(
    "--name", "names", metavar="NAME", multiple=True,
    help="Another host name or IP address of the server. May be given several times.",
)  # fmt: skip
@click.option(
    "--client", metavar="NAME", help="Create a client certificate instead, for a client of this name."
)
@click.option(
    "--days", type=click.IntRange(1, 3650), default=365, show_default=True, help="How long it is valid."
)
@json_option
def command(out: Path, names: tuple[str, ...], client: str | None, days: int, as_json: bool) -> None:
    """Create a certificate for development, and print how to use it.

    It is valid for localhost, 127.0.0.1, ::1, the name of this machine, and every --name. Three new files are
    written: the certificate, its key, and the authority that clients have to trust. In production use
    certificates that your clients already trust.

    \b
    Examples:
      penstock cert
      penstock cert --name queues.internal --name 10.0.0.5 --out /etc/penstock
      penstock cert --client worker-7
    """
    if client is not None and names:
        raise Failure("--name is for the certificate of a server: a client has the name given to --client")
    served = () if client is not None else tuple(dict.fromkeys((*_LOCAL_NAMES, socket.gethostname(), *names)))
    try:
        made = make_certificate(client or served[0], served, days, client=client is not None, now=real_utc())
    except ValueError as error:
        raise Failure(f"cannot create a certificate for that name: {error}") from None
    stem = "penstock" if client is None else "penstock-client"
    authority, certificate, key = (out / f"{stem}-{part}.pem" for part in ("ca", "cert", "key"))
    _write([authority, certificate, key], made)
    if client is None:
        lines = _for_server(authority, certificate, key, served)
    else:
        lines = _for_client(authority, certificate, key)
    files = {"authority": str(authority), "certificate": str(certificate), "key": str(key)}
    Output(as_json).result("\n".join(lines), **files, names=served)


def _write(files: list[Path], made: DevelopmentCertificate) -> None:
    """New files only, and the key is readable by its owner alone."""
    for path in files:
        if is_there(path):
            raise Failure(f'"{path}" exists already: remove it, or choose another directory with --out')
    try:
        files[0].parent.mkdir(parents=True, exist_ok=True)
        for path, text, mode in zip(files, made, (0o644, 0o644, 0o600), strict=True):
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                file.write(text)
    except OSError as error:
        raise Failure(f'cannot write to "{files[0].parent}": {error.strerror}') from None


def _for_server(authority: Path, certificate: Path, key: Path, names: tuple[str, ...]) -> list[str]:
    return [
        f"A certificate for {', '.join(names)}:",
        f"  {certificate}, its key {key}, its authority {authority}",
        "",
        "Serve with it:",
        f"  penstock serve --tls-certificate {certificate} --tls-key {key}",
        "",
        "Make clients trust it:",
        f"  export AWS_CA_BUNDLE={authority.absolute()}",
        "  aws --endpoint-url https://localhost:9324 sqs list-queues",
        f'  boto3.client("sqs", endpoint_url="https://localhost:9324", verify="{authority}")',
    ]


def _for_client(authority: Path, certificate: Path, key: Path) -> list[str]:
    return [
        "A client certificate:",
        f"  {certificate}, its key {key}, its authority {authority}",
        "",
        "Require it (besides --tls-certificate and --tls-key):",
        f"  penstock serve --tls-client-ca {authority} --tls-client-auth required",
        "",
        "Use it in a client:",
        f'  boto3.client("sqs", config=Config(client_cert=("{certificate}", "{key}")))',
    ]
