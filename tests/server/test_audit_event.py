"""Events have the shape of CloudTrail's, and tell no more than they should."""

from __future__ import annotations

import json
import unicodedata
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.auth.policy import Verdict
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.server.audit import AuditEvent
from penstock.server.audit.actions import ACTIONS
from penstock.server.audit.event import (
    BOUNDED_PARAMETERS_BYTES_MAX,
    ERROR_TEXT_MAX,
    TEXT_MAX,
    cloudtrail,
    encoded,
)
from server.audit_events import ALICE, DENIED, QUEUE_ARN, QUEUE_URL, ROOT, WORKER, event, refused


def told(one: AuditEvent) -> dict[str, Any]:
    line = encoded(cloudtrail(one))
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    read: dict[str, Any] = json.loads(line)
    return read


def test_a_change_by_a_user() -> None:
    said = told(event(parameters={"queueName": "orders"}, response={"queueUrl": QUEUE_URL}))
    uuid.UUID(said.pop("eventID"))
    assert said == {
        "eventVersion": "1.11",
        "userIdentity": {
            "type": "IAMUser",
            "principalId": "AIDAALICE",
            "arn": "arn:aws:iam::111111111111:user/alice",
            "accountId": "111111111111",
            "accessKeyId": "AKIAALICE",
            "userName": "alice",
        },
        "eventTime": "2026-01-01T00:00:00Z",
        "eventSource": "sqs.amazonaws.com",
        "eventName": "CreateQueue",
        "awsRegion": "us-east-1",
        "sourceIPAddress": "192.0.2.7",
        "userAgent": "Boto3/1.42",
        "requestParameters": {"queueName": "orders"},
        "responseElements": {"queueUrl": QUEUE_URL},
        "additionalEventData": {"decision": "allowed", "policy": "identity:queues", "statement": "AllowAll"},
        "requestID": "11111111-2222-3333-4444-555555555555",
        "readOnly": False,
        "eventType": "AwsApiCall",
        "managementEvent": True,
        "recipientAccountId": "111111111111",
        "eventCategory": "Management",
        "resources": [{"accountId": "111111111111", "type": "AWS::SQS::Queue", "ARN": QUEUE_ARN}],
        "tlsDetails": {"clientProvidedHostHeader": "queues.example.com"},
    }


def test_every_event_has_an_id_of_its_own() -> None:
    assert told(event())["eventID"] != told(event())["eventID"]


def test_a_session_names_its_role() -> None:
    who = told(event(principal=WORKER))["userIdentity"]
    assert who["type"] == "AssumedRole" and "userName" not in who
    assert who["sessionContext"]["sessionIssuer"] == {
        "type": "Role",
        "principalId": "AROAWORKER",
        "arn": "arn:aws:iam::111111111111:role/jobs/worker",
        "accountId": "111111111111",
        "userName": "worker",
    }


def test_other_callers() -> None:
    assert told(event(principal=ROOT))["userIdentity"]["type"] == "Root"
    anonymous = {"type": "AWSAccount", "principalId": "", "accountId": "ANONYMOUS_PRINCIPAL"}
    assert told(event(principal=ANONYMOUS))["userIdentity"] == anonymous
    assert told(refused())["userIdentity"] == {"type": "Unknown", "accessKeyId": "AKIAGUESS"}
    assert told(refused(access_key=""))["userIdentity"] == {"type": "Unknown"}


def test_whose_event_it_is() -> None:
    elsewhere = "arn:aws:sqs:us-east-1:222222222222:theirs"
    assert told(event(resource=elsewhere))["recipientAccountId"] == "222222222222"
    assert told(event(resource=""))["recipientAccountId"] == "111111111111"
    assert told(event(resource="", principal=ANONYMOUS))["recipientAccountId"] == "000000000000"
    assert told(refused())["recipientAccountId"] == "000000000000"


def test_messages_are_data_events() -> None:
    sent, received = told(event(action="SendMessage")), told(event(action="ReceiveMessage"))
    assert (sent["eventCategory"], sent["managementEvent"], sent["readOnly"]) == ("Data", False, False)
    assert (received["eventCategory"], received["readOnly"]) == ("Data", True)


def test_a_role_is_no_queue() -> None:
    role = "arn:aws:iam::111111111111:role/worker"
    assert resource_of(told(event(service="sts", action="AssumeRole", resource=role))) == (
        "AWS::IAM::Role",
        role,
    )


def resource_of(said: dict[str, Any]) -> tuple[str, str]:
    (resource,) = said["resources"]
    return resource["type"], resource["ARN"]


def test_who_decided_a_denial() -> None:
    by_statement = Verdict(False, "explicit deny", "resource", "NoPlainHttp")
    said = told(event(verdict=by_statement, error_code="AccessDenied", error_message="User: ... denied"))
    assert said["additionalEventData"] == {
        "decision": "denied",
        "policy": "resource",
        "statement": "NoPlainHttp",
        "reason": "explicit deny",
    }
    assert (said["errorCode"], said["errorMessage"]) == ("AccessDenied", "User: ... denied")


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": DENIED},
        {"verdict": None, "refused": True},
        {"verdict": None, "error_code": "AccessDenied"},
    ],
)
def test_denied_is_denied_wherever_it_was(changes: dict[str, Any]) -> None:
    one = event(**changes)
    assert one.denied and told(one)["additionalEventData"]["decision"] == "denied"


@pytest.mark.parametrize("who", [ALICE, ANONYMOUS, None])
def test_what_failed_before_anybody_was_asked_was_not_allowed(who: Principal | None) -> None:
    failed = told(event(principal=who, verdict=None, error_code="MissingParameter"))
    assert failed["additionalEventData"] == {"decision": "none"}
    done = told(event(principal=who, verdict=None, action="GetCallerIdentity", service="sts"))
    assert done["additionalEventData"] == {"decision": "allowed"}


def test_an_error_is_not_a_denial() -> None:
    one = event(error_code="QueueAlreadyExists", error_message="A queue already exists with this name.")
    assert one.decision == "allowed"
    assert told(one)["errorMessage"] == "A queue already exists with this name."


def test_a_refused_caller_is_known_by_its_address_and_a_known_one_by_its_arn() -> None:
    assert refused("192.0.2.9").caller == "192.0.2.9"
    assert event(principal=ANONYMOUS, source_ip="192.0.2.8").caller == "192.0.2.8"
    assert event().caller == ALICE.arn


def test_a_caller_gains_no_other_name_by_what_it_can_choose() -> None:
    assert {refused(f"2001:db8::{number:x}").caller for number in range(300)} == {"2001:db8::/64"}
    assert refused("2001:db8:0:1::1").caller == "2001:db8:0:1::/64"
    assert refused("::ffff:192.0.2.9").caller == "192.0.2.9"
    assert event(principal=WORKER).caller == "arn:aws:iam::111111111111:role/jobs/worker"


def test_without_tls_nothing_is_said_of_it() -> None:
    assert "tlsDetails" not in told(event(secure=False))


def test_whose_certificate_a_client_showed() -> None:
    assert told(event(certificate="CN=worker-7"))["tlsDetails"] == {
        "clientProvidedHostHeader": "queues.example.com",
        "clientCertificateSubject": "CN=worker-7",
    }
    # A proxy's own, which says that its client came without TLS.
    behind = told(event(secure=False, certificate="CN=proxy"))
    assert behind["tlsDetails"] == {"clientCertificateSubject": "CN=proxy"}


def test_a_certificate_s_name_cannot_steer_a_terminal() -> None:
    line = encoded(cloudtrail(event(certificate="CN=\x1b[2J\x7f\x9b31m")))
    assert b"CN=\\u001b[2J\\u007f\\u009b31m" in line


_DATA = [name for name, what in ACTIONS["sqs"].items() if what.category != "Management"]


@given(
    st.sampled_from(_DATA), st.text(), st.sampled_from(["ReceiptHandleIsInvalid", "InvalidParameterValue"])
)
def test_an_error_that_may_quote_a_message_is_told_by_its_code_alone(
    action: str, quoted: str, code: str
) -> None:
    said = told(event(action=action, error_code=code, error_message=f'"{quoted}" is not right.'))
    assert said["errorCode"] == code
    assert "errorMessage" not in said


@pytest.mark.parametrize("action", ["", "CreateQueue", "SendMessage"])
def test_a_quoted_authorization_header_is_not_told(action: str) -> None:
    header = "Authorization=AWS4-HMAC-SHA256 Signature=abc"
    said = told(refused(action=action, error_code="IncompleteSignature", error_message=header))
    assert said["eventName"] == (action or "Unknown")
    assert said["errorCode"] == "IncompleteSignature" and "errorMessage" not in said


def test_a_wrong_clock_can_be_seen() -> None:
    words = "Signature expired: 20260101T000000Z is now earlier than 20260101T000500Z"
    assert told(refused(error_message=words))["errorMessage"] == words


def test_nothing_a_caller_sends_makes_a_line_long() -> None:
    long = "x" * 1_000_000
    one = refused(
        action=long,
        user_agent=long,
        host=long,
        certificate=long,
        access_key=long,
        error_message=long,
        parameters={"queueName": long},
    )
    most = 2000 + 5 * TEXT_MAX + ERROR_TEXT_MAX + BOUNDED_PARAMETERS_BYTES_MAX
    assert len(encoded(cloudtrail(one))) < most


def test_what_was_done_is_told_whole_however_large() -> None:
    wide = "\U00010330"  # a letter of four bytes
    largest = {
        "queueName": "q" * 80,
        "attributes": {
            **dict.fromkeys(("Policy", "RedrivePolicy", "RedriveAllowPolicy"), '"' * 8192),
            "KmsMasterKeyId": wide * 2048,
        },
        "tags": {f"{i:02}".ljust(128, wide): wide * 256 for i in range(50)},
    }
    said = told(event(parameters=largest))
    assert said["requestParameters"] == largest and "parametersSize" not in said["additionalEventData"]


GRANTED = '{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}'


def test_a_grant_cannot_be_hidden_behind_padding() -> None:
    padded = {"queueUrl": "q", "attributes": {"Policy": GRANTED, "RedrivePolicy": "{}" + " " * 1_000_000}}
    said = told(event(action="SetQueueAttributes", parameters=padded))
    shown = said["requestParameters"]
    assert shown["queueUrl"] == "q" and shown["attributes"]["Policy"] == GRANTED
    assert shown["attributes"]["RedrivePolicy"].startswith("{} ")
    assert said["additionalEventData"]["parametersSize"] > 1_000_000
    accounts = ["222222222222", "x" * 1_000_000]
    shown = told(event(parameters={"actions": ["*"], "aWSAccountIds": accounts}))["requestParameters"]
    assert shown["actions"] == ["*"] and shown["aWSAccountIds"][0] == "222222222222"


def test_what_was_denied_is_told_in_short() -> None:
    policy = {"attributes": {"Policy": "p" * 8192, "DelaySeconds": "1"}}
    assert told(event(parameters=policy))["requestParameters"] == policy
    said = told(event(parameters=policy, verdict=DENIED))
    shown = said["requestParameters"]["attributes"]
    assert shown["DelaySeconds"] == "1" and shown["Policy"].startswith("p" * 1900)
    assert said["additionalEventData"]["parametersSize"] > 8192


def test_what_failed_before_anybody_was_asked_is_told_in_short_too() -> None:
    long = {"attributes": {"Policy": "p" * 8192}}
    for changes in ({"verdict": None}, {"verdict": None, "principal": ANONYMOUS}):
        assert event(error_code="MissingParameter", **changes).bounded
        said = told(event(error_code="MissingParameter", parameters=long, **changes))
        assert len(encoded(said["requestParameters"])) <= BOUNDED_PARAMETERS_BYTES_MAX + 1
    assert event(verdict=None).bounded, "nobody is asked about GetCallerIdentity"
    assert not event(verdict=None, principal=None).bounded, "it is open"


def test_what_failed_is_told_in_short_even_if_it_was_allowed() -> None:
    """Whoever may change one queue must not push the trail out of its files with large requests that do nothing."""
    long = {"attributes": {"x": "A" * 158_000}}
    for changes in ({}, {"principal": None, "verdict": None}):
        failed = event(error_code="InvalidAttributeName", parameters=long, **changes)
        assert failed.bounded
        said = told(failed)
        assert len(encoded(said["requestParameters"])) <= BOUNDED_PARAMETERS_BYTES_MAX + 1
        assert said["additionalEventData"]["parametersSize"] > 158_000
        assert not event(parameters=long, **changes).bounded


@given(st.text(st.characters(max_codepoint=0xFF)) | st.text())
def test_nothing_in_a_line_steers_a_terminal(text: str) -> None:
    for more in ("", "\ud800"):  # which is spelled in another way
        one = event(user_agent=text + more, parameters={"tags": {text: text}})
        line = encoded(cloudtrail(one)).decode()
        assert not [c for c in line[:-1] if unicodedata.category(c) == "Cc"]
        assert told(one)["userAgent"] == (text + more)[:TEXT_MAX]


def test_what_is_escaped_counts_as_it_is_written() -> None:
    said = told(event(verdict=DENIED, parameters={"queueName": "\x9b" * 2000}))
    shown = said["requestParameters"]
    assert shown["queueName"].startswith("\x9b" * 300)
    assert len(encoded(shown)) <= BOUNDED_PARAMETERS_BYTES_MAX + 1


@given(st.text(st.characters()), st.integers(0, 10**13))
def test_any_text_and_time_can_be_told(text: str, at_ms: int) -> None:
    one = event(
        user_agent=text, action=text, parameters={"queueName": text}, error_code="X", error_message=text
    )
    assert told(one)["userAgent"] == text[:TEXT_MAX]
    assert told(event(at_ms=at_ms))["eventTime"].endswith("Z")
