"""A client without an SDK: it sends and receives bytes."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any, NamedTuple

JSON = "application/x-amz-json-1.0"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


def authorization(account: str, region: str = "us-east-1") -> str:
    """Returns a header like an SDK's; an open server reads only the account and the region."""
    scope = f"{account}/20260101/{region}/sqs/aws4_request"
    return f"AWS4-HMAC-SHA256 Credential={scope}, SignedHeaders=host;x-amz-date, Signature={'0' * 64}"


class Raw:
    """One connection that stays open."""

    def __init__(self, port: int, account: str, region: str = "us-east-1", timeout: float = 40) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=timeout)
        self.authorization = authorization(account, region)

    def ask(self, action: str, request: Any = None, /, *, path: str = "/", **headers: str) -> Reply:
        """``request`` is a value to be sent as JSON, or bytes to be sent as they are."""
        body = request if isinstance(request, bytes) else json.dumps(request or {}).encode()
        sent = {
            "X-Amz-Target": f"AmazonSQS.{action}",
            "Content-Type": JSON,
            "Authorization": self.authorization,
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        self._connection.request("POST", path, body, sent)
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def get(self, path: str) -> Reply:
        self._connection.request("GET", path, headers={"Authorization": self.authorization})
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def post_form(self, form: bytes, path: str = "/") -> Reply:
        """A request of the Query protocol."""
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Authorization": self.authorization}
        self._connection.request("POST", path, form, sent)
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def done(self, action: str, request: Any = None, /) -> Any:
        """The same for what has to succeed: only what it says."""
        reply = self.ask(action, request)
        assert reply.status == 200, (action, reply)
        return reply.json() if reply.body else None

    def close(self) -> None:
        self._connection.close()
