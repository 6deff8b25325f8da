"""Encrypted contents are decrypted to what they were for their own message, and never for another."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.encryption import envelope
from penstock.auth.encryption.envelope import MessageCipher, NoEncryption, is_encrypted
from penstock.auth.encryption.keyring import Keyring
from penstock.auth.encryption.root_key import RootKey
from penstock.errors import DecryptionFailed, KeyDisabled, KeyMissing, KeyUnavailable
from penstock.limits import MINUTE, SECOND
from penstock.names import KeyUse, Space
from penstock.testing.clock import ManualClock

HERE = Space("111122223333", "eu-west-1")
MANAGED = KeyUse(HERE, None, 5 * MINUTE)
ORDERS = KeyUse(HERE, "alias/orders", MINUTE)
HEAD = 82


class Bench:
    def __init__(self) -> None:
        self.clock = ManualClock()
        self.ring = Keyring(None, RootKey(bytes(range(32))), self.clock)
        self.orders = self.ring.create(HERE, "alias/orders")
        self.cipher = MessageCipher(self.ring, self.clock)

    def encrypt(self, content: bytes = b"content", seq: int = 7, use: KeyUse = MANAGED) -> bytes:
        (encrypted,), _ = self.cipher.encrypt([(use, seq, content)])
        return encrypted


@pytest.fixture
def bench() -> Bench:
    return Bench()


@given(st.lists(st.tuples(st.sampled_from([MANAGED, ORDERS]), st.integers(0, 2**63 - 1), st.binary())))
def test_decryption_restores_the_content(contents: list[tuple[KeyUse, int, bytes]]) -> None:
    cipher = Bench().cipher
    encrypted, heads = cipher.encrypt(contents)
    assert len(set(encrypted)) == len(contents)
    assert heads == {each[: MessageCipher.head_bytes] for each in encrypted}
    for (_, seq, content), each in zip(contents, encrypted, strict=True):
        assert is_encrypted(each)
        assert content not in each or len(content) < 4
        assert cipher.decrypt(seq, each) == content


def test_a_content_without_a_key_stays_as_it_is(bench: Bench) -> None:
    (plain, encrypted), heads = bench.cipher.encrypt([(None, 1, b"plain"), (MANAGED, 2, b"secret")])
    assert (plain, bench.cipher.decrypt(2, encrypted)) == (b"plain", b"secret")
    assert heads == {encrypted[: MessageCipher.head_bytes]}


@given(st.data())
def test_a_changed_byte_anywhere_is_refused(data: st.DataObject) -> None:
    bench = Bench()
    encrypted = bytearray(bench.encrypt())
    # The first byte tells whether a content is encrypted at all; plain text is refused where it is decoded.
    encrypted[data.draw(st.integers(1, len(encrypted) - 1))] ^= data.draw(st.integers(1, 255))
    with pytest.raises((DecryptionFailed, KeyMissing)):
        bench.cipher.decrypt(7, bytes(encrypted))


def test_a_part_of_it_is_refused(bench: Bench) -> None:
    encrypted = bench.encrypt()
    for length in range(1, len(encrypted)):
        with pytest.raises((DecryptionFailed, KeyMissing)):
            bench.cipher.decrypt(7, encrypted[:length])


def test_a_content_decrypts_for_its_own_message_only(bench: Bench) -> None:
    one, other, foreign = bench.encrypt(seq=1), bench.encrypt(seq=2), bench.encrypt(seq=1, use=ORDERS)
    mixed = foreign[:HEAD] + one[HEAD:], one[:HEAD] + foreign[HEAD:]
    for seq, encrypted in ((1, other), (2, one), (1, mixed[0]), (1, mixed[1])):
        with pytest.raises(DecryptionFailed):
            bench.cipher.decrypt(seq, encrypted)


def test_plain_contents_are_returned(bench: Bench) -> None:
    for value in ([], ["id", "body", "sender", 1], {"a": 1}, None, True, -1, 2**63, 1.5, "text", b"bytes"):
        plain = msgspec.msgpack.encode(value)
        assert not is_encrypted(plain)
        assert bench.cipher.decrypt(7, plain) is plain
        assert NoEncryption.decrypt(7, plain) is plain


def test_another_keyring_decrypts_nothing(bench: Bench) -> None:
    encrypted = bench.encrypt()
    for other in (Bench().cipher, NoEncryption()):
        with pytest.raises(KeyMissing) as caught:
            other.decrypt(7, encrypted)
        assert caught.value.key == f"key/{bench.ring.keys.managed.id}"


def test_older_versions_still_decrypt(bench: Bench) -> None:
    old = bench.encrypt(use=ORDERS)
    bench.ring.rotate(HERE, "alias/orders")
    new = bench.encrypt(use=ORDERS)
    assert (old[2:18], old[18:22]) == (new[2:18], b"\0\0\0\1")
    assert new[18:22] == b"\0\0\0\2", "at once, whatever the reuse period says"
    assert bench.cipher.decrypt(7, old) == bench.cipher.decrypt(7, new) == b"content"
    assert bench.cipher.needs_reencryption(ORDERS, old[: MessageCipher.head_bytes])
    assert not bench.cipher.needs_reencryption(ORDERS, new[: MessageCipher.head_bytes])


def test_what_is_not_under_the_key_of_the_queue_needs_reencryption(bench: Bench) -> None:
    for head in (bench.encrypt(use=MANAGED), b"\x94plain", b""):
        assert bench.cipher.needs_reencryption(ORDERS, head[: MessageCipher.head_bytes])
    bench.ring.set_enabled(HERE, "alias/orders", False)
    assert not bench.cipher.needs_reencryption(ORDERS, b"\x94plain"), "not under a key that is disabled"


def test_a_disabled_key_decrypts_nothing_until_it_is_enabled(bench: Bench) -> None:
    encrypted = bench.encrypt(use=ORDERS)
    bench.cipher.decrypt(7, encrypted)
    bench.ring.set_enabled(HERE, "alias/orders", False)
    with pytest.raises(KeyDisabled) as caught:
        bench.cipher.decrypt(7, encrypted)
    assert caught.value.key == bench.orders.arn
    bench.ring.set_enabled(HERE, "alias/orders", True)
    assert bench.cipher.decrypt(7, encrypted) == b"content"


def test_encryption_never_fails(bench: Bench) -> None:
    bench.ring.set_enabled(HERE, "alias/orders", False)
    disabled = bench.encrypt(use=ORDERS)
    missing = bench.encrypt(use=KeyUse(HERE, "alias/missing", MINUTE))
    assert bench.cipher.decrypt(7, missing) == b"content"
    bench.ring.set_enabled(HERE, "alias/orders", True)
    assert bench.cipher.decrypt(7, disabled) == b"content"


def test_a_data_key_is_used_as_long_as_its_queue_allows(bench: Bench) -> None:
    slow = KeyUse(HERE, "alias/orders", 10 * MINUTE)
    first = bench.encrypt(use=ORDERS)[:HEAD]
    bench.clock.advance(MINUTE - 1)
    assert bench.encrypt(use=ORDERS)[:HEAD] == first
    bench.clock.advance(1)
    assert bench.encrypt(use=slow)[:HEAD] == first
    second = bench.encrypt(use=ORDERS)[:HEAD]
    assert second != first
    assert bench.encrypt(use=slow)[:HEAD] == second
    assert bench.encrypt(use=MANAGED)[:HEAD] not in (first, second)


def test_a_data_key_encrypts_a_limited_number_of_messages(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(envelope, "_USES_PER_DATA_KEY", 3)
    heads = [bench.encrypt()[:HEAD] for _ in range(7)]
    assert [heads.count(head) for head in dict.fromkeys(heads)] == [3, 3, 1]


def test_nonces_are_never_used_twice(bench: Bench) -> None:
    encrypted, _ = bench.cipher.encrypt([(MANAGED, seq, b"same") for seq in range(1000)])
    assert len({each[HEAD : HEAD + 12] for each in encrypted}) == 1000
    assert len({each[:HEAD] for each in encrypted}) == 1


def test_check_reports_missing_and_disabled_keys(bench: Bench) -> None:
    for name in ("alias/orders", bench.orders.id, bench.orders.arn, "alias/aws/sqs"):
        bench.cipher.check(HERE, name)
    with pytest.raises(KeyMissing):
        bench.cipher.check(HERE, "alias/missing")
    bench.ring.set_enabled(HERE, "alias/orders", False)
    with pytest.raises(KeyDisabled):
        bench.cipher.check(HERE, "alias/orders")


def test_without_a_root_key_there_are_no_keys_and_no_encryption() -> None:
    with pytest.raises(KeyUnavailable) as caught:
        NoEncryption().check(HERE, "alias/aws/sqs")
    assert caught.value.key == "arn:aws:kms:eu-west-1:111122223333:alias/aws/sqs"
    assert NoEncryption().encrypt([(MANAGED, 1, b"content")]) == ([b"content"], set())
    assert not NoEncryption().needs_reencryption(MANAGED, b"")


def test_the_age_of_a_data_key_ignores_the_wall_clock(bench: Bench) -> None:
    first = bench.encrypt()[:HEAD]
    bench.clock.wall_offset_ms = 365 * 24 * 3600 * SECOND
    assert bench.encrypt()[:HEAD] == first, "a wall clock that is set does not matter"
