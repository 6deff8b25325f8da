"""Whose certificate a client showed: carried from the handshake to the request, whatever it says of itself."""

from __future__ import annotations

import hashlib
import ssl
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from penstock.server.tls import Tls, TlsFiles, client_subject
from support.certificates import ServerFiles, write_certificate
from support.harness import post, run, serving


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
@pytest.mark.parametrize("shows", [True, False])
def test_a_request_has_the_subject_of_its_certificate(
    server_files: ServerFiles, tmp_path: Path, version: ssl.TLSVersion, shows: bool
) -> None:
    known = write_certificate(tmp_path / "known", "worker-7", client=True)
    context = server_files.trusting()
    context.maximum_version = version
    if shows:
        context.load_cert_chain(known.certificate, known.key)

    async def scene() -> None:
        tls = Tls(TlsFiles(*server_files.files[:2], known.authority, "optional"))
        async with serving(tls=tls.context, recorder=object()) as server:
            client = await server.connect(context)
            for _ in range(2):
                client.send(post())
                assert (await client.response()).status == 200
            client.close()
            subject = "CN=worker-7" if shows else ""
            assert [each.call.certificate for each in server.dispatcher.seen] == [subject] * 2

    run(scene)


class Shown:
    """A transport, and its TLS, that have only a certificate to show."""

    def __init__(self, certificate: bytes | None) -> None:
        self.certificate = certificate

    def get_extra_info(self, name: str) -> Shown:
        assert name == "ssl_object"
        return self

    def getpeercert(self, *, binary_form: bool) -> bytes | None:
        assert binary_form
        return self.certificate


def subject_of(certificate: bytes | None) -> str:
    transport: Any = Shown(certificate)
    return client_subject(transport)


def made(
    names: Iterable[tuple[x509.ObjectIdentifier, str]], alternative: Iterable[x509.GeneralName] = ()
) -> bytes:
    key, now = Ed25519PrivateKey.generate(), datetime.now(UTC)
    subject = x509.Name([x509.NameAttribute(*name) for name in names])
    builder = x509.CertificateBuilder(
        issuer_name=subject,
        subject_name=subject,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=now,
        not_valid_after=now + timedelta(days=1),
    )
    if alternative:
        builder = builder.add_extension(x509.SubjectAlternativeName(alternative), critical=True)
    return builder.sign(key, None).public_bytes(Encoding.DER)


def test_a_subject_has_the_form_of_rfc_4514() -> None:
    names = [(NameOID.ORGANIZATION_NAME, "Orders, Inc."), (NameOID.COMMON_NAME, "worker 7")]
    assert subject_of(made(names)) == r"CN=worker 7,O=Orders\, Inc."


def test_without_a_subject_the_alternative_names_are_used() -> None:
    uri = x509.UniformResourceIdentifier("spiffe://example.org/worker")
    assert subject_of(made([], [uri, x509.DNSName("w7")])) == "spiffe://example.org/worker, w7"


def test_a_client_without_a_certificate_has_no_subject() -> None:
    assert subject_of(None) == ""


@given(st.text(min_size=1, max_size=60), st.integers(1, 8))
def test_any_subject_is_limited_in_length(name: str, times: int) -> None:
    name = name.encode("utf-8", "replace").decode()
    certificate = made([(NameOID.ORGANIZATIONAL_UNIT_NAME, name)] * times)
    assert 0 < len(subject_of(certificate)) <= 256


@pytest.mark.parametrize("certificate", [b"\x30\x00", made([])])
def test_an_unreadable_certificate_is_named_by_its_fingerprint(certificate: bytes) -> None:
    assert subject_of(certificate) == f"sha256:{hashlib.sha256(certificate).hexdigest()}"
