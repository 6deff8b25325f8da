"""Which server a command talks to: a flag, a context, a variable of the AWS SDKs, a profile, or the local broker.

A context is a name for an endpoint, a region and a profile. Contexts are kept in one small file without secrets.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from penstock.client.credentials import PLACEHOLDER_KEYS, KeySource, find_credentials, read_profile

LOCAL = "http://127.0.0.1:9324"
AMAZON = "aws"  # instead of a URL: Amazon SQS in the region
CONTEXT_VARIABLE = "PENSTOCK_CONTEXT"
_REGION_OF_AMAZON = "us-east-1"  # if none is named; another server chooses its own
_SQS_OF_AMAZON = re.compile(r"https://sqs((?:-fips)?\.[a-z0-9-]+)\.(amazonaws\.com(?:\.cn)?)/?")
_REGION = re.compile(r"[a-z0-9][a-z0-9-]{0,62}")


class EndpointError(Exception):
    """It is not clear which server is meant; the text says what to do."""


class Context(NamedTuple):
    endpoint: str  # a URL, or "aws"
    region: str | None = None
    profile: str | None = None
    ca_file: str | None = None  # certificate authorities (PEM) of the server's certificate


class Contexts(NamedTuple):
    current: str | None
    by_name: dict[str, Context]


class Endpoint(NamedTuple):
    """Everything that a session needs to know of a server."""

    url: str
    region: str
    credentials: KeySource | None
    chosen_by: str  # "--endpoint-url", "context prod", "AWS_ENDPOINT_URL", …
    ca_file: str | None = None
    sns_url: str | None = None  # None: SNS is where SQS is

    @property
    def has_keys(self) -> bool:
        """Whether it has keys of the user, and not those that only carry the region."""
        return self.credentials is not None and self.credentials is not PLACEHOLDER_KEYS

    @property
    def place(self) -> str:
        """Where its queues are, for people: the server chooses the region of requests that are not signed."""
        region = "the default region" if self.credentials is None else self.region
        return f"{region} of {self.url}"


def find_endpoint(
    *,
    url: str | None = None,
    context: str | None = None,
    profile: str | None = None,
    region: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Endpoint:
    """Finds the endpoint that flags, variables and files name; all may be missing. Raises EndpointError or
    ProfileError."""
    contexts = read_contexts(environment)
    named = context or environment.get(CONTEXT_VARIABLE)
    if named and named not in contexts.by_name:
        raise EndpointError(f'there is no context "{named}": "penstock context ls" lists them')
    variable = next((v for v in ("AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL") if environment.get(v)), None)
    # A context that is only the current one gives way to a variable of this shell.
    chosen = named or (contexts.current if url is None and variable is None else None)
    settings = contexts.by_name.get(chosen or "")
    asked_profile = profile or (settings.profile if settings else None)
    profile_settings = read_profile(asked_profile, environment)
    if url is not None:
        found, chosen_by = url, "--endpoint-url"
    elif settings is not None:
        found, chosen_by = settings.endpoint, f"context {chosen}"
    elif variable is not None:
        found, chosen_by = environment[variable], variable
    elif profile_settings.endpoint_url:
        found, chosen_by = profile_settings.endpoint_url, f"profile {profile_settings.name}"
    else:
        found, chosen_by = LOCAL, "default"
    region = (
        region or (settings.region if settings else None) or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION") or profile_settings.region
    )  # fmt: skip
    credentials = find_credentials(profile_settings, asked=bool(asked_profile), environment=environment)
    if credentials is None and region:
        credentials = PLACEHOLDER_KEYS
    region = region or _REGION_OF_AMAZON
    if not _REGION.fullmatch(region):
        raise EndpointError(f'invalid region "{region}": expected a name such as eu-central-1')
    ca_file = (settings.ca_file if settings else None) or environment.get("AWS_CA_BUNDLE")
    sns = None  # a server that a flag or a context names has its topics, too
    if chosen_by in (variable, "default"):
        sns = environment.get("AWS_ENDPOINT_URL_SNS")
    elif chosen_by.startswith("profile "):
        sns = profile_settings.settings.get("sns_endpoint_url")
    sns = sns_url(endpoint_url(sns, region)) if sns else None
    return Endpoint(endpoint_url(found, region), region, credentials, chosen_by, ca_file, sns)


def endpoint_url(endpoint: str, region: str) -> str:
    """Checks a URL, and turns "aws" into that of the region. Raises EndpointError."""
    if endpoint == AMAZON:
        suffix = ".cn" if region.startswith("cn-") else ""
        return f"https://sqs.{region}.amazonaws.com{suffix}"
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise EndpointError(f'"{endpoint}" is not an endpoint: expected a URL such as {LOCAL}, or "{AMAZON}"')
    return endpoint


def sns_url(url: str) -> str:
    """The URL of SNS where SQS has this one. Penstock serves both at the same URL, Amazon does not."""
    found = _SQS_OF_AMAZON.fullmatch(url)
    return url if found is None else f"https://sns{found[1]}.{found[2]}"


def contexts_file(environment: Mapping[str, str] = os.environ) -> Path:
    base = environment.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(base).expanduser() / "penstock" / "contexts.json"


def read_contexts(environment: Mapping[str, str] = os.environ) -> Contexts:
    file = contexts_file(environment)
    try:
        stored: Any = json.loads(file.read_text(encoding="utf-8"))
        by_name = {name: Context(**fields) for name, fields in stored["contexts"].items()}
        return Contexts(stored.get("current"), by_name)
    except FileNotFoundError:
        return Contexts(None, {})
    except OSError as error:
        raise EndpointError(f'cannot read "{file}": {error.strerror}') from None
    except (ValueError, KeyError, TypeError, AttributeError):
        raise EndpointError(
            f'"{file}" is damaged: correct it, or remove it and add the contexts again'
        ) from None


def write_contexts(contexts: Contexts, environment: Mapping[str, str] = os.environ) -> None:
    file = contexts_file(environment)
    file.parent.mkdir(parents=True, exist_ok=True)
    fields = {name: _given(context) for name, context in sorted(contexts.by_name.items())}
    text = json.dumps({"current": contexts.current, "contexts": fields}, indent=2)
    temporary = file.with_suffix(".new")
    temporary.write_text(f"{text}\n", encoding="utf-8")
    temporary.replace(file)


def _given(context: Context) -> dict[str, str]:
    return {name: value for name, value in context._asdict().items() if value is not None}
