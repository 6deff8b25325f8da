"""What alarms do on a change of their state: nothing is lost, and what fails is in the history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from botocore.exceptions import ClientError

from monitoring.alarms import arn, put_alarm, set_state, state, summaries
from monitoring.differences import NO_SERVICE
from monitoring.world import ACCOUNT, SPACE, MonitoringWorld
from penstock.auth.policy import compile_policy
from penstock.auth.principal import Principal
from penstock.broker.delivery import Destination, QueueDelivery
from penstock.broker.internal_queues import Job
from penstock.errors import JobFailed, StoreError, StoreFull
from penstock.limits import HOUR, MINUTE
from penstock.monitoring.actions import ALARM_ACTIONS
from penstock.monitoring.alarm_records import PENDING, AlarmStatus, PendingAction, alarms_home
from penstock.names import QueueName, shard_of
from penstock.promise import Promise
from penstock.queues.settings import QueueSettings
from penstock.store.port import ShardState
from support.http_requests import json_request
from support.world import FaultyStore, name_of

HOOK = "https://hooks.example.com/alarms"


@pytest.fixture(params=[1, 3], ids=["one shard", "three shards"])
def world(request: pytest.FixtureRequest) -> Iterator[MonitoringWorld]:
    with MonitoringWorld(request.param, webhooks=(HOOK,)) as made:
        made.after_look()
        yield made


def bodies(world: MonitoringWorld, url: str) -> list[dict[str, Any]]:
    sqs = world.client("sqs")
    found: list[dict[str, Any]] = []
    while messages := sqs.receive_message(QueueUrl=url, MaxNumberOfMessages=10).get("Messages"):
        for message in messages:
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            found.append(json.loads(message["Body"]))
    return found


def actions(cw: Any, name: str = "a") -> list[str]:
    return summaries(cw, name, HistoryItemType="Action")


def test_a_message_to_queues_of_any_shard(world: MonitoringWorld, cw: Any) -> None:
    sqs = world.client("sqs")
    urls = [sqs.create_queue(QueueName=f"q{number}")["QueueUrl"] for number in range(4)]
    assert world.shards == 1 or len({shard_of(name_of(f"q{n}"), world.shards) for n in range(4)}) > 1
    put_alarm(cw, AlarmActions=[arn(f"q{number}", "sqs") for number in range(4)])
    set_state(cw, "a", "ALARM")
    world.advance(MINUTE // 2)
    for url in urls:
        (body,) = bodies(world, url)
        assert (body["AlarmName"], body["NewStateValue"]) == ("a", "ALARM")
    assert sorted(actions(cw)) == [f"Successfully executed action {arn(f'q{n}', 'sqs')}" for n in range(4)]


def test_a_fifo_queue_gets_changes_in_order(world: MonitoringWorld, cw: Any) -> None:
    sqs = world.client("sqs")
    url = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    put_alarm(cw, AlarmActions=[arn("q.fifo", "sqs")], OKActions=[arn("q.fifo", "sqs")])
    world.hold_commits()
    for value in ("ALARM", "OK", "ALARM"):
        members = {"AlarmName": "a", "StateValue": value, "StateReason": "test"}
        world.begin(json_request("GraniteServiceVersion20100801.SetAlarmState", json.dumps(members).encode()))
    world.release_commits()
    world.advance(1000)
    assert [body["NewStateValue"] for body in bodies(world, url)] == ["ALARM", "OK", "ALARM"]


def test_a_topic_gets_what_cloudwatch_publishes(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, AlarmActions=[arn("topic", "sns")])
    set_state(cw, "a", "ALARM")
    ((topic, subject, body),) = world.published
    assert (topic, subject) == (arn("topic", "sns"), 'ALARM: "a" in EU (Ireland)')
    assert json.loads(body)["NewStateValue"] == "ALARM"
    assert actions(cw) == [f"Successfully executed action {topic}"]


def test_a_topic_that_cannot_be_reached_gets_the_message_later(world: MonitoringWorld, cw: Any) -> None:
    world.publish_failures = [JobFailed("the topic cannot be reached: later", can_repeat=True)] * 10
    put_alarm(cw, AlarmActions=[arn("topic", "sns")])
    set_state(cw, "a", "ALARM")
    assert actions(cw) == []
    world.advance(HOUR)
    assert len(world.published) == 1
    assert actions(cw) == [f"Successfully executed action {arn('topic', 'sns')}"]


def test_a_topic_that_refuses_the_message_is_in_the_history(world: MonitoringWorld, cw: Any) -> None:
    world.publish_failures = [JobFailed("the topic does not exist")]
    put_alarm(cw, AlarmActions=[arn("topic", "sns")])
    set_state(cw, "a", "ALARM")
    assert 'Received error: "the topic does not exist"' in actions(cw)[0]
    assert world.published == []


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (arn("none", "sqs"), "the queue does not exist"),
        ("arn:aws:automate:eu-west-1:ec2:stop", NO_SERVICE),
        (arn("function:f", "lambda"), NO_SERVICE),
    ],
)
def test_an_action_that_fails_is_in_the_history(
    world: MonitoringWorld, cw: Any, action: str, error: str
) -> None:
    put_alarm(cw, AlarmActions=[action])
    set_state(cw, "a", "ALARM")
    assert actions(cw) == [f'Failed to execute action {action}. Received error: "{error}"']
    (item,) = cw.describe_alarm_history(AlarmName="a", HistoryItemType="Action")["AlarmHistoryItems"]
    data = json.loads(item["HistoryData"])
    assert (data["actionState"], data["notificationResource"]) == ("Failed", action)
    world.advance(10 * MINUTE)
    assert len(actions(cw)) == 1


def test_actions_run_on_a_change_only_and_if_they_are_enabled(world: MonitoringWorld, cw: Any) -> None:
    url = world.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    put_alarm(cw, AlarmActions=[arn("q", "sqs")], InsufficientDataActions=[arn("q", "sqs")])
    assert bodies(world, url) == [], "a new alarm does nothing"
    set_state(cw, "a", "ALARM")
    set_state(cw, "a", "ALARM")
    world.advance(1000)
    assert len(bodies(world, url)) == 1
    set_state(cw, "a", "OK")
    cw.disable_alarm_actions(AlarmNames=["a", "unknown"])
    set_state(cw, "a", "ALARM")
    world.advance(1000)
    assert bodies(world, url) == []
    cw.enable_alarm_actions(AlarmNames=["a"])
    set_state(cw, "a", "INSUFFICIENT_DATA")
    world.advance(1000)
    (body,) = bodies(world, url)
    assert body["NewStateValue"] == "INSUFFICIENT_DATA"


def test_a_composite_alarm_names_its_children_as_far_as_its_data_does(
    world: MonitoringWorld, cw: Any
) -> None:
    """A client that sets the state of the alarm writes the data."""
    child = {"arn": arn("b"), "state": {"value": "ALARM", "timestamp": 1.5}}
    later = {"arn": arn("b"), "state": {"value": "ALARM", "timestamp": 1e300}}
    rows: list[tuple[Any, int]] = [
        ({"triggeringAlarms": [child]}, 1),
        ({"triggeringAlarms": [1, child, {}, {"arn": "x"}, {"arn": "x", "state": 1}, later]}, 1),
        ({"triggeringAlarms": {"a": 1}}, 0),
        ([1], 0),
        ("text", 0),
    ]
    put_alarm(cw, "b")
    cw.put_composite_alarm(AlarmName="c", AlarmRule="ALARM(b)", AlarmActions=[HOOK], OKActions=[HOOK])
    world.posted.clear()
    for number, (data, children) in enumerate(rows):
        value = ("ALARM", "OK")[number % 2]
        cw.set_alarm_state(
            AlarmName="c", StateValue=value, StateReason="test", StateReasonData=json.dumps(data)
        )
        assert len(world.posted) == number + 1, data
        shown = json.loads(world.posted[-1][1])["TriggeringChildren"]
        assert len(shown) == children, data


def test_web_hooks_that_the_operator_allows(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, AlarmActions=[f"{HOOK}/a"], OKActions=[f"arn:aws:penstock:::webhook/{HOOK}/b"])
    set_state(cw, "a", "ALARM")
    set_state(cw, "a", "OK")
    assert [url for url, _ in world.posted] == [f"{HOOK}/a", f"{HOOK}/b"]
    assert json.loads(world.posted[0][1])["NewStateValue"] == "ALARM"
    for action in ("https://evil.example.com/", "arn:aws:penstock:::webhook/http://169.254.169.254/"):
        with pytest.raises(ClientError) as refused:
            put_alarm(cw, AlarmActions=[action])
        assert "alarm_webhooks" in refused.value.response["Error"]["Message"]


def test_a_web_hook_is_tried_again(world: MonitoringWorld, cw: Any) -> None:
    put_alarm(cw, AlarmActions=[HOOK])
    world.post_failures = [JobFailed("down", can_repeat=True)] * 2
    set_state(cw, "a", "ALARM")
    assert (world.posted, actions(cw)) == ([], [])
    world.advance(MINUTE)
    assert (len(world.posted), actions(cw)) == (1, [f"Successfully executed action {HOOK}"])
    world.post_failures = [JobFailed("down", can_repeat=True)] * 9
    set_state(cw, "a", "OK")
    set_state(cw, "a", "ALARM")
    world.advance(2 * MINUTE)
    assert actions(cw)[-1] == f'Failed to execute action {HOOK}. Received error: "down"'


def test_what_was_not_carried_out_is_carried_out_after_a_crash(world: MonitoringWorld, cw: Any) -> None:
    url = world.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    put_alarm(cw, AlarmActions=[HOOK, arn("q", "sqs")])
    world.post_failures = [JobFailed("down", can_repeat=True)]
    set_state(cw, "a", "ALARM")
    world.crash()
    world.advance(1000)
    assert len(world.posted) == 1
    assert len(bodies(world, url)) == 1
    assert len(actions(cw)) == 2
    world.crash()
    world.advance(MINUTE)
    assert len(world.posted) == 1, "it was carried out"
    assert bodies(world, url) == []


def test_a_message_is_sent_once_although_its_commit_is_refused(world: MonitoringWorld, cw: Any) -> None:
    """The change of the state is stored, and then the commit that sends the message fails."""
    url = world.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    put_alarm(cw, AlarmActions=[arn("q", "sqs")])
    stores = [world.monitoring.of_alarms(SPACE).shard.store]
    for store in stores:
        append = store.append
        calls = iter((True, False))

        def failing(changes: Any, mark: Any, append: Any = append, calls: Any = calls) -> Any:
            if not next(calls, True):
                raise StoreError("refused by the test")
            return append(changes, mark)

        store.append = failing  # type: ignore[method-assign]
    set_state(cw, "a", "ALARM")
    assert (state(cw), actions(cw)) == ("ALARM", [])
    world.advance(MINUTE)
    assert len(bodies(world, url)) == 1
    assert actions(cw) == [f"Successfully executed action {arn('q', 'sqs')}"]


def test_a_quota_that_is_reached_delays_a_message() -> None:
    with MonitoringWorld() as world:
        cw, sqs = world.client(), world.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="{}")
        put_alarm(cw, AlarmActions=[arn("q", "sqs")])
        world.limits = msgspec.structs.replace(world.limits, quota_messages=2)  # this one, and the action
        world.crash()
        set_state(cw, "a", "ALARM")
        world.advance(HOUR)
        assert actions(cw) == []
        assert bodies(world, url) == [{}]
        world.advance(5 * MINUTE)
        assert [body["NewStateValue"] for body in bodies(world, url)] == ["ALARM"]
        assert actions(cw) == [f"Successfully executed action {arn('q', 'sqs')}"]


def test_a_web_hook_that_answers_late_is_called_once(world: MonitoringWorld, cw: Any) -> None:
    """Its request may wait for those of other regions for longer than the visibility timeout of a job."""
    world.hanging[ACCOUNT] = Promise()
    put_alarm(cw, AlarmActions=[HOOK])
    set_state(cw, "a", "ALARM")
    world.advance(10 * MINUTE)
    world.broker.keys_changed()  # the memory of all queues is loaded again
    world.hanging.pop(ACCOUNT).resolve(None)
    world.advance(10 * MINUTE)
    assert (len(world.posted), actions(cw)) == (1, [f"Successfully executed action {HOOK}"])


@pytest.mark.parametrize("step", ["find", "prepare"])
def test_an_action_that_has_lost_its_job_sends_nothing(
    world: MonitoringWorld, cw: Any, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """It loses the job while it waits for what the queue is, or for its memory."""
    url = world.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    put_alarm(cw, AlarmActions=[arn("q", "sqs")])
    delivery = world.broker.partition(alarms_home(SPACE).shard(world.shards)).delivery
    original, may_end = getattr(delivery, step), Promise[None]()

    async def slowly(*arguments: Any) -> Any:
        if not may_end.done:
            await may_end
        return await original(*arguments)

    monkeypatch.setattr(delivery, step, slowly)
    monkeypatch.setattr(Job, "start_extending", lambda job: None)
    set_state(cw, "a", "ALARM")
    world.advance(ALARM_ACTIONS.visibility_ms)
    may_end.resolve(None)
    world.advance(MINUTE)
    assert [body["NewStateValue"] for body in bodies(world, url)] == ["ALARM"]
    assert actions(cw) == [f"Successfully executed action {arn('q', 'sqs')}"]


def test_a_shard_that_cannot_be_reached_delays_a_message() -> None:
    with MonitoringWorld(3) as world:
        cw, sqs = world.client(), world.client("sqs")
        shard = (alarms_home(SPACE).shard(3) + 1) % 3
        name = world.name("q", shard)
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        put_alarm(cw, AlarmActions=[arn(name, "sqs")])
        closed = world.close_shard(shard)
        world.run()
        closed.result()
        set_state(cw, "a", "ALARM")
        world.advance(HOUR)
        world.open_shard(shard)
        world.advance(5 * MINUTE)
        assert [body["NewStateValue"] for body in bodies(world, url)] == ["ALARM"]
        assert actions(cw) == [f"Successfully executed action {arn(name, 'sqs')}"]


def test_a_quota_that_stays_reached_ends_an_action() -> None:
    with MonitoringWorld() as world:
        cw, sqs = world.client(), world.client("sqs")
        url = sqs.create_queue(QueueName="q")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="{}")
        put_alarm(cw, AlarmActions=[arn("q", "sqs")])
        world.limits = msgspec.structs.replace(world.limits, quota_messages=2)
        world.crash()
        set_state(cw, "a", "ALARM")
        world.advance(6 * HOUR)
        (failed,) = actions(cw)
        assert failed.startswith("Failed") and "QuotaReached" in failed


def test_what_a_queue_of_another_shard_refuses_is_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    async def find(delivery: QueueDelivery, name: QueueName) -> Destination:
        return Destination(name, QueueSettings(), None)

    with MonitoringWorld(3) as world:
        cw = world.client()
        name = world.name("q", (alarms_home(SPACE).shard(3) + 1) % 3)
        put_alarm(cw, AlarmActions=[arn(name, "sqs")])
        monkeypatch.setattr(QueueDelivery, "find", find)  # it is deleted right after it was found
        set_state(cw, "a", "ALARM")
        world.advance(1000)
        assert actions(cw) == [
            f"Successfully executed action {arn(name, 'sqs')}",
            f"Failed to execute action {arn(name, 'sqs')}. "
            'Received error: "the queue takes no messages: QueueMissing"',
        ]
        world.crash()
        world.advance(MINUTE)
        assert len(actions(cw)) == 2


@pytest.mark.parametrize("distance", [0, 1], ids=["same shard", "another shard"])
def test_a_message_for_an_account_whose_quota_is_used_up_is_sent_when_there_is_room(distance: int) -> None:
    with MonitoringWorld(3) as world:
        cw, sqs = world.client(), world.client("sqs")
        name = world.name("q", (alarms_home(SPACE).shard(3) + distance) % 3)
        url = sqs.create_queue(QueueName=name)["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody="{}")
        sqs.send_message(QueueUrl=url, MessageBody="{}")
        put_alarm(cw, AlarmActions=[arn(name, "sqs")])
        world.limits = msgspec.structs.replace(world.limits, quota_messages=2)
        world.crash()
        set_state(cw, "a", "ALARM")
        world.advance(MINUTE)
        assert actions(cw) == []
        assert len(bodies(world, url)) == 2
        world.advance(MINUTE)
        assert len(bodies(world, url)) == 1
        assert actions(cw) == [f"Successfully executed action {arn(name, 'sqs')}"]


def test_actions_that_an_earlier_release_has_stored_are_carried_out(world: MonitoringWorld, cw: Any) -> None:
    url = world.client("sqs").create_queue(QueueName="q")["QueueUrl"]
    put_alarm(cw)
    here = world.monitoring.of_alarms(SPACE)
    alarm = here.alarms.get(SPACE, "a")
    assert alarm is not None
    before = AlarmStatus(state="OK", reason="", updated_ms=0, changed_ms=0)
    for number, action in enumerate((HOOK, arn("q", "sqs"))):
        pending = PendingAction(alarm=alarm, before=before, action=action, tries=1)
        here.shard.table(PENDING).put(alarms_home(SPACE).key(str(number)), pending)
    world.run()
    assert (world.posted, actions(cw)) == ([], [])
    for _ in range(2):
        world.crash()
        world.advance(MINUTE)
        assert len(world.posted) == 1
        assert sorted(actions(cw)) == [
            f"Successfully executed action {action}" for action in sorted((HOOK, arn("q", "sqs")))
        ]
    assert len(bodies(world, url)) == 1


def test_actions_of_an_earlier_release_survive_a_refused_commit_and_keep_their_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    open_store = FaultyStore.open

    def open_and_refuse(store: FaultyStore) -> ShardState:
        store.refusals.append(StoreFull("no space left on the disk"))
        return open_store(store)

    with MonitoringWorld(webhooks=(HOOK,)) as world:
        cw = world.client()
        put_alarm(cw, AlarmActions=[HOOK])
        here = world.monitoring.of_alarms(SPACE)
        alarm = here.alarms.get(SPACE, "a")
        assert alarm is not None
        before = AlarmStatus(state="OK", reason="", updated_ms=0, changed_ms=0)
        for number in (2, 1):  # a database returns them in any order
            status = AlarmStatus(state="ALARM", reason=f"change {number}", updated_ms=0, changed_ms=0)
            pending = PendingAction(
                alarm=msgspec.structs.replace(alarm, status=status), before=before, action=HOOK
            )
            here.shard.table(PENDING).put(alarms_home(SPACE).key(f"{number:020d}"), pending)
        world.run()
        monkeypatch.setattr(FaultyStore, "open", open_and_refuse)
        world.crash()
        world.advance(MINUTE)
        assert [json.loads(body)["NewStateReason"] for _, body in world.posted] == ["change 1", "change 2"]


def user(*statements: dict[str, Any]) -> Principal:
    text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    policies = (compile_policy(text, kind="identity"),)
    return Principal(
        kind="user", account=ACCOUNT, arn=f"arn:aws:iam::{ACCOUNT}:user/u", id="AIDA", policies=policies
    )


def allow(*actions: str) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": list(actions), "Resource": "*"}


def test_who_creates_an_alarm_must_be_allowed_to_send_to_its_queue(world: MonitoringWorld, cw: Any) -> None:
    world.client("sqs").create_queue(QueueName="q")
    world.principal = user(allow("cloudwatch:*"))
    with pytest.raises(ClientError) as refused:
        put_alarm(cw, AlarmActions=[arn("q", "sqs")])
    assert refused.value.response["Error"]["Code"] == "AccessDenied"
    assert "sqs:sendmessage" in refused.value.response["Error"]["Message"]
    put_alarm(cw, AlarmActions=[arn("topic", "sns")])
    world.principal = user(allow("cloudwatch:*", "sqs:SendMessage"))
    put_alarm(cw, AlarmActions=[arn("q", "sqs")])
    with pytest.raises(ClientError) as refused:
        put_alarm(cw, AlarmActions=[arn("q", "sqs").replace(ACCOUNT, "111111111111")])
    assert "its own account" in refused.value.response["Error"]["Message"]


@pytest.mark.parametrize("is_secured", [False, True])
def test_the_policy_of_a_queue_can_deny_it_to_alarms(is_secured: bool) -> None:
    with MonitoringWorld(is_secured=is_secured) as world:
        cw, sqs = world.client(), world.client("sqs")
        deny = {
            "Effect": "Deny", "Principal": {"Service": "cloudwatch.amazonaws.com"}, "Action": "sqs:SendMessage",
            "Resource": "*", "Condition": {"ArnLike": {"aws:SourceArn": arn("noisy*")}},
        }  # fmt: skip
        policy = json.dumps({"Version": "2012-10-17", "Statement": [deny]})
        sqs.create_queue(QueueName="q", Attributes={"Policy": policy})
        for name in ("noisy-1", "a"):
            put_alarm(cw, name, AlarmActions=[arn("q", "sqs")])
            set_state(cw, name, "ALARM")
        assert actions(cw) == [f"Successfully executed action {arn('q', 'sqs')}"]
        (summary,) = actions(cw, "noisy-1")
        assert summary.startswith("Failed" if is_secured else "Success")
