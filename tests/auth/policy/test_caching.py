"""Compiled policies are cached, and are not much larger than their texts."""

from __future__ import annotations

import json
import tracemalloc

import pytest

from penstock.auth.policy import compile_policy

MANY = [chr(code) for code in range(0x4E00, 0x4E00 + 2600)]


def test_a_policy_is_compiled_once() -> None:
    text = '{"Statement":{"Effect":"Allow","Action":"sqs:once","Resource":"*"}}'
    assert compile_policy(text, kind="identity") is compile_policy(text, kind="identity")
    assert compile_policy(text, kind="identity") is not compile_policy(text, kind="session")


@pytest.mark.parametrize("resources", [["?" + "".join(MANY)], [f"?{number:x}" for number in range(1100)]])
def test_a_compiled_policy_is_not_much_larger_than_its_text(resources: list[str]) -> None:
    """The worst that is known: a ``?`` before thousands of different characters, and very many patterns."""
    statement = {"Effect": "Allow", "Principal": "*", "Action": "*", "Resource": resources}
    text = json.dumps({"Statement": statement}, ensure_ascii=False, separators=(",", ":"))
    tracemalloc.start()
    try:
        policy = compile_policy(text, kind="resource")
        policy.applicable("sqs:sendmessage", "arn:aws:sqs:us-east-1:111122223333:q")
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 250 * len(text)
