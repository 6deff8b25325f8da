"""AddPermission and RemovePermission write the queue's policy."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.auth.policy import read_document
from penstock.services.sqs.permissions import check_policy, with_permission, without_permission
from penstock.wire.service import Fault
from support.rows import every_row

ARN = "arn:aws:sqs:eu-west-1:123456789012:q"
ROOT = "arn:aws:iam::{}:root"
ONE, TWO = "111111111111", "222222222222"


@pytest.fixture(autouse=True)
def queue(sqs: Any) -> None:
    sqs.make("q")


def add(sqs: Any, label: Any = "L", accounts: Any = (ONE,), actions: Any = ("ReceiveMessage",)) -> Any:
    return sqs("AddPermission", QueueUrl="q", Label=label, AWSAccountIds=accounts, Actions=actions)


def remove(sqs: Any, label: Any = "L") -> Any:
    return sqs("RemovePermission", QueueUrl="q", Label=label)


def statement(label: str, accounts: Any, actions: Any) -> dict[str, Any]:
    return {
        "Sid": label,
        "Effect": "Allow",
        "Principal": {"AWS": accounts},
        "Action": actions,
        "Resource": ARN,
    }


def test_statements_are_appended_and_removing_the_last_one_removes_the_policy(sqs: Any) -> None:
    assert add(sqs).raw == b""
    first = statement("L", ROOT.format(ONE), "SQS:ReceiveMessage")
    assert sqs.attributes("q")["Policy"] == json.dumps(
        {"Version": "2008-10-17", "Id": f"{ARN}/SQSDefaultPolicy", "Statement": [first]},
        separators=(",", ":"),
    )
    assert add(sqs, "M", [ONE, TWO], ["SendMessage", "*"]).status == 200
    second = statement("M", [ROOT.format(ONE), ROOT.format(TWO)], ["SQS:SendMessage", "SQS:*"])
    assert json.loads(sqs.attributes("q")["Policy"])["Statement"] == [first, second]
    assert remove(sqs).raw == b""
    assert json.loads(sqs.attributes("q")["Policy"])["Statement"] == [second]
    remove(sqs, "M")
    assert "Policy" not in sqs.attributes("q")


def test_an_existing_policy_keeps_its_own_parts_even_numbers_past_64_bits(sqs: Any) -> None:
    policy = (
        '{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":"*","Action":"sqs:*",'
        '"Resource":"*","Condition":{"NumericLessThan":{"x":123456789012345678901234567890}}}}'
    )
    sqs("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": policy})
    assert add(sqs).status == 200
    shown = json.loads(sqs.attributes("q")["Policy"])
    assert shown["Version"] == "2012-10-17"
    assert shown["Statement"][0] == json.loads(policy)["Statement"]


@given(st.from_regex(r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True))
@example("1.10")
@example("1e999")
@example("-0")
def test_a_number_of_an_existing_policy_still_reads_as_it_was_written(number: str) -> None:
    condition = f'"Condition":{{"StringEquals":{{"aws:ResourceTag/v":{number}}}}}'
    policy = policy_of(open_to(Effect="Deny")).replace('"Effect"', f'{condition},"Effect"')
    check_policy(policy)
    added = with_permission(policy, ARN, "L", [ONE], ["ReceiveMessage"])
    assert read_document(added, "resource").statements[:1] == read_document(policy, "resource").statements
    left = without_permission(added, "L")
    assert left is not None
    assert read_document(left, "resource") == read_document(policy, "resource")


UNREADABLE = [
    pytest.param('{"Statement":{"Sid":"\\ud800","Effect":"Deny"}}', id="half a character"),
    pytest.param('{"Statement":[],"Statement":{"Effect":"Deny"}}', id="a part twice"),
    pytest.param('{"Statement":["Deny"]}', id="an invalid statement"),
    pytest.param('{"Statement":"Deny"}', id="no statements"),
    pytest.param("[]", id="no object"),
    pytest.param("{", id="no JSON"),
]


@pytest.mark.parametrize("stored", UNREADABLE)
def test_a_policy_that_cannot_be_read_is_left_alone(stored: str) -> None:
    changes: list[Callable[[], object]] = [
        lambda: with_permission(stored, ARN, "L", [ONE], ["ReceiveMessage"]),
        lambda: without_permission(stored, "L"),
    ]
    for change in changes:
        with pytest.raises(Fault) as caught:
            change()
        assert (caught.value.shape, caught.value.message) == (
            "InvalidAttributeValue",
            "Invalid value for the parameter Policy.",
        )


def test_the_same_label_again_only_with_the_same_statement(sqs: Any) -> None:
    add(sqs)
    before = sqs.attributes("q")["Policy"]
    assert add(sqs).status == 200
    assert sqs.attributes("q")["Policy"] == before
    assert add(sqs, actions=["SendMessage"]).error == (
        "InvalidParameterValue",
        "Value L for parameter Label is invalid. Reason: Already exists.",
    )


@every_row(
    ("given", "code", "message"),
    [
        ({"label": None}, "MissingParameter", "The request must contain the parameter Label."),
        ({"actions": []}, "MissingParameter", "The request must contain the parameter Actions."),
        ({"accounts": []}, "MissingParameter", "The request must contain the parameter PrincipalId."),
        (
            {"actions": ["CreateQueue"]},
            "InvalidParameterValue",
            "Value SQS:CreateQueue for parameter ActionName is invalid. "
            "Reason: Only the queue owner is allowed to invoke this action.",
        ),
        *(
            (
                {"actions": [action]},
                "InvalidParameterValue",
                f"Value SQS:{action} for parameter ActionName is invalid. "
                "Reason: Please refer to the appropriate WSDL for a list of valid actions.",
            )
            for action in ("X", "SendMessageBatch", "sendmessage")
        ),
        (
            {"accounts": ["123"]},
            "InvalidParameterValue",
            "Value [123] for parameter PrincipalId is invalid. Reason: Unable to verify.",
        ),
        ({"actions": ["*"] * 8}, "OverLimit", "8 Actions were found, maximum allowed is 7."),
    ],
)
def test_add_refuses(sqs: Any, given: dict[str, Any], code: str, message: str) -> None:
    assert add(sqs, **given).error == (code, message)
    assert "Policy" not in sqs.attributes("q")


def test_an_invalid_account_is_dropped_if_another_one_is_valid(sqs: Any) -> None:
    assert add(sqs, accounts=["123", ONE, ONE]).status == 200
    (only,) = json.loads(sqs.attributes("q")["Policy"])["Statement"]
    assert only["Principal"] == {"AWS": ROOT.format(ONE)}


def test_an_account_that_is_too_long_is_refused_even_if_another_one_is_valid(sqs: Any) -> None:
    long = "1" * 65
    assert add(sqs, accounts=[ONE, long]).error == (
        "InvalidParameterValue",
        f"Value [{ONE}, {long}] for parameter PrincipalId is invalid. Reason: Unable to verify.",
    )
    assert "Policy" not in sqs.attributes("q")
    assert add(sqs, accounts=[ONE, long[1:]]).status == 200


def test_twenty_statements_at_most_and_more_is_403(sqs: Any) -> None:
    for number in range(20):
        assert add(sqs, f"L{number}").status == 200
    reply = add(sqs, "more")
    assert reply.status == 403
    assert reply.error == ("OverLimit", "21 Statements were found, maximum allowed is 20.")


def test_a_thousand_accounts_at_most(sqs: Any) -> None:
    reply = add(sqs, accounts=[ONE] * 1001)
    assert reply.status == 403
    assert reply.error == ("OverLimit", "1001 AWSAccountIds were found, maximum allowed is 1000.")
    assert add(sqs, accounts=[ONE] * 1000).status == 200


def test_the_policy_stays_within_its_size(sqs: Any) -> None:
    actions = [
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
    ]
    sizes = []
    for number in range(20):
        before = sqs.attributes("q").get("Policy", "")
        reply = add(sqs, f"{number:080}", [ONE, TWO], actions)
        if reply.status != 200:
            break
        sizes.append(len(sqs.attributes("q")["Policy"]))
    size = sizes[-1] + sizes[-1] - sizes[-2]
    assert sizes[-1] <= 8192 < size
    assert reply.status == 403
    assert reply.error == ("OverLimit", "Submitted policy is over max allowed size.")
    assert sqs.attributes("q")["Policy"] == before


def test_fifty_principals_at_most_in_all_statements(sqs: Any) -> None:
    accounts = [f"{number:012}" for number in range(50)]
    assert add(sqs, "L", accounts).status == 200
    reply = add(sqs, "M", [ONE])
    assert reply.status == 403
    assert reply.error == ("OverLimit", "51 Principals were found, maximum allowed is 50.")


def policy_of(*statements: dict[str, Any], **others: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements), **others})


def open_to(principal: Any = "*", **others: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Principal": principal, "Action": "sqs:*", "Resource": ARN, **others}


def conditions(count: int) -> dict[str, Any]:
    return {"StringEquals": {f"aws:ResourceTag/{number}": "x" for number in range(count)}}


ACCOUNTS = [f"{number:012}" for number in range(51)]


@pytest.mark.parametrize(
    ("taken", "refused"),
    [
        pytest.param(
            policy_of(open_to({"Service": "sns.amazonaws.com"})),
            policy_of(open_to({"AWS": "arn:aws:iam::123456789012:*"})),
            id="principals without wildcards",
        ),
        pytest.param(
            policy_of(open_to(Condition={"StringEquals": {"aws:PrincipalOrgID": "o-1"}})),
            policy_of(open_to(Condition={"StringEqual": {"aws:PrincipalOrgID": "o-1"}})),
            id="operators that are known",
        ),
        pytest.param(
            policy_of(open_to(Condition={"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}})),
            policy_of(open_to(Condition={"IpAddress": {"aws:SourceIp": "192.0.2/24"}})),
            id="networks that are networks",
        ),
        pytest.param(
            policy_of(open_to(Resource="$queue_arn")),
            policy_of({**open_to(), "Resource": []}),
            id="a resource of any form",
        ),
        pytest.param(
            policy_of(open_to()),
            policy_of({key: value for key, value in open_to().items() if key != "Principal"}),
            id="a principal",
        ),
        pytest.param(
            policy_of(open_to(Sid="\U0001f4ec")), policy_of(open_to(Sid="\ud83d")), id="whole characters"
        ),
        pytest.param(policy_of(open_to(Sid="\ufffd")), policy_of(open_to(Sid="\uffff")), id="legal ones"),
        pytest.param(policy_of(open_to(Condition={})), policy_of(open_to(Conditions={})), id="no other part"),
    ],
)
def test_accepted_and_refused_policies(sqs: Any, taken: str, refused: str) -> None:
    assert sqs("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": taken}).status == 200
    assert sqs("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": refused}).error == (
        "InvalidAttributeValue",
        "Invalid value for the parameter Policy.",
    )
    assert sqs.attributes("q")["Policy"] == taken


ACTIONS = [f"sqs:{action}*" for action in "ABCDEFGHIJ"]


@pytest.mark.parametrize(
    ("taken", "refused", "message"),
    [
        pytest.param(
            policy_of(*[open_to()] * 20),
            policy_of(*[open_to()] * 21),
            "21 statements were found in the submitted policy, max allowed is 20",
            id="statements",
        ),
        pytest.param(
            policy_of(open_to({"AWS": ACCOUNTS[:30]}), open_to({"AWS": ACCOUNTS[:20]})),
            policy_of(open_to({"AWS": ACCOUNTS[:30]}), open_to({"AWS": ACCOUNTS[:21]})),
            "51 principals were found in the submitted policy, max allowed is 50",
            id="principals",
        ),
        pytest.param(
            policy_of(open_to(Action=ACTIONS[:7]), open_to(Action=ACTIONS[:7])),
            policy_of(open_to(Action=ACTIONS)),
            "10 actions were found in a statement from the submitted policy, max allowed is 7",
            id="actions",
        ),
        pytest.param(
            policy_of(*[open_to(Condition=conditions(1))] * 19, open_to(Condition=conditions(10))),
            policy_of(open_to(Condition=conditions(11))),
            "11 conditions were found in a statement from the submitted policy, max allowed is 10",
            id="conditions",
        ),
        pytest.param(
            policy_of(open_to()).ljust(8192),
            policy_of(open_to()).ljust(8193),
            "Submitted policy is over max allowed size.",
            id="bytes",
        ),
    ],
)
def test_a_policy_beyond_a_limit_is_over_limit(sqs: Any, taken: str, refused: str, message: str) -> None:
    assert sqs("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": taken}).status == 200
    reply = sqs("SetQueueAttributes", QueueUrl="q", Attributes={"Policy": refused})
    assert (reply.status, *reply.error) == (403, "OverLimit", message)
    assert sqs.attributes("q")["Policy"] == taken


def test_remove_of_an_unknown_label(sqs: Any) -> None:
    prefix = "Value X for parameter Label is invalid. Reason: "
    assert remove(sqs, "X").error == ("InvalidParameterValue", f"{prefix}can't find label.")
    add(sqs)
    assert remove(sqs, "X").error == (
        "InvalidParameterValue",
        f"{prefix}can't find label on existing policy.",
    )
