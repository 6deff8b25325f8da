"""Settings of text messages, and phone numbers of the sandbox. Nothing is sent to phones, and so nobody opts out."""

from __future__ import annotations

import hmac
import re
import secrets

import msgspec

from penstock.auth.authorize import Resource
from penstock.services.sns.endpoints import is_phone_number
from penstock.services.sns.faults import invalid, sns_fault
from penstock.services.sns.limits import CODE_VALID_MS, PAGE_SIZE, SMS_VALUE_LENGTH_MAX
from penstock.services.sns.mobile_records import PhoneState, SandboxNumber, ShardMobile
from penstock.services.sns.outbox import put_unsent
from penstock.services.sns.resources import Sns
from penstock.services.sns.structs import (
    CheckIfPhoneNumberIsOptedOutRequest,
    CheckIfPhoneNumberIsOptedOutResult,
    CreateSMSSandboxPhoneNumberRequest,
    CreateSMSSandboxPhoneNumberResult,
    DeleteSMSSandboxPhoneNumberRequest,
    DeleteSMSSandboxPhoneNumberResult,
    GetSMSAttributesRequest,
    GetSMSAttributesResult,
    GetSMSSandboxAccountStatusRequest,
    GetSMSSandboxAccountStatusResult,
    ListOriginationNumbersRequest,
    ListOriginationNumbersResult,
    ListPhoneNumbersOptedOutRequest,
    ListPhoneNumbersOptedOutResult,
    ListSMSSandboxPhoneNumbersRequest,
    ListSMSSandboxPhoneNumbersResult,
    OptInPhoneNumberRequest,
    OptInPhoneNumberResult,
    SandboxPhoneNumber,
    SetSMSAttributesRequest,
    SetSMSAttributesResult,
    VerifySMSSandboxPhoneNumberRequest,
    VerifySMSSandboxPhoneNumberResult,
)
from penstock.services.sns.validation import CONSTRAINTS, has_control_characters, read_token, write_token
from penstock.wire.service import Call, Fault

_USUAL = {"MonthlySpendLimit": "1"}
_TYPES = ("Promotional", "Transactional")
_ATTRIBUTES = (
    "MonthlySpendLimit", "DeliveryStatusIAMRole", "DeliveryStatusSuccessSamplingRate", "DefaultSenderID",
    "DefaultSMSType", "UsageReportS3Bucket",
)  # fmt: skip
_NUMBER = re.compile(r"[0-9]{1,9}")
_SENDER = re.compile(r"[A-Za-z0-9-]{0,11}")
_LISTED = "phone numbers"


def phones(sns: Sns, request: object, call: Call) -> Resource:
    """SNS: actions on phones are about no resource."""
    return Resource("*", call.space.account)


def _mobile(sns: Sns, call: Call) -> ShardMobile:
    """Raises NotOwned."""
    return sns.mobile(call.space.account)


# -- settings --------------------------------------------------------------------------------------------------


async def set_sms_attributes(
    sns: Sns, request: SetSMSAttributesRequest, call: Call
) -> SetSMSAttributesResult:
    CONSTRAINTS.check(request)
    given = request.attributes or {}
    for name, value in given.items():
        _check_attribute(name, value)
    mobile = _mobile(sns, call)
    present = mobile.settings(call.space)
    changed = {name: value for name, value in {**present, **given}.items() if value}
    if changed != present:
        mobile.put_settings(call.space, changed)
    await mobile.settled()
    return SetSMSAttributesResult()


def _check_attribute(name: str, value: str) -> None:
    """Raises Fault."""
    if name not in _ATTRIBUTES:
        raise _invalid(f"{name} is not a valid attribute")
    if not value:  # SNS: the setting is taken away
        return
    is_valid = len(value) <= SMS_VALUE_LENGTH_MAX and not has_control_characters(value)
    match name:
        case "DefaultSMSType":
            is_valid = value in _TYPES
        case "MonthlySpendLimit":
            is_valid = _NUMBER.fullmatch(value) is not None
        case "DeliveryStatusSuccessSamplingRate":
            is_valid = _NUMBER.fullmatch(value) is not None and int(value) <= 100
        case "DefaultSenderID":
            is_valid = _SENDER.fullmatch(value) is not None
    if not is_valid:
        raise _invalid(f"{name} is invalid")


def _invalid(text: str) -> Fault:
    return sns_fault("InvalidParameterException", f"Invalid parameter: {text}")


async def get_sms_attributes(
    sns: Sns, request: GetSMSAttributesRequest, call: Call
) -> GetSMSAttributesResult:
    for name in request.attributes or ():
        if name not in _ATTRIBUTES:
            raise _invalid(f"{name} is not a valid attribute")
    mobile = _mobile(sns, call)
    shown = {**_USUAL, **mobile.settings(call.space)}
    await mobile.settled()
    if request.attributes:
        shown = {name: value for name, value in shown.items() if name in request.attributes}
    return GetSMSAttributesResult(attributes=shown)


# -- opting out ------------------------------------------------------------------------------------------------


def _check_phone(text: str | None) -> str:
    if text is None or not is_phone_number(text):
        raise invalid("PhoneNumber Reason: input incorrectly formatted")
    return text


async def check_if_phone_number_is_opted_out(
    sns: Sns, request: CheckIfPhoneNumberIsOptedOutRequest, call: Call
) -> CheckIfPhoneNumberIsOptedOutResult:
    _check_phone(request.phoneNumber)
    return CheckIfPhoneNumberIsOptedOutResult(isOptedOut=False)


async def opt_in_phone_number(
    sns: Sns, request: OptInPhoneNumberRequest, call: Call
) -> OptInPhoneNumberResult:
    _check_phone(request.phoneNumber)  # SNS: a number that is not known is no error
    return OptInPhoneNumberResult()


async def list_phone_numbers_opted_out(
    sns: Sns, request: ListPhoneNumbersOptedOutRequest, call: Call
) -> ListPhoneNumbersOptedOutResult:
    read_token(request.nextToken, _LISTED)
    return ListPhoneNumbersOptedOutResult(phoneNumbers=[])


# -- the sandbox -----------------------------------------------------------------------------------------------


async def get_sms_sandbox_account_status(
    sns: Sns, request: GetSMSSandboxAccountStatusRequest, call: Call
) -> GetSMSSandboxAccountStatusResult:
    return GetSMSSandboxAccountStatusResult(IsInSandbox=True)


async def create_sms_sandbox_phone_number(
    sns: Sns, request: CreateSMSSandboxPhoneNumberRequest, call: Call
) -> CreateSMSSandboxPhoneNumberResult:
    """The code that verifies the number is in the outbox of what was not sent."""
    CONSTRAINTS.check(request)
    phone, mobile = _sandbox_phone(request.PhoneNumber), _mobile(sns, call)
    present = mobile.number(call.space, phone)
    if present is not None and present.state is PhoneState.VERIFIED:
        await mobile.settled()
        return CreateSMSSandboxPhoneNumberResult()
    number = SandboxNumber(
        space=call.space,
        number=phone,
        state=PhoneState.PENDING,
        code=f"{secrets.randbelow(10**6):06d}",
        code_until_ms=mobile.now_ms() + CODE_VALID_MS,
    )
    mobile.put_number(number)
    await mobile.settled()
    await put_unsent(sns.broker, call.space, "sms", phone, f"Your verification code is {number.code}")
    return CreateSMSSandboxPhoneNumberResult()


async def verify_sms_sandbox_phone_number(
    sns: Sns, request: VerifySMSSandboxPhoneNumberRequest, call: Call
) -> VerifySMSSandboxPhoneNumberResult:
    CONSTRAINTS.check(request)
    mobile = _mobile(sns, call)
    number = _found(mobile, request.PhoneNumber, call)
    is_right = hmac.compare_digest(number.code, request.OneTimePassword or "")
    if not is_right or number.code_until_ms < mobile.now_ms():
        raise Fault(
            "VerificationException",
            "VerificationException",
            400,
            "The one-time password is invalid or has expired.",
            modelled=True,
            members={"Status": "Failed"},
        )
    mobile.put_number(msgspec.structs.replace(number, state=PhoneState.VERIFIED))
    await mobile.settled()
    return VerifySMSSandboxPhoneNumberResult()


async def delete_sms_sandbox_phone_number(
    sns: Sns, request: DeleteSMSSandboxPhoneNumberRequest, call: Call
) -> DeleteSMSSandboxPhoneNumberResult:
    CONSTRAINTS.check(request)
    mobile = _mobile(sns, call)
    mobile.delete_number(_found(mobile, request.PhoneNumber, call))
    await mobile.settled()
    return DeleteSMSSandboxPhoneNumberResult()


async def list_sms_sandbox_phone_numbers(
    sns: Sns, request: ListSMSSandboxPhoneNumbersRequest, call: Call
) -> ListSMSSandboxPhoneNumbersResult:
    CONSTRAINTS.check(request)
    most = request.MaxResults or PAGE_SIZE
    mobile = _mobile(sns, call)
    found = mobile.numbers(call.space, read_token(request.NextToken, _LISTED), most + 1)
    await mobile.settled()
    page = found[:most]
    return ListSMSSandboxPhoneNumbersResult(
        PhoneNumbers=[SandboxPhoneNumber(PhoneNumber=each.number, Status=each.state) for each in page],
        NextToken=write_token(_LISTED, page[-1].number) if len(found) > most else None,
    )


async def list_origination_numbers(
    sns: Sns, request: ListOriginationNumbersRequest, call: Call
) -> ListOriginationNumbersResult:
    CONSTRAINTS.check(request)
    read_token(request.NextToken, _LISTED)
    return ListOriginationNumbersResult(PhoneNumbers=[])


def _sandbox_phone(text: str | None) -> str:
    if text is None or not text.startswith("+"):
        raise invalid("PhoneNumber Reason: input incorrectly formatted")
    return text


def _found(mobile: ShardMobile, phone: str | None, call: Call) -> SandboxNumber:
    """Raises Fault."""
    number = mobile.number(call.space, phone or "")
    if number is None:
        raise sns_fault(
            "ResourceNotFoundException", "The phone number that you want to verify or delete does not exist."
        )
    return number
