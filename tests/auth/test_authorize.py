"""Authorization of calls: service principals, cached verdicts, and what is recorded for the audit log."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from penstock.auth import authorize as module
from penstock.auth.authorize import (
    AccessDenied,
    Resource,
    authorize,
    authorize_send,
    may_send,
    policy_that_allows,
)
from penstock.auth.policy import Question, Verdict, compile_policy, decide
from penstock.auth.policy.vocabulary import builtin_policies
from penstock.auth.principal import ANONYMOUS, Principal, service_principal
from penstock.names import Space
from penstock.services.admin import ACTIONS as ADMIN_ACTIONS
from penstock.services.cloudwatch import ACTIONS as CLOUDWATCH_ACTIONS
from penstock.services.sqs import ACTIONS
from penstock.wire.service import Call

ACCOUNT = "123456789012"
ARN = f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders"
TOPIC = f"arn:aws:sns:us-east-1:{ACCOUNT}:news"
SNS = service_principal("sns.amazonaws.com")
SEND = ACTIONS["SendMessage"]


class Queue(msgspec.Struct):
    policy: str | None = None
    arn: str = ARN
    account: str = ACCOUNT
    tags: Mapping[str, str] = {}
    request_tags: Mapping[str, str] = {}
    tag_keys: tuple[str, ...] = ()
    keys: Mapping[str, str] = {}


def call(principal: Principal | None, **members: Any) -> Call:
    return Call(
        request_id="r",
        space=Space(ACCOUNT, "us-east-1"),
        sender="s",
        base_url="http://h",
        principal=principal,
        **members,
    )


def statement(principal: Any, effect: str = "Allow", **parts: Any) -> dict[str, Any]:
    return {"Effect": effect, "Principal": principal, "Action": "sqs:SendMessage", "Resource": ARN, **parts}


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


def is_allowed(caller: Call, queue: Queue, action: Any = SEND) -> bool:
    try:
        authorize(caller, action, queue)
    except AccessDenied:
        return False
    return True


FROM_TOPIC = {"ArnEquals": {"aws:SourceArn": TOPIC}}
FROM_ACCOUNT = {"StringEquals": {"aws:SourceAccount": ACCOUNT}}
BY_SERVICE = {"Bool": {"aws:PrincipalIsAWSService": "true"}}


@pytest.mark.parametrize(
    "usual",
    [
        statement({"Service": "sns.amazonaws.com"}),
        statement({"Service": ["s3.amazonaws.com", "sns.amazonaws.com"]}, Condition=FROM_TOPIC),
        statement({"Service": "sns.amazonaws.com"}, Condition={**FROM_TOPIC, **FROM_ACCOUNT}),
        statement("*", Condition=FROM_TOPIC),
        statement({"AWS": "*"}, Condition=FROM_TOPIC),
        statement("*", Condition=BY_SERVICE),
        statement("*", Condition={"StringEquals": {"aws:PrincipalServiceName": "sns.amazonaws.com"}}),
    ],
)
def test_the_usual_policies_for_topics_let_the_service_send(usual: dict[str, Any]) -> None:
    queue = Queue(policy(usual))
    assert is_allowed(call(SNS, source_arn=TOPIC, source_account=ACCOUNT), queue)
    if "Condition" in usual and usual["Condition"].keys() & FROM_TOPIC.keys():
        assert not is_allowed(call(SNS, source_arn=f"{TOPIC}2", source_account="999999999999"), queue)
    if usual["Principal"] not in ("*", {"AWS": "*"}):
        assert not is_allowed(call(service_principal("events.amazonaws.com"), source_arn=TOPIC), queue)
        assert not is_allowed(call(ANONYMOUS, source_arn=TOPIC), queue)


def test_the_audit_log_is_about_the_resource_of_the_action() -> None:
    """A task or an alarm sends to a queue, too: that queue is recorded only if it is the reason of a refusal."""
    source = Queue(policy(statement({"Service": "sns.amazonaws.com"})))
    target = Resource(f"{ARN}-target", ACCOUNT, policy({**statement("*"), "Resource": f"{ARN}-target"}))
    caller = call(SNS)
    authorize(caller, SEND, source)
    verdict = caller.verdict
    authorize_send(caller, target)
    assert (caller.resource_arn, caller.verdict) == (ARN, verdict)
    with pytest.raises(AccessDenied):
        authorize_send(caller, Resource(f"{ARN}-other", ACCOUNT))
    assert caller.resource_arn == f"{ARN}-other"
    assert not caller.verdict.allowed


def test_a_service_needs_the_policy_of_the_queue() -> None:
    assert not is_allowed(call(SNS), Queue())
    assert not is_allowed(call(SNS), Queue(policy(statement({"AWS": ACCOUNT}))))
    everything = {**statement("*"), "Action": "sqs:*"}
    assert is_allowed(call(SNS), Queue(policy(everything)))
    assert not is_allowed(call(SNS), Queue(policy(everything)), ACTIONS["DeleteQueue"]), "owner only"


def test_denies_name_services_too() -> None:
    open_to_all = statement("*")
    for deny, allowed in (
        (statement({"Service": "sns.amazonaws.com"}, "Deny"), False),
        (statement({"Service": "s3.amazonaws.com"}, "Deny"), True),
        ({**statement(None, "Deny"), "NotPrincipal": {"Service": "sns.amazonaws.com"}}, True),
        ({**statement(None, "Deny"), "NotPrincipal": {"Service": "s3.amazonaws.com"}}, False),
    ):
        if "NotPrincipal" in deny:
            del deny["Principal"]
        assert is_allowed(call(SNS), Queue(policy(open_to_all, deny))) is allowed


def test_an_account_named_like_a_service_is_not_a_service() -> None:
    user = Principal(kind="user", account="", arn="sns.amazonaws.com", id="sns.amazonaws.com")
    assert not is_allowed(call(user), Queue(policy(statement({"Service": "sns.amazonaws.com"}))))


def test_a_verdict_is_cached_only_if_it_depends_on_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Question] = []

    def counting(question: Question) -> Verdict:
        asked.append(question)
        return decide(question)

    monkeypatch.setattr(module, "decide", counting)
    text = '{"Statement":{"Effect":"Allow","Action":"sqs:*","Resource":"*"}}'
    user = Principal(
        kind="user",
        account=ACCOUNT,
        arn=f"arn:aws:iam::{ACCOUNT}:user/a",
        id="AIDA",
        policies=(compile_policy(text, kind="identity"),),
    )
    for _ in range(3):
        caller = call(user)
        authorize(caller, SEND, Queue())
        assert (caller.resource_arn, caller.verdict.allowed) == (ARN, True)
    assert len(asked) == 1
    for _ in range(3):
        authorize(call(user), SEND, Queue(policy(statement("*", Condition=FROM_TOPIC))))
    assert len(asked) == 4
    authorize(call(None), ACTIONS["DeleteQueue"], Queue())
    assert len(asked) == 4, "an open server asks no policy"


def test_a_denial_is_recorded_and_carries_what_a_service_words() -> None:
    caller = call(ANONYMOUS)
    with pytest.raises(AccessDenied) as caught:
        authorize(caller, SEND, Queue())
    assert str(caught.value) == "Access to the resource http://h/ is denied."
    assert (caller.resource_arn, caller.verdict) == (ARN, caught.value.verdict)
    assert caught.value.question.action == "sqs:SendMessage"


def test_cached_verdicts_are_bounded_by_the_bytes_of_the_policies_they_name() -> None:
    module._allowed.clear()
    for number in range(2 * module._ALLOWED_BYTES // 8000):
        text = policy(statement("*", Sid=f"{number}{'x' * 7800}"))
        assert is_allowed(call(ANONYMOUS), Queue(text))
    assert 0 < len(module._allowed) <= module._ALLOWED_BYTES // 8000


ALICE = Principal(
    kind="user", account=ACCOUNT, arn=f"arn:aws:iam::{ACCOUNT}:user/alice", id="AIDA", name="alice"
)
WORKER = Principal(
    kind="session", account=ACCOUNT, arn=f"arn:aws:sts::{ACCOUNT}:assumed-role/worker/w1", id="AROA:w1",
    role_arn=f"arn:aws:iam::{ACCOUNT}:role/worker",
)  # fmt: skip


def remedy(principal: Principal, queue: Queue | None = None) -> str | None:
    with pytest.raises(AccessDenied) as denied:
        authorize(call(principal), SEND, queue or Queue())
    return denied.value.remedy


def test_a_refusal_knows_the_command_that_would_allow_it() -> None:
    assert remedy(ALICE) == "penstock policy attach sqs-send --user alice"
    assert remedy(WORKER) == "penstock policy attach sqs-send --role worker"


def test_there_is_no_command_where_a_policy_of_the_caller_would_not_help() -> None:
    deny = compile_policy(
        '{"Statement":{"Effect":"Deny","Action":"*","Resource":"*"}}', kind="identity", name="no"
    )
    narrow = compile_policy(
        '{"Statement":{"Effect":"Allow","Action":"sqs:ListQueues","Resource":"*"}}', kind="session"
    )
    assert remedy(msgspec.structs.replace(ALICE, policies=(deny,))) is None
    assert remedy(msgspec.structs.replace(WORKER, session_policy=narrow)) is None
    assert remedy(msgspec.structs.replace(ALICE, account="9" * 12)) is None
    assert remedy(ALICE, Queue(policy(statement("*", effect="Deny")))) is None
    assert remedy(ANONYMOUS) is None


def test_the_policy_that_is_named_allows_the_action_and_least_else() -> None:
    found = {
        action: policy_that_allows(action)
        for action in (
            "sqs:GetQueueAttributes", "sqs:SendMessage", "sqs:DeleteMessage", "sqs:PurgeQueue",
            "cloudwatch:DescribeAlarms", "cloudwatch:PutMetricData", "cloudwatch:PutDashboard",
            "penstock:ListQueues", "penstock:EditMessage", "sts:AssumeRole", "iam:CreateUser",
        )
    }  # fmt: skip
    assert list(found.values()) == [
        "sqs-read-only", "sqs-send", "sqs-receive", "sqs-full-access",
        "cloudwatch-read-only", "cloudwatch-put-metrics", "cloudwatch-full-access",
        "penstock-read-only", "penstock-full-access", "assume-roles", "administrator",
    ]  # fmt: skip


def test_an_administrator_may_do_everything_in_the_own_account() -> None:
    all_allowed = compile_policy(builtin_policies()["administrator"], kind="identity", name="administrator")
    admin = msgspec.structs.replace(ALICE, policies=(all_allowed,))
    for row in (*ACTIONS.values(), *ADMIN_ACTIONS.values(), *CLOUDWATCH_ACTIONS.values()):
        assert is_allowed(call(admin), Queue(), row), row.name
    assert not is_allowed(call(msgspec.structs.replace(admin, account="9" * 12)), Queue())


OWN, OTHER = "000000000000", "999999999999"
A_TOPIC = f"arn:aws:sns:us-east-1:{OWN}:t"


def may_topic_send(condition: dict[str, Any] | None, account: str = OWN, **options: bool) -> bool:
    """``condition``: of the statement that allows it; None: there is no policy."""
    rule = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage"}
    document = {"Statement": {**rule, "Resource": "*", "Condition": condition}}
    text = None if condition is None else json.dumps(document)
    queue = Resource(f"arn:aws:sqs:us-east-1:{OWN}:q", OWN, text)
    return may_send("sns.amazonaws.com", queue, A_TOPIC, account, **options)


def test_a_service_may_send_if_the_policy_of_the_queue_allows_it() -> None:
    assert may_topic_send({"ArnEquals": {"aws:SourceArn": A_TOPIC}})
    assert not may_topic_send({"ArnEquals": {"aws:SourceArn": f"{A_TOPIC}2"}})
    assert may_topic_send({"StringEquals": {"aws:SourceAccount": OWN}})
    assert not may_topic_send({"StringEquals": {"aws:SourceAccount": OTHER}})
    assert not may_topic_send(None)


def test_no_denial_is_enough_for_a_service_only_if_that_is_asked_for_and_within_the_account() -> None:
    assert may_topic_send(None, needs_allow=False)
    assert not may_topic_send(None, OTHER, needs_allow=False)
    everyone = '{"Statement":{"Effect":"Deny","Principal":"*","Action":"*","Resource":"*"}}'
    queue = Resource(f"arn:aws:sqs:us-east-1:{OWN}:q", OWN, everyone)
    assert not may_send("sns.amazonaws.com", queue, A_TOPIC, OWN, needs_allow=False)
