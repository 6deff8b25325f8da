"""The topics of one shard, and how their messages get to queues and to URLs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import msgspec

from penstock.broker.delivery import Refusal
from penstock.broker.handover import QueueTarget
from penstock.broker.internal_queues import Job, JobKind, JobQueues
from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.errors import PenstockError
from penstock.limits import SECOND
from penstock.monitoring.reading import ShardMetrics
from penstock.names import Arn, Home, QueueName, Space, partition_of
from penstock.queues.messages import Outgoing
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home

from .namespace import DELIVERED, DIMENSION, FAILED, NAMESPACE, PUBLISHED

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

SENDER = "toy.example.com"

PostRequest = Callable[[str, str, str], Coroutine[Any, Any, None]]
"""(account, URL, body): raises JobFailed."""


class TopicName(NamedTuple):
    space: Space
    name: str

    @classmethod
    def parse(cls, text: str) -> TopicName | None:
        arn = Arn.parse(text)
        if arn is None or arn.service != "toy" or not arn.resource.startswith("topic/"):
            return None
        return cls(Space(arn.account, arn.region), arn.resource.removeprefix("topic/"))

    @property
    def arn(self) -> str:
        account, region = self.space.account, self.space.region
        return f"arn:{partition_of(region)}:toy:{region}:{account}:topic/{self.name}"

    @property
    def home(self) -> Home:
        return Home.of("toy topic", self.space.account, self.space.region, self.name)


class Topic(msgspec.Struct, frozen=True):
    name: TopicName
    endpoints: tuple[str, ...] = ()  # ARNs of queues, and URLs


TOPICS = RecordKind("toy-topic", Topic, by_home)


class Post(msgspec.Struct, frozen=True):
    """A message that is to be sent to a URL."""

    topic: TopicName
    url: str
    text: str


POSTS = JobKind("toy-posts", Post, pauses_ms=(10, 20), visibility_ms=30 * SECOND)


class TopicsQuestion(ShardQuestion[list[str]], frozen=True):
    """The names of the topics of a space, of all shards: the first ones beyond a name, in order."""

    kind: ClassVar[str] = "toy topics"
    space: Space
    after: str
    names_max: int

    async def answer(self, partition: Partition) -> list[str]:
        return await partition.part(ShardTopics).names(self.space, self.after, self.names_max)

    def merge(self, answers: list[list[str]]) -> list[str]:
        return sorted(chain.from_iterable(answers))[: self.names_max]


class TopicMissing(PenstockError):
    pass


class ShardTopics(Part):
    """The topics of one shard. Their queues belong to any shard."""

    def __init__(self, partition: Partition, post: PostRequest) -> None:
        self._measured = partition.part(ShardMetrics).measured
        self._shard = partition.shard
        self._delivery = partition.delivery
        self._post = post
        self._table = partition.shard.table(TOPICS)
        self._jobs = JobQueues(partition, POSTS, self._carry_out, self._give_up)
        self._delivery.on_refused(SENDER, self._refused)

    @property
    def job_queues(self) -> Sequence[JobQueues[Any]]:
        return (self._jobs,)

    def start(self) -> None:
        self._jobs.start()

    def stop(self) -> None:
        self._jobs.stop()

    # -- definitions -----------------------------------------------------------------------------------------

    def find(self, name: TopicName) -> Topic:
        """Raises TopicMissing."""
        topic = self._table.get(name.home.key(name.arn))
        if topic is None:
            raise TopicMissing
        return topic

    async def create(self, name: TopicName) -> None:
        """A topic that exists stays as it is."""
        if self._table.get(name.home.key(name.arn)) is None:
            self._put(Topic(name))
        await self._shard.settled()

    async def subscribe(self, name: TopicName, endpoint: str) -> None:
        """Raises TopicMissing."""
        endpoints = self.find(name).endpoints
        if endpoint not in endpoints:
            self._put(Topic(name, (*endpoints, endpoint)))
        await self._shard.settled()

    async def endpoints(self, name: TopicName) -> list[str]:
        """Raises TopicMissing."""
        found = self.find(name).endpoints
        await self._shard.settled()
        return list(found)

    def _put(self, topic: Topic) -> None:
        self._shard.check_owned()
        self._shard.check_sends()
        self._table.put(topic.name.home.key(topic.name.arn), topic)

    async def names(self, space: Space, after: str, names_max: int) -> list[str]:
        """The first ones beyond a name, in order."""
        names = sorted(topic.name.name for _, topic in self._table if topic.name.space == space)
        await self._shard.settled()
        return [name for name in names if name > after][:names_max]

    # -- messages --------------------------------------------------------------------------------------------

    async def publish(self, name: TopicName, text: str) -> None:
        """Done when the message is durable: in queues of this shard, on its way to others, as a job for each URL.
        Raises TopicMissing."""
        endpoints = self.find(name).endpoints
        queues = {
            endpoint: queue for endpoint in endpoints if (queue := QueueName.of_arn(endpoint)) is not None
        }
        targets = [QueueTarget(queue, name.arn) for queue in queues.values()]

        message = Outgoing(body=text, sender=SENDER, size=len(text.encode()))
        refused = failed = 0

        def in_commit(refusals: list[Refusal]) -> None:
            nonlocal refused, failed
            refused = len(refusals)
            for url in endpoints:
                if url not in queues and not self._jobs.add(
                    name.home, name.space, url, Post(name, url, text)
                ):
                    failed += 1

        await self._delivery.deliver(message, targets, SENDER, f"the topic {name.name}", in_commit)
        self._measure(name, PUBLISHED)
        self._measure(name, DELIVERED, len(targets) - refused)
        self._measure(name, FAILED, refused + failed)

    def _refused(self, refusal: Refusal) -> None:
        """A queue of another shard did not take a message that was counted as delivered when it left."""
        name = TopicName.parse(refusal.target.token)
        assert name is not None, "the token is the ARN of the topic"
        self._count(name, FAILED)

    async def _carry_out(self, job: Job[Post]) -> None:
        """Raises JobFailed, and JobLost if another try has the job."""
        await self._post(job.payload.topic.space.account, job.payload.url, job.payload.text)
        await job.confirm()
        job.done()
        self._count(job.payload.topic, DELIVERED)

    def _give_up(self, job: Job[Post], reason: str) -> None:
        self._count(job.payload.topic, FAILED)

    def _count(self, name: TopicName, metric: str) -> None:
        """Count once the open commit is durable."""
        self._shard.open_commit.when_durable.append(lambda _: self._measure(name, metric))

    def _measure(self, name: TopicName, metric: str, number: int = 1) -> None:
        if number:
            self._measured.add(name.space, NAMESPACE, metric, ((DIMENSION, name.name),), 1, number)
