"""AddPermission and RemovePermission, and who may do what on a secured server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.auth.principal import ANONYMOUS
from penstock.names import Space
from services.sns.world import ARN, REGION, SnsWorld, queue_arn
from support.identities import ABROAD, HOME, Accounts, allow, document

NEWS = f"{ARN}:news"
INVALID = "InvalidParameter"
ROOT = "arn:aws:iam::{}:root"


# -- statements ----------------------------------------------------------------------------------------------------


def add(sns: SnsWorld, label: str, accounts: list[str], actions: list[str]) -> None:
    sns("AddPermission", TopicArn=NEWS, Label=label, AWSAccountId=accounts, ActionName=actions)


def statements(sns: SnsWorld) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(sns.attributes(NEWS)["Policy"])["Statement"]
    return found


def test_a_permission_is_a_statement(sns: SnsWorld) -> None:
    sns.make()
    (default,) = statements(sns)
    add(sns, "one", [HOME], ["Publish"])
    add(sns, "several", [HOME, ABROAD], ["Publish", "Subscribe"])
    assert statements(sns) == [
        default,
        {
            "Sid": "one",
            "Effect": "Allow",
            "Principal": {"AWS": ROOT.format(HOME)},
            "Action": "SNS:Publish",
            "Resource": NEWS,
        },
        {
            "Sid": "several",
            "Effect": "Allow",
            "Principal": {"AWS": [ROOT.format(HOME), ROOT.format(ABROAD)]},
            "Action": ["SNS:Publish", "SNS:Subscribe"],
            "Resource": NEWS,
        },
    ]


def test_the_same_permission_again_changes_nothing(sns: SnsWorld) -> None:
    sns.make()
    add(sns, "one", [HOME], ["Publish"])
    before = statements(sns)
    add(sns, "one", [HOME], ["Publish"])
    assert statements(sns) == before
    refused = sns.refused(
        "AddPermission", TopicArn=NEWS, Label="one", AWSAccountId=[ABROAD], ActionName=["Publish"]
    )
    assert refused == (INVALID, "Invalid parameter: Statement already exists")


@pytest.mark.parametrize(
    ("changed", "code", "text"),
    [
        ({"ActionName": ["*"]}, INVALID, "Invalid parameter: Policy statement action out of service scope!"),
        (
            {"ActionName": ["TagResource"]},
            INVALID,
            "Invalid parameter: Policy statement action out of service scope!",
        ),
        ({"ActionName": []}, INVALID, "Invalid parameter: Policy statement action out of service scope!"),
        ({"AWSAccountId": ["x"]}, INVALID, "Invalid parameter: Policy Error: PrincipalNotFound"),
        ({"AWSAccountId": [HOME] * 1001}, INVALID, "Invalid parameter: AWSAccountId"),
        ({"Label": "x\n"}, INVALID, "Invalid parameter: Label"),
        ({"Label": "x" * 257}, INVALID, "Invalid parameter: Label"),
        ({"Label": None}, INVALID, "Invalid parameter: Label Reason: no value for required parameter"),
        (
            {"ActionName": None},
            "ValidationError",
            "1 validation error detected: Value null at 'actionName' failed to satisfy constraint: "
            "Member must not be null",
        ),
    ],
)
def test_permissions_that_are_refused(sns: SnsWorld, changed: dict[str, Any], code: str, text: str) -> None:
    sns.make()
    members = {"TopicArn": NEWS, "Label": "l", "AWSAccountId": [HOME], "ActionName": ["Publish"]}
    assert sns.refused("AddPermission", **members | changed) == (code, text)
    assert len(statements(sns)) == 1


def test_permissions_are_removed_by_their_labels(sns: SnsWorld) -> None:
    sns.make()
    add(sns, "one", [HOME], ["Publish"])
    sns("RemovePermission", TopicArn=NEWS, Label="absent")
    assert len(statements(sns)) == 2
    sns("RemovePermission", TopicArn=NEWS, Label="__default_statement_ID")
    assert [each["Sid"] for each in statements(sns)] == ["one"]
    text = "Invalid parameter: one Reason: Policy must include at least one statement"
    assert sns.refused("RemovePermission", TopicArn=NEWS, Label="one") == (INVALID, text)


def test_a_policy_does_not_grow_without_end(sns: SnsWorld) -> None:
    sns.make()
    accounts = [f"{number:012d}" for number in range(500)]
    add(sns, "many", accounts, ["Publish"])
    refused = sns.refused(
        "AddPermission", TopicArn=NEWS, Label="more", AWSAccountId=accounts, ActionName=["Publish"]
    )
    assert (
        refused[1] == "Invalid parameter: Policy Error: a policy has at most 30720 bytes and 100 statements"
    )
    assert len(statements(sns)) == 2


# -- policies ------------------------------------------------------------------------------------------------------

OWN = f"arn:aws:sns:{REGION}:{HOME}"
TOPIC = f"{OWN}:news"


class Secured:
    """A secured server. ``root`` is the account's root, ``ann`` may do nothing, and ``bob`` is of another account."""

    def __init__(self, sns: SnsWorld, accounts: Accounts) -> None:
        self.sns = sns
        self.accounts = accounts
        self.be("root")

    def be(self, name: str) -> SnsWorld:
        if name == "anonymous":
            self.sns.principal, account = ANONYMOUS, HOME
            self.sns.signed_for = None
        else:
            self.sns.principal = self.accounts.principal(name)
            account = self.sns.principal.account
            self.sns.signed_for = "sns"
        self.sns.space = Space(account, REGION)
        return self.sns

    def arn(self, name: str) -> str:
        return self.accounts.principal(name).arn


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with SnsWorld() as sns:
        accounts = Accounts(tmp_path)
        accounts.user("root")
        accounts.user("ann")
        accounts.user("reader", "sns-read-only")
        accounts.user("publisher", "sns-publish")
        accounts.user("subscriber", "sns-subscribe")
        accounts.user("bob", "administrator", account=ABROAD)
        accounts.user("carl", account=ABROAD)
        yield Secured(sns, accounts)


def denied(
    secured: Secured, name: str, action: str, permission: str = "", kind: str = "identity"
) -> tuple[str, str]:
    permission = permission or action
    return (
        "AuthorizationError",
        f"User: {secured.arn(name)} is not authorized to perform: SNS:{permission} on resource: {TOPIC} "
        f"because no {kind}-based policy allows the SNS:{permission} action",
    )


ON_TOPIC: list[tuple[str, str, dict[str, Any]]] = [
    ("Publish", "Publish", {"TopicArn": TOPIC, "Message": "m"}),
    (
        "PublishBatch",
        "Publish",
        {"TopicArn": TOPIC, "PublishBatchRequestEntries": [{"Id": "x", "Message": "m"}]},
    ),
    ("GetTopicAttributes", "", {"TopicArn": TOPIC}),
    ("SetTopicAttributes", "", {"TopicArn": TOPIC, "AttributeName": "DisplayName", "AttributeValue": "x"}),
    ("Subscribe", "", {"TopicArn": TOPIC, "Protocol": "sqs", "Endpoint": queue_arn("q", account=HOME)}),
    ("ListSubscriptionsByTopic", "", {"TopicArn": TOPIC}),
    (
        "AddPermission",
        "",
        {"TopicArn": TOPIC, "Label": "l", "AWSAccountId": [HOME], "ActionName": ["Publish"]},
    ),
    ("RemovePermission", "", {"TopicArn": TOPIC, "Label": "l"}),
    ("DeleteTopic", "", {"TopicArn": TOPIC}),
    ("CreateTopic", "", {"Name": "news"}),
    ("TagResource", "", {"ResourceArn": TOPIC, "Tags": []}),
    ("ListTagsForResource", "", {"ResourceArn": TOPIC}),
    ("GetDataProtectionPolicy", "", {"ResourceArn": TOPIC}),
]


@pytest.mark.parametrize(("action", "permission", "members"), ON_TOPIC)
@pytest.mark.parametrize("exists", [True, False])
def test_who_may_nothing_learns_nothing(
    secured: Secured, action: str, permission: str, members: dict[str, Any], exists: bool
) -> None:
    if exists:
        secured.be("root").make()
    refused = secured.be("ann").refused(action, **members)
    assert refused == denied(secured, "ann", action, permission)


GRANTABLE = [row for row in ON_TOPIC if row[0] not in {
    "CreateTopic", "TagResource", "ListTagsForResource", "GetDataProtectionPolicy",
}]  # fmt: skip


@pytest.mark.parametrize(("action", "permission", "members"), GRANTABLE)
def test_a_topic_can_grant_to_another_account(
    secured: Secured, action: str, permission: str, members: dict[str, Any]
) -> None:
    """The policy of the topic and those of the user have to allow it, both."""
    topic = secured.be("root").make()
    secured.be("bob")
    assert secured.sns.refused(action, **members) == denied(secured, "bob", action, permission, "resource")
    secured.be("root")
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": ABROAD},
        "Action": f"SNS:{permission or action}",
        "Resource": topic,
    }
    secured.sns.set(topic, "Policy", json.dumps({"Statement": statement}))
    secured.be("bob")(action, **members)
    refused = secured.be("carl").refused(action, **members)
    assert refused[0] == "AuthorizationError"


@pytest.mark.parametrize(
    ("action", "members"),
    [(row[0], row[2]) for row in ON_TOPIC if row not in GRANTABLE and row[0] != "CreateTopic"],
)
def test_what_no_topic_can_grant(secured: Secured, action: str, members: dict[str, Any]) -> None:
    secured.be("root").make()
    refused = secured.be("bob").refused(action, **members)
    assert refused == denied(secured, "bob", action, "", "resource")


def test_the_policy_of_a_topic_allows_users_of_the_account(secured: Secured) -> None:
    topic = secured.be("root").make()
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": secured.arn("ann")},
        "Action": "SNS:Publish",
        "Resource": topic,
    }
    secured.sns.set(topic, "Policy", json.dumps({"Statement": statement}))
    secured.be("ann")("Publish", TopicArn=topic, Message="m")
    assert secured.sns.refused("GetTopicAttributes", TopicArn=topic)[0] == "AuthorizationError"


def test_the_default_policy_grants_users_nothing(secured: Secured) -> None:
    """Also if it was set: AWS:SourceOwner is known of services only."""
    topic = secured.be("root").make()
    secured.sns.set(topic, "Policy", secured.sns.attributes(topic)["Policy"])
    refused = secured.be("ann").refused("Publish", TopicArn=topic, Message="m")
    assert refused == denied(secured, "ann", "Publish")


def test_a_deny_wins_and_says_so(secured: Secured) -> None:
    topic = secured.be("root").make()
    statement = {"Effect": "Deny", "Principal": "*", "Action": "SNS:Publish", "Resource": topic}
    secured.sns.set(topic, "Policy", json.dumps({"Statement": statement}))
    code, text = secured.be("publisher").refused("Publish", TopicArn=topic, Message="m")
    assert code == "AuthorizationError"
    assert text.endswith("with an explicit deny in a resource-based policy")


@pytest.mark.parametrize(
    ("condition", "protocol", "endpoint", "is_allowed"),
    [
        ({"StringEquals": {"sns:Protocol": "sqs"}}, "sqs", queue_arn("q", account=HOME), True),
        ({"StringEquals": {"sns:Protocol": "sqs"}}, "sms", "+1234567", False),
        ({"StringLike": {"SNS:Endpoint": "*@example.test"}}, "email", "a@example.test", True),
        ({"StringLike": {"SNS:Endpoint": "*@example.test"}}, "email", "a@other.test", False),
    ],
)
def test_conditions_on_what_is_subscribed(
    secured: Secured, condition: dict[str, Any], protocol: str, endpoint: str, is_allowed: bool
) -> None:
    secured.accounts.user("dora", document(allow("sns:Subscribe", Resource="*", Condition=condition)))
    topic = secured.be("root").make()
    members = {"TopicArn": topic, "Protocol": protocol, "Endpoint": endpoint}
    secured.be("dora")
    if is_allowed:
        secured.sns("Subscribe", **members)
    else:
        assert secured.sns.refused("Subscribe", **members)[0] == "AuthorizationError"


def test_the_tags_of_a_topic_are_conditions(secured: Secured) -> None:
    condition = {"StringEquals": {"aws:ResourceTag/team": "a"}}
    secured.accounts.user("dora", document(allow("sns:Publish", Resource="*", Condition=condition)))
    own, other = secured.be("root").make(), secured.sns.make("other")
    secured.sns("TagResource", ResourceArn=own, Tags=[{"Key": "team", "Value": "a"}])
    secured.be("dora")("Publish", TopicArn=own, Message="m")
    assert secured.sns.refused("Publish", TopicArn=other, Message="m")[0] == "AuthorizationError"


def test_tags_of_a_new_topic_need_a_permission_of_their_own(secured: Secured) -> None:
    secured.accounts.user("dora", document(allow("sns:CreateTopic", Resource="*")))
    tags = [{"Key": "a", "Value": ""}]
    refused = secured.be("dora").refused("CreateTopic", Name="news", Tags=tags)
    assert refused == denied(secured, "dora", "TagResource")
    secured.sns("CreateTopic", Name="news")


def test_builtin_policies(secured: Secured) -> None:
    topic = secured.be("root").make()
    queue = queue_arn("q", account=HOME)
    secured.be("publisher")("Publish", TopicArn=topic, Message="m")
    assert (
        secured.sns.refused("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue)[0]
        == "AuthorizationError"
    )
    arn = secured.be("subscriber")("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue)[
        "SubscriptionArn"
    ]
    shown = secured.sns("GetSubscriptionAttributes", SubscriptionArn=arn)["Attributes"]
    assert shown["SubscriptionPrincipal"] == secured.arn("subscriber")
    assert secured.sns.refused("Publish", TopicArn=topic, Message="m")[0] == "AuthorizationError"
    secured.be("reader")("GetTopicAttributes", TopicArn=topic)
    secured.sns("ListSubscriptions")
    assert secured.sns.refused("Unsubscribe", SubscriptionArn=arn)[0] == "AuthorizationError"
    secured.be("subscriber")("Unsubscribe", SubscriptionArn=arn)


# -- without a signature -------------------------------------------------------------------------------------------


def test_nothing_but_links_works_without_a_signature(secured: Secured) -> None:
    topic = secured.be("root").make()
    statement = {"Effect": "Allow", "Principal": "*", "Action": "SNS:Publish", "Resource": topic}
    secured.sns.set(topic, "Policy", json.dumps({"Statement": statement}))
    refused = secured.be("anonymous").refused("Publish", TopicArn=topic, Message="m")
    assert refused == ("MissingAuthenticationToken", "Request is missing Authentication Token")


def test_links_work_on_a_secured_server(secured: Secured) -> None:
    topic = secured.be("root").make()
    arn = secured.sns.subscribe_to(topic, "http", "http://a.test/")
    token = secured.sns.token()
    secured.be("anonymous")
    link = f"Action=ConfirmSubscription&TopicArn={topic}&Token={token}"
    assert secured.sns.link(link).status == 200
    assert secured.be("root").of_subscription(arn)["PendingConfirmation"] == "false"
    secured.be("anonymous")
    assert secured.sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}").status == 200
    (listed,) = secured.be("root")("ListSubscriptions")["Subscriptions"]
    assert listed["SubscriptionArn"] == "Deleted"


def test_who_signs_needs_the_permission_to_confirm(secured: Secured) -> None:
    topic = secured.be("root").make()
    secured.sns.subscribe_to(topic, "http", "http://a.test/")
    members = {"TopicArn": topic, "Token": secured.sns.token()}
    refused = secured.be("ann").refused("ConfirmSubscription", **members)
    assert refused == denied(secured, "ann", "ConfirmSubscription")
    secured.be("subscriber")("ConfirmSubscription", **members)


# -- two accounts --------------------------------------------------------------------------------------------------


def open_to_abroad(secured: Secured) -> str:
    topic = secured.be("root").make()
    secured.sns(
        "AddPermission", TopicArn=topic, Label="l", AWSAccountId=[ABROAD], ActionName=["Subscribe", "Publish"]
    )
    return topic


def test_the_owner_of_a_queue_subscribes_it_at_once(secured: Secured) -> None:
    topic = open_to_abroad(secured)
    secured.be("bob")
    arn = secured.sns.subscribe_to(topic, endpoint=queue_arn("q", account=ABROAD))
    shown = secured.sns.of_subscription(arn)
    assert (shown["Owner"], shown["PendingConfirmation"]) == (ABROAD, "false")
    (listed,) = secured.sns("ListSubscriptions")["Subscriptions"]
    assert (listed["TopicArn"], listed["Owner"]) == (topic, ABROAD)
    secured.sns(
        "SetSubscriptionAttributes",
        SubscriptionArn=arn, AttributeName="RawMessageDelivery", AttributeValue="true",
    )  # fmt: skip
    secured.be("root")
    assert secured.sns("ListSubscriptions") == {"Subscriptions": []}
    assert len(secured.sns("ListSubscriptionsByTopic", TopicArn=topic)["Subscriptions"]) == 1
    for action, members in (
        ("GetSubscriptionAttributes", {}),
        ("SetSubscriptionAttributes", {"AttributeName": "RawMessageDelivery", "AttributeValue": "false"}),
    ):
        assert secured.sns.refused(action, SubscriptionArn=arn, **members)[0] == "AuthorizationError"


def test_the_owner_of_the_topic_ends_a_foreign_subscription_for_a_while(secured: Secured) -> None:
    topic = open_to_abroad(secured)
    secured.be("bob")
    arn = secured.sns.subscribe_to(topic, endpoint=queue_arn("q", account=ABROAD))
    secured.be("root")("Unsubscribe", SubscriptionArn=arn)
    (listed,) = secured.be("bob")("ListSubscriptions")["Subscriptions"]
    assert listed["SubscriptionArn"] == "Deleted"
    secured.sns("Unsubscribe", SubscriptionArn=arn)
    assert secured.sns("ListSubscriptions") == {"Subscriptions": []}


def test_a_foreign_queue_is_asked(secured: Secured) -> None:
    topic = open_to_abroad(secured)
    endpoint = queue_arn("q", account=ABROAD)
    answer = secured.sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=endpoint)
    assert answer == {"SubscriptionArn": "pending confirmation"}
    pending = secured.sns.subscribe_to(topic, endpoint=endpoint)
    secured.be("bob")
    arn = secured.sns("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=endpoint)["SubscriptionArn"]
    assert arn == pending
    assert secured.sns.of_subscription(arn)["Owner"] == ABROAD
    again = secured.be("root")("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=endpoint)
    assert again == {"SubscriptionArn": arn}
