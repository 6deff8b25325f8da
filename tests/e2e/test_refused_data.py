"""Values that a database cannot hold, in every member of every action, on PostgreSQL.

Each gets an answer that is no server error, and a send of another account that arrives at the same time succeeds.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from http.client import HTTPResponse
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from penstock.server.compose import SERVICES
from penstock.wire.service import Action, Service
from penstock.wire.shapes import InPath, InQuery, ListOf, MapOf, Scalar, Shape, StructOf, struct_shape
from support.http_requests import form_parameters
from support.postgres import running_postgres
from support.process import ServerProcess

ATTACKER, VICTIM = "222222222222", "111111111111"
TEXTS = ["a\0b", "a\ufffeb", "a\ud800b"]
NUMBERS = [2**63, 2**63 - 1]
USUAL: dict[str, Any] = {
    "QueueUrl": "q", "QueueName": "q", "MessageBody": "x", "Namespace": "App", "MetricName": "m", "Statistic": "Sum",
    "Period": 60, "EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold", "Id": "m1",
    "AlarmName": "a", "AlarmNames": ["a"], "AlarmRule": "ALARM(a)", "DashboardName": "d", "StateValue": "OK",
    "DashboardBody": '{"widgets":[]}', "StateReason": "r", "StartTime": 1_700_000_000, "EndTime": 1_700_000_600,
    "Statistics": ["Sum"], "ReceiptHandle": "h", "VisibilityTimeout": 0, "Name": "n", "Value": "v", "Key": "k",
    "Stat": "Sum", "DataType": "String", "StringValue": "s", "Label": "l", "AWSAccountIds": [VICTIM],
    "ResourceARN": f"arn:aws:cloudwatch:us-east-1:{ATTACKER}:alarm:a", "TagKeys": ["k"], "Actions": ["*"],
    "AttributeNames": ["All"],
    "Attributes": {"VisibilityTimeout": "1"}, "Tags": [{"Key": "k", "Value": "v"}],
    "SourceArn": f"arn:aws:sqs:us-east-1:{ATTACKER}:q", "RoleArn": f"arn:aws:iam::{ATTACKER}:role/r",
    "RoleSessionName": "s", "queue": "q", "id": "00000000-0000-0000-0000-000000000000", "operation": "remove",
    "to": "q", "reason": "r", "frozen": False,
}  # fmt: skip


def usual(shape: StructOf) -> dict[str, Any]:
    return {
        field.name: USUAL[field.name]
        for field in shape.fields
        if field.name in USUAL and isinstance(USUAL[field.name], dict) <= isinstance(field.shape, MapOf)
    }


def awkward(shape: Shape) -> Iterator[Any]:
    """Values of this shape with one that no database holds, each in another place."""
    match shape:
        case Scalar():
            yield from NUMBERS if shape.type in (int, float) else TEXTS
        case ListOf():
            yield from ([value] for value in awkward(shape.member))
        case MapOf():
            yield from ({"k": value} for value in awkward(shape.value))
            sound = usual(shape.value) if isinstance(shape.value, StructOf) else "v"
            yield from ({text: sound} for text in TEXTS)
        case StructOf():
            for field in shape.fields:
                yield from ({**usual(shape), field.name: value} for value in awkward(field.shape))


def http(account: str, method: str, target: str, headers: dict[str, str], body: bytes) -> bytes:
    scope = f"Credential={account}/20250101/us-east-1/any/aws4_request"
    headers = {
        "Host": "localhost", "Content-Length": str(len(body)),
        "Authorization": f"AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0", **headers,
    }  # fmt: skip
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode() + body


def encoded(service: Service, action: Action, members: dict[str, Any]) -> bytes:
    if "json-1.0" in service.protocols or "json-1.1" in service.protocols:
        headers = {
            "Content-Type": "application/x-amz-json-1.0",
            "X-Amz-Target": f"{service.target_prefix}.{action.name}",
        }
        return http(ATTACKER, "POST", "/", headers, json.dumps(members).encode())
    if "rest-json" in service.protocols:
        return rest(action, members)
    form = [("Action", action.name), ("Version", service.version), *form_parameters(members)]
    body = urlencode(form, errors="surrogatepass").encode()
    return http(ATTACKER, "POST", "/", {"Content-Type": "application/x-www-form-urlencoded"}, body)


def rest(action: Action, members: dict[str, Any]) -> bytes:
    method, _, target = action.http.partition(" ")
    places = {field.name: field.place for field in struct_shape(action.request).fields}
    query, body = [], {}
    for name, value in members.items():
        if isinstance(places[name], InPath):
            target = target.replace(f"{{{name}}}", quote(str(value), safe="", errors="surrogatepass"))
        elif isinstance(places[name], InQuery):
            query += [(name, each) for each in (value if isinstance(value, list) else [value])]
        else:
            body[name] = value
    if query:
        target += "?" + urlencode(query, errors="surrogatepass")
    return http(ATTACKER, method, target, {"Content-Type": "application/json"}, json.dumps(body).encode())


class Connection:
    def __init__(self, port: int) -> None:
        self._port = port
        self.open()

    def open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send(self, request: bytes) -> None:
        self._socket.sendall(request)

    def answer(self) -> tuple[int, bytes]:
        response = HTTPResponse(self._socket)
        response.begin()
        body = response.read()
        closes = response.will_close
        response.close()
        if closes:
            self._socket.close()
            self.open()
        return response.status, body


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    directory: Path = tmp_path_factory.mktemp("data")
    with running_postgres() as postgres:
        url = postgres.url(postgres.new_database())
        with ServerProcess("--store", url, "--data", str(directory), "--shards", "1") as made:
            yield made


def test_no_value_is_a_server_error_or_harms_another_account(server: ServerProcess) -> None:
    def sqs(account: str, action: str, **members: Any) -> bytes:
        headers = {"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": f"AmazonSQS.{action}"}
        return http(account, "POST", "/", headers, json.dumps(members).encode())

    attacker, victim = Connection(server.port), Connection(server.port)
    for connection, account in ((attacker, ATTACKER), (victim, VICTIM)):
        connection.send(sqs(account, "CreateQueue", QueueName="q"))
        assert connection.answer()[0] == 200
    send = sqs(VICTIM, "SendMessage", QueueUrl="q", MessageBody="x")
    wrong, tried = [], 0
    for service, _ in SERVICES:
        for action in service.actions.values():
            for members in awkward(struct_shape(action.request)):
                attacker.send(encoded(service, action, members))
                victim.send(send)
                tried += 1
                for who, connection, most in (("attacker", attacker, 499), ("victim", victim, 200)):
                    status, body = connection.answer()
                    if status > most:
                        wrong.append((who, status, action.name, members, body[:200]))
    assert not wrong, wrong[:20]
    assert tried > 1000
