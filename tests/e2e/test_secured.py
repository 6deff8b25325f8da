"""A server with credentials: signatures, policies, sessions, changed keys, the audit log."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import botocore.auth
import botocore.awsrequest
import botocore.credentials
import pytest
from botocore.exceptions import ClientError

from support.identities import ABROAD, HOME
from support.secured import Secured, client, refusal
from support.waiting import until

REGION = "eu-west-1"


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory, flags: tuple[str, ...]) -> Iterator[Secured]:
    secured = Secured(tmp_path_factory.mktemp("secured"))
    secured.add("ann", "sqs-full-access")
    secured.add("bob")
    secured.add("eve", "sqs-full-access", account=ABROAD)
    secured.add("root")
    with secured.running(*flags):
        yield secured


@pytest.fixture(scope="module")
def url(accounts: Secured) -> str:
    return str(accounts.client("ann").create_queue(QueueName="orders")["QueueUrl"])


def post(
    url: str, headers: dict[str, str], body: bytes = b"{}"
) -> tuple[int, dict[str, str], dict[str, Any]]:
    # urllib's own content type is that of a form, which decides the protocol.
    headers = {"Content-Type": "application/x-amz-json-1.0", **headers}
    request = urllib.request.Request(url, body, headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), json.loads(answer.read())
    except urllib.error.HTTPError as error:
        return error.code, dict(error.headers), json.loads(error.read())


def signed(
    accounts: Secured, name: str, *, region: str = REGION, service: str = "sqs", at: datetime | None = None
) -> dict[str, str]:
    """The headers of a ListQueues request."""
    request = botocore.awsrequest.AWSRequest(
        "POST", accounts.server.url + "/", {"X-Amz-Target": "AmazonSQS.ListQueues"}, b"{}"
    )
    auth = botocore.auth.SigV4Auth(botocore.credentials.Credentials(*accounts.keys[name]), service, region)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(botocore.auth, "get_current_datetime", lambda: at or datetime.now(UTC), raising=False)
        auth.add_auth(request)
    return dict(request.headers)


def test_a_signed_request_is_served(accounts: Secured, url: str) -> None:
    sqs = accounts.client("ann")
    sent = sqs.send_message(QueueUrl=url, MessageBody="hello")
    (received,) = sqs.receive_message(QueueUrl=url, AttributeNames=["SenderId"])["Messages"]
    assert (received["MessageId"], received["Body"]) == (sent["MessageId"], "hello")
    assert received["Attributes"]["SenderId"] == accounts.client("ann", "sts").get_caller_identity()["UserId"]


def test_no_credentials(accounts: Secured) -> None:
    status, headers, body = post(accounts.server.url, {"X-Amz-Target": "AmazonSQS.ListQueues"})
    assert (status, headers["x-amzn-query-error"]) == (403, "AccessDenied;Sender")
    assert body["__type"] == "com.amazon.coral.service#AccessDeniedException"


def test_an_unknown_key(accounts: Secured) -> None:
    unknown = client(accounts.server.url, aws_access_key_id="AKIANOBODY", aws_secret_access_key="x")
    text = "The security token included in the request is invalid."
    assert refusal(unknown.list_queues) == (403, "InvalidClientTokenId", text)


def test_a_wrong_secret(accounts: Secured) -> None:
    status, code, text = refusal(accounts.client("ann", aws_secret_access_key="wrong").list_queues)
    assert (status, code) == (403, "SignatureDoesNotMatch")
    assert text.startswith("The request signature we calculated does not match the signature you provided.")


def test_a_malformed_header(accounts: Secured) -> None:
    headers = {"X-Amz-Target": "AmazonSQS.ListQueues", "Authorization": "AWS4-HMAC-SHA256 nonsense"}
    status, answered, _ = post(accounts.server.url, headers)
    assert (status, answered["x-amzn-query-error"]) == (400, "IncompleteSignature;Sender")


def test_clock_skew(accounts: Secured) -> None:
    stamp = signed(accounts, "ann")["X-Amz-Date"]
    assert post(accounts.server.url, signed(accounts, "ann"))[0] == 200, "the request itself is right"
    late = datetime.now(UTC) - timedelta(minutes=20)
    headers = signed(accounts, "ann", at=late)
    assert headers["X-Amz-Date"] < stamp, "the client's clock was turned"
    status, answered, body = post(accounts.server.url, headers)
    assert (status, answered["x-amzn-query-error"]) == (403, "SignatureDoesNotMatch;Sender")
    assert body["message"].startswith(f"Signature expired: {headers['X-Amz-Date']} is now earlier than ")


def test_a_signature_for_another_service(accounts: Secured) -> None:
    _, _, body = post(accounts.server.url, signed(accounts, "ann", service="sts"))
    assert body["message"] == "Credential should be scoped to correct service: 'sqs'."


def test_a_request_that_was_changed_after_signing(accounts: Secured) -> None:
    headers = signed(accounts, "ann")
    assert post(accounts.server.url, headers, b'{"QueueNamePrefix":"x"}')[0] == 403
    assert post(accounts.server.url, {**headers, "X-Amz-Target": "AmazonSQS.CreateQueue"})[0] == 403
    assert post(accounts.server.url + "/x", headers)[0] == 403


def test_policies_are_enforced(accounts: Secured, url: str) -> None:
    status, code, text = refusal(accounts.client("bob").send_message, QueueUrl=url, MessageBody="x")
    assert (status, code) == (403, "AccessDenied")
    assert text == (
        f"User: arn:aws:iam::{HOME}:user/bob is not authorized to perform: sqs:sendmessage on resource: "
        f"arn:aws:sqs:{REGION}:{HOME}:orders because no identity-based policy allows the sqs:sendmessage action"
    )


def test_another_account_needs_the_queues_policy(accounts: Secured) -> None:
    ann, eve = accounts.client("ann"), accounts.client("eve")
    shared = ann.create_queue(QueueName="shared")["QueueUrl"]
    assert refusal(eve.send_message, QueueUrl=shared, MessageBody="x")[1] == "AccessDenied"
    ann.add_permission(QueueUrl=shared, Label="eve", AWSAccountIds=[ABROAD], Actions=["SendMessage"])
    assert eve.send_message(QueueUrl=shared, MessageBody="from abroad")["MessageId"]
    assert refusal(eve.receive_message, QueueUrl=shared)[1] == "AccessDenied"
    (received,) = ann.receive_message(QueueUrl=shared)["Messages"]
    assert received["Body"] == "from abroad"


def test_anonymous_callers_with_a_policy_for_everyone(accounts: Secured) -> None:
    ann = accounts.client(
        "ann", region_name="us-east-1"
    )  # the server's own: nothing in the request says which
    wide = ann.create_queue(QueueName="wide")["QueueUrl"]
    body = json.dumps({"QueueUrl": wide, "MessageBody": "hi"}).encode()
    headers = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
    assert post(accounts.server.url, headers, body)[0] == 403
    everyone = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage", "Resource": "*"}
    ann.set_queue_attributes(QueueUrl=wide, Attributes={"Policy": json.dumps({"Statement": [everyone]})})
    assert post(accounts.server.url, headers, body)[0] == 200


def test_plain_http_is_not_secure_transport(accounts: Secured) -> None:
    root = accounts.client("root")
    url = root.create_queue(QueueName="tls-only")["QueueUrl"]
    plain = {"Bool": {"aws:SecureTransport": "false"}}
    deny = {"Effect": "Deny", "Principal": "*", "Action": "sqs:*", "Resource": "*", "Condition": plain}
    root.set_queue_attributes(QueueUrl=url, Attributes={"Policy": json.dumps({"Statement": [deny]})})
    assert refusal(accounts.client("ann").send_message, QueueUrl=url, MessageBody="x")[1] == "AccessDenied"
    assert refusal(root.send_message, QueueUrl=url, MessageBody="x")[1] == "AccessDenied"
    root.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert root.send_message(QueueUrl=url, MessageBody="x")["MessageId"]


def test_a_role_is_assumed_and_its_session_used(accounts: Secured, url: str) -> None:
    trust = accounts.folder / "trust.json"
    who = {"AWS": f"arn:aws:iam::{HOME}:user/bob"}
    allowed = {"Effect": "Allow", "Principal": who, "Action": "sts:AssumeRole"}
    trust.write_text(json.dumps({"Version": "2012-10-17", "Statement": [allowed]}))
    accounts.penstock(
        "role",
        "add",
        "sender",
        "--account",
        HOME,
        "--trust",
        str(trust),
        "--policy",
        "sqs-send",
        *accounts.files,
    )
    sts = accounts.client("bob", "sts")
    role = f"arn:aws:iam::{HOME}:role/sender"
    until(lambda: _assumed(sts, role) is not None, "the server took up the new role")
    session = _assumed(sts, role)
    assert session is not None
    sender = client(
        accounts.server.url, aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"], aws_session_token=session["SessionToken"],
    )  # fmt: skip
    # Of several processes, the other may take up the role up to a second later.
    until(lambda: _is_accepted(sender.send_message, QueueUrl=url, MessageBody="by role"), "the role may send")
    assert refusal(sender.receive_message, QueueUrl=url)[1] == "AccessDenied"
    forged = client(
        accounts.server.url, aws_access_key_id=session["AccessKeyId"],
        aws_secret_access_key=session["SecretAccessKey"], aws_session_token=session["SessionToken"][:-2] + "AA",
    )  # fmt: skip
    assert refusal(forged.list_queues)[1] == "InvalidClientTokenId"


def _is_accepted(call: Any, **request: Any) -> bool:
    try:
        call(**request)
    except ClientError:
        return False
    return True


def _assumed(sts: Any, role: str) -> dict[str, str] | None:
    try:
        answer: dict[str, str] = sts.assume_role(RoleArn=role, RoleSessionName="tester")["Credentials"]
    except sts.exceptions.ClientError:
        return None
    return answer


def test_a_presigned_url(accounts: Secured, url: str) -> None:
    address = f"{accounts.server.url}/?Action=ListQueues&Version=2012-11-05"
    request = botocore.awsrequest.AWSRequest("GET", address)
    credentials = botocore.credentials.Credentials(*accounts.keys["ann"])
    botocore.auth.SigV4QueryAuth(credentials, "sqs", REGION, expires=60).add_auth(request)
    presigned = request.url
    with urllib.request.urlopen(presigned, timeout=10) as answer:
        assert url.encode() in answer.read()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        urllib.request.urlopen(presigned.replace("ListQueues", "PurgeQueue"), timeout=10)


@pytest.mark.slow
def test_a_key_is_replaced_without_downtime(tmp_path: Path) -> None:
    accounts = Secured(tmp_path)
    accounts.add("ann", "sqs-full-access")
    with accounts.running():
        old = accounts.client("ann")
        accounts.penstock("user", "rotate", "ann", "--account", HOME, *accounts.files)
        lines = accounts.penstock("env", "ann", "--account", HOME, *accounts.files).splitlines()
        new_key, new_secret = (line.partition("=")[2].strip("'") for line in lines[:2])
        accounts.keys["ann"] = (new_key, new_secret)
        new = accounts.client("ann")
        until(lambda: _works(new), "the server took up the new key")
        assert _works(old), "both keys are good"
        accounts.penstock("user", "rotate", "ann", "--account", HOME, "--finish", *accounts.files)
        until(lambda: not _works(old), "the old key is gone")
        assert _works(new)


def _works(sqs: Any) -> bool:
    try:
        sqs.list_queues()
    except sqs.exceptions.ClientError:
        return False
    return True


def test_the_audit_log_records_callers_and_no_messages(tmp_path: Path) -> None:
    accounts = Secured(tmp_path)
    accounts.add("ann", "sqs-full-access")
    accounts.add("bob")
    with accounts.running() as server:
        ann = accounts.client("ann")
        url = ann.create_queue(QueueName="orders")["QueueUrl"]
        ann.send_message(QueueUrl=url, MessageBody="top-secret-body")
        ann.list_queues()
        refusal(accounts.client("bob").delete_queue, QueueUrl=url)
        refusal(accounts.client("ann", aws_secret_access_key="wrong").list_queues)
        ann.delete_queue(QueueUrl=url)
        assert server.stop() == 0
        events = [event for event in accounts.audit_log if event["eventSource"] == "sqs.amazonaws.com"]
        recorded = [
            (
                event["eventName"],
                event["userIdentity"].get("userName"),
                event["additionalEventData"]["decision"],
                event.get("errorCode"),
            )
            for event in events
        ]
        assert recorded == [
            ("CreateQueue", "ann", "allowed", None),
            ("DeleteQueue", "bob", "denied", "AccessDenied"),
            ("ListQueues", None, "denied", "SignatureDoesNotMatch"),
            ("DeleteQueue", "ann", "allowed", None),
        ]
        assert {event["sourceIPAddress"] for event in events} == {"127.0.0.1"}
        assert events[0]["additionalEventData"]["statement"]
        text = (accounts.folder / "data/audit/audit.jsonl").read_text()
        assert "top-secret-body" not in text and accounts.keys["ann"][1] not in text
