"""botocore as it was before SQS had a JSON protocol: the same model, spoken as forms and XML.

The model that botocore ships has lost the names of the older protocol. They are added here from Amazon's API
reference, and botocore's own Query serializer and parser do the rest.
"""

from __future__ import annotations

import copy
from typing import Any
from urllib.parse import urlencode

import boto3
import botocore.session
from botocore.config import Config
from botocore.loaders import Loader
from botocore.model import ServiceModel, Shape
from botocore.serialize import QuerySerializer

NAMESPACE = "http://queue.amazonaws.com/doc/2012-11-05/"

# Of lists, the name that its members go by. In a request and in an answer.
_LISTS = {
    "AWSAccountIdList": "AWSAccountId",
    "ActionNameList": "ActionName",
    "AttributeNameList": "AttributeName",
    "MessageSystemAttributeList": "AttributeName",
    "MessageAttributeNameList": "MessageAttributeName",
    "TagKeyList": "TagKey",
    "QueueUrlList": "QueueUrl",
    "MessageList": "Message",
    "StringList": "StringListValue",
    "BinaryList": "BinaryListValue",
    "SendMessageBatchRequestEntryList": "SendMessageBatchRequestEntry",
    "SendMessageBatchResultEntryList": "SendMessageBatchResultEntry",
    "DeleteMessageBatchRequestEntryList": "DeleteMessageBatchRequestEntry",
    "DeleteMessageBatchResultEntryList": "DeleteMessageBatchResultEntry",
    "ChangeMessageVisibilityBatchRequestEntryList": "ChangeMessageVisibilityBatchRequestEntry",
    "ChangeMessageVisibilityBatchResultEntryList": "ChangeMessageVisibilityBatchResultEntry",
    "BatchResultErrorEntryList": "BatchResultErrorEntry",
    "ListMessageMoveTasksResultEntryList": "ListMessageMoveTasksResultEntry",
}
# Of maps: the name of an entry, of its key, of its value.
_MAPS = {
    "QueueAttributeMap": ("Attribute", "Name", "Value"),
    "MessageSystemAttributeMap": ("Attribute", "Name", "Value"),
    "TagMap": ("Tag", "Key", "Value"),
    "MessageBodyAttributeMap": ("MessageAttribute", "Name", "Value"),
    "MessageBodySystemAttributeMap": ("MessageSystemAttribute", "Name", "Value"),
}


def query_model() -> dict[str, Any]:
    model: dict[str, Any] = copy.deepcopy(Loader().load_service_model("sqs", "service-2"))
    model["metadata"].update(protocol="query", protocols=["query"], xmlNamespace=NAMESPACE)
    for name, operation in model["operations"].items():
        if "output" in operation:
            operation["output"]["resultWrapper"] = f"{name}Result"
    shapes = model["shapes"]
    for name, member in _LISTS.items():
        shapes[name]["flattened"] = True
        shapes[name]["member"]["locationName"] = member
    for name, (_, key, value) in _MAPS.items():
        shapes[name]["flattened"] = True
        shapes[name]["key"]["locationName"] = key
        shapes[name]["value"]["locationName"] = value
    for shape in shapes.values():
        for member in shape.get("members", {}).values():
            if member["shape"] in _MAPS:
                member["locationName"] = _MAPS[member["shape"]][0]
            elif member["shape"] in _LISTS:
                member["locationName"] = _LISTS[member["shape"]]
    return model


class _QueryLoader(Loader):  # type: ignore[misc]
    def load_service_model(self, service_name: str, type_name: str, api_version: str | None = None) -> Any:
        if (service_name, type_name) == ("sqs", "service-2"):
            return query_model()
        return super().load_service_model(service_name, type_name, api_version)


def query_client(url: str, account: str, region: str = "us-east-1") -> Any:
    core = botocore.session.Session()
    core.register_component("data_loader", _QueryLoader())
    config = Config(retries={"total_max_attempts": 1}, read_timeout=40)
    return boto3.session.Session(botocore_session=core).client(
        "sqs", endpoint_url=url, region_name=region, config=config,
        aws_access_key_id=account, aws_secret_access_key="any",
    )  # fmt: skip


_SERIALIZER = QuerySerializer()
_MODEL = ServiceModel(query_model(), "sqs")


def form_of(action: str, request: dict[str, Any]) -> bytes:
    """A request as the older clients sent it, right or wrong: nothing is checked on this side."""
    operation = _MODEL.operation_model(action)
    serialized = _SERIALIZER.serialize_to_request(_modelled(operation.input_shape, request), operation)
    return urlencode(serialized["body"]).encode()


def _modelled(shape: Shape, value: Any) -> Any:
    """Returns the value without members that the action does not have: the serializer has no names for them."""
    if shape.type_name == "structure":
        return {k: _modelled(shape.members[k], v) for k, v in value.items() if k in shape.members}
    if shape.type_name == "list":
        return [_modelled(shape.member, each) for each in value]
    return value
