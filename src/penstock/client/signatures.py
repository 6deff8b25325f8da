"""Checks that a message came from a topic: SNS signs what it delivers, with a key whose certificate it publishes.

The message itself names the URL of the certificate, so that everything depends on which URLs are trusted: those of
Amazon SNS, and those of the server that the client uses. Whoever has a topic of Amazon can have a message signed by
Amazon. So whoever takes messages from anyone, as a URL on the internet does, should say from which topics.
"""

from __future__ import annotations

import base64
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import parse_qs, urlsplit

from penstock.client.api import run
from penstock.client.codec import DecodeError
from penstock.client.envelopes import NOTIFICATION, Envelope
from penstock.client.errors import Unavailable
from penstock.client.http.blocking import BlockingNetwork
from penstock.client.http.exchange import Address, ExchangeFailed, HttpResponse
from penstock.client.signing import RequestTemplate

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

AMAZON_HOST = r"sns\.[a-z0-9-]{3,32}\.amazonaws\.com(?:\.cn)?"
_CERTIFICATE_PATH = re.compile(r"(?:/[A-Za-z0-9_.-]+)+\.pem")
_CERTIFICATE_BYTES_MAX = 64 * 1024
_CERTIFICATES_MAX = 100
_KEPT_S = 24 * 3600.0  # a certificate in the memory
_TIMEOUT_S = 10.0
_SIGNED = ("Message", "MessageId", "Subject", "Timestamp", "TopicArn", "Type")
_SIGNED_REQUEST = ("Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type")


class SignatureInvalid(DecodeError):
    """A message that does not come from a trusted topic, as far as can be seen."""

    def __init__(self, reason: str) -> None:
        """Say why the message is not trusted.

        :param reason: What is wrong.
        """
        super().__init__("a signed message of a topic", reason)

    def __reduce__(self) -> tuple[type[SignatureInvalid], tuple[str]]:
        return SignatureInvalid, (self.reason,)


# -- pure functions --------------------------------------------------------------------------------------------------


def signed_text(envelope: Envelope) -> str:
    """What is signed: names and values of some members, each in a line."""
    values = {
        "Message": envelope.message, "MessageId": envelope.message_id, "Subject": envelope.subject,
        "SubscribeURL": envelope.subscribe_url, "Timestamp": envelope.timestamp, "Token": envelope.token,
        "TopicArn": envelope.topic_arn, "Type": envelope.type,
    }  # fmt: skip
    names = _SIGNED if envelope.type == NOTIFICATION else _SIGNED_REQUEST
    return "".join(f"{name}\n{values[name]}\n" for name in names if values[name] is not None)


def check_signature(envelope: Envelope, key: RSAPublicKey) -> None:
    """Raises SignatureInvalid unless the key made the signature."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15

    if envelope.signature_version not in ("1", "2"):
        raise SignatureInvalid("it has no signature that can be checked")
    # SNS: version 1 signs with SHA-1. It is the default of Amazon.
    algorithm = hashes.SHA1() if envelope.signature_version == "1" else hashes.SHA256()
    try:
        signature = base64.b64decode(envelope.signature, validate=True)
        text = signed_text(envelope).encode()
        key.verify(signature, text, PKCS1v15(), algorithm)
    except (InvalidSignature, ValueError):
        raise SignatureInvalid("its signature is wrong") from None


def read_key(certificate: bytes) -> RSAPublicKey:
    """The key of a certificate in PEM. Raises SignatureInvalid for anything else."""
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509 import load_pem_x509_certificate

    try:
        key = load_pem_x509_certificate(certificate).public_key()
    except ValueError:
        key = None
    if not isinstance(key, RSAPublicKey):
        raise SignatureInvalid("its SigningCertURL is not that of a certificate with an RSA key")
    return key


class Origin(NamedTuple):
    """Where a URL leads to."""

    scheme: str
    host: str
    port: int

    @classmethod
    def of(cls, url: str) -> Origin | None:
        """None for a URL that not everyone reads alike."""
        if not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
            return None
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            return None
        if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or port == 0:
            return None
        return cls(parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80))


class TrustedUrls:
    """The URLs of servers whose word counts: Amazon's, and those of origins that were named."""

    def __init__(self, origins: Sequence[str], amazon_host: str = AMAZON_HOST) -> None:
        """``origins``: URLs of which scheme, host and port count. ``amazon_host``: a pattern of hosts that are
        trusted over HTTPS. Raises ValueError for an origin that is not a URL."""
        self._amazon_host = re.compile(amazon_host)
        self._origins = set()
        for url in origins:
            origin = Origin.of(url)
            if origin is None:
                raise ValueError(
                    f'invalid trusted URL "{url}": expected one such as https://broker.example.com'
                )
            self._origins.add(origin)

    def has_origin(self, url: str) -> bool:
        origin = Origin.of(url)
        return origin is not None and (origin in self._origins or self._is_of_amazon(origin))

    def has_certificate(self, url: str) -> bool:
        """Whether the URL is that of a certificate at a trusted server."""
        return self.has_origin(url) and _CERTIFICATE_PATH.fullmatch(_behind_host(url)) is not None

    def has_confirmation(self, url: str, topic_arn: str) -> bool:
        """Whether the URL confirms a subscription of this topic at a trusted server, and does nothing else."""
        if not self.has_origin(url) or "#" in url:
            return False
        try:
            asked = parse_qs(urlsplit(url).query, strict_parsing=True, max_num_fields=10)
        except ValueError:
            return False
        return asked.get("Action") == ["ConfirmSubscription"] and asked.get("TopicArn") == [topic_arn]

    def is_of_amazon(self, url: str) -> bool:
        origin = Origin.of(url)
        return origin is not None and origin not in self._origins and self._is_of_amazon(origin)

    def _is_of_amazon(self, origin: Origin) -> bool:
        is_secure = origin.scheme == "https" and origin.port == 443
        return is_secure and self._amazon_host.fullmatch(origin.host) is not None


def _behind_host(url: str) -> str:
    parts = urlsplit(url)
    return url[url.index(parts.netloc) + len(parts.netloc) :]


# -- the verifier ----------------------------------------------------------------------------------------------------

Fetch = Callable[[str], HttpResponse]


class SignatureVerifier:
    """Checks the signatures of messages that topics deliver, and keeps the certificates that it fetches for it.

        verifier = SignatureVerifier(trusted=["https://broker.example.com"], topics=[topic_arn])
        verifier.verify(envelope)

    It can be used by any number of threads. It needs the package ``cryptography``.
    """

    def __init__(
        self,
        *,
        trusted: Sequence[str] = (),
        topics: Sequence[str] = (),
        amazon_host: str = AMAZON_HOST,
        ca_file: str | None = None,
        fetch: Fetch | None = None,
    ) -> None:
        """Choose what is trusted; nothing is fetched yet.

        :param trusted: URLs of servers whose certificates are trusted, besides Amazon's: the public URL of Penstock,
            say. Scheme, host and port count. Empty by default.
        :param topics: The ARNs of the topics that messages may come from; empty (the default): all.
        :param amazon_host: A regular expression of hosts whose certificates are trusted over HTTPS; by default those
            of Amazon SNS in all regions.
        :param ca_file: Certificate authorities (PEM) of the servers in ``trusted``; None (the default): those of the
            system.
        :param fetch: What gets a URL; None (the default): a request of its own, without redirects.
        :raises ValueError: A URL or the expression is invalid.
        :raises RuntimeError: The package ``cryptography`` is not installed.
        """
        _need_cryptography()
        try:
            self.urls = TrustedUrls(trusted, amazon_host)
        except re.error as error:
            raise ValueError(f'invalid pattern "{amazon_host}" of hosts: {error}') from None
        self._topics = frozenset(topics)
        self._ca_file = ca_file
        self._fetch = fetch or self._get
        self._network = BlockingNetwork(4)
        self._keys: OrderedDict[str, tuple[float, RSAPublicKey]] = OrderedDict()
        self._lock = threading.Lock()

    def verify(self, envelope: Envelope) -> None:
        """Check the topic and the signature. This blocks while a certificate is fetched for the first time.

            verifier.verify(read_envelope(body))

        :param envelope: The envelope that was received.
        :raises SignatureInvalid: It is not signed by a server that is trusted, or its topic is another one.
        :raises Unavailable: The certificate cannot be fetched at the moment.
        """
        self.check_topic(envelope)
        check_signature(envelope, self.kept_key(envelope) or self.fetch_key(envelope))

    def check_topic(self, envelope: Envelope) -> None:
        """Check only what the envelope says about itself: its topic and the URL of its certificate.

        :param envelope: The envelope that was received.
        :raises SignatureInvalid: Its topic is another one, or its certificate is elsewhere.
        """
        if self._topics and envelope.topic_arn not in self._topics:
            raise SignatureInvalid("its topic is not one of those that are expected")
        if not envelope.signature:
            # SNS: messages of FIFO topics have none.
            raise SignatureInvalid("it has no signature")
        if not self.urls.has_certificate(envelope.signing_cert_url):
            raise SignatureInvalid("its SigningCertURL is not that of a trusted server")

    def kept_key(self, envelope: Envelope) -> RSAPublicKey | None:
        """Look for the key that was fetched before.

        :param envelope: The envelope that was received, with a trusted URL.
        :returns: The key, or None if its certificate has to be fetched.
        """
        with self._lock:
            fetched_s, key = self._keys.get(envelope.signing_cert_url, (0.0, None))
        return key if key is not None and time.monotonic() < fetched_s + _KEPT_S else None

    def fetch_key(self, envelope: Envelope) -> RSAPublicKey:
        """Fetch the certificate that the envelope names, and keep its key.

        :param envelope: The envelope that was received, with a trusted URL.
        :returns: The key.
        :raises SignatureInvalid: There is no certificate at the URL.
        :raises Unavailable: It cannot be fetched at the moment.
        """
        url = envelope.signing_cert_url
        answer = self._fetch(url)
        if answer.status >= 500 or answer.status == 429:
            raise Unavailable(f"the certificate cannot be fetched: status {answer.status}")
        if answer.status != 200:
            raise SignatureInvalid("there is no certificate at its SigningCertURL")
        key = read_key(answer.body)
        with self._lock:
            self._keys[url] = (time.monotonic(), key)
            self._keys.move_to_end(url)
            if len(self._keys) > _CERTIFICATES_MAX:
                self._keys.popitem(last=False)
        return key

    def get(self, url: str) -> HttpResponse:
        """Get a URL of a trusted server, without following redirects.

        :param url: The URL.
        :returns: The answer, whatever its status is.
        :raises SignatureInvalid: The server is not trusted.
        :raises Unavailable: The server did not answer.
        """
        if not self.urls.has_origin(url):
            raise SignatureInvalid("one of its URLs is not that of a trusted server")
        return self._fetch(url)

    def _get(self, url: str) -> HttpResponse:
        request = RequestTemplate("GET", url, {"connection": "close"}, None, "", "").request(b"", 0)
        address = Address.of(url, None if self.urls.is_of_amazon(url) else self._ca_file)
        pieces: list[bytes] = []
        try:
            answer = run(self._network.exchange(address, request, _TIMEOUT_S, _bounded(pieces)))
        except ExchangeFailed as failure:
            raise Unavailable(f"no answer from {address.host}: {failure}") from None
        return HttpResponse(answer.status, answer.headers, b"".join(pieces) or answer.body)


def _bounded(pieces: list[bytes]) -> Callable[[bytes], None]:
    """Collects a body that must not be long."""

    def add(piece: bytes) -> None:
        pieces.append(piece)
        if sum(map(len, pieces)) > _CERTIFICATE_BYTES_MAX:
            raise ExchangeFailed(f"the answer has more than {_CERTIFICATE_BYTES_MAX} bytes", is_final=True)

    return add


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise RuntimeError(
            "signatures can only be checked with the package cryptography: pip install cryptography"
        ) from None
