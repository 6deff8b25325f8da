"""No input is an internal error."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from e2e.admin.requests import REGION, make, make_with_dead_letters, send
from penstock.client.api import ApiSession
from penstock.services.admin import ACTIONS
from penstock.services.admin.structs import Filter
from penstock.wire.shapes import InQuery, struct_shape
from support.generated import examples
from support.process import ServerProcess
from support.rows import every_row

# A reload and a backup have no members that matter, and take long.
ROWS = sorted(ACTIONS.keys() - {"Reload", "Backup"})
AWKWARD = st.sampled_from(
    [
        "", "q", "q.fifo", "q-dead", "\x00", "é", "\ud800", "*", "..", "x" * 2000, "-1", "0", "1", "1e400", "nan",
        "true", "{}", "[]", "(a+)+$", "(", "$.a[0]", "$", "$.a = 1", "a=b", "=", "visible", "in_flight", "age", "due",
        "position", "front", "before", "delete", "move", "copy", "redrive", "dead-letter", "release", "reset", "gA==",
        "AAAA", "kwAAAA==", "String", "Number", "Binary", "aGk=", "arn:aws:sqs:eu-west-1:000000000000:q",
        "000000000000", "dlq",
        None, 0, 1, -1, 2**63, 10**400, 1.5, 1e308, -1e308, True, False,
    ]
)  # fmt: skip
NAMES = ["type", "value", "a", "colour", *Filter.__struct_fields__]
VALUES = st.recursive(
    AWKWARD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=4),
    max_leaves=6,
)


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("--memory", "--region", REGION) as process:
        yield process
        assert process.process.poll() is None, "the server died"
        assert not [line for line in process.log if '"error"' in line.lower()]


@pytest.fixture(scope="module")
def ids(server: ServerProcess) -> list[str]:
    """The ids of messages in two queues."""
    api = ApiSession(server.url, REGION)
    standard = make_with_dead_letters(api, "q")
    fifo = make(api, "q.fifo", FifoQueue="true", ContentBasedDeduplication="true")
    found = [send(api, standard, f'{{"a": [{n}]}}') for n in range(20)]
    found += [send(api, fifo, str(n), MessageGroupId="g") for n in range(20)]
    api.close()
    return found


@pytest.mark.parametrize("name", ROWS)
@settings(
    max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_no_input_is_an_internal_error(
    server: ServerProcess, ids: list[str], name: str, data: st.DataObject
) -> None:
    row = ACTIONS[name]
    fields = struct_shape(row.request).fields
    in_query = [field.name for field in fields if isinstance(field.place, InQuery)]
    in_body = [field.name for field in fields if field.place is None]
    labels = {
        "queue": data.draw(st.sampled_from(["q", "q", "q.fifo", "q.fifo", "q-dead", "missing"]) | AWKWARD),
        "id": data.draw(st.sampled_from(ids) | AWKWARD),
    }
    method, _, path = row.http.partition(" ")
    for label, value in labels.items():
        path = path.replace(f"{{{label}}}", encoded(value))
    query = data.draw(
        st.lists(st.tuples(st.sampled_from([*in_query, "account", "other"]), AWKWARD), max_size=4)
    )
    body: dict[str, Any] = {}
    if in_body:
        body = data.draw(st.dictionaries(st.sampled_from(in_body), VALUES, max_size=5))
        body.update({each: data.draw(AWKWARD) for each in in_body if each in ("to", "operation", "reason")})
    target = path + "?" + "&".join(f"{key}={encoded(value)}" for key, value in query)
    status, answer = ask(server, method, target, json.dumps(body) if in_body else "")
    assert status < 500, (method, target, body, answer)


def encoded(value: Any) -> str:
    return quote(str(value).encode("utf-8", "surrogatepass"), safe="")


@every_row("body", ["", "{", "[]", "1", "null", '"x"', "\xff", '{"operation": NaN}', "[" * 5000])
@every_row("name", [name for name in ROWS if ACTIONS[name].http.startswith(("POST", "PATCH"))])
def test_what_is_no_json_object_is_refused(
    server: ServerProcess, ids: list[str], name: str, body: str
) -> None:
    method, _, path = ACTIONS[name].http.partition(" ")
    target = path.replace("{queue}", "q").replace("{id}", "missing")
    status, _ = ask(server, method, target, body)
    assert 400 <= status < 500


def ask(server: ServerProcess, method: str, target: str, body: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request(method, target, body.encode("latin-1"), {"Content-Type": "application/json"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()
