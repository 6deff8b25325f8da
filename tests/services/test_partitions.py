"""ARNs of regions in China, of GovCloud and others have a partition of their own, in all services."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from penstock.auth.encryption.keyring import key_arn
from penstock.auth.identity import Credentials
from penstock.auth.identity.admin import trust_document
from penstock.auth.policy import Question, compile_policy, decide
from penstock.names import PARTITIONS, QueueName, Space, in_partition, partition_of, without_partition
from penstock.testing import Broker
from services.sts_client import Sts, assume
from support.identities import ABROAD, HOME, ROOT_KEY, Accounts, allow, document

REGIONS = {
    "us-east-1": "aws",
    "eu-west-1": "aws",
    "elsewhere": "aws",
    "cn-north-1": "aws-cn",
    "cn-northwest-1": "aws-cn",
    "us-gov-west-1": "aws-us-gov",
    "us-iso-east-1": "aws-iso",
    "us-isob-east-1": "aws-iso-b",
    "eu-isoe-west-1": "aws-iso-e",
    "us-isof-south-1": "aws-iso-f",
    "eusc-de-east-1": "aws-eusc",
}
ACCOUNT = "123456789012"
_session = boto3.session.Session()
_ARN = re.compile(r"arn:[A-Za-z-]+:[a-z]+:[^\"\s<>,]*")


def test_the_partition_follows_from_the_region() -> None:
    assert {region: partition_of(region) for region in REGIONS} == REGIONS
    for partition in _session.get_available_partitions():
        for region in _session.get_available_regions("sqs", partition):
            assert partition_of(region) == partition, region


def test_identities_are_the_same_in_every_partition() -> None:
    for partition in PARTITIONS:
        arn = f"arn:{partition}:iam::{ACCOUNT}:user/a:b"
        assert without_partition(arn) == f"iam::{ACCOUNT}:user/a:b"
        assert in_partition("aws-cn", arn) == f"arn:aws-cn:iam::{ACCOUNT}:user/a:b"
    for text in (
        "*",
        ACCOUNT,
        "sns.amazonaws.com",
        "arn:other:iam::1:root",
        "arn:aws",
        "https://a:1/arn:aws:x",
        "",
    ):
        assert without_partition(text) == text


@pytest.fixture(scope="module")
def broker() -> Any:
    with Broker() as broker:
        yield broker


def client_of(broker: Any, service: str, region: str) -> Any:
    return _session.client(
        service, endpoint_url=broker.url, region_name=region, aws_access_key_id=ACCOUNT,
        aws_secret_access_key="any", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip


def test_every_service_has_the_partition_of_the_region(broker: Any) -> None:
    wrong = []
    for region, partition in REGIONS.items():
        sqs, cloudwatch, sts = (client_of(broker, each, region) for each in ("sqs", "cloudwatch", "sts"))
        dead, url = (sqs.create_queue(QueueName=name)["QueueUrl"] for name in ("dead", "jobs"))
        arn = f"arn:{partition}:sqs:{region}:{ACCOUNT}:"
        redrive = {"deadLetterTargetArn": f"{arn}dead", "maxReceiveCount": "1"}
        sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(redrive)})
        allowed = {"redrivePermission": "byQueue", "sourceQueueArns": [f"{arn}jobs"]}
        sqs.set_queue_attributes(QueueUrl=dead, Attributes={"RedriveAllowPolicy": json.dumps(allowed)})
        sqs.add_permission(QueueUrl=url, Label="L", AWSAccountIds=[ABROAD], Actions=["SendMessage"])
        sqs.send_message(QueueUrl=url, MessageBody="x")
        for _ in range(2):
            sqs.receive_message(QueueUrl=url, VisibilityTimeout=0)
        cloudwatch.put_metric_alarm(
            AlarmName="a", Namespace="n", MetricName="m", Period=60, EvaluationPeriods=1, Threshold=1.0,
            Statistic="Sum", ComparisonOperator="GreaterThanThreshold", AlarmActions=[f"{arn}jobs"],
        )  # fmt: skip
        alarm = f"arn:{partition}:cloudwatch:{region}:{ACCOUNT}:alarm:a"
        cloudwatch.put_composite_alarm(AlarmName="c", AlarmRule=f'ALARM("{alarm}")')
        cloudwatch.put_dashboard(DashboardName="d", DashboardBody='{"widgets":[]}')
        cloudwatch.tag_resource(ResourceARN=alarm, Tags=[{"Key": "k", "Value": "v"}])
        (dashboard,) = cloudwatch.list_dashboards()["DashboardEntries"]
        cloudwatch.tag_resource(ResourceARN=dashboard["DashboardArn"], Tags=[{"Key": "k", "Value": "v"}])
        role = f"arn:{partition}:iam::{ACCOUNT}:role/r"
        shown = [
            sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"]),
            sqs.receive_message(QueueUrl=dead, MessageSystemAttributeNames=["All"])["Messages"],
            sqs.start_message_move_task(SourceArn=f"{arn}dead"),
            sqs.list_message_move_tasks(SourceArn=f"{arn}dead"),
            cloudwatch.describe_alarms(AlarmTypes=["MetricAlarm", "CompositeAlarm"]),
            cloudwatch.get_dashboard(DashboardName="d"),
            dashboard,
            sts.get_caller_identity(),
            sts.assume_role(RoleArn=role, RoleSessionName="job")["AssumedRoleUser"],
        ]
        for answer in shown:
            found = _ARN.findall(json.dumps(answer, default=str).replace("\\", ""))
            handle = answer.get("TaskHandle") if isinstance(answer, dict) else None
            if not (found or handle) or any(each.split(":")[1] != partition for each in found):
                wrong.append((region, answer))
    assert not wrong


def test_an_arn_names_the_same_queue_in_whatever_partition(broker: Any) -> None:
    """Scripts that were written for another partition, or for an earlier release, go on."""
    sqs = client_of(broker, "sqs", "cn-north-1")
    url = sqs.create_queue(QueueName="old")["QueueUrl"]
    sqs.create_queue(QueueName="old-dead")
    target = f"arn:aws:sqs:cn-north-1:{ACCOUNT}:old-dead"
    policy = json.dumps({"deadLetterTargetArn": target, "maxReceiveCount": "3"})
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": policy})
    shown = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["RedrivePolicy"])["Attributes"]
    assert json.loads(shown["RedrivePolicy"])["deadLetterTargetArn"] == target.replace("aws", "aws-cn")


# -- policies --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_policies_name_resources_with_the_partition_of_their_region(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    for region, partition in REGIONS.items():
        queue = QueueName(HOME, region, "orders").arn
        for written in PARTITIONS:
            name = f"{region}-{written}"
            resource = f"arn:{written}:sqs:{region}:{HOME}:*"
            accounts.user(name, document(allow("sqs:*", Resource=resource)))
            verdict = decide(Question(accounts.principal(name), "sqs:SendMessage", queue, HOME))
            assert verdict.allowed == (written == partition), (region, written)


def test_policies_name_accounts_users_and_roles_in_any_partition(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    accounts.user("alice")
    alice = accounts.principal("alice")
    queue = QueueName(ABROAD, "cn-north-1", "orders")
    for partition in (*PARTITIONS, "other"):
        named = f"arn:{partition}:iam::{HOME}:user/alice"
        for element in ("Principal", "NotPrincipal"):
            names = {"AWS": [named, f"arn:{partition}:iam::{HOME}:root"]}
            statement = {"Effect": "Deny", element: names, "Action": "sqs:*", "Resource": queue.arn}
            policy = compile_policy(document(statement), kind="resource")
            question = Question(alice, "sqs:SendMessage", queue.arn, ABROAD, policy)
            is_denied = policy.statements[0].level(question) > 0
            assert is_denied == ((partition in PARTITIONS) == (element == "Principal")), (partition, element)


def test_identities_have_the_partition_of_the_server_however_they_are_named(tmp_path: Path) -> None:
    accounts = Accounts(tmp_path)
    sts = Sts(accounts)
    for partition in PARTITIONS:
        name = f"user-{partition}"
        own = f"arn:{partition}:iam::{HOME}:role/"
        denied = {"Effect": "Deny", "Action": "sts:AssumeRole", "Resource": f"{own}closed-{partition}"}
        accounts.user(name, document(denied))
        for role in ("open", "closed"):
            accounts.role(f"{role}-{partition}", trust_document([name], HOME, None))
        id_before = accounts.principal(name).id
        accounts.credentials = Credentials(accounts.path, ROOT_KEY, accounts.clock, partition)
        sts = Sts(accounts)
        who = accounts.principal(name)
        assert who.arn == f"arn:{partition}:iam::{HOME}:user/{name}"
        assert who.id == id_before, "sessions and senders stay what they are"
        assert sts(who, "GetCallerIdentity")["Arn"] == who.arn
        for given in PARTITIONS:
            reply = sts(who, "AssumeRole", **assume(f"arn:{given}:iam::{HOME}:role/open-{partition}"))
            session = sts.principal(reply)
            assert reply["AssumedRoleUser"]["Arn"] == session.arn
            assert session.arn.startswith(f"arn:{partition}:sts::{HOME}:assumed-role/open-")
            assert session.role_arn == f"{own}open-{partition}"
            closed = sts.refused(
                who, "AssumeRole", **assume(f"arn:{given}:iam::{HOME}:role/closed-{partition}")
            )
            assert closed[1] == "AccessDenied", "a deny is not evaded by another name of the role"
        refused = sts.refused(who, "AssumeRole", **assume(f"arn:other:iam::{HOME}:role/open-{partition}"))
        assert refused[1] == "ValidationError"


def test_keys_have_the_partition_of_their_region() -> None:
    for region, partition in REGIONS.items():
        assert key_arn(Space(HOME, region), "key/k") == f"arn:{partition}:kms:{region}:{HOME}:key/k"
