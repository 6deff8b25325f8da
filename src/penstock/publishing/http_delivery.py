"""Messages of topics for HTTP endpoints: the request, and what the answer means."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import NamedTuple

from penstock.outgoing import OpenUrls, OutgoingFailed, OutgoingHttp, OutgoingRefused
from penstock.topics.envelopes import NOTIFICATION, Confirmation, ConfirmationKind, confirmation, notification
from penstock.topics.publication import Notice

TIMEOUT_S = 15.0  # SNS: an endpoint has 15 seconds for its answer
AT_A_TIME, OF_ONE_ACCOUNT = 128, 32
"""Requests of a process to endpoints of topics, and those of one account among them."""

_USER_AGENT = "Amazon Simple Notification Service Agent"
_CONTENT_TYPE = "text/plain; charset=UTF-8"
_TOO_MANY_REQUESTS = 429


class HttpAnswer(NamedTuple):
    status: int  # 0: there was no answer
    text: str  # what the status means, or why there was no answer

    @property
    def is_success(self) -> bool:
        """Whether the endpoint has taken the message."""
        return 200 <= self.status < 300

    @property
    def is_complete(self) -> bool:
        """Whether the message is not sent again."""
        # SNS: what the endpoint refuses or redirects is complete, too. Only errors of servers are tried again.
        return 200 <= self.status < 500 and self.status != _TOO_MANY_REQUESTS


class HttpMessage(NamedTuple):
    """The headers and the body of a request."""

    headers: dict[str, str]
    body: bytes


def notification_request(notice: Notice, content_type: str, *, is_raw: bool) -> HttpMessage:
    """``content_type``: as the delivery policy has it."""
    headers = _headers(NOTIFICATION, notice)
    headers["x-amz-sns-subscription-arn"] = notice.subscription_arn
    if is_raw:
        headers["x-amz-sns-rawdelivery"] = "true"
    headers["Content-Type"] = content_type
    # SNS: raw delivery leaves attributes and subject out.
    return HttpMessage(headers, (notice.text if is_raw else notification(notice)).encode())


def confirmation_request(of: Confirmation) -> HttpMessage:
    headers = _headers(of.kind.value, of)
    # SNS: a subscription that is not confirmed has no ARN yet.
    if of.kind is ConfirmationKind.UNSUBSCRIBE:
        headers["x-amz-sns-subscription-arn"] = of.subscription_arn
    # SNS: the type of the policy is that of notifications only.
    headers["Content-Type"] = _CONTENT_TYPE
    return HttpMessage(headers, confirmation(of).encode())


def _headers(type: str, of: Notice | Confirmation) -> dict[str, str]:
    return {
        "x-amz-sns-message-type": type,
        "x-amz-sns-message-id": of.message_id,
        "x-amz-sns-topic-arn": of.topic_arn,
        "User-Agent": _USER_AGENT,
        "Accept-Encoding": "gzip,deflate",
    }


class HttpEndpoints:
    """Calls the endpoints of subscriptions, as far as the operator allows it."""

    def __init__(self, http: OutgoingHttp, urls: OpenUrls) -> None:
        """``http``: with TIMEOUT_S."""
        self._http = http
        self._urls = urls

    def change(self, urls: OpenUrls) -> None:
        self._urls = urls

    async def may_subscribe(self, account: str, endpoint: str) -> bool:
        """Whether the URL may be called. A name that does not resolve now may do so later."""
        found = self._urls.find(endpoint)
        if found is None:
            return False
        try:
            await self._http.finds(account, found.url, self._urls)
        except OutgoingRefused:
            return False
        except OutgoingFailed:
            return True
        return True

    async def post(self, account: str, endpoint: str, message: HttpMessage) -> HttpAnswer:
        found = self._urls.find(endpoint)
        if found is None:
            return HttpAnswer(0, "the URL must not be called")
        headers: Mapping[str, str] = message.headers
        if found.authorization is not None:
            headers = {**headers, "Authorization": found.authorization}
        try:
            answer = await self._http.request(
                account, "POST", found.url, headers, message.body, rule=self._urls
            )
        except OutgoingFailed as failure:
            return HttpAnswer(0, str(failure))
        return HttpAnswer(answer.status, _phrase(answer.status))


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return f"status {status}"
