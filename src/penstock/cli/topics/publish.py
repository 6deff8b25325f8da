"""``penstock topic publish``: one message to all subscribers of a topic."""

from __future__ import annotations

from pathlib import Path

import click

from penstock.cli.arguments import topic_argument
from penstock.cli.failure import Failure
from penstock.cli.messages.sending import read_attribute, read_body
from penstock.cli.target import Target, with_target
from penstock.cli.topics.facts import about_topic


@click.command("publish")
@topic_argument
@click.argument("body", required=False)
@click.option("--file", type=click.Path(path_type=Path, dir_okay=False), help="Read the body from a file.")
@click.option("--subject", metavar="TEXT", help="Subject: of emails, and in envelopes.")
@click.option(
    "--attribute", "attributes", multiple=True, metavar="NAME[:TYPE]=VALUE",
    help="An attribute; TYPE is String, Number, Binary (base64) or String.Array (JSON). Can be repeated.",
)  # fmt: skip
@click.option("--by-protocol", is_flag=True, help="BODY is a JSON object with a text for each protocol.")
@click.option("--group", metavar="ID", help="Message group; a FIFO topic needs one.")
@click.option("--dedup-id", metavar="ID", help="Deduplication id, on a FIFO topic.")
@with_target
def publish(
    target: Target,
    topic: str,
    body: str | None,
    file: Path | None,
    subject: str | None,
    attributes: tuple[str, ...],
    by_protocol: bool,
    group: str | None,
    dedup_id: str | None,
) -> None:
    """Publish a message, and print its id.

    BODY is a text, or @FILE. Without BODY and --file, or if BODY is "-", it is read from standard input. A
    subscription gets the message if it passes its filter, which "penstock topic test-filter" tells.

    \b
    Examples:
      penstock topic publish orders 'hello'
      penstock topic publish orders @order.json --attribute kind=new --attribute total:Number=99.5
      penstock topic publish alerts 'the disk is full' --subject 'Disk'
      penstock topic publish payments.fifo 'paid' --group customer-7 --dedup-id 4711
      penstock topic publish orders '{"default": "new order", "sqs": "{\\"id\\": 7}"}' --by-protocol
    """
    if body is not None and file is not None:
        raise Failure("give either BODY or --file")
    text = read_body(body, file)
    if not text:
        raise Failure(
            "the body is empty, which SNS does not accept: give it as an argument, with --file, or on standard input"
        )
    answer = about_topic(
        target, "Publish", topic,
        Message=text,
        Subject=subject,
        MessageStructure="json" if by_protocol else None,
        MessageAttributes=dict(map(read_attribute, attributes)) or None,
        MessageGroupId=group,
        MessageDeduplicationId=dedup_id,
    )  # fmt: skip
    shown = {name: answer[name] for name in ("MessageId", "SequenceNumber") if name in answer}
    target.out.result(answer["MessageId"], **shown)
