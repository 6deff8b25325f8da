"""Publish and PublishBatch: what is checked, in which words, and what comes back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.auth.encryption.root_key import RootKey
from penstock.errors import KeyDisabled, KeyMissing
from penstock.names import Space
from penstock.server.encryption import Encryption
from penstock.server.settings.config import Config
from penstock.testing.clock import ManualClock
from services.sns.world import ACCOUNT, ARN, Refused, SnsWorld, queue_arn

INVALID = "InvalidParameter"
VALUE = "ParameterValueInvalid"
NEWS = f"{ARN}:news"
FIFO = {"MessageGroupId": "g", "MessageDeduplicationId": "d"}


def refused(sns: SnsWorld, **members: Any) -> str:
    """The text behind "Invalid parameter: "."""
    code, text = sns.refused("Publish", **{"TopicArn": NEWS, "Message": "m"} | members)
    assert code == INVALID, text
    return text.removeprefix("Invalid parameter: ")


# -- texts ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"Message": ""}, "Empty message"),
        ({"Message": None}, "Empty message"),
        ({"Subject": ""}, "Subject"),
        ({"Subject": "x" * 101}, "Subject"),
        ({"Subject": "😀" * 51}, "Subject"),
        ({"Subject": "a\nb"}, "Subject"),
        ({"Subject": "a\x07"}, "Subject"),
        ({"Message": "x" * 262_145}, "Message too long"),
        ({"Message": "é" * 131_073}, "Message too long"),
        (
            {
                "Message": "x" * (262_144 - 8),
                "MessageAttributes": {"ab": {"DataType": "String", "StringValue": "v"}},
            },
            "Message too long",
        ),
        ({"MessageGroupId": ""}, "The MessageGroupId parameter can only include alphanumeric and punctuation "
         "characters. 1 to 128 in length"),
        ({"MessageGroupId": "a b"}, "The MessageGroupId parameter can only include alphanumeric and punctuation "
         "characters. 1 to 128 in length"),
        ({"MessageGroupId": "x" * 129}, "The MessageGroupId parameter can only include alphanumeric and punctuation "
         "characters. 1 to 128 in length"),
        ({"MessageGroupId": "é"}, "The MessageGroupId parameter can only include alphanumeric and punctuation "
         "characters. 1 to 128 in length"),
        (
            {"MessageDeduplicationId": "d"},
            "MessageDeduplicationId Reason: The request includes MessageDeduplicationId parameter that is not valid "
            "for this topic type",
        ),
        (
            {"MessageStructure": "json", "Message": "x"},
            "Message Structure - JSON message body failed to parse",
        ),
        (
            {"MessageStructure": "json", "Message": '{"default":"\\ud800"}'},
            "Message Structure - JSON message body failed to parse",
        ),
        (
            {"MessageStructure": "json", "Message": "{" * 100_000},
            "Message Structure - JSON message body failed to parse",
        ),
        (
            {"MessageStructure": "json", "Message": '{"default":' + "[" * 100_000},
            "Message Structure - JSON message body failed to parse",
        ),
        (
            {"MessageStructure": "json", "Message": '{"sqs":"x"}'},
            "Message Structure - No default entry in JSON message body",
        ),
        (
            {"MessageStructure": "json", "Message": '{"default":{}}'},
            "Message Structure - No default entry in JSON message body",
        ),
        (
            {"MessageStructure": "json", "Message": '{"default":[]}'},
            "Message Structure - No default entry in JSON message body",
        ),
        (
            {"MessageStructure": "json", "Message": "[]"},
            "Message Structure - No default entry in JSON message body",
        ),
        ({"MessageStructure": "xml"}, "MessageStructure"),
        ({"TopicArn": None}, "TopicArn or TargetArn Reason: no value for required parameter"),
        ({"TopicArn": ""}, "TopicArn Reason: An ARN must have at least 6 elements, not 1"),
        ({"TopicArn": f"arn:aws:sns:us-east-1:{ACCOUNT}:news"}, "TopicArn"),
        ({"TopicArn": None, "TargetArn": f"arn:aws:sns:us-east-1:{ACCOUNT}:news"}, "TargetArn"),
        ({"TopicArn": None, "PhoneNumber": "x"}, "PhoneNumber Reason: x is not valid to publish to"),
        ({"PhoneNumber": "+1234567"}, "TopicArn, TargetArn or PhoneNumber Reason: only one of them can be given"),
        (
            {"TopicArn": None, "TargetArn": f"{ARN}:endpoint/GCM/app"},
            "TargetArn Reason: Wrong number of slashes in relative portion of the ARN.",
        ),
        (
            {"TopicArn": None, "TargetArn": f"{ARN}:endpoint/GCM/app/00000000-0000-4000-8000-000000000000"},
            "TargetArn Reason: No endpoint found for the target arn specified",
        ),
    ],
)  # fmt: skip
def test_what_is_refused(sns: SnsWorld, members: dict[str, Any], text: str) -> None:
    sns.make()
    assert refused(sns, **members) == text


def test_a_topic_that_there_is_not(sns: SnsWorld) -> None:
    for given in ({"TopicArn": NEWS}, {"TargetArn": NEWS}):
        assert sns.refused("Publish", Message="m", **given) == ("NotFound", "Topic does not exist")


@pytest.mark.parametrize(
    "members",
    [
        {"Subject": "x" * 100},
        {"Subject": "字" * 100},
        {"Subject": "😀" * 50},
        {"Message": "x" * 262_144, "Subject": "does not count"},
        {"MessageGroupId": "!~" * 64},
        {"MessageStructure": "json", "Message": '{"default":""}'},
        {"TopicArn": None, "TargetArn": NEWS},
        {"MessageStructure": ""},
    ],
)
def test_what_is_taken(sns: SnsWorld, members: dict[str, Any]) -> None:
    sns.make()
    answer = sns("Publish", **{"TopicArn": NEWS, "Message": "m"} | members)
    assert answer.keys() == {"MessageId"}


def test_a_topic_says_how_large_messages_may_be(sns: SnsWorld) -> None:
    sns.make(MaximumMessageSize="1024")
    assert refused(sns, Message="x" * 1025) == "Message too long"
    sns.set(NEWS, "MaximumMessageSize", "300000")
    sns("Publish", TopicArn=NEWS, Message="x" * 300_000)


# -- structured messages -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ('{"default":"d","sqs":"s"}', "s"),
        ('{"default":"d","sqs":""}', ""),
        ('{"default":"d"}', "d"),
        ('{"default":"d","sqs":7}', "d"),
        ('{"default":"d","sqs":{"x":1}}', "d"),
        ('{"default":"d","email":"e"}', "d"),
        ('{"default":17}', "17"),
        ('{"default":1.50}', "1.50"),
        ('{"default":true}', "true"),
        ('{"default":  null  }', "null"),
        ('{"default":"a","default":"b"}', "b"),
        ('{"default":"\\u00e9\\n"}', "é\n"),
    ],
)
def test_each_protocol_has_its_text(sns: SnsWorld, message: str, text: str) -> None:
    sns.create("q0")
    sns.subscribe_to(sns.make(), endpoint=queue_arn("q0"))
    sns("Publish", TopicArn=NEWS, Message=message, MessageStructure="json")
    assert sns.texts("q0") == [text]


# -- attributes of messages ------------------------------------------------------------------------------------------


def no_value(data_type: str) -> str:
    return (
        "The message attribute 'a' must contain non-empty message attribute value "
        f"for message attribute type '{data_type}'."
    )


BAD_TYPE = (
    "The message attribute 'a' has an invalid message attribute type, "
    "the set of supported type prefixes is Binary, Number, and String."
)


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ({"DataType": "String"}, no_value("String")),
        ({"DataType": "String", "StringValue": ""}, no_value("String")),
        ({"DataType": "Binary", "BinaryValue": ""}, no_value("Binary")),
        ({"DataType": "Number", "StringValue": ""}, no_value("Number")),
        (
            {"DataType": "Number", "BinaryValue": "AAE="},
            "The message attribute 'a' with type 'Number' must use field 'String'.",
        ),
        (
            {"DataType": "String", "BinaryValue": "AAE="},
            "The message attribute 'a' with type 'String' must use field 'String'.",
        ),
        (
            {"DataType": "Binary", "StringValue": "x"},
            "The message attribute 'a' with type 'Binary' must use field 'Binary'.",
        ),
        (
            {"DataType": "String", "StringValue": "x", "BinaryValue": "AAE="},
            "The message attribute 'a' with type 'String' must use field 'String'.",
        ),
        ({"DataType": "", "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "String.", "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "Stringx", "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "string", "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "String.\n", "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "String." + "x" * 300, "StringValue": "x"}, BAD_TYPE),
        ({"DataType": "Number", "StringValue": "x"}, "Could not cast message attribute 'a' value to number."),
        (
            {"DataType": "Number", "StringValue": "1_0"},
            "Could not cast message attribute 'a' value to number.",
        ),
        (
            {"DataType": "Number", "StringValue": "NaN"},
            "Could not cast message attribute 'a' value to number.",
        ),
        (
            {"DataType": "Number", "StringValue": "9" * 400},
            "Could not cast message attribute 'a' value to number.",
        ),
        (
            {"DataType": "Number", "StringValue": "1e-100000"},
            "Message attribute 'a' number value [1e-100000] scale must be 10^-128 and 10^126.",
        ),
        (
            {"DataType": "Number", "StringValue": "1e127"},
            "Message attribute 'a' number value [1e127] scale must be 10^-128 and 10^126.",
        ),
        (
            {"DataType": "Number", "StringValue": "1" * 39},
            f"Message attribute 'a' number value [{'1' * 39}] must have less than 38 precision digits.",
        ),
    ],
)
def test_values_that_are_refused(sns: SnsWorld, attribute: dict[str, str], text: str) -> None:
    sns.make()
    members = {"TopicArn": NEWS, "Message": "m", "MessageAttributes": {"a": attribute}}
    assert sns.refused("Publish", **members) == (VALUE, text)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x" * 257, "Length of message attribute name must be less than 256 bytes."),
        (
            "a^b",
            "Invalid non-alphanumeric character '#x5E' was found in the message attribute name. "
            "Can only include alphanumeric characters, hyphens, underscores, or dots.",
        ),
        (
            "a\n",
            "Invalid non-alphanumeric character '#xA' was found in the message attribute name. "
            "Can only include alphanumeric characters, hyphens, underscores, or dots.",
        ),
        (".a", "Invalid message attribute name starting with character '.' was found."),
        ("a.", "Invalid message attribute name ending with character '.' was found."),
        ("a..b", "Message attribute name can not have successive '.' character."),
    ],
)
def test_names_that_are_refused(sns: SnsWorld, name: str, text: str) -> None:
    sns.make()
    attributes = {name: {"DataType": "String", "StringValue": "x"}}
    refused = sns.refused("Publish", TopicArn=NEWS, Message="m", MessageAttributes=attributes)
    assert refused == (VALUE, text)


def test_a_type_is_needed(sns: SnsWorld) -> None:
    """The framework finds it before anything else is checked."""
    sns.make()
    attributes = {"attr1": {"StringValue": "x"}}
    text = (
        "1 validation error detected: Value null at '{}messageAttributes.attr1.member.dataType' "
        "failed to satisfy constraint: Member must not be null"
    )
    refused = sns.refused("Publish", TopicArn=NEWS, Message="", MessageAttributes=attributes)
    assert refused == ("ValidationError", text.format(""))
    entries = [{"Id": "x", "Message": "m", "MessageAttributes": attributes}]
    refused = sns.refused("PublishBatch", TopicArn=NEWS, PublishBatchRequestEntries=entries)
    assert refused == ("ValidationError", text.format("publishBatchRequestEntries.1.member."))


def test_characters_that_no_attribute_has(sns: SnsWorld) -> None:
    sns.make()
    attributes = {"k": {"DataType": "String", "StringValue": "😀"}}
    text = "Invalid attribute value was passed in for message attribute k"
    assert refused(sns, MessageAttributes=attributes) == text


@pytest.mark.parametrize("number", ["0001.23000", "1e126", "1e-128", "-5", "+.5", "0", "1" * 38, "0e999"])
def test_numbers_stay_as_they_were_sent(sns: SnsWorld, number: str) -> None:
    sns.create("q0")
    sns.subscribe_to(sns.make(), endpoint=queue_arn("q0"))
    attributes = {"n": {"DataType": "Number", "StringValue": number}}
    sns("Publish", TopicArn=NEWS, Message="m", MessageAttributes=attributes)
    (body,) = sns.taken("q0")
    assert json.loads(body)["MessageAttributes"] == {"n": {"Type": "Number", "Value": number}}


# -- FIFO topics ---------------------------------------------------------------------------------------------------


def test_what_a_fifo_topic_wants(sns: SnsWorld) -> None:
    topic = sns.make("a.fifo")
    assert refused(sns, TopicArn=topic) == "The MessageGroupId parameter is required for FIFO topics"
    assert refused(sns, TopicArn=topic, MessageGroupId="g") == (
        "The topic should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly"
    )
    assert refused(sns, TopicArn=topic, **FIFO | {"MessageDeduplicationId": ""}) == (
        "The MessageDeduplicationId parameter can only include alphanumeric and punctuation characters. "
        "1 to 128 in length"
    )
    sns.set(topic, "ContentBasedDeduplication", "true")
    sns("Publish", TopicArn=topic, Message="m", MessageGroupId="g")


def test_sequence_numbers_and_duplicates(sns: SnsWorld) -> None:
    topic = sns.make("a.fifo")
    first = sns("Publish", TopicArn=topic, Message="m", **FIFO)
    assert (len(first["SequenceNumber"]), first["SequenceNumber"][0]) == (20, "1")
    assert sns("Publish", TopicArn=topic, Message="other", **FIFO) == first
    second = sns("Publish", TopicArn=topic, Message="m", **FIFO | {"MessageDeduplicationId": "e"})
    assert second["SequenceNumber"] > first["SequenceNumber"]
    assert second["MessageId"] != first["MessageId"]


# -- keys ----------------------------------------------------------------------------------------------------------


class Keys:
    """A guard that knows one key, which is disabled."""

    def check(self, space: Space, key: str) -> None:
        raise (KeyDisabled if key == "off" else KeyMissing)(
            f"arn:aws:kms:{space.region}:{space.account}:key/{key}"
        )


@pytest.mark.parametrize(("key", "code"), [("off", "KMSDisabled"), ("missing", "KMSNotFound")])
def test_a_topic_whose_key_cannot_be_used(key: str, code: str) -> None:
    with SnsWorld(keys=Keys()) as sns:
        sns.make(KmsMasterKeyId=key)
        assert sns.refused("Publish", TopicArn=NEWS, Message="m")[0] == code
        entries = [{"Id": "x", "Message": "m"}]
        assert sns.refused("PublishBatch", TopicArn=NEWS, PublishBatchRequestEntries=entries)[0] == code
        sns.set(NEWS, "KmsMasterKeyId", "")
        sns("Publish", TopicArn=NEWS, Message="m")


def test_a_topic_with_the_key_that_aws_manages(tmp_path: Path) -> None:
    guard = Encryption(Config(data=tmp_path, memory=True), RootKey(bytes(32)), ManualClock()).guard
    with SnsWorld(keys=guard) as sns:
        sns.make(KmsMasterKeyId="alias/aws/sns")
        sns("Publish", TopicArn=NEWS, Message="m")


# -- batches -------------------------------------------------------------------------------------------------------


def batch(sns: SnsWorld, *entries: dict[str, Any], topic: str = NEWS) -> dict[str, Any]:
    numbered = [{"Id": str(number), "Message": "m"} | entry for number, entry in enumerate(entries)]
    return sns("PublishBatch", TopicArn=topic, PublishBatchRequestEntries=numbered)


@pytest.mark.parametrize(
    ("entries", "code", "text"),
    [
        ([], "EmptyBatchRequest", "There should be at least one PublishBatchRequestEntry in the request."),
        (
            [{}] * 11,
            "TooManyEntriesInBatchRequest",
            "The batch request contains more entries than permissible.",
        ),
        (
            [{"Id": "x"}, {"Id": "x"}],
            "BatchEntryIdsNotDistinct",
            "Two or more batch entries in the request have the same Id.",
        ),
        (
            [{"Id": "a b"}],
            "InvalidBatchEntryId",
            "The Id of a batch entry in the batch request contains an impermissible character: a b",
        ),
        (
            [{"Id": "x" * 81}],
            "InvalidBatchEntryId",
            f"The Id of a batch entry in the batch request is too long: {'x' * 81}",
        ),
        (
            [{"Message": "x" * 131_073}] * 2,
            "BatchRequestTooLong",
            "The length of all the messages put together is more than the limit.",
        ),
        (
            [{}, {"MessageAttributes": {"a": {"DataType": "String"}}}],
            VALUE,
            no_value("String"),
        ),
    ],
)
def test_batches_that_are_refused(sns: SnsWorld, entries: list[dict[str, Any]], code: str, text: str) -> None:
    sns.create("q0")
    sns.subscribe_to(sns.make(), endpoint=queue_arn("q0"))
    with pytest.raises(Refused) as caught:
        batch(sns, *entries)
    assert caught.value.error == (code, text)
    assert sns.taken("q0") == []


def test_an_entry_has_an_id(sns: SnsWorld) -> None:
    sns.make()
    refused = sns.refused("PublishBatch", TopicArn=NEWS, PublishBatchRequestEntries=[{"Message": "m"}])
    assert refused[1].startswith(
        "1 validation error detected: Value null at 'publishBatchRequestEntries.1.member.id'"
    )
    assert sns.refused("PublishBatch", TopicArn=NEWS)[0] == "EmptyBatchRequest"


def test_the_good_messages_of_a_standard_topic_are_published(sns: SnsWorld) -> None:
    sns.create("q0")
    sns.subscribe_to(sns.make(), endpoint=queue_arn("q0"))
    answer = batch(
        sns,
        {"Message": "first"},
        {"Message": ""},
        {"Subject": "a\nb"},
        {"MessageGroupId": "a b"},
        {"Message": "x", "MessageStructure": "json"},
        {"Message": "last"},
    )
    assert [each["Id"] for each in answer["Successful"]] == ["0", "5"]
    assert [(each["Id"], each["Code"], each["SenderFault"]) for each in answer["Failed"]] == [
        (str(number), INVALID, True) for number in range(1, 5)
    ]
    assert answer["Failed"][0]["Message"] == "Invalid parameter: Empty message"
    assert sorted(sns.texts("q0")) == ["first", "last"]


@pytest.mark.parametrize(
    "bad",
    [
        {"MessageGroupId": None},
        {"MessageDeduplicationId": None},
        {"MessageGroupId": "a b"},
        {"Message": ""},
        {"Subject": "\n"},
        {"Message": "x", "MessageStructure": "json"},
    ],
)
def test_one_bad_message_fails_all_of_a_fifo_topic(sns: SnsWorld, bad: dict[str, Any]) -> None:
    topic = sns.make("a.fifo")
    sns.create("q.fifo")
    sns.subscribe_to(topic, endpoint=queue_arn("q.fifo"))
    with pytest.raises(Refused) as caught:
        batch(sns, FIFO, FIFO | bad, topic=topic)
    assert caught.value.code == INVALID
    assert sns.taken("q.fifo") == []


def test_a_batch_of_a_fifo_topic(sns: SnsWorld) -> None:
    topic = sns.make("a.fifo")
    entries = [FIFO | {"MessageDeduplicationId": id} for id in ("a", "b", "a")]
    answer = batch(sns, *entries, topic=topic)
    numbers = [each["SequenceNumber"] for each in answer["Successful"]]
    assert (numbers[0] == numbers[2], numbers[0] < numbers[1]) == (True, True)
    ids = [each["MessageId"] for each in answer["Successful"]]
    assert (ids[0] == ids[2], ids[0] == ids[1]) == (True, False)
