"""The Query protocol: forms and URLs, from several callers. Every answer is XML, or JSON if that was requested."""

from __future__ import annotations

from urllib.parse import quote

from fuzz.conversation import Conversation, lines_of
from fuzz.server import QUEUE_ARN, unchanged_server
from fuzz.targets.policy import QUEUE_POLICY
from penstock.services.sqs import ACTIONS
from penstock.wire.shapes import ListOf, MapOf, Scalar, Shape, StructOf, struct_shape

_QUEUE = "/111122223333/q"
_SCENARIOS = [
    f"alice POST {_QUEUE} xml Action=ReceiveMessage&MaxNumberOfMessages=10&AttributeName.1=All&WaitTimeSeconds=1\n"
    f"alice POST {_QUEUE} xml Action=ChangeMessageVisibility&ReceiptHandle=$ReceiptHandle&VisibilityTimeout=0\n"
    f"alice POST {_QUEUE} xml Action=DeleteMessage&ReceiptHandle=$ReceiptHandle",
    f"open POST {_QUEUE} xml Action=SendMessage&MessageBody=%3C%26%5D%5D%3E&MessageAttribute.1.Name=a&"
    "MessageAttribute.1.Value.DataType=Binary&MessageAttribute.1.Value.BinaryValue=AAE%3D\n"
    f"open GET {_QUEUE}?Action=ReceiveMessage&MessageAttributeName=.* json ",
    f"open POST {_QUEUE} xml Action=SendMessageBatch&SendMessageBatchRequestEntry.1.Id=a&"
    "SendMessageBatchRequestEntry.1.MessageBody=x&SendMessageBatchRequestEntry.3.Id=b",
    "q POST / xml Action=CreateQueue&Version=2012-11-05&QueueName=q-2&Attribute.1.Name=DelaySeconds&"
    "Attribute.1.Value=5&Tag.1.Key=k&Tag.1.Value=v",
    f"alice POST {_QUEUE} xml Action=SetQueueAttributes&Attribute.Name=Policy&Attribute.Value={quote(QUEUE_POLICY)}\n"
    f"anonymous GET {_QUEUE}?Action=ReceiveMessage xml \nmallory GET {_QUEUE}?Action=GetQueueAttributes xml ",
    "open GET /?Action=ListQueues&MaxResults=1 xml \n"
    "open GET /?Action=ListQueues&MaxResults=1&NextToken=$NextToken xml ",
    f"alice POST / xml Action=StartMessageMoveTask&SourceArn={QUEUE_ARN}\nalice HEAD / xml ",
]  # fmt: skip


def _spelt(shape: Shape, name: str) -> list[str]:
    """One parameter for each scalar that a shape has, as a client spells it."""
    match shape:
        case Scalar():
            return [name]
        case ListOf():
            return _spelt(shape.member, f"{name}.1")
        case MapOf():
            return [f"{name}.1.Name", f"{name}.1.Key", *_spelt(shape.value, f"{name}.1.Value")]
        case StructOf():
            before = f"{name}." if name else ""
            return [
                each for field in shape.fields for each in _spelt(field.shape, before + field.spelling.name)
            ]


_PARAMETERS = {action: _spelt(struct_shape(row.request), "") for action, row in ACTIONS.items()}

WORDS = [
    *(f"Action={action}&".encode() for action in ACTIONS),
    *(f"&{name}=".encode() for name in sorted({name for names in _PARAMETERS.values() for name in names})),
    *(b"open ", b"anonymous ", b"alice ", b"worker ", b"q ", b"mallory ", b"\n"),
    *(b" POST ", b" GET ", b" HEAD ", b" xml ", b" json "),
    *(b"%00", b"%ED%A0%80", b"%FF", b"%", b"+", b"&", b".1", b".999999999"),
    *(b".0.", b"true", b"-1", b"All", b"q.fifo"),
    *(b"$ReceiptHandle", b"$TaskHandle", b"$NextToken", b"Version=2012-11-05"),
    *(b"%EF%BF%BE", b"%0D", b"/../", b"?"),
]  # fmt: skip


def seeds() -> list[bytes]:
    every = [
        f"{who} POST {_QUEUE} xml Action={action}&" + "&".join(f"{name}=1" for name in names)
        for action, names in _PARAMETERS.items()
        for who in ("open", "alice")
    ]
    return [text.encode() for text in (*every, *_SCENARIOS)]


def check(data: bytes) -> None:
    conversation = Conversation(unchanged_server())
    for line in lines_of(data):
        conversation.query(line)
