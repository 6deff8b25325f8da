"""The format of log lines, and what is never logged."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.server.logs import set_up_logs
from support.harness import get, post, run, serving


@pytest.fixture(autouse=True)
def logs_as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("penstock", "asyncio", "psycopg")]
    before = [(each, each.handlers[:], each.propagate, each.level) for each in loggers]
    yield
    for logger, handlers, propagate, level in before:
        logger.handlers[:], logger.propagate = handlers, propagate
        logger.setLevel(level)


def test_json_lines() -> None:
    stream = io.StringIO()
    assert set_up_logs("info", "auto", stream) is False
    log = logging.getLogger("penstock.test")
    log.debug("unseen")
    log.info('say "%s"', "hi\nthere", extra={"request_id": "r-1", "status": 200})
    (text,) = stream.getvalue().splitlines()
    line = json.loads(text)
    assert line["message"] == 'say "hi\nthere"'
    assert (line["level"], line["logger"], line["request_id"], line["status"]) == (
        "info",
        "penstock.test",
        "r-1",
        200,
    )
    assert line["time"].endswith("Z")


def test_human_lines() -> None:
    stream = io.StringIO()
    assert set_up_logs("debug", "human", stream) is True
    logging.getLogger("penstock.test").debug("\x1b[2Jgone", extra={"request_id": "r-1", "path": "a b"})
    line = stream.getvalue()
    assert "\x1b" not in line
    assert line.endswith('\\x1b[2Jgone  request_id=r-1  path="a b"\n')


def test_errors_have_a_traceback() -> None:
    stream = io.StringIO()
    set_up_logs("info", "json", stream)
    try:
        raise ValueError("oh")
    except ValueError:
        logging.getLogger("penstock.test").exception("failed")
    assert "ValueError: oh" in json.loads(stream.getvalue())["error"]


def test_each_request_is_a_debug_line_with_its_id_and_without_its_body() -> None:
    stream = io.StringIO()
    set_up_logs("debug", "json", stream)

    async def scene() -> None:
        async with serving() as server:
            answer = await server.ask(post("A.B", b"the secret body"))
            await server.ask(get("/?Secret=query"))
            first, second = map(json.loads, stream.getvalue().splitlines())
            assert first["request_id"] == answer.headers["x-amzn-requestid"]
            assert (first["action"], first["status"], first["peer"]) == ("B", 200, "127.0.0.1")
            assert second["message"] == "GET /"

    run(scene)
    assert "secret" not in stream.getvalue().lower()


def test_a_status_of_500_and_more_is_a_warning() -> None:
    stream = io.StringIO()
    set_up_logs("info", "json", stream)

    async def scene() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"A.B"}
            client = await server.connect()
            client.send(post("A.B"))
            (await server.dispatcher.arrival()).answer(status=500)
            answer = await client.response()
            line = json.loads(stream.getvalue())
            assert (line["level"], line["request_id"]) == ("warning", answer.headers["x-amzn-requestid"])

    run(scene)


def test_a_failure_is_a_warning_and_a_refusal_under_load_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with serving() as server:
            server.dispatcher.unanswered = {"A.B"}
            client = await server.connect()
            for count, status in enumerate((500, 503), 1):
                client.send(post("A.B"))
                (await server.dispatcher.arrival(count)).answer(status=status)
                assert (await client.response()).status == status

    with caplog.at_level(logging.DEBUG, "penstock.http"):
        run(scene)
    answered = [each for each in caplog.records if each.getMessage().startswith("answered")]
    assert [(each.levelname, each.getMessage()) for each in answered] == [
        ("WARNING", "answered 500"),
        ("DEBUG", "answered 503"),
    ]


def test_errors_that_the_database_driver_ignores_are_not_logged() -> None:
    stream = io.StringIO()
    set_up_logs("debug", "json", stream)
    logging.getLogger("psycopg").warning("error ignored terminating a pipeline")
    assert stream.getvalue() == ""
    logging.getLogger("psycopg").error("worth to know")
    assert "worth to know" in stream.getvalue()
