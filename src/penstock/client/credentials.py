"""Keys and profiles, as users of AWS have them: environment variables, then the files of the AWS CLI.

This module finds out where keys come from, and reads those that are written there. Others come from a program, or are
temporary keys of a role: :mod:`penstock.client.keys` asks for them when a request is to be signed. Whatever else can
stand in a profile (single sign-on) is refused with the command that turns it into keys.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from configparser import ConfigParser
from configparser import Error as UnreadableFile
from pathlib import Path
from typing import NamedTuple

_ROLES_MAX = 5  # that assume each other


class ProfileError(Exception):
    """The keys cannot be read. The text says what to do."""


class SigningKeys(NamedTuple):
    """Keys to sign requests with. Its text has no secret, so that it can be logged.

        client = Client(credentials=SigningKeys("AKIA...", "..."))

    :param access_key: The access key id.
    :param secret_key: The secret access key.
    :param token: The session token of temporary keys. None by default.
    """

    access_key: str
    secret_key: str
    token: str | None = None

    def __repr__(self) -> str:
        """Return a text for logs and tracebacks, without the secret."""
        return f"SigningKeys({self.access_key!r}, ...)"


PLACEHOLDER_KEYS = SigningKeys("penstock", "penstock")
"""These keys sign where a region is given and no keys are, because only a signature names the region. An open server
takes any keys; this access key is not an account number, so that the account is the server's default."""


class KeysOfProgram(NamedTuple):
    """A program prints them (``credential_process``)."""

    command: str


class KeysOfRole(NamedTuple):
    """STS issues them to a caller who may assume the role."""

    role_arn: str
    source: KeySource
    session_name: str | None = None
    external_id: str | None = None
    duration_s: int | None = None
    sts_url: str | None = None  # None: Amazon's in the region


class KeysOfWebIdentity(NamedTuple):
    """STS issues them in exchange for a token of an identity provider, read from a file that is kept up to date."""

    role_arn: str
    token_file: str
    session_name: str | None = None
    duration_s: int | None = None
    sts_url: str | None = None


KeySource = SigningKeys | KeysOfProgram | KeysOfRole | KeysOfWebIdentity
"""Keys to sign with, or where they come from: a program, a role, or a token of an identity provider."""


class Profile(NamedTuple):
    """What the files say under one name."""

    name: str
    settings: Mapping[str, str]

    @property
    def region(self) -> str | None:
        return self.settings.get("region")

    @property
    def endpoint_url(self) -> str | None:
        return self.settings.get("sqs_endpoint_url") or self.settings.get("endpoint_url")


def read_profile(name: str | None = None, environment: Mapping[str, str] = os.environ) -> Profile:
    """The profile of that name, or the usual one. Raises ProfileError for one that was asked for and is
    missing."""
    asked = name or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    chosen = asked or "default"
    config = _read_file(environment.get("AWS_CONFIG_FILE"), "config")
    section = "default" if chosen == "default" else f"profile {chosen}"
    settings = dict(config.get(section, {}))
    services = config.get(f"services {settings.get('services', '')}", {})
    for service in ("sqs", "sns", "sts"):
        if "endpoint_url" in (nested := _nested(services.get(service, ""))):
            settings[f"{service}_endpoint_url"] = nested["endpoint_url"]
    keys = _read_file(environment.get("AWS_SHARED_CREDENTIALS_FILE"), "credentials")
    settings.update(keys.get(chosen, {}))
    if asked and not settings:
        raise ProfileError(f'there is no profile "{asked}": "aws configure list-profiles" lists them')
    return Profile(chosen, settings)


def find_credentials(
    profile: Profile, *, asked: bool = False, environment: Mapping[str, str] = os.environ
) -> KeySource | None:
    """Where the keys to sign with come from; None if there are none. A profile that was ``asked`` for comes before
    variables. Raises ProfileError."""
    if not asked:
        if keys := _of_variables(environment):
            return keys
        token_file, role_arn = environment.get("AWS_WEB_IDENTITY_TOKEN_FILE"), environment.get("AWS_ROLE_ARN")
        if token_file and role_arn:
            name, sts_url = environment.get("AWS_ROLE_SESSION_NAME"), _sts_url(profile, environment)
            return KeysOfWebIdentity(role_arn, token_file, name, None, sts_url)
    return _of_profile(profile, environment, ())


def _of_variables(environment: Mapping[str, str]) -> SigningKeys | None:
    if not environment.get("AWS_ACCESS_KEY_ID"):
        return None
    return SigningKeys(
        environment["AWS_ACCESS_KEY_ID"],
        environment.get("AWS_SECRET_ACCESS_KEY", ""),
        environment.get("AWS_SESSION_TOKEN") or None,
    )


def _of_profile(profile: Profile, environment: Mapping[str, str], seen: tuple[str, ...]) -> KeySource | None:
    settings = profile.settings
    # Beside source_profile = itself, the keys of a profile are those that assume its role.
    if "role_arn" in settings and profile.name not in seen:
        return _of_role(profile, environment, (*seen, profile.name))
    if "aws_access_key_id" in settings:
        return SigningKeys(
            settings["aws_access_key_id"],
            settings.get("aws_secret_access_key", ""),
            settings.get("aws_session_token"),
        )
    if "credential_process" in settings:
        return KeysOfProgram(settings["credential_process"])
    for unsupported in ("sso_session", "sso_start_url", "login_session"):
        if unsupported in settings:
            raise _not_supported(profile, unsupported)
    return None


def _of_role(profile: Profile, environment: Mapping[str, str], seen: tuple[str, ...]) -> KeySource:
    settings, sts_url = profile.settings, _sts_url(profile, environment)
    if "mfa_serial" in settings:
        raise _not_supported(profile, "mfa_serial")
    role_arn, name = settings["role_arn"], settings.get("role_session_name")
    duration = settings.get("duration_seconds", "")
    if duration and not duration.isdecimal():
        raise ProfileError(
            f'invalid duration_seconds "{duration}" in the profile "{profile.name}": expected seconds'
        )
    duration_s = int(duration) if duration else None
    if "web_identity_token_file" in settings:
        return KeysOfWebIdentity(role_arn, settings["web_identity_token_file"], name, duration_s, sts_url)
    source: KeySource | None
    if settings.get("credential_source") == "Environment":
        source = _of_variables(environment)
    elif "credential_source" in settings:
        raise _not_supported(profile, f"credential_source = {settings['credential_source']}")
    elif "source_profile" in settings:
        if len(seen) > _ROLES_MAX:
            raise ProfileError(f'the profile "{profile.name}" leads through more than {_ROLES_MAX} roles')
        source = _of_profile(read_profile(settings["source_profile"], environment), environment, seen)
    else:
        raise ProfileError(
            f'the profile "{profile.name}" has role_arn without source_profile: name the profile with the keys'
        )
    if source is None:
        raise ProfileError(f'there are no keys to assume the role of the profile "{profile.name}" with')
    return KeysOfRole(role_arn, source, name, settings.get("external_id"), duration_s, sts_url)


def _sts_url(profile: Profile, environment: Mapping[str, str]) -> str | None:
    return (
        environment.get("AWS_ENDPOINT_URL_STS")
        or environment.get("AWS_ENDPOINT_URL")
        or profile.settings.get("sts_endpoint_url")
        or profile.settings.get("endpoint_url")
    )


def _not_supported(profile: Profile, setting: str) -> ProfileError:
    return ProfileError(
        f'the profile "{profile.name}" uses {setting}. Turn it into keys first: '
        f'eval "$(aws configure export-credentials --profile {profile.name} --format env)"'
    )


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
