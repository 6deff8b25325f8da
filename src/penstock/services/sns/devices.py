"""Endpoints of platform applications: devices, each with a token. They are stored and listed."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import uuid4

import msgspec

from penstock.auth.authorize import Resource
from penstock.services.sns.applications import ApplicationResource
from penstock.services.sns.direct import endpoint_name
from penstock.services.sns.faults import invalid, invalid_attributes, no_value, not_found
from penstock.services.sns.limits import CUSTOM_DATA_BYTES_MAX, PAGE_SIZE, TOKEN_BYTES_MAX
from penstock.services.sns.mobile_records import DeviceEndpoint, EndpointName, ShardMobile
from penstock.services.sns.resources import Sns
from penstock.services.sns.structs import (
    CreatePlatformEndpointRequest,
    CreatePlatformEndpointResult,
    DeleteEndpointRequest,
    Endpoint,
    GetEndpointAttributesRequest,
    GetEndpointAttributesResult,
    ListEndpointsByPlatformApplicationRequest,
    ListEndpointsByPlatformApplicationResult,
    OnEndpoint,
    SetEndpointAttributesRequest,
)
from penstock.services.sns.validation import (
    CONSTRAINTS,
    has_control_characters,
    read_token,
    utf8_length,
    write_token,
)
from penstock.wire.service import Call

_TOKEN, _ENABLED, _DATA = "Token", "Enabled", "CustomUserData"
_USUAL = {_ENABLED: "true", _DATA: ""}


class DeviceResource(Resource, kw_only=True):
    name: EndpointName
    mobile: ShardMobile  # of its account

    @property
    def device(self) -> DeviceEndpoint:
        """Raises Fault."""
        found = self.mobile.endpoint(self.name)
        if found is None:
            raise not_found("Endpoint does not exist")
        return found


def device_of_arn(sns: Sns, request: OnEndpoint, call: Call) -> DeviceResource:
    """Raises Fault or NotOwned."""
    name = endpoint_name(request.EndpointArn, call)
    account = name.application.account
    if call.principal is None and account != call.space.account:
        raise not_found("Endpoint does not exist")
    return DeviceResource(name.arn, account, name=name, mobile=sns.mobile(account))


async def create_platform_endpoint(
    sns: Sns, request: CreatePlatformEndpointRequest, call: Call
) -> CreatePlatformEndpointResult:
    """SNS: the same token with the same attributes is the same endpoint."""
    resource: ApplicationResource = call.resource
    mobile = resource.mobile
    application = resource.application.name
    if not request.Token:
        raise no_value(_TOKEN)
    given = dict(request.Attributes or {})
    if request.CustomUserData is not None:
        given[_DATA] = request.CustomUserData
    attributes = {**_USUAL, **_checked({**given, _TOKEN: request.Token})}
    token = attributes.pop(_TOKEN)
    present = mobile.endpoint_of_token(application, token)
    if present is None:
        present = DeviceEndpoint(
            name=EndpointName(application, str(uuid4())), token=token, attributes=attributes
        )
        mobile.put_endpoint(present)
    elif present.attributes != attributes:
        raise _taken(present)
    await mobile.settled()
    return CreatePlatformEndpointResult(EndpointArn=present.name.arn)


def _taken(present: DeviceEndpoint) -> Exception:
    return invalid(
        f"{_TOKEN} Reason: Endpoint {present.name.arn} already exists with the same Token, "
        "but different attributes."
    )


def _checked(attributes: Mapping[str, str]) -> dict[str, str]:
    """Raises Fault."""
    for name, value in attributes.items():
        if name not in (_TOKEN, *_USUAL):
            raise invalid_attributes(f"Invalid attribute name: {name}")
        if name == _ENABLED and value.lower() not in ("true", "false"):
            raise invalid_attributes(f"Invalid value for attribute: {name}: must be true or false")
        if name == _DATA and utf8_length(value) > CUSTOM_DATA_BYTES_MAX:
            raise invalid_attributes(
                f"Invalid value for attribute: {name}: "
                f"must be at most {CUSTOM_DATA_BYTES_MAX} bytes long in UTF-8 encoding"
            )
        is_token = 0 < utf8_length(value) <= TOKEN_BYTES_MAX and not has_control_characters(value)
        if name == _TOKEN and not is_token:
            raise invalid(f"{_TOKEN} Reason: must be 1 to {TOKEN_BYTES_MAX} bytes without control characters")
    return {name: value.lower() if name == _ENABLED else value for name, value in attributes.items()}


async def set_endpoint_attributes(sns: Sns, request: SetEndpointAttributesRequest, call: Call) -> None:
    CONSTRAINTS.check(request)
    resource: DeviceResource = call.resource
    device = resource.device
    attributes = {**device.attributes, **_checked(request.Attributes or {})}
    token = attributes.pop(_TOKEN, device.token)
    other = resource.mobile.endpoint_of_token(device.name.application, token)
    if other is not None and other.name != device.name:
        raise _taken(other)
    resource.mobile.put_endpoint(msgspec.structs.replace(device, token=token, attributes=attributes))
    await resource.mobile.settled()


async def get_endpoint_attributes(
    sns: Sns, request: GetEndpointAttributesRequest, call: Call
) -> GetEndpointAttributesResult:
    resource: DeviceResource = call.resource
    device = resource.device
    await resource.mobile.settled()
    return GetEndpointAttributesResult(Attributes=_shown(device))


def _shown(device: DeviceEndpoint) -> dict[str, str]:
    shown = {_ENABLED: device.attributes.get(_ENABLED, "true"), _TOKEN: device.token}
    data = device.attributes.get(_DATA)
    return {**shown, _DATA: data} if data else shown


async def delete_endpoint(sns: Sns, request: DeleteEndpointRequest, call: Call) -> None:
    resource: DeviceResource = call.resource
    resource.mobile.delete_endpoint(resource.name)
    await resource.mobile.settled()


async def list_endpoints_by_platform_application(
    sns: Sns, request: ListEndpointsByPlatformApplicationRequest, call: Call
) -> ListEndpointsByPlatformApplicationResult:
    resource: ApplicationResource = call.resource
    application = resource.application.name
    after = read_token(request.NextToken, application.arn)
    found = resource.mobile.endpoints(application, after, PAGE_SIZE + 1)
    await resource.mobile.settled()
    page = found[:PAGE_SIZE]
    return ListEndpointsByPlatformApplicationResult(
        Endpoints=[Endpoint(EndpointArn=each.name.arn, Attributes=_shown(each)) for each in page],
        NextToken=write_token(application.arn, page[-1].key) if len(found) > PAGE_SIZE else None,
    )
