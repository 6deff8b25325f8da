"""The actions of the admin API, one row each: everything that is known about an action stands here.

The permission is ``penstock:`` and the name of the row. A row about a queue can be allowed to other accounts by the
policy of the queue. Every change is in the audit log; the audit members are an allow list, on which bodies, message
attributes and filters never are, because they quote messages.
"""

from __future__ import annotations

import msgspec

from penstock.services.admin import structs as st
from penstock.services.admin import topic_structs as tt
from penstock.services.admin.access import list_audit_events, list_permissions
from penstock.services.admin.changes import (
    dead_letter_message,
    delete_message,
    edit_message,
    move_message,
    redrive_message,
    release_message,
    reorder_message,
    report_failure,
    reset_message,
)
from penstock.services.admin.messages import get_message, get_message_history, list_messages
from penstock.services.admin.metrics import get_queue_metrics, list_queue_metrics
from penstock.services.admin.openapi import get_open_api
from penstock.services.admin.outbox import clear_outbox, delete_outbox_entry, list_outbox
from penstock.services.admin.queues import get_queue, list_queues
from penstock.services.admin.resources import all_queues, queue_in_path, the_server
from penstock.services.admin.scaling import get_scaling
from penstock.services.admin.server import backup, get_metrics, get_status, list_internal_queues, reload
from penstock.services.admin.subscribers import (
    list_failing_subscriptions,
    list_recent_messages,
    topic_or_subscription,
)
from penstock.services.admin.tasks import cancel_task, get_task, list_tasks, start_task
from penstock.services.admin.testing import (
    advance_test_clock,
    change_test_clock,
    clear_server,
    get_test_clock,
    reset_test_clock,
)
from penstock.services.admin.topics import (
    all_topics,
    filter_to_test,
    list_topics,
    list_waiting_deliveries,
    test_filter_policy,
    topics_asked_for,
)
from penstock.wire.service import Action, AuditRule, FindResource, Handler

_QUEUE, _QUEUES = "/admin/v1/queues/{queue}", "/admin/v1/queues"
_MESSAGES, _MESSAGE = f"{_QUEUE}/messages", f"{_QUEUE}/messages/{{id}}"
_TASKS = f"{_QUEUE}/tasks"
_TOPICS, _OUTBOX = "/admin/v1/topics", "/admin/v1/outbox"
_TEST_CLOCK = "/admin/v1/test/clock"
_ABOUT_QUEUE = ("queue", "account")
_ABOUT_MESSAGE = (*_ABOUT_QUEUE, "id")


def _look(
    name: str,
    http: str,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct],
    handler: Handler,
    resource: FindResource = queue_in_path,
    members: tuple[str, ...] = _ABOUT_QUEUE,
    *,
    is_large: bool = False,
) -> Action:
    """A row that changes nothing."""
    return Action(
        name, request, response, handler, resource, f"penstock:{name}",
        grantable=resource is queue_in_path, read_only=True, audit=AuditRule(None, members), http=http,
        is_large=is_large,
    )  # fmt: skip


def _change(
    name: str,
    http: str,
    request: type[msgspec.Struct],
    response: type[msgspec.Struct] | None,
    handler: Handler,
    resource: FindResource = queue_in_path,
    members: tuple[str, ...] = _ABOUT_MESSAGE,
) -> Action:
    return Action(
        name, request, response, handler, resource, f"penstock:{name}",
        grantable=resource is queue_in_path, audit=AuditRule("Management", members), http=http,
    )  # fmt: skip


_ROWS = (
    _look("ListQueues", f"GET {_QUEUES}", st.QueuesRequest, st.QueuesResult, list_queues, all_queues, ("prefix",),
          is_large=True),
    _look("GetQueue", f"GET {_QUEUE}", st.AboutQueue, st.QueueInfo, get_queue),
    _look(
        "GetQueueMetrics", f"GET {_QUEUE}/metrics", st.QueueMetricsRequest, st.QueueMetricsResult, get_queue_metrics,
        is_large=True,
    ),
    _look("GetScaling", f"GET {_QUEUE}/scaling", st.ScalingRequest, st.ScalingInfo, get_scaling),
    _look(
        "ListQueueMetrics", "GET /admin/v1/metrics", st.AllMetricsRequest, st.AllMetricsResult, list_queue_metrics,
        all_queues, ("prefix",), is_large=True,
    ),
    _look(
        "ListMessages", f"GET {_MESSAGES}", st.ListMessagesRequest, st.ListMessagesResult, list_messages,
        is_large=True,
    ),
    _look("GetMessage", f"GET {_MESSAGE}", st.AboutMessage, st.MessageInfo, get_message, members=_ABOUT_MESSAGE),
    _look(
        "GetMessageHistory", f"GET {_MESSAGE}/history", st.AboutMessage, st.MessageHistoryResult, get_message_history,
        members=_ABOUT_MESSAGE,
    ),
    _change("EditMessage", f"PATCH {_MESSAGE}", st.EditMessageRequest, st.MessageInfo, edit_message),
    _change("ReorderMessage", f"POST {_MESSAGE}/reorder", st.ReorderMessageRequest, st.MessageInfo, reorder_message),
    _change("ReleaseMessage", f"POST {_MESSAGE}/release", st.VersionedRequest, st.MessageInfo, release_message),
    _change("ResetMessage", f"POST {_MESSAGE}/reset", st.VersionedRequest, st.MessageInfo, reset_message),
    _change(
        "DeadLetterMessage", f"POST {_MESSAGE}/dead-letter", st.DeadLetterMessageRequest, st.Moved,
        dead_letter_message,
    ),
    _change("RedriveMessage", f"POST {_MESSAGE}/redrive", st.VersionedRequest, st.Moved, redrive_message),
    _change(
        "MoveMessage", f"POST {_MESSAGE}/move", st.MoveMessageRequest, st.Moved, move_message,
        members=(*_ABOUT_MESSAGE, "to"),
    ),
    _change("DeleteMessage", f"DELETE {_MESSAGE}", st.RemoveMessageRequest, None, delete_message),
    _change("ReportFailure", f"POST {_MESSAGE}/failures", st.ReportFailureRequest, None, report_failure),
    _change(
        "StartTask", f"POST {_TASKS}", st.StartTaskRequest, st.Task, start_task,
        members=(*_ABOUT_QUEUE, "operation", "to", "rate", "dry_run"),
    ),
    _look(
        "ListTasks", "GET /admin/v1/tasks", st.ListTasksRequest, st.ListTasksResult, list_tasks,
        all_queues, ("queue",),
    ),
    _look("GetTask", f"GET {_TASKS}/{{id}}", st.AboutTask, st.Task, get_task, members=_ABOUT_MESSAGE),
    _change("CancelTask", f"DELETE {_TASKS}/{{id}}", st.AboutTask, st.Task, cancel_task),
    _look("ListTopics", f"GET {_TOPICS}", tt.TopicsRequest, tt.TopicsResult, list_topics, all_topics, ("prefix",)),
    _look(
        "ListWaitingDeliveries", f"GET {_TOPICS}/deliveries", tt.DeliveriesRequest, tt.DeliveriesResult,
        list_waiting_deliveries, topics_asked_for, ("topic", "subscription"), is_large=True,
    ),
    _look(
        "ListFailingSubscriptions", f"GET {_TOPICS}/failing", tt.FailingRequest, tt.FailingResult,
        list_failing_subscriptions, topics_asked_for, ("topic", "subscription"),
    ),
    _look(
        "ListRecentMessages", f"GET {_TOPICS}/recent", tt.RecentRequest, tt.RecentResult, list_recent_messages,
        topic_or_subscription, ("topic", "subscription"), is_large=True,
    ),
    _look(
        "TestFilterPolicy", f"POST {_TOPICS}/test-filter", tt.TestFilterRequest, tt.TestFilterResult,
        test_filter_policy, filter_to_test, ("subscription",),
    ),
    _look(
        "ListOutbox", f"GET {_OUTBOX}", tt.OutboxRequest, tt.OutboxResult, list_outbox, all_topics, (),
        is_large=True,
    ),
    _change(
        "DeleteOutboxEntry", f"DELETE {_OUTBOX}/{{id}}", tt.AboutOutboxEntry, None, delete_outbox_entry, all_topics,
        ("id",),
    ),
    _change("ClearOutbox", f"DELETE {_OUTBOX}", st.Nothing, tt.ClearOutboxResult, clear_outbox, all_topics, ()),
    _look("GetStatus", "GET /admin/v1/status", st.Nothing, st.StatusResult, get_status, the_server, ()),
    _look(
        "ListInternalQueues", "GET /admin/v1/internal-queues", st.ListInternalQueuesRequest,
        st.ListInternalQueuesResult, list_internal_queues, the_server, (),
    ),
    _look("GetMetrics", "GET /metrics", st.Nothing, st.MetricsText, get_metrics, the_server, ()),
    _look(
        "ListAuditEvents", "GET /admin/v1/audit", st.ListAuditEventsRequest, st.ListAuditEventsResult,
        list_audit_events, the_server, ("principal", "action", "queue"),
    ),
    Action(
        "ListPermissions", st.ListPermissionsRequest, st.ListPermissionsResult, list_permissions,
        read_only=True, http="GET /admin/v1/permissions",
    ),
    _change("Reload", "POST /admin/v1/reload", st.Nothing, st.ReloadResult, reload, the_server, ()),
    _change("Backup", "POST /admin/v1/backup", st.BackupRequest, st.BackupResult, backup, the_server, ("path",)),
    _look("GetTestClock", f"GET {_TEST_CLOCK}", st.Nothing, st.TestClockInfo, get_test_clock, the_server, ()),
    _change(
        "AdvanceTestClock", f"POST {_TEST_CLOCK}/advance", st.AdvanceRequest, st.TestClockInfo, advance_test_clock,
        the_server, ("days", "hours", "minutes", "seconds"),
    ),
    _change(
        "ChangeTestClock", f"PATCH {_TEST_CLOCK}", st.ChangeTestClockRequest, st.TestClockInfo, change_test_clock,
        the_server, ("frozen",),
    ),
    _change(
        "ResetTestClock", f"POST {_TEST_CLOCK}/reset", st.Nothing, st.TestClockInfo, reset_test_clock, the_server, (),
    ),
    _change(
        "ClearServer", "POST /admin/v1/test/clear", st.ClearRequest, st.ClearResult, clear_server,
        the_server, ("account",),
    ),
    Action(
        "GetOpenApi", st.Nothing, st.OpenApiDocument, get_open_api,
        read_only=True, http="GET /admin/v1/openapi.json",
    ),
)  # fmt: skip

ACTIONS = {row.name: row for row in _ROWS}
