// Dashboards of CloudWatch: their metric and text widgets.
import { cloudwatch } from "../api.js";
import { Chart, Ranges } from "../charts.js";
import { bytes, time } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { metricData, RANGES, useRepeated } from "../metrics.js";
import { attempt, Confirm, Dialog, Empty, Field, hashOf, Problem } from "../ui.js";

export function Dashboards({ parts, allowed }) {
  return parts[1] ? html`<${Dashboard} name=${parts[1]} allowed=${allowed} />` : html`<${List} allowed=${allowed} />`;
}

function List({ allowed }) {
  const [entries, setEntries] = useState(null);
  const [error, setError] = useState(null);
  const [creating, setCreating] = useState(false);
  const load = () => cloudwatch("ListDashboards").then((found) => setEntries(found.DashboardEntries), setError);
  useEffect(() => { load(); }, []);
  return html`
    <div class="head"><h1>Dashboards</h1><div class="actions">
      ${allowed.has("cloudwatch:PutDashboard") && html`<button class="primary" onClick=${() => setCreating(true)}>Create dashboard</button>`}</div></div>
    <${Problem} error=${error} />
    <div class="card scroll" tabindex="0" role="region" aria-label="Dashboards">
      ${entries?.length === 0 ? html`<${Empty} title="No dashboards yet"><p>A dashboard shows metrics of several queues on one page.</p><//>`
        : html`<table><thead><tr><th>Name</th><th class="optional">Changed</th><th class="number">Size</th></tr></thead>
          <tbody>${(entries ?? []).map((entry) => html`<tr key=${entry.DashboardName}><td><a href=${hashOf(["dashboards", entry.DashboardName])}>${entry.DashboardName}</a></td>
            <td class="optional">${time(entry.LastModified * 1000)}</td><td class="number">${bytes(entry.Size)}</td></tr>`)}</tbody></table>`}</div>
    ${creating && html`<${Edit} onClose=${() => setCreating(false)} />`}`;
}

function Dashboard({ name, allowed }) {
  const [body, setBody] = useState(null);
  const [error, setError] = useState(null);
  const [chosen, setChosen] = useState(1);
  const [asking, setAsking] = useState(null);
  const load = () => cloudwatch("GetDashboard", { DashboardName: name }).then((found) => setBody(found.DashboardBody), setError);
  useEffect(() => { load(); }, [name]);
  let widgets = [];
  try {
    widgets = JSON.parse(body ?? "{}").widgets ?? [];
  } catch { /* the server takes JSON only */ }
  const [, range, period] = RANGES[chosen];
  return html`
    <div class="head"><h1>${name}</h1><div class="actions">
      <${Ranges} chosen=${chosen} onChoose=${setChosen} />
      ${allowed.has("cloudwatch:PutDashboard") && html`<button onClick=${() => setAsking("edit")}>Edit</button>`}
      ${allowed.has("cloudwatch:DeleteDashboards") && html`<button class="danger" onClick=${() => setAsking("delete")}>Delete</button>`}</div></div>
    <${Problem} error=${error} />
    <div class="grid">${widgets.map((widget, at) => html`<${Widget} key=${at} widget=${widget} range=${range} period=${period} />`)}</div>
    ${body && widgets.length === 0 && html`<${Empty} title="The dashboard has no widgets" />`}
    ${asking === "edit" && html`<${Edit} name=${name} body=${body} onClose=${() => { setAsking(null); load(); }} />`}
    ${asking === "delete" && html`<${Confirm} title=${`Delete dashboard ${name}`} action="Delete" onClose=${() => setAsking(null)}
      onConfirm=${async () => { await cloudwatch("DeleteDashboards", { DashboardNames: [name] }); location.hash = "#/dashboards"; }}><p>This cannot be undone.</p><//>`}`;
}

function Widget({ widget, range, period }) {
  const { type, properties = {} } = widget;
  if (type === "text") return html`<div class="card"><${Markdown} text=${String(properties.markdown ?? "")} /></div>`;
  if (type !== "metric") return html`<div class="card"><p class="soft">A widget of the type ${String(type)} is not shown here.</p></div>`;
  return html`<${MetricWidget} properties=${properties} range=${range} period=${period} />`;
}

function MetricWidget({ properties, range, period }) {
  const ask = () => metricData(queriesOf(properties, period), range, period);
  const { data, error } = useRepeated(ask, [JSON.stringify([properties, range, period])], 15);
  const title = String(properties.title ?? "Metrics");
  if (error) return html`<div class="card"><h2>${title}</h2><${Problem} error=${error} /></div>`;
  return html`<${Chart} title=${title} series=${data ?? []} range=${range} />`;
}

// A metric of a widget is [namespace, name, dimension, value, …, {options}]; "." repeats what stands above, "..." the rest of it.
function queriesOf({ metrics = [], stat = "Average" }, period) {
  let before = [];
  return metrics.map((given, at) => {
    const options = typeof given.at(-1) === "object" ? given.at(-1) : {};
    const Id = options.id ?? `w${at}`;
    const common = { Id, ...(options.label && { Label: options.label }), ReturnData: options.visible !== false };
    if (options.expression) return { ...common, Expression: options.expression, Period: period };
    let texts = given.filter((each) => typeof each !== "object").map((each, index) => (each === "." ? before[index] : each));
    const dots = texts.indexOf("...");
    if (dots >= 0) texts = [...before.slice(0, before.length - (texts.length - dots - 1)), ...texts.slice(dots + 1)];
    before = texts;
    const [Namespace, MetricName, ...pairs] = texts;
    const Dimensions = [];
    for (let index = 0; index + 1 < pairs.length; index += 2) Dimensions.push({ Name: pairs[index], Value: pairs[index + 1] });
    return { ...common, MetricStat: { Metric: { Namespace, MetricName, Dimensions }, Period: period, Stat: options.stat ?? stat } };
  });
}

// Headings, lists and paragraphs of Markdown, as text: nothing in it becomes markup.
function Markdown({ text }) {
  return text.split("\n").map((line) => {
    const heading = /^(#{1,4})\s+(.*)/.exec(line);
    if (heading) return html`<h2>${heading[2]}</h2>`;
    const item = /^\s*[-*]\s+(.*)/.exec(line);
    return item ? html`<div>• ${item[1]}</div>` : html`<div>${line || "\u00a0"}</div>`;
  });
}

const EXAMPLE = JSON.stringify({ widgets: [
  { type: "text", properties: { markdown: "# Orders" } },
  { type: "metric", properties: { title: "Waiting", stat: "Maximum", metrics: [["AWS/SQS", "ApproximateNumberOfMessagesVisible", "QueueName", "orders"]] } },
] }, null, 2);

function Edit({ name, body = EXAMPLE, onClose }) {
  const [text, setText] = useState(body);
  const save = async (event) => {
    event.preventDefault();
    const chosen = name ?? new FormData(event.target).get("name");
    if (await attempt(() => cloudwatch("PutDashboard", { DashboardName: chosen, DashboardBody: text }), `Dashboard ${chosen} was saved.`)) {
      onClose();
      location.hash = hashOf(["dashboards", chosen]);
    }
  };
  return html`<${Dialog} title=${name ?? "Create dashboard"} onClose=${onClose} wide><form onSubmit=${save}>
    ${!name && html`<${Field} label="Name"><input name="name" required pattern="[A-Za-z0-9_\\-]+" maxlength="255" autofocus /><//>`}
    <${Field} label="Body" hint="As PutDashboard of CloudWatch takes it."><textarea rows="16" value=${text} spellcheck=${false} onInput=${(event) => setText(event.target.value)}></textarea><//>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Save</button></footer>
  </form><//>`;
}
