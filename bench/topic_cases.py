"""The cases of topics. A publication is compared, on the same server and in the same round, with as many SendMessages
as it has receivers, or with one to a topic with fewer subscriptions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from bench.cases import Bench, Case
from bench.jobs import Job
from bench.load_client import Wrong
from bench.results import Figures, of_load
from bench.systems import System
from bench.topic_load import FILTERED, filtered_value

SIZE = 1024
CONNECTIONS = 64
_ARN = re.compile(r"<(?:Topic|Subscription)Arn>(arn:[^<]+)</")


@dataclass
class Topic:
    """A topic of a system, with the queues that subscribe to it."""

    system: System
    arn: str
    queues: list[str] = field(default_factory=list)

    def subscribe(self, queue: str, **attributes: str) -> None:
        parameters = {"TopicArn": self.arn, "Protocol": "sqs", "Endpoint": _arn_of(self.system, queue)}
        for number, (name, value) in enumerate(attributes.items(), start=1):
            parameters[f"Attributes.entry.{number}.key"] = name
            parameters[f"Attributes.entry.{number}.value"] = value
        _arn_in(self.system.query("Subscribe", parameters))
        self.queues.append(queue)

    def drop(self) -> None:
        self.system.query("DeleteTopic", {"TopicArn": self.arn})


def _arn_in(answer: str) -> str:
    found = _ARN.search(answer)
    if found is None:
        raise Wrong(f"no ARN in {answer[:300]!r}")
    return found[1]


def _arn_of(system: System, queue: str) -> str:
    asked = {"QueueUrl": queue, "AttributeNames": ["QueueArn"]}
    return str(system.call("GetQueueAttributes", asked)["Attributes"]["QueueArn"])


def _topic(system: System, queue: str) -> Topic:
    """``queue``: one whose name tells the topic from others."""
    name = f"topic-of-{queue.rsplit('/', 1)[1]}"
    return Topic(system, _arn_in(system.query("CreateTopic", {"Name": name})))


def _queues(bench: Bench, system: System, count: int) -> list[str]:
    queues = [bench.queue(system) for _ in range(count)]
    if system.is_penstock:
        # A server that enforces policies delivers only what the policy of a queue allows.
        allow = {"Effect": "Allow", "Principal": {"Service": "sns.amazonaws.com"}, "Action": "sqs:SendMessage",
                 "Resource": "*"}  # fmt: skip
        policy = json.dumps({"Version": "2012-10-17", "Statement": [allow]})
        for queue in queues:
            system.call("SetQueueAttributes", {"QueueUrl": queue, "Attributes": {"Policy": policy}})
    return queues


def _publish(bench: Bench, topic: Topic, count: int, filters: int = 0) -> Figures:
    system = topic.system
    job = Job(
        kind="publish", url="", queues=topic.queues, topic=topic.arn, filters=filters,
        count=max(CONNECTIONS, int(count * bench.plan.scale)), connections=CONNECTIONS, size=SIZE,
        limit_s=bench.plan.limit_s,
    )  # fmt: skip
    return of_load(bench.run(system, job), system.pid is not None)


def _send(bench: Bench, system: System, queues: list[str], count: int) -> Figures:
    job = Job(
        kind="send", url="", queues=queues, count=max(CONNECTIONS, int(count * bench.plan.scale)),
        connections=CONNECTIONS, size=SIZE, limit_s=bench.plan.limit_s,
    )  # fmt: skip
    return of_load(bench.run(system, job), system.pid is not None)


def _fanning_out(queues: int, count: int, *, raw: bool) -> Callable[[Bench, System], Figures]:
    """Publish to a topic with this many queues, beside SendMessages to the same queues."""

    def measure(bench: Bench, system: System) -> Figures:
        urls = _queues(bench, system, queues)
        topic = _topic(system, urls[0])
        for url in urls:
            topic.subscribe(url, RawMessageDelivery=str(raw).lower())
        sent = _send(bench, system, urls, count * min(queues, 10))
        figures = _publish(bench, topic, count)
        topic.drop()
        bench.drop(system, *urls)
        if "cpu_us" in figures:
            figures["cpu_of_sends"] = figures["cpu_us"] / (queues * sent["cpu_us"])
        return figures

    return measure


def _filtering(filters: int, count: int) -> Callable[[Bench, System], Figures]:
    """Publish to a topic whose subscriptions all have a filter, of which each message passes one, beside a topic with
    one such subscription."""
    topics: dict[str, tuple[Topic, Topic]] = {}  # by the URL of the system: they stay until it is restarted

    def measure(bench: Bench, system: System) -> Figures:
        if system.url not in topics:
            urls = _queues(bench, system, filters + 1)
            many, one = _topic(system, urls[0]), _topic(system, urls[-1])
            for number, url in enumerate(urls[:-1]):
                many.subscribe(url, FilterPolicy=json.dumps({FILTERED: [filtered_value(number)]}))
            one.subscribe(urls[-1], FilterPolicy=json.dumps({FILTERED: [filtered_value(0)]}))
            topics[system.url] = many, one
        many, one = topics[system.url]
        alone = _publish(bench, one, count, filters=1)
        figures = _publish(bench, many, count, filters=filters)
        if "cpu_us" in figures:
            figures["cpu_of_one"] = figures["cpu_us"] / alone["cpu_us"]
        return figures

    return measure


def _has_topics(system: System) -> bool:
    return system.has_topics


TOPIC_CASES = (
    Case(name="publish", title="Publish a message of 1 kB to a topic with one queue",
         measure=_fanning_out(1, 5_000, raw=True), fits=_has_topics),
    Case(name="fanout", title="Publish a message of 1 kB to a topic with 50 queues",
         measure=_fanning_out(50, 1_000, raw=True), fits=_has_topics),
    Case(name="fanout-envelopes", title="The same, in signed envelopes",
         measure=_fanning_out(50, 1_000, raw=False), fits=_has_topics),
    Case(name="filters", title="Publish to a topic with 1,000 filtered subscriptions, of which a message passes one",
         measure=_filtering(1_000, 3_000), fits=_has_topics),
)  # fmt: skip
