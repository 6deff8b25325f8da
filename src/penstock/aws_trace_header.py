"""AWS's trace header, such as ``Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1``, as a
span context of OpenTelemetry and back. Import it only where OpenTelemetry is installed."""

from __future__ import annotations

import re

from opentelemetry.trace import SpanContext, TraceFlags

_ROOT = re.compile(r"\bRoot=1-([0-9a-f]{8})-([0-9a-f]{24})\b")
_PARENT = re.compile(r"\bParent=([0-9a-f]{16})\b")


def parse_trace_header(header: str) -> SpanContext | None:
    """Returns None if the header names no span."""
    root, parent = _ROOT.search(header), _PARENT.search(header)
    if root is None or parent is None:
        return None
    flags = TraceFlags(TraceFlags.SAMPLED if "Sampled=1" in header else TraceFlags.DEFAULT)
    return SpanContext(int(root[1] + root[2], 16), int(parent[1], 16), is_remote=True, trace_flags=flags)


def format_trace_header(context: SpanContext) -> str:
    root, sampled = f"{context.trace_id:032x}", int(context.trace_flags.sampled)
    return f"Root=1-{root[:8]}-{root[8:]};Parent={context.span_id:016x};Sampled={sampled}"
