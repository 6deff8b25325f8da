"""A span of OpenTelemetry around each call of a handler, in the trace of the message.

The trace is read from the message attributes ``traceparent`` and ``tracestate`` (W3C), or from the system attribute
``AWSTraceHeader``. A batch has many messages: its span has links to their traces.
"""

from __future__ import annotations

from typing import Any

from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, Tracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from penstock.aws_trace_header import parse_trace_header
from penstock.client.consumer.context import MessageContext
from penstock.client.consumer.middleware import CallNext
from penstock.client.consumer.retry import Retry
from penstock.client.queue_names import queue_name
from penstock.client.structs import Message

_W3C = ("traceparent", "tracestate")


class Tracing:
    """Middleware that makes a span of OpenTelemetry for each call, in the trace that the message was sent in.

    It needs ``pip install 'penstock-mq[otel]'``, and an SDK that exports spans.

        app = Worker(middleware=[Tracing()])
    """

    def __init__(self, tracer: Tracer | None = None) -> None:
        """Choose the tracer.

        :param tracer: What makes the spans; None (the default): the tracer ``penstock.client`` of the global
            provider.
        """
        self._tracer = tracer or trace.get_tracer("penstock.client")

    async def __call__(self, context: MessageContext, call_next: CallNext) -> Any:
        """Call the handler within a span.

        :param context: The context of the message.
        :param call_next: The handler, or the next middleware.
        :returns: What the handler returned.
        """
        origins = [origin for message in context.messages if (origin := span_context(message)) is not None]
        is_batch = len(context.messages) > 1
        parent = None
        if origins and not is_batch:
            parent = trace.set_span_in_context(trace.NonRecordingSpan(origins[0]))
        name = queue_name(context.queue)
        with self._tracer.start_as_current_span(
            f"process {name}",
            context=parent,
            kind=SpanKind.CONSUMER,
            links=[Link(origin) for origin in origins] if is_batch else None,
            attributes=_attributes(context, name),
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                return await call_next()
            except Exception as error:
                if not isinstance(error, Retry):  # asked for: no error
                    _record(span, error)
                raise


def span_context(message: Message) -> SpanContext | None:
    """The span that the message was sent in."""
    carrier = {
        name: attribute.string_value
        for name in _W3C
        if (attribute := message.message_attributes.get(name)) is not None and attribute.string_value
    }
    if carrier:
        found = trace.get_current_span(TraceContextTextMapPropagator().extract(carrier)).get_span_context()
        if found.is_valid:
            return found
    return parse_trace_header(message.attributes.get("AWSTraceHeader", ""))


def _attributes(context: MessageContext, name: str) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "messaging.system": "aws_sqs",
        "messaging.operation.type": "process",
        "messaging.destination.name": name,
    }
    if len(context.messages) > 1:
        return attributes | {"messaging.batch.message_count": len(context.messages)}
    return attributes | {
        "messaging.message.id": context.message.message_id,
        "penstock.attempt": context.attempt,
    }


def _record(span: Span, error: Exception) -> None:
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{type(error).__name__}: {error}"))
