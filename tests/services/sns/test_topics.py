"""CreateTopic, DeleteTopic, ListTopics: their rules and texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from penstock.services.sns import SnsLimits
from services.sns.world import ARN, SnsWorld

INVALID = "InvalidParameter"
NAME = "Invalid parameter: Topic Name"
DIFFERENT = "Invalid parameter: Attributes Reason: Topic already exists with different attributes"
OTHER_TAGS = "Invalid parameter: Tags Reason: Topic already exists with different tags"
FIFO = {"FifoTopic": "true"}


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("", {}),
        ("a" * 257, {}),
        ("a b", {}),
        ("a/b", {}),
        ("é", {}),
        ("a\n", {}),
        ("a.fifo", {}),
        ("a.fifo", {"FifoTopic": "false"}),
        ("a", FIFO),
        ("a" * 252 + ".fifo", FIFO),
        (".fifo", FIFO),
    ],
)
def test_names_that_no_topic_can_have(sns: SnsWorld, name: str, attributes: dict[str, str]) -> None:
    assert sns.refused("CreateTopic", Name=name, Attributes=attributes) == (INVALID, NAME)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [("a" * 256, {}), ("A-_9", {"FifoTopic": "FALSE"}), ("a" * 251 + ".fifo", {"FifoTopic": "True"})],
)
def test_names_that_topics_can_have(sns: SnsWorld, name: str, attributes: dict[str, str]) -> None:
    assert sns("CreateTopic", Name=name, Attributes=attributes) == {"TopicArn": f"{ARN}:{name}"}


def test_a_name_is_needed(sns: SnsWorld) -> None:
    assert sns.refused("CreateTopic") == (INVALID, NAME)


def test_a_fifo_topic_is_fifo_also_when_it_is_created_again(sns: SnsWorld) -> None:
    sns.make("a.fifo")
    assert sns.refused("CreateTopic", Name="a.fifo") == (INVALID, NAME)


def test_whether_a_topic_is_fifo_is_true_or_false(sns: SnsWorld) -> None:
    text = "Invalid parameter: Attributes Reason: FifoTopic: Invalid value [garbage]. Must be true or false."
    assert sns.refused("CreateTopic", Name="a", Attributes={"FifoTopic": "garbage"}) == (INVALID, text)


@pytest.mark.parametrize(
    "again",
    [
        {},
        {"Attributes": {}},
        {"Attributes": {"DisplayName": "shown"}},
        {"Attributes": {"DisplayName": "shown", "FifoTopic": "false"}},
        {"Attributes": {"TracingConfig": "Active", "DisplayName": "shown"}},
        {"Tags": []},
        {"Tags": [{"Key": "a", "Value": "1"}]},
        {"Tags": [{"Key": "b", "Value": ""}, {"Key": "a", "Value": "1"}]},
    ],
)
def test_creating_a_topic_again_finds_it(sns: SnsWorld, again: dict[str, Any]) -> None:
    created = sns(
        "CreateTopic",
        Name="a",
        Attributes={"DisplayName": "shown", "TracingConfig": "Active"},
        Tags=[{"Key": "a", "Value": "1"}, {"Key": "b", "Value": ""}],
    )
    before = sns.attributes(created["TopicArn"])
    assert sns("CreateTopic", Name="a", **again) == created
    assert sns.attributes(created["TopicArn"]) == before


@pytest.mark.parametrize(
    ("again", "text"),
    [
        ({"Attributes": {"DisplayName": "other"}}, DIFFERENT),
        ({"Attributes": {"SignatureVersion": "2"}}, DIFFERENT),
        ({"Attributes": {"DisplayName": "other"}, "Tags": [{"Key": "c", "Value": ""}]}, DIFFERENT),
        ({"Tags": [{"Key": "a", "Value": "2"}]}, OTHER_TAGS),
        ({"Tags": [{"Key": "a", "Value": "1"}, {"Key": "b", "Value": "1"}]}, OTHER_TAGS),
    ],
)
def test_creating_a_different_topic_of_the_same_name_fails(
    sns: SnsWorld, again: dict[str, Any], text: str
) -> None:
    arn = sns(
        "CreateTopic", Name="a", Attributes={"DisplayName": "shown"}, Tags=[{"Key": "a", "Value": "1"}]
    )["TopicArn"]
    assert sns.refused("CreateTopic", Name="a", **again) == (INVALID, text)
    assert sns.attributes(arn)["DisplayName"] == "shown"
    assert sns("ListTagsForResource", ResourceArn=arn)["Tags"] == [{"Key": "a", "Value": "1"}]


def test_an_archive_is_never_the_same(sns: SnsWorld) -> None:
    archive = {"ArchivePolicy": '{"MessageRetentionPeriod":"30"}'}
    arn = sns.make("a.fifo", **archive)
    for given in (archive, {"ArchivePolicy": '{"MessageRetentionPeriod": 30}'}):
        assert sns.refused("CreateTopic", Name="a.fifo", Attributes=FIFO | given) == (INVALID, DIFFERENT)
    sns("CreateTopic", Name="a.fifo", Attributes=FIFO)
    sns.set(arn, "ArchivePolicy", "{}")
    sns("CreateTopic", Name="a.fifo", Attributes=FIFO | {"ArchivePolicy": "{}"})


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"ContentBasedDeduplication": "true"}, "AttributeName"),
        ({"Unknown": "x"}, "AttributeName"),
        ({"TracingConfig": "x"}, "Invalid tracing config value: x"),
        ({"Policy": "x"}, "Policy Error: null"),
    ],
)
def test_values_of_attributes_are_checked(sns: SnsWorld, attributes: dict[str, str], text: str) -> None:
    refused = sns.refused("CreateTopic", Name="a", Attributes=attributes)
    assert refused == (INVALID, f"Invalid parameter: Attributes Reason: {text}")
    assert sns("ListTopics") == {"Topics": []}


@pytest.mark.parametrize(
    ("tags", "code", "text"),
    [
        (
            [{"Key": "a", "Value": "1"}] * 2,
            INVALID,
            "Invalid parameter: Duplicated keys are not allowed.",
        ),
        (
            [{"Key": f"k{number}", "Value": ""} for number in range(51)],
            "TagLimitExceeded",
            "Could not complete request: tag quota of per resource exceeded",
        ),
        (
            [{"Key": "", "Value": ""}],
            "ValidationError",
            "1 validation error detected: Value '' at 'tags.1.member.key' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1",
        ),
        (
            [{"Key": "a"}],
            "ValidationError",
            "1 validation error detected: Value null at 'tags.1.member.value' failed to satisfy constraint: "
            "Member must not be null",
        ),
    ],
)
def test_tags_are_checked(sns: SnsWorld, tags: list[dict[str, str]], code: str, text: str) -> None:
    assert sns.refused("CreateTopic", Name="a", Tags=tags) == (code, text)


def test_data_protection_is_not_supported(sns: SnsWorld) -> None:
    assert sns.refused("CreateTopic", Name="a", DataProtectionPolicy="{}") == (
        INVALID,
        "Invalid parameter: DataProtectionPolicy Reason: "
        "Data protection functionality is not supported in this region",
    )


def test_deleting_a_topic_twice_is_no_error(sns: SnsWorld) -> None:
    arn = sns.make(DisplayName="shown")
    subscription = sns.subscribe_to(arn)
    sns("TagResource", ResourceArn=arn, Tags=[{"Key": "a", "Value": ""}])
    for _ in range(2):
        sns("DeleteTopic", TopicArn=arn)
    for action in ("GetTopicAttributes", "ListSubscriptionsByTopic"):
        assert sns.refused(action, TopicArn=arn) == ("NotFound", "Topic does not exist")
    assert sns.refused("GetSubscriptionAttributes", SubscriptionArn=subscription)[0] == "NotFound"
    sns.make()
    assert sns.attributes(arn)["DisplayName"] == ""
    assert sns("ListTagsForResource", ResourceArn=arn) == {"Tags": []}
    assert sns("ListSubscriptionsByTopic", TopicArn=arn) == {"Subscriptions": []}


def test_a_topic_with_an_archive_is_not_deleted(sns: SnsWorld) -> None:
    arn = sns.make("a.fifo", ArchivePolicy='{"MessageRetentionPeriod":1}')
    text = "Invalid state: Cannot delete a topic with an ArchivePolicy"
    assert sns.refused("DeleteTopic", TopicArn=arn) == ("InvalidState", text)
    sns.set(arn, "ArchivePolicy", "{}")
    sns("DeleteTopic", TopicArn=arn)
    assert sns("ListTopics") == {"Topics": []}


ARNS = [
    ("", "TopicArn Reason: An ARN must have at least 6 elements, not 1"),
    ("a:b", "TopicArn Reason: An ARN must have at least 6 elements, not 2"),
    (None, "TopicArn Reason: no value for required parameter"),
    (f"arn:aws:sns:us-east-1:{'0' * 12}:news", "TopicArn"),
    (f"arn:aws:sqs:eu-west-1:{'0' * 12}:news", "TopicArn"),
    (f"arn:other:sns:eu-west-1:{'0' * 12}:news", "TopicArn"),
    (f"{ARN}:a b", "TopicArn"),
    (f"{ARN}:news:{'0' * 8}-0000-4000-8000-{'0' * 12}", "TopicArn"),
]


@pytest.mark.parametrize("action", ["GetTopicAttributes", "DeleteTopic", "ListSubscriptionsByTopic"])
@pytest.mark.parametrize(("arn", "text"), ARNS)
def test_what_is_not_the_arn_of_a_topic_here(sns: SnsWorld, action: str, arn: str | None, text: str) -> None:
    given = {} if arn is None else {"TopicArn": arn}
    assert sns.refused(action, **given) == (INVALID, f"Invalid parameter: {text}")


def test_on_an_open_server_there_are_no_topics_of_other_accounts(sns: SnsWorld) -> None:
    foreign = "arn:aws:sns:eu-west-1:111111111111:news"
    assert sns.refused("GetTopicAttributes", TopicArn=foreign) == ("NotFound", "Topic does not exist")


def test_topics_are_listed_in_pages(sns: SnsWorld) -> None:
    names = sorted(f"topic-{number}" for number in range(205))
    for name in names:
        sns.make(name)
    pages = list(_pages(sns))
    assert [len(page) for page in pages] == [100, 100, 5]
    assert [arn for page in pages for arn in page] == [f"{ARN}:{name}" for name in names]


def _pages(sns: SnsWorld) -> Iterator[list[str]]:
    token: dict[str, str] = {}
    while True:
        page = sns("ListTopics", **token)
        yield [topic["TopicArn"] for topic in page["Topics"]]
        if "NextToken" not in page:
            return
        token = {"NextToken": page["NextToken"]}


@pytest.mark.parametrize("token", ["x", "####", "AAAA", "é"])
def test_a_token_of_no_page(sns: SnsWorld, token: str) -> None:
    assert sns.refused("ListTopics", NextToken=token) == (INVALID, "Invalid parameter: NextToken")


def test_a_token_serves_its_own_list_only(sns: SnsWorld) -> None:
    for number in range(101):
        sns.make(f"topic-{number}")
    token = sns("ListTopics")["NextToken"]
    assert sns.refused("ListSubscriptions", NextToken=token)[1] == "Invalid parameter: NextToken"


def test_an_account_may_have_so_many_topics() -> None:
    with SnsWorld(shards=3, limits=SnsLimits(topics_max=3, fifo_topics_max=1)) as sns:
        for number in range(3):
            sns.make(f"topic-{number}")
        sns.make("a.fifo")
        for name, attributes in (("more", {}), ("b.fifo", FIFO)):
            refused = sns.refused("CreateTopic", Name=name, Attributes=attributes)
            assert refused == ("TopicLimitExceeded", "Topic limit exceeded")
        sns.make("topic-0")  # it is there


def test_an_account_may_store_so_many_bytes() -> None:
    with SnsWorld(limits=SnsLimits(topic_bytes_max=10_000)) as sns:
        arn = sns.make()
        sns.set(arn, "KmsMasterKeyId", "k" * 2000)
        for number in range(4):
            sns.make(f"topic-{number}")
        refused = sns.refused("CreateTopic", Name="more", Attributes={"KmsMasterKeyId": "k" * 2000})
        assert refused == (
            "Throttled",
            "The account may have 10000 bytes of topics and subscriptions, and no more.",
        )
        sns.set(arn, "KmsMasterKeyId", "")
        sns.make("more", KmsMasterKeyId="k" * 2000)
