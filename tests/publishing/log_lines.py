"""What is logged about topics."""

from __future__ import annotations

import json
import logging
from typing import Any


class Lines(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    @property
    def text(self) -> str:
        return "\n".join(f"{each.getMessage()} {vars(each)}" for each in self.records)


def records(lines: Lines) -> list[tuple[str, Any]]:
    """The delivery status log: the log group of each record, and the record."""
    found = [record for record in lines.records if hasattr(record, "record")]
    return [(record.log_group, json.loads(record.record)) for record in found]  # type: ignore[attr-defined]
