"""The last messages of topics that are remembered."""

from __future__ import annotations

from penstock.publishing.recent import RECENT_MAX, Recent, RecentMessages
from penstock.topics.names import TopicName
from penstock.topics.publication import Publication

NEWS, OTHER = (TopicName("000000000000", "eu-west-1", name) for name in ("news", "other"))


def topic(number: int) -> TopicName:
    return TopicName("000000000000", "eu-west-1", f"t{number}")


def message(text: str) -> Recent:
    return Recent(text[:20], 1, Publication(message=text))


def ids(recent: RecentMessages, topic: TopicName) -> list[str]:
    return [each.id for each in recent.of(topic)]


def test_the_latest_messages_of_each_topic_are_remembered() -> None:
    recent = RecentMessages()
    assert recent.of(NEWS) == []
    for number in range(RECENT_MAX + 3):
        recent.add(NEWS, message(str(number)))
    recent.add(OTHER, message("other"))
    assert ids(recent, NEWS) == [str(number) for number in range(RECENT_MAX + 2, 2, -1)]
    recent.forget(NEWS)
    recent.forget(NEWS)
    assert (ids(recent, NEWS), ids(recent, OTHER)) == ([], ["other"])


def test_many_large_messages_push_out_the_oldest_of_all_topics() -> None:
    recent = RecentMessages()
    recent.add(NEWS, message("first"))
    for number in range(3 * RECENT_MAX):
        recent.add(topic(number), message("x" * 250_000))
    assert ids(recent, NEWS) == []
    remembered = [each for number in range(3 * RECENT_MAX) for each in recent.of(topic(number))]
    assert 3_000_000 < sum(each.size for each in remembered) <= 4 * 1024 * 1024
    assert recent.of(topic(3 * RECENT_MAX - 1)) == remembered[-1:]


def test_a_message_larger_than_all_room_is_not_remembered() -> None:
    recent = RecentMessages()
    recent.add(NEWS, message("x" * 5_000_000))
    assert recent.of(NEWS) == []
    recent.add(NEWS, message("small"))
    assert ids(recent, NEWS) == ["small"]
