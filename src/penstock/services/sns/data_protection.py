"""GetDataProtectionPolicy and PutDataProtectionPolicy.

Nothing inspects the contents of messages, so no policy can be set: AWS gives the same answer to accounts that have
not used this before."""

from __future__ import annotations

from penstock.services.sns.faults import not_supported
from penstock.services.sns.resources import Sns, TopicResource, topic_resource
from penstock.services.sns.structs import (
    GetDataProtectionPolicyRequest,
    GetDataProtectionPolicyResult,
    PutDataProtectionPolicyRequest,
)
from penstock.services.sns.validation import topic_name
from penstock.wire.service import Call


def protected_topic(
    sns: Sns, request: GetDataProtectionPolicyRequest | PutDataProtectionPolicyRequest, call: Call
) -> TopicResource:
    name = topic_name(request.ResourceArn, call, "ResourceArn")
    if name.is_fifo:  # SNS: whether it exists or not
        raise not_supported(call.action, "on FIFO topics")
    return topic_resource(sns, name, call)


async def get_data_protection_policy(
    sns: Sns, request: GetDataProtectionPolicyRequest, call: Call
) -> GetDataProtectionPolicyResult:
    resource: TopicResource = call.resource
    topic = resource.topic
    await resource.topics.settled()
    return GetDataProtectionPolicyResult(DataProtectionPolicy=topic.data_protection_policy)


async def put_data_protection_policy(sns: Sns, request: PutDataProtectionPolicyRequest, call: Call) -> None:
    raise not_supported("PutDataProtectionPolicy")
