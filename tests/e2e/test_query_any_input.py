"""No form causes an internal error."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.generated import examples
from support.process import ServerProcess
from support.raw import authorization

ACCOUNT = "260000000000"
PATH = f"/{ACCOUNT}/q"
ACTIONS = [
    "AddPermission", "CancelMessageMoveTask", "ChangeMessageVisibility", "ChangeMessageVisibilityBatch",
    "CreateQueue", "DeleteMessage", "DeleteMessageBatch", "GetQueueAttributes", "GetQueueUrl",
    "ListDeadLetterSourceQueues", "ListMessageMoveTasks", "ListQueueTags", "ListQueues", "PurgeQueue",
    "ReceiveMessage", "RemovePermission", "SendMessage", "SendMessageBatch", "SetQueueAttributes",
    "StartMessageMoveTask", "TagQueue", "UntagQueue", "",
]  # fmt: skip
_level = st.sampled_from(
    ["QueueUrl", "QueueName", "Attribute", "AttributeName", "Tag", "TagKey", "MessageBody", "MessageAttribute",
     "MessageSystemAttribute", "SendMessageBatchRequestEntry", "DeleteMessageBatchRequestEntry", "Label",
     "ChangeMessageVisibilityBatchRequestEntry", "ReceiptHandle", "VisibilityTimeout", "MaxNumberOfMessages",
     "Name", "Value", "Key", "Id", "DataType", "StringValue", "BinaryValue", "StringListValue", "ActionName",
     "AWSAccountId", "SourceArn", "TaskHandle", "MaxResults", "NextToken", "DelaySeconds", "MessageGroupId",
     "1", "2", "0", "10", "999999999", "", "member", "entry"]
)  # fmt: skip
_name = st.lists(_level, min_size=1, max_size=6).map(".".join)
_value = st.sampled_from(
    ["1", "-1", "0", "a", "", "true", "All", "q", PATH, "String", "Binary", "Policy", "RedrivePolicy", "{}", "9" * 30,
     "\ud800", "\0", "\ufffe", "<&>\"'\r]]>", f"arn:aws:sqs:us-east-1:{ACCOUNT}:q", "DelaySeconds", "AWSTraceHeader"]
) | st.text(max_size=6)  # fmt: skip


@pytest.fixture(scope="module")
def connection(server: ServerProcess) -> Iterator[HTTPConnection]:
    opened = HTTPConnection("127.0.0.1", server.port, timeout=40)
    opened.request(
        "GET", "/?Action=CreateQueue&QueueName=q", headers={"Authorization": authorization(ACCOUNT)}
    )
    assert opened.getresponse().read()
    yield opened
    opened.close()


@settings(
    max_examples=examples(300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    action=st.sampled_from(ACTIONS) | st.text(max_size=3),
    form=st.lists(st.tuples(_name, _value), max_size=12) | st.binary(max_size=40),
    path=st.sampled_from(["/", PATH, "/x", "/%FF/%00"]),
    accept=st.sampled_from(["*/*", "application/json"]),
    get=st.booleans(),
)
def test_every_form_has_a_response(
    connection: HTTPConnection,
    action: str,
    form: list[tuple[str, str]] | bytes,
    path: str,
    accept: str,
    get: bool,
) -> None:
    body = b"Action=%b&" % urlencode({"": action}, errors="surrogatepass")[1:].encode()
    if isinstance(form, bytes):
        body += form
        get = False
    else:
        body += urlencode(form, errors="surrogatepass").encode()
    headers = {"Authorization": authorization(ACCOUNT), "Accept": accept}
    if get:
        connection.request("GET", f"{path}?{body.decode()}", headers=headers)
    else:
        connection.request(
            "POST", path, body, headers | {"Content-Type": "application/x-www-form-urlencoded"}
        )
    response = connection.getresponse()
    answer = response.read()
    assert response.status < 500, answer
    if response.headers["Content-Type"] == "text/xml":
        ElementTree.fromstring(answer)
