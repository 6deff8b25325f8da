"""Messages of topics as mail: how they look, and how they get to the mail server of the operator.

Whoever publishes chooses subject and text, and whoever owns the topic a name: none of them can add a header. The mail
server is spoken to in a thread, a message at a time, with a limit for each step.
"""

from __future__ import annotations

import re
import smtplib
import ssl
from collections.abc import Callable
from contextlib import suppress
from email.errors import MessageError
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate, parseaddr
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from penstock.fair_share import FairShare
from penstock.outgoing import in_thread
from penstock.topics.envelopes import (
    Confirmation,
    ConfirmationKind,
    confirmation,
    notification,
    unsubscribe_url,
)
from penstock.topics.publication import Notice

JSON_PROTOCOL = "email-json"
DEFAULT_SUBJECT = "AWS Notification Message"
CONFIRMATIONS_NAME = "Penstock Notifications"
"""Who mail about subscriptions comes from: never a name that the owner of a topic chooses."""

_STEP_TIMEOUT_S = 20.0
_AT_A_TIME, _OF_ONE_ACCOUNT = 8, 4
_ADDRESS_MAX = 254
_NAME_MAX = 100
_PORTS = {"smtp": 25, "smtps": 465}
_STARTTLS = ("none", "starttls")
_ENCODED = "=?"  # where a part of a header in another character set begins
_POLICY = SMTP.clone(max_line_length=998)  # a longer line of a header would be encoded, which no URL survives
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]+")


class MailFailed(Exception):
    """A message was not taken. The text says why."""

    def __init__(self, reason: str, *, can_repeat: bool) -> None:
        super().__init__(reason)
        self.can_repeat = can_repeat


class MailServer(NamedTuple):
    """Where mail goes, and whom it comes from."""

    host: str
    port: int
    is_tls: bool  # from the first byte
    starts_tls: bool
    user: str
    password: str
    sender: str  # the address

    @classmethod
    def parse(cls, url: str, sender: str) -> MailServer:
        """``url``: such as smtp://user:password@mail.example.com:587?tls=starttls, or smtps://mail.example.com.
        Raises ValueError with what is wrong, which never has the password in it."""
        try:
            parts = urlsplit(url)
            port = parts.port
            host, user, password = parts.hostname, parts.username, parts.password
        except ValueError:
            raise ValueError("it is not a URL") from None
        if parts.scheme not in _PORTS or not host or parts.path not in ("", "/") or parts.fragment:
            raise ValueError("expected smtp://HOST:PORT or smtps://HOST:PORT")
        options = parse_qs(parts.query, keep_blank_values=True)
        tls = options.pop("tls", ["none"])
        if options or len(tls) != 1 or tls[0] not in _STARTTLS:
            raise ValueError("the only option is tls=starttls")
        if not is_mail_address(sender):
            raise ValueError("the address of the sender is invalid")
        is_tls = parts.scheme == "smtps"
        return cls(
            host, port or _PORTS[parts.scheme], is_tls, not is_tls and tls[0] == "starttls",
            unquote(user or ""), unquote(password or ""), sender,
        )  # fmt: skip


def is_mail_address(text: str) -> bool:
    """Whether mail can be sent to this: one plain address."""
    name, address = parseaddr(text)
    if name or address != text or len(text) > _ADDRESS_MAX or _ENCODED in text:
        return False
    if not text.isascii() or not text.isprintable() or " " in text:
        return False
    try:
        return bool(Address(addr_spec=text).domain)
    except (MessageError, ValueError, IndexError):
        return False


# -- how messages look ---------------------------------------------------------------------------------------------


def notification_mail(
    notice: Notice, protocol: str, to: str, display_name: str, sender: str, at_ms: int
) -> EmailMessage:
    link = unsubscribe_url(notice, notice.subscription_arn)
    if protocol == JSON_PROTOCOL:
        text = notification(notice)
    else:
        text = (
            f"{notice.text}\n\n--\n"
            "If you wish to stop receiving notifications from this topic, please visit the link below to "
            f"unsubscribe:\n{link}\n\nPlease do not reply directly to this email.\n"
        )
    # SNS: a notification comes from the name of its topic.
    name = display_name or CONFIRMATIONS_NAME
    mail = _mail(name, sender, to, notice.subject or DEFAULT_SUBJECT, text, notice.message_id, at_ms)
    mail["List-Unsubscribe"] = f"<{link}>"
    return mail


def confirmation_mail(of: Confirmation, protocol: str, to: str, sender: str) -> EmailMessage:
    if protocol == JSON_PROTOCOL:
        text = confirmation(of)
    elif of.kind is ConfirmationKind.SUBSCRIBE:
        text = (
            f"You have chosen to subscribe to the topic:\n{of.topic_arn}\n\n"
            f"To confirm this subscription, visit the link below (if this was in error, no action is necessary):\n"
            f"{of.subscribe_url}\n"
        )
    else:
        text = (
            f"Your subscription to the topic below has been deleted:\n{of.topic_arn}\n\n"
            f"If this was in error, visit the link below to restore it:\n{of.subscribe_url}\n"
        )
    is_new = of.kind is ConfirmationKind.SUBSCRIBE
    subject = "Subscription Confirmation" if is_new else "Unsubscribe Confirmation"
    # SNS: mail about subscriptions never comes from the name of a topic.
    return _mail(
        CONFIRMATIONS_NAME, sender, to, f"AWS Notification - {subject}", text, of.message_id, of.sent_ms
    )


def _mail(
    name: str, sender: str, to: str, subject: str, text: str, message_id: str, at_ms: int
) -> EmailMessage:
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(_visible(name)[:_NAME_MAX], addr_spec=sender)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = _visible(subject)
    mail["Date"] = formatdate(at_ms / 1000)
    mail["Message-ID"] = f"<{message_id}@{sender.rpartition('@')[2]}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(text, charset="utf-8", cte="base64" if not text.isascii() else None)
    return mail


def _visible(text: str) -> str:
    """The text without what could end a header, also in the encoded form that libraries decode on their own."""
    return _INVISIBLE.sub(" ", text).replace(_ENCODED, "= ?").strip()


# -- how they are sent ---------------------------------------------------------------------------------------------


class MailSender:
    """Hands messages to the mail server."""

    def __init__(
        self,
        server: MailServer | None,
        prepared: Callable[[MailServer], MailServer] = lambda server: server,
        tls: Callable[[], ssl.SSLContext] = ssl.create_default_context,
    ) -> None:
        """``server``: None: there is none. ``prepared``: what is used for a message, such as one with the password
        that is in a file now; raises MailFailed. ``tls``: makes what the certificate of the server is checked
        with."""
        self.server = server
        self._prepared = prepared
        self._tls = tls
        self._share = FairShare(_AT_A_TIME, _OF_ONE_ACCOUNT)

    def change(self, server: MailServer | None) -> None:
        self.server = server

    async def send(self, account: str, mail: EmailMessage) -> None:
        """Raises MailFailed."""
        server = self.server
        if server is None:
            raise MailFailed("there is no mail server", can_repeat=True)
        async with self._share.turn(account):
            await in_thread(lambda: self._send(self._prepared(server), mail))

    def _send(self, server: MailServer, mail: EmailMessage) -> None:
        try:
            client = self._connected(server)
            try:
                if server.starts_tls:
                    client.starttls(context=self._tls())
                if server.user:
                    client.login(server.user, server.password)
                client.send_message(mail)
            finally:
                # The message was taken or not: an error at the end of the session changes nothing.
                with suppress(smtplib.SMTPException, OSError):
                    client.quit()
                client.close()
        except smtplib.SMTPRecipientsRefused as refused:
            code, text = next(iter(refused.recipients.values()))
            raise MailFailed(_shown(code, text), can_repeat=code < 500) from None
        except smtplib.SMTPAuthenticationError as refused:
            # The operator can correct that.
            raise MailFailed(_shown(refused.smtp_code, refused.smtp_error), can_repeat=True) from None
        except smtplib.SMTPResponseException as refused:
            is_final = isinstance(refused, smtplib.SMTPDataError) and refused.smtp_code >= 500
            raise MailFailed(_shown(refused.smtp_code, refused.smtp_error), can_repeat=not is_final) from None
        except (smtplib.SMTPException, OSError) as error:
            reason = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise MailFailed(f"the mail server cannot be reached: {reason}", can_repeat=True) from None
        except (MessageError, ValueError, LookupError) as error:
            raise MailFailed(f"the message cannot be sent: {error}", can_repeat=False) from None

    def _connected(self, server: MailServer) -> smtplib.SMTP:
        if server.is_tls:
            return smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP_TIMEOUT_S, context=self._tls())
        return smtplib.SMTP(server.host, server.port, timeout=_STEP_TIMEOUT_S)


def _shown(code: int, text: bytes | str) -> str:
    shown = text.decode("ascii", "replace") if isinstance(text, bytes) else text
    return f"the mail server answered {code} {_visible(shown)[:200]}"
