"""Keys and profiles, as users of AWS have them: environment variables, then the files of the AWS CLI.

A profile can hold keys or name a program that prints them (``credential_process``). Whatever else can stand in one
(roles, single sign-on) is refused with the command that turns it into keys.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as UnreadableFile
from pathlib import Path
from typing import NamedTuple

_PROCESS_TIMEOUT_S = 60


class ProfileError(Exception):
    """They cannot be read; the text says what to do."""


class SigningKeys(NamedTuple):
    access_key: str
    secret_key: str
    token: str | None = None


class Profile(NamedTuple):
    """What the files say under one name."""

    name: str
    settings: Mapping[str, str]

    @property
    def region(self) -> str | None:
        return self.settings.get("region")

    @property
    def endpoint_url(self) -> str | None:
        return self.settings.get("endpoint_url")


def read_profile(name: str | None = None, environment: Mapping[str, str] = os.environ) -> Profile:
    """The profile of that name, or the usual one. Raises ProfileError for one that was asked for and is
    missing."""
    asked = name or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    chosen = asked or "default"
    config = _read_file(environment.get("AWS_CONFIG_FILE"), "config")
    section = "default" if chosen == "default" else f"profile {chosen}"
    settings = dict(config.get(section, {}))
    services = config.get(f"services {settings.get('services', '')}", {})
    if "endpoint_url" in (sqs := _nested(services.get("sqs", ""))):
        settings["endpoint_url"] = sqs["endpoint_url"]
    keys = _read_file(environment.get("AWS_SHARED_CREDENTIALS_FILE"), "credentials")
    settings.update(keys.get(chosen, {}))
    if asked and not settings:
        raise ProfileError(f'there is no profile "{asked}": "aws configure list-profiles" lists them')
    return Profile(chosen, settings)


def find_credentials(
    profile: Profile, *, asked: bool = False, environment: Mapping[str, str] = os.environ
) -> SigningKeys | None:
    """The keys to sign with; None: there are none. A profile that was ``asked`` for comes before variables."""
    if not asked and environment.get("AWS_ACCESS_KEY_ID"):
        return SigningKeys(
            environment["AWS_ACCESS_KEY_ID"],
            environment.get("AWS_SECRET_ACCESS_KEY", ""),
            environment.get("AWS_SESSION_TOKEN") or None,
        )
    settings = profile.settings
    if "aws_access_key_id" in settings:
        return SigningKeys(
            settings["aws_access_key_id"],
            settings.get("aws_secret_access_key", ""),
            settings.get("aws_session_token"),
        )
    if "credential_process" in settings:
        return _from_process(settings["credential_process"])
    for unsupported in ("role_arn", "sso_session", "sso_start_url", "login_session"):
        if unsupported in settings:
            raise ProfileError(
                f'the profile "{profile.name}" uses {unsupported}. Turn it into keys first: '
                f'eval "$(aws configure export-credentials --profile {profile.name} --format env)"'
            )
    return None


def _from_process(command: str) -> SigningKeys:
    try:
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=_PROCESS_TIMEOUT_S, check=False
        )
        if done.returncode:
            raise ProfileError(f"credential_process failed: {done.stderr.strip()[:500]}")
        printed = json.loads(done.stdout)
        return SigningKeys(printed["AccessKeyId"], printed["SecretAccessKey"], printed.get("SessionToken"))
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ProfileError(f"credential_process cannot be run: {error}") from None
    except (ValueError, KeyError, TypeError):
        raise ProfileError("credential_process did not print AccessKeyId and SecretAccessKey") from None


def _read_file(path: str | None, name: str) -> dict[str, dict[str, str]]:
    file = Path(path or f"~/.aws/{name}").expanduser()
    parser = ConfigParser(interpolation=None, default_section="", strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"), str(file))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ProfileError(f'cannot read "{file}": {error.strerror}') from None
    except (UnreadableFile, UnicodeDecodeError):
        raise ProfileError(f'"{file}" is not a file of the AWS CLI: expected [sections]') from None
    return {section: dict(parser[section]) for section in parser.sections()}


def _nested(text: str) -> dict[str, str]:
    """``sqs =`` with indented settings below it."""
    pairs = (line.partition("=") for line in text.splitlines() if "=" in line)
    return {name.strip(): value.strip() for name, _, value in pairs}
