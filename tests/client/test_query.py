"""The Query protocol: forms as AWS SDKs write them, answers as SNS was recorded to write them."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import parse_qsl

import pytest

from penstock.client.errors import Unavailable
from penstock.client.query import (
    ANSWER_BYTES_MAX,
    decode_answer,
    encode_form,
    error_of,
    read_answer,
    read_xml,
)
from penstock.client.structs import BatchResult, FoundAttributes, Nothing
from penstock.client.topic_structs import FoundTopic, ListedTags, PublishedEntry, SubscriptionPage

HEAD = 'xmlns="http://sns.amazonaws.com/doc/2010-03-31/"'


def answer(action: str, result: str) -> bytes:
    inner = f"  <{action}Result>{result}</{action}Result>\n" if result else ""
    metadata = "  <ResponseMetadata>\n    <RequestId>r</RequestId>\n  </ResponseMetadata>\n"
    return f"<{action}Response {HEAD}>\n{inner}{metadata}</{action}Response>\n".encode()


def form(**members: Any) -> dict[str, str]:
    return dict(parse_qsl(encode_form("Do", "2010-03-31", members).decode(), keep_blank_values=True))


def test_lists_maps_and_objects_have_their_names() -> None:
    written = form(
        TopicArn="a:b",
        Nothing=None,
        Flag=True,
        Attributes={"DisplayName": "", "Policy": "{}"},
        Tags=[{"Key": "k", "Value": "grün"}],
        Entries=[{"Id": "0", "MessageAttributes": {"n": {"DataType": "Binary", "BinaryValue": b"\x00\xff"}}}],
    )
    assert written == {
        "Action": "Do",
        "Version": "2010-03-31",
        "TopicArn": "a:b",
        "Flag": "true",
        "Attributes.entry.1.key": "DisplayName",
        "Attributes.entry.1.value": "",
        "Attributes.entry.2.key": "Policy",
        "Attributes.entry.2.value": "{}",
        "Tags.member.1.Key": "k",
        "Tags.member.1.Value": "grün",
        "Entries.member.1.Id": "0",
        "Entries.member.1.MessageAttributes.entry.1.Name": "n",
        "Entries.member.1.MessageAttributes.entry.1.Value.DataType": "Binary",
        "Entries.member.1.MessageAttributes.entry.1.Value.BinaryValue": "AP8=",
    }


def test_what_no_form_can_hold_is_refused() -> None:
    with pytest.raises(TypeError, match="Members"):
        form(Members=object())


def test_an_answer_becomes_its_struct() -> None:
    created = answer("CreateTopic", "\n    <TopicArn>arn:aws:sns:x:1:a</TopicArn>\n  ")
    assert decode_answer(FoundTopic, "CreateTopic", created) == FoundTopic("arn:aws:sns:x:1:a")
    assert decode_answer(Nothing, "DeleteTopic", answer("DeleteTopic", "")) == Nothing()


def test_entities_and_empty_values_of_attributes_are_read() -> None:
    entries = (
        "<entry><key>DisplayName</key><value/></entry>"
        "<entry><key>Policy</key><value>{&quot;a&quot;:&quot;&lt;&amp;&#xFC;&quot;}</value></entry>"
    )
    read = decode_answer(
        FoundAttributes,
        "GetTopicAttributes",
        answer("GetTopicAttributes", f"<Attributes>{entries}</Attributes>"),
    )
    assert read.attributes == {"DisplayName": "", "Policy": '{"a":"<&ü"}'}


def test_empty_lists_and_texts_are_read() -> None:
    assert decode_answer(SubscriptionPage, "L", answer("L", "<Subscriptions/>")) == SubscriptionPage([], None)
    tags = decode_answer(ListedTags, "L", answer("L", "<Tags><member><Key>k</Key><Value/></member></Tags>"))
    assert [(tag.key, tag.value) for tag in tags.tags] == [("k", "")]


def test_a_batch_is_read_with_its_failures() -> None:
    result = (
        "<Failed><member><Id>1</Id><Code>InvalidParameter</Code><Message>no</Message>"
        "<SenderFault>true</SenderFault></member></Failed>"
        "<Successful><member><SequenceNumber>10000000000000003000</SequenceNumber><Id>0</Id>"
        "<MessageId>m</MessageId></member></Successful>"
    )
    read = decode_answer(BatchResult[PublishedEntry], "PublishBatch", answer("PublishBatch", result))
    assert read.successful == [PublishedEntry("m", "10000000000000003000", id="0")]
    assert [(each.id, each.code, each.sender_fault) for each in read.failed] == [
        ("1", "InvalidParameter", True)
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{}", b"<html>gateway</html>", answer("Other", "<TopicArn>a</TopicArn>"),
        answer("CreateTopic", "<TopicArn>a</TopicArn>")[:-3], answer("CreateTopic", "<TopicArn/>"), b"\xff\xfe\x00",
    ],
)  # fmt: skip
def test_something_else_is_no_answer(content: bytes) -> None:
    with pytest.raises(Unavailable):
        decode_answer(FoundTopic, "CreateTopic", content)


def test_an_answer_without_a_result_has_no_members() -> None:
    assert read_answer("DeleteTopic", answer("DeleteTopic", "")) == {}


def test_a_document_with_entities_is_not_read() -> None:
    levels = "".join(f'<!ENTITY a{n} "{f"&a{n - 1};" * 10}">' for n in range(1, 10))
    bomb = f'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a0 "aaaaaaaaaa">{levels}]><x>&a9;</x>'.encode()
    begun = time.process_time()
    assert read_xml(bomb) is None
    assert time.process_time() - begun < 1
    assert read_xml(b'<!DOCTYPE x SYSTEM "file:///etc/passwd"><x>a</x>') is None


def test_the_depth_and_the_size_of_an_answer_are_bounded() -> None:
    assert read_xml(b"<a>" * 20 + b"</a>" * 20) is not None
    assert read_xml(b"<a>" * 21 + b"</a>" * 21) is None
    assert read_xml(b"<a>" + b"x" * ANSWER_BYTES_MAX + b"</a>") is None


def test_an_error_is_found_wherever_it_stands() -> None:
    error = b"<ErrorResponse><Error><Type>Sender</Type><Code>InvalidParameter</Code><Message>a &quot;b&quot; &amp;lt;"
    assert error_of(error + b"</Message></Error></ErrorResponse>") == {
        "__type": "InvalidParameter", "message": 'a "b" &lt;'
    }  # fmt: skip
    assert error_of(b"<html>") == {}
