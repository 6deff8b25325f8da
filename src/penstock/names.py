"""Names of accounts, regions and queues, their ARNs, and who makes requests."""

from __future__ import annotations

import re
from functools import lru_cache
from hashlib import blake2b

import msgspec

PARTITION = "aws"
_QUEUE_SERVICE = "sqs"  # in the ARNs of queues
# AWS: ARNs of these regions, by how their names begin, are in a partition of their own.
_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
PARTITIONS = (PARTITION, *_PARTITIONS.values())

_ACCOUNT = re.compile(r"[0-9]{12}")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


def is_account(text: str) -> bool:
    return _ACCOUNT.fullmatch(text) is not None


def is_region(text: str) -> bool:
    return _REGION.fullmatch(text) is not None


@lru_cache(1024)
def partition_of(region: str) -> str:
    """The second part of the ARNs of a region."""
    return next((found for prefix, found in _PARTITIONS.items() if region.startswith(prefix)), PARTITION)


def without_partition(arn: str) -> str:
    """What identifies the resource: an account is the same in all partitions. Other texts stay as they are."""
    parts = arn.split(":", 2)
    return parts[2] if len(parts) == 3 and parts[0] == "arn" and parts[1] in PARTITIONS else arn


def in_partition(partition: str, arn: str) -> str:
    """The ARN of the same user, role or session in this partition."""
    return f"arn:{partition}:{without_partition(arn)}"


def region_of_host(host: str, pattern: str) -> str | None:
    """The region in ``host``, where ``pattern`` (``sqs.{region}.localhost``) has its place. Neither has a port."""
    before, placeholder, after = pattern.lower().partition("{region}")
    host = host.lower()
    if not placeholder or not host.startswith(before) or not host.endswith(after):
        return None
    region = host[len(before) : len(host) - len(after)]
    return region if is_region(region) else None


class Space(msgspec.Struct, frozen=True):
    """An account in a region. Queues of one are not visible in another."""

    account: str
    region: str


class QueueName(msgspec.Struct, frozen=True, order=True):
    account: str
    region: str
    name: str

    @property
    def space(self) -> Space:
        return Space(self.account, self.region)

    @property
    def arn(self) -> str:
        return f"arn:{partition_of(self.region)}:{_QUEUE_SERVICE}:{self.region}:{self.account}:{self.name}"

    @classmethod
    def of_arn(cls, text: str) -> QueueName | None:
        """Returns None if it is not the ARN of a queue."""
        arn = Arn.parse(text)
        return arn.queue if arn is not None and arn.service == _QUEUE_SERVICE else None


def shard_of(name: QueueName, shards: int) -> int:
    """The shard that a queue belongs to, for ever: where its messages are stored follows from it."""
    if shards == 1:
        return 0
    return _hash(f"{name.account}/{name.region}/{name.name}") % shards


def _hash(text: str) -> int:
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


class Home(msgspec.Struct, frozen=True):
    """Where things live that are not queues, such as the alarms of an account: all of one home in the same shard.

    The keys of their records begin with the hash that says which shard that is, however many shards there are."""

    hash: int

    @classmethod
    def of(cls, *parts: str) -> Home:
        """The first part says what lives there."""
        return cls(_hash("\n".join(parts)))

    def shard(self, shards: int) -> int:
        return self.hash % shards

    def key(self, rest: str) -> str:
        return f"{self.hash:016x}/{rest}"

    @classmethod
    def of_key(cls, key: str) -> Home:
        """Returns the home that a key of a record names."""
        return cls(int(key[:16], 16))

    @staticmethod
    def rest_of_key(key: str) -> str:
        """Returns what the key says after the home."""
        return key[17:]


class Requester(msgspec.Struct, frozen=True, gc=False):
    """Who made a request, as an operator wants to see it. One object serves many requests."""

    by: str  # user or role with the access key; on an open server the account
    address: str
    user_agent: str


class KeyUse(msgspec.Struct, frozen=True):
    """The key that the messages of a queue are encrypted under."""

    space: Space
    key: str | None  # as the queue names it: id, alias/NAME or the ARN of either; None: the server's own
    reuse_ms: int  # how long one data key may serve


class Arn(msgspec.Struct, frozen=True):
    partition: str
    service: str
    region: str
    account: str
    resource: str

    @classmethod
    def parse(cls, text: str) -> Arn | None:
        parts = text.split(":", 5)
        if len(parts) != 6 or parts[0] != "arn" or not all(parts[1:]):
            return None
        return cls(*parts[1:])

    @property
    def queue(self) -> QueueName:
        return QueueName(self.account, self.region, self.resource)
