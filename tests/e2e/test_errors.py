"""Invalid requests get the error of SQS: shape, older code, status and text, as the table says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from xml.etree import ElementTree

import pytest

from e2e.errors import ROWS
from e2e.errors.row import ACCOUNT, CODES, NO_QUEUE, STATUSES, Row, arn
from support.process import ServerProcess
from support.query_client import NAMESPACE, form_of
from support.raw import JSON, Raw
from support.rows import every_row

_XML = f"{{{NAMESPACE}}}"
NO_QUEUE_QUERY = "The specified queue does not exist for this wsdl version."


@pytest.fixture(scope="module")
def furnished(server: ServerProcess) -> Iterator[Raw]:
    """The queues that the rows speak of."""
    client = Raw(server.port, ACCOUNT)
    deny = json.dumps({"redrivePermission": "denyAll"})
    for name, attributes in {
        "std": {},
        "small": {"MaximumMessageSize": "1024"},
        "f.fifo": {"FifoQueue": "true"},
        "content.fifo": {"FifoQueue": "true", "ContentBasedDeduplication": "true"},
        "dead": {},
        "source": {"RedrivePolicy": json.dumps({"deadLetterTargetArn": arn("dead"), "maxReceiveCount": 1})},
        "closed": {"RedriveAllowPolicy": deny},
        "purged": {},
        "gone": {},
    }.items():
        client.done("CreateQueue", {"QueueName": name, "Attributes": attributes})
    client.done("PurgeQueue", {"QueueUrl": "purged"})
    client.done("DeleteQueue", {"QueueUrl": "gone"})
    yield client
    client.close()


def _name(row: Row) -> str:
    return f"{row.action}: {row.rule}"


@every_row("row", ROWS)
def test_refusal(furnished: Raw, row: Row) -> None:
    reply = furnished.ask(row.action, row.request)
    answer = reply.json()
    assert list(answer) == ["__type", "message"]
    assert answer["__type"] == row.type
    if row.text is not None:
        assert answer["message"] == row.text
    assert reply.status == STATUSES.get(row.type, 400)
    assert reply.headers["x-amzn-query-error"] == f"{CODES[row.type]};Sender"
    assert reply.headers["content-type"] == JSON
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", reply.headers["x-amzn-requestid"])


def _spoken_in_both(row: Row) -> bool:
    """What only JSON can say (wrong types, bytes that are no JSON, half a character) has no form."""
    sayable = isinstance(row.request, dict) and "\\ud800" not in json.dumps(row.request)
    return sayable and "Serialization" not in row.type and "UnknownOperation" not in row.type


@every_row("row", [row for row in ROWS if _spoken_in_both(row)])
def test_the_same_refusal_in_the_query_protocol(furnished: Raw, row: Row) -> None:
    reply = furnished.post_form(form_of(row.action, row.request))
    document = ElementTree.fromstring(reply.body)
    error = {part: document.findtext(f"{_XML}Error/{_XML}{part}") for part in ("Type", "Code", "Message")}
    assert (error["Type"], error["Code"]) == ("Sender", CODES[row.type])
    if row.text is not None:
        assert error["Message"] == (NO_QUEUE_QUERY if row.text == NO_QUEUE else row.text)
    assert reply.status == STATUSES.get(row.type, 400)
    assert reply.headers["content-type"] == "text/xml"
    assert document.findtext(f"{_XML}RequestId") == reply.headers["x-amzn-requestid"]


def test_refused_requests_change_nothing(furnished: Raw) -> None:
    for name in ("std", "small", "f.fifo", "content.fifo"):
        assert furnished.done("ReceiveMessage", {"QueueUrl": name}) == {}
    urls = furnished.done("ListQueues")["QueueUrls"]
    assert {url.rpartition("/")[2] for url in urls} == {
        "std", "small", "f.fifo", "content.fifo", "dead", "source", "closed", "purged",
    }  # fmt: skip
