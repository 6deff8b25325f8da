"""The Query protocol to the byte: paths, names of queues, responses and errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any
from urllib.parse import urlencode
from xml.etree import ElementTree

import pytest
from botocore.auth import SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from support.process import ServerProcess
from support.query_client import NAMESPACE
from support.raw import Raw, Reply, authorization
from support.rows import every_row

FORM = "application/x-www-form-urlencoded"
UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
Form = dict[str, str] | list[tuple[str, str]]


class Query:
    """A client that sends forms and sees bytes."""

    def __init__(self, server: ServerProcess, account: str) -> None:
        self.base = server.url
        self._connection = HTTPConnection("127.0.0.1", server.port, timeout=40)
        self._headers = {"Authorization": authorization(account)}
        self.path = f"/{account}/q"  # the path of the queue that most tests use

    def get(self, path: str, form: Form, **headers: str) -> Reply:
        return self.send("GET", f"{path}?{urlencode(form)}", None, **headers)

    def post(self, path: str, form: Form, **headers: str) -> Reply:
        return self.send("POST", path, urlencode(form).encode(), Content_Type=FORM, **headers)

    def send(self, method: str, url: str, body: bytes | None, **headers: str) -> Reply:
        sent = self._headers | {name.replace("_", "-"): value for name, value in headers.items()}
        self._connection.request(method, url, body, sent)
        response = self._connection.getresponse()
        names = {name.lower(): value for name, value in response.getheaders()}
        return Reply(response.status, names, response.read())

    def done(self, action: str, path: str = "/", /, **form: str) -> ElementTree.Element:
        reply = self.post(path, {"Action": action, **form})
        assert reply.status == 200, reply
        return parsed(reply)

    def close(self) -> None:
        self._connection.close()


@pytest.fixture
def query(server: ServerProcess, account: str) -> Iterator[Query]:
    client = Query(server, account)
    client.done("CreateQueue", QueueName="q")
    yield client
    client.close()


def parsed(reply: Reply) -> ElementTree.Element:
    """The document without its namespace, which has to be there."""
    assert reply.headers["content-type"] == "text/xml"
    root = ElementTree.fromstring(reply.body)
    assert root.tag.startswith(f"{{{NAMESPACE}}}")
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{NAMESPACE}}}")
    return root


def error(reply: Reply) -> tuple[int, str | None, str | None]:
    root = parsed(reply)
    return reply.status, root.findtext("Error/Code"), root.findtext("Error/Message")


NO_QUEUE = (
    400,
    "AWS.SimpleQueueService.NonExistentQueue",
    "The specified queue does not exist for this wsdl version.",
)


def exactly(reply: Reply) -> str:
    return re.sub(UUID, "ID", reply.body.decode())


def test_documents_to_the_byte(query: Query) -> None:
    xmlns = f'xmlns="{NAMESPACE}"'
    metadata = "<ResponseMetadata><RequestId>ID</RequestId></ResponseMetadata>"
    reply = query.post("/", {"Action": "GetQueueUrl", "QueueName": "q"})
    assert exactly(reply) == (
        f'<?xml version="1.0"?><GetQueueUrlResponse {xmlns}><GetQueueUrlResult>'
        f"<QueueUrl>{query.base}{query.path}</QueueUrl></GetQueueUrlResult>{metadata}</GetQueueUrlResponse>"
    )
    assert reply.headers["content-type"] == "text/xml"
    assert reply.headers["x-amzn-requestid"].encode() in reply.body
    assert exactly(query.get(query.path, {"Action": "ReceiveMessage"})) == (
        f'<?xml version="1.0"?><ReceiveMessageResponse {xmlns}><ReceiveMessageResult/>'
        f"{metadata}</ReceiveMessageResponse>"
    )
    assert exactly(query.get(query.path, {"Action": "PurgeQueue"})) == (
        f'<?xml version="1.0"?><PurgeQueueResponse {xmlns}>{metadata}</PurgeQueueResponse>'
    )
    assert exactly(query.get(query.path, {"Action": "SendMessage"})) == (
        f'<?xml version="1.0"?><ErrorResponse {xmlns}><Error><Type>Sender</Type><Code>MissingParameter</Code>'
        "<Message>The request must contain the parameter MessageBody.</Message><Detail/></Error>"
        "<RequestId>ID</RequestId></ErrorResponse>"
    )


def test_get_and_post_at_the_root_and_at_the_queue(query: Query) -> None:
    for send in (query.get, query.post):
        for path, more in (("/", {"QueueUrl": query.path}), (query.path, {}), (f"{query.path}/", {})):
            for version in ({}, {"Version": "2012-11-05"}):
                reply = send(path, {"Action": "SendMessage", "MessageBody": "b", **more, **version})
                assert parsed(reply).tag == "SendMessageResponse", reply
    attributes = query.done(
        "GetQueueAttributes", query.path, **{"AttributeName.1": "ApproximateNumberOfMessages"}
    )
    assert attributes.findtext(".//Value") == "12"


def test_parameters_in_the_url_of_a_post(query: Query) -> None:
    url = f"{query.path}?{urlencode({'Action': 'SendMessage'})}"
    assert query.send("POST", url, b"MessageBody=b", Content_Type=FORM).status == 200
    assert query.send("POST", f"{url}&MessageBody=b", b"").status == 200


def test_the_parameter_wins_over_the_path(query: Query) -> None:
    query.done("CreateQueue", QueueName="other")
    url = query.path.replace("/q", "/other")
    query.done("SendMessage", query.path, QueueUrl=url, MessageBody="to the other")
    assert query.done("ReceiveMessage", query.path).find(".//Message") is None
    assert query.done("ReceiveMessage", url).findtext(".//Body") == "to the other"
    assert error(query.post(query.path, {"Action": "PurgeQueue", "QueueUrl": "none"})) == NO_QUEUE


def test_actions_that_are_accepted_at_a_queue_url(query: Query) -> None:
    found = query.done("GetQueueUrl", query.path, QueueName="q")
    assert found.findtext(".//QueueUrl") == f"{query.base}{query.path}"
    for action, more in {"CreateQueue": {"QueueName": "new"}, "ListQueues": {}, "FooBar": {}}.items():
        for send in (query.get, query.post):
            text = f"The action {action} is not valid for this endpoint."
            assert error(send(query.path, {"Action": action, **more})) == (400, "InvalidAction", text)


def test_an_unknown_action(query: Query) -> None:
    expected = (400, "InvalidAction", "The action FooBar is not valid for this endpoint.")
    assert error(query.get("/", {"Action": "FooBar"})) == expected
    assert error(query.post("/", {"Action": "FooBar"})) == expected


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_a_queue_url_without_an_action(query: Query, accept: str) -> None:
    for reply in (query.get(query.path, {}, Accept=accept), query.post(query.path, {}, Accept=accept)):
        assert (reply.status, reply.headers["content-type"]) == (404, "text/xml")
        assert b"<UnknownOperationException" in reply.body
        ElementTree.fromstring(reply.body)


def test_a_queue_that_does_not_exist(query: Query, raw: Raw) -> None:
    assert error(query.get("/123456789012/none", {"Action": "SendMessage", "MessageBody": "b"})) == NO_QUEUE
    assert error(query.get("/nowhere", {"Action": "SendMessage", "MessageBody": "b"})) == NO_QUEUE
    assert error(query.get("/", {"Action": "SendMessage", "MessageBody": "b"})) == NO_QUEUE
    assert error(query.get("/", {"Action": "GetQueueUrl", "QueueName": "none"})) == NO_QUEUE
    assert (
        raw.ask("GetQueueUrl", {"QueueName": "none"}).json()["message"]
        == "The specified queue does not exist."
    )


def test_statuses_are_those_of_json(query: Query) -> None:
    reply = query.post(query.path, {"Action": "DeleteMessage", "ReceiptHandle": 'a<"'})
    text = 'The input receipt handle "a<"" is not a valid receipt handle.'
    assert error(reply) == (404, "ReceiptHandleIsInvalid", text)
    assert b"&quot;a&lt;&quot;&quot;" in reply.body
    query.done("PurgeQueue", query.path)
    assert error(query.post(query.path, {"Action": "PurgeQueue"}))[0] == 403


@every_row(
    ("form", "code", "text"),
    [
        ({"Action": "SendMessage"}, "MissingParameter", "The request must contain the parameter MessageBody."),
        ({"Action": "SetQueueAttributes"}, "MissingParameter",
         "The request must contain the parameter Attribute.Name."),
        ({"Action": "SetQueueAttributes", "Attribute.2.Value": "1"}, "MissingParameter",
         "The request must contain the parameter Attribute.2.Name."),
        ({"Action": "AddPermission", "Label": "l", "AWSAccountId.1": "111111111111"}, "MissingParameter",
         "The request must contain the parameter Actions."),
        ({"Action": "SendMessageBatch", "SendMessageBatchRequestEntry.1.MessageBody": "b"}, "MissingParameter",
         "The request must contain the parameter SendMessageBatchRequestEntry.1.Id."),
        ({"Action": "SendMessageBatch"}, "AWS.SimpleQueueService.EmptyBatchRequest",
         "There should be at least one SendMessageBatchRequestEntry in the request."),
        ({"Action": "ReceiveMessage", "MaxNumberOfMessages": "11"}, "InvalidParameterValue",
         "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1 and 10, if provided."),
        ({"Action": "ReceiveMessage", "MaxNumberOfMessages": "many"}, "MalformedInput",
         "STRING_VALUE can not be converted to an Integer"),
        ({"Action": "SendMessage", "MessageBody": "b", "MessageAttribute.1.Name": "a"}, "InvalidParameterValue",
         "The message (user) attribute 'a' must contain a non-empty message attribute value."),
        ({"Action": "SendMessage", "MessageBody": "\x01"}, "InvalidMessageContents",
         "Invalid binary character '#x1' was found in the message body, the set of allowed characters is "
         "#x9 | #xA | #xD | [#x20-#xD7FF] | [#xE000-#xFFFD] | [#x10000-#x10FFFF]."),
        ({"Action": "GetQueueAttributes", "AttributeName.1": "Foobar"}, "InvalidAttributeName",
         "Unknown Attribute Foobar."),
    ],
)  # fmt: skip
def test_missing_and_invalid_parameters(query: Query, form: dict[str, str], code: str, text: str) -> None:
    for send in (query.get, query.post):
        assert error(send(query.path, form)) == (400, code, text)
    reply = query.post(query.path, form, Accept="application/json")
    assert (reply.status, reply.headers["content-type"]) == (400, "application/json")
    assert reply.json()["Error"] == {"Code": code, "Message": text, "Type": "Sender"}


def test_json_responses_on_request(query: Query) -> None:
    def ask(action: str, **form: str) -> Any:
        reply = query.get(query.path if action != "ListQueues" else "/", {"Action": action, **form},
                          Accept="application/json")  # fmt: skip
        assert (reply.status, reply.headers["content-type"]) == (200, "application/json"), reply
        answer = reply.json()[f"{action}Response"]
        assert answer["ResponseMetadata"] == {"RequestId": reply.headers["x-amzn-requestid"]}
        return answer.get(f"{action}Result")

    assert ask("ListQueues")["queueUrls"] == [f"{query.base}{query.path}"]
    assert ask("ReceiveMessage") == {"messages": None}
    sent = ask("SendMessage", MessageBody="é\r\n")
    assert sent["MD5OfMessageAttributes"] is None
    message = ask("ReceiveMessage", **{"AttributeName.1": "ApproximateReceiveCount"})["messages"][0]
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], "é\r\n")
    assert message["Attributes"] == [{"Name": "ApproximateReceiveCount", "Value": "1"}]
    assert ask("GetQueueAttributes", **{"AttributeName.1": "DelaySeconds"})["Attributes"] == [
        {"Name": "DelaySeconds", "Value": "0"}
    ]
    assert ask("DeleteMessage", ReceiptHandle=message["ReceiptHandle"]) is None


def test_old_and_unusual_parameter_names(query: Query) -> None:
    def attribute(name: str) -> str | None:
        return query.done("GetQueueAttributes", query.path, AttributeName=name).findtext(".//Value")

    query.done("SetQueueAttributes", query.path, **{"Attribute.Name": "DelaySeconds", "Attribute.Value": "7"})
    assert attribute("DelaySeconds") == "7"
    query.done("SetQueueAttributes", query.path, **{
        "Attribute.900000000.Name": "DelaySeconds", "Attribute.900000000.Value": "0",
        "Attribute.3.Name": "VisibilityTimeout", "Attribute.3.Value": "9",
    })  # fmt: skip
    assert (attribute("DelaySeconds"), attribute("VisibilityTimeout")) == ("0", "9")


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ({}, set()),
        ({"AttributeName.1": "SenderId"}, {"SenderId"}),
        ({"MessageSystemAttributeName.1": "SenderId"}, {"SenderId"}),
        ({"AttributeName.4": "SenderId", "AttributeName.2": "SentTimestamp"}, {"SenderId", "SentTimestamp"}),
        ({"AttributeName.1": "SenderId", "MessageSystemAttributeName.1": "SentTimestamp"},
         {"SenderId", "SentTimestamp"}),
    ],
)  # fmt: skip
def test_both_names_of_the_system_attributes(query: Query, form: dict[str, str], names: set[str]) -> None:
    query.done("SendMessage", query.path, MessageBody="b")
    answer = query.done("ReceiveMessage", query.path, **form)
    assert {name.text for name in answer.findall(".//Attribute/Name")} == names


def test_batches_keep_the_order_of_their_numbers(query: Query) -> None:
    bodies = {
        f"SendMessageBatchRequestEntry.{n}.{part}": f"{part}{n}"
        for n in (10, 2, 1)
        for part in ("Id", "MessageBody")
    }
    answer = query.done("SendMessageBatch", query.path, **bodies)
    sent = [entry.text for entry in answer.findall(".//SendMessageBatchResultEntry/Id")]
    assert sent == ["Id1", "Id2", "Id10"]


def test_a_presigned_url_works_and_names_its_caller(server: ServerProcess, account: str) -> None:
    def ask(**form: str) -> tuple[int, bytes]:
        request = AWSRequest("GET", f"{server.url}/?{urlencode(form)}")
        SigV4QueryAuth(Credentials(account, "any"), "sqs", "us-east-1", expires=60).add_auth(request)
        connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
        connection.request("GET", request.url.removeprefix(server.url))
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    assert ask(Action="CreateQueue", QueueName="q")[0] == 200
    status, body = ask(Action="ListQueues")
    assert (status, f"/{account}/q</QueueUrl>".encode() in body) == (200, True)


def test_an_unsigned_request_works(server: ServerProcess) -> None:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=30)
    connection.request("GET", "/?Action=ListQueues&QueueNamePrefix=none")
    response = connection.getresponse()
    assert (response.status, b"<ListQueuesResult/>" in response.read()) == (200, True)
    connection.close()


def test_head_does_nothing(query: Query) -> None:
    query.done("SendMessage", query.path, MessageBody="b")
    assert query.send("HEAD", f"{query.path}?Action=ReceiveMessage", None).status == 405
    assert query.done("ReceiveMessage", query.path).findtext(".//Body") == "b"


def test_too_many_parameters(query: Query) -> None:
    reply = query.post("/", [("Action", "ListQueues"), *((f"a.{n}", "1") for n in range(5000))])
    assert error(reply)[:2] == (400, "MalformedInput")
