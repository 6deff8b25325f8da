"""Platform applications and their endpoints, text messages, and the phone numbers of the sandbox."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.limits import DAY
from penstock.publishing.unsent import UnsentMessage, UnsentQuestion
from penstock.services.sns import SnsLimits
from services.sns.world import ARN, SnsWorld

INVALID = "InvalidParameter"
APPLICATION = f"{ARN}:app/GCM/shop"
CREDENTIAL = {"PlatformCredential": "secret"}
NO_APPLICATION = "NotFound", "PlatformApplication does not exist"
NO_ENDPOINT = "NotFound", "Endpoint does not exist"
ENDPOINT = f"{ARN}:endpoint/GCM/shop/00000000-0000-4000-8000-000000000000"


def application(sns: SnsWorld, name: str = "shop", **attributes: str) -> str:
    arn: str = sns(
        "CreatePlatformApplication", Name=name, Platform="GCM", Attributes=CREDENTIAL | attributes
    )["PlatformApplicationArn"]
    return arn


def endpoint(sns: SnsWorld, token: str = "t", **members: Any) -> str:
    arn: str = sns("CreatePlatformEndpoint", PlatformApplicationArn=APPLICATION, Token=token, **members)[
        "EndpointArn"
    ]
    return arn


def unsent(sns: SnsWorld) -> list[UnsentMessage]:
    """What would have been sent, the first message first."""
    return sns.do(sns.broker.ask(UnsentQuestion(None, "", 100)))[::-1]


# -- applications --------------------------------------------------------------------------------------------------


def test_an_application_shows_no_credentials(sns: SnsWorld) -> None:
    arn = application(sns, EventDeliveryFailure=f"{ARN}:failures")
    assert arn == APPLICATION
    shown = {"Enabled": "true", "EventDeliveryFailure": f"{ARN}:failures"}
    assert sns("GetPlatformApplicationAttributes", PlatformApplicationArn=arn) == {"Attributes": shown}
    sns(
        "SetPlatformApplicationAttributes",
        PlatformApplicationArn=arn,
        Attributes={"Enabled": "FALSE", **CREDENTIAL},
    )
    listed = sns("ListPlatformApplications")["PlatformApplications"]
    assert listed == [{"PlatformApplicationArn": arn, "Attributes": shown | {"Enabled": "false"}}]


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"Name": ""}, " Reason: cannot be empty"),
        ({"Name": "x" * 257}, f"{'x' * 257} Reason: must be at most 256 characters long"),
        (
            {"Name": "a b"},
            "a b Reason: must contain only characters 'a'-'z', 'A'-'Z', '0'-'9', '_', '-', and '.'",
        ),
        ({"Platform": "AAA"}, "Platform Reason: AAA is not supported"),
        (
            {"Attributes": {"PlatformPrincipal": "p"}},
            "Attributes Reason: PlatformPrincipal attribute provided without PlatformCredential",
        ),
        (
            {"Platform": "APNS", "Attributes": CREDENTIAL},
            "Attributes Reason: PlatformCredential attribute provided without PlatformPrincipal",
        ),
        ({"Attributes": CREDENTIAL | {"X": "y"}}, "Attributes Reason: Invalid attribute name: X"),
        (
            {"Attributes": {"PlatformCredential": "x" * 20_000}},
            "Attributes Reason: Invalid value for attribute: PlatformCredential: "
            "must be at most 16384 bytes long in UTF-8 encoding",
        ),
    ],
)
def test_applications_that_are_refused(sns: SnsWorld, members: dict[str, Any], text: str) -> None:
    given = {"Name": "shop", "Platform": "GCM", "Attributes": CREDENTIAL} | members
    assert sns.refused("CreatePlatformApplication", **given) == (INVALID, f"Invalid parameter: {text}")


def test_attributes_of_an_application_are_needed(sns: SnsWorld) -> None:
    text = (
        "1 validation error detected: Value null at 'attributes' failed to satisfy constraint: "
        "Member must not be null"
    )
    refused = sns.refused("CreatePlatformApplication", Name="shop", Platform="GCM")
    assert refused == ("ValidationError", text)


def test_an_application_that_there_is_not(sns: SnsWorld) -> None:
    for action, members in (
        ("GetPlatformApplicationAttributes", {}),
        ("SetPlatformApplicationAttributes", {"Attributes": {}}),
        ("CreatePlatformEndpoint", {"Token": "t"}),
        ("ListEndpointsByPlatformApplication", {}),
    ):
        assert sns.refused(action, PlatformApplicationArn=APPLICATION, **members) == NO_APPLICATION
    sns("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)


@pytest.mark.parametrize(
    "arn",
    [
        f"{ARN}:app/GCM/a b",
        f"{ARN}:app/AAA/shop",
        f"{ARN}:app/GCM",
        f"{ARN}:app/GCM/shop/x",
        f"{ARN}:shop",
        "arn:aws:sns:us-east-1:000000000000:app/GCM/shop",
        f"{ARN}:app/GCM/shop\n",
    ],
)
def test_what_is_not_the_arn_of_an_application(sns: SnsWorld, arn: str) -> None:
    refused = sns.refused("GetPlatformApplicationAttributes", PlatformApplicationArn=arn)
    assert refused == (INVALID, "Invalid parameter: PlatformApplicationArn")


# -- endpoints -----------------------------------------------------------------------------------------------------


def test_an_endpoint(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns, CustomUserData="d")
    assert arn.startswith(f"{ARN}:endpoint/GCM/shop/")
    shown = {"Enabled": "true", "Token": "t", "CustomUserData": "d"}
    assert sns("GetEndpointAttributes", EndpointArn=arn) == {"Attributes": shown}
    sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": "False", "CustomUserData": ""})
    shown = {"Enabled": "false", "Token": "t"}
    listed = sns("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION)
    assert listed == {"Endpoints": [{"EndpointArn": arn, "Attributes": shown}]}
    for _ in range(2):
        sns("DeleteEndpoint", EndpointArn=arn)
    assert sns.refused("GetEndpointAttributes", EndpointArn=arn) == NO_ENDPOINT


def test_a_token_is_one_endpoint(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns)
    assert endpoint(sns) == arn
    assert endpoint(sns, Attributes={"Enabled": "true"}) == arn
    taken = (
        INVALID,
        f"Invalid parameter: Token Reason: Endpoint {arn} already exists with the same Token, "
        "but different attributes.",
    )
    members = {"PlatformApplicationArn": APPLICATION, "Token": "t", "CustomUserData": "x"}
    assert sns.refused("CreatePlatformEndpoint", **members) == taken
    other = endpoint(sns, "u")
    assert sns.refused("SetEndpointAttributes", EndpointArn=other, Attributes={"Token": "t"}) == taken
    sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Token": "v"})
    sns("SetEndpointAttributes", EndpointArn=other, Attributes={"Token": "t"})
    assert endpoint(sns) == other


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"Token": ""}, "Token Reason: no value for required parameter"),
        ({"Token": "\n"}, "Token Reason: must be 1 to 4096 bytes without control characters"),
        ({"Attributes": {"X": "y"}}, "Attributes Reason: Invalid attribute name: X"),
        (
            {"CustomUserData": "é" * 1025},
            "Attributes Reason: Invalid value for attribute: CustomUserData: "
            "must be at most 2048 bytes long in UTF-8 encoding",
        ),
    ],
)
def test_endpoints_that_are_refused(sns: SnsWorld, members: dict[str, Any], text: str) -> None:
    application(sns)
    given = {"PlatformApplicationArn": APPLICATION, "Token": "t"} | members
    assert sns.refused("CreatePlatformEndpoint", **given) == (INVALID, f"Invalid parameter: {text}")


@pytest.mark.parametrize(
    ("arn", "text"),
    [
        (
            f"{ARN}:endpoint/GCM/shop",
            "EndpointArn Reason: Wrong number of slashes in relative portion of the ARN.",
        ),
        (f"{ARN}:endpoint/GCM/shop/x", "EndpointArn"),
        ("x", "EndpointArn Reason: An ARN must have at least 6 elements, not 1"),
        (None, "EndpointArn Reason: no value for required parameter"),
    ],
)
def test_what_is_not_the_arn_of_an_endpoint(sns: SnsWorld, arn: str | None, text: str) -> None:
    given = {} if arn is None else {"EndpointArn": arn}
    assert sns.refused("GetEndpointAttributes", **given) == (INVALID, f"Invalid parameter: {text}")


def test_an_application_takes_its_endpoints_with_it(sns: SnsWorld) -> None:
    application(sns)
    arns = [endpoint(sns, str(number)) for number in range(450)]
    pages = sns("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION)
    assert [each["EndpointArn"] for each in pages["Endpoints"]] == sorted(arns)[:100]
    sns("DeletePlatformApplication", PlatformApplicationArn=APPLICATION)
    assert sns.refused("GetEndpointAttributes", EndpointArn=arns[0]) == NO_ENDPOINT
    application(sns)
    assert sns("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION) == {"Endpoints": []}


def test_an_account_may_have_so_many() -> None:
    limits = SnsLimits(applications_max=1, endpoints_max=2, phone_numbers_max=1, mobile_bytes_max=10_000)
    with SnsWorld(limits=limits) as sns:
        application(sns)
        refused = sns.refused("CreatePlatformApplication", Name="b", Platform="GCM", Attributes=CREDENTIAL)
        assert refused == ("Throttled", "The account may have 1 platform applications, and no more.")
        arn = endpoint(sns, "a")
        endpoint(sns, "b")
        members = {"PlatformApplicationArn": APPLICATION, "Token": "c"}
        assert sns.refused("CreatePlatformEndpoint", **members)[0] == "Throttled"
        sns("DeleteEndpoint", EndpointArn=arn)
        large = endpoint(sns, "t" * 4000)
        data = {"CustomUserData": "d" * 2048}
        sns("SetEndpointAttributes", EndpointArn=large, Attributes=data)
        sns("CreateSMSSandboxPhoneNumber", PhoneNumber="+12345678")
        assert sns.refused("CreateSMSSandboxPhoneNumber", PhoneNumber="+12345679")[0] == "Throttled"


def test_an_account_may_store_so_many_bytes() -> None:
    with SnsWorld(limits=SnsLimits(mobile_bytes_max=10_000)) as sns:
        application(sns)
        first = endpoint(sns, "a" * 4000)
        endpoint(sns, "b" * 4000)
        members = {"PlatformApplicationArn": APPLICATION, "Token": "c" * 4000}
        assert sns.refused("CreatePlatformEndpoint", **members) == (
            "Throttled",
            "The account may have 10000 bytes of platform applications and phone numbers, and no more.",
        )
        sns("DeleteEndpoint", EndpointArn=first)
        sns("CreatePlatformEndpoint", **members)


def test_records_outlive_a_restart(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns)
    sns("SetSMSAttributes", attributes={"DefaultSenderID": "me"})
    sns.restart()
    assert endpoint(sns) == arn
    assert sns("GetSMSAttributes")["attributes"]["DefaultSenderID"] == "me"


def test_a_refused_commit_leaves_everything_as_it_was(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns)
    sns.refuse_next_commit()
    with pytest.raises(Exception, match="ServiceUnavailable"):
        sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Token": "other"})
    assert endpoint(sns) == arn
    sns.refuse_next_commit()
    with pytest.raises(Exception, match="ServiceUnavailable"):
        endpoint(sns, "new")
    listed = sns("ListEndpointsByPlatformApplication", PlatformApplicationArn=APPLICATION)["Endpoints"]
    assert [each["EndpointArn"] for each in listed] == [arn]
    sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Token": "other"})
    assert endpoint(sns) != arn


# -- messages ------------------------------------------------------------------------------------------------------


def test_a_message_for_an_endpoint_is_not_sent(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns)
    message = '{"default":"d","GCM":"g"}'
    answer = sns("Publish", TargetArn=arn, Message=message, MessageStructure="json", Subject="s")
    (kept,) = unsent(sns)
    assert (kept.message_id, kept.destination, kept.text, kept.subject) == (
        answer["MessageId"],
        arn,
        "g",
        "s",
    )
    sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": "false"})
    assert sns.refused("Publish", TargetArn=arn, Message="m") == ("EndpointDisabled", "Endpoint is disabled")
    sns("SetEndpointAttributes", EndpointArn=arn, Attributes={"Enabled": "true"})
    sns(
        "SetPlatformApplicationAttributes",
        PlatformApplicationArn=APPLICATION,
        Attributes={"Enabled": "false"},
    )
    assert sns.refused("Publish", TargetArn=arn, Message="m")[0] == "PlatformApplicationDisabled"
    sns("DeleteEndpoint", EndpointArn=arn)
    assert sns.refused("Publish", TargetArn=arn, Message="m") == (
        INVALID,
        "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified",
    )
    assert len(unsent(sns)) == 1


def test_a_message_for_a_phone_is_not_sent(sns: SnsWorld) -> None:
    message = '{"default":"d","sms":"s"}'
    answer = sns("Publish", PhoneNumber="+1234567", Message=message, MessageStructure="json")
    (kept,) = unsent(sns)
    assert (kept.message_id, kept.protocol, kept.destination, kept.text) == (
        answer["MessageId"], "sms", "+1234567", "s",
    )  # fmt: skip


def test_an_endpoint_subscribes(sns: SnsWorld) -> None:
    application(sns)
    arn = endpoint(sns)
    subscription = sns.subscribe_to(sns.make(), "application", arn)
    assert sns.of_subscription(subscription)["PendingConfirmation"] == "false"


# -- text messages -------------------------------------------------------------------------------------------------


def test_settings_of_text_messages(sns: SnsWorld) -> None:
    assert sns("GetSMSAttributes") == {"attributes": {"MonthlySpendLimit": "1"}}
    sns("SetSMSAttributes", attributes={"DefaultSMSType": "Transactional", "MonthlySpendLimit": "7"})
    assert sns("GetSMSAttributes", attributes=["DefaultSMSType"]) == {
        "attributes": {"DefaultSMSType": "Transactional"}
    }
    assert sns("GetSMSAttributes")["attributes"]["MonthlySpendLimit"] == "7"


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        ({"X": "y"}, "X is not a valid attribute"),
        ({"DefaultSMSType": "x"}, "DefaultSMSType is invalid"),
        ({"MonthlySpendLimit": "-1"}, "MonthlySpendLimit is invalid"),
        ({"DeliveryStatusSuccessSamplingRate": "101"}, "DeliveryStatusSuccessSamplingRate is invalid"),
        ({"UsageReportS3Bucket": "x\n"}, "UsageReportS3Bucket is invalid"),
    ],
)
def test_settings_that_are_refused(sns: SnsWorld, attributes: dict[str, str], text: str) -> None:
    assert sns.refused("SetSMSAttributes", attributes=attributes) == (INVALID, f"Invalid parameter: {text}")
    assert sns.refused("GetSMSAttributes", attributes=["X"]) == (
        INVALID,
        "Invalid parameter: X is not a valid attribute",
    )


def test_nobody_opts_out(sns: SnsWorld) -> None:
    number = {"phoneNumber": "+1234567"}
    assert sns("CheckIfPhoneNumberIsOptedOut", **number) == {"isOptedOut": False}
    assert sns("OptInPhoneNumber", **number) == {}
    assert sns("ListPhoneNumbersOptedOut") == {"phoneNumbers": []}
    text = "Invalid parameter: PhoneNumber Reason: input incorrectly formatted"
    assert sns.refused("OptInPhoneNumber", phoneNumber="x") == (INVALID, text)


# -- the sandbox ---------------------------------------------------------------------------------------------------

NUMBER = {"PhoneNumber": "+12345678"}


def test_a_number_is_verified_by_a_code(sns: SnsWorld) -> None:
    assert sns("GetSMSSandboxAccountStatus") == {"IsInSandbox": True}
    sns("CreateSMSSandboxPhoneNumber", **NUMBER)
    (kept,) = unsent(sns)
    code = kept.text[-6:]
    assert kept.destination == NUMBER["PhoneNumber"]
    wrong = "999999" if code != "999999" else "000000"
    assert (
        sns.refused("VerifySMSSandboxPhoneNumber", **NUMBER, OneTimePassword=wrong)[0]
        == "VerificationException"
    )
    listed = {"PhoneNumber": NUMBER["PhoneNumber"], "Status": "Pending"}
    assert sns("ListSMSSandboxPhoneNumbers") == {"PhoneNumbers": [listed]}
    sns("VerifySMSSandboxPhoneNumber", **NUMBER, OneTimePassword=code)
    assert sns("ListSMSSandboxPhoneNumbers") == {"PhoneNumbers": [listed | {"Status": "Verified"}]}
    sns("CreateSMSSandboxPhoneNumber", **NUMBER)
    assert len(unsent(sns)) == 1, "it is verified"
    sns("DeleteSMSSandboxPhoneNumber", **NUMBER)
    assert sns("ListSMSSandboxPhoneNumbers") == {"PhoneNumbers": []}
    for action, members in (("Delete", {}), ("Verify", {"OneTimePassword": code})):
        refused = sns.refused(f"{action}SMSSandboxPhoneNumber", **NUMBER, **members)
        assert refused[0] == "ResourceNotFound"


def test_a_code_ends(sns: SnsWorld) -> None:
    sns("CreateSMSSandboxPhoneNumber", **NUMBER)
    (kept,) = unsent(sns)
    sns.advance(DAY + 1)
    members = NUMBER | {"OneTimePassword": kept.text[-6:]}
    assert sns.refused("VerifySMSSandboxPhoneNumber", **members)[0] == "VerificationException"


@pytest.mark.parametrize(
    ("action", "members", "at"),
    [
        ("CreateSMSSandboxPhoneNumber", {"PhoneNumber": "x"}, "phoneNumber"),
        ("CreateSMSSandboxPhoneNumber", {}, "phoneNumber"),
        ("CreateSMSSandboxPhoneNumber", NUMBER | {"LanguageCode": "xx"}, "languageCode"),
        ("VerifySMSSandboxPhoneNumber", NUMBER | {"OneTimePassword": "1234"}, "oneTimePassword"),
        ("VerifySMSSandboxPhoneNumber", NUMBER | {"OneTimePassword": "x" * 6}, "oneTimePassword"),
        ("ListSMSSandboxPhoneNumbers", {"MaxResults": 101}, "maxResults"),
        ("ListOriginationNumbers", {"MaxResults": 31}, "maxResults"),
    ],
)
def test_constraints_of_the_sandbox(sns: SnsWorld, action: str, members: dict[str, Any], at: str) -> None:
    code, text = sns.refused(action, **members)
    assert code == "ValidationError"
    assert f"at '{at}' failed to satisfy constraint" in text


def test_numbers_are_listed_in_pages(sns: SnsWorld) -> None:
    numbers = [f"+1234567{number:02d}" for number in range(5)]
    for number in numbers:
        sns("CreateSMSSandboxPhoneNumber", PhoneNumber=number)
    found: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = sns("ListSMSSandboxPhoneNumbers", MaxResults=2, **token)
        found += [each["PhoneNumber"] for each in page["PhoneNumbers"]]
        if "NextToken" not in page:
            break
        token = {"NextToken": page["NextToken"]}
    assert found == numbers
    assert sns("ListOriginationNumbers") == {"PhoneNumbers": []}
