"""AWS JSON: actions and bodies, from several callers. Every answer is JSON, and none is a 500."""

from __future__ import annotations

from fuzz.conversation import Conversation, lines_of
from fuzz.scenarios import SCENARIOS
from fuzz.server import unchanged_server
from penstock.services.sqs import ACTIONS

MEMBERS = {member for row in ACTIONS.values() for member in row.request.__struct_fields__}
WORDS = [
    *(f" AmazonSQS.{action} ".encode() for action in ACTIONS),
    *(f'"{name}":'.encode() for name in sorted(MEMBERS)),
    *(b"open ", b"anonymous ", b"alice ", b"worker ", b"q ", b"mallory ", b"\n", b"\\ud800", b"\\u0000", b"1e400"),
    *(b'"$ReceiptHandle"', b'"$TaskHandle"', b'"$NextToken"', b'{"', b'"}', b"[]", b"{}", b"-1", b"null"),
    *(b'"StringListValues":', b'"BinaryValue":', b'"AWSTraceHeader"', b'"Number"', b'"All"', b".fifo", b"true"),
    *(b'"RedriveAllowPolicy"', b'"RedrivePolicy"', b'"FifoThroughputLimit"', b"\xff", b"\xed\xa0\x80", b"0.5"),
    *(b'\\"maxReceiveCount\\":', b'\\"redrivePermission\\":', b"denyAll", b"9223372036854775808", b"\\\\", b"AWS."),
]  # fmt: skip


def seeds() -> list[bytes]:
    """Each scenario, and each of its requests alone."""
    alone = dict.fromkeys(request for scenario in SCENARIOS for request in scenario)
    return [text.encode() for text in (*map("\n".join, SCENARIOS), *alone)]


def check(data: bytes) -> None:
    conversation = Conversation(unchanged_server())
    for line in lines_of(data):
        conversation.json(line)
