"""Platform applications, their endpoints, and what is known of phone numbers: the records of an account.

All of an account, in all its regions, are in one shard. Nothing is sent to phones: messages for them are kept where
an operator sees them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, ClassVar, TypeVar, cast
from uuid import UUID

import msgspec

from penstock.broker.parts import Part
from penstock.broker.questions import ShardQuestion
from penstock.broker.shard import RecordTable
from penstock.errors import QuotaReached
from penstock.names import Arn, Home, Space, is_account, is_region, partition_of
from penstock.services.sns.limits import APPLICATION_NAME_LENGTH_MAX, SnsLimits
from penstock.store.changes import RecordKind
from penstock.store.moving import by_home

if TYPE_CHECKING:
    from penstock.broker.partition import Partition

PLATFORMS = ("ADM", "APNS", "APNS_SANDBOX", "APNS_VOIP", "APNS_VOIP_SANDBOX", "BAIDU", "FCM", "GCM", "MACOS",
             "MACOS_SANDBOX", "MPNS", "WNS")  # fmt: skip
_NAME_CHARACTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")
_RECORD_BYTES = 200  # in memory, beside its texts
_DELETED_PER_TURN = 200
NOTHING: dict[str, str] = {}


class ApplicationName(msgspec.Struct, frozen=True, order=True):
    account: str
    region: str
    platform: str
    name: str

    @property
    def space(self) -> Space:
        return Space(self.account, self.region)

    @property
    def arn(self) -> str:
        place = f"arn:{partition_of(self.region)}:sns:{self.region}:{self.account}"
        return f"{place}:app/{self.platform}/{self.name}"

    @classmethod
    def of_arn(cls, text: str) -> ApplicationName | None:
        """Returns None if no application can have this ARN."""
        parts = _parts(text, "app", 3)
        return None if parts is None else _checked(cls(*parts), text)


class EndpointName(msgspec.Struct, frozen=True, order=True):
    application: ApplicationName
    id: str

    @property
    def arn(self) -> str:
        return f"{self.application.arn.replace(':app/', ':endpoint/', 1)}/{self.id}"

    @classmethod
    def of_arn(cls, text: str) -> EndpointName | None:
        """Returns None if no endpoint can have this ARN."""
        parts = _parts(text, "endpoint", 4)
        if parts is None:
            return None
        *application, id = parts
        name = ApplicationName(*application)
        try:
            is_id = str(UUID(id)) == id
        except ValueError:
            is_id = False
        return cls(name, id) if is_id and _checked(name, name.arn) else None


def _parts(text: str, kind: str, count: int) -> list[str] | None:
    arn = Arn.parse(text)
    if arn is None or arn.service != "sns" or not is_account(arn.account) or not is_region(arn.region):
        return None
    first, *rest = arn.resource.split("/")
    if first != kind or len(rest) != count - 1 or arn.partition != partition_of(arn.region):
        return None
    return [arn.account, arn.region, *rest]


def _checked(name: ApplicationName, arn: str) -> ApplicationName | None:
    is_known = name.platform in PLATFORMS and is_application_name(name.name)
    return name if is_known and name.arn == arn else None


def is_application_name(name: str) -> bool:
    return 0 < len(name) <= APPLICATION_NAME_LENGTH_MAX and _NAME_CHARACTERS.issuperset(name)


class Application(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: ApplicationName
    attributes: dict[str, str] = NOTHING  # without credentials, which are not kept

    @property
    def key(self) -> str:
        return self.name.arn

    @property
    def is_enabled(self) -> bool:
        return self.attributes.get("Enabled", "true") == "true"


class DeviceEndpoint(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    name: EndpointName
    token: str
    attributes: dict[str, str] = NOTHING  # Enabled and CustomUserData

    @property
    def key(self) -> str:
        return self.name.arn

    @property
    def is_enabled(self) -> bool:
        return self.attributes.get("Enabled", "true") == "true"


class PhoneState(StrEnum):
    PENDING = "Pending"
    VERIFIED = "Verified"


class SandboxNumber(msgspec.Struct, frozen=True, kw_only=True):
    space: Space
    number: str
    state: PhoneState
    code: str  # what the owner of the phone has to enter
    code_until_ms: int

    @property
    def key(self) -> str:
        return f"{self.space.region}/{self.number}"


class SmsSettings(msgspec.Struct, frozen=True, kw_only=True):
    space: Space
    attributes: dict[str, str]

    @property
    def key(self) -> str:
        return self.space.region


_NO_ENDPOINTS: Mapping[str, EndpointName] = {}

Record = Application | DeviceEndpoint | SandboxNumber | SmsSettings
R = TypeVar("R", bound=Record)

APPLICATIONS = RecordKind("platform-application", Application, by_home)
ENDPOINTS = RecordKind("platform-endpoint", DeviceEndpoint, by_home)
SANDBOX_NUMBERS = RecordKind("sandbox-number", SandboxNumber, by_home)
SMS_SETTINGS = RecordKind("sms-settings", SmsSettings, by_home)
KINDS = (APPLICATIONS, ENDPOINTS, SANDBOX_NUMBERS, SMS_SETTINGS)


class DeviceEndpointQuestion(ShardQuestion[DeviceEndpoint | None], frozen=True):
    """An endpoint of a platform application; None if it does not exist."""

    kind: ClassVar[str] = "platform-endpoint"
    name: EndpointName

    def shards(self, count: int) -> Iterable[int]:
        return (ShardMobile.home(self.name.application.account).shard(count),)

    async def answer(self, partition: Partition) -> DeviceEndpoint | None:
        mobile = partition.part(ShardMobile)
        found = mobile.endpoint(self.name)
        await mobile.settled()
        return found


class ApplicationQuestion(ShardQuestion[Application | None], frozen=True):
    """A platform application; None if it does not exist."""

    kind: ClassVar[str] = "platform-application"
    name: ApplicationName

    def shards(self, count: int) -> Iterable[int]:
        return (ShardMobile.home(self.name.account).shard(count),)

    async def answer(self, partition: Partition) -> Application | None:
        mobile = partition.part(ShardMobile)
        found = mobile.application(self.name)
        await mobile.settled()
        return found


MOBILE_QUESTIONS = (ApplicationQuestion, DeviceEndpointQuestion)


class _Use(msgspec.Struct):
    """The records of one kind that an account has: the bytes that each takes, by its key."""

    sizes: dict[str, int]
    total: int = 0


class ShardMobile(Part):
    """The records of the accounts that live in this shard. What changes something joins the open commit: await
    :meth:`settled` before you answer."""

    def __init__(self, partition: Partition, limits: SnsLimits) -> None:
        self._partition = partition
        self._shard = shard = partition.shard
        self._limits = limits
        self._uses: dict[tuple[Home, type[Record]], _Use] = {}
        self._endpoints_of: dict[ApplicationName, dict[str, EndpointName]] = {}  # by token
        self._applications = shard.table(APPLICATIONS, partial(self._note, Application))
        self._endpoints = shard.table(ENDPOINTS, self._endpoint_undone)
        self._numbers = shard.table(SANDBOX_NUMBERS, partial(self._note, SandboxNumber))
        self._settings = shard.table(SMS_SETTINGS, partial(self._note, SmsSettings))
        for table in (self._applications, self._endpoints, self._numbers, self._settings):
            for key, record in table:
                self._note(type(record), key, record)
        for _, endpoint in self._endpoints:
            self._tokens(endpoint.name.application)[endpoint.token] = endpoint.name

    @staticmethod
    def home(account: str) -> Home:
        return Home.of("mobile", account)

    async def settled(self) -> None:
        await self._shard.settled()

    def now_ms(self) -> int:
        return self._shard.clock.wall_ms()

    # -- applications ----------------------------------------------------------------------------------------------

    def application(self, name: ApplicationName) -> Application | None:
        return self._applications.get(self.home(name.account).key(name.arn))

    def applications(self, space: Space, after: str, most: int) -> list[Application]:
        """The first applications beyond an ARN, in order of their ARNs."""
        own = (each for _, each in self._applications if each.name.space == space)
        return sorted((each for each in own if each.key > after), key=lambda each: each.key)[:most]

    def put_application(self, application: Application) -> None:
        """Raises QuotaReached."""
        account, most = application.name.account, self._limits.applications_max
        self._put(self._applications, account, application, most, "platform applications")

    async def delete_application(self, name: ApplicationName) -> None:
        """Delete an application after its endpoints."""
        while tokens := self._tokens(name):
            for endpoint in list(islice(tokens.values(), _DELETED_PER_TURN)):
                self.delete_endpoint(endpoint)
            await self._partition.turn()
        self._endpoints_of.pop(name, None)
        self._remove(self._applications, Application, self.home(name.account).key(name.arn))

    # -- endpoints -------------------------------------------------------------------------------------------------

    def endpoint(self, name: EndpointName) -> DeviceEndpoint | None:
        return self._endpoints.get(self.home(name.application.account).key(name.arn))

    def endpoint_of_token(self, application: ApplicationName, token: str) -> DeviceEndpoint | None:
        name = self._endpoints_of.get(application, _NO_ENDPOINTS).get(token)
        return None if name is None else self.endpoint(name)

    def endpoints(self, application: ApplicationName, after: str, most: int) -> list[DeviceEndpoint]:
        """The first endpoints beyond an ARN, in order of their ARNs."""
        names = self._endpoints_of.get(application, _NO_ENDPOINTS).values()
        arns = sorted((arn, name) for name in names if (arn := name.arn) > after)
        found = (self.endpoint(name) for _, name in arns[:most])
        return [each for each in found if each is not None]

    def put_endpoint(self, endpoint: DeviceEndpoint) -> None:
        """Raises QuotaReached."""
        application, most = endpoint.name.application, self._limits.endpoints_max
        present = self.endpoint(endpoint.name)
        self._put(self._endpoints, application.account, endpoint, most, "platform endpoints")
        if present is not None:
            self._tokens(application).pop(present.token, None)
        self._tokens(application)[endpoint.token] = endpoint.name

    def delete_endpoint(self, name: EndpointName) -> None:
        present = self.endpoint(name)
        if present is not None:
            self._remove(self._endpoints, DeviceEndpoint, self.home(name.application.account).key(name.arn))
            self._tokens(name.application).pop(present.token, None)

    def _tokens(self, application: ApplicationName) -> dict[str, EndpointName]:
        return self._endpoints_of.setdefault(application, {})

    def _endpoint_undone(self, key: str, endpoint: DeviceEndpoint | None) -> None:
        self._note(DeviceEndpoint, key, endpoint)
        name = EndpointName.of_arn(Home.rest_of_key(key))
        assert name is not None, "keys are ARNs"
        tokens = self._tokens(name.application)
        for token in [token for token, named in tokens.items() if named == name]:
            del tokens[token]
        if endpoint is not None:
            tokens[endpoint.token] = name

    # -- phones ----------------------------------------------------------------------------------------------------

    def settings(self, space: Space) -> dict[str, str]:
        found = self._settings.get(self.home(space.account).key(space.region))
        return {} if found is None else found.attributes

    def put_settings(self, space: Space, attributes: dict[str, str]) -> None:
        """Raises QuotaReached."""
        settings, most = SmsSettings(space=space, attributes=attributes), self._limits.phone_numbers_max
        self._put(self._settings, space.account, settings, most, "regions with settings of messages")

    def number(self, space: Space, number: str) -> SandboxNumber | None:
        return self._numbers.get(self.home(space.account).key(f"{space.region}/{number}"))

    def numbers(self, space: Space, after: str, most: int) -> list[SandboxNumber]:
        """The first phone numbers of the sandbox beyond one, in order."""
        own = (each for _, each in self._numbers if each.space == space and each.number > after)
        return sorted(own, key=lambda each: each.number)[:most]

    def put_number(self, number: SandboxNumber) -> None:
        """Raises QuotaReached."""
        account, most = number.space.account, self._limits.phone_numbers_max
        self._put(self._numbers, account, number, most, "phone numbers")

    def delete_number(self, number: SandboxNumber) -> None:
        self._remove(self._numbers, SandboxNumber, self.home(number.space.account).key(number.key))

    # -- records and their bounds ----------------------------------------------------------------------------------

    def _put(self, table: RecordTable[R], account: str, record: R, most: int, what: str) -> None:
        """Raises QuotaReached if the account cannot have this record beside its others, or NotOwned or StoreError."""
        self._shard.check_owned()
        self._shard.check_sends()
        home, kind = self.home(account), cast(type[Record], type(record))
        key = home.key(record.key)
        sizes = self._uses[home, kind].sizes if (home, kind) in self._uses else {}
        if key not in sizes and len(sizes) >= most:
            raise QuotaReached(what, most)
        used = sum(use.total for (of, _), use in self._uses.items() if of == home)
        bytes_max = self._limits.mobile_bytes_max
        if used - sizes.get(key, 0) + _size(record) > bytes_max:
            raise QuotaReached("bytes of platform applications and phone numbers", bytes_max)
        table.put(key, record)
        self._note(kind, key, record)

    def _remove(self, table: RecordTable[R], kind: type[Record], key: str) -> None:
        self._shard.check_owned()
        if table.get(key) is not None:
            table.remove(key)
            self._note(kind, key, None)

    def _note(self, kind: type[Record], key: str, record: Record | None) -> None:
        """Count what a record takes from now on; None: it is gone."""
        place = Home.of_key(key), kind
        use = self._uses.setdefault(place, _Use({}))
        use.total -= use.sizes.pop(key, 0)
        if record is not None:
            use.sizes[key] = size = _size(record)
            use.total += size
        elif not use.sizes:
            del self._uses[place]


def _size(record: Record) -> int:
    return _RECORD_BYTES + len(msgspec.json.encode(record))
