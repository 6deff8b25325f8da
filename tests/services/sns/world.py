"""SNS over real stores on simulated time, and clients of it: in JSON, as forms, and those of boto3."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import boto3
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config

from penstock.auth.authorize import authorize
from penstock.auth.principal import Principal
from penstock.broker.encryption import KeyGuard
from penstock.names import Space
from penstock.server.compose import declare_services
from penstock.services import sns, sqs
from penstock.services.sns import SnsLimits
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from publishing.world import PublishingWorld
from support.http_requests import PlainRequest, form_request, json_request

ACCOUNT, REGION = "000000000000", "eu-west-1"
SPACE = Space(ACCOUNT, REGION)
URL = "http://localhost:9324"
ARN = f"arn:aws:sns:{REGION}:{ACCOUNT}"
NAMESPACE = "http://sns.amazonaws.com/doc/2010-03-31/"

_session = boto3.session.Session()  # knows the models once it has read them


class Refused(Exception):
    """The code and the text of an error."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(code, message)
        self.status, self.code, self.message = status, code, message

    @property
    def error(self) -> tuple[str, str]:
        return self.code, self.message


class SnsWorld(PublishingWorld):
    def __init__(
        self, shards: int = 1, limits: SnsLimits | None = None, keys: KeyGuard | None = None
    ) -> None:
        self.sns_limits = limits
        self.key_guard = keys
        self.principal: Principal | None = None  # None: an open server
        self.space = SPACE
        self.signed_for: str | None = "sns"
        super().__init__(shards=shards)

    def open_shard(self, index: int) -> None:
        if not self.stores:
            context = sns.Sns(self.publishing, self.broker, sns.ACTIONS, self.key_guard, self.sns_limits)
            declare_services()
            services = [
                sqs.SERVICE.with_context(sqs.Sqs(self.broker, sqs.ACTIONS)),
                sns.SERVICE.with_context(context),
            ]
            self.dispatcher = Dispatcher(services, authorize=authorize)
        super().open_shard(index)

    # -- requests --------------------------------------------------------------------------------------------------

    def answer(self, request: PlainRequest, space: Space | None = None, **call: Any) -> Response:
        made = Call(
            request_id="rid",
            space=space or self.space,
            sender="SENDER",
            base_url=URL,
            signed_for=self.signed_for,
            principal=self.principal,
            **call,
        )
        responses: list[Response] = []
        self.dispatcher.answer(request, made, responses.append)
        self.run()
        (response,) = responses
        return response

    def __call__(self, action: str, **members: Any) -> dict[str, Any]:
        """Ask in JSON. Raises Refused."""
        response = self.answer(json_request(f"AmazonSNS.{action}", json.dumps(members).encode()))
        body: dict[str, Any] = json.loads(response.body) if response.body else {}
        if response.status != 200:
            code = dict(response.headers)[b"x-amzn-query-error"].decode().partition(";")[0]
            raise Refused(response.status, code, body.get("message", ""))
        return body

    def refused(self, action: str, **members: Any) -> tuple[str, str]:
        """The code and the text of the error."""
        try:
            answer = self(action, **members)
        except Refused as refused:
            return refused.error
        raise AssertionError(f"{action} was not refused: {answer}")

    def form(self, action: str, *, version: str = "2010-03-31", **parameters: str) -> Response:
        """Ask in the Query protocol, for XML."""
        named = {"Action": action, "Version": version, **parameters}
        return self.answer(form_request(urlencode(named).encode()))

    def link(self, query: str, **call: Any) -> Response:
        """Someone follows a link, without a signature."""
        signed_for, self.signed_for = self.signed_for, None
        try:
            target = f"/?{query}".encode()
            return self.answer(PlainRequest(b"GET", target, {}, b""), **call)
        finally:
            self.signed_for = signed_for

    def boto(self) -> Any:
        config = Config(retries={"total_max_attempts": 1})
        made = _session.client(
            "sns", endpoint_url=URL, region_name=REGION, config=config,
            aws_access_key_id=ACCOUNT, aws_secret_access_key="any",
        )  # fmt: skip
        made.meta.events.register("before-send.*", lambda request, **_: self._send(request))
        return made

    def _send(self, request: AWSPreparedRequest) -> AWSResponse:
        headers = {
            name.lower().encode(): value if isinstance(value, bytes) else str(value).encode()
            for name, value in request.headers.items()
        }
        body = request.body or b""
        if not isinstance(body, bytes):
            body = body.encode() if isinstance(body, str) else body.read()
        response = self.answer(PlainRequest(request.method.encode(), b"/", headers, body))
        shown = {name.decode(): value.decode() for name, value in response.headers}
        return AWSResponse(request.url, response.status, shown, _Raw(response.body))

    # -- what is often wanted --------------------------------------------------------------------------------------

    def make(self, name: str = "news", **attributes: str) -> str:
        if name.endswith(".fifo"):
            attributes["FifoTopic"] = "true"
        arn: str = self("CreateTopic", Name=name, Attributes=attributes)["TopicArn"]
        return arn

    def attributes(self, topic: str) -> dict[str, str]:
        found: dict[str, str] = self("GetTopicAttributes", TopicArn=topic)["Attributes"]
        return found

    def set(self, topic: str, name: str, value: str) -> None:
        self("SetTopicAttributes", TopicArn=topic, AttributeName=name, AttributeValue=value)

    def set_refused(self, topic: str, name: str, value: str) -> str:
        """The text of the error, of which the beginning was checked."""
        code, text = self.refused(
            "SetTopicAttributes", TopicArn=topic, AttributeName=name, AttributeValue=value
        )
        assert code == "InvalidParameter"
        assert text.startswith("Invalid parameter: "), text
        return text.removeprefix("Invalid parameter: ")

    def subscribe_to(self, topic: str, protocol: str = "sqs", endpoint: str = "", **members: Any) -> str:
        arn: str = self(
            "Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint or queue_arn("any"),
            ReturnSubscriptionArn=True, **members,
        )["SubscriptionArn"]  # fmt: skip
        return arn

    def of_subscription(self, arn: str) -> dict[str, str]:
        found: dict[str, str] = self("GetSubscriptionAttributes", SubscriptionArn=arn)["Attributes"]
        return found

    def token(self, kind: str = "SubscriptionConfirmation") -> str:
        """The token in the last message of that kind that was posted."""
        posted = [
            json.loads(message.body)
            for _, message in self.endpoints.posted
            if message.headers["x-amz-sns-message-type"] == kind
        ]
        token: str = posted[-1]["Token"]
        return token


class _Raw:
    """What botocore reads a body from."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, *_: Any, **__: Any) -> Any:
        yield self._body

    def read(self, *_: Any) -> bytes:
        body, self._body = self._body, b""
        return body


def queue_arn(name: str, account: str = ACCOUNT, region: str = REGION) -> str:
    return f"arn:aws:sqs:{region}:{account}:{name}"
