// Values of metrics, from the CloudWatch API of the server.
import { cloudwatch } from "./api.js";
import { useEffect, useState } from "./html.js";

// How long back, and in which steps: [title, seconds, period].
export const RANGES = [["15 min", 900, 10], ["3 h", 10_800, 60], ["1 day", 86_400, 300], ["15 days", 1_296_000, 3_600]];

// queries as GetMetricData takes them; the answer is [{id, label, times, values}].
export async function metricData(queries, range, period) {
  const now = Math.floor(Date.now() / 1000);
  const end = now - (now % period) + period;
  const asked = { MetricDataQueries: queries, StartTime: end - range, EndTime: end, ScanBy: "TimestampAscending" };
  const found = new Map();
  let NextToken;
  do {
    const page = await cloudwatch("GetMetricData", NextToken ? { ...asked, NextToken } : asked);
    for (const { Id, Label, Timestamps, Values } of page.MetricDataResults) {
      const before = found.get(Id) ?? { id: Id, label: Label, times: [], values: [] };
      found.set(Id, { ...before, times: [...before.times, ...Timestamps], values: [...before.values, ...Values] });
    }
    ({ NextToken } = page);
  } while (NextToken);
  return [...found.values()];
}

// The values from start to end, with 0 for periods that have none.
export function filled({ times = [], values = [] } = {}, start, end, period) {
  const byTime = new Map(times.map((time, at) => [time, values[at]]));
  const found = [];
  for (let time = start; time < end; time += period) found.push(byTime.get(time) ?? 0);
  return found;
}

// What was counted in each period, per second. Without the period that is not over: it would look as if less happened.
export function perSecond({ times, values, label }, period) {
  const ended = times.filter((time) => time + period <= Date.now() / 1000).length;
  return { label, times: times.slice(0, ended), values: values.slice(0, ended).map((value) => value / period) };
}

// Asks again every few seconds while the page is shown.
export function useRepeated(ask, inputs, every) {
  const [state, setState] = useState({ data: null, error: null });
  useEffect(() => {
    let current = true, asking = false;
    const load = async () => {
      if (document.hidden || asking) return;
      asking = true; // an answer may take longer than the pause
      try {
        const data = await ask();
        if (current) setState({ data, error: null });
      } catch (error) {
        if (current) setState((before) => ({ ...before, error }));
      }
      asking = false;
    };
    load();
    const timer = setInterval(load, every * 1000);
    return () => {
      current = false;
      clearInterval(timer);
    };
  }, inputs);
  return state;
}
