"""A client of STS for tests: requests are forms, responses are parsed by botocore."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from botocore.loaders import Loader
from botocore.model import ServiceModel
from botocore.parsers import create_parser
from botocore.serialize import create_serializer

from penstock.auth.authorize import authorize
from penstock.auth.identity.admin import trust_document
from penstock.auth.identity.principals import SessionPrincipal
from penstock.auth.principal import Principal
from penstock.names import Space
from penstock.services import sts
from penstock.wire.dispatch import Dispatcher
from penstock.wire.service import Call, Response
from support.http_requests import form_request, json_request
from support.identities import HOME, Accounts

MODEL = ServiceModel(Loader().load_service_model("sts", "service-2"), "sts")
ROLE = f"arn:aws:iam::{HOME}:role/worker"
TRUST_ALICE = trust_document(["alice"], HOME, None, allow_tags=True)


class Sts:
    """A client: ``sts(principal, "AssumeRole", RoleArn=...)`` gives what boto3 would."""

    def __init__(self, accounts: Accounts, *, is_open: bool = False) -> None:
        self.accounts = accounts
        self.last: Response
        self.call: Call
        context = sts.Sts(None if is_open else accounts.credentials, accounts.clock)
        self._dispatcher = Dispatcher([sts.SERVICE.with_context(context)], authorize=authorize)

    def __call__(self, who: Principal | None, action: str, **members: Any) -> dict[str, Any]:
        operation = MODEL.operation_model(action)
        request = create_serializer("query", include_validation=False).serialize_to_request(
            members, operation
        )
        self.answer(who, urlencode(request["body"]).encode())
        headers = {name.decode(): value.decode() for name, value in self.last.headers}
        response = {"status_code": self.last.status, "headers": headers, "body": self.last.body}
        return dict(create_parser("query").parse(response, operation.output_shape))

    def answer(
        self, who: Principal | None, body: bytes, *, method: bytes = b"POST", query: bytes = b""
    ) -> Response:
        space = Space(who.account if who else HOME, "us-east-1")
        self.call = Call(request_id="rid", space=space, sender="s", base_url="http://x")
        self.call.principal = who
        self.call.source_ip = "10.1.2.3"
        answers: list[Response] = []
        request = form_request(body, target=b"/?" + query, method=method)
        self._dispatcher.answer(request, self.call, answers.append)
        (self.last,) = answers
        return self.last

    def answer_json(self, who: Principal | None, action: str, body: bytes) -> Response:
        self.call = Call(request_id="rid", space=Space(HOME, "us-east-1"), sender="s", base_url="http://x")
        self.call.principal = who
        answers: list[Response] = []
        request = json_request(f"AWSSecurityTokenServiceV20110615.{action}", body)
        self._dispatcher.answer(request, self.call, answers.append)
        (self.last,) = answers
        return self.last

    def refused(self, who: Principal | None, action: str, **members: Any) -> tuple[int, str, str]:
        reply = self(who, action, **members)
        assert "Error" in reply, reply
        assert reply["Error"]["Type"] == "Sender"
        return self.last.status, reply["Error"]["Code"], reply["Error"]["Message"]

    def principal(self, reply: dict[str, Any]) -> SessionPrincipal:
        """Whom the server takes the holder of these credentials for."""
        given, directory = reply["Credentials"], self.accounts.credentials.directory
        assert directory.secret(given["AccessKeyId"], given["SessionToken"]) == given["SecretAccessKey"]
        principal = directory.principal(given["AccessKeyId"], given["SessionToken"])
        assert isinstance(principal, SessionPrincipal)
        return principal


def assume(role: str, **members: Any) -> dict[str, Any]:
    return {"RoleArn": role, "RoleSessionName": "job-7", **members}


def denied(who: Principal, role: str, action: str = "sts:AssumeRole") -> tuple[int, str, str]:
    return 403, "AccessDenied", f"User: {who.arn} is not authorized to perform: {action} on resource: {role}"
