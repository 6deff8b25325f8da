// Charts: small ones in tables, large ones with uPlot.
import { html, useEffect, useRef, useState } from "./html.js";
import { compact } from "./format.js";
import { RANGES } from "./metrics.js";

export function Ranges({ chosen, onChoose }) {
  return html`<div class="row" role="group" aria-label="Time range">${RANGES.map(([title], at) => html`
    <button class="small" aria-pressed=${at === chosen} onClick=${() => onChoose(at)}>${title}</button>`)}</div>`;
}

export function Spark({ values = [] }) {
  if (values.length < 2) return html`<svg class="spark" role="img" aria-label="No values yet"></svg>`;
  const top = Math.max(...values, 1e-9);
  const step = 100 / (values.length - 1);
  const path = values.map((value, at) => `${at ? "L" : "M"}${(at * step).toFixed(1)} ${(29 - (value / top) * 27).toFixed(1)}`).join("");
  return html`<svg class="spark" viewBox="0 0 100 30" preserveAspectRatio="none" role="img"
    aria-label=${`From ${compact(values[0])} to ${compact(values.at(-1))}`}><path d=${path} /></svg>`;
}

const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// series: [{label, times (seconds), values}], all drawn over the union of their times.
export function Chart({ title, series, unit = "", range }) {
  const holder = useRef();
  const plot = useRef(null);
  const [theme, setTheme] = useState(0);
  useEffect(() => {
    const changed = () => setTheme((before) => before + 1);
    addEventListener("theme", changed);
    return () => removeEventListener("theme", changed);
  }, []);
  const times = [...new Set(series.flatMap((each) => each.times))].sort((a, b) => a - b);
  const data = [times, ...series.map((each) => {
    const byTime = new Map(each.times.map((time, at) => [time, each.values[at]]));
    return times.map((time) => byTime.get(time) ?? null);
  })];
  const labels = series.map((each) => each.label).join("\n");
  useEffect(() => {
    const axis = { stroke: color("--soft"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line") } };
    const element = holder.current;
    const width = () => element.clientWidth || 300;
    plot.current = new uPlot({
      width: width(), height: 150, title: "", cursor: { drag: { x: false, y: false } },
      // The whole range, also where there are no values.
      scales: { x: range ? { range: () => [Date.now() / 1000 - range, Date.now() / 1000] } : {}, y: { range: (_, low, high) => [Math.min(0, low), high > 0 ? high * 1.08 : 1] } },
      axes: [axis, { ...axis, size: 56, values: (_, ticks) => ticks.map((tick) => compact(tick)) }],
      series: [{}, ...series.map((each, at) => ({
        label: each.label, stroke: color(`--chart-${(at % 4) + 1}`), width: 1.5, points: { show: times.length < 20 },
        value: (_, value) => (value === null || value === undefined ? "–" : `${compact(value)} ${unit}`),
      }))],
    }, data, element);
    const resized = new ResizeObserver(() => plot.current.setSize({ width: width(), height: 150 }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      plot.current.destroy();
    };
  }, [labels, theme, range, times.length < 20]);
  useEffect(() => plot.current.setData(data));
  return html`<figure class="card"><figcaption><h2>${title}</h2></figcaption>
    <div class="chart" ref=${holder} role="img" aria-label=${title}></div></figure>`;
}
