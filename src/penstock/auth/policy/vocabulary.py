"""What services add to policies: condition keys of their own, and built-in policies that are attached by name.

Policies know the services by what :func:`declare` was given: a server declares those that it serves, the command line
all there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from penstock.auth.policy.condition_keys import is_of_every_request

ADMINISTRATOR = "administrator"


class PolicyService(Protocol):
    """The part of a service's description that is about policies."""

    @property
    def name(self) -> str:
        """What its actions and condition keys begin with: "sqs"."""

    @property
    def condition_keys(self) -> tuple[str, ...]:
        """What it puts into ``Question.keys``, in lower case."""

    @property
    def policies(self) -> Mapping[str, tuple[str, ...]]:
        """Its built-in policies by name, with the actions that each allows; those that allow least are first."""

    @property
    def refuses_in_lower_case(self) -> bool:
        """Whether refusals name its actions in lower case."""

    @property
    def refuses_in_upper_case(self) -> bool:
        """Whether refusals name the service in upper case."""


class _Vocabulary(NamedTuple):
    services: Mapping[str, PolicyService]
    keys: frozenset[str]
    policies: Mapping[str, str]


def _allow(actions: tuple[str, ...]) -> str:
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2)


def _vocabulary(services: Mapping[str, PolicyService]) -> _Vocabulary:
    keys = frozenset(key for service in services.values() for key in service.condition_keys)
    actions = {name: allowed for service in services.values() for name, allowed in service.policies.items()}
    actions[ADMINISTRATOR] = ("*",)
    return _Vocabulary(services, keys, {name: _allow(allowed) for name, allowed in actions.items()})


_known = _vocabulary({})


def declare(services: Iterable[PolicyService]) -> None:
    """Make policies know these services, and no others."""
    global _known
    _known = _vocabulary({service.name: service for service in services})


def builtin_policies() -> Mapping[str, str]:
    """The documents of all built-in policies, in the order of the services. The one that allows all is last."""
    return _known.policies


def shown_action(action: str) -> str:
    """The action as a refusal names it."""
    prefix, _, name = action.partition(":")
    service = _known.services.get(prefix)
    if service is None:
        return action
    if service.refuses_in_upper_case:
        return f"{prefix.upper()}:{name}"
    return action.lower() if service.refuses_in_lower_case else action


def is_unknown(key: str) -> bool:
    """Whether no request here has this key: it is misspelt, or about something that does not exist here (a VPC).

    A key of a service that is not served is not unknown: its statement is about that service's actions.
    """
    name = key.lower()
    service, colon, _ = name.partition(":")
    if colon and service != "aws" and service not in _known.services:
        return False
    return not is_of_every_request(name) and name not in _known.keys
