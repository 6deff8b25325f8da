"""The heaviest request of each action of SNS, and the topics that a server holds when they are sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from support.http_requests import form_parameters

from .heaviest_requests import ACCOUNT, REGION, Request, Rows, tags

ARN = f"arn:aws:sns:{REGION}:{ACCOUNT}"
TOPICS, QUEUES, FILTERS, DEVICES = 300, 500, 150, 400
LARGE, CROWDED, OTHER = f"{ARN}:large", f"{ARN}:crowded", f"{ARN}:topic-000"
APPLICATION, DOOMED = f"{ARN}:app/GCM/shop", f"{ARN}:app/GCM/doomed"
KIB, MANY = 1024, 500_000
_JSON = {"Content-Type": "application/x-amz-json-1.0"}
_FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def sns(action: str, **members: Any) -> Request:
    return "POST", "/", {**_JSON, "X-Amz-Target": f"AmazonSNS.{action}"}, json.dumps(members).encode()


def sns_form(action: str, **members: Any) -> Request:
    form = [("Action", action), ("Version", "2010-03-31"), *form_parameters(members)]
    return "POST", "/", _FORM, urlencode(form).encode()


def _statement(number: int, accounts: int) -> dict[str, Any]:
    return {
        "Sid": str(number),
        "Effect": "Allow",
        "Principal": {"AWS": [f"{account:012d}" for account in range(accounts)]},
        "Action": "SNS:Publish",
        "Resource": "*",
        "Condition": {"StringLike": {"aws:PrincipalTag/x": ["*a*b*c*"] * 3}},
    }


# As many statements, and as many bytes, as a policy may have.
POLICY = json.dumps({"Statement": [_statement(number, 5) for number in range(99)]}, separators=(",", ":"))
PRINCIPALS = json.dumps({"Statement": _statement(0, 1900)}, separators=(",", ":"))
FILTER = json.dumps({"a": [{"anything-but": [f"{number}{'x' * 250}" for number in range(990)]}]})
TERMS = json.dumps({"a": {"b": [{"wildcard": f"*{'x' * 800}{number}*"} for number in range(15)]}})
ATTRIBUTES = {f"a{number}": {"DataType": "Number", "StringValue": "1" * 30} for number in range(600)}
STRUCTURED = json.dumps({"default": "d", **{str(number): "x" for number in range(15_000)}})
DELIVERY = {"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 30, "numRetries": 100}}


def batch(ask: Callable[..., Request], attributes: int) -> Request:
    """Ten messages with as many attributes as all may have together."""
    named = {f"a{number}": {"DataType": "String", "StringValue": "v" * 40} for number in range(attributes)}
    if ask is sns:
        entries = [
            {"Id": str(number), "Message": "m" * 9000, "MessageAttributes": named} for number in range(10)
        ]
        return sns("PublishBatch", TopicArn=CROWDED, PublishBatchRequestEntries=entries)
    form = {"Action": "PublishBatch", "Version": "2010-03-31", "TopicArn": CROWDED}
    for number in range(1, 11):
        begin = f"PublishBatchRequestEntries.member.{number}"
        form |= {f"{begin}.Id": str(number), f"{begin}.Message": "m" * 9000}
        for place, name in enumerate(named, 1):
            at = f"{begin}.MessageAttributes.entry.{place}"
            form |= {
                f"{at}.Name": name,
                f"{at}.Value.DataType": "String",
                f"{at}.Value.StringValue": "v" * 40,
            }
    return "POST", "/", _FORM, urlencode(form).encode()


def crowded_form() -> Request:
    """A batch with one message that has all attributes."""
    form = {"Action": "PublishBatch", "TopicArn": CROWDED}
    begin = "PublishBatchRequestEntries.member.1"
    form |= {f"{begin}.Id": "1", f"{begin}.Message": "m"}
    for place in range(1, 660):
        at = f"{begin}.MessageAttributes.entry.{place}"
        form |= {f"{at}.Name": str(place), f"{at}.Value.DataType": "String", f"{at}.Value.StringValue": "v"}
    return "POST", "/", _FORM, urlencode(form).encode()


def queue_arn(number: int) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:q{number:04d}"


class Topics:
    """What the requests name: it is known when the server was filled."""

    subscription = ""  # of the crowded topic
    filtered = ""
    fifo = ""  # of a topic with an archive
    device = ""


def fill_topics(get: Callable[[Request], Any]) -> None:
    """``get``: asks the server, and returns what it answers."""
    for number in range(TOPICS):
        get(sns("CreateTopic", Name=f"topic-{number:03d}", Tags=tags()))
    get(sns("CreateTopic", Name="large", Attributes={"Policy": PRINCIPALS}, Tags=tags()))
    get(sns("CreateTopic", Name="crowded"))
    archive = {"FifoTopic": "true", "ArchivePolicy": '{"MessageRetentionPeriod":7}'}
    get(sns("CreateTopic", Name="archived.fifo", Attributes=archive))
    members = {"TopicArn": f"{ARN}:archived.fifo", "Protocol": "sqs", "Endpoint": f"{queue_arn(0)}.fifo"}
    Topics.fifo = get(sns("Subscribe", **members))["SubscriptionArn"]
    for number in range(QUEUES):
        # Each filter lets everything through, after all that it asks.
        asked = (
            {"FilterPolicy": '{"a":[{"anything-but":["x"]},{"exists":false}]}'} if number < FILTERS else {}
        )
        members = {"TopicArn": CROWDED, "Protocol": "sqs", "Endpoint": queue_arn(number)}
        arn = get(sns("Subscribe", Attributes=asked, **members))["SubscriptionArn"]
        Topics.filtered, Topics.subscription = arn if asked else Topics.filtered, arn
    for number in range(100):
        get(sns("Subscribe", TopicArn=CROWDED, Protocol="http", Endpoint=f"http://127.0.0.1:9/{number}"))
    for name in ("shop", "doomed"):
        get(
            sns(
                "CreatePlatformApplication", Name=name, Platform="GCM", Attributes={"PlatformCredential": "c"}
            )
        )
        for number in range(DEVICES):
            arn = f"{ARN}:app/GCM/{name}"
            members = {
                "PlatformApplicationArn": arn,
                "Token": f"{number}{'t' * 500}",
                "CustomUserData": "d" * 2000,
            }
            Topics.device = get(sns("CreatePlatformEndpoint", **members))["EndpointArn"]
    get(sns("CreateSMSSandboxPhoneNumber", PhoneNumber="+12345678"))


def settings(count: int = 1500) -> dict[str, str]:
    """Attributes that nobody knows."""
    return {f"unknown{number}": "x" * 100 for number in range(count)}


SNS_REQUESTS: Rows = {
    "CreateTopic": [
        lambda held: sns("CreateTopic", Name="n" * 256, Attributes={"Policy": POLICY}, Tags=tags()),
        lambda held: sns("CreateTopic", Name="large", Attributes={"Policy": PRINCIPALS}, Tags=tags()),
        lambda held: sns("CreateTopic", Name="refused", Attributes=settings(), Tags=tags(400)),
    ],
    "DeleteTopic": [lambda held: sns("DeleteTopic", TopicArn=OTHER)],
    "GetTopicAttributes": [lambda held: sns_form("GetTopicAttributes", TopicArn=LARGE)],
    "SetTopicAttributes": [
        lambda held: sns("SetTopicAttributes", TopicArn=OTHER, AttributeName="Policy", AttributeValue=POLICY),
        lambda held: sns("SetTopicAttributes", TopicArn=OTHER, AttributeName="Policy", AttributeValue="[" * MANY),
        lambda held: sns("SetTopicAttributes", TopicArn=OTHER, AttributeName="DeliveryPolicy",
                         AttributeValue=json.dumps({"http": {"x": [{}] * 100_000}})),
        lambda held: sns("SetTopicAttributes", TopicArn=CROWDED, AttributeName="MaximumMessageSize",
                         AttributeValue="1048576"),
    ],
    "ListTopics": [lambda held: sns_form("ListTopics")],
    "Subscribe": [
        lambda held: sns("Subscribe", TopicArn=CROWDED, Protocol="sqs", Endpoint=queue_arn(9000),
                         Attributes={"FilterPolicy": FILTER}),
        lambda held: sns("Subscribe", TopicArn=CROWDED, Protocol="sqs", Endpoint=queue_arn(9001),
                         Attributes={"FilterPolicy": TERMS, "FilterPolicyScope": "MessageBody"}),
        lambda held: sns("Subscribe", TopicArn=CROWDED, Protocol="http", Endpoint=f"http://127.0.0.1:9/{'x' * 2000}",
                         Attributes={"DeliveryPolicy": json.dumps(DELIVERY)}),
    ],
    "ConfirmSubscription": [lambda held: sns("ConfirmSubscription", TopicArn=CROWDED, Token="0" * 256)],
    "Unsubscribe": [lambda held: sns("Unsubscribe", SubscriptionArn=Topics.subscription)],
    "GetSubscriptionAttributes": [
        lambda held: sns_form("GetSubscriptionAttributes", SubscriptionArn=Topics.filtered),
    ],
    "SetSubscriptionAttributes": [
        *(lambda held, text=text: sns("SetSubscriptionAttributes", SubscriptionArn=Topics.filtered,
                                      AttributeName="FilterPolicy", AttributeValue=text)
          for text in (FILTER, '{"a":[' + '"b",' * 60_000 + '"c"]}', '{"a":' * 40_000, '{"a":["' + "\\u0041" * 40_000,
                       json.dumps({"$or": [{"a": ["x"]}] * 990}), json.dumps({"a": [[]] * 990}))),
        lambda held: sns("SetSubscriptionAttributes", SubscriptionArn=Topics.filtered,
                         AttributeName="RedrivePolicy", AttributeValue='{"a":' * 800),
        lambda held: sns("SetSubscriptionAttributes", SubscriptionArn=Topics.fifo, AttributeName="ReplayPolicy",
                         AttributeValue='{"a":' * 800),
    ],
    "ListSubscriptions": [lambda held: sns_form("ListSubscriptions")],
    "ListSubscriptionsByTopic": [lambda held: sns_form("ListSubscriptionsByTopic", TopicArn=CROWDED)],
    "Publish": [
        lambda held: sns("Publish", TopicArn=CROWDED, Message='"\n' * (120 * KIB)),
        lambda held: sns("Publish", TopicArn=CROWDED, Message="é" * (120 * KIB), Subject="s" * 100),
        lambda held: sns("Publish", TopicArn=CROWDED, Message="m", MessageAttributes=ATTRIBUTES),
        lambda held: sns("Publish", TopicArn=CROWDED, Message=STRUCTURED, MessageStructure="json"),
        lambda held: sns("Publish", TopicArn=OTHER, Message="[" * (256 * KIB), MessageStructure="json"),
        lambda held: sns("Publish", TargetArn=Topics.device, Message="m" * (256 * KIB)),
        lambda held: sns("Publish", PhoneNumber="+1234567", Message="m" * (256 * KIB)),
    ],
    "PublishBatch": [
        lambda held: batch(sns, 60),
        lambda held: batch(sns_form, 60),
        lambda held: crowded_form(),
        lambda held: ("POST", "/", _FORM, b"Action=PublishBatch" + b"".join(b"&a%d" % at for at in range(1990))),
    ],
    "AddPermission": [
        lambda held: sns("AddPermission", TopicArn=OTHER, Label="l" * 256, ActionName=["Publish"] * 1900,
                         AWSAccountId=[f"{number:012d}" for number in range(600)]),
    ],
    "RemovePermission": [lambda held: sns("RemovePermission", TopicArn=OTHER, Label="l" * 256)],
    "TagResource": [lambda held: sns("TagResource", ResourceArn=OTHER, Tags=tags())],
    "UntagResource": [
        lambda held: sns("UntagResource", ResourceArn=OTHER, TagKeys=[tag["Key"] for tag in tags()]),
    ],
    "ListTagsForResource": [lambda held: sns_form("ListTagsForResource", ResourceArn=LARGE)],
    "GetDataProtectionPolicy": [lambda held: sns("GetDataProtectionPolicy", ResourceArn=LARGE)],
    "PutDataProtectionPolicy": [
        lambda held: sns("PutDataProtectionPolicy", ResourceArn=LARGE, DataProtectionPolicy="[" * MANY),
    ],
    "CreatePlatformApplication": [
        lambda held: sns("CreatePlatformApplication", Name="n" * 256, Platform="GCM",
                         Attributes={"PlatformCredential": "c" * 16_000, "EventDeliveryFailure": "e" * 16_000}),
    ],
    "DeletePlatformApplication": [
        lambda held: sns("DeletePlatformApplication", PlatformApplicationArn=DOOMED),
    ],
    "GetPlatformApplicationAttributes": [
        lambda held: sns("GetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION),
    ],
    "SetPlatformApplicationAttributes": [
        lambda held: sns("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION,
                         Attributes={"EventDeliveryFailure": "e" * 16_000}),
        lambda held: sns("SetPlatformApplicationAttributes", PlatformApplicationArn=APPLICATION,
                         Attributes=settings()),
    ],
    "ListPlatformApplications": [lambda held: sns_form("ListPlatformApplications")],
    "CreatePlatformEndpoint": [
        lambda held: sns("CreatePlatformEndpoint", PlatformApplicationArn=APPLICATION, Token="t" * 4096,
                         CustomUserData="é" * 1024),
    ],
    "DeleteEndpoint": [lambda held: sns("DeleteEndpoint", EndpointArn=Topics.device)],
    "GetEndpointAttributes": [lambda held: sns("GetEndpointAttributes", EndpointArn=Topics.device)],
    "SetEndpointAttributes": [
        lambda held: sns("SetEndpointAttributes", EndpointArn=Topics.device, Attributes={"Token": "t" * 4096}),
    ],
    "ListEndpointsByPlatformApplication": [
        lambda held: sns_form("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION),
    ],
    "GetSMSAttributes": [lambda held: sns("GetSMSAttributes", attributes=["DefaultSMSType"] * 1900)],
    "SetSMSAttributes": [lambda held: sns("SetSMSAttributes", attributes={"UsageReportS3Bucket": "b" * 1024})],
    "CheckIfPhoneNumberIsOptedOut": [
        lambda held: sns("CheckIfPhoneNumberIsOptedOut", phoneNumber="1-" * MANY),
    ],
    "ListPhoneNumbersOptedOut": [lambda held: sns("ListPhoneNumbersOptedOut")],
    "OptInPhoneNumber": [lambda held: sns("OptInPhoneNumber", phoneNumber="1-" * 19 + "1")],
    "GetSMSSandboxAccountStatus": [lambda held: sns("GetSMSSandboxAccountStatus")],
    "CreateSMSSandboxPhoneNumber": [lambda held: sns("CreateSMSSandboxPhoneNumber", PhoneNumber="+1234567890")],
    "DeleteSMSSandboxPhoneNumber": [lambda held: sns("DeleteSMSSandboxPhoneNumber", PhoneNumber="+1234567890")],
    "VerifySMSSandboxPhoneNumber": [
        lambda held: sns("VerifySMSSandboxPhoneNumber", PhoneNumber="+12345678", OneTimePassword="12345678"),
    ],
    "ListSMSSandboxPhoneNumbers": [lambda held: sns("ListSMSSandboxPhoneNumbers", MaxResults=100)],
    "ListOriginationNumbers": [lambda held: sns("ListOriginationNumbers", MaxResults=30)],
}  # fmt: skip
