"""A toy service: topics, whose messages go to queues and to URLs. It shows what a service is made of."""

from __future__ import annotations

from penstock.wire.service import ArnKind, Service

from .actions import ACTIONS
from .handlers import Toy, to_fault
from .namespace import NAMESPACE
from .topics import TOPICS

__all__ = ["SERVICE", "Toy"]

SERVICE = Service(
    signing_name="toy",
    target_prefix="ToyTopics",
    shape_namespace="example.toy",
    actions=ACTIONS,
    to_fault=to_fault,
    event_source="toy.example.com",
    arns=(ArnKind("toy", "topic/", "Example::Toy::Topic"),),
    condition_keys=("toy:endpoint",),
    policies={"toy-publish": ("toy:Publish",), "toy-full-access": ("toy:*",)},
    metric_namespaces=(NAMESPACE,),
    console_path="topics",
    records=(TOPICS,),
)
