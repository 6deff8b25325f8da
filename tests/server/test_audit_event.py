"""Events have the format of CloudTrail's, and contain nothing secret."""

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
from penstock.server.audit.encode import TEXT_MAX, cut, encode
from penstock.server.audit.event import CAPPED_PARAMETERS_BYTES_MAX
from penstock.services.sqs import ACTIONS
from support.audit_events import ALICE, DENIED, QUEUE_ARN, QUEUE_URL, ROOT, WORKER, event, line_of, refused


def written(one: AuditEvent) -> dict[str, Any]:
    line = line_of(one)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    read: dict[str, Any] = json.loads(line)
    return read


def test_a_change_by_a_user() -> None:
    line = written(event(parameters={"queueName": "orders"}, response={"queueUrl": QUEUE_URL}))
    uuid.UUID(line.pop("eventID"))
    assert line == {
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


def test_every_event_has_its_own_id() -> None:
    assert written(event())["eventID"] != written(event())["eventID"]


def test_a_session_names_its_role() -> None:
    who = written(event(principal=WORKER))["userIdentity"]
    assert who["type"] == "AssumedRole" and "userName" not in who
    assert who["sessionContext"]["sessionIssuer"] == {
        "type": "Role",
        "principalId": "AROAWORKER",
        "arn": "arn:aws:iam::111111111111:role/jobs/worker",
        "accountId": "111111111111",
        "userName": "worker",
    }


def test_other_callers() -> None:
    assert written(event(principal=ROOT))["userIdentity"]["type"] == "Root"
    anonymous = {"type": "AWSAccount", "principalId": "", "accountId": "ANONYMOUS_PRINCIPAL"}
    assert written(event(principal=ANONYMOUS))["userIdentity"] == anonymous
    assert written(refused())["userIdentity"] == {"type": "Unknown", "accessKeyId": "AKIAGUESS"}
    assert written(refused(access_key=""))["userIdentity"] == {"type": "Unknown"}


def test_the_recipient_account() -> None:
    elsewhere = "arn:aws:sqs:us-east-1:222222222222:theirs"
    assert written(event(resource=elsewhere))["recipientAccountId"] == "222222222222"
    assert written(event(resource=""))["recipientAccountId"] == "111111111111"
    assert written(event(resource="", principal=ANONYMOUS))["recipientAccountId"] == "000000000000"
    assert written(refused())["recipientAccountId"] == "000000000000"


def test_messages_are_data_events() -> None:
    sent, received = written(event(action="SendMessage")), written(event(action="ReceiveMessage"))
    assert (sent["eventCategory"], sent["managementEvent"], sent["readOnly"]) == ("Data", False, False)
    assert (received["eventCategory"], received["readOnly"]) == ("Data", True)


def test_the_resource_of_assume_role_is_the_role() -> None:
    role = "arn:aws:iam::111111111111:role/worker"
    assert resource_of(
        written(event(service="sts", action="AssumeRole", resource=role, resource_type="AWS::IAM::Role"))
    ) == (
        "AWS::IAM::Role",
        role,
    )


def resource_of(line: dict[str, Any]) -> tuple[str, str]:
    (resource,) = line["resources"]
    return resource["type"], resource["ARN"]


def test_a_denial_names_the_statement() -> None:
    by_statement = Verdict(False, "explicit deny", "resource", "NoPlainHttp")
    line = written(event(verdict=by_statement, error_code="AccessDenied", error_message="User: ... denied"))
    assert line["additionalEventData"] == {
        "decision": "denied",
        "policy": "resource",
        "statement": "NoPlainHttp",
        "reason": "explicit deny",
    }
    assert (line["errorCode"], line["errorMessage"]) == ("AccessDenied", "User: ... denied")


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": DENIED},
        {"verdict": None, "refused": True},
        {"verdict": None, "error_code": "AccessDenied"},
    ],
)
def test_a_denial_at_any_stage_is_a_denial(changes: dict[str, Any]) -> None:
    one = event(**changes)
    assert one.denied and written(one)["additionalEventData"]["decision"] == "denied"


@pytest.mark.parametrize("who", [ALICE, ANONYMOUS, None])
def test_a_request_that_failed_before_a_decision_was_not_allowed(who: Principal | None) -> None:
    failed = written(event(principal=who, verdict=None, error_code="MissingParameter"))
    assert failed["additionalEventData"] == {"decision": "none"}
    done = written(event(principal=who, verdict=None, action="GetCallerIdentity", service="sts"))
    assert done["additionalEventData"] == {"decision": "allowed"}


def test_an_error_is_not_a_denial() -> None:
    one = event(error_code="QueueAlreadyExists", error_message="A queue already exists with this name.")
    assert one.decision == "allowed"
    assert written(one)["errorMessage"] == "A queue already exists with this name."


def test_a_caller_is_counted_by_its_arn_or_else_by_its_address() -> None:
    assert refused("192.0.2.9").caller == "192.0.2.9"
    assert event(principal=ANONYMOUS, source_ip="192.0.2.8").caller == "192.0.2.8"
    assert event().caller == ALICE.arn


def test_what_a_caller_can_choose_does_not_change_its_name() -> None:
    assert {refused(f"2001:db8::{number:x}").caller for number in range(300)} == {"2001:db8::/64"}
    assert refused("2001:db8:0:1::1").caller == "2001:db8:0:1::/64"
    assert refused("::ffff:192.0.2.9").caller == "192.0.2.9"
    assert event(principal=WORKER).caller == "arn:aws:iam::111111111111:role/jobs/worker"


def test_without_tls_there_are_no_tls_details() -> None:
    assert "tlsDetails" not in written(event(secure=False))


def test_the_subject_of_the_client_certificate() -> None:
    assert written(event(certificate="CN=worker-7"))["tlsDetails"] == {
        "clientProvidedHostHeader": "queues.example.com",
        "clientCertificateSubject": "CN=worker-7",
    }
    # The certificate of a proxy whose client came without TLS.
    behind = written(event(secure=False, certificate="CN=proxy"))
    assert behind["tlsDetails"] == {"clientCertificateSubject": "CN=proxy"}


def test_control_characters_of_a_certificate_are_escaped() -> None:
    line = line_of(event(certificate="CN=\x1b[2J\x7f\x9b31m"))
    assert b"CN=\\u001b[2J\\u007f\\u009b31m" in line


_DATA = [name for name, row in ACTIONS.items() if row.audit.category != "Management"]


@given(
    st.sampled_from(_DATA), st.text(), st.sampled_from(["ReceiptHandleIsInvalid", "InvalidParameterValue"])
)
def test_an_error_that_may_quote_a_message_is_recorded_by_its_code_only(
    action: str, quoted: str, code: str
) -> None:
    line = written(event(action=action, error_code=code, error_message=f'"{quoted}" is invalid.'))
    assert line["errorCode"] == code
    assert "errorMessage" not in line


@pytest.mark.parametrize("action", ["", "CreateQueue", "SendMessage"])
def test_a_quoted_authorization_header_is_not_recorded(action: str) -> None:
    header = "Authorization=AWS4-HMAC-SHA256 Signature=abc"
    line = written(refused(action=action, error_code="IncompleteSignature", error_message=header))
    assert line["eventName"] == (action or "Unknown")
    assert line["errorCode"] == "IncompleteSignature" and "errorMessage" not in line


def test_a_wrong_clock_of_a_client_is_visible() -> None:
    words = "Signature expired: 20260101T000000Z is now earlier than 20260101T000500Z"
    assert written(refused(error_message=words))["errorMessage"] == words


def test_no_value_of_a_caller_makes_a_line_long() -> None:
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
    most = 2000 + 6 * TEXT_MAX + CAPPED_PARAMETERS_BYTES_MAX
    assert len(line_of(one)) < most


def test_a_change_is_recorded_whole_however_large() -> None:
    wide = "\U00010330"  # a letter of four bytes
    largest = {
        "queueName": "q" * 80,
        "attributes": {
            **dict.fromkeys(("Policy", "RedrivePolicy", "RedriveAllowPolicy"), '"' * 8192),
            "KmsMasterKeyId": wide * 2048,
        },
        "tags": {f"{i:02}".ljust(128, wide): wide * 256 for i in range(50)},
    }
    line = written(event(parameters=largest))
    assert line["requestParameters"] == largest and "parametersSize" not in line["additionalEventData"]


GRANTED = '{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sqs:*","Resource":"*"}]}'


def test_a_grant_cannot_be_hidden_behind_padding() -> None:
    padded = {"queueUrl": "q", "attributes": {"Policy": GRANTED, "RedrivePolicy": "{}" + " " * 1_000_000}}
    line = written(event(action="SetQueueAttributes", parameters=padded))
    shown = line["requestParameters"]
    assert shown["queueUrl"] == "q" and shown["attributes"]["Policy"] == GRANTED
    assert shown["attributes"]["RedrivePolicy"].startswith("{} ")
    assert line["additionalEventData"]["parametersSize"] > 1_000_000
    accounts = ["222222222222", "x" * 1_000_000]
    shown = written(event(parameters={"actions": ["*"], "aWSAccountIds": accounts}))["requestParameters"]
    assert shown["actions"] == ["*"] and shown["aWSAccountIds"][0] == "222222222222"


def test_parameters_of_a_denied_request_are_cut() -> None:
    policy = {"attributes": {"Policy": "p" * 8192, "DelaySeconds": "1"}}
    assert written(event(parameters=policy))["requestParameters"] == policy
    line = written(event(parameters=policy, verdict=DENIED))
    shown = line["requestParameters"]["attributes"]
    assert shown["DelaySeconds"] == "1" and shown["Policy"].startswith("p" * 1900)
    assert line["additionalEventData"]["parametersSize"] > 8192


def test_parameters_of_a_request_that_failed_before_a_decision_are_cut() -> None:
    long = {"attributes": {"Policy": "p" * 8192}}
    for changes in ({"verdict": None}, {"verdict": None, "principal": ANONYMOUS}):
        assert event(error_code="MissingParameter", **changes).capped_outcome is not None
        line = written(event(error_code="MissingParameter", parameters=long, **changes))
        assert len(encode(line["requestParameters"])) <= CAPPED_PARAMETERS_BYTES_MAX
    assert event(verdict=None).capped_outcome is not None, "no policy is evaluated for GetCallerIdentity"
    assert event(verdict=None, principal=None).capped_outcome is None, "the server is open"


def test_parameters_of_an_allowed_request_that_failed_are_cut() -> None:
    """A user with access to one queue must not displace older events with large requests that change nothing."""
    long = {"attributes": {"x": "A" * 158_000}}
    for changes in ({}, {"principal": None, "verdict": None}):
        failed = event(error_code="InvalidAttributeName", parameters=long, **changes)
        assert failed.capped_outcome is not None
        line = written(failed)
        assert len(encode(line["requestParameters"])) <= CAPPED_PARAMETERS_BYTES_MAX
        assert line["additionalEventData"]["parametersSize"] > 158_000
        assert event(parameters=long, **changes).capped_outcome is None


@given(st.text(st.characters(max_codepoint=0xFF)) | st.text())
def test_control_characters_are_escaped_everywhere(text: str) -> None:
    for more in ("", "\ud800"):  # which is encoded in another way
        one = event(user_agent=text + more, parameters={"tags": {text: text}})
        line = line_of(one).decode()
        assert not [c for c in line[:-1] if unicodedata.category(c) == "Cc"]
        assert written(one)["userAgent"] == cut(text + more)


def test_escaped_characters_count_with_their_escapes() -> None:
    line = written(event(verdict=DENIED, parameters={"queueName": "\x9b" * 2000}))
    shown = line["requestParameters"]
    assert shown["queueName"].startswith("\x9b" * 300)
    assert len(encode(shown)) <= CAPPED_PARAMETERS_BYTES_MAX


@given(st.text(st.characters()), st.integers(0, 10**13))
def test_any_text_and_time_can_be_written(text: str, at_ms: int) -> None:
    one = event(
        user_agent=text, action=text, parameters={"queueName": text}, error_code="X", error_message=text
    )
    assert written(one)["userAgent"] == cut(text)
    assert written(event(at_ms=at_ms))["eventTime"].endswith("Z")
