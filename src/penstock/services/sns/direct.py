"""Messages for one device or one phone, without a topic."""

from __future__ import annotations

from penstock.auth.authorize import Resource
from penstock.services.sns.endpoints import is_phone_number
from penstock.services.sns.faults import invalid, sns_fault
from penstock.services.sns.mobile_records import ApplicationQuestion, DeviceEndpointQuestion, EndpointName
from penstock.services.sns.outbox import put_unsent
from penstock.services.sns.resources import Sns
from penstock.services.sns.structs import PublishRequest, PublishResult
from penstock.services.sns.validation import check_region, checked_arn
from penstock.topics.publication import Publication
from penstock.wire.service import Call


class DirectTarget(Resource, kw_only=True):
    device: EndpointName | None = None  # None: a phone
    phone: str = ""


def direct_target(sns: Sns, request: PublishRequest, call: Call) -> DirectTarget:
    """Raises Fault or NotOwned."""
    space = call.space
    if request.TargetArn is None:
        phone = request.PhoneNumber or ""
        if not is_phone_number(phone):
            raise invalid(f"PhoneNumber Reason: {phone} is not valid to publish to")
        return DirectTarget("*", space.account, phone=phone)
    name = endpoint_name(request.TargetArn, call, "TargetArn")
    return DirectTarget(name.arn, name.application.account, device=name)


def endpoint_name(text: str | None, call: Call, parameter: str = "EndpointArn") -> EndpointName:
    """Raises Fault."""
    arn = checked_arn(text, parameter)
    if arn.split(":", 5)[5].count("/") != 3:
        raise invalid(f"{parameter} Reason: Wrong number of slashes in relative portion of the ARN.")
    name = EndpointName.of_arn(arn)
    if name is None or name.arn != arn:
        raise invalid(parameter)
    check_region(name.application.region, call, parameter)
    return name


async def publish_directly(sns: Sns, target: DirectTarget, message: Publication, call: Call) -> PublishResult:
    if target.device is None:
        protocol, destination = "sms", target.phone
    else:
        protocol, destination = target.device.application.platform, target.device.arn
        await _check_device(sns, target.device, call)
    text, subject = message.text_for(protocol), message.subject or ""
    kept_as = protocol if target.device is None else "application"
    message_id = await put_unsent(sns.broker, call.space, kept_as, destination, text, subject)
    return PublishResult(MessageId=message_id)


async def _check_device(sns: Sns, name: EndpointName, call: Call) -> None:
    is_foreign = call.principal is None and name.application.account != call.space.account
    device = None if is_foreign else await sns.broker.ask(DeviceEndpointQuestion(name))
    if device is None:
        raise invalid("TargetArn Reason: No endpoint found for the target arn specified")
    if not device.is_enabled:
        raise sns_fault("EndpointDisabledException", "Endpoint is disabled")
    application = await sns.broker.ask(ApplicationQuestion(name.application))
    if application is None or not application.is_enabled:
        raise sns_fault("PlatformApplicationDisabledException", "Platform application is disabled")
