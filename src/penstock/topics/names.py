"""Names of topics and of their subscriptions, as ARNs have them."""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from penstock.names import Arn, Home, Space, is_account, is_region, partition_of

SERVICE = "sns"
FIFO_SUFFIX = ".fifo"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,256}|[A-Za-z0-9_-]{1,251}\.fifo")


def is_topic_name(text: str) -> bool:
    # SNS: up to 256 letters, digits, hyphens and underscores; the name of a FIFO topic ends with ".fifo".
    return _NAME.fullmatch(text) is not None


class TopicName(msgspec.Struct, frozen=True, order=True):
    account: str
    region: str
    name: str

    @property
    def space(self) -> Space:
        return Space(self.account, self.region)

    @property
    def is_fifo(self) -> bool:
        return self.name.endswith(FIFO_SUFFIX)

    @property
    def arn(self) -> str:
        return f"arn:{partition_of(self.region)}:{SERVICE}:{self.region}:{self.account}:{self.name}"

    @property
    def home(self) -> Home:
        """Where the topic lives, with its subscriptions."""
        return home_of(self.account, self.region, self.name)

    @classmethod
    def of_arn(cls, text: str) -> TopicName | None:
        """Returns None if it is not the ARN of a topic."""
        arn = Arn.parse(text)
        if arn is None or arn.service != SERVICE or not is_topic_name(arn.resource):
            return None
        if not is_account(arn.account) or not is_region(arn.region):
            return None
        return cls(arn.account, arn.region, arn.resource)


@lru_cache(4096)
def home_of(account: str, region: str, name: str) -> Home:
    return Home.of("topic", account, region, name)


class SubscriptionName(msgspec.Struct, frozen=True):
    topic: TopicName
    id: str

    @property
    def arn(self) -> str:
        return f"{self.topic.arn}:{self.id}"

    @classmethod
    def of_arn(cls, text: str) -> SubscriptionName | None:
        """Returns None if it is not the ARN of a subscription. Whether the id can be one is not checked."""
        topic_arn, _, id = text.rpartition(":")
        topic = TopicName.of_arn(topic_arn)
        return None if topic is None or not id else cls(topic, id)
