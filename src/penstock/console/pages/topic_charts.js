// The charts of a topic, from its metrics in CloudWatch.
import { Chart, Ranges } from "../charts.js";
import { html, useState } from "../html.js";
import { metricData, perSecond, RANGES, useRepeated } from "../metrics.js";
import { Problem } from "../ui.js";

const CHARTS = [
  ["Published per second", [["NumberOfMessagesPublished", "published"]]],
  ["Notifications per second", [["NumberOfNotificationsDelivered", "delivered"], ["NumberOfNotificationsFilteredOut", "filtered out"]]],
  ["Failures per second", [["NumberOfNotificationsFailed", "failed"], ["NumberOfNotificationsRedrivenToDlq", "to the dead-letter queue"],
    ["NumberOfNotificationsFailedToRedriveToDlq", "lost"]]],
  ["Published bytes per second", [["PublishSize", "bytes"]]],
];
const METRICS = CHARTS.flatMap(([, metrics]) => metrics.map(([name]) => name));

export function TopicCharts({ name, allowed }) {
  const [chosen, setChosen] = useState(0);
  const [, range, finest] = RANGES[chosen];
  if (!allowed.has("cloudwatch:GetMetricData")) return null;
  return html`
    <div class="row"><h2>Charts</h2><${Ranges} chosen=${chosen} onChoose=${setChosen} /></div>
    <${Charts} name=${name} range=${range} period=${Math.max(finest, 60)} />`;
}

function Charts({ name, range, period }) {
  const Dimensions = [{ Name: "TopicName", Value: name }];
  const queries = METRICS.map((MetricName, at) => ({ Id: `m${at}`, Label: MetricName, MetricStat: {
    Metric: { Namespace: "AWS/SNS", MetricName, Dimensions }, Period: period, Stat: "Sum" } }));
  const { data, error } = useRepeated(() => metricData(queries, range, period), [name, range, period], 15);
  if (!data) return html`<${Problem} error=${error} />`;
  const found = new Map(data.map((each) => [each.label, each]));
  return html`<${Problem} error=${error} /><div class="grid charts">${CHARTS.map(([title, metrics]) => html`<${Chart} key=${title} title=${title} unit="/s"
    range=${range} series=${metrics.map(([metric, label]) => perSecond({ times: [], values: [], ...found.get(metric), label }, period))} />`)}</div>`;
}
