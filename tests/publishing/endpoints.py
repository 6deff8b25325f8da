"""Endpoints of topics that are no servers: what they get is kept, and what they answer is written down before."""

from __future__ import annotations

from email.message import EmailMessage
from typing import Any

from penstock.promise import Promise
from penstock.publishing.deliveries import Endpoints
from penstock.publishing.email_delivery import MailServer
from penstock.publishing.http_delivery import HttpAnswer, HttpMessage
from penstock.publishing.signing import Signer

OK = HttpAnswer(200, "OK")


class FakeEndpoints:
    """``posted``: each URL with the message. ``answers``: of each URL, the next ones first; then it takes all. One
    that is a promise comes when that is resolved."""

    def __init__(self) -> None:
        self.server: MailServer | None = None
        self.unreachable: set[str] = set()
        self.posted: list[tuple[str, HttpMessage]] = []
        self.answers: dict[str, list[HttpAnswer | Promise[HttpAnswer]]] = {}
        self.mails: list[EmailMessage] = []

    def made(self, signer: Signer) -> Endpoints:
        fake: Any = self
        return Endpoints(fake, fake, signer)

    async def may_subscribe(self, account: str, endpoint: str) -> bool:
        return endpoint not in self.unreachable

    async def post(self, account: str, endpoint: str, message: HttpMessage) -> HttpAnswer:
        self.posted.append((endpoint, message))
        answers = self.answers.get(endpoint)
        answer = answers.pop(0) if answers else OK
        return answer if isinstance(answer, HttpAnswer) else await answer

    async def send(self, account: str, mail: EmailMessage) -> None:
        self.mails.append(mail)
