"""Mutual TLS between nodes: certificates of one authority, for the host that is called."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.links import QUICK, SECRET, Proxy, linked, outcome
from penstock.cluster.handshake import LinkSecurity
from penstock.cluster.link import NotSent
from penstock.server.tls import LinkTls, TlsError
from support.harness import run, until

BOTH = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]


class Files(NamedTuple):
    certificate: Path
    key: Path
    authority: Path

    def security(self, secret: bytes = SECRET.secret) -> LinkSecurity:
        tls = LinkTls(*self)
        return LinkSecurity(secret, tls.accepts, tls.connects)


class Authority:
    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, folder.name)])
        made = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        (folder / "ca.pem").write_bytes(made.public_bytes(Encoding.PEM))

    def node(self, name: str, address: str = "127.0.0.1") -> Files:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        made = (
            self._builder(subject, key.public_key())
            .add_extension(x509.ExtendedKeyUsage(BOTH), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address(address))]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        files = Files(self._folder / f"{name}.pem", self._folder / f"{name}.key", self._folder / "ca.pem")
        files.certificate.write_bytes(made.public_bytes(Encoding.PEM))
        files.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
        )


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "cluster")


def test_nodes_with_certificates_of_one_authority_talk(authority: Authority) -> None:
    async def test() -> None:
        first, second = authority.node("first").security(), authority.node("second").security()
        assert not first.encrypts, "TLS does"
        async with linked(there=first, here=second) as ends, Proxy(ends.address) as proxy:
            ends.address = proxy.address
            payload = b"confidential" * 100_000
            assert await outcome(ends.call("echo", payload)) == payload
            assert b"confidential" not in proxy.seen

    run(test)


@pytest.mark.parametrize("wrong", ["authority", "host", "no certificate", "secret"])
def test_others_are_refused(authority: Authority, tmp_path: Path, wrong: str) -> None:
    async def test() -> None:
        there, here = authority.node("first").security(), authority.node("second").security()
        match wrong:
            case "authority":
                here = Authority(tmp_path / "other").node("third").security()
            case "host":
                there = authority.node("first", "192.0.2.1").security()
            case "no certificate":
                here = SECRET
            case "secret":
                here = authority.node("second").security(b"the secret of another cluster")
        async with linked(there=there, here=here) as ends:
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))
            await until(lambda: not ends.there._links)

    run(test)


def test_handshakes_that_do_not_end_are_few_and_keep_no_node_out(authority: Authority) -> None:
    async def test() -> None:
        limits = msgspec.structs.replace(QUICK, unproven_max=5, tick_s=5.0)
        security = authority.node("first").security()
        async with linked(limits=limits, there=security, here=security) as ends:
            host, _, port = ends.address.rpartition(":")
            silent = [await asyncio.open_connection(host, int(port)) for _ in range(20)]
            for reader, _ in silent[:15]:
                assert await reader.read() == b""  # closed, for those that came later
            assert len(ends.there._links) == 5
            assert await outcome(ends.call("echo", b"hello")) == b"hello"
            for _, writer in silent:
                writer.close()

    run(test)


def test_renewed_files_are_used_for_new_connections(authority: Authority) -> None:
    async def test() -> None:
        files = authority.node("first", "192.0.2.1")
        tls = LinkTls(*files)
        there = LinkSecurity(SECRET.secret, tls.accepts, tls.connects)
        async with linked(there=there, here=authority.node("second").security()) as ends:
            with pytest.raises(NotSent):
                await outcome(ends.call("echo"))
            authority.node("first")  # renewed, with the right address
            for _ in range(3):  # a change is read once the files have stopped changing
                tls.check()
            await asyncio.sleep(QUICK.backoff_s_max)
            assert await outcome(ends.call("echo", b"renewed")) == b"renewed"

    run(test)


def test_errors_name_the_settings_of_the_cluster(authority: Authority) -> None:
    first, second = authority.node("first"), authority.node("second")
    with pytest.raises(TlsError, match=r"cluster_tls_key .*not the key.* cluster_tls_certificate"):
        LinkTls(first.certificate, second.key, first.authority)
    with pytest.raises(TlsError, match=r"cluster_tls_ca .* no certificate"):
        LinkTls(first.certificate, first.key, first.key)
    with pytest.raises(TlsError, match="cannot read cluster_tls_certificate"):
        LinkTls(first.certificate.with_name("absent"), first.key, first.authority)
