"""Temporary keys: what is asked of STS or of a program, and what they answer."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from datetime import datetime
from math import inf
from pathlib import Path

from penstock.client.credentials import KeysOfRole, KeysOfWebIdentity, ProfileError, SigningKeys
from penstock.client.errors import Unavailable
from penstock.client.keys import IssuedKeys
from penstock.client.query import encode_form, read_xml

_PROGRAM_TIMEOUT_S = 60
_TOKEN_BYTES_MAX = 64 * 1024
_STS_VERSION = "2011-06-15"


def assume_role(role: KeysOfRole) -> bytes:
    return _form("AssumeRole", role, {"ExternalId": role.external_id})


def assume_role_with_web_identity(role: KeysOfWebIdentity) -> bytes:
    try:
        with Path(role.token_file).expanduser().open(encoding="utf-8") as file:
            token = file.read(_TOKEN_BYTES_MAX).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ProfileError(f'cannot read the web identity token "{role.token_file}": {error}') from None
    return _form("AssumeRoleWithWebIdentity", role, {"WebIdentityToken": token})


def _form(action: str, role: KeysOfRole | KeysOfWebIdentity, members: Mapping[str, str | None]) -> bytes:
    given = {
        "RoleArn": role.role_arn,
        "RoleSessionName": role.session_name or f"penstock-{os.getpid()}",
        "DurationSeconds": role.duration_s,
        **members,
    }
    return encode_form(action, _STS_VERSION, given)


def issued(answer: bytes) -> IssuedKeys:
    try:
        _, response = read_xml(answer) or ("", {})
        (members,) = (each["Credentials"] for each in response.values() if "Credentials" in each)
        keys = SigningKeys(members["AccessKeyId"], members["SecretAccessKey"], members["SessionToken"])
        return IssuedKeys(keys, datetime.fromisoformat(members["Expiration"]).timestamp())
    except (AttributeError, KeyError, TypeError, ValueError):
        raise Unavailable("the answer is not that of STS: check AWS_ENDPOINT_URL_STS") from None


def of_program(command: str) -> IssuedKeys:
    try:
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=_PROGRAM_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ProfileError(f"credential_process failed: {done.stderr.strip()[:500]}")
        printed = json.loads(done.stdout)
        keys = SigningKeys(printed["AccessKeyId"], printed["SecretAccessKey"], printed.get("SessionToken"))
        ends = printed.get("Expiration")
        return IssuedKeys(keys, inf if ends is None else datetime.fromisoformat(ends).timestamp())
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfileError(f"credential_process cannot be run: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise ProfileError("credential_process did not print AccessKeyId and SecretAccessKey") from None
