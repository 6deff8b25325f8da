"""Authorization of every action of SQS on a secured server."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from penstock.auth.policy import compile_policy
from penstock.auth.principal import ANONYMOUS, Principal
from penstock.names import QueueName, Space
from penstock.queues.settings import QueueSettings, Redrive
from penstock.services.sqs import ACTIONS

HERE, THERE = "123456789012", "999999999999"
REGION = "eu-west-1"
URL = f"http://localhost:9324/{HERE}/orders"
ARN = f"arn:aws:sqs:{REGION}:{HERE}:orders"
DEAD_ARN = f"arn:aws:sqs:{REGION}:{HERE}:dead"
HANDLE = base64.b64encode(json.dumps({"taskId": "task-0", "sourceArn": DEAD_ARN}).encode()).decode()

REQUESTS: dict[str, dict[str, Any]] = {
    "AddPermission": {"QueueUrl": URL, "Label": "l", "Actions": ["SendMessage"], "AWSAccountIds": [THERE]},
    "CancelMessageMoveTask": {"TaskHandle": HANDLE},
    "ChangeMessageVisibility": {"QueueUrl": URL, "ReceiptHandle": "h", "VisibilityTimeout": 1},
    "ChangeMessageVisibilityBatch": {
        "QueueUrl": URL,
        "Entries": [{"Id": "a", "ReceiptHandle": "h", "VisibilityTimeout": 1}],
    },
    "CreateQueue": {"QueueName": "orders"},
    "DeleteMessage": {"QueueUrl": URL, "ReceiptHandle": "h"},
    "DeleteMessageBatch": {"QueueUrl": URL, "Entries": [{"Id": "a", "ReceiptHandle": "h"}]},
    "DeleteQueue": {"QueueUrl": URL},
    "GetQueueAttributes": {"QueueUrl": URL, "AttributeNames": ["All"]},
    "GetQueueUrl": {"QueueName": "orders"},
    "ListDeadLetterSourceQueues": {"QueueUrl": URL},
    "ListMessageMoveTasks": {"SourceArn": DEAD_ARN},
    "ListQueueTags": {"QueueUrl": URL},
    "ListQueues": {},
    "PurgeQueue": {"QueueUrl": URL},
    "ReceiveMessage": {"QueueUrl": URL},
    "RemovePermission": {"QueueUrl": URL, "Label": "first"},
    "SendMessage": {"QueueUrl": URL, "MessageBody": "x"},
    "SendMessageBatch": {"QueueUrl": URL, "Entries": [{"Id": "a", "MessageBody": "x"}]},
    "SetQueueAttributes": {"QueueUrl": URL, "Attributes": {"DelaySeconds": "1"}},
    "StartMessageMoveTask": {"SourceArn": DEAD_ARN},
    "TagQueue": {"QueueUrl": URL, "Tags": {"a": "b"}},
    "UntagQueue": {"QueueUrl": URL, "TagKeys": ["a"]},
}
NEEDS = {
    name: {
        "SendMessageBatch": ["sqs:SendMessage"],
        "DeleteMessageBatch": ["sqs:DeleteMessage"],
        "ChangeMessageVisibilityBatch": ["sqs:ChangeMessageVisibility"],
        "StartMessageMoveTask": ["sqs:StartMessageMoveTask", "sqs:ReceiveMessage", "sqs:DeleteMessage",
                                 "sqs:GetQueueAttributes", "sqs:SendMessage"],
        "CancelMessageMoveTask": ["sqs:CancelMessageMoveTask", "sqs:ReceiveMessage", "sqs:DeleteMessage",
                                  "sqs:GetQueueAttributes"],
        "ListMessageMoveTasks": ["sqs:ListMessageMoveTasks", "sqs:ReceiveMessage", "sqs:DeleteMessage",
                                 "sqs:GetQueueAttributes"],
    }.get(name, [f"sqs:{name}"])
    for name in ACTIONS
}  # fmt: skip
OWNER_ONLY = {
    "AddPermission", "CancelMessageMoveTask", "CreateQueue", "DeleteQueue", "ListMessageMoveTasks", "ListQueueTags",
    "ListQueues", "RemovePermission", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
}  # fmt: skip


def policy(actions: list[str], resource: str = "*", effect: str = "Allow", **more: Any) -> str:
    statement = {"Sid": "S", "Effect": effect, "Action": actions, "Resource": resource, **more}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def user(*policies: str, account: str = HERE) -> Principal:
    return Principal(
        kind="user", account=account, arn=f"arn:aws:iam::{account}:user/ann", id="AIDAANN", name="ann",
        policies=tuple(compile_policy(text, kind="identity") for text in policies),
    )  # fmt: skip


def root(account: str = HERE) -> Principal:
    return Principal(kind="root", account=account, arn=f"arn:aws:iam::{account}:root", id=account)


def settings(**given: Any) -> QueueSettings:
    return QueueSettings(redrive=Redrive(QueueName(HERE, REGION, "dead"), 3), **given)


@pytest.fixture
def secured(sqs: Any) -> Any:
    sqs.make("dead")
    sqs.make("orders")
    first = policy(["sqs:SendMessage"], ARN, Principal={"AWS": HERE}).replace('"S"', '"first"')
    queue = sqs.broker.queues[QueueName(HERE, REGION, "orders")]
    queue.settings = settings(policy=first)
    sqs.broker.tasks.clear()
    return sqs


def with_policy(sqs: Any, text: str | None) -> None:
    sqs.broker.queues[QueueName(HERE, REGION, "orders")].settings = settings(policy=text)


def from_there(sqs: Any, principal: Principal) -> None:
    sqs.principal, sqs.space = principal, Space(THERE, REGION)


def test_every_action_is_in_the_table() -> None:
    assert set(REQUESTS) == set(ACTIONS)


@pytest.mark.parametrize("action", ACTIONS)
def test_no_action_is_allowed_without_a_policy(secured: Any, action: str) -> None:
    secured.principal = user()
    reply = secured(action, **REQUESTS[action])
    assert (reply.status, reply.code) == (403, "AccessDenied")
    assert "User: arn:aws:iam::123456789012:user/ann is not authorized to perform: sqs:" in reply.message
    assert secured.broker.sent == [] and secured.broker.asked == {}


@pytest.mark.parametrize("action", ACTIONS)
def test_an_action_is_allowed_by_exactly_its_permissions(secured: Any, action: str) -> None:
    if action == "CancelMessageMoveTask":
        secured("StartMessageMoveTask", **REQUESTS["StartMessageMoveTask"])
    secured.principal = user(policy(NEEDS[action]))
    reply = secured(action, **REQUESTS[action])
    assert reply.status == 200, reply.body


@pytest.mark.parametrize("action, missing", [(action, each) for action in ACTIONS for each in NEEDS[action]])
def test_each_permission_is_needed(secured: Any, action: str, missing: str) -> None:
    secured.principal = user(policy(["sqs:*"]), policy([missing], effect="Deny"))
    reply = secured(action, **REQUESTS[action])
    assert reply.code == "AccessDenied"
    assert reply.message.endswith("with an explicit deny in an identity-based policy")


@pytest.mark.parametrize("action", ACTIONS)
def test_root_of_the_account_may_do_everything(secured: Any, action: str) -> None:
    if action == "CancelMessageMoveTask":
        secured("StartMessageMoveTask", **REQUESTS["StartMessageMoveTask"])
    secured.principal = root()
    assert secured(action, **REQUESTS[action]).status == 200


@pytest.mark.parametrize("action", sorted(set(ACTIONS) - OWNER_ONLY))
def test_another_account_needs_both_sides(secured: Any, action: str) -> None:
    request = REQUESTS[action]
    if action == "GetQueueUrl":
        request = {"QueueName": "orders", "QueueOwnerAWSAccountId": HERE}
    refused = "AWS.SimpleQueueService.NonExistentQueue" if action == "GetQueueUrl" else "AccessDenied"
    granted = policy(["sqs:*"], ARN, Principal={"AWS": THERE})
    from_there(secured, user(policy(["sqs:*"]), account=THERE))
    with_policy(secured, None)
    assert secured(action, **request).code == refused
    with_policy(secured, granted)
    assert secured(action, **request).status == 200
    secured.principal = user(account=THERE)
    assert secured(action, **request).code == refused


@pytest.mark.parametrize("action", sorted(OWNER_ONLY - {"CreateQueue", "ListQueues"}))
def test_owner_only_actions_never_cross_accounts(secured: Any, action: str) -> None:
    from_there(secured, user(policy(["sqs:*"]), account=THERE))
    with_policy(secured, policy(["sqs:*"], "*", Principal="*"))
    reply = secured(action, **REQUESTS[action])
    assert reply.status in (403, 404) and reply.code in ("AccessDenied", "ResourceNotFoundException")


def test_queues_are_created_and_listed_in_the_callers_own_account(secured: Any) -> None:
    from_there(secured, user(policy(["sqs:*"]), account=THERE))
    assert secured("CreateQueue", QueueName="orders").body["QueueUrl"].endswith(f"/{THERE}/orders")
    assert secured("ListQueues").body["QueueUrls"] == [f"http://localhost:9324/{THERE}/orders"]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent", None),
        ("orders", None),
        ("orders", policy(["sqs:*"], "*", effect="Deny", Principal="*")),
        ("orders", policy(["sqs:*"], "*", Principal={"AWS": HERE})),
    ],
    ids=["absent", "without a policy", "denied", "allowed to others"],
)
def test_another_account_does_not_learn_whether_a_queue_exists(
    secured: Any, name: str, text: str | None
) -> None:
    from_there(secured, user(policy(["sqs:*"]), account=THERE))
    with_policy(secured, text)
    reply = secured("SendMessage", QueueUrl=f"http://localhost:9324/{HERE}/{name}", MessageBody="x")
    assert reply.code == "AccessDenied"
    assert reply.message.replace(name, "NAME") == (
        f"User: arn:aws:iam::{THERE}:user/ann is not authorized to perform: sqs:sendmessage on resource: "
        f"arn:aws:sqs:{REGION}:{HERE}:NAME because no resource-based policy allows the sqs:sendmessage action"
    )
    reply = secured("GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId=HERE)
    assert reply.message == "The specified queue does not exist or you do not have access to it."


def test_another_account_without_permission_does_not_learn_what_a_policy_grants(secured: Any) -> None:
    from_there(secured, user(account=THERE))
    messages = set()
    for text in (None, policy(["sqs:*"], ARN, Principal={"AWS": THERE})):
        with_policy(secured, text)
        messages.add(secured("SendMessage", **REQUESTS["SendMessage"]).message)
    assert len(messages) == 1


def test_a_caller_without_permission_does_not_learn_whether_a_queue_exists(secured: Any) -> None:
    secured.principal = user()
    assert secured("SendMessage", QueueUrl="absent", MessageBody="x").code == "AccessDenied"
    secured.principal = user(policy(["sqs:SendMessage"]))
    absent = secured("SendMessage", QueueUrl="absent", MessageBody="x")
    assert absent.code == "AWS.SimpleQueueService.NonExistentQueue"


def test_anonymous_callers_need_a_policy_for_everyone(secured: Any) -> None:
    secured.principal = ANONYMOUS
    reply = secured("SendMessage", **REQUESTS["SendMessage"])
    assert (reply.status, *reply.error) == (
        403, "AccessDenied", "Access to the resource http://localhost:9324/ is denied.",
    )  # fmt: skip
    with_policy(secured, policy(["sqs:SendMessage"], ARN, Principal="*"))
    assert secured("SendMessage", **REQUESTS["SendMessage"]).status == 200
    assert secured("ReceiveMessage", **REQUESTS["ReceiveMessage"]).code == "AccessDenied"


def test_root_repairs_a_policy_that_denies_everyone(secured: Any) -> None:
    secured.principal = root()
    with_policy(secured, policy(["sqs:*"], ARN, effect="Deny", Principal="*"))
    assert secured("SendMessage", **REQUESTS["SendMessage"]).code == "AccessDenied"
    assert secured("SetQueueAttributes", QueueUrl=URL, Attributes={"Policy": ""}).status == 200
    assert secured("SendMessage", **REQUESTS["SendMessage"]).status == 200


def test_a_policy_that_cannot_be_read_denies_all_access(secured: Any) -> None:
    with_policy(
        secured, '{"Statement":{"Effect":"Allow","Principal":"*","Action":"x","Condition":{"No":{}}}}'
    )
    secured.principal = user(policy(["sqs:*"]))
    assert secured("SendMessage", **REQUESTS["SendMessage"]).code == "AccessDenied"
    secured.principal = root()
    assert secured("SetQueueAttributes", QueueUrl=URL, Attributes={"Policy": ""}).status == 200


def test_conditions_compare_tags_of_the_request_and_of_the_queue(secured: Any) -> None:
    team = {"StringEquals": {"aws:RequestTag/team": "blue"}}
    secured.principal = user(policy(["sqs:TagQueue", "sqs:CreateQueue"], Condition=team))
    assert secured("TagQueue", QueueUrl=URL, Tags={"team": "red"}).code == "AccessDenied"
    assert secured("TagQueue", QueueUrl=URL, Tags={"team": "blue"}).status == 200
    assert secured("CreateQueue", QueueName="new", tags={"team": "red"}).code == "AccessDenied"
    assert secured("CreateQueue", QueueName="new", tags={"team": "blue"}).status == 200
    mine = {"StringEquals": {"aws:ResourceTag/team": "blue"}}
    secured.principal = user(policy(["sqs:SendMessage"], Condition=mine))
    assert secured("SendMessage", **REQUESTS["SendMessage"]).status == 200
    assert secured("SendMessage", QueueUrl="dead", MessageBody="x").code == "AccessDenied"
    keys = {"ForAllValues:StringEquals": {"aws:TagKeys": ["colour"]}}
    secured.principal = user(policy(["sqs:UntagQueue"], Condition=keys))
    assert secured("UntagQueue", QueueUrl=URL, TagKeys=["team"]).code == "AccessDenied"
    assert secured("UntagQueue", QueueUrl=URL, TagKeys=["colour"]).status == 200


def test_creating_a_queue_with_tags_needs_permission_to_tag(secured: Any) -> None:
    secured.principal = user(policy(["sqs:CreateQueue"]))
    assert secured("CreateQueue", QueueName="bare").status == 200
    reply = secured("CreateQueue", QueueName="tagged", tags={"a": "b"})
    assert reply.code == "AccessDenied" and "sqs:tagqueue" in reply.message


def test_a_move_task_needs_permission_to_send_to_its_destination(secured: Any) -> None:
    secured.make("elsewhere")
    elsewhere = f"arn:aws:sqs:{REGION}:{HERE}:elsewhere"
    secured.principal = user(policy(["sqs:*"], DEAD_ARN), policy(["sqs:SendMessage"], ARN))
    reply = secured("StartMessageMoveTask", SourceArn=DEAD_ARN, DestinationArn=elsewhere)
    assert reply.code == "AccessDenied" and f"sqs:sendmessage on resource: {elsewhere}" in reply.message
    assert secured("StartMessageMoveTask", SourceArn=DEAD_ARN).status == 200


def test_a_move_task_returns_messages_only_to_queues_that_its_caller_may_send_to(secured: Any) -> None:
    move = REQUESTS["StartMessageMoveTask"]
    secured.principal = user(policy(["sqs:*"], DEAD_ARN), policy(["sqs:SendMessage"], ARN))
    assert secured("StartMessageMoveTask", **move).status == 200
    assert secured.broker.tasks[0].only_to == {QueueName(HERE, REGION, "orders")}
    secured.principal = None
    assert secured("StartMessageMoveTask", **move).status == 200
    assert secured.broker.tasks[0].only_to is None, "an open server checks no permission"


def test_a_condition_on_a_tag_cannot_be_avoided_by_another_case(secured: Any) -> None:
    bad = {"StringEquals": {"aws:RequestTag/x": "bad"}}
    secured.principal = user(policy(["sqs:*"]), policy(["sqs:TagQueue"], effect="Deny", Condition=bad))
    for tags in ({"x": "bad"}, {"X": "bad"}):
        assert secured("TagQueue", QueueUrl=URL, Tags=tags).code == "AccessDenied"
    for _ in range(2):
        assert secured("TagQueue", QueueUrl=URL, Tags={"x": "good", "X": "bad"}).code == "AccessDenied"
    needed = {"StringEquals": {"aws:RequestTag/x": "good"}}
    secured.principal = user(policy(["sqs:TagQueue"], Condition=needed))
    assert secured("TagQueue", QueueUrl=URL, Tags={"x": "good", "X": "bad"}).code == "AccessDenied"
    assert secured("TagQueue", QueueUrl=URL, Tags={"x": "good"}).status == 200


def test_tag_keys_may_differ_only_in_case(secured: Any) -> None:
    for number, principal in enumerate((None, root(), user(policy(["sqs:*"])))):
        secured.principal = principal
        assert secured("TagQueue", QueueUrl=URL, Tags={"MyTag": "1", "mytag": "2"}).status == 200
        assert secured("TagQueue", QueueUrl=URL, Tags={"other": "1"}).status == 200
        assert secured("TagQueue", QueueUrl=URL, Tags={"MyTag": "1", "mytag": "3"}).status == 200
        tags = {"MyTag": "1", "mytag": "2"}
        assert secured("CreateQueue", QueueName=f"q{number}", tags=tags).status == 200


def test_a_cached_verdict_depends_on_caller_action_queue_and_policy(secured: Any) -> None:
    ann = secured.principal = user(policy(["sqs:*"]))
    with_policy(secured, None)
    send = {"QueueUrl": URL, "MessageBody": "x"}
    assert secured("SendMessage", **send).status == secured("SendMessage", **send).status == 200
    with_policy(secured, policy(["sqs:SendMessage"], ARN, effect="Deny", Principal="*"))
    assert secured("SendMessage", **send).code == "AccessDenied"
    with_policy(secured, None)
    secured.principal = user()
    assert secured("SendMessage", **send).code == "AccessDenied"
    secured.principal = ann
    assert secured("SendMessage", **send).status == 200
    assert secured("SendMessage", QueueUrl="dead", MessageBody="x").status == 200
    daytime = {"DateLessThan": {"aws:CurrentTime": "2000-01-01T00:00:00Z"}}
    secured.principal = user(policy(["sqs:SendMessage"], Condition=daytime))
    assert secured("SendMessage", **send).code == "AccessDenied"
    local = {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}
    secured.principal = user(policy(["sqs:SendMessage"]), policy(["sqs:*"], effect="Deny", Condition=local))
    assert secured("SendMessage", **send).status == 200
    secured.source_ip = "10.1.2.3"
    assert secured("SendMessage", **send).code == "AccessDenied"
