// The charts of a queue.
import { admin, query, queuePath } from "../api.js";
import { Chart, Ranges } from "../charts.js";
import { html, useState } from "../html.js";
import { perSecond, RANGES, useRepeated } from "../metrics.js";
import { Problem } from "../ui.js";

const RATE = "/s"; // what was counted in a period, over its length
const CHARTS = [
  ["Messages", "", [["visible", "waiting"], ["in_flight", "in flight"], ["delayed", "delayed"]]],
  ["Throughput per second", RATE, [["sent", "sent"], ["received", "received"], ["deleted", "deleted"]]],
  ["Age of the oldest message", "s", [["oldest_age", "age"]]],
  ["Receives without a message per second", RATE, [["empty_receives", "empty receives"]]],
];
const METRICS = CHARTS.flatMap(([, , metrics]) => metrics.map(([name]) => name)).join(",");

export function QueueCharts({ name, allowed }) {
  const [chosen, setChosen] = useState(0);
  const [, range, period] = RANGES[chosen];
  if (!allowed.has("penstock:GetQueueMetrics")) return null;
  return html`
    <div class="row"><h2>Charts</h2><${Ranges} chosen=${chosen} onChoose=${setChosen} /></div>
    <${Charts} name=${name} range=${range} period=${period} />`;
}

function Charts({ name, range, period }) {
  const path = `${queuePath(name)}/metrics${query({ metrics: METRICS, start: -range, period_s: period })}`;
  const ask = async () => (await admin("GET", path)).series;
  const { data, error } = useRepeated(ask, [name, range, period], Math.min(period, 30));
  if (!data) return html`<${Problem} error=${error} />`;
  const found = new Map(data.map((each) => [each.metric, each]));
  return html`<${Problem} error=${error} /><div class="grid charts">${CHARTS.map(([title, unit, metrics]) => {
    const shown = metrics.map(([metric, label]) => ({ times: [], values: [], ...found.get(metric), label }));
    return html`<${Chart} key=${title} title=${title} unit=${unit} range=${range}
      series=${unit === RATE ? shown.map((each) => perSecond(each, period)) : shown} />`;
  })}</div>`;
}
