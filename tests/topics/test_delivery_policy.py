"""Delivery policies: what is refused, how they read back, what applies to a subscription."""

from __future__ import annotations

import json
from typing import Any

import pytest

from penstock.topics.delivery_policy import (
    DEFAULT_CONTENT_TYPE,
    DeliveryPolicyInvalid,
    effective_policy,
    effective_subscription_policy,
    effective_topic_policy,
    parse_subscription_policy,
    parse_topic_policy,
)
from penstock.topics.retries import Retries

RETRIES = {"minDelayTarget": 1, "maxDelayTarget": 3, "numRetries": 5}
ONE_OF_TYPES = "must be one of application/json, text/plain"
ALL_TYPES = (
    "application/atom+xml, application/json, application/octet-stream, application/soap+xml, "
    "application/x-www-form-urlencoded, application/xhtml+xml, application/xml, text/css, text/csv, text/html, "
    "text/plain, text/xml"
)
ONE_OF_FUNCTIONS = "must be one of linear, arithmetic, exponential, geometric"
DEFAULT_RETRIES = Retries(growing=3, shortest_ms=20_000, longest_ms=20_000)


def own(document: Any, *, is_raw: bool = False) -> str:
    return parse_subscription_policy(json.dumps(document), is_raw=is_raw)


def of_topic(**http: Any) -> str:
    return parse_topic_policy(json.dumps({"http": http}))


def test_the_default_of_a_topic_is_shown_as_amazon_shows_it() -> None:
    assert (
        effective_topic_policy(None)
        == effective_topic_policy("")
        == (
            '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,'
            '"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},'
            '"disableSubscriptionOverrides":false,'
            '"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}'
        )
    )


def test_a_policy_of_a_topic_keeps_what_was_given() -> None:
    assert of_topic(defaultHealthyRetryPolicy=RETRIES) == (
        '{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":3,"numRetries":5},'
        '"disableSubscriptionOverrides":false}}'
    )
    assert of_topic(defaultHealthyRetryPolicy=None) == '{"http":{"disableSubscriptionOverrides":false}}'
    nothing = of_topic(defaultThrottlePolicy={}, defaultRequestPolicy={"headerContentType": None})
    assert nothing == '{"http":{"disableSubscriptionOverrides":false}}'
    assert effective_topic_policy(nothing) == effective_topic_policy(None)


def test_a_policy_of_a_subscription_reads_back_with_all_fields() -> None:
    assert own(
        {"healthyRetryPolicy": RETRIES, "requestPolicy": {"headerContentType": "application/json"}}
    ) == (
        '{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":3,"numRetries":5,"numMaxDelayRetries":0,'
        '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
        '"throttlePolicy":null,"requestPolicy":{"headerContentType":"application/json"},"guaranteed":false}'
    )


def test_what_was_read_back_can_be_set_again() -> None:
    policy = own({"healthyRetryPolicy": RETRIES, "throttlePolicy": {"maxReceivesPerSecond": 7}})
    assert parse_subscription_policy(policy, is_raw=False) == policy
    policy = of_topic(defaultHealthyRetryPolicy=RETRIES, defaultThrottlePolicy={"maxReceivesPerSecond": 7})
    assert parse_topic_policy(policy) == policy
    assert parse_topic_policy(effective_topic_policy(policy)) == effective_topic_policy(policy)


def _retries(**changed: Any) -> dict[str, Any]:
    return {"healthyRetryPolicy": {**RETRIES, **changed}}


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ({"healthyRetryPolicy": {"numRetries": 1}}, "healthyRetryPolicy.minDelayTarget must be specified"),
        (
            {"healthyRetryPolicy": {"minDelayTarget": 1}},
            "healthyRetryPolicy.maxDelayTarget must be specified",
        ),
        (_retries(numRetries=None), "healthyRetryPolicy.numRetries must be specified"),
        (_retries(minDelayTarget=0), "healthyRetryPolicy.minDelayTarget must be greater than or equal to 1"),
        (
            _retries(maxDelayTarget=3601),
            "healthyRetryPolicy.maxDelayTarget must be less than or equal to 3600",
        ),
        (_retries(minDelayTarget=4), "healthyRetryPolicy.maxDelayTarget must be greater than or equal to 4"),
        (_retries(numRetries=101), "healthyRetryPolicy.numRetries must be less than or equal to 100"),
        (_retries(numRetries=-1), "healthyRetryPolicy.numRetries must be greater than or equal to 0"),
        (_retries(numRetries=1.5), "healthyRetryPolicy.numRetries must be an integer"),
        (_retries(numRetries=True), "healthyRetryPolicy.numRetries must be an integer"),
        (
            _retries(numMinDelayRetries=-1),
            "healthyRetryPolicy.numMinDelayRetries must be greater than or equal to 0",
        ),
        (
            _retries(numMinDelayRetries=3, numNoDelayRetries=3),
            "healthyRetryPolicy.numRetries must be greater than or equal to the sum of numMaxDelayRetries, "
            "numNoDelayRetries, numMinDelayRetries",
        ),
        (
            _retries(backoffFunction="random"),
            f"healthyRetryPolicy.backoffFunction {ONE_OF_FUNCTIONS}",
        ),
        (_retries(backoffFunction=["linear"]), f"healthyRetryPolicy.backoffFunction {ONE_OF_FUNCTIONS}"),
        (
            {"healthyRetryPolicy": {"minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 61}},
            "healthyRetryPolicy: the delays of all retries must not exceed 3600 seconds",
        ),
        (_retries(other=1), "Unexpected JSON member: healthyRetryPolicy.other"),
        ({"http": {"a": {"b": 1}}}, "Unexpected JSON member: http.a.b"),
        (
            {"throttlePolicy": {"maxReceivesPerSecond": 0}},
            "throttlePolicy.maxReceivesPerSecond must be greater than or equal to 1",
        ),
        ({"throttlePolicy": 1}, "throttlePolicy must be a JSON object"),
        (
            {"requestPolicy": {"headerContentType": "text/css"}},
            f"requestPolicy.headerContentType {ONE_OF_TYPES}",
        ),
        (
            {"requestPolicy": {"headerContentType": "text/plain\r\nX: y"}},
            f"requestPolicy.headerContentType {ONE_OF_TYPES}",
        ),
        ({"guaranteed": True}, "guaranteed must be false"),
        ({"sicklyRetryPolicy": RETRIES}, "sicklyRetryPolicy is not supported"),
        ([], "must be a JSON object"),
    ],
)
def test_what_a_subscription_cannot_set(document: Any, reason: str) -> None:
    with pytest.raises(DeliveryPolicyInvalid) as refused:
        own(document)
    assert refused.value.reason == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            '{"http":{"healthyRetryPolicy":{"minDelayTarget":1}}}',
            "Unexpected JSON member: http.healthyRetryPolicy.minDelayTarget",
        ),
        ('{"a":{}}', "Unexpected JSON member: a"),
        (
            '{"http":{"defaultHealthyRetryPolicy":{"numRetries":1}}}',
            "http.defaultHealthyRetryPolicy.minDelayTarget must be specified",
        ),
        (
            '{"http":{"disableSubscriptionOverrides":"true"}}',
            "http.disableSubscriptionOverrides must be either true or false",
        ),
        (
            '{"http":{"defaultRequestPolicy":{"headerContentType":"image/png"}}}',
            f"http.defaultRequestPolicy.headerContentType must be one of {ALL_TYPES}",
        ),
        ("{", "failed to parse JSON."),
        ("[" * 100_000, "failed to parse JSON."),
        ('"\ud800"', "failed to parse JSON."),
    ],
)
def test_what_a_topic_cannot_set(text: str, reason: str) -> None:
    with pytest.raises(DeliveryPolicyInvalid) as refused:
        parse_topic_policy(text)
    assert refused.value.reason == reason


def test_the_path_of_an_unknown_member_is_bounded() -> None:
    with pytest.raises(DeliveryPolicyInvalid) as refused:
        own({"x" * 10_000: 1})
    assert len(refused.value.reason) < 300


def test_the_delays_of_all_retries_may_be_an_hour() -> None:
    own({"healthyRetryPolicy": {"minDelayTarget": 60, "maxDelayTarget": 60, "numRetries": 60}})


def test_a_subscription_overrides_its_topic_part_by_part() -> None:
    topic = of_topic(
        defaultHealthyRetryPolicy={**RETRIES, "numRetries": 0},
        defaultThrottlePolicy={"maxReceivesPerSecond": 9},
    )
    assert effective_policy(None, None, is_raw=False) == (DEFAULT_RETRIES, None, DEFAULT_CONTENT_TYPE)
    found = effective_policy(topic, None, is_raw=False)
    assert (found.retries.count, found.receives_per_second) == (0, 9)
    found = effective_policy(topic, own({"healthyRetryPolicy": RETRIES}), is_raw=False)
    assert (found.retries.count, found.receives_per_second) == (5, 9)
    found = effective_policy(topic, own({"throttlePolicy": {"maxReceivesPerSecond": 2}}), is_raw=False)
    assert (found.retries.count, found.receives_per_second) == (0, 2)


def test_a_topic_can_disable_what_subscriptions_set() -> None:
    topic = of_topic(disableSubscriptionOverrides=True)
    policy = own({"healthyRetryPolicy": RETRIES, "throttlePolicy": {"maxReceivesPerSecond": 2}})
    assert effective_policy(topic, policy, is_raw=False) == (DEFAULT_RETRIES, None, DEFAULT_CONTENT_TYPE)
    assert json.loads(effective_subscription_policy(topic, policy))["healthyRetryPolicy"]["numRetries"] == 3


def test_the_phases_follow_from_the_numbers() -> None:
    numbers = {"numRetries": 10, "numNoDelayRetries": 1, "numMinDelayRetries": 2, "numMaxDelayRetries": 3}
    policy = own(_retries(**numbers, backoffFunction="geometric"))
    assert effective_policy(None, policy, is_raw=False).retries == Retries(
        immediate=1, first=2, growing=4, last=3, shortest_ms=1000, longest_ms=3000, function="geometric"
    )


def test_raw_delivery_allows_more_types_of_content() -> None:
    document = {"requestPolicy": {"headerContentType": "text/csv; charset=utf-8"}}
    policy = own(document, is_raw=True)
    assert effective_policy(None, policy, is_raw=True).content_type == "text/csv; charset=utf-8"
    assert effective_policy(None, policy, is_raw=False).content_type == DEFAULT_CONTENT_TYPE
    topic = of_topic(defaultRequestPolicy={"headerContentType": "application/json"})
    assert effective_policy(topic, None, is_raw=False).content_type == "application/json"


def test_the_effective_policy_of_a_subscription_is_shown_with_its_own_names() -> None:
    assert effective_subscription_policy(None, None) == (
        '{"healthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,'
        '"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"},"sicklyRetryPolicy":null,'
        '"throttlePolicy":null,"requestPolicy":{"headerContentType":"text/plain; charset=UTF-8"},"guaranteed":false}'
    )
