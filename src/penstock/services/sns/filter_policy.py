"""Filter policies of subscriptions, in the words of SNS."""

from __future__ import annotations

import re

from penstock.patterns import JsonTextError, PatternError, compile_pattern
from penstock.services.sns.faults import AttributeInvalid

POLICY, SCOPE = "FilterPolicy", "FilterPolicyScope"
BODY, ATTRIBUTES = "MessageBody", "MessageAttributes"
_NOTHING = re.compile(r"[ \t\r\n]*(?:\{[ \t\r\n]*\}[ \t\r\n]*)?")


def checked_scope(value: str) -> str:
    """Raises AttributeInvalid."""
    if value not in (BODY, ATTRIBUTES):
        raise AttributeInvalid(f"{SCOPE}: Invalid value [{value}]. Please use either {BODY} or {ATTRIBUTES}")
    return value


def checked_filter(value: str, scope: str) -> str:
    """The policy as SNS shows it: without spaces; empty if it removes the filter. Raises AttributeInvalid."""
    if _NOTHING.fullmatch(value):
        return ""
    try:
        return compile_pattern(value, nested=scope == BODY).compact
    except JsonTextError as error:
        raise AttributeInvalid(f"{POLICY}: failed to parse JSON. {error.reason}") from None
    except PatternError as error:
        raise AttributeInvalid(error.reason if error.is_nested else f"{POLICY}: {error.reason}") from None
