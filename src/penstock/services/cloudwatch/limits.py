"""The numbers of CloudWatch that a request can meet. Texts are formatted from them."""

from __future__ import annotations

from penstock.metrics.functions import SERIES_VALUES_MAX
from penstock.metrics.series import DAY_S, HOUR_S, MINUTE_S

NAME_LENGTH_MAX = 255  # of a namespace, a metric, a dimension, an alarm
DIMENSION_VALUE_LENGTH_MAX = 1024
DIMENSIONS_MAX = 30

DATA_MAX = 1000  # of one PutMetricData
ENTITIES_MAX = 2
VALUES_MAX = 150  # of one datum
DATA_MEMBERS_MAX = 100_000  # of all lists of one PutMetricData
DATA_AGE_S_MAX = 14 * DAY_S
DATA_AHEAD_S_MAX = 2 * HOUR_S
RESOLUTIONS = (1, MINUTE_S)

LISTED_METRICS_MAX = 500
LISTED_AGE_S = 14 * DAY_S
RECENTLY_ACTIVE_S = 3 * HOUR_S

STATISTICS_MAX, EXTENDED_STATISTICS_MAX = 5, 10
DATAPOINTS_MAX = 1440  # of GetMetricStatistics
QUERIES_MAX = 500
QUERY_MEMBERS_MAX = 20_000  # of all lists of one GetMetricData: each query may have thirty dimensions
MAX_DATAPOINTS = SERIES_VALUES_MAX
SEARCHED_METRICS_MAX = 500
EXPRESSION_LENGTH_MAX = 2048
LABEL_LENGTH_MAX = 1024
SHORT_PERIODS_S = (1, 5, 10, 20, 30)  # besides multiples of a minute

DESCRIPTION_LENGTH_MAX = 1024
ACTIONS_MAX = 5
ACTION_LENGTH_MAX = 1024
ALARM_SHORT_PERIODS_S = (10, 20, 30)
ALARM_RANGE_S_MAX, ALARM_LONG_RANGE_S_MAX = DAY_S, 7 * DAY_S  # the latter for periods of an hour and more
ALARM_METRICS_MAX = 10
ALARM_MEMBERS_MAX = 2000  # of all lists of one alarm: each of its metrics may have thirty dimensions
ALARM_ARN_LENGTH_MAX = 1600
ALARM_NAMES_MAX = 100
RECORDS_MAX = 100
STATE_REASON_LENGTH_MAX, STATE_DATA_LENGTH_MAX = 1023, 4000
SUPPRESSOR_S_MAX = 7 * DAY_S

DASHBOARD_BODY_BYTES_MAX = 1024 * 1024
WIDGETS_MAX = 500
METRICS_PER_WIDGET_MAX = 500
LISTED_DASHBOARDS_MAX = 1000
DELETED_DASHBOARDS_MAX = 100

TAGS_MAX = 50
TAG_KEY_LENGTH_MAX = 128
TAG_VALUE_LENGTH_MAX = 256
ARN_LENGTH_MAX = 1024

UNITS = (
    "Seconds", "Microseconds", "Milliseconds", "Bytes", "Kilobytes", "Megabytes", "Gigabytes", "Terabytes", "Bits",
    "Kilobits", "Megabits", "Gigabits", "Terabits", "Percent", "Count", "Bytes/Second", "Kilobytes/Second",
    "Megabytes/Second", "Gigabytes/Second", "Terabytes/Second", "Bits/Second", "Kilobits/Second", "Megabits/Second",
    "Gigabits/Second", "Terabits/Second", "Count/Second", "None",
)  # fmt: skip
