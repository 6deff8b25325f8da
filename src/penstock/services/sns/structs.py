"""Requests and responses of SNS. Names are those of its model, and so are the constraints of their members.

Every member of a request may be absent: what is required is checked with the other constraints, or by handlers with
texts of their own. A list of a response that is empty is written.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from penstock.services.sns.limits import (
    ORIGINATION_NUMBERS_MAX,
    RESOURCE_ARN_LENGTH_MAX,
    SANDBOX_NUMBERS_MAX,
    TAG_KEY_LENGTH_MAX,
    TAG_VALUE_LENGTH_MAX,
)
from penstock.wire.constraints import Length, OneOf, Pattern, Required, Within
from penstock.wire.shapes import Many, Named, Time, Wrapped

Text = str | None
Integer = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)] | None
Texts = Named[str] | None
RequiredTexts = Annotated[Named[str] | None, Required()]
ResourceArn = Annotated[Text, Required(), Length(1, RESOURCE_ARN_LENGTH_MAX)]
LANGUAGES = (
    "en-US", "en-GB", "es-419", "es-ES", "de-DE", "fr-CA", "fr-FR", "it-IT", "ja-JP", "pt-BR", "kr-KR", "zh-CN",
    "zh-TW",
)  # fmt: skip
SandboxNumber = Annotated[
    Text, Required(), Length(0, 20), Pattern(r"^(\+[0-9]{8,}|[0-9]{0,9})$", r"\+[0-9]{8,}|[0-9]{0,9}")
]


class SnsStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Absent members are None and are not written."""


class Tag(SnsStruct):
    Key: Annotated[Text, Required(), Length(1, TAG_KEY_LENGTH_MAX)] = None
    Value: Annotated[Text, Required(), Length(0, TAG_VALUE_LENGTH_MAX)] = None


class MessageAttributeValue(SnsStruct):
    DataType: Annotated[Text, Required()] = None
    StringValue: Text = None
    BinaryValue: bytes | None = None


MessageAttributes = Annotated[Named[MessageAttributeValue] | None, Wrapped(key="Name", value="Value")]


# Topics


class OnTopic(SnsStruct):
    TopicArn: Text = None


class CreateTopicRequest(SnsStruct):
    Name: Text = None
    Attributes: Texts = None
    Tags: Many[Tag] | None = None
    DataProtectionPolicy: Text = None


class CreateTopicResult(SnsStruct):
    TopicArn: str


class DeleteTopicRequest(OnTopic):
    pass


class GetTopicAttributesRequest(OnTopic):
    pass


class GetTopicAttributesResult(SnsStruct):
    Attributes: dict[str, str]


class SetTopicAttributesRequest(OnTopic):
    AttributeName: Text = None
    AttributeValue: Text = None


class ListTopicsRequest(SnsStruct):
    NextToken: Text = None


class ListedTopic(SnsStruct):
    """``Topic`` in the model."""

    TopicArn: str


class ListTopicsResult(SnsStruct):
    Topics: list[ListedTopic]
    NextToken: Text = None


# Subscriptions


class OnSubscription(SnsStruct):
    SubscriptionArn: Text = None


class SubscribeRequest(OnTopic):
    Protocol: Text = None
    Endpoint: Text = None
    Attributes: Texts = None
    ReturnSubscriptionArn: bool | None = None


class SubscribeResult(SnsStruct):
    SubscriptionArn: str


class ConfirmSubscriptionRequest(OnTopic):
    Token: Text = None
    AuthenticateOnUnsubscribe: Text = None


class ConfirmSubscriptionResult(SnsStruct):
    SubscriptionArn: str


class UnsubscribeRequest(OnSubscription):
    pass


class GetSubscriptionAttributesRequest(OnSubscription):
    pass


class GetSubscriptionAttributesResult(SnsStruct):
    Attributes: dict[str, str]


class SetSubscriptionAttributesRequest(OnSubscription):
    AttributeName: Text = None
    AttributeValue: Text = None


class ListedSubscription(SnsStruct):
    """``Subscription`` in the model."""

    TopicArn: str
    Protocol: str
    SubscriptionArn: str
    Owner: str
    Endpoint: str


class ListSubscriptionsRequest(SnsStruct):
    NextToken: Text = None


class ListSubscriptionsResult(SnsStruct):
    Subscriptions: list[ListedSubscription]
    NextToken: Text = None


class ListSubscriptionsByTopicRequest(OnTopic):
    NextToken: Text = None


class ListSubscriptionsByTopicResult(SnsStruct):
    Subscriptions: list[ListedSubscription]
    NextToken: Text = None


# Messages


class MessageParts(SnsStruct):
    """What a message to publish has, alone or in a batch."""

    Message: Text = None
    Subject: Text = None
    MessageStructure: Text = None
    MessageAttributes: MessageAttributes = None
    MessageGroupId: Text = None
    MessageDeduplicationId: Text = None


class PublishRequest(MessageParts):
    TopicArn: Text = None
    TargetArn: Text = None
    PhoneNumber: Text = None


class PublishResult(SnsStruct, kw_only=True):
    SequenceNumber: Text = None
    MessageId: str


class PublishBatchRequestEntry(MessageParts):
    Id: Annotated[Text, Required()] = None


class PublishBatchRequest(OnTopic):
    PublishBatchRequestEntries: Many[PublishBatchRequestEntry] | None = None  # botocore sends no empty list


class PublishBatchResultEntry(SnsStruct, kw_only=True):
    Id: str
    SequenceNumber: Text = None
    MessageId: str


class BatchResultErrorEntry(SnsStruct):
    Id: str
    Code: str
    Message: str
    SenderFault: bool


class PublishBatchResult(SnsStruct):
    Failed: list[BatchResultErrorEntry]
    Successful: list[PublishBatchResultEntry]


# Permissions, tags, data protection


class AddPermissionRequest(OnTopic):
    Label: Text = None
    AWSAccountId: Annotated[Many[str] | None, Required()] = None
    ActionName: Annotated[Many[str] | None, Required()] = None


class RemovePermissionRequest(OnTopic):
    Label: Text = None


class TagResourceRequest(SnsStruct):
    ResourceArn: ResourceArn = None
    Tags: Annotated[Many[Tag] | None, Required()] = None


class TagResourceResult(SnsStruct):
    pass


class UntagResourceRequest(SnsStruct):
    ResourceArn: ResourceArn = None
    TagKeys: Annotated[Many[Annotated[str, Length(1, TAG_KEY_LENGTH_MAX)]] | None, Required()] = None


class UntagResourceResult(SnsStruct):
    pass


class ListTagsForResourceRequest(SnsStruct):
    ResourceArn: ResourceArn = None


class ListTagsForResourceResult(SnsStruct):
    Tags: list[Tag]


class GetDataProtectionPolicyRequest(SnsStruct):
    ResourceArn: Text = None


class GetDataProtectionPolicyResult(SnsStruct):
    DataProtectionPolicy: str


class PutDataProtectionPolicyRequest(SnsStruct):
    ResourceArn: Text = None
    DataProtectionPolicy: Text = None


# Platform applications


class OnApplication(SnsStruct):
    PlatformApplicationArn: Text = None


class OnEndpoint(SnsStruct):
    EndpointArn: Text = None


class CreatePlatformApplicationRequest(SnsStruct):
    Name: Text = None
    Platform: Text = None
    Attributes: RequiredTexts = None


class CreatePlatformApplicationResult(SnsStruct):
    PlatformApplicationArn: str


class DeletePlatformApplicationRequest(OnApplication):
    pass


class GetPlatformApplicationAttributesRequest(OnApplication):
    pass


class GetPlatformApplicationAttributesResult(SnsStruct):
    Attributes: dict[str, str]


class SetPlatformApplicationAttributesRequest(OnApplication):
    Attributes: RequiredTexts = None


class ListPlatformApplicationsRequest(SnsStruct):
    NextToken: Text = None


class PlatformApplication(SnsStruct):
    PlatformApplicationArn: str
    Attributes: dict[str, str]


class ListPlatformApplicationsResult(SnsStruct):
    PlatformApplications: list[PlatformApplication]
    NextToken: Text = None


class CreatePlatformEndpointRequest(OnApplication):
    Token: Text = None
    CustomUserData: Text = None
    Attributes: Texts = None


class CreatePlatformEndpointResult(SnsStruct):
    EndpointArn: str


class DeleteEndpointRequest(OnEndpoint):
    pass


class GetEndpointAttributesRequest(OnEndpoint):
    pass


class GetEndpointAttributesResult(SnsStruct):
    Attributes: dict[str, str]


class SetEndpointAttributesRequest(OnEndpoint):
    Attributes: RequiredTexts = None


class ListEndpointsByPlatformApplicationRequest(OnApplication):
    NextToken: Text = None


class Endpoint(SnsStruct):
    EndpointArn: str
    Attributes: dict[str, str]


class ListEndpointsByPlatformApplicationResult(SnsStruct):
    Endpoints: list[Endpoint]
    NextToken: Text = None


# Phones. SNS: some names begin with a small letter.


class GetSMSAttributesRequest(SnsStruct):
    attributes: Many[str] | None = None


class GetSMSAttributesResult(SnsStruct):
    attributes: dict[str, str]


class SetSMSAttributesRequest(SnsStruct):
    attributes: RequiredTexts = None


class SetSMSAttributesResult(SnsStruct):
    pass


class CheckIfPhoneNumberIsOptedOutRequest(SnsStruct):
    phoneNumber: Text = None


class CheckIfPhoneNumberIsOptedOutResult(SnsStruct):
    isOptedOut: bool


class ListPhoneNumbersOptedOutRequest(SnsStruct):
    nextToken: Text = None


class ListPhoneNumbersOptedOutResult(SnsStruct):
    phoneNumbers: list[str]
    nextToken: Text = None


class OptInPhoneNumberRequest(SnsStruct):
    phoneNumber: Text = None


class OptInPhoneNumberResult(SnsStruct):
    pass


class GetSMSSandboxAccountStatusRequest(SnsStruct):
    pass


class GetSMSSandboxAccountStatusResult(SnsStruct):
    IsInSandbox: bool


class CreateSMSSandboxPhoneNumberRequest(SnsStruct):
    PhoneNumber: SandboxNumber = None
    LanguageCode: Annotated[Text, OneOf(LANGUAGES)] = None


class CreateSMSSandboxPhoneNumberResult(SnsStruct):
    pass


class DeleteSMSSandboxPhoneNumberRequest(SnsStruct):
    PhoneNumber: SandboxNumber = None


class DeleteSMSSandboxPhoneNumberResult(SnsStruct):
    pass


class VerifySMSSandboxPhoneNumberRequest(SnsStruct):
    PhoneNumber: SandboxNumber = None
    OneTimePassword: Annotated[Text, Required(), Length(5, 8), Pattern("^[0-9]+$", "[0-9]+")] = None


class VerifySMSSandboxPhoneNumberResult(SnsStruct):
    pass


class ListSMSSandboxPhoneNumbersRequest(SnsStruct):
    NextToken: Text = None
    MaxResults: Annotated[Integer, Within(1, SANDBOX_NUMBERS_MAX)] = None


class SandboxPhoneNumber(SnsStruct):
    """``SMSSandboxPhoneNumber`` in the model."""

    PhoneNumber: str
    Status: str


class ListSMSSandboxPhoneNumbersResult(SnsStruct):
    PhoneNumbers: list[SandboxPhoneNumber]
    NextToken: Text = None


class ListOriginationNumbersRequest(SnsStruct):
    NextToken: Text = None
    MaxResults: Annotated[Integer, Within(1, ORIGINATION_NUMBERS_MAX)] = None


class PhoneNumberInformation(SnsStruct, kw_only=True):
    CreatedAt: Time
    PhoneNumber: str
    Status: str
    Iso2CountryCode: Text = None
    RouteType: str
    NumberCapabilities: list[str]


class ListOriginationNumbersResult(SnsStruct):
    PhoneNumbers: list[PhoneNumberInformation]
    NextToken: Text = None
