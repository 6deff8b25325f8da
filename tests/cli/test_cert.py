"""``penstock cert``: its certificates can be served with and verified, and only the owner can read the keys."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography import x509

from penstock.cli import main
from penstock.server.tls import Tls, TlsFiles
from support.texts import says


def cert(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["cert", *arguments])


def handshake(server: ssl.SSLContext, client: ssl.SSLContext, name: str) -> None:
    """Shakes hands in memory; raises ssl.SSLError if one does not accept the other."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.wrap_bio(to_server, to_client, server_side=True)
    theirs = client.wrap_bio(to_client, to_server, server_hostname=name)
    undone = [theirs, ours]
    for _ in range(10):
        for side in list(undone):
            try:
                side.do_handshake()
                undone.remove(side)
            except ssl.SSLWantReadError:
                pass
    assert not undone


@pytest.mark.parametrize(
    "name", ["localhost", "127.0.0.1", "::1", "queues.internal", "10.0.0.5", "bücher.example"]
)
def test_strict_clients_verify_it_for_each_of_its_names(tmp_path: Path, name: str) -> None:
    out = tmp_path / "made" / "here"
    done = cert(
        "--out", str(out), "--name", "queues.internal", "--name", "10.0.0.5", "--name", "bücher.example"
    )
    assert done.exit_code == 0, done.output
    client = ssl.create_default_context(cafile=str(out / "penstock-ca.pem"))
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    tls = Tls(TlsFiles(out / "penstock-cert.pem", out / "penstock-key.pem"))
    handshake(tls.context, client, name)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(tls.context, client, "elsewhere.example")


def test_the_key_is_private_and_the_output_explains_its_use(tmp_path: Path) -> None:
    done = cert("--out", str(tmp_path))
    assert (tmp_path / "penstock-key.pem").stat().st_mode & 0o777 == 0o600
    assert (
        f"--tls-certificate {tmp_path}/penstock-cert.pem --tls-key {tmp_path}/penstock-key.pem" in done.output
    )
    assert f"AWS_CA_BUNDLE={tmp_path}/penstock-ca.pem" in done.output
    assert f'verify="{tmp_path}/penstock-ca.pem"' in done.output
    assert Tls(TlsFiles(tmp_path / "penstock-cert.pem", tmp_path / "penstock-key.pem")).warnings(
        datetime.now(UTC)
    ) == []  # fmt: skip


def test_the_key_of_the_authority_is_not_stored(tmp_path: Path) -> None:
    cert("--out", str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "penstock-ca.pem",
        "penstock-cert.pem",
        "penstock-key.pem",
    ]
    authority = x509.load_pem_x509_certificate((tmp_path / "penstock-ca.pem").read_bytes())
    certificate = x509.load_pem_x509_certificate((tmp_path / "penstock-cert.pem").read_bytes())
    certificate.verify_directly_issued_by(authority)
    assert certificate.public_key() != authority.public_key()
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca


def test_the_validity_period(tmp_path: Path) -> None:
    cert("--out", str(tmp_path), "--days", "7")
    certificate = x509.load_pem_x509_certificate((tmp_path / "penstock-cert.pem").read_bytes())
    left = certificate.not_valid_after_utc - datetime.now(UTC)
    assert timedelta(days=6, hours=23) < left <= timedelta(days=7)


def test_a_client_certificate(tmp_path: Path) -> None:
    cert("--out", str(tmp_path))
    done = cert("--out", str(tmp_path), "--client", "worker-7")
    assert done.exit_code == 0, done.output
    assert f"--tls-client-ca {tmp_path}/penstock-client-ca.pem --tls-client-auth required" in done.output
    server = Tls(
        TlsFiles(
            tmp_path / "penstock-cert.pem",
            tmp_path / "penstock-key.pem",
            tmp_path / "penstock-client-ca.pem",
            "required",
        )
    )
    client = ssl.create_default_context(cafile=str(tmp_path / "penstock-ca.pem"))
    with pytest.raises(ssl.SSLError):
        handshake(server.context, client, "localhost")
    client.load_cert_chain(tmp_path / "penstock-client-cert.pem", tmp_path / "penstock-client-key.pem")
    handshake(server.context, client, "localhost")


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    (tmp_path / "penstock-key.pem").write_text("precious")
    done = cert("--out", str(tmp_path))
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    says(done.stderr, f"{tmp_path}/penstock-key.pem", "exists", "--out")
    assert [path.name for path in tmp_path.iterdir()] == ["penstock-key.pem"]
    assert (tmp_path / "penstock-key.pem").read_text() == "precious"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--client", "a", "--name", "b"], "--name server"),
        (["--name", "ü" * 80 + ".example"], "certificate name"),
        (["--out", "/dev/null/here"], "write /dev/null/here"),
    ],
)
def test_errors_are_one_line(tmp_path: Path, arguments: list[str], words: str) -> None:
    done = cert("--out", str(tmp_path), *arguments)
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    says(done.stderr, *words.split())
    assert list(tmp_path.iterdir()) == []
