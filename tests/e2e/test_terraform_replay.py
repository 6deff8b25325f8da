"""What Terraform's AWS provider does with queues, step by step through botocore; and Terraform itself, if it is here.

The provider writes, then reads until what it reads equals what it wrote several times in a row: plain attributes
as text, a Policy by what it means, redrive policies as JSON, where ``"5"`` is not ``5``. An attribute that is not
there equals ``""``. A queue that answers otherwise makes an apply hang, or shows a difference at every plan.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.exceptions import ClientError

from support.process import ServerProcess
from support.secured import client

IN_A_ROW = 6  # so often the provider wants to see what it wrote
GONE_IN_A_ROW = 15
MISSING = "AWS.SimpleQueueService.NonExistentQueue"

# What the provider sends for a queue that says nothing but its name. Booleans only if they are true.
DEFAULTS = {
    "DelaySeconds": "0",
    "MaximumMessageSize": "262144",
    "MessageRetentionPeriod": "345600",
    "ReceiveMessageWaitTimeSeconds": "0",
    "VisibilityTimeout": "30",
}
_DOCUMENTS = ("RedrivePolicy", "RedriveAllowPolicy")


class Resource:
    """One aws_sqs_queue, with the resources that hold its policies."""

    def __init__(self, sqs: Any, name: str, **attributes: str) -> None:
        self._sqs = sqs
        self.name = name
        self.wanted = {**DEFAULTS, **attributes}
        self.tags = {"team": "shop", "managed by": "terraform"}

    def create(self) -> None:
        made = self._sqs.create_queue(QueueName=self.name, Attributes=self.wanted, tags=self.tags)
        self.url: str = made["QueueUrl"]
        self.wait_until_equal(self.wanted)

    def change(self, **attributes: str) -> None:
        self._sqs.set_queue_attributes(QueueUrl=self.url, Attributes=attributes)
        self.wanted |= attributes
        self.wait_until_equal(attributes)

    def wait_until_equal(self, wanted: dict[str, str]) -> None:
        """The provider sleeps in between and forgives a difference. Here every read is right, from the first on."""
        for _ in range(IN_A_ROW):
            read = self.attributes()
            for name, value in wanted.items():
                assert equal(name, read.get(name, ""), value), (name, read.get(name), value)

    def attributes(self) -> dict[str, str]:
        answer = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=["All"])
        attributes: dict[str, str] = answer["Attributes"]
        return attributes

    @property
    def arn(self) -> str:
        return self.attributes()["QueueArn"]

    def differences(self) -> list[str]:
        """A plan: read it all, and compare with what is wanted."""
        read = self.attributes()
        tags = self._sqs.list_queue_tags(QueueUrl=self.url).get("Tags", {})
        wrong = [name for name, value in self.wanted.items() if not equal(name, read.get(name, ""), value)]
        return wrong if tags == self.tags else [*wrong, "tags"]

    def destroy(self) -> None:
        self._sqs.delete_queue(QueueUrl=self.url)
        for _ in range(GONE_IN_A_ROW):
            with pytest.raises(ClientError) as caught:
                self.attributes()
            assert caught.value.response["Error"]["Code"] == MISSING


def equal(name: str, read: str, wanted: str) -> bool:
    if name == "Policy":
        return bool(meaning(read) == meaning(wanted))
    if name in _DOCUMENTS and read and wanted:
        return bool(json.loads(read) == json.loads(wanted))
    return read == wanted


def meaning(policy: str) -> Any:
    """Returns what a policy means: neither the order of keys nor a list of one entry changes that."""
    if not policy:
        return None

    def settled(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: settled(each) for key, each in value.items()}
        if isinstance(value, list):
            return settled(value[0]) if len(value) == 1 else [settled(each) for each in value]
        return value

    return settled(json.loads(policy))


def policy_of(arn: str) -> str:
    statement = {
        "Sid": "senders",
        "Effect": "Allow",
        "Principal": "*",
        "Action": "sqs:SendMessage",
        "Resource": arn,
        "Condition": {"ArnEquals": {"aws:SourceArn": "arn:aws:sns:us-east-1:111122223333:topic"}},
    }
    return json.dumps({"Statement": [statement], "Version": "2012-10-17"}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("plain", {}),
        ("waiting", {"ReceiveMessageWaitTimeSeconds": "1", "DelaySeconds": "90", "VisibilityTimeout": "0"}),
        ("small", {"MaximumMessageSize": "1024", "MessageRetentionPeriod": "60"}),
        ("large", {"MaximumMessageSize": "1048576", "MessageRetentionPeriod": "1209600"}),
        ("managed", {"SqsManagedSseEnabled": "true"}),
        ("open", {"SqsManagedSseEnabled": "false"}),
        ("kms", {"KmsMasterKeyId": "alias/aws/sqs", "KmsDataKeyReusePeriodSeconds": "300"}),
        ("kms-default-period", {"KmsMasterKeyId": "alias/aws/sqs", "KmsDataKeyReusePeriodSeconds": "60"}),
        ("a.fifo", {"FifoQueue": "true"}),
        ("b.fifo", {"FifoQueue": "true", "ContentBasedDeduplication": "true"}),
        (
            "c.fifo",
            {
                "FifoQueue": "true",
                "DeduplicationScope": "messageGroup",
                "FifoThroughputLimit": "perMessageGroupId",
            },
        ),
    ],
)
def test_a_queue_is_read_as_it_was_written(sqs: Any, name: str, attributes: dict[str, str]) -> None:
    queue = Resource(sqs, name, **attributes)
    queue.create()
    assert queue.differences() == []
    queue.destroy()


def test_a_second_apply_changes_nothing(sqs: Any) -> None:
    """All four kinds of resources together."""
    dead, orders = Resource(sqs, "orders-dead"), Resource(sqs, "orders", ReceiveMessageWaitTimeSeconds="1")
    dead.create()
    orders.create()
    allow = {"redrivePermission": "byQueue", "sourceQueueArns": [orders.arn]}
    orders.change(Policy=policy_of(orders.arn))
    orders.change(RedrivePolicy=json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 4}))
    dead.change(RedriveAllowPolicy=json.dumps(allow))
    assert dead.differences() == orders.differences() == []

    # Once more, as if the state had been lost: CreateQueue with the same attributes is the same queue.
    again = Resource(sqs, "orders", **{name: orders.wanted[name] for name in ("RedrivePolicy", "Policy")})
    again.wanted["ReceiveMessageWaitTimeSeconds"] = "1"
    again.create()
    assert again.url == orders.url
    assert again.differences() == []


def test_the_same_name_with_other_attributes_is_refused(sqs: Any) -> None:
    Resource(sqs, "orders").create()
    with pytest.raises(ClientError) as caught:
        Resource(sqs, "orders", VisibilityTimeout="31").create()
    assert caught.value.response["Error"]["Code"] in ("QueueAlreadyExists", "QueueNameExists")


def test_changes_are_read_at_once(sqs: Any) -> None:
    queue = Resource(sqs, "orders")
    queue.create()
    queue.change(VisibilityTimeout="60", DelaySeconds="5", MessageRetentionPeriod="86400")
    queue.change(KmsMasterKeyId="alias/mine", KmsDataKeyReusePeriodSeconds="600")
    queue.change(KmsMasterKeyId="")
    assert "KmsMasterKeyId" not in queue.attributes()
    queue.change(SqsManagedSseEnabled="true")


def test_policies_are_taken_away_with_an_empty_text(sqs: Any) -> None:
    dead, orders = Resource(sqs, "orders-dead"), Resource(sqs, "orders")
    dead.create()
    orders.create()
    orders.change(
        Policy=policy_of(orders.arn),
        RedrivePolicy=json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 4}),
    )
    dead.change(RedriveAllowPolicy=json.dumps({"redrivePermission": "allowAll"}))
    orders.change(Policy="")
    orders.change(RedrivePolicy="")
    dead.change(RedriveAllowPolicy="")
    assert orders.attributes().keys().isdisjoint({"Policy", "RedrivePolicy"})
    assert "RedriveAllowPolicy" not in dead.attributes()
    assert orders.differences() == dead.differences() == []


def test_a_redrive_policy_keeps_the_type_of_its_number(sqs: Any) -> None:
    """jsonencode writes a number. Were it read back as text, every plan would show a change."""
    dead, orders = Resource(sqs, "orders-dead"), Resource(sqs, "orders")
    dead.create()
    orders.create()
    orders.change(RedrivePolicy=json.dumps({"deadLetterTargetArn": dead.arn, "maxReceiveCount": 5}))
    assert json.loads(orders.attributes()["RedrivePolicy"])["maxReceiveCount"] == 5


def test_tags_are_changed(sqs: Any) -> None:
    queue = Resource(sqs, "orders")
    queue.create()
    sqs.untag_queue(QueueUrl=queue.url, TagKeys=["managed by"])
    sqs.tag_queue(QueueUrl=queue.url, Tags={"team": "billing", "empty": ""})
    queue.tags = {"team": "billing", "empty": ""}
    assert queue.differences() == []
    sqs.untag_queue(QueueUrl=queue.url, TagKeys=["team", "empty"])
    queue.tags = {}
    assert queue.differences() == []


def test_the_provider_can_parse_the_queue_url(sqs: Any, account: str) -> None:
    """It reads the name from the path, which has to be /account/name and nothing more."""
    queue = Resource(sqs, "orders")
    queue.create()
    assert urlsplit(queue.url).path.split("/") == ["", account, "orders"]


def test_an_import_names_the_queue_by_a_url_of_amazon(sqs: Any, account: str) -> None:
    """An import takes no URL but ``https://sqs.REGION.…/ACCOUNT/NAME``, and from then on uses it."""
    queue = Resource(sqs, "orders")
    queue.create()
    queue.url = f"https://sqs.us-east-1.amazonaws.com/{account}/orders"
    assert queue.differences() == []
    queue.change(VisibilityTimeout="31")
    queue.destroy()


# -- alarms and dashboards -----------------------------------------------------------------------------------


class AlarmResource:
    """One aws_cloudwatch_metric_alarm. The provider always sends the defaults, and reads it by name and type."""

    DEFAULTS = {"ActionsEnabled": True, "TreatMissingData": "missing"}  # noqa: RUF012

    def __init__(self, cw: Any, name: str, **members: Any) -> None:
        self._cw = cw
        self.name = name
        self.wanted = {**self.DEFAULTS, "AlarmName": name, **members}
        self.tags = {"team": "shop"}

    def create(self) -> None:
        tags = [{"Key": key, "Value": value} for key, value in self.tags.items()]
        self._cw.put_metric_alarm(**self.wanted, Tags=tags)

    def change(self, **members: Any) -> None:
        self.wanted |= members
        self._cw.put_metric_alarm(**self.wanted)

    def read(self) -> dict[str, Any] | None:
        found = self._cw.describe_alarms(AlarmNames=[self.name], AlarmTypes=["MetricAlarm"])["MetricAlarms"]
        return dict(found[0]) if found else None

    def differences(self) -> list[str]:
        """A plan: what is not given reads as nothing, which is the same as empty."""
        read = self.read()
        assert read is not None
        about_state = {name for name in read if name.startswith("State")}
        kept = {*about_state, "AlarmArn", "AlarmConfigurationUpdatedTimestamp"}
        names = (self.wanted.keys() | read.keys()) - kept
        wrong = sorted(name for name in names if (read.get(name) or None) != (self.wanted.get(name) or None))
        tags = self._cw.list_tags_for_resource(ResourceARN=read["AlarmArn"])["Tags"]
        return wrong if {tag["Key"]: tag["Value"] for tag in tags} == self.tags else [*wrong, "tags"]

    def destroy(self) -> None:
        self._cw.delete_alarms(AlarmNames=[self.name])
        assert self.read() is None


@pytest.fixture
def cw(server: ServerProcess, account: str) -> Any:
    return client(
        server.url,
        "cloudwatch",
        region_name="us-east-1",
        aws_access_key_id=account,
        aws_secret_access_key="any",
    )


_BACKLOG = {
    "Namespace": "AWS/SQS", "MetricName": "ApproximateNumberOfMessagesVisible", "Statistic": "Average", "Period": 300,
    "EvaluationPeriods": 2, "Threshold": 5000.0, "ComparisonOperator": "GreaterThanThreshold",
    "Dimensions": [{"Name": "QueueName", "Value": "orders"}],
}  # fmt: skip
_RATE = {
    "EvaluationPeriods": 2, "Threshold": 10.0, "ComparisonOperator": "GreaterThanOrEqualToThreshold",
    "Metrics": [
        {"Id": "e1", "Expression": "m2/m1*100", "Label": "Error Rate", "ReturnData": True},
        *(
            {
                "Id": id, "ReturnData": False,
                "MetricStat": {
                    "Metric": {"Namespace": "App", "MetricName": name, "Dimensions": [{"Name": "a", "Value": "b"}]},
                    "Period": 120, "Stat": "Sum", "Unit": "Count",
                },
            }
            for id, name in (("m1", "Requests"), ("m2", "Errors"))
        ),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    "members",
    [
        _BACKLOG,
        {**_BACKLOG, "Statistic": "Maximum", "Threshold": 0.0, "TreatMissingData": "notBreaching", "Period": 60,
         "EvaluationPeriods": 1},
        {**{k: v for k, v in _BACKLOG.items() if k != "Statistic"}, "ExtendedStatistic": "p99.9", "Unit": "Count",
         "EvaluateLowSampleCountPercentile": "ignore", "DatapointsToAlarm": 1, "AlarmDescription": "slow"},
        {**_BACKLOG, "ActionsEnabled": False, "AlarmActions": ["arn:aws:sns:us-east-1:111122223333:t"],
         "OKActions": ["arn:aws:sns:us-east-1:111122223333:t"]},
        _RATE,
    ],
    ids=["backlog", "dead letters", "percentile", "actions", "metric math"],
)  # fmt: skip
def test_an_alarm_is_read_as_it_was_written(cw: Any, members: dict[str, Any]) -> None:
    alarm = AlarmResource(cw, "an alarm / with a name", **members)
    alarm.create()
    assert alarm.differences() == []
    alarm.create()  # once more, as if the state had been lost
    assert alarm.differences() == []
    alarm.change(AlarmDescription="changed", EvaluationPeriods=3)
    assert alarm.differences() == []
    cw.tag_resource(ResourceARN=alarm.read()["AlarmArn"], Tags=[{"Key": "team", "Value": "billing"}])  # type: ignore[index]
    alarm.tags = {"team": "billing"}
    assert alarm.differences() == []
    alarm.destroy()


def test_a_dashboard_is_read_as_it_was_written(cw: Any) -> None:
    """The provider compares the JSON, and takes an error with the code ResourceNotFound for its absence."""
    body = json.dumps({"widgets": [{"type": "text", "width": 3, "properties": {"markdown": "Hello"}}]})
    cw.put_dashboard(DashboardName="orders", DashboardBody=body)
    assert json.loads(cw.get_dashboard(DashboardName="orders")["DashboardBody"]) == json.loads(body)
    cw.delete_dashboards(DashboardNames=["orders"])
    with pytest.raises(ClientError) as caught:
        cw.get_dashboard(DashboardName="orders")
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["HTTPStatusCode"]) == (
        "ResourceNotFound",
        404,
    )


# -- Terraform itself ----------------------------------------------------------------------------------------

PROVIDER = """
terraform {
  required_providers {
    aws = { source = "hashicorp/aws" }
  }
}
variable "endpoint" { type = string }
variable "account" { type = string }

provider "aws" {
  region                      = "us-east-1"
  access_key                  = var.account
  secret_key                  = "any"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  endpoints {
    sqs        = var.endpoint
    sns        = var.endpoint
    cloudwatch = var.endpoint
  }
}
"""

RESOURCES = """
resource "aws_sqs_queue" "dead" {
  name = "orders-dead"
}

resource "aws_sqs_queue" "orders" {
  name                              = "orders"
  receive_wait_time_seconds         = 1
  kms_master_key_id                 = "alias/aws/sqs"
  kms_data_key_reuse_period_seconds = 300
  tags                              = { team = "shop" }
}

resource "aws_sqs_queue" "payments" {
  name                        = "payments.fifo"
  fifo_queue                  = true
  content_based_deduplication = true
  deduplication_scope         = "messageGroup"
  fifo_throughput_limit       = "perMessageGroupId"
}

resource "aws_sqs_queue_policy" "orders" {
  queue_url = aws_sqs_queue.orders.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Sid       = "senders"
      Effect    = "Allow"
      Principal = "*"
      Action    = "sqs:SendMessage"
      Resource  = aws_sqs_queue.orders.arn
    }]
  })
}

resource "aws_sqs_queue_redrive_policy" "orders" {
  queue_url      = aws_sqs_queue.orders.id
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 4 })
}

resource "aws_cloudwatch_metric_alarm" "backlog" {
  alarm_name          = "orders-backlog"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.orders.name }
  statistic           = "Average"
  period              = 300
  evaluation_periods  = 2
  threshold           = 5000
  comparison_operator = "GreaterThanThreshold"
  alarm_actions       = [aws_sqs_queue.dead.arn]
  tags                = { team = "shop" }
}

resource "aws_cloudwatch_metric_alarm" "dead" {
  alarm_name          = "orders-dead"
  namespace           = "AWS/SQS"
  metric_name         = "ApproximateNumberOfMessagesVisible"
  dimensions          = { QueueName = aws_sqs_queue.dead.name }
  statistic           = "Maximum"
  period              = 60
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
}

resource "aws_sqs_queue_redrive_allow_policy" "dead" {
  queue_url = aws_sqs_queue.dead.id
  redrive_allow_policy = jsonencode({
    redrivePermission = "byQueue"
    sourceQueueArns   = [aws_sqs_queue.orders.arn]
  })
}
"""


class Terraform:
    """Skips the test if there is no provider."""

    def __init__(self, folder: Path, server: ServerProcess, account: str, resources: str) -> None:
        self._folder = folder
        variables = {"TF_VAR_endpoint": server.url, "TF_VAR_account": account, "CHECKPOINT_DISABLE": "1"}
        self._environment = {**os.environ, **variables, "AWS_EC2_METADATA_DISABLED": "true"}
        self.write(resources)
        if self("init").returncode != 0:
            pytest.skip(
                "terraform cannot get the AWS provider; TF_CLI_ARGS_init=-plugin-dir=DIR names a local one"
            )

    def write(self, resources: str) -> None:
        (self._folder / "main.tf").write_text(PROVIDER + resources)

    def apply(self) -> None:
        """Fails unless a plan afterwards is empty."""
        applied = self("apply", "-auto-approve")
        assert applied.returncode == 0, applied.stdout + applied.stderr
        planned = self("plan", "-detailed-exitcode")
        assert planned.returncode == 0, (
            f"applied, and yet there is a change: {planned.stdout}{planned.stderr}"
        )

    def import_again(self, resource: str, name: str) -> None:
        """Forget a resource, and import it by its name."""
        self("state", "rm", resource)
        imported = self("import", resource, name)
        assert imported.returncode == 0, imported.stdout + imported.stderr
        assert self("plan", "-detailed-exitcode").returncode == 0, "imported, and yet there is a change"

    def destroy(self) -> None:
        destroyed = self("destroy", "-auto-approve")
        assert destroyed.returncode == 0, destroyed.stdout + destroyed.stderr

    def __call__(self, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        quiet = [] if command == "state" else ["-no-color", "-input=false"]
        return subprocess.run(
            ["terraform", command, *quiet, *arguments],
            cwd=self._folder, env=self._environment, text=True, capture_output=True, timeout=400, check=False,
        )  # fmt: skip


NEEDS_TERRAFORM = pytest.mark.skipif(shutil.which("terraform") is None, reason="terraform is not installed")


@NEEDS_TERRAFORM
def test_terraform_applies_plans_nothing_imports_and_destroys(
    server: ServerProcess, sqs: Any, account: str, tmp_path: Path
) -> None:
    """Takes minutes, nearly all of them the provider's own pauses between its reads."""
    terraform = Terraform(tmp_path, server, account, RESOURCES)
    terraform.apply()
    url = f"https://sqs.us-east-1.amazonaws.com/{account}/payments.fifo"
    terraform.import_again("aws_sqs_queue.payments", url)
    terraform.destroy()
    assert sqs.list_queues().get("QueueUrls", []) == []
