"""The namespace in which clients of CloudWatch read the metrics of topics."""

from __future__ import annotations

from penstock.monitoring.measured import ServiceNamespace

PUBLISHED = "Published"
# A message that leaves for another shard counts as delivered. If its queue refuses it, it also counts as failed.
DELIVERED = "Delivered"
FAILED = "Failed"
DIMENSION = "TopicName"

NAMESPACE = ServiceNamespace("Example/Toy", {PUBLISHED: "Count", DELIVERED: "Count", FAILED: "Count"})
