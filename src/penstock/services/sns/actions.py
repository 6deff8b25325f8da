"""The actions of SNS, one row each: everything that is known about an action stands here.

The permission is ``sns:`` and the name of the action; publishing a batch needs that of Publish. Actions on
subscriptions are authorized on their topic. The policy of a topic can grant the eight actions of the default policy
to other accounts. ``root_always``: the account's root can read and replace a policy that denies everything to
everyone. Links in messages confirm and end subscriptions, so that these two need no signature.

The audit members are an allow list. Never on it: messages, subjects, attributes of messages, tokens, credentials,
phone numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.services.sns import applications as ap
from penstock.services.sns import devices as dv
from penstock.services.sns import sms
from penstock.services.sns import structs as st
from penstock.services.sns.confirming import confirm_subscription
from penstock.services.sns.data_protection import (
    get_data_protection_policy,
    protected_topic,
    put_data_protection_policy,
)
from penstock.services.sns.limits import BATCH_MEMBERS_MAX
from penstock.services.sns.permissions import add_permission, remove_permission
from penstock.services.sns.publish import publish, publish_batch, target_of_publish
from penstock.services.sns.resources import (
    all_topics,
    subscription_of_arn,
    subscription_of_token,
    subscription_to_end,
    topic_of_arn,
    topic_to_subscribe,
)
from penstock.services.sns.subscriptions import (
    get_subscription_attributes,
    list_subscriptions,
    list_subscriptions_by_topic,
    set_subscription_attributes,
    subscribe,
    unsubscribe,
)
from penstock.services.sns.tags import (
    list_tags_for_resource,
    resource_to_list,
    resource_to_tag,
    resource_to_untag,
    tag_resource,
    untag_resource,
)
from penstock.services.sns.topics import (
    create_topic,
    delete_topic,
    get_topic_attributes,
    list_topics,
    new_topic,
    set_topic_attributes,
)
from penstock.wire.service import Action, AuditRule, FindResource, Handler

_IDS = ("MessageId", "SequenceNumber")


def _read(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    handler: Handler,
    resource: FindResource,
    *members: str,
    grantable: bool = False,
    root_always: bool = False,
) -> Action:
    """A row that changes nothing."""
    name = request.__name__.removesuffix("Request")
    return Action(
        name, request, response, handler, resource, f"sns:{name}", grantable=grantable, root_always=root_always,
        read_only=True, audit=AuditRule(None, members),
    )  # fmt: skip


def _change(
    request: type[msgspec.Struct],
    response: type[msgspec.Struct] | None,
    handler: Handler,
    resource: FindResource,
    *members: str,
    shown: tuple[str, ...] = (),
    grantable: bool = False,
    root_always: bool = False,
    by_link: bool = False,
) -> Action:
    name = request.__name__.removesuffix("Request")
    return Action(
        name, request, response, handler, resource, f"sns:{name}", grantable=grantable, root_always=root_always,
        anonymous=by_link, by_link=by_link, audit=AuditRule("Management", members, shown),
    )  # fmt: skip


_ROWS = (
    _change(
        st.CreateTopicRequest, st.CreateTopicResult, create_topic, new_topic,
        "Name", "Attributes", "pairs(Tags) as tags", shown=("TopicArn",),
    ),
    _change(st.DeleteTopicRequest, None, delete_topic, topic_of_arn, "TopicArn", grantable=True),
    _read(
        st.GetTopicAttributesRequest, st.GetTopicAttributesResult, get_topic_attributes, topic_of_arn,
        "TopicArn", grantable=True, root_always=True,
    ),
    _change(
        st.SetTopicAttributesRequest, None, set_topic_attributes, topic_of_arn,
        "TopicArn", "AttributeName", "AttributeValue", grantable=True, root_always=True,
    ),
    _read(st.ListTopicsRequest, st.ListTopicsResult, list_topics, all_topics, root_always=True),
    _change(
        st.SubscribeRequest, st.SubscribeResult, subscribe, topic_to_subscribe,
        "TopicArn", "Protocol", "Attributes", "ReturnSubscriptionArn", shown=("SubscriptionArn",), grantable=True,
    ),
    _change(
        st.ConfirmSubscriptionRequest, st.ConfirmSubscriptionResult, confirm_subscription, subscription_of_token,
        "TopicArn", "AuthenticateOnUnsubscribe", shown=("SubscriptionArn",), by_link=True,
    ),
    _change(
        st.UnsubscribeRequest, None, unsubscribe, subscription_to_end, "SubscriptionArn", by_link=True,
    ),
    _read(
        st.GetSubscriptionAttributesRequest, st.GetSubscriptionAttributesResult, get_subscription_attributes,
        subscription_of_arn, "SubscriptionArn",
    ),
    _change(
        st.SetSubscriptionAttributesRequest, None, set_subscription_attributes, subscription_of_arn,
        "SubscriptionArn", "AttributeName", "AttributeValue",
    ),
    _read(st.ListSubscriptionsRequest, st.ListSubscriptionsResult, list_subscriptions, all_topics),
    _read(
        st.ListSubscriptionsByTopicRequest, st.ListSubscriptionsByTopicResult, list_subscriptions_by_topic,
        topic_of_arn, "TopicArn", grantable=True,
    ),
    Action(
        "Publish", st.PublishRequest, st.PublishResult, publish, target_of_publish, "sns:Publish",
        grantable=True,
        audit=AuditRule("Data", ("TopicArn", "TargetArn", "MessageStructure"), _IDS),
    ),
    Action(
        "PublishBatch", st.PublishBatchRequest, st.PublishBatchResult, publish_batch, topic_of_arn, "sns:Publish",
        grantable=True, members_max=BATCH_MEMBERS_MAX,
        audit=AuditRule(
            "Data",
            ("TopicArn", "count(PublishBatchRequestEntries) as numberOfEntries"),
            ("count(Successful) as numberOfSuccessful", "count(Failed) as numberOfFailed"),
        ),
    ),
    _change(
        st.AddPermissionRequest, None, add_permission, topic_of_arn,
        "TopicArn", "Label", "AWSAccountId", "ActionName", grantable=True,
    ),
    _change(
        st.RemovePermissionRequest, None, remove_permission, topic_of_arn, "TopicArn", "Label",
        grantable=True, root_always=True,
    ),
    _change(
        st.TagResourceRequest, st.TagResourceResult, tag_resource, resource_to_tag,
        "ResourceArn", "pairs(Tags) as tags",
    ),
    _change(
        st.UntagResourceRequest, st.UntagResourceResult, untag_resource, resource_to_untag,
        "ResourceArn", "TagKeys",
    ),
    _read(
        st.ListTagsForResourceRequest, st.ListTagsForResourceResult, list_tags_for_resource, resource_to_list,
        "ResourceArn",
    ),
    _read(
        st.GetDataProtectionPolicyRequest, st.GetDataProtectionPolicyResult, get_data_protection_policy,
        protected_topic, "ResourceArn",
    ),
    _change(
        st.PutDataProtectionPolicyRequest, None, put_data_protection_policy, protected_topic, "ResourceArn",
    ),
    _change(
        st.CreatePlatformApplicationRequest, st.CreatePlatformApplicationResult, ap.create_platform_application,
        ap.new_application, "Name", "Platform", shown=("PlatformApplicationArn",),
    ),
    _change(
        st.DeletePlatformApplicationRequest, None, ap.delete_platform_application, ap.application_of_arn,
        "PlatformApplicationArn",
    ),
    _read(
        st.GetPlatformApplicationAttributesRequest, st.GetPlatformApplicationAttributesResult,
        ap.get_platform_application_attributes, ap.application_of_arn, "PlatformApplicationArn",
    ),
    _change(
        st.SetPlatformApplicationAttributesRequest, None, ap.set_platform_application_attributes,
        ap.application_of_arn, "PlatformApplicationArn",
    ),
    _read(
        st.ListPlatformApplicationsRequest, st.ListPlatformApplicationsResult, ap.list_platform_applications,
        ap.all_applications,
    ),
    _change(
        st.CreatePlatformEndpointRequest, st.CreatePlatformEndpointResult, dv.create_platform_endpoint,
        ap.application_of_arn, "PlatformApplicationArn", shown=("EndpointArn",),
    ),
    _change(st.DeleteEndpointRequest, None, dv.delete_endpoint, dv.device_of_arn, "EndpointArn"),
    _read(
        st.GetEndpointAttributesRequest, st.GetEndpointAttributesResult, dv.get_endpoint_attributes,
        dv.device_of_arn, "EndpointArn",
    ),
    _change(
        st.SetEndpointAttributesRequest, None, dv.set_endpoint_attributes, dv.device_of_arn, "EndpointArn",
    ),
    _read(
        st.ListEndpointsByPlatformApplicationRequest, st.ListEndpointsByPlatformApplicationResult,
        dv.list_endpoints_by_platform_application, ap.application_of_arn, "PlatformApplicationArn",
    ),
    _read(st.GetSMSAttributesRequest, st.GetSMSAttributesResult, sms.get_sms_attributes, sms.phones, "attributes"),
    _change(st.SetSMSAttributesRequest, st.SetSMSAttributesResult, sms.set_sms_attributes, sms.phones, "attributes"),
    _read(
        st.CheckIfPhoneNumberIsOptedOutRequest, st.CheckIfPhoneNumberIsOptedOutResult,
        sms.check_if_phone_number_is_opted_out, sms.phones,
    ),
    _read(
        st.ListPhoneNumbersOptedOutRequest, st.ListPhoneNumbersOptedOutResult, sms.list_phone_numbers_opted_out,
        sms.phones,
    ),
    _change(st.OptInPhoneNumberRequest, st.OptInPhoneNumberResult, sms.opt_in_phone_number, sms.phones),
    _read(
        st.GetSMSSandboxAccountStatusRequest, st.GetSMSSandboxAccountStatusResult,
        sms.get_sms_sandbox_account_status, sms.phones,
    ),
    _change(
        st.CreateSMSSandboxPhoneNumberRequest, st.CreateSMSSandboxPhoneNumberResult,
        sms.create_sms_sandbox_phone_number, sms.phones,
    ),
    _change(
        st.DeleteSMSSandboxPhoneNumberRequest, st.DeleteSMSSandboxPhoneNumberResult,
        sms.delete_sms_sandbox_phone_number, sms.phones,
    ),
    _change(
        st.VerifySMSSandboxPhoneNumberRequest, st.VerifySMSSandboxPhoneNumberResult,
        sms.verify_sms_sandbox_phone_number, sms.phones,
    ),
    _read(
        st.ListSMSSandboxPhoneNumbersRequest, st.ListSMSSandboxPhoneNumbersResult,
        sms.list_sms_sandbox_phone_numbers, sms.phones,
    ),
    _read(
        st.ListOriginationNumbersRequest, st.ListOriginationNumbersResult, sms.list_origination_numbers, sms.phones,
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}

_LOOK = ("sns:GetTopicAttributes", "sns:ListTopics")

POLICIES: Mapping[str, tuple[str, ...]] = {
    "sns-publish": (*_LOOK, "sns:Publish"),
    "sns-subscribe": (
        *_LOOK, "sns:Subscribe", "sns:ConfirmSubscription", "sns:Unsubscribe", "sns:GetSubscriptionAttributes",
        "sns:SetSubscriptionAttributes", "sns:ListSubscriptions", "sns:ListSubscriptionsByTopic",
    ),
    "sns-read-only": ("sns:Get*", "sns:List*", "sns:CheckIfPhoneNumberIsOptedOut"),
    "sns-full-access": ("sns:*",),
}  # fmt: skip
"""Built-in policies. Together with those of the other services they are enough for most users."""
