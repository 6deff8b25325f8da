// The charts of a queue.
import { Chart } from "../charts.js";
import { html, useState } from "../html.js";
import { queueMetric, RANGES, useMetricData } from "../metrics.js";
import { Problem } from "../ui.js";

const CHARTS = [
  ["Messages", "", [["ApproximateNumberOfMessagesVisible", "waiting", "Maximum"], ["ApproximateNumberOfMessagesNotVisible", "in flight", "Maximum"],
    ["ApproximateNumberOfMessagesDelayed", "delayed", "Maximum"]]],
  ["Throughput", "", [["NumberOfMessagesSent", "sent", "Sum"], ["NumberOfMessagesReceived", "received", "Sum"], ["NumberOfMessagesDeleted", "deleted", "Sum"]]],
  ["Age of the oldest message", "s", [["ApproximateAgeOfOldestMessage", "age", "Maximum"]]],
  ["Receives without a message", "", [["NumberOfEmptyReceives", "empty receives", "Sum"]]],
];

export function QueueCharts({ name, allowed }) {
  const [chosen, setChosen] = useState(0);
  const [, range, period] = RANGES[chosen];
  if (!allowed.has("cloudwatch:GetMetricData")) return null;
  return html`
    <div class="row"><h2>Charts</h2><div class="row" role="group" aria-label="Time range">${RANGES.map(([title], at) => html`
      <button class="small" aria-pressed=${at === chosen} onClick=${() => setChosen(at)}>${title}</button>`)}</div></div>
    <${Charts} name=${name} range=${range} period=${period} />`;
}

function Charts({ name, range, period }) {
  const all = CHARTS.flatMap(([, , metrics]) => metrics);
  const queries = all.map(([metric, , stat], at) => queueMetric(`m${at}`, name, metric, stat, period));
  const { data, error } = useMetricData(queries, range, period);
  if (!data) return html`<${Problem} error=${error} />`;
  const byId = new Map(data.map((each) => [each.id, each]));
  let at = 0;
  return html`<${Problem} error=${error} /><div class="grid">${CHARTS.map(([title, unit, metrics]) => {
    const series = metrics.map(([, label]) => ({ times: [], values: [], ...byId.get(`m${at++}`), label }));
    return html`<${Chart} key=${title} title=${title} unit=${unit} series=${series} range=${range} />`;
  })}</div>`;
}
