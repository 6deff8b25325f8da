"""Platform applications: stored and listed. Their credentials are accepted and not kept."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from penstock.auth.authorize import Resource
from penstock.services.sns.faults import invalid, invalid_attributes, no_value, not_found
from penstock.services.sns.limits import (
    APPLICATION_NAME_LENGTH_MAX,
    APPLICATION_VALUE_BYTES_MAX,
    PAGE_SIZE,
)
from penstock.services.sns.mobile_records import (
    PLATFORMS,
    Application,
    ApplicationName,
    ShardMobile,
    is_application_name,
)
from penstock.services.sns.resources import Sns
from penstock.services.sns.structs import (
    CreatePlatformApplicationRequest,
    CreatePlatformApplicationResult,
    DeletePlatformApplicationRequest,
    GetPlatformApplicationAttributesRequest,
    GetPlatformApplicationAttributesResult,
    ListPlatformApplicationsRequest,
    ListPlatformApplicationsResult,
    OnApplication,
    PlatformApplication,
    SetPlatformApplicationAttributesRequest,
)
from penstock.services.sns.validation import (
    CONSTRAINTS,
    check_region,
    checked_arn,
    has_control_characters,
    read_token,
    utf8_length,
    write_token,
)
from penstock.wire.service import Call

_PRINCIPAL, _CREDENTIAL = "PlatformPrincipal", "PlatformCredential"
_SECRETS = (_PRINCIPAL, _CREDENTIAL, "ApplePlatformTeamID", "ApplePlatformBundleID")
_SETTABLE = (
    *_SECRETS, "EventEndpointCreated", "EventEndpointDeleted", "EventEndpointUpdated", "EventDeliveryFailure",
    "SuccessFeedbackRoleArn", "FailureFeedbackRoleArn", "SuccessFeedbackSampleRate", "Enabled",
)  # fmt: skip


class ApplicationResource(Resource, kw_only=True):
    name: ApplicationName
    mobile: ShardMobile  # of its account

    @property
    def application(self) -> Application:
        """Raises Fault."""
        found = self.mobile.application(self.name)
        if found is None:
            raise not_found("PlatformApplication does not exist")
        return found


def all_applications(sns: Sns, request: object, call: Call) -> Resource:
    return Resource(ApplicationName(call.space.account, call.space.region, "*", "*").arn, call.space.account)


def new_application(sns: Sns, request: CreatePlatformApplicationRequest, call: Call) -> ApplicationResource:
    CONSTRAINTS.check(request)
    platform = request.Platform
    if platform is None:
        raise no_value("Platform")
    name = request.Name or ""
    if not name:
        raise invalid(f"{name} Reason: cannot be empty")
    if len(name) > APPLICATION_NAME_LENGTH_MAX:
        raise invalid(f"{name} Reason: must be at most {APPLICATION_NAME_LENGTH_MAX} characters long")
    if not is_application_name(name):
        raise invalid(
            f"{name} Reason: must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'"
        )
    if platform not in PLATFORMS:
        raise invalid(f"Platform Reason: {platform} is not supported")
    return _resource(sns, ApplicationName(call.space.account, call.space.region, platform, name))


def application_of_arn(sns: Sns, request: OnApplication, call: Call) -> ApplicationResource:
    return _resource(sns, application_name(request.PlatformApplicationArn, call))


def application_name(text: str | None, call: Call) -> ApplicationName:
    """Raises Fault."""
    arn = checked_arn(text, "PlatformApplicationArn")
    name = ApplicationName.of_arn(arn)
    if name is None or name.arn != arn:
        raise invalid("PlatformApplicationArn")
    check_region(name.region, call, "PlatformApplicationArn")
    if call.principal is None and name.account != call.space.account:
        raise not_found("PlatformApplication does not exist")
    return name


def _resource(sns: Sns, name: ApplicationName) -> ApplicationResource:
    """Raises NotOwned."""
    return ApplicationResource(name.arn, name.account, name=name, mobile=sns.mobile(name.account))


async def create_platform_application(
    sns: Sns, request: CreatePlatformApplicationRequest, call: Call
) -> CreatePlatformApplicationResult:
    resource: ApplicationResource = call.resource
    given = request.Attributes or {}
    kept = _kept(given)
    if _CREDENTIAL not in given:
        reason = (
            f"{_PRINCIPAL} attribute provided without {_CREDENTIAL}"
            if _PRINCIPAL in given
            else f"{_CREDENTIAL} attribute is required"
        )
        raise invalid_attributes(reason)
    if _PRINCIPAL not in given and resource.name.platform.startswith(("APNS", "MACOS", "WNS")):
        raise invalid_attributes(f"{_CREDENTIAL} attribute provided without {_PRINCIPAL}")
    present = resource.mobile.application(resource.name)
    if present is None:
        application = Application(name=resource.name, attributes={"Enabled": "true", **kept})
        resource.mobile.put_application(application)
    elif any(present.attributes.get(name) != value for name, value in kept.items()):
        raise invalid_attributes(
            f"Platform application {resource.arn} already exists with different attributes"
        )
    await resource.mobile.settled()
    return CreatePlatformApplicationResult(PlatformApplicationArn=resource.arn)


def _kept(attributes: Mapping[str, str]) -> dict[str, str]:
    """What is stored of the attributes. Raises Fault."""
    for name, value in attributes.items():
        if name not in _SETTABLE:
            raise invalid_attributes(f"Invalid attribute name: {name}")
        if utf8_length(value) > APPLICATION_VALUE_BYTES_MAX:
            raise invalid_attributes(
                f"Invalid value for attribute: {name}: must be at most {APPLICATION_VALUE_BYTES_MAX} bytes long "
                "in UTF-8 encoding"
            )
        if name == "Enabled" and value.lower() not in ("true", "false"):
            raise invalid_attributes(f"Invalid value for attribute: {name}: must be true or false")
        if name not in _SECRETS and has_control_characters(value):
            raise invalid_attributes(f"Invalid value for attribute: {name}")
    return {
        name: value.lower() if name == "Enabled" else value
        for name, value in attributes.items()
        if name not in _SECRETS
    }


async def set_platform_application_attributes(
    sns: Sns, request: SetPlatformApplicationAttributesRequest, call: Call
) -> None:
    CONSTRAINTS.check(request)
    resource: ApplicationResource = call.resource
    application = resource.application
    attributes = {**application.attributes, **_kept(request.Attributes or {})}
    resource.mobile.put_application(msgspec.structs.replace(application, attributes=attributes))
    await resource.mobile.settled()


async def get_platform_application_attributes(
    sns: Sns, request: GetPlatformApplicationAttributesRequest, call: Call
) -> GetPlatformApplicationAttributesResult:
    resource: ApplicationResource = call.resource
    application = resource.application
    await resource.mobile.settled()
    return GetPlatformApplicationAttributesResult(Attributes=application.attributes)


async def delete_platform_application(
    sns: Sns, request: DeletePlatformApplicationRequest, call: Call
) -> None:
    resource: ApplicationResource = call.resource
    await resource.mobile.delete_application(resource.name)
    await resource.mobile.settled()


async def list_platform_applications(
    sns: Sns, request: ListPlatformApplicationsRequest, call: Call
) -> ListPlatformApplicationsResult:
    listed = "platform applications"
    mobile = sns.mobile(call.space.account)
    found = mobile.applications(call.space, read_token(request.NextToken, listed), PAGE_SIZE + 1)
    await mobile.settled()
    page = found[:PAGE_SIZE]
    return ListPlatformApplicationsResult(
        PlatformApplications=[
            PlatformApplication(PlatformApplicationArn=each.name.arn, Attributes=each.attributes)
            for each in page
        ],
        NextToken=write_token(listed, page[-1].key) if len(found) > PAGE_SIZE else None,
    )
