"""Many messages a request, at a rate: the pace, and how batches are made."""

from __future__ import annotations

from typing import Any

from penstock.cli.messages.sending import MessageToSend, Pace, send_all


class SimulatedTime:
    def __init__(self) -> None:
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class TargetStub:
    """Accepts all messages but those with the body "bad"; keeps the batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []

    def sqs(self, action: str, QueueUrl: str, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        assert (action, QueueUrl) == ("SendMessageBatch", "url")
        self.batches.append([entry["MessageBody"] for entry in Entries])
        answer: dict[str, Any] = {"Successful": [], "Failed": []}
        for entry in reversed(Entries):
            if entry["MessageBody"] == "bad":
                answer["Failed"].append(
                    {"Id": entry["Id"], "Code": "Wrong", "Message": "no", "SenderFault": True}
                )
            else:
                answer["Successful"].append({"Id": entry["Id"], "MessageId": f"id of {entry['MessageBody']}"})
        return answer


def batches_of(*bodies: str, pace: Pace | None = None) -> list[list[str]]:
    target: Any = TargetStub()
    messages = (MessageToSend(n, {"MessageBody": body}) for n, body in enumerate(bodies, 1))
    for _ in send_all(target, "url", messages, pace or Pace(None)):
        pass
    batches: list[list[str]] = target.batches
    return batches


def test_ten_messages_a_request() -> None:
    assert [len(batch) for batch in batches_of(*map(str, range(25)))] == [10, 10, 5]
    assert batches_of() == []


def test_a_request_is_not_longer_than_sqs_takes() -> None:
    long, longest = "ä" * 300_000, "x" * 1_048_576
    assert batches_of(long, "short", long, longest, "short") == [
        [long, "short"],
        [long],
        [longest],
        ["short"],
    ]


def test_outcomes_are_in_the_order_of_the_messages() -> None:
    target: Any = TargetStub()
    messages = [MessageToSend(n, {"MessageBody": body}) for n, body in enumerate(["a", "bad", "b"], 7)]
    ((first, second, third),) = send_all(target, "url", messages, Pace(None))
    assert (first.number, first.id, first.error) == (7, "id of a", None)
    assert (second.number, second.id, second.error) == (8, None, "Wrong: no")
    assert (third.number, third.id) == (9, "id of b")


def test_a_rate_is_kept_evenly() -> None:
    for rate, count, size in ((0.5, 4, 1), (20, 40, 2), (1000, 500, 10)):
        time = SimulatedTime()
        sent = batches_of(*map(str, range(count)), pace=Pace(rate, time.clock, time.sleep))
        assert {len(batch) for batch in sent} == {size}
        # The first batch does not wait.
        assert abs(time.now - 100 - (count - size) / rate) < 1e-6


def test_time_that_was_lost_is_not_made_up_for() -> None:
    time = SimulatedTime()
    pace = Pace(10, time.clock, time.sleep)
    pace.wait(1)
    time.now += 60
    pace.wait(1)
    pace.wait(1)
    assert abs(time.now - 160.1) < 1e-6
