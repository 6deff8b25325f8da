"""PutMetricData and ListMetrics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from penstock.limits import SECOND
from penstock.metrics.buckets import VALUE_MAX, Bucket
from penstock.metrics.series import MetricKey
from penstock.monitoring.metric_store import Datum
from penstock.monitoring.reading import KeysQuestion
from penstock.services.cloudwatch.faults import invalid_combination, invalid_value, missing
from penstock.services.cloudwatch.limits import (
    DATA_AGE_S_MAX,
    DATA_AHEAD_S_MAX,
    DATA_MAX,
    DIMENSION_VALUE_LENGTH_MAX,
    DIMENSIONS_MAX,
    ENTITIES_MAX,
    LISTED_AGE_S,
    LISTED_METRICS_MAX,
    NAME_LENGTH_MAX,
    RECENTLY_ACTIVE_S,
    RESOLUTIONS,
    UNITS,
    VALUES_MAX,
)
from penstock.services.cloudwatch.resources import CloudWatch, CloudWatchResource
from penstock.services.cloudwatch.structs import (
    Dimension,
    ListMetricsRequest,
    ListMetricsResult,
    MetricDatum,
    NamedMetric,
    PutMetricDataRequest,
)
from penstock.services.cloudwatch.validation import CONSTRAINTS, read_token, shown_dimensions, write_token
from penstock.turns import Steps
from penstock.wire.service import Call, Fault


def metrics_of_namespace(cw: CloudWatch, request: PutMetricDataRequest, call: Call) -> CloudWatchResource:
    """Raises Fault or NotOwned."""
    namespace = request.Namespace
    if namespace is None:
        raise missing("Namespace")
    CONSTRAINTS.check(request, "Namespace")
    # CloudWatch: names that begin with AWS/ belong to services.
    if namespace.startswith((":", "AWS/")) or namespace in cw.monitoring.namespaces:
        raise invalid_value(f"The value {namespace} for parameter Namespace is invalid.")
    home = cw.monitoring.of_metrics(call.space, namespace)
    return CloudWatchResource("*", call.space.account, keys={"cloudwatch:namespace": namespace}, home=home)


async def put_metric_data(cw: CloudWatch, request: PutMetricDataRequest, call: Call) -> None:
    namespace = request.Namespace or ""
    named = list(_named_data(request))
    if not named:
        raise missing("MetricData")
    if len(named) > DATA_MAX:
        raise invalid_value(f"The collection MetricData must not have a size greater than {DATA_MAX}.")
    now_s = call.resource.home.shard.clock.wall_ms() / SECOND
    data = await cw.broker.turns.run(_data(named, now_s), call.space.account)
    await call.resource.home.metrics.put(call.space, namespace, data)


def _data(named: list[tuple[str, MetricDatum]], now_s: float) -> Steps[list[Datum]]:
    """Raises Fault."""
    data: list[Datum] = []
    wrong: list[str] = []
    for name, datum in named:
        try:
            data.append(_datum(name, datum, now_s))
        except Fault as fault:
            if fault.shape != "InvalidParameterValueException":
                raise
            wrong.append(fault.message)
        yield
    if wrong:
        raise invalid_value("\n".join(wrong))
    return data


def _named_data(request: PutMetricDataRequest) -> Iterator[tuple[str, MetricDatum]]:
    """Each datum with the name that texts give it."""
    for number, datum in enumerate(request.MetricData or (), 1):
        yield f"MetricData.member.{number}", datum
    entities = request.EntityMetricData or ()
    if len(entities) > ENTITIES_MAX:
        raise invalid_value(
            f"The collection EntityMetricData must not have a size greater than {ENTITIES_MAX}."
        )
    for at, entity in enumerate(entities, 1):
        for number, datum in enumerate(entity.MetricData or (), 1):
            yield f"EntityMetricData.member.{at}.MetricData.member.{number}", datum


def _datum(name: str, datum: MetricDatum, now_s: float) -> Datum:
    """Raises Fault."""
    if datum.MetricName is None:
        raise missing(f"{name}.MetricName")
    if not 1 <= len(datum.MetricName) <= NAME_LENGTH_MAX:
        raise invalid_value(
            f"The parameter {name}.MetricName must be a string with a length of 1 to {NAME_LENGTH_MAX} characters."
        )
    unit = "None" if datum.Unit is None else datum.Unit
    if unit not in UNITS:
        raise invalid_value(f"The parameter {name}.Unit must be a value in the set [ {', '.join(UNITS)} ].")
    resolution = RESOLUTIONS[1] if datum.StorageResolution is None else datum.StorageResolution
    if resolution not in RESOLUTIONS:
        raise invalid_value(f"The parameter {name}.StorageResolution must be 1 or 60.")
    at_s = now_s if datum.Timestamp is None else datum.Timestamp
    if at_s < now_s - DATA_AGE_S_MAX:
        raise invalid_value(f"The parameter {name}.Timestamp must specify a time within the past two weeks.")
    if at_s > now_s + DATA_AHEAD_S_MAX:
        raise invalid_value(
            f"The parameter {name}.Timestamp must specify a time no more than two hours in the future."
        )
    dimensions = _dimensions(name, datum.Dimensions or [])
    return Datum(datum.MetricName, dimensions, unit, at_s, _bucket(name, datum), resolution == RESOLUTIONS[0])


def _dimensions(name: str, given: list[Dimension]) -> tuple[tuple[str, str], ...]:
    if len(given) > DIMENSIONS_MAX:
        raise invalid_value(
            f"The collection {name}.Dimensions must not have a size greater than {DIMENSIONS_MAX}."
        )
    for number, each in enumerate(given, 1):
        at = f"{name}.Dimensions.member.{number}"
        for member, value, most in (
            ("Name", each.Name, NAME_LENGTH_MAX),
            ("Value", each.Value, DIMENSION_VALUE_LENGTH_MAX),
        ):
            if value is None:
                raise missing(f"{at}.{member}")
            if not 1 <= len(value) <= most or not value.strip() or (member == "Name" and value[0] == ":"):
                raise invalid_value(
                    f"The parameter {at}.{member} must be a string with a length of 1 to {most} characters."
                )
    pairs = {(each.Name or "", each.Value or "") for each in given}
    if len({dimension for dimension, _ in pairs}) < len(given):
        raise invalid_value("No metric may specify the same dimension name twice.")
    return tuple(sorted(pairs))


def _bucket(name: str, datum: MetricDatum) -> Bucket:
    others = [member for member in ("StatisticValues", "Values") if getattr(datum, member) is not None]
    if datum.Value is None and not others:
        raise missing(f"{name}.Value")
    if datum.Value is not None and others:
        raise invalid_combination(
            f"The parameters {name}.Value and {name}.{others[0]} are mutually exclusive and you have specified both."
        )
    if datum.Counts is not None and datum.Values is None:
        raise missing(f"{name}.Values")
    if datum.Value is not None:
        return Bucket.of(_number(f"{name}.Value", datum.Value))
    if datum.StatisticValues is None:
        return _values(name, datum)
    bucket = _statistic_set(f"{name}.StatisticValues", datum)
    if datum.Values is not None:  # CloudWatch: both may be given
        bucket.merge(_values(name, datum))
    return bucket


def _values(name: str, datum: MetricDatum) -> Bucket:
    values = datum.Values or []
    counts = [1.0] * len(values) if datum.Counts is None else datum.Counts
    if len(values) != len(counts):
        raise invalid_value(f"The parameters {name}.Values and {name}.Counts must be of the same size.")
    if not values:
        raise missing(f"{name}.Values")
    if len(values) > VALUES_MAX:
        raise invalid_value(f"The collection {name}.Values must not have a size greater than {VALUES_MAX}.")
    for number, (value, count) in enumerate(zip(values, counts, strict=True), 1):
        _number(f"{name}.Values.member.{number}", value)
        if not _number(f"{name}.Counts.member.{number}", count) > 0:
            raise invalid_value(f"The parameter {name}.Counts.member.{number} must be greater than 0.")
    return Bucket.of_all(zip(values, counts, strict=True))


def _statistic_set(name: str, datum: MetricDatum) -> Bucket:
    given = datum.StatisticValues
    assert given is not None
    numbers = []
    for member in ("SampleCount", "Sum", "Minimum", "Maximum"):
        value = getattr(given, member)
        if value is None:
            raise missing(f"{name}.{member}")
        numbers.append(_number(f"{name}.{member}", value))
    count, total, low, high = numbers
    if count <= 0:
        raise invalid_value(f"The parameter {name}.SampleCount must be greater than 0.")
    if low > high:
        raise invalid_value(f"The parameter {name}.Minimum must be less than or equal to {name}.Maximum.")
    return Bucket(count, total, low, high)


def _number(name: str, value: float) -> float:
    if not math.isfinite(value) or abs(value) > VALUE_MAX:
        shown = {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN" if value != value else value)
        raise invalid_value(f"The value {shown} for parameter {name} is invalid.")
    return value


# -- ListMetrics ---------------------------------------------------------------------------------------------


async def list_metrics(cw: CloudWatch, request: ListMetricsRequest, call: Call) -> ListMetricsResult:
    CONSTRAINTS.check(request)
    if request.OwningAccount not in (None, call.space.account):
        return ListMetricsResult(Metrics=[])
    dimensions = [(each.Name or "", each.Value) for each in request.Dimensions or ()]
    asked = [call.space, request.Namespace, request.MetricName, dimensions]
    try:
        after = read_token(request.NextToken, asked)
    except Fault:
        raise invalid_value("Request parameter NextToken is invalid") from None
    age_s = LISTED_AGE_S if request.RecentlyActive is None else RECENTLY_ACTIVE_S
    question = KeysQuestion(
        space=call.space,
        namespace=request.Namespace,
        name=request.MetricName,
        dimensions=dimensions,
        since_s=cw.monitoring.wall_ms() // SECOND - age_s,
        after=None if after is None else _read_key(after),
        metrics_max=LISTED_METRICS_MAX + 1,
    )
    found = [each.metric for each in await cw.monitoring.reader.keys(question)]
    page = found[:LISTED_METRICS_MAX]
    following = write_token(asked, _write_key(page[-1])) if len(found) > len(page) else None
    metrics = [
        NamedMetric(Namespace=key.namespace, MetricName=key.name, Dimensions=shown_dimensions(key))
        for key in page
    ]
    owners = [call.space.account] * len(metrics) if request.IncludeLinkedAccounts else None
    return ListMetricsResult(Metrics=metrics, NextToken=following, OwningAccounts=owners)


_key_encoder = msgspec.json.Encoder()
_key_decoder = msgspec.json.Decoder(MetricKey)


def _write_key(key: MetricKey) -> str:
    return _key_encoder.encode(key).decode()


def _read_key(text: str) -> MetricKey:
    """Reads the metric key of a token. Raises Fault."""
    try:
        return _key_decoder.decode(text)
    except (ValueError, RecursionError):
        raise invalid_value("Request parameter NextToken is invalid") from None
