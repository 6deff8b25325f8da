"""The server that a command works on: common flags, the session, and errors of the server as one line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, TypeVar

import click

from penstock.cli.arguments import complete_context
from penstock.cli.failure import Breakdown, Failure
from penstock.cli.groups import did_you_mean
from penstock.cli.output import Output, json_option
from penstock.client.api import ApiError, ApiSession, Json, Unavailable
from penstock.client.credentials import ProfileError
from penstock.client.endpoint import Endpoint, EndpointError, find_endpoint
from penstock.client.queue_names import queue_account, queue_name

F = TypeVar("F", bound=Callable[..., Any])


class NoQueue(Breakdown):
    """A queue that does not exist."""

    def __init__(self, message: str, queue: str) -> None:
        super().__init__(message)
        self.queue = queue


class Target:
    """The session is opened when it is first used, so that wrong flags are reported before the network is."""

    def __init__(self, flags: dict[str, Any], out: Output) -> None:
        self._flags = flags
        self.out = out

    def changed(self, flags: dict[str, Any], out: Output) -> Target:
        """The target of a command in a shell: the server of the shell, unless flags say otherwise."""
        given = {name: value for name, value in flags.items() if value is not None}
        if "context" in given:
            return Target(flags, out)  # a server of its own
        return Target({**self._flags, **given}, out)

    @cached_property
    def endpoint(self) -> Endpoint:
        try:
            return find_endpoint(**self._flags)
        except (EndpointError, ProfileError) as error:
            raise Failure(str(error)) from None

    @cached_property
    def session(self) -> ApiSession:
        return ApiSession.of(self.endpoint)

    @property
    def client_options(self) -> dict[str, str | None]:
        """The flags, as a client of the SDK takes them."""
        flags = self._flags
        return {
            "endpoint_url": flags.get("url"),
            **{name: flags.get(name) for name in ("context", "profile", "region")},
        }

    @property
    def is_chosen(self) -> bool:
        """Whether a flag of this command names the server."""
        return bool(self._flags.get("url") or self._flags.get("context"))

    def sqs(self, action: str, **members: Any) -> Json:
        """Members that are None are left out."""
        return self.session.sqs(
            action, **{name: value for name, value in members.items() if value is not None}
        )

    def sns(self, action: str, **members: Any) -> Json:
        """Members that are None are left out; so are empty lists and texts of the answer."""
        return self.session.sns(action, **members)

    def admin(self, method: str, path: str, query: Json | None = None, body: Json | None = None) -> Json:
        return self.session.admin(method, path, query, body)

    def admin_pages(self, path: str, member: str, query: Json | None = None) -> Iterator[Json]:
        """The members of all pages of a list."""
        after = None
        while True:
            page = self.admin("GET", path, {**(query or {}), **({} if after is None else {"after": after})})
            yield from page[member]
            after = page.get("next")
            if after is None:
                return

    @property
    def is_penstock(self) -> bool:
        return self.session.is_penstock

    @cached_property
    def uses_admin(self) -> bool:
        """Whether a command that can do without the admin API uses it; False once the user was refused it."""
        return self.is_penstock

    def need_penstock(self, what: str) -> None:
        """Amazon SQS cannot do it."""
        if not self.is_penstock:
            raise Failure(f"{what} needs Penstock: {self.endpoint.url} has no admin API")

    def queue_url(self, queue: str, *, asked: bool = False) -> str:
        """Returns the URL of a queue given by name, URL or ARN. A URL is taken as it is unless ``asked`` is set."""
        if "://" in queue and not asked:
            return queue
        try:
            answer = self.sqs(
                "GetQueueUrl", QueueName=queue_name(queue), QueueOwnerAWSAccountId=queue_account(queue)
            )
        except ApiError as error:
            if error.is_missing_queue:
                raise self.no_queue(queue) from None
            raise
        return str(answer["QueueUrl"])

    def no_queue(self, queue: str) -> NoQueue:
        """Says where it was looked for: often the region or the server is the wrong one."""
        return NoQueue(f'there is no queue "{queue}" in {self.endpoint.place}', queue_name(queue))

    def with_hint(self, error: NoQueue) -> NoQueue:
        """The same error, with the name of a queue that is like the missing one."""
        with suppress(ApiError, Unavailable):
            names = [queue_name(url) for url in self.sqs("ListQueues").get("QueueUrls", [])]
            return NoQueue(error.message + did_you_mean(error.queue, names), error.queue)
        return error


def with_target(function: F) -> F:
    """Adds the flags that choose the server and the form of the output; passes ``target``."""

    @functools.wraps(function)
    def run(
        endpoint_url: str | None,
        context: str | None,
        profile: str | None,
        region: str | None,
        as_json: bool,
        **arguments: Any,
    ) -> Any:
        flags = {"url": endpoint_url, "context": context, "profile": profile, "region": region}
        shell = click.get_current_context().find_object(Target)
        target = Target(flags, Output(as_json)) if shell is None else shell.changed(flags, Output(as_json))
        try:
            return function(target=target, **arguments)
        except NoQueue as error:
            raise target.with_hint(error) from None
        except ApiError as error:
            if error.status == 403 and not target.endpoint.has_keys:
                error.message += " No keys were found: set AWS_ACCESS_KEY_ID, or give --profile or --context."
            raise Breakdown(str(error)) from None
        except Unavailable as error:
            chosen_by = target.endpoint.chosen_by
            hint = " For a server at another address, set AWS_ENDPOINT_URL." if chosen_by == "default" else ""
            raise Breakdown(f"{error} (endpoint from: {chosen_by}). Is the broker running?{hint}") from None
        except ProfileError as error:
            raise Failure(str(error)) from None
        finally:
            if "session" in vars(target):
                target.session.close()

    for option in reversed(_OPTIONS):
        run = option(run)
    return run  # type: ignore[return-value]


_OPTIONS = (
    click.option("--endpoint-url", metavar="URL", help='Server; "aws" is Amazon SQS.  [AWS_ENDPOINT_URL]'),
    click.option(
        "--context",
        metavar="NAME",
        shell_complete=complete_context,
        help='Server from "penstock context ls".  [PENSTOCK_CONTEXT]',
    ),
    click.option("--profile", metavar="NAME", help="Profile in ~/.aws with keys and region.  [AWS_PROFILE]"),
    click.option("--region", metavar="NAME", help="Region.  [AWS_REGION]"),
    json_option,
)
