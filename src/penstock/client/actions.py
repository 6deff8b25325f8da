"""The actions of SQS as typed coroutines, over a session; those of SNS are in :mod:`penstock.client.topic_actions`.

Names and parameters are those of boto3 in snake_case, the queue first. A queue is given by its URL or its name.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import md5
from typing import Any

from penstock.client.calls import SqsCalls, decode, given_members
from penstock.client.errors import ApiError, ChecksumMismatch, Unavailable
from penstock.client.http.exchange import HttpResponse
from penstock.client.large_payloads import LargePayloads
from penstock.client.limits import DELAY_S_MAX, WAIT_S_MAX
from penstock.client.objects import Json
from penstock.client.session import Session
from penstock.client.structs import (
    AttributeValue,
    BatchResult,
    CancelledTask,
    DeadLetterSources,
    DeleteEntry,
    DoneEntry,
    FoundAttributes,
    FoundTags,
    FoundTasks,
    FoundUrl,
    Message,
    MoveTask,
    Nothing,
    QueuePage,
    ReceivedMessages,
    SendEntry,
    SentEntry,
    SentMessage,
    StartedTask,
    VisibilityEntry,
    to_attribute,
)
from penstock.client.topic_actions import TopicActions
from penstock.client.topic_policies import with_topic

Attributes = Mapping[str, AttributeValue]
QueueAttributes = Mapping[str, str | int | Mapping[str, Any]]
"""A flag or a number may be given as such, a policy as a mapping; SQS has texts for all of them."""

_Sent = BatchResult[SentEntry]
_Done = BatchResult[DoneEntry]


class Actions(TopicActions):
    """The actions of SQS and SNS, and calls of the admin API.

    A queue is given by its URL or its name; the URL of a name is asked for once. Every method raises
    :class:`ApiError` if the server refuses a request, :class:`Unavailable` if there is no answer, and
    :class:`ProfileError` if there are no keys although a profile promises them.
    """

    def __init__(self, session: Session, payloads: LargePayloads | None = None) -> None:
        super().__init__(session)
        self._calls = SqsCalls(session)
        self._payloads = payloads

    # -- messages ----------------------------------------------------------------------------------------------------

    async def send_message(
        self,
        queue_url: str,
        body: str,
        *,
        delay_seconds: int | None = None,
        message_attributes: Attributes | None = None,
        message_system_attributes: Attributes | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
    ) -> SentMessage:
        """Send one message.

            await client.send_message("orders", "two lattes", delay_seconds=5)

        :param queue_url: The URL or the name of the queue.
        :param body: The text of the message.
        :param delay_seconds: How long the message is hidden at first, from 0 to 900; None (the default): as the queue
            says.
        :param message_attributes: Attributes of the message by name, with a text, a number, bytes or a
            :class:`MessageAttribute` as the value. None by default.
        :param message_system_attributes: System attributes, such as ``AWSTraceHeader``. None by default.
        :param message_group_id: The message group: required on a FIFO queue, the tenant on a standard one. None by
            default.
        :param message_deduplication_id: On a FIFO queue, two sends with the same id are one message. None by default.
        :returns: The id of the message, and its sequence number on a FIFO queue.
        :raises ChecksumMismatch: The server got another body.
        :raises TypeError: The body is not a text, or an attribute has a value of another type.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        _need_text(body)
        if self._payloads is not None:
            entry = SendEntry(body=body, message_attributes=dict(message_attributes or {}))
            await self._store_payloads(self._payloads, [entry])
            body, message_attributes = entry.body, entry.message_attributes
        sent = await self._calls.call(
            SentMessage,
            "SendMessage",
            message_deduplication_id is not None,  # then a second one is a duplicate
            QueueUrl=queue_url if "://" in queue_url else await self._calls.url(queue_url),
            MessageBody=body,
            DelaySeconds=delay_seconds,
            MessageAttributes=_attributes(message_attributes),
            MessageSystemAttributes=_attributes(message_system_attributes),
            MessageGroupId=message_group_id,
            MessageDeduplicationId=message_deduplication_id,
        )
        _check(body, sent.md5_of_message_body, sent.message_id)
        return sent

    async def send_at(
        self,
        queue_url: str,
        body: str,
        when: datetime,
        *,
        message_attributes: Attributes | None = None,
        message_system_attributes: Attributes | None = None,
        message_group_id: str | None = None,
        message_deduplication_id: str | None = None,
    ) -> SentMessage:
        """Send one message that can be received from a point in time on.

            await client.send_at("orders", "two lattes", datetime.now(UTC) + timedelta(minutes=5))

        :param queue_url: The URL or the name of the queue.
        :param body: The text of the message.
        :param when: The time, with a time zone, at most 15 minutes ahead. A time in the past means now.
        :param message_attributes: Attributes of the message by name, with a text, a number, bytes or a
            :class:`MessageAttribute` as the value. None by default.
        :param message_system_attributes: System attributes, such as ``AWSTraceHeader``. None by default.
        :param message_group_id: The message group: required on a FIFO queue, the tenant on a standard one. None by
            default.
        :param message_deduplication_id: On a FIFO queue, two sends with the same id are one message. None by default.
        :returns: The id of the message.
        :raises ValueError: The time has no time zone, or is more than 15 minutes ahead.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        if when.tzinfo is None:
            raise ValueError(
                "the time has no time zone: give one, such as datetime.now(UTC) + timedelta(minutes=5)"
            )
        delay_s = max(0, math.ceil((when - datetime.now(UTC)).total_seconds()))
        if delay_s > DELAY_S_MAX:
            raise ValueError(
                f"{when.isoformat()} is {delay_s} seconds ahead: a message can be delayed by at most {DELAY_S_MAX} "
                "seconds (15 minutes). Send it later"
            )
        return await self.send_message(
            queue_url,
            body,
            delay_seconds=delay_s,
            message_attributes=message_attributes,
            message_system_attributes=message_system_attributes,
            message_group_id=message_group_id,
            message_deduplication_id=message_deduplication_id,
        )

    async def send_message_batch(
        self, queue_url: str, entries: Iterable[SendEntry | str]
    ) -> BatchResult[SentEntry]:
        """Send up to ten messages in one request. Some may fail: look at ``failed`` of the result.

            result = await client.send_message_batch("orders", ["one", SendEntry(body="two", delay_seconds=5)])

        :param queue_url: The URL or the name of the queue.
        :param entries: The messages. A text stands for a message with this body.
        :returns: The messages that were sent, and those that were refused.
        :raises ChecksumMismatch: The server got another body.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        given = [SendEntry(body=entry) if isinstance(entry, str) else entry for entry in entries]
        for entry in given:
            _need_text(entry.body)
        if self._payloads is not None:
            await self._store_payloads(self._payloads, given)
        members = [
            given_members(
                Id=str(place) if entry.id is None else entry.id,
                MessageBody=entry.body,
                DelaySeconds=entry.delay_seconds,
                MessageAttributes=_attributes(entry.message_attributes),
                MessageSystemAttributes=_attributes(entry.message_system_attributes),
                MessageGroupId=entry.message_group_id,
                MessageDeduplicationId=entry.message_deduplication_id,
            )
            for place, entry in enumerate(given)
        ]
        is_idempotent = all(entry.message_deduplication_id is not None for entry in given)
        url = await self._calls.url(queue_url)
        result = await self._calls.call(
            _Sent, "SendMessageBatch", is_idempotent, QueueUrl=url, Entries=members
        )
        bodies = {member["Id"]: member["MessageBody"] for member in members}
        for sent in result.successful:
            _check(bodies.get(sent.id, ""), sent.md5_of_message_body, sent.message_id)
        return result

    async def receive_message(
        self,
        queue_url: str,
        *,
        max_number_of_messages: int = 1,
        wait_time_seconds: int | None = None,
        visibility_timeout: int | None = None,
        message_attribute_names: Sequence[str] | None = None,
        message_system_attribute_names: Sequence[str] | None = None,
        receive_request_attempt_id: str | None = None,
    ) -> list[Message]:
        """Receive up to ten messages, or none if the queue is empty.

            for message in await client.receive_message("orders", wait_time_seconds=20):
                await client.delete_message("orders", message.receipt_handle)

        If the call is cancelled, messages that are on their way are returned to the queue.

        :param queue_url: The URL or the name of the queue.
        :param max_number_of_messages: How many at most, from 1 (the default) to 10.
        :param wait_time_seconds: How long the server waits for a message, up to 20; None (the default): as the queue
            says.
        :param visibility_timeout: How many seconds the messages are hidden; None (the default): as the queue says.
        :param message_attribute_names: The message attributes to return; ``["All"]`` for all. None by default.
        :param message_system_attribute_names: The system attributes to return, such as ``ApproximateReceiveCount``;
            ``["All"]`` for all. None by default.
        :param receive_request_attempt_id: On a FIFO queue, a repeated receive with the same id returns the same
            messages. None by default.
        :returns: The messages; the list may be empty.
        :raises ChecksumMismatch: A body is not the one that the server has.
        :raises PayloadError: The client has ``large_payloads``, and no body could be read from the store.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        if self._payloads is not None:
            message_attribute_names = self._payloads.attribute_names(message_attribute_names)
        url = queue_url if "://" in queue_url else await self._calls.url(queue_url)
        received = await self._calls.call(
            ReceivedMessages,
            "ReceiveMessage",
            wait_s=WAIT_S_MAX if wait_time_seconds is None else wait_time_seconds,
            abandoned=lambda answer: self._give_back(url, answer),
            QueueUrl=url,
            MaxNumberOfMessages=max_number_of_messages,
            WaitTimeSeconds=wait_time_seconds,
            VisibilityTimeout=visibility_timeout,
            MessageAttributeNames=message_attribute_names,
            MessageSystemAttributeNames=message_system_attribute_names,
            ReceiveRequestAttemptId=receive_request_attempt_id,
        )
        for message in received.messages:
            _check(message.body, message.md5_of_body, message.message_id)
        if self._payloads is not None:
            return await self._load_payloads(self._payloads, received.messages)
        return received.messages

    async def delete_message(self, queue_url: str, receipt_handle: str) -> None:
        """Delete a message that was received.

            await client.delete_message("orders", message.receipt_handle)

        :param queue_url: The URL or the name of the queue.
        :param receipt_handle: The receipt handle of the last receive.
        :raises InvalidReceiptHandle: The server does not know the handle.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        url = queue_url if "://" in queue_url else await self._calls.url(queue_url)
        await self._calls.call(
            Nothing, "DeleteMessage", QueueUrl=url, ReceiptHandle=self._handle(receipt_handle)
        )
        if self._payloads is not None:
            await self._delete_payloads(self._payloads, [receipt_handle])

    async def delete_message_batch(
        self, queue_url: str, entries: Iterable[DeleteEntry | str]
    ) -> BatchResult[DoneEntry]:
        """Delete up to ten messages in one request. Some may fail: look at ``failed`` of the result.

            result = await client.delete_message_batch("orders", [message.receipt_handle for message in messages])

        :param queue_url: The URL or the name of the queue.
        :param entries: The messages. A text stands for a receipt handle.
        :returns: The entries that were deleted, and those that were refused.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        given = [DeleteEntry(entry) if isinstance(entry, str) else entry for entry in entries]
        ids = [str(place) if entry.id is None else entry.id for place, entry in enumerate(given)]
        members = [
            {"Id": id, "ReceiptHandle": self._handle(entry.receipt_handle)}
            for id, entry in zip(ids, given, strict=True)
        ]
        url = await self._calls.url(queue_url)
        result = await self._calls.call(_Done, "DeleteMessageBatch", QueueUrl=url, Entries=members)
        if self._payloads is not None:
            done = {entry.id for entry in result.successful}
            deleted = [entry.receipt_handle for id, entry in zip(ids, given, strict=True) if id in done]
            await self._delete_payloads(self._payloads, deleted)
        return result

    async def change_message_visibility(
        self, queue_url: str, receipt_handle: str, visibility_timeout: int
    ) -> None:
        """Change how long a received message stays hidden.

            await client.change_message_visibility("orders", message.receipt_handle, 60)

        :param queue_url: The URL or the name of the queue.
        :param receipt_handle: The receipt handle of the last receive.
        :param visibility_timeout: Seconds from now on, up to 43,200; 0 makes the message visible at once.
        :raises InvalidReceiptHandle: The server does not know the handle, or the message is not in flight.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(
            Nothing,
            "ChangeMessageVisibility",
            QueueUrl=await self._calls.url(queue_url),
            ReceiptHandle=self._handle(receipt_handle),
            VisibilityTimeout=visibility_timeout,
        )

    async def change_message_visibility_batch(
        self, queue_url: str, entries: Iterable[VisibilityEntry]
    ) -> BatchResult[DoneEntry]:
        """Change how long up to ten messages stay hidden. Some may fail: look at ``failed`` of the result.

            entries = [VisibilityEntry(message.receipt_handle, 60) for message in messages]
            result = await client.change_message_visibility_batch("orders", entries)

        :param queue_url: The URL or the name of the queue.
        :param entries: The messages, each with its timeout.
        :returns: The entries that were changed, and those that were refused.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        members = [
            {
                "Id": str(place) if entry.id is None else entry.id,
                "ReceiptHandle": self._handle(entry.receipt_handle),
                "VisibilityTimeout": entry.visibility_timeout,
            }
            for place, entry in enumerate(entries)
        ]
        url = await self._calls.url(queue_url)
        return await self._calls.call(_Done, "ChangeMessageVisibilityBatch", QueueUrl=url, Entries=members)

    # -- queues ------------------------------------------------------------------------------------------------------

    async def create_queue(
        self, name: str, attributes: QueueAttributes | None = None, tags: Mapping[str, str] | None = None
    ) -> str:
        """Create a queue, or find the one that exists with the same attributes.

            url = await client.create_queue("orders.fifo", {"FifoQueue": True, "VisibilityTimeout": 60})

        :param name: The name of the queue. One that ends in ``.fifo`` needs the attribute ``FifoQueue``.
        :param attributes: Attributes of SQS by name. A flag or a number may be given as such, a policy as a mapping.
            None by default.
        :param tags: Tags of the queue. None by default.
        :returns: The URL of the queue.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        created = await self._calls.call(
            FoundUrl, "CreateQueue", QueueName=name, Attributes=_texts(attributes), tags=tags
        )
        return created.queue_url

    async def get_queue_url(self, name: str, *, owner_account_id: str | None = None) -> str:
        """Find the URL of a queue.

            url = await client.get_queue_url("orders")

        :param name: The name of the queue.
        :param owner_account_id: The account that owns the queue; None (the default): the account of the keys.
        :returns: The URL of the queue.
        :raises QueueDoesNotExist: There is no such queue.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        found = await self._calls.call(
            FoundUrl, "GetQueueUrl", QueueName=name, QueueOwnerAWSAccountId=owner_account_id
        )
        return found.queue_url

    async def list_queues(
        self, prefix: str | None = None, *, max_results: int | None = None, next_token: str | None = None
    ) -> QueuePage:
        """List queues: the first 1,000, or a page of them.

            page = await client.list_queues("orders-", max_results=100)

        :param prefix: Only queues whose names begin with it; None (the default): all.
        :param max_results: The length of a page, up to 1,000; None (the default): the first 1,000 without a token.
        :param next_token: The token of the page before; None (the default): from the start.
        :returns: The URLs, and the token of the next page.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        return await self._calls.call(
            QueuePage, "ListQueues", QueueNamePrefix=prefix, MaxResults=max_results, NextToken=next_token
        )

    async def list_queue_pages(
        self, prefix: str | None = None, *, page_size: int = 1000
    ) -> AsyncIterator[QueuePage]:
        """List all queues, page by page.

            async for page in client.list_queue_pages("orders-"):
                print(page.queue_urls)

        :param prefix: Only queues whose names begin with it; None (the default): all.
        :param page_size: The length of a page, up to 1,000 (the default).
        :returns: An iterator over the pages.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        page = await self.list_queues(prefix, max_results=page_size)
        yield page
        while page.next_token is not None:
            page = await self.list_queues(prefix, max_results=page_size, next_token=page.next_token)
            yield page

    async def get_queue_attributes(self, queue_url: str, names: Sequence[str] = ("All",)) -> dict[str, str]:
        """Read settings and approximate counts of a queue.

            attributes = await client.get_queue_attributes("orders", ["ApproximateNumberOfMessages"])
            waiting = int(attributes["ApproximateNumberOfMessages"])

        :param queue_url: The URL or the name of the queue.
        :param names: The attributes to return; ``("All",)`` by default.
        :returns: The values by name; SQS has texts for all of them.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        url = await self._calls.url(queue_url)
        found = await self._calls.call(
            FoundAttributes, "GetQueueAttributes", QueueUrl=url, AttributeNames=names
        )
        return found.attributes

    async def set_queue_attributes(self, queue_url: str, attributes: QueueAttributes) -> None:
        """Change settings of a queue. Attributes that are not given stay as they are.

            await client.set_queue_attributes("orders", {"VisibilityTimeout": 60})

        :param queue_url: The URL or the name of the queue.
        :param attributes: Attributes of SQS by name. A flag or a number may be given as such, a policy as a mapping.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        url = await self._calls.url(queue_url)
        await self._calls.call(Nothing, "SetQueueAttributes", QueueUrl=url, Attributes=_texts(attributes))

    async def purge_queue(self, queue_url: str) -> None:
        """Delete all messages of a queue, at most once a minute.

            await client.purge_queue("orders")

        :param queue_url: The URL or the name of the queue.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(Nothing, "PurgeQueue", QueueUrl=await self._calls.url(queue_url))

    async def delete_queue(self, queue_url: str) -> None:
        """Delete a queue with all its messages.

            await client.delete_queue("orders")

        :param queue_url: The URL or the name of the queue.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        url = await self._calls.url(queue_url)
        self._calls.forget(url)
        await self._calls.call(Nothing, "DeleteQueue", QueueUrl=url)

    async def list_dead_letter_source_queues(
        self, queue_url: str, *, max_results: int | None = None, next_token: str | None = None
    ) -> QueuePage:
        """List the queues whose dead letters go to this one.

            page = await client.list_dead_letter_source_queues("orders-dead")

        :param queue_url: The URL or the name of the queue.
        :param max_results: The length of a page, up to 1,000; None (the default): the first 1,000 without a token.
        :param next_token: The token of the page before; None (the default): from the start.
        :returns: The URLs, and the token of the next page.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        url = await self._calls.url(queue_url)
        found = await self._calls.call(
            DeadLetterSources,
            "ListDeadLetterSourceQueues",
            QueueUrl=url,
            MaxResults=max_results,
            NextToken=next_token,
        )
        return QueuePage(found.queue_urls, found.next_token)

    # -- tags and permissions ----------------------------------------------------------------------------------------

    async def tag_queue(self, queue_url: str, tags: Mapping[str, str]) -> None:
        """Add tags to a queue, or change their values.

            await client.tag_queue("orders", {"team": "payments"})

        :param queue_url: The URL or the name of the queue.
        :param tags: The values by key.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(Nothing, "TagQueue", QueueUrl=await self._calls.url(queue_url), Tags=tags)

    async def untag_queue(self, queue_url: str, tag_keys: Sequence[str]) -> None:
        """Remove tags from a queue.

            await client.untag_queue("orders", ["team"])

        :param queue_url: The URL or the name of the queue.
        :param tag_keys: The keys of the tags.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(
            Nothing, "UntagQueue", QueueUrl=await self._calls.url(queue_url), TagKeys=tag_keys
        )

    async def list_queue_tags(self, queue_url: str) -> dict[str, str]:
        """Read all tags of a queue.

            tags = await client.list_queue_tags("orders")

        :param queue_url: The URL or the name of the queue.
        :returns: The values by key.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        return (
            await self._calls.call(FoundTags, "ListQueueTags", QueueUrl=await self._calls.url(queue_url))
        ).tags

    async def add_permission(
        self, queue_url: str, label: str, aws_account_ids: Sequence[str], actions: Sequence[str]
    ) -> None:
        """Let other accounts perform actions on a queue.

            await client.add_permission("orders", "shop", ["111122223333"], ["SendMessage"])

        :param queue_url: The URL or the name of the queue.
        :param label: The name of the permission, to remove it by.
        :param aws_account_ids: The accounts.
        :param actions: The actions, such as ``SendMessage``; ``*`` for all.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(
            Nothing,
            "AddPermission",
            QueueUrl=await self._calls.url(queue_url),
            Label=label,
            AWSAccountIds=aws_account_ids,
            Actions=actions,
        )

    async def remove_permission(self, queue_url: str, label: str) -> None:
        """Remove what :meth:`add_permission` added.

            await client.remove_permission("orders", "shop")

        :param queue_url: The URL or the name of the queue.
        :param label: The name of the permission.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        await self._calls.call(
            Nothing, "RemovePermission", QueueUrl=await self._calls.url(queue_url), Label=label
        )

    async def subscribe_queue(
        self,
        topic: str,
        queue_url: str,
        *,
        filter_policy: Mapping[str, Any] | None = None,
        filter_policy_scope: str | None = None,
        raw_message_delivery: bool = False,
    ) -> str:
        """Allow a topic to send to a queue, and subscribe the queue.

            await client.subscribe_queue("orders", "kitchen", filter_policy={"drink": ["latte", "espresso"]})

        The policy of the queue gets a statement for the topic, unless it has one.

        :param topic: The ARN or the name of the topic.
        :param queue_url: The URL or the name of the queue.
        :param filter_policy: Which messages the queue gets; None (the default): all.
        :param filter_policy_scope: ``MessageAttributes`` (the default of SNS) or ``MessageBody``: what the filter
            looks at. None by default.
        :param raw_message_delivery: Whether the queue gets the message as it is, without an envelope; False by
            default.
        :returns: The ARN of the subscription.
        :raises TopicDoesNotExist: There is no such topic.
        :raises QueueDoesNotExist: There is no such queue.
        :raises ApiError: The server refused a request: the queue is subscribed with other attributes, say.
        :raises Unavailable: The server did not answer.
        """
        topic_arn = await self._topic_arn(topic)
        found = await self.get_queue_attributes(queue_url, ["QueueArn", "Policy"])
        policy = with_topic(found.get("Policy", ""), found["QueueArn"], topic_arn)
        if policy is not None:
            await self.set_queue_attributes(queue_url, {"Policy": policy})
        attributes = given_members(
            RawMessageDelivery=raw_message_delivery or None,
            FilterPolicy=filter_policy,
            FilterPolicyScope=filter_policy_scope,
        )
        return await self.subscribe(topic_arn, "sqs", found["QueueArn"], attributes=attributes or None)

    # -- move tasks --------------------------------------------------------------------------------------------------

    async def start_message_move_task(
        self,
        source_arn: str,
        *,
        destination_arn: str | None = None,
        max_number_of_messages_per_second: int | None = None,
    ) -> str:
        """Move the messages of a dead-letter queue back to where they came from, or to another queue.

            attributes = await client.get_queue_attributes("orders-dead", ["QueueArn"])
            task_handle = await client.start_message_move_task(attributes["QueueArn"])

        :param source_arn: The ARN of the dead-letter queue.
        :param destination_arn: The ARN of the target; None (the default): the queue that each message came from.
        :param max_number_of_messages_per_second: The speed, up to 500; None (the default): as fast as the server can.
        :returns: The task handle.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        started = await self._calls.call(
            StartedTask,
            "StartMessageMoveTask",
            SourceArn=source_arn,
            DestinationArn=destination_arn,
            MaxNumberOfMessagesPerSecond=max_number_of_messages_per_second,
        )
        return started.task_handle

    async def cancel_message_move_task(self, task_handle: str) -> int:
        """Stop a move task. Messages that were moved stay where they are.

            moved = await client.cancel_message_move_task(task_handle)

        :param task_handle: The handle that :meth:`start_message_move_task` returned.
        :returns: How many messages were moved.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        cancelled = await self._calls.call(CancelledTask, "CancelMessageMoveTask", TaskHandle=task_handle)
        return cancelled.approximate_number_of_messages_moved

    async def list_message_move_tasks(
        self, source_arn: str, *, max_results: int | None = None
    ) -> list[MoveTask]:
        """List the latest move tasks of a queue, the newest first.

            for task in await client.list_message_move_tasks(source_arn, max_results=10):
                print(task.status, task.approximate_number_of_messages_moved)

        :param source_arn: The ARN of the dead-letter queue.
        :param max_results: How many at most, up to 10; None (the default): the latest one.
        :returns: The tasks.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        found = await self._calls.call(
            FoundTasks, "ListMessageMoveTasks", SourceArn=source_arn, MaxResults=max_results
        )
        return found.results

    # -- Penstock ----------------------------------------------------------------------------------------------------

    async def is_penstock(self) -> bool:
        """Find out whether the server has Penstock's admin API.

            if await client.is_penstock():
                page = await client.admin("GET", "/queues")

        The server is asked once. Amazon is known by its name and is never asked.

        :returns: True for Penstock, False for Amazon SQS and other servers.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        return await self._session.is_penstock()

    async def admin(
        self, method: str, path: str, query: Json | None = None, body: Json | None = None
    ) -> Json:
        """Call the admin API of Penstock.

            page = await client.admin("GET", "/queues", {"limit": 10})

        :param method: The HTTP method.
        :param path: The path below ``/admin/v1``, with its parts already quoted.
        :param query: The parameters of the query. None by default.
        :param body: The JSON object to send. None by default.
        :returns: The JSON object of the response.
        :raises ApiError: The server refused the request.
        :raises Unavailable: The server did not answer.
        """
        return await self._session.admin(method, path, query, body)

    # -- large payloads ----------------------------------------------------------------------------------------------

    async def _store_payloads(self, payloads: LargePayloads, entries: list[SendEntry]) -> None:
        if chosen := payloads.chosen(entries):
            await self._session.network.apart(lambda: payloads.store(chosen))

    async def _load_payloads(self, payloads: LargePayloads, messages: list[Message]) -> list[Message]:
        if pointers := payloads.pointers(messages):
            return await self._session.network.apart(lambda: payloads.load(messages, pointers))
        return messages

    async def _delete_payloads(self, payloads: LargePayloads, handles: list[str]) -> None:
        if pointers := payloads.to_delete(handles):
            await self._session.network.apart(lambda: payloads.delete(pointers))

    def _handle(self, receipt_handle: str) -> str:
        """The receipt handle as the server knows it."""
        return receipt_handle if self._payloads is None else self._payloads.server_handle(receipt_handle)

    # -- how they are done -------------------------------------------------------------------------------------------

    async def _give_back(self, url: str, answer: HttpResponse) -> None:
        """Messages that came for a task that was cancelled. If this fails, they return with their timeout."""
        if answer.status != 200:
            return
        with suppress(ApiError, Unavailable):
            messages = decode(ReceivedMessages, answer.body).messages
            if messages:
                entries = [VisibilityEntry(message.receipt_handle, 0) for message in messages]
                await self.change_message_visibility_batch(url, entries)


def _need_text(body: str) -> None:
    if not isinstance(body, str):
        raise TypeError(f"invalid body: expected str, not {type(body).__name__}; encode bytes as base64, say")


def _attributes(attributes: Attributes | None) -> dict[str, Any] | None:
    if not attributes:
        return None
    return {name: to_attribute(name, value) for name, value in attributes.items()}


def _texts(attributes: QueueAttributes | None) -> dict[str, str] | None:
    return None if attributes is None else {name: _text(value) for name, value in attributes.items()}


def _text(value: str | int | Mapping[str, Any]) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _check(body: str, checksum: str, message_id: str) -> None:
    """An empty checksum is of a server that gives none."""
    if checksum and md5(body.encode(), usedforsecurity=False).hexdigest() != checksum:
        raise ChecksumMismatch(f"the body of the message {message_id} is not the one that was sent")
