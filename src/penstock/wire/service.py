"""What a service declares to the wire, one row per action; and what travels with one request.

The wire knows services only by these rows. It decodes a request into the row's struct, asks the row for the
resource, authorises the call, runs the handler and encodes the struct that the handler returns.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Coroutine, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

import msgspec

from penstock.names import Requester, Space
from penstock.promise import Promise
from penstock.turns import Steps

if TYPE_CHECKING:
    from penstock.wire.shapes import Field

TRACE_BYTES_MAX = 1024
"""The longest trace header, in HTTP or in a message. It is stored with the message, and its size does not count."""

_MESSAGE_MAX = 4096

Headers = list[tuple[bytes, bytes]]

NO_MEMBERS: Mapping[str, Any] = MappingProxyType({})


class HttpRequest(Protocol):
    """The part of an HTTP request that the wire reads. It is not kept after it was decoded."""

    @property
    def method(self) -> bytes: ...

    @property
    def target(self) -> bytes:
        """Path and query string, as sent."""

    @property
    def headers(self) -> Mapping[bytes, bytes]:
        """Names in lower case, repeated headers joined."""

    @property
    def body(self) -> bytes: ...


class Call(msgspec.Struct, kw_only=True, eq=False):
    """The context of one request: who calls, from where, and what happens if the client disconnects.

    The server creates it with what it knows, the dispatcher completes it and passes it to the handler.
    """

    request_id: str
    space: Space  # account and region of the caller
    sender: str  # shown as SenderId
    base_url: str  # scheme://host[:port] as the client reached the server; queue URLs are built on it
    trace: str | None = None  # the X-Amzn-Trace-Id header
    # The service in the credential scope of the signature, None without a signature. It is verified if there is a
    # principal; on an open server it only helps to choose between services that share action names.
    signed_for: str | None = None
    # The caller on a secured server, made by `auth`: the wire reads only its kind. None on an open server.
    principal: Any = None
    source_ip: str = ""
    secure: bool = False  # it came over TLS
    source_arn: str = ""  # if a service calls: the resource for which it does, such as a topic
    source_account: str = ""
    certificate: str = ""  # subject of the client certificate
    user_agent: str = ""
    requester: Requester | None = None  # for the history of messages
    # Raised for an action that has effects: a request that a web page may have caused must not change anything.
    write_refusal: Fault | None = None
    # Raised for every action but those that links lead to: a page has caused the request.
    page_refusal: Fault | None = None
    # Set on the way, for the handler, the audit log and the metrics.
    action: str = ""
    began_s: float = 0.0  # when it was dispatched
    traces: list[str] | None = None  # of received messages; None: not wanted
    resource: Any = None  # what the row's `resource` returned
    asked: Any = None  # the decoded request, if it was refused before its handler ran: for the log
    resource_arn: str = ""  # the ARN that was asked for, if permissions were checked
    verdict: Any = None  # the last decision of the policies
    # The client.
    gone: bool = False  # it disconnected
    on_gone: Callable[[], None] | None = None  # called once, when it disconnects
    if_unread: Callable[[], None] | None = None  # called if the response could not be written
    # The response is so large that it is encoded in turns, as those of some actions always are.
    is_large: bool = False
    # Told how many seconds a request has computed: in the limit of requests it counts as several.
    on_work: Callable[[float], None] | None = None
    decoding: Promise[Any] | None = None  # of a request that is decoded in turns: until then it is kept

    def count_work(self, seconds: float) -> None:
        if self.on_work is not None:
            self.on_work(seconds)

    def hang_up(self) -> None:
        self.gone = True
        if self.on_gone is not None:
            callback, self.on_gone = self.on_gone, None
            callback()


class RunningCall(Protocol):
    """What a connection tells a request that runs: its :class:`Call`, or what waits for the answer of the process
    that runs it."""

    gone: bool
    if_unread: Callable[[], None] | None  # called if the response could not be written
    decoding: Promise[Any] | None  # until it is done, the request is needed

    def hang_up(self) -> None:
        """The client disconnected."""


class Response(msgspec.Struct, frozen=True):
    """An HTTP response without what only the transport knows: Date, Content-Length, Connection."""

    status: int
    headers: Headers
    body: bytes = b""
    stream: AsyncIterable[bytes] | None = None  # sent instead of the body, piece by piece


class Fault(Exception):
    """An error as clients see it.

    ``shape`` is the last part of ``__type``; ``code`` is what older clients read (``x-amzn-query-error``, XML
    ``Code``), and ``query_message`` the text where the Query protocol words it differently. ``plain_status`` is that
    of newer clients, of a service that has two (:attr:`Service.has_query_mode`). ``members``: beside the message.
    """

    def __init__(
        self,
        shape: str,
        code: str,
        status: int,
        message: str,
        *,
        modelled: bool,
        query_message: str | None = None,
        namespace: str = "",
        plain_status: int | None = None,
        members: Mapping[str, Any] = NO_MEMBERS,
    ) -> None:
        message = _bounded(message)
        super().__init__(message)
        self.shape = shape
        self.code = code
        self.status = status
        self.message = message
        self.modelled = modelled  # in the service's own model, or one of the framework's errors
        self.namespace = namespace  # of the shape, if it is neither the service's nor the usual one
        self.plain_status = status if plain_status is None else plain_status
        self.members = dict(members)
        self.query_message = message if query_message is None else _bounded(query_message)

    @property
    def sender_fault(self) -> bool:
        return self.status < 500

    @property
    def blame(self) -> str:
        return "Sender" if self.sender_fault else "Receiver"


def _bounded(message: str) -> str:
    """Some messages quote what was sent, which may be megabytes."""
    return message if len(message) <= _MESSAGE_MAX else f"{message[:_MESSAGE_MAX]}…"


class AuditRule(msgspec.Struct, frozen=True):
    """What the audit log records of an action.

    ``parameters`` and ``response`` list the members that may be written; everything else is left out. An
    entry is

    - ``"QueueUrl"``: the value, named as CloudTrail does (``queueUrl``; ``AWSAccountIds`` stays);
    - ``"Credentials.AccessKeyId as accessKeyId"``: a member of a member, and its name in the event;
    - ``"count(Entries) as numberOfEntries"``: the number of members of a list or map;
    - ``"pairs(Tags) as tags"``: a list of structs with Key and Value, written as a map.
    """

    category: Literal["Management", "Data"] | None = None  # None: written only if the request was denied
    parameters: tuple[str, ...] = ()
    response: tuple[str, ...] = ()
    gives_credentials: bool = False


Handler = Callable[[Any, Any, Call], Coroutine[Any, None, Any]]
"""(the service's context, request struct, call) -> response struct, or None for an empty response."""

FindResource = Callable[[Any, Any, Call], Any]
"""(the service's context, request struct, call) -> what the request acts on, with what authorisation asks of it. Its
ARN is the routing key. On a secured server it need not exist: whether it does is said after authorisation."""


class Action(msgspec.Struct, frozen=True):
    """Everything known about one action of a service."""

    name: str
    request: type[msgspec.Struct]
    response: type[msgspec.Struct] | None
    handler: Handler  # runs again, with the same request, if another one made the store refuse its commit
    resource: FindResource | None = None
    # "sqs:SendMessage"; a batch needs that of the single action. Empty: every signed caller may.
    permission: str = ""
    grantable: bool = False  # a policy of the resource may grant it to other accounts
    root_always: bool = False  # no policy can keep the root of the owning account from it
    anonymous: bool = False  # a caller without a signature may be served, if the resource's policy allows it
    # People follow links to it, from mails and web pages: no policy is asked about requests without a signature, and
    # those that pages caused are served. What a link names is secret, and the handler checks it.
    by_link: bool = False
    read_only: bool = False  # as CloudTrail has it
    # Although it is read-only: ReceiveMessage hides messages, AssumeRole gives credentials.
    has_effects: bool = False
    audit: AuditRule = AuditRule()
    http: str = ""  # REST-JSON: method and URI template, "GET /functions/{FunctionName}"
    status: int = 200  # REST-JSON: of a success
    is_large: bool = False  # its responses may have thousands of members, and are encoded in turns
    # Of all lists and maps of a request, if it may have more than those of other actions.
    members_max: int = 0


ProtocolName = Literal["json-1.0", "json-1.1", "query", "rest-json", "rpc-v2-cbor"]

ToFault = Callable[[Exception], Fault | None]


class ArnKind(msgspec.Struct, frozen=True):
    """One kind of resource: ``arn:…:{service}:…:…:{prefix}…``, and its type in the audit log, as CloudFormation
    names it. It may be empty, as some kinds have none."""

    service: str
    prefix: str
    resource_type: str = ""


class StoredKind(Protocol):
    """A kind of record that a service stores: ``store.changes.RecordKind``, which says how its records move."""

    @property
    def name(self) -> str: ...


class MeasuredNamespace(Protocol):
    """A namespace of metrics that a service measures: ``monitoring.measured.ServiceNamespace``, or one that reads
    them itself, ``monitoring.reading.MetricNamespace``."""

    @property
    def name(self) -> str: ...


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One AWS service: what the wire needs to know of it, and what others compute their lists from.

    A list of services, such as that of the health page, is never kept by hand elsewhere: it is made of the registered
    services (``SERVICES`` of the composition root)."""

    signing_name: str  # "sqs": the service in a signature's credential scope
    target_prefix: str  # "AmazonSQS": before the action in X-Amz-Target, and in the path of a CBOR request
    shape_namespace: str  # "com.amazonaws.sqs": before the shape of a modelled error in __type
    xml_namespace: str = ""  # of the Query protocol; its last part is the version
    xml_error_detail: bool = False  # errors of the Query protocol have an empty element "Detail"
    xml_is_indented: bool = False  # XML is written in lines, and has no declaration
    protocols: tuple[ProtocolName, ...] = ("json-1.0", "query")
    actions: Mapping[str, Action]
    to_fault: ToFault  # maps a domain error to a fault, or to None
    context: Any = None  # the first argument of the handlers: the broker
    unsupported: frozenset[str] = frozenset()  # actions of the service that are not implemented
    # Errors have the statuses of the Query protocol only for clients that say ``x-amzn-query-mode: true``.
    has_query_mode: bool = False
    # What follows is not for the wire.
    name: str = ""  # in policies ("cloudwatch:PutMetricData") and on the health page; empty: the signing name
    is_announced: bool = True  # on the health page and that of LocalStack
    event_source: str = ""  # in the audit log; empty: the signing name with Amazon's domain
    arns: tuple[ArnKind, ...] = ()
    condition_keys: tuple[str, ...] = ()  # of its own, in lower case: "sts:externalid"
    refuses_in_lower_case: bool = False  # refusals name its actions in lower case: "sqs:sendmessage"
    refuses_in_upper_case: bool = False  # refusals name it in upper case: "SNS:Publish"
    # Built-in policies by name, each with the actions that it allows; those that allow least are first.
    policies: Mapping[str, tuple[str, ...]] = NO_MEMBERS
    # Pages of the console may call its actions below this path, with which the paths of a REST service begin; empty:
    # they may not.
    console_path: str = ""
    metric_namespaces: tuple[MeasuredNamespace, ...] = ()  # clients cannot send metrics to these
    records: tuple[StoredKind, ...] = ()  # what it stores

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "name", self.name or self.signing_name)
        source = self.event_source or f"{self.signing_name}.amazonaws.com"
        msgspec.structs.force_setattr(self, "event_source", source)

    def with_context(self, context: Any) -> Service:
        service: Service = msgspec.structs.replace(self, context=context)
        return service

    @property
    def is_rest(self) -> bool:
        """Whether requests name its actions by method and path."""
        return "rest-json" in self.protocols

    @property
    def version(self) -> str:
        return self.xml_namespace.rstrip("/").rpartition("/")[2]


class ResponseWriter(Protocol):
    """Writes responses in one protocol. There is one for each service that speaks it."""

    def success(self, action: Action, response: Any, request_id: str) -> Response: ...

    def encoded_list(self, pieces: Iterator[list[Any]], field: Field) -> Steps[Any]:
        """What :meth:`success` takes in the place of a long list (:mod:`penstock.wire.long_lists`)."""

    def error(self, fault: Fault, request_id: str) -> Response: ...


class WireProtocol(ResponseWriter, Protocol):
    """One protocol as one service speaks it."""

    def decoder(self, action: Action) -> Callable[[Any], msgspec.Struct]:
        """Returns what turns the action's requests into structs, or raises Fault."""


@runtime_checkable
class StepwiseDecoder(Protocol):
    """A decoder of requests that may be long."""

    def steps(self, given: Any) -> Steps[msgspec.Struct]:
        """Does what a call does, with pauses."""


def error_headers(fault: Fault, content_type: bytes, request_id: str) -> Headers:
    headers = [(b"Content-Type", content_type), (b"x-amzn-RequestId", request_id.encode())]
    if fault.status == 503:
        headers.append((b"Retry-After", b"1"))
    return headers
