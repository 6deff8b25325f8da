"""The tables of actions: a row for every action, complete and consistent."""

from __future__ import annotations

import re
from unittest.mock import Mock

import pytest

from penstock.auth import authorize as authorization
from penstock.auth.authorize import Permission
from penstock.server.compose import SERVICES
from penstock.services import sns, sqs, sts
from penstock.topics.policy import DEFAULT_ACTIONS
from penstock.wire.service import Action, Service
from support.rows import every_row

ROWS = [
    pytest.param(service, row, id=f"{service.signing_name}:{name}")
    for service, _ in SERVICES
    for name, row in service.actions.items()
]
OWNER_ONLY = {
    "AddPermission", "CancelMessageMoveTask", "CreateQueue", "DeleteQueue", "ListMessageMoveTasks", "ListQueueTags",
    "ListQueues", "RemovePermission", "SetQueueAttributes", "StartMessageMoveTask", "TagQueue", "UntagQueue",
}  # fmt: skip
BATCHES = {
    "ChangeMessageVisibilityBatch": "sqs:ChangeMessageVisibility",
    "DeleteMessageBatch": "sqs:DeleteMessage",
    "SendMessageBatch": "sqs:SendMessage",
}


@every_row(("service", "row"), ROWS)
def test_a_row_names_its_own_structs_and_handler(service: Service, row: Action) -> None:
    assert service.actions[row.name] is row
    if (
        service.signing_name != "penstock"
    ):  # AWS has two shapes for each action; rows of the admin API share some
        assert row.request.__name__ == f"{row.name}Request"
        assert row.response is None or row.response.__name__ == f"{row.name}Result"
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", row.name).lower()
    assert getattr(row.handler, "__name__", "") == snake
    assert (row.resource is None) == (not row.permission), "what is authorised has a resource"


@every_row(("service", "row"), ROWS)
def test_an_audited_change_is_not_read_only(service: Service, row: Action) -> None:
    if row.audit.category == "Management" and not row.audit.gives_credentials:
        assert row.read_only == (row.name == "GetCallerIdentity")
    if row.audit.category is None:
        assert row.read_only
    if "QueueUrl" in row.request.__struct_fields__:
        assert row.audit.parameters[0] == "QueueUrl"


def test_every_sqs_permission_stands_once_except_for_batches() -> None:
    single = {name: row.permission for name, row in sqs.ACTIONS.items() if name not in BATCHES}
    assert single == {name: f"sqs:{name}" for name in single}
    assert {name: sqs.ACTIONS[name].permission for name in BATCHES} == BATCHES


def test_only_grantable_actions_are_for_other_accounts_and_anonymous_callers() -> None:
    assert {name for name, row in sqs.ACTIONS.items() if not row.grantable} == OWNER_ONLY
    assert all(row.anonymous == row.grantable for row in sqs.ACTIONS.values())
    assert not any(row.anonymous for row in sts.ACTIONS.values())


def test_the_root_of_an_account_can_always_repair_a_queue_policy() -> None:
    assert {name for name, row in sqs.ACTIONS.items() if row.root_always} == {
        "GetQueueAttributes", "GetQueueUrl", "ListQueues", "RemovePermission", "SetQueueAttributes",
    }  # fmt: skip


def test_links_lead_to_two_actions_of_sns_and_to_nothing_else() -> None:
    """They are served without a signature, so that their handlers check what they name."""
    linked = {row.name: row for service, _ in SERVICES for row in service.actions.values() if row.by_link}
    assert linked.keys() == {"ConfirmSubscription", "Unsubscribe"}
    assert all(row.anonymous for row in linked.values())
    assert not any(row.anonymous for row in sns.ACTIONS.values() if not row.by_link)


def test_what_the_policy_of_a_topic_can_grant() -> None:
    assert {row.permission for row in sns.ACTIONS.values() if row.grantable} == {
        f"sns:{action}" for action in DEFAULT_ACTIONS
    }


def test_every_signed_caller_may_ask_sts_who_it_is() -> None:
    assert {name for name, row in sts.ACTIONS.items() if not row.permission} == {
        "GetCallerIdentity", "GetSessionToken",
    }  # fmt: skip


def test_a_message_that_gets_into_a_queue_in_another_way_needs_the_permission_of_send_message() -> None:
    """Services cannot import each other, so that what ``authorize_send`` asks stands beside the row."""
    asked: list[Permission] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(authorization, "authorize", lambda call, row, resource: asked.append(row))
        authorization.authorize_send(Mock(), Mock())
    sends = sqs.ACTIONS["SendMessage"]
    assert [(row.permission, row.grantable, row.root_always) for row in asked] == [
        (sends.permission, sends.grantable, sends.root_always)
    ]
