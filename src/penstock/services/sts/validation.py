"""Validation of STS requests. AWS reports several findings at once: "2 validation errors detected: ..."."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penstock.services.sts.faults import access_denied, invalid_parameter_value, validation_error
from penstock.services.sts.structs import AssumeRoleRequest, GetSessionTokenRequest, Tag

DURATION_MIN_S = 900
TAGS_MAX = 50
_FINDINGS_MAX = 10  # validation ends there: an unsigned request must not cost more than a few

_SESSION_NAME = r"[\w+=,.@-]*"
_EXTERNAL_ID = r"[\w+=,.@:\/-]*"
_POLICY = r"[\u0009\u000A\u000D\u0020-\u00FF]+"
_TAG = r"[\p{L}\p{Z}\p{N}_.:/=+\-@]+"
_TAG_HERE = re.compile(r"[\w\s.:/=+\-@]*")  # as near to Java's classes as Python's come


class Findings:
    """What is wrong with one request, as far as it was checked."""

    def __init__(self) -> None:
        self._found: list[str] = []

    def text(
        self, value: str | None, at: str, *, low: int, high: int, pattern: str = "", required: bool = False
    ) -> None:
        if value is None:
            if required:
                self._add("null", at, "not be null")
            return
        if pattern and not re.fullmatch(pattern, value, re.ASCII):
            self._add(f"'{value}'", at, f"satisfy regular expression pattern: {pattern}")
        if len(value) > high:
            self._add(f"'{value}'", at, f"have length less than or equal to {high}")
        if len(value) < low:
            self._add(f"'{value}'", at, f"have length greater than or equal to {low}")

    def number(self, value: int | None, at: str, *, low: int, high: int) -> None:
        if value is None:
            return
        if value > high:
            self._add(f"'{value}'", at, f"have value less than or equal to {high}")
        if value < low:
            self._add(f"'{value}'", at, f"have value greater than or equal to {low}")

    def tags(self, tags: Sequence[Tag]) -> None:
        if len(tags) > TAGS_MAX:
            self._add(f"'{len(tags)}'", "tags", f"have length less than or equal to {TAGS_MAX}")
        for number, tag in enumerate(tags, start=1):
            self._tag_key(tag.Key, f"tags.{number}.member.key")
            at = f"tags.{number}.member.value"
            self.text(tag.Value, at, low=0, high=256, required=True)
            if tag.Value is not None and not _TAG_HERE.fullmatch(tag.Value):
                self._add(f"'{tag.Value}'", at, f"satisfy regular expression pattern: {_TAG[:-1]}*")

    def tag_keys(self, keys: Sequence[str]) -> None:
        if len(keys) > TAGS_MAX:
            self._add(f"'{len(keys)}'", "transitiveTagKeys", f"have length less than or equal to {TAGS_MAX}")
        for number, key in enumerate(keys, start=1):
            self._tag_key(key, f"transitiveTagKeys.{number}.member")

    def _tag_key(self, key: str | None, at: str) -> None:
        self.text(key, at, low=1, high=128, required=True)
        if key and not _TAG_HERE.fullmatch(key):
            self._add(f"'{key}'", at, f"satisfy regular expression pattern: {_TAG}")

    def _add(self, value: str, at: str, rule: str) -> None:
        self._found.append(f"Value {value} at '{at}' failed to satisfy constraint: Member must {rule}")
        if len(self._found) == _FINDINGS_MAX:
            self.raise_any()

    def raise_any(self) -> None:
        if self._found:
            errors = "error" if len(self._found) == 1 else "errors"
            raise validation_error(
                f"{len(self._found)} validation {errors} detected: {'; '.join(self._found)}"
            )


def check_assume_role(request: AssumeRoleRequest, duration_max_s: int) -> None:
    found = Findings()
    found.text(request.RoleArn, "roleArn", low=20, high=2048, required=True)
    found.text(
        request.RoleSessionName, "roleSessionName", low=2, high=64, pattern=_SESSION_NAME, required=True
    )
    found.text(request.Policy, "policy", low=1, high=2048, pattern=_POLICY)
    found.text(request.ExternalId, "externalId", low=2, high=1224, pattern=_EXTERNAL_ID)
    found.number(request.DurationSeconds, "durationSeconds", low=DURATION_MIN_S, high=duration_max_s)
    found.tags(request.Tags or ())
    found.tag_keys(request.TransitiveTagKeys or ())
    found.raise_any()
    _check_tags_agree(request)
    _check_no_mfa(request)
    for name in ("PolicyArns", "SourceIdentity", "ProvidedContexts", "MinimumSessionTokenSize"):
        if getattr(request, name):
            raise validation_error(f"{name} is not supported by this server.")


def check_get_session_token(request: GetSessionTokenRequest, duration_max_s: int) -> None:
    found = Findings()
    found.number(request.DurationSeconds, "durationSeconds", low=DURATION_MIN_S, high=duration_max_s)
    found.raise_any()
    _check_no_mfa(request)
    if request.MinimumSessionTokenSize:
        raise validation_error("MinimumSessionTokenSize is not supported by this server.")


def _check_tags_agree(request: AssumeRoleRequest) -> None:
    keys = [(tag.Key or "").lower() for tag in request.Tags or ()]
    if len(set(keys)) != len(keys):
        raise invalid_parameter_value(
            "Duplicate tag keys found. Please note that Tag keys are case insensitive."
        )
    if any(key.startswith("aws:") for key in keys):
        raise invalid_parameter_value("Tag keys must not begin with 'aws:'. This prefix is reserved.")
    if not {key.lower() for key in request.TransitiveTagKeys or ()} <= set(keys):
        raise invalid_parameter_value(
            "The specified transitive tag key must be included in the requested tags."
        )


def _check_no_mfa(request: AssumeRoleRequest | GetSessionTokenRequest) -> None:
    """No MFA devices are supported, so no code can be valid."""
    if request.SerialNumber is not None or request.TokenCode is not None:
        raise access_denied("MultiFactorAuthentication failed with invalid MFA one time pass code.")
