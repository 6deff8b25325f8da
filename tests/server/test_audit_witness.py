"""What the dispatcher and the routes tell the trail of a request."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.names import Space
from penstock.server.audit import Audit, AuditEvent, AuditRecorder
from penstock.server.audit.actions import left_out
from penstock.server.audit.event import cloudtrail
from penstock.server.callers import Caller
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.services.sqs import operations as op
from penstock.services.sqs.faults import sqs_fault
from penstock.wire.call import Call
from penstock.wire.faults import (
    access_denied,
    invalid_parameter,
    request_throttled,
    unknown_client,
    wrong_service,
    wrong_signature,
)
from penstock.wire.registry import Fault, Operation, Service
from server.audit_events import ALICE, ALLOWED, DENIED, NOW_MS, QUEUE_ARN, QUEUE_URL

HOME = Space("000000000000", "eu-central-1")
KEY = b"AWS4-HMAC-SHA256 Credential=AKIAGUESS/20260101/us-east-1/%b/aws4_request, SignedHeaders=host, Signature=beef"


class Kept(Audit):
    """A trail that is only looked at."""

    def __init__(self, *, data_events: bool = False) -> None:
        self.events: list[AuditEvent] = []
        self._left_out = left_out(data_events=data_events)

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


async def unused(_request: Any, _call: Call) -> None: ...


SQS = Service(
    signing_name="sqs", target_prefix="AmazonSQS", shape_namespace="", xml_namespace="", actions={},
    to_fault=lambda _: None,
)  # fmt: skip


def answered(
    action: str,
    request: Any = None,
    response: Any = None,
    fault: Fault | None = None,
    *,
    verdict: Any = ALLOWED,
    data_events: bool = False,
) -> list[AuditEvent]:
    call = Call(
        request_id="id-1", space=Space("111111111111", "us-east-1"), sender="AIDAALICE",
        base_url="https://queues.example.com:9324",
    )  # fmt: skip
    call.principal, call.source_ip, call.secure, call.user_agent = ALICE, "192.0.2.7", True, "Boto3"
    call.certificate, call.action, call.resource_arn, call.verdict = "CN=worker-7", action, QUEUE_ARN, verdict
    trail = Kept(data_events=data_events)
    witness = AuditRecorder(trail, Origins(None, ()), HOME, lambda: NOW_MS)
    operation = Operation(action, type(request), None, unused)
    witness.answered(SQS, operation, request, call, response, fault)
    return trail.events


def test_a_change_is_told_with_all_there_is_to_know() -> None:
    request = op.CreateQueueRequest(QueueName="orders", Attributes={"DelaySeconds": "1"})
    (told,) = answered("CreateQueue", request, op.CreateQueueResult(QueueUrl=QUEUE_URL))
    said = cloudtrail(told)
    assert said["userIdentity"]["userName"] == "alice"
    assert said["requestParameters"] == {"queueName": "orders", "attributes": {"DelaySeconds": "1"}}
    assert said["responseElements"] == {"queueUrl": QUEUE_URL}
    assert said["additionalEventData"]["statement"] == "AllowAll"
    assert said["resources"][0]["ARN"] == QUEUE_ARN
    assert (said["requestID"], said["eventTime"]) == ("id-1", "2026-01-01T00:00:00Z")
    assert (said["sourceIPAddress"], said["userAgent"]) == ("192.0.2.7", "Boto3")
    assert said["tlsDetails"] == {
        "clientProvidedHostHeader": "queues.example.com:9324",
        "clientCertificateSubject": "CN=worker-7",
    }
    assert "errorCode" not in said


def test_messages_are_told_if_they_are_wanted_or_denied() -> None:
    request = op.SendMessageRequest(QueueUrl=QUEUE_URL, MessageBody="secret")
    assert answered("SendMessage", request) == []
    assert len(answered("SendMessage", request, data_events=True)) == 1
    (denied,) = answered("SendMessage", request, fault=access_denied("no"), verdict=DENIED)
    assert denied.denied and "secret" not in str(cloudtrail(denied))


def test_a_denial_is_told_whatever_the_caller_was_told() -> None:
    request = op.GetQueueUrlRequest(QueueName="orders", QueueOwnerAWSAccountId="222222222222")
    not_there = sqs_fault(
        "QueueDoesNotExist", "The specified queue does not exist or you do not have access."
    )
    assert answered("GetQueueUrl", request, fault=not_there) == []
    (told,) = answered("GetQueueUrl", request, fault=not_there, verdict=DENIED)
    said = cloudtrail(told)
    assert said["additionalEventData"]["decision"] == "denied"
    assert said["requestParameters"]["queueName"] == "orders"


def test_a_failure_has_no_answer_to_tell() -> None:
    request = op.CreateQueueRequest(QueueName="a b")
    result = op.CreateQueueResult(QueueUrl=QUEUE_URL)
    (told,) = answered("CreateQueue", request, result, invalid_parameter("Can only include ..."))
    assert (told.error_code, told.response, told.denied) == ("InvalidParameterValue", None, False)


def test_a_request_that_could_not_be_read_is_told_without_parameters() -> None:
    (told,) = answered("CreateQueue", None, fault=wrong_service("sqs"), verdict=None)
    assert told.parameters is None and told.denied


def incoming(**headers: bytes) -> Request:
    request = Request(Peer("192.0.2.66", "https", "127.0.0.1:9324", "CN=stolen"))
    request.method, request.target = b"POST", b"/"
    request.headers = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return request


def turned_away(request: Request, fault: Fault, caller: Caller | None = None) -> dict[str, Any]:
    trail = Kept()
    AuditRecorder(trail, Origins(None, ()), HOME, lambda: NOW_MS).turned_away(request, fault, caller)
    (told,) = trail.events
    assert told.denied and (told.principal is None) == (caller is None)
    return cloudtrail(told)


def test_whoever_was_turned_away_is_told_by_what_it_claimed() -> None:
    request = incoming(
        authorization=KEY % b"sqs", x_amz_target=b"AmazonSQS.DeleteQueue", user_agent=b"evil", host=b"q:9324"
    )
    said = turned_away(request, wrong_signature("The request signature we calculated does not match ..."))
    assert said["userIdentity"] == {"type": "Unknown", "accessKeyId": "AKIAGUESS"}
    assert (said["eventSource"], said["eventName"]) == ("sqs.amazonaws.com", "DeleteQueue")
    assert (said["errorCode"], said["sourceIPAddress"]) == ("SignatureDoesNotMatch", "192.0.2.66")
    assert (said["awsRegion"], said["recipientAccountId"]) == ("eu-central-1", "000000000000")
    assert said["requestID"] == request.id and "beef" not in str(said)
    assert said["tlsDetails"] == {
        "clientProvidedHostHeader": "q:9324",
        "clientCertificateSubject": "CN=stolen",
    }


@pytest.mark.parametrize(
    ("query", "body", "action"),
    [
        (b"Action=ListQueues&Version=2012-11-05", b"", "ListQueues"),
        (b"", b"QueueUrl=x&Action=PurgeQueue", "PurgeQueue"),
        (b"", b"NoAction=PurgeQueue", "Unknown"),
        (b"", b"Action=%3Cscript%3E", "Unknown"),
        (b"", b"x" * 10_000 + b"&Action=PurgeQueue", "Unknown"),
    ],
)
def test_the_action_of_a_form_is_told(query: bytes, body: bytes, action: str) -> None:
    request = incoming(authorization=KEY % b"sts")
    request.target, request.body = b"/?" + query, body
    said = turned_away(request, unknown_client("The security token included in the request is invalid."))
    assert (said["eventName"], said["eventSource"]) == (action, "sts.amazonaws.com")


def test_too_many_requests_are_refusals_too() -> None:
    said = turned_away(incoming(), request_throttled())
    assert said["userIdentity"] == {"type": "Unknown"} and said["errorCode"] == "RequestThrottled"
    known = Caller(HOME, ALICE.id, ALICE, "sqs")
    assert turned_away(incoming(), request_throttled(), known)["userIdentity"]["userName"] == ALICE.name


def test_a_request_of_garbage_can_be_told() -> None:
    request = incoming(
        authorization=b"Credential=\xff\xfe/\xff", x_amz_target=b"\xff\x00.\xfe", user_agent=b"\xff"
    )
    assert turned_away(request, wrong_signature("no"))["eventName"] == "\xfe"
