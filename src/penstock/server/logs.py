"""Log formats: text for a terminal, JSON lines for everything else.

Fields are passed as ``extra``. Message bodies, attributes and receipt handles are never logged.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import IO, Any

_STANDARD_FIELDS = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _time(record: logging.LogRecord) -> str:
    second = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{second}.{int(record.msecs):03d}Z"


class _FieldsFormatter(logging.Formatter):
    def __init__(self, process: int | None = None) -> None:
        """``process``: the number of this process among several, a field of every line."""
        super().__init__()
        # Not an attribute of the records: Python gives them its own "process", the process id.
        self._always = {} if process is None else {"process": process}

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        found = {
            name: value
            for name, value in vars(record).items()
            if name not in _STANDARD_FIELDS and value not in (None, "")
        }
        return {**found, **self._always}


class HumanFormatter(_FieldsFormatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f"  {name}={_quoted(value)}" for name, value in self._fields(record).items())
        line = (
            f"{_time(record)[11:-1]} {record.levelname.lower():<7} {_printable(record.getMessage())}{fields}"
        )
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(_FieldsFormatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **self._fields(record),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def set_up_logs(level: str, style: str, stream: IO[str] | None = None, *, process: int | None = None) -> bool:
    """``style``: human, json, or auto (human if the stream is a terminal). Returns whether it is human.

    ``process``: the number of this process among several, a field of every line."""
    stream = stream or sys.stderr
    human = style == "human" or (style == "auto" and stream.isatty())
    handler = logging.StreamHandler(stream)
    handler.setFormatter((HumanFormatter if human else JsonFormatter)(process))
    root = logging.getLogger("penstock")
    root.handlers[:] = [handler]
    root.propagate = False
    set_log_level(level)
    # Errors of the event loop (a failed accept, an error in a callback) and of the driver belong in the same log.
    # What the driver warns about are errors that it ignores while it closes a broken connection.
    for name, least in (("asyncio", logging.WARNING), ("psycopg", logging.ERROR)):
        other = logging.getLogger(name)
        other.handlers[:] = [handler]
        other.propagate = False
        other.setLevel(least)
    return human


def set_log_level(level: str) -> None:
    logging.getLogger("penstock").setLevel(level.upper())


def _quoted(value: object) -> str:
    text = str(value)
    return text if text.isprintable() and " " not in text else json.dumps(text)


def _printable(text: str) -> str:
    """Escapes characters that control the terminal, except the line breaks of a traceback."""
    return "".join(c if c.isprintable() or c == "\n" else repr(c)[1:-1] for c in text)
