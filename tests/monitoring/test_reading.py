"""GetMetricStatistics, GetMetricData and ListMetrics: values, labels, units, pages."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from monitoring.world import MonitoringWorld
from penstock.limits import MINUTE, SECOND


def put(cw: Any, name: str = "m", namespace: str = "App", **datum: Any) -> None:
    cw.put_metric_data(Namespace=namespace, MetricData=[{"MetricName": name, **datum}])


def statistics(world: MonitoringWorld, cw: Any, *names: str, **more: Any) -> list[dict[str, Any]]:
    asked = {
        "Namespace": "App", "MetricName": "m", "Period": 60, "Statistics": list(names),
        "StartTime": world.now - timedelta(minutes=30), "EndTime": world.now + timedelta(minutes=2), **more,
    }  # fmt: skip
    found = cw.get_metric_statistics(**{key: value for key, value in asked.items() if value})
    assert found["Label"] == "m"
    return sorted(found["Datapoints"], key=lambda point: point["Timestamp"])


def stat(
    id: str, name: str = "m", *, period: int = 60, statistic: str = "Sum", **more: Any
) -> dict[str, Any]:
    metric = {"Namespace": "App", "MetricName": name, "Dimensions": more.pop("Dimensions", [])}
    unit = {"Unit": more.pop("Unit")} if "Unit" in more else {}
    return {"Id": id, "MetricStat": {"Metric": metric, "Period": period, "Stat": statistic, **unit}, **more}


def data(world: MonitoringWorld, cw: Any, *queries: dict[str, Any], **more: Any) -> dict[str, Any]:
    asked = {
        "StartTime": world.now - timedelta(minutes=30),
        "EndTime": world.now + timedelta(minutes=2),
        **more,
    }
    return dict(cw.get_metric_data(MetricDataQueries=list(queries), **asked))


def values(world: MonitoringWorld, cw: Any, *queries: dict[str, Any], **more: Any) -> dict[str, list[float]]:
    return {each["Id"]: each["Values"] for each in data(world, cw, *queries, **more)["MetricDataResults"]}


def test_values_and_counts_are_folded(world: MonitoringWorld, cw: Any) -> None:
    """The values were recorded against AWS: maximum 10, count 6, sum 42."""
    put(cw, Value=10)
    put(cw, Values=[6, 8], Counts=[4, 1])
    (point,) = statistics(world, cw, "Maximum", "SampleCount", "Sum", "Minimum", "Average")
    assert (point["Maximum"], point["SampleCount"], point["Sum"], point["Minimum"]) == (10, 6, 42, 6)
    assert (point["Average"], point["Unit"]) == (7, "None")
    put(cw, StatisticValues={"SampleCount": 4, "Sum": 8, "Minimum": 1, "Maximum": 3})
    (point,) = statistics(world, cw, "SampleCount", "Sum", "Minimum")
    assert (point["SampleCount"], point["Sum"], point["Minimum"]) == (10, 50, 1)


def test_percentiles_are_within_a_percent(world: MonitoringWorld, cw: Any) -> None:
    for start in range(1, 1000, 100):
        put(cw, Values=[float(value) for value in range(start, start + 100)])
    (point,) = statistics(world, cw, ExtendedStatistics=["p50", "p99.9", "p0", "tm90", "PR(:100)"])
    found = point["ExtendedStatistics"]
    assert found["p50"] == pytest.approx(500, rel=0.02)
    assert found["p99.9"] == pytest.approx(999, rel=0.02)
    assert found["p0"] == 1
    assert found["tm90"] == pytest.approx(450, rel=0.02)
    assert found["PR(:100)"] == pytest.approx(10, abs=0.5)


def test_percentiles_of_statistic_sets_are_not_known(world: MonitoringWorld, cw: Any) -> None:
    put(cw, StatisticValues={"SampleCount": 4, "Sum": 8, "Minimum": 1, "Maximum": 3})
    (point,) = statistics(world, cw, "Sum", ExtendedStatistics=["p50"])
    assert point["Sum"] == 8 and "ExtendedStatistics" not in point
    assert values(world, cw, stat("a", statistic="p50")) == {"a": []}


def test_units_give_separate_points(world: MonitoringWorld, cw: Any) -> None:
    put(cw, Value=1, Unit="Seconds")
    put(cw, Value=2, Unit="Milliseconds")
    found = statistics(world, cw, "Sum")
    assert {(point["Unit"], point["Sum"]) for point in found} == {("Seconds", 1.0), ("Milliseconds", 2.0)}
    assert [point["Sum"] for point in statistics(world, cw, "Sum", Unit="Seconds")] == [1.0]
    put(cw, Value=3)
    answer = data(world, cw, stat("a"), stat("b", Unit="Seconds"), stat("c", Unit="Bits"))
    assert answer["Messages"] == []
    message = {"Code": "MultipleUnits", "Value": "Multiple units returned: '[Milliseconds, Seconds, None]'"}
    assert [each.get("Messages", []) for each in answer["MetricDataResults"]] == [[message], [], []]
    assert [each["Values"] for each in answer["MetricDataResults"]][1:] == [[1.0], []]


def test_values_and_a_statistic_set_in_one_datum_count_both(world: MonitoringWorld, cw: Any) -> None:
    put(
        cw,
        Values=[1, 2],
        Counts=[1, 3],
        StatisticValues={"SampleCount": 2, "Sum": 30, "Minimum": 10, "Maximum": 20},
    )
    (point,) = statistics(world, cw, "Sum", "SampleCount", "Minimum", "Maximum")
    assert (point["Sum"], point["SampleCount"], point["Minimum"], point["Maximum"]) == (37, 6, 1, 20)


def test_datapoints_are_counted_from_start_to_end(world: MonitoringWorld, cw: Any) -> None:
    """Whatever second it is: a day of minutes is 1,440 of them."""
    world.advance(17 * SECOND)
    asked = {
        "Namespace": "App",
        "MetricName": "m",
        "Period": 60,
        "Statistics": ["Sum"],
        "StartTime": world.now,
    }
    cw.get_metric_statistics(**asked, EndTime=world.now + timedelta(days=1))
    with pytest.raises(ClientError, match="up to 1441 datapoints"):
        cw.get_metric_statistics(**asked, EndTime=world.now + timedelta(days=1, minutes=1))


def test_a_period_below_a_minute_shows_minutes_of_values_without_high_resolution(
    world: MonitoringWorld, cw: Any
) -> None:
    for value in (0, 2, 7, 100):
        put(cw, Value=value)
    results = data(
        world, cw, *(stat(id, period=30, statistic=name) for id, name in (("a", "Sum"), ("b", "Minimum")))
    )
    assert [each["Values"] for each in results["MetricDataResults"]] == [[109.0], [0.0]]
    world.advance(2 * MINUTE)
    for value in (1, 2):
        put(cw, Value=value, StorageResolution=1)
        world.advance(SECOND)
    results = data(world, cw, stat("a", period=1))
    assert results["MetricDataResults"][0]["Values"] == [2.0, 1.0, 109.0], "no value is shown twice"


def test_periods_begin_at_the_rounded_start(world: MonitoringWorld, cw: Any) -> None:
    for _ in range(10):
        put(cw, Value=1)
        world.advance(MINUTE)
    points = statistics(world, cw, "Sum", Period=300, StartTime=world.now - timedelta(minutes=10, seconds=5))
    assert [point["Sum"] for point in points] == [5, 5]
    assert all(point["Timestamp"].second == 0 for point in points)
    (end,) = statistics(
        world,
        cw,
        "Sum",
        StartTime=world.now - timedelta(seconds=60),
        EndTime=world.now - timedelta(seconds=7),
    )
    assert end["Sum"] == 1


def test_dimensions_match_exactly_and_in_any_order(world: MonitoringWorld, cw: Any) -> None:
    both = [{"Name": "b", "Value": "2"}, {"Name": "a", "Value": "1"}]
    put(cw, Value=1, Dimensions=both)
    put(cw, Value=5)
    assert values(
        world, cw, stat("none"), stat("both", Dimensions=both[::-1]), stat("one", Dimensions=both[:1])
    ) == {"none": [5.0], "both": [1.0], "one": []}  # fmt: skip


def test_labels(world: MonitoringWorld, cw: Any) -> None:
    """The labels were recorded against AWS: what differs is appended."""

    def labels(*queries: dict[str, Any], **more: Any) -> list[str]:
        return [each["Label"] for each in data(world, cw, *queries, **more)["MetricDataResults"]]

    put(cw, Value=3, Dimensions=[{"Name": "Host", "Value": "a"}])
    assert labels(stat("a"), stat("b", "other")) == ["m", "other"]
    assert labels(stat("a"), stat("b")) == ["m", "m"]
    assert labels(stat("a"), stat("b", statistic="Average")) == ["m Sum", "m Average"]
    assert labels(stat("a"), stat("b", period=300)) == ["m 60", "m 300"]
    assert labels(stat("a"), stat("b", period=300, statistic="Average")) == ["m Sum 60", "m Average 300"]
    assert labels(stat("a", Label="mine"), {"Id": "e", "Expression": "a * 2"}) == ["mine", "e"]
    host = [{"Name": "Host", "Value": "a"}]
    dynamic = "${LABEL} of ${PROP('Dim.Host')}: ${MAX} ${SUM} ${AVG} ${LAST} ${DATAPOINT_COUNT} ${NOPE}"
    assert labels(stat("a", Dimensions=host, Label=dynamic)) == ["m of a: 3 3 3 3 1 ${NOPE}"]
    assert labels(stat("a", Label="${MAX}")) == ["--"]
    timed = stat("a", Dimensions=host, Label="${MAX_TIME}")
    here, there = labels(timed)[0], labels(timed, LabelOptions={"Timezone": "+0100"})[0]
    assert here[10:] != there[10:]


def test_expressions(world: MonitoringWorld, cw: Any) -> None:
    put(cw, Value=4)
    put(cw, "n", Value=2)
    found = values(
        world, cw, stat("m1"), stat("m2", "n", ReturnData=False), {"Id": "ratio", "Expression": "m1 / m2"},
        {"Id": "twice", "Expression": "ratio * 2"}, {"Id": "all_", "Expression": "SUM(METRICS())"},
        {"Id": "line", "Expression": "TIME_SERIES(7)", "Period": 900},
    )  # fmt: skip
    assert {key: found[key] for key in ("m1", "ratio", "twice", "all_")} == {
        "m1": [4.0], "ratio": [2.0], "twice": [4.0], "all_": [6.0],
    }  # fmt: skip
    assert set(found["line"]) == {7.0} and len(found["line"]) in (2, 3, 4)
    assert "m2" not in found


def test_a_list_has_a_result_for_each_series(world: MonitoringWorld, cw: Any) -> None:
    for host in "ab":
        put(cw, Value=ord(host), Dimensions=[{"Name": "Host", "Value": host}])
    answer = data(world, cw, {"Id": "s", "Expression": "SEARCH('{App,Host} MetricName=\"m\"', 'Sum', 60)"})
    found = answer["MetricDataResults"]
    assert [(each["Id"], each["Label"], each["Values"]) for each in found] == [
        ("s", "a", [97.0]),
        ("s", "b", [98.0]),
    ]
    labelled = data(world, cw, {"Id": "s", "Label": "host", "Expression": "SEARCH('{App,Host}', 'Sum', 60)"})
    assert [each["Label"] for each in labelled["MetricDataResults"]] == ["host a", "host b"]


@pytest.mark.slow
def test_searches_of_a_request_are_limited_by_what_they_look_at(world: MonitoringWorld, cw: Any) -> None:
    for namespace in ("App", "Other"):
        metrics = [
            {"MetricName": "m", "Value": 1, "Dimensions": [{"Name": "Host", "Value": f"host-{number}"}]}
            for number in range(1000)
        ]
        cw.put_metric_data(Namespace=namespace, MetricData=metrics)
    searches = [{"Id": f"s{n}", "Expression": f"SEARCH('none OR none{n}', 'Sum', 60)"} for n in range(80)]
    assert data(world, cw, *searches[:20])["MetricDataResults"] == []
    with pytest.raises(ClientError, match="searches too much for so many metrics"):
        data(world, cw, *searches)


def test_pages_of_values(world: MonitoringWorld, cw: Any) -> None:
    for minute in range(10):
        put(cw, Value=minute)
        put(cw, "n", Value=minute)
        world.advance(MINUTE)
    queries = [stat("a"), stat("b", "n")]
    asked = {"StartTime": world.now - timedelta(minutes=30), "EndTime": world.now}
    for order, first in (("TimestampDescending", 9.0), ("TimestampAscending", 0.0), (None, 9.0)):
        scan = {"ScanBy": order} if order else {}
        whole = values(world, cw, *queries, **asked, **scan)
        assert whole["a"][0] == first and len(whole["a"]) == 10
        found: dict[str, list[float]] = {}
        token: dict[str, str] = {}
        for _ in range(20):
            page = data(world, cw, *queries, MaxDatapoints=3, **asked, **scan, **token)
            assert sum(len(each["Values"]) for each in page["MetricDataResults"]) <= 3
            for each in page["MetricDataResults"]:
                found.setdefault(each["Id"], []).extend(each["Values"])
            if "NextToken" not in page:
                break
            token = {"NextToken": page["NextToken"]}
        assert found == whole
    with pytest.raises(ClientError) as refused:
        data(world, cw, stat("other"), MaxDatapoints=3, **asked, **token)
    assert refused.value.response["Error"]["Code"] == "InvalidNextToken"


def test_a_metric_without_data(world: MonitoringWorld, cw: Any) -> None:
    (result,) = data(world, cw, stat("a"))["MetricDataResults"]
    assert result == {"Id": "a", "Label": "m", "Timestamps": [], "Values": [], "StatusCode": "Complete"}


def test_metrics_are_listed_once(world: MonitoringWorld, cw: Any) -> None:
    for _ in range(3):
        put(cw, Value=1, Unit="Seconds")
        put(cw, Value=1, Unit="Bytes")
        put(cw, "n", "Other", Value=1, Dimensions=[{"Name": "a", "Value": "1"}, {"Name": "b", "Value": "2"}])

    def names(**asked: Any) -> list[str]:
        return [metric["MetricName"] for metric in cw.list_metrics(**asked)["Metrics"]]

    assert names() == ["m", "n"]
    assert names(Namespace="Other") == names(MetricName="n") == ["n"]
    assert names(Dimensions=[{"Name": "a"}]) == ["n"]
    assert names(Dimensions=[{"Name": "a", "Value": "1"}, {"Name": "b"}]) == ["n"]
    assert names(Dimensions=[{"Name": "a", "Value": "2"}]) == names(Namespace="App", MetricName="n") == []
    linked = cw.list_metrics(IncludeLinkedAccounts=True)
    assert linked["OwningAccounts"] == ["000000000000"] * 2
    assert names(OwningAccount="111111111111") == []


def test_lists_of_metrics_have_pages_of_500(world: MonitoringWorld, cw: Any) -> None:
    for start in (0, 600):
        cw.put_metric_data(
            Namespace=f"n{start}", MetricData=[{"MetricName": f"m{n:03d}", "Value": 1} for n in range(600)]
        )
    pages = list(cw.get_paginator("list_metrics").paginate())
    assert [len(page["Metrics"]) for page in pages] == [500, 500, 200]
    found = [(metric["Namespace"], metric["MetricName"]) for page in pages for metric in page["Metrics"]]
    assert found == sorted(found) and len(set(found)) == 1200


def test_large_requests_are_compressed_by_botocore(world: MonitoringWorld, cw: Any) -> None:
    many = [
        {"MetricName": f"m{n}", "Values": [float(v) for v in range(100)], "Unit": "Count"} for n in range(200)
    ]
    cw.put_metric_data(Namespace="App", MetricData=many)
    assert world.last_request.headers[b"content-encoding"] == b"gzip"
    assert values(world, cw, stat("a", "m199")) == {"a": [4950.0]}
