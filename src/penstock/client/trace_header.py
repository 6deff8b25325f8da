"""The trace that a message belongs to, as the system attribute AWSTraceHeader carries it.

It is the current span of OpenTelemetry if the program uses that, or the trace that the runtime of an AWS function
names in the environment.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from penstock.client.structs import AttributeValue


def trace_header(environment: Mapping[str, str] = os.environ) -> str | None:
    """``Root=…;Parent=…;Sampled=…``; None if there is no trace."""
    trace = sys.modules.get("opentelemetry.trace")  # without it there is no span
    if trace is not None:
        context = trace.get_current_span().get_span_context()
        if context.is_valid:
            from penstock.aws_trace_header import format_trace_header  # needs OpenTelemetry

            return format_trace_header(context)
    return environment.get("_X_AMZN_TRACE_ID") or None


def trace_attributes() -> dict[str, AttributeValue] | None:
    """The system attributes of a message that is sent now."""
    header = trace_header()
    return {"AWSTraceHeader": header} if header else None
