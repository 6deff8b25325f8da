"""Decisions by the table in decisions.toml: AWS's own examples, and each rule with its exceptions."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from penstock.auth.policy import Question, Verdict, compile_policy, decide
from penstock.auth.principal import Principal
from support.rows import every_row

from .principals import CALLERS, OWN, action_facts, queue

SCENES = tomllib.loads(Path(__file__).with_name("decisions.toml").read_text())["scene"]


def asks() -> Iterator[Any]:
    for scene in SCENES:
        for line in scene["asks"].strip().splitlines():
            asked, _, expected = line.partition("->")
            name = f"{scene['about'].partition(':')[0]}: {' '.join(asked.split())}"
            yield pytest.param(scene, asked.split(), expected.strip(), id=name)


def cast(scene: dict[str, Any], name: str) -> Principal:
    own, bounds = scene.get("of", {}).get(name), scene.get("session", {}).get(name)
    return msgspec.structs.replace(
        CALLERS[name],
        policies=(compile_policy(own, kind="identity"),) if own else (),
        session_policy=compile_policy(bounds, kind="session") if bounds else None,
    )


def ask(scene: dict[str, Any], who: str, action: str, resource: str, *context: str) -> Question:
    policy = compile_policy(scene["queue"], kind="resource") if "queue" in scene else None
    more: dict[str, Any] = {"resource_tags": {}, "request_tags": {}}
    for item in context:
        name, _, value = item.partition("=")
        match name.split(":"):
            case ["tls"]:
                more["secure"] = True
            case ["ip"]:
                more["source_ip"] = value
            case ["now"]:
                more["now_s"] = datetime.fromisoformat(value).timestamp()
            case ["arn" | "account"]:
                more[f"source_{name}"] = value
            case ["tag", key]:
                more["resource_tags"][key] = value
            case ["set", key]:
                more["request_tags"][key] = value
            case _:
                raise AssertionError(f"what is {item}?")
    more["tag_keys"] = tuple(more["request_tags"])
    return Question(
        principal=cast(scene, who),
        resource=queue(resource),
        resource_account=OWN,
        resource_policy=policy,
        **action_facts(action),
        **more,
    )


def said(verdict: Verdict) -> str:
    if verdict.policy is not None:
        return f"{'allow' if verdict.allowed else 'deny'} {verdict.policy} {verdict.statement}"
    if verdict.allowed:
        return "root"
    return "no " + verdict.reason.split()[2].removesuffix("-based")


@every_row(("scene", "asked", "expected"), list(asks()))
def test_decision(scene: dict[str, Any], asked: list[str], expected: str) -> None:
    verdict = decide(ask(scene, *asked))
    assert said(verdict) == expected
    assert verdict.allowed == expected.startswith(("allow", "root"))
