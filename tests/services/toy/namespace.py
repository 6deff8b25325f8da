"""The namespace in which clients of CloudWatch read the metrics of topics."""

from __future__ import annotations

from penstock.monitoring.measured import ServiceNamespace

PUBLISHED = "Published"
# Also when it leaves for a queue of another shard: if that refuses it, it has failed, too.
DELIVERED = "Delivered"
FAILED = "Failed"
DIMENSION = "TopicName"

NAMESPACE = ServiceNamespace("Example/Toy", {PUBLISHED: "Count", DELIVERED: "Count", FAILED: "Count"})
