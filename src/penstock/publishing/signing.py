"""Signatures of messages: a key of our own, and the certificate by which subscribers check them.

All processes and nodes sign with the same key, also after a restart. It belongs to the shard of a fixed home, which
makes it when a message is signed for the first time: a server without topics has none. Other processes ask that
shard, and keep the key for as long as they run. Where there is a root key, the key is stored and travels encrypted.
If the root key was replaced, it cannot be read any more: then there is a new one, and the former certificates are
still served, because messages that they belong to may be waiting in queues.
"""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

import msgspec

from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.clock import real_utc
from penstock.names import Home
from penstock.promise import Promise
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home
from penstock.topics.envelopes import Confirmation
from penstock.topics.publication import Notice
from penstock.topics.signatures import text_to_sign

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey

    from penstock.broker.broker import Broker
    from penstock.broker.partition import Partition

log = logging.getLogger("penstock.topics")

M = TypeVar("M", Notice, Confirmation)

SHA1_VERSION, SHA256_VERSION = "1", "2"
DEFAULT_VERSION = SHA1_VERSION

_HOME = Home.of("topic signatures")
_KEY = _HOME.key("signing-key")
_KEY_BITS = 2048
_VALID = timedelta(days=50 * 365)
_BEFORE = timedelta(days=1)  # clocks of subscribers may be behind
_FORMER_MAX = 8
_PATH_PREFIX, _PATH_SUFFIX = "SimpleNotificationService-", ".pem"


class Protection(Protocol):
    """Encrypts the key where it is stored."""

    def encrypt(self, plain: bytes) -> bytes: ...

    def decrypt(self, encrypted: bytes) -> bytes | None:
        """Returns None if it was encrypted under another root key."""


class StoredSigningKey(msgspec.Struct, frozen=True, kw_only=True):
    """The key as it is stored."""

    private: bytes  # DER, PKCS#8; encrypted where there is a root key
    is_encrypted: bool
    certificates: tuple[str, ...]  # PEM; that of the key first, former ones behind it


SIGNING_KEYS = RecordKind("topic-signing-key", StoredSigningKey, by_home)


class SigningKeyQuestion(ShardQuestion[StoredSigningKey | None], frozen=True):
    """The key that signs messages. ``makes``: it is made if there is none."""

    kind: ClassVar[str] = "topic-signing-key"
    makes: bool = True

    def shards(self, count: int) -> Iterable[int]:
        return (_HOME.shard(count),)

    async def answer(self, partition: Partition) -> StoredSigningKey | None:
        return await partition.part(SigningKeys).get(makes=self.makes)


class SigningKeys(Part):
    """The key, in the shard that it belongs to."""

    def __init__(self, partition: Partition, protection: Protection | None) -> None:
        self._shard = partition.shard
        self._protection = protection
        self._table = partition.shard.table(SIGNING_KEYS)
        self._being_made: Promise[None] | None = None

    async def get(self, *, makes: bool) -> StoredSigningKey | None:
        """Returns the key when it is durable. Raises StoreError or NotOwned."""
        while self._being_made is not None:
            await self._being_made
        stored = self._table.get(_KEY)
        if makes and not self._is_usable(stored):
            self._being_made = Promise()
            try:
                await self._make(stored)
            finally:
                made, self._being_made = self._being_made, None
                made.resolve(None)
        await self._shard.settled()
        return self._table.get(_KEY)

    def _is_usable(self, stored: StoredSigningKey | None) -> bool:
        if stored is None or stored.is_encrypted != (self._protection is not None):
            return False
        return _plain(stored, self._protection) is not None

    async def _make(self, stored: StoredSigningKey | None) -> None:
        plain = None if stored is None else _plain(stored, self._protection)
        former = () if stored is None else stored.certificates
        if plain is None:
            if stored is not None:
                log.warning(
                    "the key that signs messages of topics cannot be decrypted: a new one replaces it"
                )
            made = await self._shard.read(_new_key)  # in a thread: it takes a while
            plain, certificate = made
            former = (certificate, *former)[: 1 + _FORMER_MAX]
        self._shard.check_owned()
        self._shard.check_sends()
        protection = self._protection
        private = plain if protection is None else protection.encrypt(plain)
        key = StoredSigningKey(private=private, is_encrypted=protection is not None, certificates=former)
        self._table.put(_KEY, key)


class Signer:
    """Signs messages of topics, in any process."""

    def __init__(self, broker: Broker, protection: Protection | None = None) -> None:
        """``protection``: None: there is no root key. Must be made before the first shard of the broker is opened."""
        self._broker = broker
        self._protection = protection
        self._sign: Callable[[str, str], bytes] | None = None
        self._certificates: dict[str, str] = {}  # by path
        self.certificate_path = ""
        """Where the certificate is served, with a slash in front. Known once :meth:`ready` has returned."""
        broker.extend(lambda partition: SigningKeys(partition, protection), [SigningKeyQuestion])

    async def ready(self) -> None:
        """Wait until messages can be signed. Raises Unreachable, StoreError, or ValueError if this process has
        another root key than the one that made the key."""
        if self._sign is None:
            key = await self._broker.ask(SigningKeyQuestion())
            if self._sign is None:  # of many that ask at the same time one makes use of it, which takes 30 ms
                self._use(key)

    def sign(self, text: str, version: str) -> str:
        """Returns the signature in base64. ``version``: SHA1_VERSION or SHA256_VERSION. :meth:`ready` comes first."""
        assert self._sign is not None, "ready() was awaited"
        return base64.b64encode(self._sign(text, version)).decode()

    def signed(self, message: M, version: str) -> M:
        """Returns the message with its signature. :meth:`ready` comes first."""
        return msgspec.structs.replace(
            message,
            signature=self.sign(text_to_sign(message), version),
            signature_version=version,
            certificate_url=message.base_url.rstrip("/") + self.certificate_path,
        )

    @staticmethod
    def is_certificate_path(path: str) -> bool:
        name = path.removeprefix("/")
        return name.startswith(_PATH_PREFIX) and name.endswith(_PATH_SUFFIX)

    async def certificate(self, path: str) -> str | None:
        """Returns the certificate that is served at a path, as PEM; None: there is none. No key is made for its sake.
        Raises Unreachable or StoreError."""
        if not self._certificates and self.is_certificate_path(path):
            key = await self._broker.ask(SigningKeyQuestion(makes=False))
            if key is not None:
                self._certificates = _by_path(key)
        return self._certificates.get(path)

    def _use(self, key: StoredSigningKey | None) -> None:
        assert key is not None, "it was asked for one"
        plain = _plain(key, self._protection)
        if plain is None:
            raise ValueError("the key that signs messages is encrypted under another root key")
        self._certificates = _by_path(key)
        self.certificate_path = next(iter(self._certificates))
        self._sign = _signing(plain)


def _plain(key: StoredSigningKey, protection: Protection | None) -> bytes | None:
    if not key.is_encrypted:
        return key.private
    return None if protection is None else protection.decrypt(key.private)


def _by_path(key: StoredSigningKey) -> dict[str, str]:
    return {_path(certificate): certificate for certificate in key.certificates}


def _path(certificate: str) -> str:
    return f"/{_PATH_PREFIX}{sha256(certificate.encode()).hexdigest()[:32]}{_PATH_SUFFIX}"


def _signing(private: bytes) -> Callable[[str, str], bytes]:
    # Imported when they are first needed: most servers never sign anything.
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA1, SHA256
    from cryptography.hazmat.primitives.serialization import load_der_private_key

    key = load_der_private_key(private, password=None)
    assert isinstance(key, RSAPrivateKey)
    padding, digests = PKCS1v15(), {SHA1_VERSION: SHA1(), SHA256_VERSION: SHA256()}
    return lambda text, version: key.sign(text.encode(), padding, digests[version])


def _new_key() -> tuple[bytes, str]:
    """Returns a new private key, and a certificate for it as PEM."""
    from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    key = generate_private_key(public_exponent=65537, key_size=_KEY_BITS)
    private = key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
    return private, _certificate(key)


def _certificate(key: RSAPrivateKey) -> str:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding
    from cryptography.x509 import CertificateBuilder, Name, NameAttribute, random_serial_number
    from cryptography.x509.oid import NameOID

    # The common name is the one that libraries expect that check messages.
    attributes = ((NameOID.ORGANIZATION_NAME, "Penstock"), (NameOID.COMMON_NAME, "sns.amazonaws.com"))
    name = Name([NameAttribute(oid, text) for oid, text in attributes])
    now = real_utc()
    built = CertificateBuilder(
        name, name, key.public_key(), random_serial_number(), now - _BEFORE, now + _VALID
    ).sign(key, SHA256())
    return built.public_bytes(Encoding.PEM).decode()
