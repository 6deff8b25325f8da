// Alarms: their states, what they watch, and their history.
import { cloudwatch } from "../api.js";
import { time } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { attempt, Badge, Confirm, Dialog, Empty, Field, hashOf, Problem, rowKeys } from "../ui.js";

const OPERATORS = {
  GreaterThanThreshold: ">", GreaterThanOrEqualToThreshold: "≥", LessThanThreshold: "<", LessThanOrEqualToThreshold: "≤",
};
const METRICS = [
  ["ApproximateNumberOfMessagesVisible", "messages waiting", "Maximum"], ["ApproximateAgeOfOldestMessage", "age of the oldest message (seconds)", "Maximum"],
  ["ApproximateNumberOfMessagesNotVisible", "messages in flight", "Maximum"], ["NumberOfMessagesSent", "messages sent", "Sum"],
  ["NumberOfMessagesDeleted", "messages deleted", "Sum"], ["NumberOfEmptyReceives", "receives without a message", "Sum"],
];
const MISSING = ["missing", "notBreaching", "breaching", "ignore"];

async function allAlarms() {
  const found = [];
  let NextToken;
  do {
    const page = await cloudwatch("DescribeAlarms", { AlarmTypes: ["MetricAlarm", "CompositeAlarm"], ...(NextToken && { NextToken }) });
    found.push(...page.MetricAlarms, ...page.CompositeAlarms);
    ({ NextToken } = page);
  } while (NextToken);
  return found;
}

export const AlarmState = ({ state }) => html`<${Badge} kind=${{ ALARM: "danger", OK: "good" }[state] ?? ""}>${
  { ALARM: "alarm", OK: "ok", INSUFFICIENT_DATA: "no data" }[state] ?? state}<//>`;

export function condition(alarm) {
  if (alarm.AlarmRule) return alarm.AlarmRule;
  const watched = alarm.MetricName ?? "expression";
  const queue = alarm.Dimensions?.find(({ Name }) => Name === "QueueName")?.Value;
  const n = alarm.EvaluationPeriods, m = alarm.DatapointsToAlarm ?? n;
  return `${watched}${queue ? ` of ${queue}` : ""} ${OPERATORS[alarm.ComparisonOperator] ?? alarm.ComparisonOperator} ${alarm.Threshold}, `
    + `${m === n ? n : `${m} of ${n}`} × ${alarm.Period ?? "?"} s`;
}

export function Alarms({ allowed }) {
  const [alarms, setAlarms] = useState(null);
  const [error, setError] = useState(null);
  const [opened, setOpened] = useState(null);
  const [creating, setCreating] = useState(false);
  const load = () => allAlarms().then((found) => { setAlarms(found); setError(null); }, setError);
  useEffect(() => {
    load();
    const timer = setInterval(() => document.hidden || load(), 5000);
    return () => clearInterval(timer);
  }, []);
  const shown = alarms?.find((alarm) => alarm.AlarmName === opened);
  return html`
    <div class="head"><h1>Alarms</h1><div class="actions">
      ${allowed.has("cloudwatch:PutMetricAlarm") && html`<button class="primary" onClick=${() => setCreating(true)}>Create alarm</button>`}</div></div>
    <${Problem} error=${error} />
    ${alarms?.length === 0 ? html`<div class="card"><${Empty} title="No alarms yet">
        <p>An alarm watches a metric, such as the messages in a dead-letter queue, and sends a message to a queue when it is too high.</p><//></div>`
      : html`<div class="card scroll" tabindex="0" role="region" aria-label="Alarms"><table onKeyDown=${rowKeys}>
        <thead><tr><th>State</th><th>Name</th><th>Condition</th><th class="optional">Since</th></tr></thead>
        <tbody>${(alarms ?? []).map((alarm) => html`<tr key=${alarm.AlarmName} tabindex="-1">
          <td><${AlarmState} state=${alarm.StateValue} /></td>
          <td><button class="plain" onClick=${() => setOpened(alarm.AlarmName)}>${alarm.AlarmName}</button></td>
          <td>${condition(alarm)}</td><td class="optional">${time(alarm.StateUpdatedTimestamp * 1000)}</td></tr>`)}</tbody></table></div>`}
    ${shown && html`<${Alarm} alarm=${shown} allowed=${allowed} onClose=${() => { setOpened(null); load(); }} onChange=${load} />`}
    ${creating && html`<${CreateAlarm} onClose=${() => { setCreating(false); load(); }} />`}`;
}

function Alarm({ alarm, allowed, onClose, onChange }) {
  const [history, setHistory] = useState([]);
  const [deleting, setDeleting] = useState(false);
  const name = alarm.AlarmName;
  useEffect(() => {
    if (allowed.has("cloudwatch:DescribeAlarmHistory"))
      cloudwatch("DescribeAlarmHistory", { AlarmName: name, MaxRecords: 50 }).then((found) => setHistory(found.AlarmHistoryItems), () => {});
  }, [alarm.StateUpdatedTimestamp]);
  const switchActions = async () => {
    const action = alarm.ActionsEnabled ? "DisableAlarmActions" : "EnableAlarmActions";
    await attempt(() => cloudwatch(action, { AlarmNames: [name] }), `Actions of ${name} are ${alarm.ActionsEnabled ? "off" : "on"}.`);
    onChange();
  };
  const queue = alarm.Dimensions?.find(({ Name }) => Name === "QueueName")?.Value;
  const actions = [...(alarm.AlarmActions ?? []), ...(alarm.OKActions ?? []), ...(alarm.InsufficientDataActions ?? [])];
  if (deleting) return html`<${Confirm} title=${`Delete alarm ${name}`} action="Delete" onClose=${() => setDeleting(false)}
    onConfirm=${async () => { await cloudwatch("DeleteAlarms", { AlarmNames: [name] }); onClose(); }}><p>The alarm watches nothing from then on.</p><//>`;
  return html`<${Dialog} title=${name} onClose=${onClose} wide>
    <div class="row"><${AlarmState} state=${alarm.StateValue} /><span>${alarm.StateReason}</span></div>
    <dl class="facts">
      <dt>Condition</dt><dd>${condition(alarm)}</dd>
      ${queue && html`<dt>Queue</dt><dd><a href=${hashOf(["queue", queue])}>${queue}</a></dd>`}
      ${alarm.AlarmDescription && html`<dt>Description</dt><dd>${alarm.AlarmDescription}</dd>`}
      ${alarm.TreatMissingData && html`<dt>Missing data</dt><dd>${alarm.TreatMissingData}</dd>`}
      <dt>Actions</dt><dd>${alarm.ActionsEnabled ? "on" : "off"}${actions.map((each) => html`<div class="mono">${each}</div>`)}</dd>
    </dl>
    <section><h2>History</h2>
      ${history.length === 0 && html`<p class="soft">Nothing yet.</p>`}
      <dl class="facts">${history.map((item) => html`<dt>${time(item.Timestamp * 1000)}</dt><dd>${item.HistorySummary}</dd>`)}</dl></section>
    <footer>
      ${allowed.has("cloudwatch:DisableAlarmActions") && html`<button onClick=${switchActions}>${alarm.ActionsEnabled ? "Switch actions off" : "Switch actions on"}</button>`}
      ${allowed.has("cloudwatch:DeleteAlarms") && html`<button class="danger" onClick=${() => setDeleting(true)}>Delete</button>`}
    </footer>
  <//>`;
}

function CreateAlarm({ onClose }) {
  const create = async (event) => {
    event.preventDefault();
    const given = Object.fromEntries(new FormData(event.target));
    const [MetricName, , Statistic] = METRICS[Number(given.metric)];
    const alarm = {
      AlarmName: given.name, Namespace: "AWS/SQS", MetricName, Statistic, Dimensions: [{ Name: "QueueName", Value: given.queue }],
      ComparisonOperator: given.operator, Threshold: Number(given.threshold), Period: Number(given.period),
      EvaluationPeriods: Number(given.periods), TreatMissingData: given.missing, ...(given.action && { AlarmActions: [given.action] }),
    };
    if (await attempt(() => cloudwatch("PutMetricAlarm", alarm), `Alarm ${given.name} was created.`)) onClose();
  };
  return html`<${Dialog} title="Create alarm" onClose=${onClose}><form onSubmit=${create}>
    <${Field} label="Name"><input name="name" required maxlength="255" autofocus /><//>
    <${Field} label="Queue"><input name="queue" required maxlength="80" /><//>
    <${Field} label="Metric"><select name="metric">${METRICS.map(([, title], at) => html`<option value=${at}>${title}</option>`)}</select><//>
    <div class="row">
      <${Field} label="Comparison"><select name="operator">${Object.entries(OPERATORS).map(([value, sign]) => html`<option value=${value}>${sign}</option>`)}</select><//>
      <${Field} label="Threshold"><input name="threshold" type="number" step="any" required value="0" /><//>
      <${Field} label="Period (s)"><input name="period" type="number" required value="60" min="10" /><//>
      <${Field} label="Periods"><input name="periods" type="number" required value="1" min="1" /><//>
    </div>
    <${Field} label="While there are no values"><select name="missing">${MISSING.map((each) => html`<option selected=${each === "notBreaching"}>${each}</option>`)}</select><//>
    <${Field} label="Send a message to" hint="ARN of a queue; optional."><input name="action" /><//>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Create</button></footer>
  </form><//>`;
}
