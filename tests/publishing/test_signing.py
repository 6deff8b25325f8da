"""The key that signs messages: one for all processes and restarts, and certificates that check what it signed."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.hashes import SHA1, SHA256
from cryptography.x509 import load_pem_x509_certificate

from penstock.auth.encryption.root_key import RootKey
from penstock.errors import StoreFull
from penstock.promise import Promise
from penstock.publishing.signing import Signer, SigningKeyQuestion
from penstock.server.signing_key import SigningKeyProtection
from penstock.topics.signatures import text_to_sign
from publishing.deliveries_world import BASE, DeliveriesWorld


def ready(world: DeliveriesWorld) -> Signer:
    world.do(world.signer.ready())
    return world.signer


def certificate(world: DeliveriesWorld, path: str) -> str:
    found = world.do(world.signer.certificate(path))
    assert found is not None
    return found


def check(pem: str, signature: str, text: str, digest: SHA1 | SHA256) -> None:
    key = load_pem_x509_certificate(pem.encode()).public_key()
    assert isinstance(key, RSAPublicKey)
    key.verify(base64.b64decode(signature), text.encode(), PKCS1v15(), digest)


@pytest.mark.parametrize("shards", [1, 3])
def test_the_certificate_checks_what_was_signed(shards: int) -> None:
    with DeliveriesWorld(shards) as world:
        signer = ready(world)
        pem = certificate(world, signer.certificate_path)
        check(pem, signer.sign("a\nb é\n", "1"), "a\nb é\n", SHA1())
        check(pem, signer.sign("a\nb é\n", "2"), "a\nb é\n", SHA256())
        parsed = load_pem_x509_certificate(pem.encode())
        now = datetime.now(UTC)
        assert parsed.not_valid_before_utc < now < parsed.not_valid_after_utc
        topic = world.topic()
        notice = world.notice(topic, world.subscribe(topic))
        signed = signer.signed(notice, "2")
        assert signed.certificate_url == f"{BASE}{signer.certificate_path}"
        check(pem, signed.signature, text_to_sign(notice), SHA256())
        assert (
            msgspec.structs.replace(signed, signature="", certificate_url="", signature_version="1") == notice
        )


def test_the_path_of_a_certificate_has_the_form_of_amazon() -> None:
    with DeliveriesWorld() as world:
        signer = ready(world)
        name, _, digits = signer.certificate_path.removesuffix(".pem").partition("-")
        assert name == "/SimpleNotificationService" and len(digits) == 32 and int(digits, 16)
        assert signer.is_certificate_path(signer.certificate_path)
        assert not signer.is_certificate_path("/orders")
        assert world.do(signer.certificate(signer.certificate_path.replace(digits, "0" * 32))) is None


def test_a_server_that_signs_nothing_has_no_key() -> None:
    with DeliveriesWorld() as world:
        path = f"/SimpleNotificationService-{'0' * 32}.pem"
        assert world.do(world.signer.certificate(path)) is None
        assert world.ask(SigningKeyQuestion(makes=False)) is None


def test_the_key_is_the_same_after_a_crash_and_in_another_process() -> None:
    with DeliveriesWorld(3) as world:
        signer = ready(world)
        path, signature = signer.certificate_path, signer.sign("a", "1")
        world.crash()
        assert certificate(world, path), "before anything is signed"
        assert (ready(world).certificate_path, ready(world).sign("a", "1")) == (path, signature)


def test_two_who_ask_at_the_same_time_get_the_same_key() -> None:
    with DeliveriesWorld() as world:
        asked = [world.start(world.broker.ask(SigningKeyQuestion())) for _ in range(3)]
        world.run()
        first, second, third = (each.result() for each in asked)
        assert first == second == third


def test_a_key_that_was_not_stored_is_not_used() -> None:
    with DeliveriesWorld() as world:
        world.refuse_next_commit(StoreFull("no space left on the disk"))
        refused: Promise[None] = world.start(world.signer.ready())
        world.run()
        with pytest.raises(StoreFull):
            refused.result()
        world.advance(10_000)
        assert ready(world).certificate_path


def test_a_root_key_protects_the_key() -> None:
    with DeliveriesWorld() as world:
        path = ready(world).certificate_path
        assert not world.ask(SigningKeyQuestion()).is_encrypted
        plain = world.ask(SigningKeyQuestion()).private
        world.protection = SigningKeyProtection(RootKey(b"k" * 32))
        world.crash()
        assert ready(world).certificate_path == path, "it is the same key"
        key = world.ask(SigningKeyQuestion())
        assert key.is_encrypted and plain not in key.private
        world.crash()
        assert ready(world).certificate_path == path


def test_after_the_root_key_was_replaced_there_is_a_new_key_and_former_certificates() -> None:
    with DeliveriesWorld(protection=SigningKeyProtection(RootKey(b"k" * 32))) as world:
        path, signature = ready(world).certificate_path, world.signer.sign("a", "1")
        for number in range(12):
            world.protection = SigningKeyProtection(RootKey(bytes([number]) * 32))
            world.crash()
            signer = ready(world)
            assert signer.certificate_path != path
            if number < 8:
                check(certificate(world, path), signature, "a", SHA1())
            check(certificate(world, signer.certificate_path), signer.sign("b", "1"), "b", SHA1())
        assert world.do(world.signer.certificate(path)) is None, "only some former ones are kept"
