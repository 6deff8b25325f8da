"""Workers that fail, are stopped and are killed: what becomes of their messages."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path

import pytest

from e2e.worker.conftest import Create, Queues
from support.command_line import AmazonLookalike, CommandLine
from support.process import ServerProcess, free_port
from support.secured import Secured
from support.texts import says
from support.waiting import until
from support.worker_programs import PATIENCE_S, Application

HEAD = """\
import asyncio, time
from penstock.client import *
app = Worker(retry=RetryPolicy(Constant(1)))
"""


# -- failures ------------------------------------------------------------------------------------------------


def test_a_failing_handler_is_tried_again(queues: Queues, application: Create) -> None:
    queues.create("retried")
    queues.send("retried", "x")
    jobs = application(f"""{HEAD}
@app.handler("retried")
def handle(body: str, context: MessageContext):
    note("attempt", context.attempt)
    if context.attempt < 3:
        raise ValueError("not yet")
""")
    with jobs.start() as worker:
        jobs.until_noted("attempt 3")
        queues.until_empty("retried")
        assert worker.stop() == 0
    assert jobs.notes == ["attempt 1", "attempt 2", "attempt 3"]


def test_dead_letters_are_grouped_by_the_reason_that_was_reported(
    worker_server: ServerProcess, queues: Queues, application: Create
) -> None:
    queues.create("poisoned", dead_letters="poisoned-dead")
    queues.send("poisoned", "a", "b", "no JSON")
    jobs = application(f"""{HEAD}
@app.handler("poisoned", retry=RetryPolicy(by_type={{KeyError: GIVE_UP}}))
def handle(value: str, context: MessageContext):
    if value == "a":
        raise GiveUp("not for us")
    raise KeyError(f"customer {{1000 + len(value)}}")
""")
    penstock = CommandLine(worker_server.url)
    with jobs.start() as worker:
        queues.until_counts("poisoned-dead", 3, 0)
        assert worker.stop() == 0
    assert queues.counts("poisoned") == (0, 0)
    groups = penstock.json_lines("dlq", "show", "poisoned-dead", "--by", "reason", "--by", "source")
    assert sorted((group["source"], group["reason"], group["count"]) for group in groups) == [
        ("poisoned", "KeyError: 'customer …'", 2), ("poisoned", "not for us", 1),
    ]  # fmt: skip
    failure = queues.messages("poisoned-dead")[1]["failure"]
    assert failure["attempt"] == 1 and 'jobs.py", line' in failure["detail"] and ":" in failure["worker"]


def test_amazon_gets_neither_reports_nor_moves(
    worker_server: ServerProcess, queues: Queues, tmp_path: Path
) -> None:
    queues.create("amazon", dead_letters="amazon-dead")
    attributes = {"colour": {"DataType": "String", "StringValue": "blue"}}
    queues.send("amazon", "x", MessageAttributes=attributes)
    lookalike = AmazonLookalike(worker_server.url)
    source = f"""{HEAD}
@app.handler("amazon")
async def handle(value: str):
    raise GiveUp("poison")
"""
    jobs = Application(tmp_path, source, lookalike.url)
    with jobs.start() as worker:
        queues.until_counts("amazon-dead", 1, 0)
        queues.until_empty("amazon")
        assert worker.stop() == 0
    (letter,) = queues.messages("amazon-dead")
    assert (letter["body"], letter["attributes"]["colour"]["value"]) == ("x", "blue")
    assert "failure" not in letter and "source" not in letter
    lookalike.stop()


@pytest.mark.parametrize("policies", [["sqs-full-access"], ["sqs-full-access", "penstock-full-access"]])
def test_what_is_given_up_with_and_without_permissions_for_the_admin_api(
    tmp_path: Path, policies: list[str]
) -> None:
    world = Secured(tmp_path)
    world.add("owner", "sqs-full-access")
    world.add("worker", *policies)
    source = f"""{HEAD}
@app.handler("guarded")
async def handle(body: str, context: MessageContext):
    raise GiveUp("poison")
"""
    with world.running():
        sqs = world.client("owner")
        dead = sqs.create_queue(QueueName="guarded-dead")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])["Attributes"]["QueueArn"]
        policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 5})
        url = sqs.create_queue(QueueName="guarded", Attributes={"RedrivePolicy": policy})["QueueUrl"]
        sent = sqs.send_message(QueueUrl=url, MessageBody="x")["MessageId"]
        key, secret = world.keys["worker"]
        jobs = Application(
            tmp_path, source, world.server.url,
            AWS_ACCESS_KEY_ID=key, AWS_SECRET_ACCESS_KEY=secret, AWS_REGION="eu-west-1",
        )  # fmt: skip
        with jobs.start() as worker:
            worker.until_logged("gave a message up")
            assert worker.stop() == 0
        (letter,) = sqs.receive_message(QueueUrl=dead, WaitTimeSeconds=20)["Messages"]
        assert letter["Body"] == "x"
        by_admin = "penstock-full-access" in policies
        assert (letter["MessageId"] == sent) == by_admin, "without it, another message is sent"
        denied = any("penstock:ReportFailure" in message for message in worker.messages())
        assert denied != by_admin
        assert "Messages" not in sqs.receive_message(QueueUrl=url)


def test_a_batch_fails_in_part(queues: Queues, application: Create) -> None:
    queues.create("batched")
    queues.send("batched", *"abcdef")
    jobs = application(f"""{HEAD}
@app.handler("batched", batch_size=10, batch_wait_s=1, concurrency=1)
def handle(bodies: list[str], context: MessageContext):
    note("batch", *sorted(bodies))
    return [ValueError(body) if body in "bd" and context.attempt == 1 else None for body in bodies]
""")
    with jobs.start() as worker:
        queues.until_empty("batched")
        assert worker.stop() == 0
    handled = [body for line in jobs.notes for body in line.split()[1:]]
    assert sorted(handled) == [*"abbcddef"], "two of them twice"


# -- claims --------------------------------------------------------------------------------------------------


def test_a_long_handler_keeps_its_message_and_no_other_worker_gets_it(
    queues: Queues, application: Create
) -> None:
    queues.create("long", VisibilityTimeout=5)
    queues.send("long", "x")
    jobs = application(f"""{HEAD}
@app.handler("long")
def handle(body: str, context: MessageContext):
    note("begins")
    wait_for("go-on")
    note("ends")
""")
    with jobs.start(), jobs.start():
        jobs.until_noted("begins")
        until_extended(queues, "long")
        jobs.create("go-on")
        queues.until_empty("long")
    assert jobs.notes == ["begins", "ends"]


def until_extended(queues: Queues, queue: str) -> None:
    """Waits until the message has been hidden for longer than the visibility timeout."""

    def is_extended() -> bool:
        (message,) = queues.messages(queue)
        return "holder" in message and message["holder"]["extended"] >= 3

    until(is_extended, "it is extended", PATIENCE_S)


def test_a_handler_in_a_thread_learns_that_it_lost_its_message(queues: Queues, application: Create) -> None:
    queues.create("lost", VisibilityTimeout=2)
    queues.send("lost", "x")
    jobs = application(f"""{HEAD}
@app.handler("lost", heartbeat=False)
def handle(body: str, context: MessageContext):
    if context.attempt == 1:
        note("lost", context.claim_lost.wait(30))
""")
    with jobs.start() as worker:
        jobs.until_noted("lost True")
        queues.until_empty("lost")
        says("\n".join(worker.messages()), "lost", "visibility timeout")


# -- a worker that is killed ---------------------------------------------------------------------------------


def test_another_worker_handles_what_a_killed_one_had(queues: Queues, application: Create) -> None:
    queues.create("killed", VisibilityTimeout=5)
    queues.send("killed", "x")
    jobs = application(f"""{HEAD}
@app.handler("killed")
def handle(body: str, context: MessageContext):
    note("begins", context.attempt, context.worker)
    if context.attempt == 1:
        time.sleep(600)
""")
    with jobs.start() as first, jobs.start() as second:
        until(lambda: bool(jobs.notes), "one of them begins", PATIENCE_S)
        until_extended(queues, "killed")
        (begun,) = jobs.notes
        _, attempt, holder = begun.split()
        assert attempt == "1"
        (first if holder.endswith(f":{first.process.pid}") else second).kill()
        queues.until_empty("killed")
    assert [line.split()[1] for line in jobs.notes] == ["1", "2"]


@pytest.mark.parametrize("batch_size", [None, 4])
def test_groups_stay_in_order_when_workers_fail_and_are_killed(
    queues: Queues, application: Create, batch_size: int | None
) -> None:
    queue = f"ordered-{batch_size}.fifo"
    queues.create(queue, VisibilityTimeout=5)
    for number in range(12):
        for group in "abc":
            queues.send(queue, f"{group} {number}", group=group)
    kind = "str" if batch_size is None else "list[str]"
    jobs = application(f"""{HEAD}
import random
def work(body):
    note(body)
    time.sleep(0.05)
    if random.random() < 0.1:
        raise ValueError
def work_on_all(bodies, context):
    outcomes = [None] * len(bodies)
    for place, body in enumerate(bodies):
        try:
            if context.claim_lost.is_set():
                raise ValueError
            work(body)
        except ValueError as error:
            outcomes[place] = error
            break
    return outcomes
@app.handler({queue!r}, batch_size={batch_size}, retry=RetryPolicy(Constant(0)))
def handle(given: {kind}, context: MessageContext):
    return work(given) if isinstance(given, str) else work_on_all(given, context)
""")
    with jobs.start() as first, jobs.start() as second:
        jobs.until_noted("a 2")
        first.kill()
        with jobs.start():
            jobs.until_noted("a 5")
            second.kill()
            queues.until_empty(queue)
    for group in "abc":
        numbers = [int(line.split()[1]) for line in jobs.notes if line.startswith(group)]
        assert sorted(set(numbers)) == list(range(12))
        if batch_size is None:
            assert all(later - earlier in (0, 1) for earlier, later in pairwise(numbers)), numbers
        else:
            # A killed worker may have handled some of a batch; then they come again from its first on.
            assert all(later - earlier <= 1 for earlier, later in pairwise(numbers)), numbers


def test_keys_in_a_file_survive_a_killed_worker(queues: Queues, application: Create) -> None:
    queues.create("once", VisibilityTimeout=5)
    queues.send("once", "1", "2", "1", "3", "2", "1")
    jobs = application(f"""{HEAD}
keys = Idempotency(SqliteKeys("keys"), key=lambda context: context.value)
@app.handler("once", idempotency=keys)
def handle(body: str, context: MessageContext):
    note("begins", body)
    if body == "3" and context.attempt == 1:
        time.sleep(600)
    note("ends", body)
""")
    with jobs.start() as first:
        jobs.until_noted("ends 1", "ends 2", "begins 3")
        queues.until_counts("once", 0, 1)  # what is done is also noted as done
        first.kill()
    queues.send("once", "2")
    with jobs.start():
        jobs.until_noted("ends 3")
        queues.until_empty("once")
    assert sorted(jobs.notes) == sorted([
        "begins 1", "ends 1", "begins 2", "ends 2", "begins 3", "begins 3", "ends 3",
    ])  # fmt: skip


def test_a_worker_for_what_there_is(queues: Queues, application: Create) -> None:
    for queue in ("first", "second", "third"):
        queues.create(queue)
    queues.send("first", *"abc")
    jobs = application(f"""{HEAD}
@app.handler("first")
async def handle_first(body: str):
    note("first", body)
    await app.client.send_message("second", body)
@app.handler("second")
async def handle_second(body: str):
    note("second", body)
    await app.client.send_message("third", body)
@app.handler("third")
async def handle_third(body: str):
    note("third", body)
""")
    with jobs.start("--until-empty", waits=False) as worker:
        assert worker.ended() == 0
    assert sorted(jobs.notes) == sorted(
        f"{queue} {body}" for queue in ("first", "second", "third") for body in "abc"
    )


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_what_handlers_print_is_seen_at_once_in_whole_lines(
    queues: Queues, application: Create, unbuffered: str
) -> None:
    queue = f"printing{unbuffered}"
    queues.create(queue)
    queues.send(queue, *"abcdefgh")
    jobs = application(f"""{HEAD}
@app.handler("{queue}", concurrency=8)
def handle(body: str):
    for number in range(500):
        print(f"{{body}} {{number}}")
""")
    jobs.environment["PYTHONUNBUFFERED"] = unbuffered
    with jobs.start() as worker:
        queues.until_empty(queue)
        printed = jobs.printed.read_text().splitlines()
        assert worker.stop() == 0
    assert sorted(printed) == sorted(f"{body} {number}" for body in "abcdefgh" for number in range(500))


def test_two_workers_share_the_work(queues: Queues, application: Create) -> None:
    queues.create("shared")
    jobs = application(f"""{HEAD}
@app.handler("shared", concurrency=2)
async def handle(body: str, context: MessageContext):
    note(body, context.worker)
    await asyncio.sleep(0.1)
""")
    with jobs.start() as first, jobs.start() as second:
        queues.send("shared", *(str(number) for number in range(40)))
        queues.until_empty("shared")
        assert (first.stop(), second.stop()) == (0, 0)
    assert sorted(int(line.split()[0]) for line in jobs.notes) == list(range(40))
    assert len({line.split()[1] for line in jobs.notes}) == 2


# -- stopping ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_lets_handlers_end_and_gives_back_the_rest(
    queues: Queues, application: Create, number: signal.Signals
) -> None:
    queue = f"stopped-{number.name}"
    queues.create(queue, VisibilityTimeout=600)
    jobs = application(f"""{HEAD}
@app.handler({queue!r}, concurrency=2)
def handle(body: str):
    note("begins", body)
    if body.startswith("slow"):
        wait_for("go-on")
    note("ends", body)
@app.on_stop
def stopped():
    note("stopped")
""")
    with jobs.start() as worker:
        queues.send(queue, *(f"quick{place}" for place in range(40)))  # then some are received in advance
        queues.until_empty(queue)
        queues.send(queue, *(f"slow{place}" for place in range(10)))
        queues.until_counts(queue, 0, 10)
        worker.signal(number)
        queues.until_counts(queue, 8, 2)
        jobs.create("go-on")
        assert worker.ended() == 0
    assert queues.counts(queue) == (8, 0)
    assert [line for line in jobs.notes if "quick" not in line][-1] == "stopped"
    assert sum(line.startswith("ends slow") for line in jobs.notes) == 2


@pytest.mark.parametrize("kind", ["async def", "def"])
def test_a_second_signal_interrupts_handlers(queues: Queues, application: Create, kind: str) -> None:
    queue = f"hurried-{kind[0]}"
    queues.create(queue, VisibilityTimeout=600)
    queues.send(queue, "x")
    wait = "await asyncio.sleep(600)" if kind == "async def" else "time.sleep(600)"
    jobs = application(f"""{HEAD}
@app.handler({queue!r})
{kind} handle(body: str):
    note("begins")
    {wait}
""")
    with jobs.start() as worker:
        jobs.until_noted("begins")
        worker.signal(signal.SIGTERM)
        worker.until_logged("SIGTERM: finishing")
        worker.signal(signal.SIGTERM)
        assert worker.ended() == 128 + signal.SIGTERM
    assert queues.counts(queue) == (1, 0)


def test_a_stop_has_a_limit(queues: Queues, application: Create) -> None:
    queues.create("limited", VisibilityTimeout=600)
    queues.send("limited", "x")
    jobs = application(f"""{HEAD}
@app.handler("limited")
def handle(body: str):
    note("begins")
    time.sleep(600)
""")
    with jobs.start("--stop-timeout", "1s") as worker:
        jobs.until_noted("begins")
        assert worker.stop() == 0
    assert queues.counts("limited") == (1, 0)


# -- a server that goes and comes ----------------------------------------------------------------------------


def test_a_worker_waits_for_its_server_and_survives_its_restart(tmp_path: Path) -> None:
    port, data = str(free_port()), str(tmp_path / "data")
    source = f"""{HEAD}
@app.handler("orders")
async def handle(body: str):
    note(body)
"""
    jobs = Application(tmp_path, source, f"http://127.0.0.1:{port}")
    with jobs.start(waits=False) as worker:
        worker.until_logged("waiting for the server")
        with ServerProcess("--data", data, "--port", port) as server:
            # There is no queue yet: an operator has to create it.
            assert worker.ended() == 2, worker.log
            queues = Queues(server.url)
            queues.create("orders")
            with jobs.start() as worker:
                queues.send("orders", "a")
                jobs.until_noted("a")
                queues.close()
                server.kill()
                worker.until_logged("cannot receive messages")
                with ServerProcess("--data", data, "--port", port) as again:
                    queues = Queues(again.url)
                    queues.send("orders", "b")
                    jobs.until_noted("b")
                    queues.until_empty("orders")
                    queues.close()
                assert worker.stop() == 0
