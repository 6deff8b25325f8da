"""The server's certificate: what is refused and in which words, how it is replaced, and who must show one."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import shutil
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from penstock.server.tls import Tls, TlsError, TlsFiles
from support.certificates import ServerFiles, write_certificate
from support.harness import Client, Running, post, run, serving, until
from support.texts import says


def refusal(files: TlsFiles) -> str:
    with pytest.raises(TlsError) as caught:
        Tls(files)
    line = str(caught.value)
    assert "\n" not in line
    return line


# -- what cannot be used ---------------------------------------------------------------------------------------


def test_missing_files_are_named(server_files: ServerFiles, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere.pem"
    assert refusal(TlsFiles(nowhere, server_files.key)) == (
        f"cannot read tls_certificate {nowhere}: No such file or directory"
    )
    assert f"cannot read tls_key {nowhere}: " in refusal(TlsFiles(server_files.certificate, nowhere))
    files = TlsFiles(*server_files.files[:2], nowhere, "required")
    assert f"cannot read tls_client_ca {nowhere}: " in refusal(files)


def test_files_with_other_content(server_files: ServerFiles) -> None:
    swapped = TlsFiles(server_files.key, server_files.certificate)
    says(refusal(swapped), f"tls_certificate {server_files.key}", "no certificate", "PEM")
    twice = TlsFiles(server_files.certificate, server_files.certificate)
    says(refusal(twice), f"tls_key {server_files.certificate}", "no private key", "PEM")
    files = TlsFiles(*server_files.files[:2], server_files.key, "required")
    says(refusal(files), f"tls_client_ca {server_files.key}", "no certificate", "PEM")


def test_a_key_of_another_certificate(server_files: ServerFiles, tmp_path: Path) -> None:
    other = write_certificate(tmp_path / "other")
    line = refusal(TlsFiles(server_files.certificate, other.key))
    says(line, f"tls_key {other.key}", "not the key", f"tls_certificate {server_files.certificate}")


def test_a_key_with_a_passphrase_is_refused(server_files: ServerFiles) -> None:
    key = load_pem_private_key(server_files.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    server_files.key.write_bytes(locked)
    says(refusal(server_files.files), "passphrase")


def test_errors_of_openssl_are_reported(server_files: ServerFiles) -> None:
    weak = rsa.generate_private_key(public_exponent=65537, key_size=1024)
    name = x509.Name([])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, weak.public_key(), 1, now, now + timedelta(days=1))
    from cryptography.hazmat.primitives import hashes

    server_files.certificate.write_bytes(builder.sign(weak, hashes.SHA256()).public_bytes(Encoding.PEM))
    server_files.key.write_bytes(
        weak.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    )
    line = refusal(server_files.files)
    assert line == f"cannot use tls_certificate {server_files.certificate}: EE_KEY_TOO_SMALL"


# -- what is warned of -----------------------------------------------------------------------------------------


def test_no_warnings(server_files: ServerFiles) -> None:
    assert Tls(server_files.files).warnings(datetime.now(UTC)) == []


def test_a_near_or_past_expiry(server_files: ServerFiles) -> None:
    tls = Tls(server_files.files)
    day = tls.expires.strftime("%Y-%m-%d")
    assert tls.warnings(tls.expires - timedelta(days=22)) == []
    assert tls.warnings(tls.expires - timedelta(days=20)) == [
        f"tls_certificate {server_files.certificate} expires on {day}: renew it soon"
    ]
    assert tls.warnings(tls.expires) == [
        f"tls_certificate {server_files.certificate} has expired on {day}: renew it"
    ]


@pytest.mark.parametrize(
    ("mode", "is_warned"), [(0o600, False), (0o640, False), (0o644, True), (0o660, True)]
)
def test_a_key_that_others_can_read(server_files: ServerFiles, mode: int, is_warned: bool) -> None:
    server_files.key.chmod(mode)
    warnings = Tls(server_files.files).warnings(datetime.now(UTC))
    assert len(warnings) == is_warned
    for warning in warnings:
        says(warning, f"tls_key {server_files.key}", "others", "chmod 600")


def test_warnings_are_logged_once_a_day(server_files: ServerFiles, caplog: pytest.LogCaptureFixture) -> None:
    tls = Tls(server_files.files)
    begun = tls.expires.timestamp() - 3 * 24 * 3600
    for hour in range(48):
        tls.check(begun + hour * 3600)
    assert sum("expires on" in line for line in caplog.messages) == 2


# -- reading again ---------------------------------------------------------------------------------------------


async def serial_of(server: Running, trusting: ssl.SSLContext) -> int:
    client = await server.connect(trusting)
    shown = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    client.send(post())
    assert (await client.response()).status == 200
    client.close()
    return x509.load_der_x509_certificate(shown).serial_number


def test_a_new_certificate_is_used_by_new_connections_only(server_files: ServerFiles, tmp_path: Path) -> None:
    async def scene() -> None:
        tls = Tls(server_files.files)
        old, old_trust = tls.context, server_files.trusting()
        async with serving(tls=tls.context) as server:
            open_before = await server.connect(old_trust)
            first = await serial_of(server, old_trust)
            renewed = write_certificate(tmp_path / "renewed")
            shutil.copy(renewed.certificate, server_files.certificate)
            shutil.copy(renewed.key, server_files.key)
            assert tls.reload() and tls.context is not old
            server.listener.tls = tls.context
            assert await serial_of(server, renewed.trusting()) != first
            with pytest.raises(ssl.SSLCertVerificationError):
                await server.connect(old_trust)
            open_before.send(post())
            assert (await open_before.response()).status == 200

    run(scene)


def test_a_reload_that_fails_changes_nothing_and_says_why(
    server_files: ServerFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = Tls(server_files.files)
    before = tls.context, tls.expires
    shutil.copy(write_certificate(tmp_path / "other").key, server_files.key)
    assert not tls.reload()
    assert (tls.context, tls.expires) == before
    says(caplog.text, "stays in use", f"tls_key {server_files.key}", "not the key")


def test_files_that_change_are_loaded_once_they_are_all_there(
    server_files: ServerFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    tls, renewed = Tls(server_files.files), write_certificate(tmp_path / "renewed")
    steps = iter(range(1_000_000, 2_000_000, 11))
    assert not tls.check(next(steps))
    os.replace(renewed.certificate, server_files.certificate)
    assert not tls.check(next(steps)), "the key may be on its way"
    os.replace(renewed.key, server_files.key)
    assert not tls.check(next(steps))
    assert tls.check(next(steps))
    assert not tls.check(next(steps))
    assert caplog.text.count("certificate loaded") == 1 and "stays in use" not in caplog.text


def test_files_that_stay_invalid_are_logged_once(
    server_files: ServerFiles, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tls = Tls(server_files.files)
    server_files.certificate.unlink()
    assert not any(tls.check(1_000_000 + 11 * step) for step in range(20))
    assert caplog.text.count("stays in use") == 1


def test_files_that_could_not_be_read_at_first_are_loaded_later(
    server_files: ServerFiles,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    tls, renewed = Tls(server_files.files), write_certificate(tmp_path / "renewed")
    os.replace(renewed.certificate, server_files.certificate)
    os.replace(renewed.key, server_files.key)

    def exhausted(_: Path) -> bytes:
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", exhausted)
        assert not any(tls.check(1_000_000 + step) for step in range(5))
    assert caplog.text.count("stays in use") == 1
    assert tls.check(1_000_010)
    assert not tls.check(1_000_011)


def test_a_file_of_the_same_size_and_time_is_seen(server_files: ServerFiles, tmp_path: Path) -> None:
    """This happens when a backup is put back, in place and with its times."""
    tls, found = Tls(server_files.files), server_files.certificate.stat()
    server_files.certificate.write_bytes(server_files.certificate.read_bytes())
    os.utime(server_files.certificate, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert [tls.check(1_000_000 + step) for step in range(3)] == [False, True, False]


# -- how it is spoken ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "ciphers", "is_taken"),
    [
        (ssl.TLSVersion.TLSv1_1, "DEFAULT:@SECLEVEL=0", False),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA256", False),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-GCM-SHA256", True),
        (ssl.TLSVersion.TLSv1_3, "DEFAULT", True),
    ],
)
@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_only_safe_versions_and_ciphers_are_accepted(
    server_files: ServerFiles, version: ssl.TLSVersion, ciphers: str, is_taken: bool
) -> None:
    async def scene() -> None:
        trusting = server_files.trusting()
        trusting.minimum_version = trusting.maximum_version = version
        trusting.set_ciphers(ciphers)
        async with serving(tls=server_files.context()) as server:
            if is_taken:
                await serial_of(server, trusting)
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    await server.connect(trusting)

    run(scene)


# -- clients that show a certificate ---------------------------------------------------------------------------


async def is_served(server: Running, trusting: ssl.SSLContext) -> bool:
    """Whether a request is served. A client of TLS 1.3 learns after its handshake that it was refused."""
    try:
        client: Client = await server.connect(trusting)
        client.send(post())
        return (await client.response()).status == 200
    except (ssl.SSLError, ConnectionError, asyncio.IncompleteReadError):
        return False


@pytest.mark.parametrize(("demand", "stranger_is_served"), [("required", False), ("optional", True)])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_client_certificates(
    server_files: ServerFiles, tmp_path: Path, demand: str, stranger_is_served: bool, version: ssl.TLSVersion
) -> None:
    known = write_certificate(tmp_path / "known", "worker-7", client=True)
    unknown = write_certificate(tmp_path / "unknown", "worker-8", client=True)
    not_a_clients = server_files

    def showing(files: ServerFiles | None) -> ssl.SSLContext:
        context = server_files.trusting()
        context.maximum_version = version
        if files is not None:
            context.load_cert_chain(files.certificate, files.key)
        return context

    async def scene() -> None:
        tls = Tls(TlsFiles(*server_files.files[:2], known.authority, demand))
        async with serving(tls=tls.context) as server:
            assert await is_served(server, showing(known))
            assert await is_served(server, showing(None)) is stranger_is_served
            assert not await is_served(server, showing(unknown))
            assert not await is_served(server, showing(not_a_clients))
            await until(lambda: not server.listener._connections)

    run(scene)
