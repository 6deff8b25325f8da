"""What the recorder makes of a request that was answered or refused."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.names import Space
from penstock.server.audit import AuditEvent, AuditLog, AuditRecorder
from penstock.server.audit.event import cloudtrail_event
from penstock.server.callers import Caller
from penstock.server.http.request import Peer, Request
from penstock.server.origin import Origins
from penstock.services import admin, cloudwatch, sqs, sts
from penstock.services.sqs import structs as op
from penstock.services.sqs.faults import sqs_fault
from penstock.wire.faults import (
    access_denied,
    invalid_parameter,
    request_throttled,
    unknown_client,
    wrong_service,
    wrong_signature,
)
from penstock.wire.service import Call, Fault
from support.audit_events import ALICE, ALLOWED, DENIED, NOW_MS, QUEUE_ARN, QUEUE_URL

HOME = Space("000000000000", "eu-central-1")
KEY = b"AWS4-HMAC-SHA256 Credential=AKIAGUESS/20260101/us-east-1/%b/aws4_request, SignedHeaders=host, Signature=beef"


class EventList(AuditLog):
    """A log in memory."""

    def __init__(self, *, data_events: bool = False) -> None:
        self.events: list[AuditEvent] = []
        self._data_events = data_events

    def record(self, event: AuditEvent) -> None:
        self.events.append(event)


SERVICES = (sqs.SERVICE, cloudwatch.SERVICE, sts.SERVICE, admin.SERVICE)


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
    log = EventList(data_events=data_events)
    recorder = AuditRecorder(log, Origins(None, ()), HOME, lambda: NOW_MS, SERVICES)
    if fault is not None or recorder.wants(sqs.ACTIONS[action]):  # as the dispatcher does
        recorder.answered(sqs.SERVICE, sqs.ACTIONS[action], request, call, response, fault)
    return log.events


def test_a_change_is_recorded_with_everything_known() -> None:
    request = op.CreateQueueRequest(QueueName="orders", Attributes={"DelaySeconds": "1"})
    (event,) = answered("CreateQueue", request, op.CreateQueueResult(QueueUrl=QUEUE_URL))
    written = cloudtrail_event(event)
    assert written["userIdentity"]["userName"] == "alice"
    assert written["requestParameters"] == {"queueName": "orders", "attributes": {"DelaySeconds": "1"}}
    assert written["responseElements"] == {"queueUrl": QUEUE_URL}
    assert written["additionalEventData"]["statement"] == "AllowAll"
    assert written["resources"][0]["ARN"] == QUEUE_ARN
    assert (written["requestID"], written["eventTime"]) == ("id-1", "2026-01-01T00:00:00Z")
    assert (written["sourceIPAddress"], written["userAgent"]) == ("192.0.2.7", "Boto3")
    assert written["tlsDetails"] == {
        "clientProvidedHostHeader": "queues.example.com:9324",
        "clientCertificateSubject": "CN=worker-7",
    }
    assert "errorCode" not in written


def test_message_requests_are_recorded_on_request_or_if_denied() -> None:
    request = op.SendMessageRequest(QueueUrl=QUEUE_URL, MessageBody="secret")
    assert answered("SendMessage", request) == []
    assert len(answered("SendMessage", request, data_events=True)) == 1
    (denied,) = answered("SendMessage", request, fault=access_denied("no"), verdict=DENIED)
    assert denied.denied and "secret" not in str(cloudtrail_event(denied))


def test_a_denial_is_recorded_even_if_the_response_hides_it() -> None:
    request = op.GetQueueUrlRequest(QueueName="orders", QueueOwnerAWSAccountId="222222222222")
    not_there = sqs_fault(
        "QueueDoesNotExist", "The specified queue does not exist or you do not have access."
    )
    assert answered("GetQueueUrl", request, fault=not_there) == []
    (event,) = answered("GetQueueUrl", request, fault=not_there, verdict=DENIED)
    written = cloudtrail_event(event)
    assert written["additionalEventData"]["decision"] == "denied"
    assert written["requestParameters"]["queueName"] == "orders"


def test_a_failure_has_no_response_to_record() -> None:
    request = op.CreateQueueRequest(QueueName="a b")
    result = op.CreateQueueResult(QueueUrl=QUEUE_URL)
    (event,) = answered("CreateQueue", request, result, invalid_parameter("Can only include ..."))
    assert (event.error_code, event.response, event.denied) == ("InvalidParameterValue", None, False)


def test_a_request_that_could_not_be_decoded_has_no_parameters() -> None:
    (event,) = answered("CreateQueue", None, fault=wrong_service("sqs"), verdict=None)
    assert event.parameters is None and event.denied


def incoming(**headers: bytes) -> Request:
    request = Request(Peer("192.0.2.66", "https", "127.0.0.1:9324", "CN=stolen"))
    request.method, request.target = b"POST", b"/"
    request.headers = {name.replace("_", "-").encode(): value for name, value in headers.items()}
    return request


def refused_early(request: Request, fault: Fault, caller: Caller | None = None) -> dict[str, Any]:
    log = EventList()
    AuditRecorder(log, Origins(None, ()), HOME, lambda: NOW_MS, SERVICES).refused_early(
        request, fault, caller
    )
    (event,) = log.events
    assert event.denied and (event.principal is None) == (caller is None)
    return cloudtrail_event(event)


def test_a_refused_request_is_recorded_with_what_it_claimed() -> None:
    request = incoming(
        authorization=KEY % b"sqs", x_amz_target=b"AmazonSQS.DeleteQueue", user_agent=b"evil", host=b"q:9324"
    )
    written = refused_early(
        request, wrong_signature("The request signature we calculated does not match ...")
    )
    assert written["userIdentity"] == {"type": "Unknown", "accessKeyId": "AKIAGUESS"}
    assert (written["eventSource"], written["eventName"]) == ("sqs.amazonaws.com", "DeleteQueue")
    assert (written["errorCode"], written["sourceIPAddress"]) == ("SignatureDoesNotMatch", "192.0.2.66")
    assert (written["awsRegion"], written["recipientAccountId"]) == ("eu-central-1", "000000000000")
    assert written["requestID"] == request.id and "beef" not in str(written)
    assert written["tlsDetails"] == {
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
def test_the_action_of_a_form_is_found(query: bytes, body: bytes, action: str) -> None:
    request = incoming(authorization=KEY % b"sts")
    request.target, request.body = b"/?" + query, body
    written = refused_early(request, unknown_client("The security token included in the request is invalid."))
    assert (written["eventName"], written["eventSource"]) == (action, "sts.amazonaws.com")


@pytest.mark.parametrize(
    ("target", "headers", "body", "source", "action"),
    [
        (b"POST /", {"x_amz_target": b"GraniteServiceVersion20100801.DeleteAlarms"}, b"", "monitoring",
         "DeleteAlarms"),
        (b"POST /", {"x_amz_target": b"AmazonSQS.DeleteQueue"}, b"", "sqs", "DeleteQueue"),
        (b"POST /", {"x_amz_target": b"None.DeleteAlarms", "authorization": KEY % b"monitoring"}, b"", "monitoring",
         "DeleteAlarms"),
        (b"POST /service/GraniteServiceVersion20100801/operation/PutMetricData",
         {"smithy_protocol": b"rpc-v2-cbor"}, b"", "monitoring", "PutMetricData"),
        (b"POST /", {}, b"Action=DescribeAlarms&Version=2010-08-01", "monitoring", "DescribeAlarms"),
        (b"POST /", {"authorization": KEY % b"monitoring"}, b"Action=TagResource", "monitoring", "TagResource"),
        (b"POST /", {}, b"Action=GetCallerIdentity", "sts", "GetCallerIdentity"),
        (b"GET /admin/v1/tasks?queue=x", {}, b"", "penstock", "ListTasks"),
        (b"DELETE /admin/v1/queues/q/messages/1", {"authorization": KEY % b"sqs"}, b"", "penstock", "DeleteMessage"),
        (b"GET /admin/v1/nothing", {}, b"", "penstock", "Unknown"),
        (b"POST /", {"authorization": KEY % b"iam"}, b"Action=ListUsers", "sqs", "ListUsers"),
    ],
)  # fmt: skip
def test_the_service_is_that_of_the_request(
    target: bytes, headers: dict[str, bytes], body: bytes, source: str, action: str
) -> None:
    request = incoming(**headers)
    request.method, _, request.target = target.partition(b" ")
    request.body = body
    written = refused_early(request, wrong_signature("no"))
    assert (written["eventSource"], written["eventName"]) == (f"{source}.amazonaws.com", action)


def test_throttled_requests_are_refused_requests() -> None:
    written = refused_early(incoming(), request_throttled())
    assert written["userIdentity"] == {"type": "Unknown"} and written["errorCode"] == "RequestThrottled"
    known = Caller(HOME, ALICE.id, ALICE, "sqs")
    assert refused_early(incoming(), request_throttled(), known)["userIdentity"]["userName"] == ALICE.name


def test_a_request_of_random_bytes_can_be_recorded() -> None:
    request = incoming(
        authorization=b"Credential=\xff\xfe/\xff", x_amz_target=b"\xff\x00.\xfe", user_agent=b"\xff"
    )
    assert refused_early(request, wrong_signature("no"))["eventName"] == "\xfe"
