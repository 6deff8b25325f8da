// Changes of many messages: what would happen, then a task with its progress.
import { admin, query, queuePath, watch } from "../api.js";
import { count, plural, time } from "../format.js";
import { html, useState } from "../html.js";
import { attempt, Badge, Dialog, Empty, Field, Problem, Progress, TypeToConfirm, useWatched } from "../ui.js";

// What each is called in the list, and what the button says that starts it. Delete is last: nothing is lost by the others.
const OPERATIONS = [
  ["move", "Move to another queue", (messages) => `Move ${messages}`],
  ["copy", "Copy to another queue", (messages) => `Copy ${messages}`],
  ["dead-letter", "To the dead-letter queue", (messages) => `Dead-letter ${messages}`],
  ["redrive", "Back to their source", (messages) => `Redrive ${messages}`],
  ["release", "Make visible now", (messages) => `Make ${messages} visible`],
  ["reset", "Reset counts", (messages) => `Reset counts of ${messages}`],
  ["delete", "Delete", (messages) => `Delete ${messages}`],
];
const NUMBERS = ["older_than_s", "receives_min"];

export function RedriveButton({ queue, allowed }) {
  const [open, setOpen] = useState(false);
  return allowed.has("penstock:StartTask") && html`<button class="primary" onClick=${() => setOpen(true)}>Redrive</button>
    ${open && html`<${BulkDialog} queue=${queue} filter=${{}} operation="redrive" onClose=${() => setOpen(false)} />`}`;
}

// Nothing is chosen beforehand. What cannot be undone asks for the name of the queue, as a purge does.
export function BulkDialog({ queue, filter, operation: first = "", onClose }) {
  const [operation, setOperation] = useState(first);
  const [to, setTo] = useState("");
  const [rate, setRate] = useState("");
  const [plan, setPlan] = useState(null);
  const [confirmed, setConfirmed] = useState("");
  const [task, setTask] = useState(null);
  const destroys = operation === "delete";
  const needsTarget = operation === "move" || operation === "copy";
  const typed = Object.fromEntries(Object.entries(filter).map(([name, value]) => [
    name, NUMBERS.includes(name) ? Number(value) : name === "attribute" ? [value] : value]));
  const request = { operation, filter: typed, ...(needsTarget && { to }), ...(rate && { rate: Number(rate) }) };
  const start = (more) => admin("POST", `${queuePath(queue.name)}/tasks`, { ...request, ...more });
  const look = async (event) => {
    event.preventDefault();
    const found = await attempt(() => start({ dry_run: true }));
    if (found) setPlan(found);
  };
  const run = async () => {
    const begun = await attempt(() => start({}));
    if (begun) setTask(begun);
  };
  const choose = (event) => {
    setOperation(event.target.value);
    setPlan(null);
    setConfirmed("");
  };
  const messages = plan && `${plan.complete === false ? "at least " : ""}${plural(plan.can ?? 0, "message")}`;
  const chosen = Object.entries(filter).map(([name, value]) => `${name} ${value}`).join(", ");
  if (task) return html`<${Dialog} title=${`${operation} in ${queue.name}`} onClose=${onClose}><${Running} queue=${queue.name} task=${task} /><//>`;
  return html`<${Dialog} title=${operation === "redrive" ? `Redrive ${queue.name}` : `Change messages of ${queue.name}`} onClose=${onClose}>
    <form onSubmit=${look}>
      <p class="soft">${chosen ? `Messages with: ${chosen}.` : "All messages of the queue."}</p>
      <${Field} label="What to do"><select required value=${operation} onChange=${choose}>
        <option value="" disabled>Choose</option>
        ${OPERATIONS.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select><//>
      ${needsTarget && html`<${Field} label="Queue"><input required value=${to} onInput=${(event) => { setTo(event.target.value); setPlan(null); }} /><//>`}
      <${Field} label="At most this many a second" hint="As fast as possible if empty."><input type="number" min="1" value=${rate} onInput=${(event) => setRate(event.target.value)} /><//>
      ${plan && html`<div class="card plan"><p><b>${plural(plan.can ?? 0, "message")}</b> ${destroys ? "will be deleted" : "can be changed"}${plan.complete === false ? " of those looked at so far" : ""}.
        ${destroys && plan.can > 0 && " This cannot be undone."}</p>
        ${plan.cannot.map(({ reason, count: each }) => html`<p class="soft">${plural(each, "message")} cannot: ${reason}</p>`)}</div>
        ${destroys && plan.can > 0 && html`<${TypeToConfirm} name=${queue.name} text=${confirmed} onText=${setConfirmed} />`}`}
      <footer><button type="button" onClick=${onClose}>Cancel</button>
        ${plan ? html`<button type="button" class=${destroys ? "danger" : "primary"} onClick=${run}
            disabled=${!plan.can || (destroys && confirmed !== queue.name)}>${OPERATIONS.find(([value]) => value === operation)[2](messages)}</button>`
          : html`<button class="primary" disabled=${!operation}>See what would happen</button>`}</footer>
    </form><//>`;
}

function Running({ queue, task }) {
  const path = `${queuePath(queue)}/tasks/${encodeURIComponent(task.id)}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  return html`<${Problem} error=${error} /><${TaskState} task=${data ?? task} />`;
}

function TaskState({ task }) {
  const cancel = () => attempt(() => admin("DELETE", `${queuePath(task.queue)}/tasks/${encodeURIComponent(task.id)}`), "The task was cancelled.");
  const kind = { completed: "good", failed: "danger", cancelled: "warn" }[task.status] ?? "";
  return html`<div class="card">
    <div class="row"><b>${task.operation}</b>${task.to && html`<span>to ${task.to}</span>`}<${Badge} kind=${kind}>${task.status}<//>
      <span class="soft">${time(task.started_at)}</span>
      ${task.status === "running" && html`<button class="small" onClick=${cancel}>Cancel</button>`}</div>
    <${Progress} done=${task.looked_at ?? 0} total=${task.total ?? 0} />
    <p class="soft">${count(task.done ?? 0)} of ${plural(task.total ?? 0, "message")} changed${task.rate ? `, at most ${task.rate} a second` : ""}.
      ${task.failure && ` ${task.failure}`}</p>
    ${(task.cannot ?? []).map(({ reason, count: each }) => html`<p class="soft">${plural(each, "message")} not changed: ${reason}</p>`)}
  </div>`;
}

export function Tasks({ queue }) {
  const path = `tasks${query({ queue: queue.name })}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  return html`<${Problem} error=${error} />
    ${data?.tasks.length === 0 && html`<${Empty} title="No tasks">
      <p>Redrive dead letters, or change all messages that match a filter on the page Messages.</p><//>`}
    ${data?.tasks.map((task) => html`<${TaskState} key=${task.id} task=${task} />`)}`;
}
