"""How SNS writes XML, byte for byte, and how clients write requests."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from services.sns.world import ARN, NAMESPACE, SnsWorld, queue_arn
from support.http_requests import PlainRequest, form_request

NEWS = f"{ARN}:news"


def document(action: str, result: str = "") -> bytes:
    """``result``: the lines between the first and the metadata."""
    return (
        f'<{action}Response xmlns="{NAMESPACE}">\n{result}'
        "  <ResponseMetadata>\n    <RequestId>rid</RequestId>\n  </ResponseMetadata>\n"
        f"</{action}Response>\n"
    ).encode()


def test_an_answer_is_indented_and_has_no_declaration(sns: SnsWorld) -> None:
    answer = sns.form("CreateTopic", Name="news")
    result = f"  <CreateTopicResult>\n    <TopicArn>{NEWS}</TopicArn>\n  </CreateTopicResult>\n"
    assert (answer.status, answer.body) == (200, document("CreateTopic", result))
    headers = dict(answer.headers)
    assert headers[b"Content-Type"] == b"text/xml"
    assert headers[b"x-amzn-RequestId"] == b"rid"


@pytest.mark.parametrize(
    ("action", "parameters"),
    [
        ("SetTopicAttributes", {"AttributeName": "DisplayName", "AttributeValue": "x"}),
        (
            "AddPermission",
            {"Label": "l", "AWSAccountId.member.1": "111111111111", "ActionName.member.1": "Publish"},
        ),
        ("RemovePermission", {"Label": "absent"}),
        ("DeleteTopic", {}),
    ],
)
def test_an_action_without_a_result_has_no_such_element(
    sns: SnsWorld, action: str, parameters: dict[str, str]
) -> None:
    sns.make()
    answer = sns.form(action, TopicArn=NEWS, **parameters)
    assert (answer.status, answer.body) == (200, document(action))


def test_an_empty_result_is_one_tag(sns: SnsWorld) -> None:
    sns.make()
    answer = sns.form(
        "TagResource", **{"ResourceArn": NEWS, "Tags.member.1.Key": "team", "Tags.member.1.Value": "a"}
    )
    assert answer.body == document("TagResource", "  <TagResourceResult/>\n")


@pytest.mark.parametrize(
    ("action", "parameters", "member"),
    [
        ("ListTopics", {}, "Topics"),
        ("ListSubscriptions", {}, "Subscriptions"),
        ("ListSubscriptionsByTopic", {"TopicArn": f"{ARN}:other"}, "Subscriptions"),
        ("ListTagsForResource", {"ResourceArn": f"{ARN}:other"}, "Tags"),
        ("ListPlatformApplications", {}, "PlatformApplications"),
        ("ListPhoneNumbersOptedOut", {}, "phoneNumbers"),
    ],
)
def test_an_empty_list_is_written(
    sns: SnsWorld, action: str, parameters: dict[str, str], member: str
) -> None:
    if parameters:
        sns.make("other")
    result = f"  <{action}Result>\n    <{member}/>\n  </{action}Result>\n"
    assert sns.form(action, **parameters).body == document(action, result)


def test_texts_are_escaped_and_empty_ones_are_one_tag(sns: SnsWorld) -> None:
    sns.make()
    body = sns.form("GetTopicAttributes", TopicArn=NEWS).body.decode()
    assert "      <entry>\n        <key>DisplayName</key>\n        <value/>\n      </entry>\n" in body
    assert "{&quot;Version&quot;:&quot;2008-10-17&quot;," in body
    sns.set(NEWS, "DisplayName", "<a & b>")
    body = sns.form("GetTopicAttributes", TopicArn=NEWS).body.decode()
    assert "        <value>&lt;a &amp; b&gt;</value>\n" in body


def test_a_list_of_structs(sns: SnsWorld) -> None:
    sns.make()
    body = sns.form("ListTopics").body.decode()
    assert body.startswith(
        f'<ListTopicsResponse xmlns="{NAMESPACE}">\n  <ListTopicsResult>\n    <Topics>\n      <member>\n'
        f"        <TopicArn>{NEWS}</TopicArn>\n      </member>\n    </Topics>\n  </ListTopicsResult>\n"
    )


def test_the_sequence_number_is_before_the_message_id(sns: SnsWorld) -> None:
    topic = sns.make("a.fifo")
    body = sns.form(
        "Publish", TopicArn=topic, Message="m", MessageGroupId="g", MessageDeduplicationId="d"
    ).body.decode()
    assert body.index("<SequenceNumber>") < body.index("<MessageId>")


def test_an_error(sns: SnsWorld) -> None:
    answer = sns.form("GetTopicAttributes", TopicArn=NEWS)
    assert answer.status == 404
    assert (
        answer.body
        == (
            f'<ErrorResponse xmlns="{NAMESPACE}">\n  <Error>\n    <Type>Sender</Type>\n    <Code>NotFound</Code>\n'
            "    <Message>Topic does not exist</Message>\n  </Error>\n"
            "  <RequestId>rid</RequestId>\n</ErrorResponse>\n"
        ).encode()
    )


def test_an_action_that_there_is_not(sns: SnsWorld) -> None:
    answer = sns.form("PublishNothing")
    assert answer.status == 400
    assert answer.body.startswith(f'<ErrorResponse xmlns="{NAMESPACE}">\n  <Error>\n'.encode())
    assert b"    <Code>InvalidAction</Code>\n" in answer.body


def test_parameters_may_be_in_the_url(sns: SnsWorld) -> None:
    sns.make()
    query = f"Action=GetTopicAttributes&TopicArn={quote(NEWS)}"
    posted = PlainRequest(b"POST", f"/?{query}".encode(), {}, b"")
    for request in (PlainRequest(b"GET", f"/?{query}".encode(), {}, b""), posted):
        assert b"<key>TopicArn</key>" in sns.answer(request).body


@pytest.mark.parametrize("signed_for", ["sqs", "sns"])
def test_services_that_share_an_action_are_told_apart_by_the_signature(
    sns: SnsWorld, signed_for: str
) -> None:
    sns.signed_for = signed_for
    body = b"Action=AddPermission&Label=x"
    answer = sns.answer(form_request(body)).body
    assert (NAMESPACE.encode() in answer) == (signed_for == "sns")


def test_maps_and_lists_of_requests(sns: SnsWorld) -> None:
    answer = sns.form(
        "CreateTopic",
        **{
            "Name": "a.fifo",
            "Attributes.entry.1.key": "FifoTopic",
            "Attributes.entry.1.value": "true",
            "Attributes.entry.2.key": "DisplayName",
            "Attributes.entry.2.value": "shown",
            "Tags.member.1.Key": "team",
            "Tags.member.1.Value": "a",
        },
    )
    assert answer.status == 200
    assert sns.attributes(f"{ARN}:a.fifo")["DisplayName"] == "shown"
    sns.form("UntagResource", **{"ResourceArn": f"{ARN}:a.fifo", "TagKeys.member.1": "team"})
    assert sns("ListTagsForResource", ResourceArn=f"{ARN}:a.fifo") == {"Tags": []}
    sns.form(
        "SetSMSAttributes",
        **{"attributes.entry.1.key": "DefaultSMSType", "attributes.entry.1.value": "Promotional"},
    )
    body = sns.form("GetSMSAttributes", **{"attributes.member.1": "DefaultSMSType"}).body
    assert b"<value>Promotional</value>" in body


def test_messages_of_a_batch_with_attributes(sns: SnsWorld) -> None:
    topic, queue = sns.make(), sns.create("q0")
    sns.subscribe_to(topic, endpoint=queue_arn("q0"), Attributes={"RawMessageDelivery": "true"})
    entry = "PublishBatchRequestEntries.member"
    parameters = {
        f"{entry}.1.Id": "a",
        f"{entry}.1.Message": "first",
        f"{entry}.1.MessageAttributes.entry.1.Name": "n",
        f"{entry}.1.MessageAttributes.entry.1.Value.DataType": "Number",
        f"{entry}.1.MessageAttributes.entry.1.Value.StringValue": "01",
        f"{entry}.1.MessageAttributes.entry.2.Name": "b",
        f"{entry}.1.MessageAttributes.entry.2.Value.DataType": "Binary",
        f"{entry}.1.MessageAttributes.entry.2.Value.BinaryValue": "AAE=",
        f"{entry}.2.Id": "b",
        f"{entry}.2.Message": "second",
    }
    body = sns.form("PublishBatch", TopicArn=topic, **parameters).body
    assert b"    <Failed/>\n" in body
    found = {message.content.body: message.content.attributes for message in sns.receive("q0")}
    assert found["second"] is None
    assert {name: (each.type, each.value) for name, each in (found["first"] or {}).items()} == {
        "n": ("Number", "01"),
        "b": ("Binary", b"\0\1"),
    }
    assert queue.name.name == "q0"


def test_the_largest_batch_fits_into_a_form(sns: SnsWorld) -> None:
    """Ten messages with far more attributes each than a queue could take."""
    topic = sns.make()
    parameters: dict[str, str] = {}
    for entry in range(1, 11):
        begin = f"PublishBatchRequestEntries.member.{entry}"
        parameters |= {f"{begin}.Id": str(entry), f"{begin}.Message": "m"}
        for attribute in range(1, 31):
            place = f"{begin}.MessageAttributes.entry.{attribute}"
            parameters |= {
                f"{place}.Name": f"a{attribute}",
                f"{place}.Value.DataType": "String",
                f"{place}.Value.StringValue": "v",
            }
    answer = sns.form("PublishBatch", TopicArn=topic, **parameters)
    assert (answer.status, answer.body.count(b"<MessageId>")) == (200, 10)


def test_a_client_of_boto_reads_what_is_written(sns: SnsWorld) -> None:
    client = sns.boto()
    topic = client.create_topic(Name="news", Tags=[{"Key": "a", "Value": ""}])["TopicArn"]
    assert client.list_tags_for_resource(ResourceArn=topic)["Tags"] == [{"Key": "a", "Value": ""}]
    assert client.list_subscriptions()["Subscriptions"] == []
    subscription = client.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=queue_arn("q0"))[
        "SubscriptionArn"
    ]
    listed = client.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"]
    assert [each["SubscriptionArn"] for each in listed] == [subscription]
    answer = client.publish_batch(TopicArn=topic, PublishBatchRequestEntries=[{"Id": "x", "Message": "m"}])
    assert (answer["Failed"], [each["Id"] for each in answer["Successful"]]) == ([], ["x"])
    with pytest.raises(client.exceptions.NotFoundException):
        client.get_topic_attributes(TopicArn=f"{topic}-missing")
