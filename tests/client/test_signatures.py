"""Signatures of messages: which servers are trusted, which keys are fetched, and what was signed."""

from __future__ import annotations

import base64
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from client.fake_server import HANG, FakeServer, reply
from client.test_envelopes import changed
from penstock.client import SignatureInvalid, SignatureVerifier, Unavailable
from penstock.client.envelopes import read_envelope
from penstock.client.http.exchange import HttpResponse
from penstock.client.signatures import TrustedUrls, signed_text
from support.texts import says

CERTIFICATE_URL = "https://sns.eu-central-1.amazonaws.com/SimpleNotificationService-0.pem"
PATH = "/SimpleNotificationService-00000000000000000000000000000000.pem"
TOPIC = "arn:aws:sns:eu-central-1:123456789012:orders"
CONFIRMATION: dict[str, Any] = {
    "Type": "SubscriptionConfirmation", "Token": "2336", "MessageAttributes": None, "UnsubscribeURL": None,
    "SubscribeURL": "https://sns.eu-central-1.amazonaws.com/?Action=ConfirmSubscription&Token=2336", "Subject": None,
}  # fmt: skip


class Signer(NamedTuple):
    """The key of a server of topics."""

    key: Any
    certificate: bytes

    @classmethod
    def make(cls, key: Any) -> Signer:
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "sns.amazonaws.com")])
        now = datetime.now(UTC)
        certificate = (
            x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
            .serial_number(1).not_valid_before(now).not_valid_after(now + timedelta(days=1))
            .sign(key, hashes.SHA256())
        )  # fmt: skip
        return cls(key, certificate.public_bytes(Encoding.PEM))

    def signed(self, version: str = "1", url: str = CERTIFICATE_URL, **members: Any) -> str:
        """An envelope with other members, and their signature."""
        body = changed(**{"SignatureVersion": version, "SigningCertURL": url, **members})
        algorithm = hashes.SHA1() if version == "1" else hashes.SHA256()
        text = signed_text(read_envelope(body)).encode()
        signature = base64.b64encode(self.key.sign(text, PKCS1v15(), algorithm)).decode()
        return json.dumps({**json.loads(body), "Signature": signature})


@pytest.fixture(scope="module")
def signer() -> Signer:
    return Signer.make(rsa.generate_private_key(65537, 2048))


def fetching(signer: Signer) -> tuple[Callable[[str], HttpResponse], list[str]]:
    asked: list[str] = []

    def fetch(url: str) -> HttpResponse:
        asked.append(url)
        return HttpResponse(200, [], signer.certificate)

    return fetch, asked


def test_the_text_that_is_signed() -> None:
    """The members and their order are those of the guide of SNS."""
    assert signed_text(read_envelope(changed())) == (
        "Message\ngrüße\n🐌\nMessageId\n5e3e4ca7-6a4e-5a1a-b9f0-2d5c3c8d4f11\nSubject\nnew \"order\"\n"
        f"Timestamp\n2026-09-14T09:28:12.177Z\nTopicArn\n{TOPIC}\nType\nNotification\n"
    )  # fmt: skip
    assert "Subject" not in signed_text(read_envelope(changed(Subject=None)))
    assert "Subject\n\n" in signed_text(read_envelope(changed(Subject="")))
    asked = signed_text(read_envelope(changed(**CONFIRMATION)))
    assert [line for line in asked.splitlines() if line[0].isupper()] == [
        "Message", "MessageId", "SubscribeURL", "Timestamp", "Token", "TopicArn", "Type", "SubscriptionConfirmation"
    ]  # fmt: skip


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize(
    "members", [{}, {"Subject": None}, CONFIRMATION], ids=["subject", "none", "confirmation"]
)
def test_a_signature_is_checked_and_the_key_is_kept(
    signer: Signer, version: str, members: dict[str, Any]
) -> None:
    fetch, asked = fetching(signer)
    verifier = SignatureVerifier(fetch=fetch)
    for _ in range(2):
        verifier.verify(read_envelope(signer.signed(version, **members)))
    assert asked == [CERTIFICATE_URL]


@pytest.mark.parametrize(
    "change",
    [{"Message": "else"}, {"Subject": None}, {"Timestamp": "2026-09-14T09:28:13.177Z"}, {"MessageId": "2"},
     {"TopicArn": TOPIC + "s"}, {"SignatureVersion": "2"}, {"SignatureVersion": "3"}, {"SignatureVersion": None},
     {"Signature": "AAAA"}, {"Signature": "%"}, {"Signature": None}, {"Signature": "grün"}],
    ids=str,
)  # fmt: skip
def test_what_was_changed_is_refused(signer: Signer, change: dict[str, Any]) -> None:
    body = {**json.loads(signer.signed()), **change}
    text = json.dumps({name: value for name, value in body.items() if value is not None})
    with pytest.raises(SignatureInvalid):
        SignatureVerifier(fetch=fetching(signer)[0]).verify(read_envelope(text))


def test_the_key_of_another_server_is_refused(signer: Signer) -> None:
    other = Signer.make(rsa.generate_private_key(65537, 2048))
    with pytest.raises(SignatureInvalid, match="signature is wrong"):
        SignatureVerifier(fetch=fetching(other)[0]).verify(read_envelope(signer.signed()))


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"])
def test_what_is_no_certificate_is_refused(signer: Signer, content: bytes) -> None:
    verifier = SignatureVerifier(fetch=lambda url: HttpResponse(200, [], content))
    with pytest.raises(SignatureInvalid, match="certificate"):
        verifier.verify(read_envelope(signer.signed()))


def test_a_key_of_another_kind_is_refused(signer: Signer) -> None:
    other = Signer.make(ec.generate_private_key(ec.SECP256R1()))
    with pytest.raises(SignatureInvalid, match="RSA"):
        SignatureVerifier(fetch=fetching(other)[0]).verify(read_envelope(signer.signed()))


def test_only_topics_that_are_expected_are_accepted(signer: Signer) -> None:
    fetch, asked = fetching(signer)
    with pytest.raises(SignatureInvalid, match="topic"):
        SignatureVerifier(topics=[f"{TOPIC}-2"], fetch=fetch).verify(read_envelope(signer.signed()))
    assert not asked
    SignatureVerifier(topics=[f"{TOPIC}-2", TOPIC], fetch=fetch).verify(read_envelope(signer.signed()))


def test_an_error_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(SignatureInvalid("its signature is wrong")))
    assert isinstance(error, SignatureInvalid) and error.reason == "its signature is wrong"


# -- which URLs are trusted ------------------------------------------------------------------------------------------

AMAZON = "https://sns.us-east-1.amazonaws.com"


@pytest.mark.parametrize(
    "url", [f"{AMAZON}/a.pem", f"{AMAZON}:443/a/b.pem", "https://sns.cn-north-1.amazonaws.com.cn/a.pem",
            "http://127.0.0.1:9324/a.pem", "HTTPS://BROKER.example.com/a.pem"]
)  # fmt: skip
def test_trusted_certificates(url: str) -> None:
    trusted = TrustedUrls(["http://127.0.0.1:9324/any/path", "https://broker.example.com"])
    assert trusted.has_certificate(url)


@pytest.mark.parametrize(
    "url",
    [
        "", "a.pem", "ftp://sns.us-east-1.amazonaws.com/a.pem", "http://sns.us-east-1.amazonaws.com/a.pem",
        f"{AMAZON}:8443/a.pem", f"{AMAZON}.evil.example/a.pem", "https://evil.example/sns.us-east-1.amazonaws.com/a.pem",
        f"{AMAZON}@evil.example/a.pem", f"{AMAZON}:443@evil.example/a.pem", f"{AMAZON}\\@evil.example/a.pem",
        "https://x@sns.us-east-1.amazonaws.com/a.pem", f"{AMAZON}#@evil.example/a.pem", f"{AMAZON}?/a.pem",
        "https://snsXus-east-1.amazonaws.com/a.pem", "https://evil.amazonaws.com/a.pem",
        "https://sns.us-east-1.amazonaws.com.cn.evil/a.pem", "https://sns.a.b.amazonaws.com/a.pem",
        "https://s3.amazonaws.com/sns.us-east-1.amazonaws.com/a.pem", f"{AMAZON}./a.pem",
        f"{AMAZON}/a", f"{AMAZON}/a.pem?x", f"{AMAZON}/a.pem#x", f"{AMAZON}/?a=.pem", f"{AMAZON}/a b.pem",
        f"{AMAZON}/%2e.pem", f"{AMAZON}/ü.pem", f"{AMAZON}/\r\nx.pem", f"{AMAZON}/a.pem\n", f"{AMAZON}/a.pem\x00",
        "http://127.0.0.1:9325/a.pem", "https://127.0.0.1:9324/a.pem", "http://127.0.0.1/a.pem", "https://[/a.pem",
        "https://sns.us-east-1.amazonaws.com:99999/a.pem",
    ],
)  # fmt: skip
def test_certificates_elsewhere(url: str) -> None:
    assert not TrustedUrls(["http://127.0.0.1:9324"]).has_certificate(url)


def test_a_confirmation_does_nothing_else() -> None:
    trusted = TrustedUrls([])
    good = f"{AMAZON}/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token=2336"
    assert trusted.has_confirmation(good, TOPIC)
    assert trusted.has_confirmation(good.replace(":aws:", "%3Aaws%3A"), TOPIC)
    for url in (
        good.replace("Confirm", "Un"), good.replace("orders", "bills"), f"{good}&Action=DeleteTopic", f"{good}#x",
        good.replace(AMAZON, "https://evil.example"), f"{AMAZON}/?Action", AMAZON, f"{good}&a=1" * 20,
    ):  # fmt: skip
        assert not trusted.has_confirmation(url, TOPIC), url


def test_settings_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="broker"):
        SignatureVerifier(trusted=["broker.example.com"])
    with pytest.raises(ValueError, match="pattern"):
        SignatureVerifier(amazon_host="(")


def test_without_the_package_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(RuntimeError) as raised:
        SignatureVerifier()
    says(str(raised.value), "pip install cryptography")


# -- fetching --------------------------------------------------------------------------------------------------------


def test_a_certificate_of_the_own_server_is_fetched_once(signer: Signer) -> None:
    with FakeServer(reply(body=signer.certificate)) as server:
        verifier = SignatureVerifier(trusted=[server.url])
        for _ in range(2):
            verifier.verify(read_envelope(signer.signed("2", f"{server.url}{PATH}")))
    (request,) = server.requests
    assert request.startswith(f"GET {PATH} HTTP/1.1\r\n".encode())
    assert b"authorization" not in request.lower()


@pytest.mark.parametrize(
    ("answer", "kind"),
    [(reply(500), Unavailable), (reply(429), Unavailable), (reply(404), SignatureInvalid),
     (reply(302, Location="http://127.0.0.1:1/"), SignatureInvalid), (reply(body=b"x" * 100_000), Unavailable)],
    ids=["500", "429", "404", "redirect", "large"],
)  # fmt: skip
def test_a_certificate_that_cannot_be_had(signer: Signer, answer: bytes, kind: type[Exception]) -> None:
    with FakeServer(answer) as server, pytest.raises(kind):
        SignatureVerifier(trusted=[server.url]).verify(
            read_envelope(signer.signed("2", f"{server.url}{PATH}"))
        )
    assert len(server.requests) == 1


def test_a_server_that_is_away(signer: Signer) -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1"):
        SignatureVerifier(trusted=["http://127.0.0.1:1"]).verify(
            read_envelope(signer.signed("2", f"http://127.0.0.1:1{PATH}"))
        )


def test_a_server_that_does_not_answer(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.signatures._TIMEOUT_S", 0.1)
    with FakeServer(HANG) as server, pytest.raises(Unavailable, match="timed out"):
        SignatureVerifier(trusted=[server.url]).verify(
            read_envelope(signer.signed("2", f"{server.url}{PATH}"))
        )


def test_few_keys_are_kept(signer: Signer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.client.signatures._CERTIFICATES_MAX", 2)
    fetch, asked = fetching(signer)
    verifier = SignatureVerifier(fetch=fetch)
    urls = [f"{AMAZON}/{number}.pem" for number in (1, 2, 3, 1)]
    for url in urls:
        verifier.verify(read_envelope(signer.signed(url=url)))
    assert asked == urls
