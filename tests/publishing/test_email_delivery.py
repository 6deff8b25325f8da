"""Mail: how it looks, that nobody can add headers to it, and what a mail server may answer."""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path

import msgspec
import pytest

from penstock.promise import outcome, start
from penstock.publishing.email_delivery import (
    CONFIRMATIONS_NAME,
    MailFailed,
    MailSender,
    MailServer,
    confirmation_mail,
    is_mail_address,
    notification_mail,
)
from penstock.topics.envelopes import Confirmation, ConfirmationKind
from penstock.topics.publication import Notice
from support.certificates import write_certificate
from support.harness import run

TOPIC = "arn:aws:sns:eu-west-1:000000000000:news"
NOTICE = Notice(
    message_id="5e1f", topic_arn=TOPIC, subscription_arn=f"{TOPIC}:1", text="hello", published_ms=0,
    base_url="http://localhost:9324",
)  # fmt: skip
CONFIRMATION = Confirmation(
    kind=ConfirmationKind.SUBSCRIBE, message_id="4a", topic_arn=TOPIC, subscription_arn=f"{TOPIC}:1",
    token="ab" * 128, sent_ms=0, base_url="http://localhost:9324",
)  # fmt: skip
SENDER, READER = "topics@example.com", "reader@example.org"


def parsed(mail: EmailMessage) -> EmailMessage:
    """The mail as its reader gets it."""
    found = message_from_bytes(mail.as_bytes(), policy=default)
    assert isinstance(found, EmailMessage)
    return found


def text_of(mail: EmailMessage) -> str:
    text: str = mail.get_content()
    return text.replace("\r\n", "\n")


def notification(protocol: str = "email", name: str = "", **changed: str) -> EmailMessage:
    notice = msgspec.structs.replace(NOTICE, **changed)
    return parsed(notification_mail(notice, protocol, READER, name, SENDER, 0))


def test_a_notification_has_the_text_and_a_link_that_ends_the_subscription() -> None:
    mail = notification(name="The News", subject="Today")
    assert (mail["From"], mail["To"], mail["Subject"]) == (f"The News <{SENDER}>", READER, "Today")
    text = text_of(mail)
    link = f"http://localhost:9324/?Action=Unsubscribe&SubscriptionArn={TOPIC}:1"
    assert text.startswith("hello\n\n--\n") and f"\n{link}\n" in text
    assert mail["List-Unsubscribe"] == f"<{link}>"


def test_a_notification_without_a_subject_or_a_name() -> None:
    mail = notification()
    assert (mail["Subject"], mail["From"]) == ("AWS Notification Message", f"{CONFIRMATIONS_NAME} <{SENDER}>")


def test_a_notification_as_json_is_the_envelope() -> None:
    assert json.loads(notification("email-json").get_content())["Message"] == "hello"


def test_any_text_arrives_as_it_is() -> None:
    for text in ("é 漢 😀", "x" * 5000, ".\n.\nFrom me\n", "a\tb", "\x00\x1f", "From x\n.\n"):
        assert text_of(notification(text=text)).startswith(f"{text}\n\n--\n"), text


@pytest.mark.parametrize(
    "evil",
    ["a\r\nBcc: x@example.net", "a\nBcc: x@example.net", "a\r\n\r\nbody", "\x00", "\u2028Bcc: x",
     "\x85Bcc: x@example.net",
     "=?utf-8?q?a=0D=0ABcc:_x?=", '"; Bcc: x@example.net', "<x@example.net>, y", "é" * 100],
)  # fmt: skip
def test_nobody_can_add_headers(evil: str) -> None:
    mail = notification(name=evil, subject=evil, text=evil)
    assert mail["Bcc"] is None
    assert [address.addr_spec for address in mail["From"].addresses] == [SENDER]
    assert [address.addr_spec for address in mail["To"].addresses] == [READER]
    assert list(mail) == list(notification())


def test_a_confirmation_has_a_link_and_no_name_of_the_topic() -> None:
    mail = parsed(confirmation_mail(CONFIRMATION, "email", READER, SENDER))
    assert mail["From"] == f"{CONFIRMATIONS_NAME} <{SENDER}>"
    assert mail["Subject"] == "AWS Notification - Subscription Confirmation"
    link = f"http://localhost:9324/?Action=ConfirmSubscription&TopicArn={TOPIC}&Token={'ab' * 128}"
    assert f"\n{link}\n" in text_of(mail)
    as_json = parsed(confirmation_mail(CONFIRMATION, "email-json", READER, SENDER))
    assert json.loads(as_json.get_content())["SubscribeURL"] == link
    end = msgspec.structs.replace(CONFIRMATION, kind=ConfirmationKind.UNSUBSCRIBE)
    assert parsed(confirmation_mail(end, "email", READER, SENDER))["Subject"] == (
        "AWS Notification - Unsubscribe Confirmation"
    )


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("reader@example.org", True),
        ("first.last+tag@sub.example.org", True),
        ("reader", False),
        ("", False),
        ("@example.org", False),
        ("reader@", False),
        ("a@b.example, c@d.example", False),
        ("Reader <reader@example.org>", False),
        ("reader@example.org\r\nBcc: x@example.net", False),
        ("reader@example.org ", False),
        ("réader@example.org", False),
        ("a" * 250 + "@example.org", False),
        ("=?utf-8?q?a=0D=0ABcc:_x?=@example.org", False),
        ("a b@example.org", False),
    ],
)
def test_mail_addresses(text: str, is_one: bool) -> None:
    assert is_mail_address(text) == is_one


@pytest.mark.parametrize(
    ("url", "server"),
    [
        ("smtp://mail.example.com", ("mail.example.com", 25, False, False, "", "")),
        ("smtp://u%40x:p%3Aw@m.example.com:587?tls=starttls", ("m.example.com", 587, False, True, "u@x", "p:w")),
        ("smtps://u:p@mail.example.com/", ("mail.example.com", 465, True, False, "u", "p")),
        ("smtp://[::1]:2525", ("::1", 2525, False, False, "", "")),
    ],
)  # fmt: skip
def test_urls_of_mail_servers(url: str, server: tuple[object, ...]) -> None:
    assert MailServer.parse(url, SENDER) == (*server, SENDER)


@pytest.mark.parametrize(
    "url",
    ["", "mail.example.com", "http://mail.example.com", "smtp://", "smtp://h:99999", "smtp://h?tls=maybe",
     "smtp://u:secret@h?x=y", "smtp://h/path", "smtp://h?tls=none&tls=starttls"],
)  # fmt: skip
def test_other_texts_are_no_urls_of_mail_servers(url: str) -> None:
    with pytest.raises(ValueError, match=r"expected|option|URL") as refused:
        MailServer.parse(url, SENDER)
    assert "secret" not in str(refused.value)


def test_the_sender_is_one_address() -> None:
    with pytest.raises(ValueError, match="sender"):
        MailServer.parse("smtp://h", "Somebody <a@b.example>")


class FakeSmtp:
    """A mail server on a loopback port that takes every message, or answers a command in another way."""

    def __init__(
        self,
        answers: dict[str, str] | None = None,
        tls: ssl.SSLContext | None = None,
        *,
        starts: bool = False,
    ):
        self.answers = answers or {}
        self.tls, self.starts = tls, starts
        self.commands: list[str] = []
        self.messages: list[bytes] = []

    async def __aenter__(self) -> FakeSmtp:
        at_once = None if self.starts else self.tls
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=at_once)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((self.answers.get("connect", "220 ready") + "\r\n").encode())
        while line := await reader.readline():
            command = line.decode().strip()
            self.commands.append(command)
            verb = command.split(" ")[0].split(":")[0].upper()
            writer.write((self.answers.get(verb) or self._usual(verb)).encode() + b"\r\n")
            if verb == "DATA" and verb not in self.answers:
                self.messages.append(await reader.readuntil(b"\r\n.\r\n"))
                writer.write(self.answers.get("end", "250 taken").encode() + b"\r\n")
            if verb == "STARTTLS" and self.tls is not None:
                await writer.drain()
                await writer.start_tls(self.tls)
            if verb == "QUIT":
                break
        writer.close()

    def _usual(self, verb: str) -> str:
        match verb:
            case "EHLO":
                return (
                    "250-fake\r\n250-AUTH PLAIN\r\n250 STARTTLS"
                    if self.starts
                    else "250-fake\r\n250 AUTH PLAIN"
                )
            case "DATA":
                return "354 go on"
            case "AUTH":
                return "235 welcome"
            case "STARTTLS":
                return "220 go on"
        return "250 fine"


def mail() -> EmailMessage:
    return notification_mail(NOTICE, "email", READER, "", SENDER, 0)


def sender(url: str, ca: Path | None = None) -> MailSender:
    return MailSender(MailServer.parse(url, SENDER), tls=lambda: ssl.create_default_context(cafile=ca))


async def send(by: MailSender) -> None:
    await outcome(start(by.send("000000000000", mail())))


def test_a_message_gets_to_the_server() -> None:
    async def scene() -> None:
        async with FakeSmtp() as server:
            await send(sender(f"smtp://user:secret@127.0.0.1:{server.port}"))
            assert f"mail FROM:<{SENDER}>" in server.commands[2] and f"<{READER}>" in server.commands[3]
            assert server.commands[1].startswith("AUTH PLAIN")
            assert b"\r\nTo: reader@example.org\r\n" in server.messages[0]

    run(scene)


@pytest.mark.parametrize("starts", [True, False])
def test_a_message_travels_encrypted_if_that_is_wanted(tmp_path: Path, starts: bool) -> None:
    files = write_certificate(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)

    async def scene() -> None:
        async with FakeSmtp(tls=tls, starts=starts) as server:
            form = "smtp://localhost:{}?tls=starttls" if starts else "smtps://localhost:{}"
            url = form.format(server.port)
            await send(sender(url, files.authority))
            assert len(server.messages) == 1
            with pytest.raises(MailFailed) as refused:
                await send(sender(url))  # nobody knows the certificate
            assert refused.value.can_repeat
            assert len(server.messages) == 1

    run(scene)


def test_a_server_without_tls_gets_nothing_if_tls_is_wanted() -> None:
    async def scene() -> None:
        async with FakeSmtp() as server:
            with pytest.raises(MailFailed):
                await send(sender(f"smtp://user:secret@127.0.0.1:{server.port}?tls=starttls"))
            assert not any(re.match("AUTH|MAIL", each, re.IGNORECASE) for each in server.commands)

    run(scene)


@pytest.mark.parametrize(
    ("answers", "can_repeat", "reason"),
    [
        ({"RCPT": "550 no such mailbox"}, False, "550 no such mailbox"),
        ({"RCPT": "451 try later"}, True, "451 try later"),
        ({"MAIL": "550 who are you"}, True, "550 who are you"),
        ({"end": "554 spam"}, False, "554 spam"),
        ({"end": "451 disk full"}, True, "451 disk full"),
        ({"DATA": "554 no"}, False, "554 no"),
        ({"AUTH": "535 wrong password"}, True, "535 wrong password"),
        ({"connect": "421 busy"}, True, "421 busy"),
        ({"connect": "not a mail server"}, True, "mail server"),
    ],
)
def test_what_answers_mean(answers: dict[str, str], can_repeat: bool, reason: str) -> None:
    async def scene() -> None:
        async with FakeSmtp(answers) as server:
            with pytest.raises(MailFailed, match=reason) as refused:
                await send(sender(f"smtp://user:secret@127.0.0.1:{server.port}"))
            assert refused.value.can_repeat == can_repeat
            assert "secret" not in str(refused.value)

    run(scene)


def test_a_server_that_does_not_answer_is_tried_again() -> None:
    async def scene() -> None:
        with pytest.raises(MailFailed, match="cannot be reached") as refused:
            await send(sender("smtp://127.0.0.1:1"))
        assert refused.value.can_repeat
        with pytest.raises(MailFailed, match="no mail server"):
            await send(MailSender(None))

    run(scene)
