"""Subscribe, Unsubscribe, ConfirmSubscription and the lists: their rules and texts."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

import pytest

from penstock.limits import DAY, HOUR
from penstock.names import Space
from penstock.services.sns import SnsLimits
from services.sns.world import ACCOUNT, ARN, REGION, Refused, SnsWorld, queue_arn

INVALID = "InvalidParameter"
NOT_FOUND = "NotFound", "Subscription does not exist"
OTHER = "111111111111"
FOREIGN = queue_arn("q", account=OTHER)
UNKNOWN = f"{ARN}:news:00000000-0000-4000-8000-000000000000"
CONFIRMED_AT_ONCE = [("sqs", queue_arn("q")), ("sms", "+1234567")]
ASKED = [
    ("http", "http://a.test/x#y"),
    ("https", "https://user:secret@a.test/"),
    ("email", "a@b.test"),
    ("email-json", "a@b.test"),
    ("sqs", FOREIGN),
]


def subscribe(sns: SnsWorld, topic: str, protocol: str, endpoint: str, **members: Any) -> str:
    answer: str = sns("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint, **members)[
        "SubscriptionArn"
    ]
    return answer


# -- Subscribe -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("protocol", "endpoint"), CONFIRMED_AT_ONCE)
def test_endpoints_of_the_account_need_not_confirm(sns: SnsWorld, protocol: str, endpoint: str) -> None:
    topic = sns.make()
    arn = subscribe(sns, topic, protocol, endpoint)
    assert arn.rpartition(":")[0] == topic
    assert UUID(arn.rpartition(":")[2]).version == 4
    shown = sns.of_subscription(arn)
    assert shown["PendingConfirmation"] == "false"
    assert shown["ConfirmationWasAuthenticated"] == "true"


@pytest.mark.parametrize(("protocol", "endpoint"), ASKED)
def test_other_endpoints_are_asked(sns: SnsWorld, protocol: str, endpoint: str) -> None:
    topic = sns.make()
    assert subscribe(sns, topic, protocol, endpoint) == "pending confirmation"
    arn = subscribe(sns, topic, protocol, endpoint, ReturnSubscriptionArn=True)
    shown = sns.of_subscription(arn)
    assert shown["PendingConfirmation"] == "true"
    assert shown["ConfirmationWasAuthenticated"] == "false"
    (listed,) = sns("ListSubscriptions")["Subscriptions"]
    assert listed["SubscriptionArn"] == "PendingConfirmation"


@pytest.mark.parametrize(
    ("protocol", "endpoint", "text"),
    [
        ("x", "y", "Invalid parameter: Amazon SNS does not support this protocol string: x"),
        ("SQS", queue_arn("q"), "Invalid parameter: Amazon SNS does not support this protocol string: SQS"),
        ("sqs", "http://localhost:9324/000000000000/q", "Invalid parameter: SQS endpoint ARN"),
        ("sqs", "q", "Invalid parameter: SQS endpoint ARN"),
        ("sqs", queue_arn("a b"), "Invalid parameter: SQS endpoint ARN"),
        ("sqs", queue_arn("a\n"), "Invalid parameter: SQS endpoint ARN"),
        ("sqs", queue_arn("q", account="x"), "Invalid parameter: SQS endpoint ARN"),
        ("sqs", "", "Invalid parameter: Endpoint Reason: no value for required parameter"),
        (
            "sqs",
            queue_arn("q.fifo"),
            "Invalid parameter: Invalid parameter: Endpoint Reason: "
            "FIFO SQS Queues can not be subscribed to standard SNS topics",
        ),
        ("sms", "abc", "Invalid SMS endpoint: abc"),
        ("sms", "+12--34", "Invalid SMS endpoint: +12--34"),
        ("sms", "/1234", "Invalid SMS endpoint: /1234"),
        ("sms", "1234.", "Invalid SMS endpoint: 1234."),
        ("http", "https://a.test/", "Invalid parameter: Endpoint must match the specified protocol"),
        ("https", "http://a.test/", "Invalid parameter: Endpoint must match the specified protocol"),
        ("http", "a.test", "Invalid parameter: Endpoint must match the specified protocol"),
        (
            "http",
            "http://user:pw@a.test/",
            "Invalid parameter: Endpoint Reason: "
            "Please use HTTPS for subscriptions that contain inline credentials",
        ),
        ("http", "http://", "Invalid parameter: Endpoint"),
        ("http", "http://a.test:x/", "Invalid parameter: Endpoint"),
        ("http", "http://a.test/\r\nX: y", "Invalid parameter: Endpoint"),
        ("http", "http://a b/", "Invalid parameter: Endpoint"),
        ("http", "http://a.test/" + "x" * 2048, "Invalid parameter: Endpoint"),
        ("http", "http://unreachable.test/", "Invalid parameter: Unreachable Endpoint"),
        ("email", "nobody", "Invalid parameter: Email address"),
        ("email", "a@b.test\r\nBcc: c@d.test", "Invalid parameter: Email address"),
        ("application", "x", "Invalid parameter: Application endpoint ARN"),
        (
            "application",
            f"{ARN}:endpoint/GCM/app/00000000-0000-4000-8000-000000000000",
            "Invalid parameter: Endpoint Reason: Endpoint does not exist for endpoint "
            f"{ARN}:endpoint/GCM/app/00000000-0000-4000-8000-000000000000",
        ),
        (
            "lambda",
            f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:f",
            "Invalid parameter: Protocol Reason: this server has no functions that lambda endpoints could be",
        ),
        (
            "firehose",
            f"arn:aws:firehose:{REGION}:{ACCOUNT}:deliverystream/s",
            "Invalid parameter: Protocol Reason: "
            "this server has no delivery streams that firehose endpoints could be",
        ),
    ],
)
def test_endpoints_that_no_topic_can_have(sns: SnsWorld, protocol: str, endpoint: str, text: str) -> None:
    topic = sns.make()
    sns.endpoints.unreachable.add("http://unreachable.test/")
    refused = sns.refused("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint=endpoint)
    assert refused == (INVALID, text)
    assert sns("ListSubscriptions") == {"Subscriptions": []}


@pytest.mark.parametrize("endpoint", ["+12/34-567.890", "1", "0049.1-2"])
def test_phone_numbers(sns: SnsWorld, endpoint: str) -> None:
    subscribe(sns, sns.make(), "sms", endpoint)


def test_a_password_is_not_shown(sns: SnsWorld) -> None:
    subscribe(sns, sns.make(), "https", "https://user:secret@a.test/x?y:z@")
    (listed,) = sns("ListSubscriptions")["Subscriptions"]
    assert listed["Endpoint"] == "https://user:****@a.test/x?y:z@"


def test_a_protocol_and_a_topic_are_needed(sns: SnsWorld) -> None:
    text = "Invalid parameter: {} Reason: no value for required parameter"
    assert sns.refused("Subscribe", Protocol="sqs") == (INVALID, text.format("TopicArn"))
    assert sns.refused("Subscribe", TopicArn=f"{ARN}:news") == (INVALID, text.format("Protocol"))


def test_the_protocol_is_checked_before_the_topic_and_that_before_the_endpoint(sns: SnsWorld) -> None:
    topic = f"{ARN}:missing"
    assert sns.refused("Subscribe", TopicArn=topic, Protocol="x", Endpoint="y")[0] == INVALID
    assert sns.refused("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint="y") == (
        "NotFound",
        "Topic does not exist",
    )


@pytest.mark.parametrize("protocol", ["lambda", "http", "sms", "email"])
def test_a_fifo_topic_has_queues_only(sns: SnsWorld, protocol: str) -> None:
    topic = sns.make("a.fifo")
    refused = sns.refused("Subscribe", TopicArn=topic, Protocol=protocol, Endpoint="x")
    assert refused == (INVALID, f"Invalid parameter: Invalid protocol type: {protocol}")
    for queue in ("q.fifo", "q"):
        subscribe(sns, topic, "sqs", queue_arn(queue))


RAW = {"RawMessageDelivery": "true"}


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ({}, {}),
        ({}, {"RawMessageDelivery": "False"}),
        ({}, {"FilterPolicyScope": "MessageAttributes"}),
        ({}, {"FilterPolicy": "{}"}),
        (RAW, RAW),
        (RAW, {}),
        (RAW | {"FilterPolicy": '{"a":["b"]}'}, {"FilterPolicy": '{ "a": ["b"] }'}),
    ],
)
def test_subscribing_again_finds_the_subscription(
    sns: SnsWorld, given: dict[str, str], again: dict[str, str]
) -> None:
    topic = sns.make()
    arn = subscribe(sns, topic, "sqs", queue_arn("q"), Attributes=given)
    before = sns.of_subscription(arn)
    assert subscribe(sns, topic, "sqs", queue_arn("q"), Attributes=again) == arn
    assert sns.of_subscription(arn) == before
    assert subscribe(sns, topic, "sqs", queue_arn("q2")) != arn


@pytest.mark.parametrize(
    ("given", "again"),
    [
        ({}, RAW),
        (RAW, {"RawMessageDelivery": "false"}),
        ({"FilterPolicy": '{"a":["b"]}'}, {"FilterPolicy": '{"a":["c"]}'}),
        ({"FilterPolicy": '{"a":["b"]}'}, {"FilterPolicy": "{}"}),
        ({}, {"FilterPolicyScope": "MessageBody"}),
    ],
)
def test_subscribing_differently_fails(sns: SnsWorld, given: dict[str, str], again: dict[str, str]) -> None:
    topic = sns.make()
    subscribe(sns, topic, "sqs", queue_arn("q"), Attributes=given)
    refused = sns.refused(
        "Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue_arn("q"), Attributes=again
    )
    text = "Invalid parameter: Attributes Reason: Subscription already exists with different attributes"
    assert refused == (INVALID, text)


def test_attributes_are_checked(sns: SnsWorld) -> None:
    for attributes, text in (
        ({"RawMessageDelivery": "x"}, "RawMessageDelivery: Invalid value [x]. Must be true or false."),
        ({"Unknown": "x"}, "AttributeName"),
        ({"FilterPolicy": '{"a":[]}'}, "FilterPolicy: Empty arrays are not allowed"),
    ):
        refused = sns.refused(
            "Subscribe", TopicArn=sns.make(), Protocol="sqs", Endpoint=queue_arn("q"), Attributes=attributes
        )
        assert refused[0] == INVALID
        assert refused[1].startswith(f"Invalid parameter: Attributes Reason: {text}")


def test_a_pending_subscription_gets_another_token(sns: SnsWorld) -> None:
    topic = sns.make()
    tokens = set()
    for _ in range(2):
        arn = subscribe(sns, topic, "http", "http://a.test/", ReturnSubscriptionArn=True)
        tokens.add(sns.token())
    assert len(tokens) == 2
    for token in tokens:
        assert sns("ConfirmSubscription", TopicArn=topic, Token=token) == {"SubscriptionArn": arn}


def test_a_topic_may_have_so_many_subscriptions() -> None:
    limits = SnsLimits(subscriptions_max=3, fifo_subscriptions_max=2, filters_max=1)
    with SnsWorld(limits=limits) as sns:
        for topic, most in ((sns.make(), 3), (sns.make("a.fifo"), 2)):
            for number in range(most):
                subscribe(sns, topic, "sqs", queue_arn(f"q{number}"))
            refused = sns.refused("Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue_arn("more"))
            assert refused == ("SubscriptionLimitExceeded", "Subscription limit exceeded")
            subscribe(sns, topic, "sqs", queue_arn("q0"))


def test_a_topic_may_have_so_many_filters() -> None:
    with SnsWorld(limits=SnsLimits(filters_max=1)) as sns:
        topic, policy = sns.make(), {"FilterPolicy": '{"a":["b"]}'}
        first = subscribe(sns, topic, "sqs", queue_arn("q0"), Attributes=policy)
        second = subscribe(sns, topic, "sqs", queue_arn("q1"))
        limit = "FilterPolicyLimitExceeded", "Filter policy limit exceeded"
        refused = sns.refused(
            "Subscribe", TopicArn=topic, Protocol="sqs", Endpoint=queue_arn("q2"), Attributes=policy
        )
        assert refused == limit
        members = {"AttributeName": "FilterPolicy", "AttributeValue": '{"a":["c"]}'}
        assert sns.refused("SetSubscriptionAttributes", SubscriptionArn=second, **members) == limit
        sns("SetSubscriptionAttributes", SubscriptionArn=first, **members)
        sns("Unsubscribe", SubscriptionArn=first)
        sns("SetSubscriptionAttributes", SubscriptionArn=second, **members)


# -- ConfirmSubscription -------------------------------------------------------------------------------------------


def pending(sns: SnsWorld, topic: str, endpoint: str = "http://a.test/") -> tuple[str, str]:
    """The ARN and the token of a subscription that waits."""
    arn = subscribe(sns, topic, "http", endpoint, ReturnSubscriptionArn=True)
    return arn, sns.token()


def confirm(sns: SnsWorld, topic: str, token: str, more: str = "") -> tuple[int, bytes]:
    """Follows the link."""
    answer = sns.link(f"Action=ConfirmSubscription&TopicArn={topic}&Token={token}{more}")
    return answer.status, answer.body


def test_a_link_confirms(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    assert len(token) == 256
    for _ in range(2):
        status, body = confirm(sns, topic, token)
        assert (status, arn.encode() in body) == (200, True)
    shown = sns.of_subscription(arn)
    assert (shown["PendingConfirmation"], shown["ConfirmationWasAuthenticated"]) == ("false", "false")


def test_the_link_in_the_message_is_the_one_that_confirms(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, _ = pending(sns, topic)
    body = json.loads(sns.endpoints.posted[-1][1].body)
    assert sns.link(body["SubscribeURL"].partition("?")[2]).status == 200
    assert sns.of_subscription(arn)["PendingConfirmation"] == "false"


def test_a_signed_confirmation_is_authenticated(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    sns("ConfirmSubscription", TopicArn=topic, Token=token)
    assert sns.of_subscription(arn)["ConfirmationWasAuthenticated"] == "true"


def test_the_token_decides_and_not_the_topic(sns: SnsWorld) -> None:
    topic, other = sns.make(), sns.make("other")
    arn, token = pending(sns, topic)
    assert sns("ConfirmSubscription", TopicArn=other, Token=token) == {"SubscriptionArn": arn}


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("x", "Invalid token"),
        ("", "Invalid token"),
        ("0" * 255, "Invalid token"),
        ("é" * 256, "Invalid token"),
        ("0" * 256, "Invalid parameter: Token"),
        (None, "Invalid parameter: Token Reason: no value for required parameter"),
    ],
)
def test_what_is_not_a_token(sns: SnsWorld, token: str | None, text: str) -> None:
    given = {} if token is None else {"Token": token}
    assert sns.refused("ConfirmSubscription", TopicArn=sns.make(), **given) == (INVALID, text)


@pytest.mark.parametrize("topic", ["x", "", f"arn:aws:sns:us-east-1:{ACCOUNT}:news", None])
def test_a_confirmation_names_a_topic(sns: SnsWorld, topic: str | None) -> None:
    given = {} if topic is None else {"TopicArn": topic}
    refused = sns.refused("ConfirmSubscription", Token="x", **given)
    assert refused == (INVALID, "Invalid parameter: Topic")


def test_a_token_ends(sns: SnsWorld) -> None:
    topic = sns.make()
    _, token = pending(sns, topic)
    sns.advance(2 * DAY + 1)
    refused = sns.refused("ConfirmSubscription", TopicArn=topic, Token=token)
    assert refused == (INVALID, "Invalid parameter: Token")


def test_the_token_of_what_is_gone(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    confirm(sns, topic, token)
    sns("Unsubscribe", SubscriptionArn=arn)
    assert sns.refused("ConfirmSubscription", TopicArn=topic, Token=token) == NOT_FOUND


def test_only_the_subscriber_protects_a_subscription(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    match = "To disallow anonymous unsubscription, subscriber and confirmer IDs must match"
    status, body = confirm(sns, topic, token, "&AuthenticateOnUnsubscribe=true")
    assert (status, match.encode() in body) == (403, True)
    members = {"TopicArn": topic, "Token": token, "AuthenticateOnUnsubscribe": "true"}
    sns.space = Space(OTHER, REGION)
    assert sns.refused("ConfirmSubscription", **members | {"TopicArn": topic}) == (
        "AuthorizationError",
        match,
    )
    sns.space = Space(ACCOUNT, REGION)
    sns("ConfirmSubscription", **members)
    refused = sns.refused("ConfirmSubscription", **members)
    assert refused == ("AuthorizationError", "Subscription already confirmed")
    answer = sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}")
    assert answer.status == 403
    assert b"This subscription may only be deleted by an authorized user." in answer.body
    sns("Unsubscribe", SubscriptionArn=arn)
    with pytest.raises(Refused):
        sns.of_subscription(arn)


# -- Unsubscribe ---------------------------------------------------------------------------------------------------


def test_the_owner_ends_a_subscription(sns: SnsWorld) -> None:
    topic = sns.make()
    arn = subscribe(sns, topic, "sqs", queue_arn("q"))
    for _ in range(2):
        sns("Unsubscribe", SubscriptionArn=arn)
    assert sns.refused("GetSubscriptionAttributes", SubscriptionArn=arn) == NOT_FOUND
    assert sns("ListSubscriptions") == {"Subscriptions": []}
    assert subscribe(sns, topic, "sqs", queue_arn("q")) != arn


def test_a_link_ends_a_subscription_which_can_be_restored(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    confirm(sns, topic, token)
    for _ in range(2):
        assert sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}").status == 200
    (listed,) = sns("ListSubscriptionsByTopic", TopicArn=topic)["Subscriptions"]
    assert listed["SubscriptionArn"] == "Deleted"
    assert sns.of_subscription(arn)["Endpoint"] == "http://a.test/"
    posted = [message.headers["x-amz-sns-message-type"] for _, message in sns.endpoints.posted]
    assert posted == ["SubscriptionConfirmation", "UnsubscribeConfirmation"]
    confirm(sns, topic, sns.token("UnsubscribeConfirmation"))
    (listed,) = sns("ListSubscriptionsByTopic", TopicArn=topic)["Subscriptions"]
    assert listed["SubscriptionArn"] == arn
    sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}")
    sns("Unsubscribe", SubscriptionArn=arn)
    assert sns("ListSubscriptionsByTopic", TopicArn=topic) == {"Subscriptions": []}


def test_what_was_subscribed_again_is_not_restored_beside_it(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, token = pending(sns, topic)
    confirm(sns, topic, token)
    sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}")
    restoring = sns.token("UnsubscribeConfirmation")
    newer, _ = pending(sns, topic)
    assert newer != arn
    assert sns.refused("ConfirmSubscription", TopicArn=topic, Token=restoring) == NOT_FOUND


def test_a_pending_subscription_cannot_be_ended(sns: SnsWorld) -> None:
    arn, _ = pending(sns, sns.make())
    code, text = sns.refused("Unsubscribe", SubscriptionArn=arn)
    assert code == INVALID
    assert "Cannot unsubscribe a subscription that is pending confirmation" in text


def test_links_work_in_all_regions_and_accounts(sns: SnsWorld) -> None:
    """The host of a link is one for all regions, and who follows it has no account."""
    sns.space = Space(OTHER, "us-west-2")
    topic = sns.make()
    arn, token = pending(sns, topic)
    sns.space = Space(ACCOUNT, REGION)
    assert confirm(sns, topic, token)[0] == 200
    assert sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}").status == 200


ARNS = [
    (None, "SubscriptionArn Reason: no value for required parameter"),
    ("", "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"),
    ("pending confirmation", "SubscriptionArn Reason: An ARN must have at least 6 elements, not 1"),
    (f"{ARN}:news", "SubscriptionId"),
    (f"{ARN}:news:x", "SubscriptionId"),
    (UNKNOWN.replace(REGION, "us-east-1"), "SubscriptionArn"),
]


@pytest.mark.parametrize("action", ["Unsubscribe", "GetSubscriptionAttributes", "SetSubscriptionAttributes"])
@pytest.mark.parametrize(("arn", "text"), ARNS)
def test_what_is_not_the_arn_of_a_subscription(
    sns: SnsWorld, action: str, arn: str | None, text: str
) -> None:
    given = {} if arn is None else {"SubscriptionArn": arn}
    assert sns.refused(action, **given) == (INVALID, f"Invalid parameter: {text}")


def test_a_subscription_that_there_is_not(sns: SnsWorld) -> None:
    sns("Unsubscribe", SubscriptionArn=UNKNOWN)
    assert sns.refused("GetSubscriptionAttributes", SubscriptionArn=UNKNOWN) == NOT_FOUND
    members = {"AttributeName": "RawMessageDelivery", "AttributeValue": "true"}
    assert sns.refused("SetSubscriptionAttributes", SubscriptionArn=UNKNOWN, **members) == NOT_FOUND


@pytest.mark.parametrize("ending", ["never confirmed", "ended by a link"])
def test_what_nobody_confirms_is_removed(sns: SnsWorld, ending: str) -> None:
    topic = sns.make()
    kept = subscribe(sns, topic, "sqs", queue_arn("q"))
    arn, token = pending(sns, topic)
    if ending == "ended by a link":
        confirm(sns, topic, token)
        sns.link(f"Action=Unsubscribe&SubscriptionArn={arn}")
    sns.advance(3 * DAY - HOUR)
    assert sns.of_subscription(arn)["Endpoint"] == "http://a.test/"
    sns.advance(2 * HOUR)
    assert sns.refused("GetSubscriptionAttributes", SubscriptionArn=arn) == NOT_FOUND
    assert [each["SubscriptionArn"] for each in sns("ListSubscriptions")["Subscriptions"]] == [kept]


def test_who_asks_again_has_as_much_time_again(sns: SnsWorld) -> None:
    topic = sns.make()
    arn, _ = pending(sns, topic)
    sns.advance(2 * DAY)
    assert pending(sns, topic)[0] == arn
    sns.advance(2 * DAY - HOUR)
    assert sns("ConfirmSubscription", TopicArn=topic, Token=sns.token()) == {"SubscriptionArn": arn}
    sns.advance(5 * DAY)
    assert sns.of_subscription(arn)["PendingConfirmation"] == "false"


# -- lists ---------------------------------------------------------------------------------------------------------


def test_subscriptions_are_listed_in_pages() -> None:
    with SnsWorld(shards=3) as sns:
        topics = [sns.make(name) for name in ("a", "b", "c")]
        arns = [subscribe(sns, topic, "sqs", queue_arn(f"q{n}")) for topic in topics for n in range(70)]
        first = sns("ListSubscriptions")
        second = sns("ListSubscriptions", NextToken=first["NextToken"])
        third = sns("ListSubscriptions", NextToken=second["NextToken"])
        listed = [each for page in (first, second, third) for each in page["Subscriptions"]]
        assert [each["SubscriptionArn"] for each in listed] == sorted(arns)
        assert "NextToken" not in third
        assert listed[0].keys() == {"TopicArn", "Protocol", "SubscriptionArn", "Owner", "Endpoint"}


def test_subscriptions_of_a_topic_are_listed_in_pages(sns: SnsWorld) -> None:
    topic = sns.make()
    arns = [subscribe(sns, topic, "sqs", queue_arn(f"q{number}")) for number in range(101)]
    first = sns("ListSubscriptionsByTopic", TopicArn=topic)
    second = sns("ListSubscriptionsByTopic", TopicArn=topic, NextToken=first["NextToken"])
    listed = [each["SubscriptionArn"] for page in (first, second) for each in page["Subscriptions"]]
    assert listed == sorted(arns)
    assert "NextToken" not in second
    other = sns.make("other")
    refused = sns.refused("ListSubscriptionsByTopic", TopicArn=other, NextToken=first["NextToken"])
    assert refused == (INVALID, "Invalid parameter: NextToken")
