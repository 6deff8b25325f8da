// One queue: figures, messages, settings, tags, policy, tasks.
import { queuePath, sqs, watch } from "../api.js";
import { bytes, count, duration, plural, rate, time } from "../format.js";
import { html, useState } from "../html.js";
import { useQueuePermissions } from "../permissions.js";
import { Badge, Confirm, Copy, Empty, hashOf, NotAllowed, Problem, useWatched } from "../ui.js";
import { Messages } from "./messages.js";
import { QueueCharts } from "./queue_charts.js";
import { QueueScaling } from "./queue_scaling.js";
import { Settings } from "./queue_settings.js";
import { RedriveButton, Tasks } from "./tasks.js";

const LOOK = "penstock:GetQueue";

export function Queue({ parts, params, user }) {
  const [, name, tab = "overview"] = parts;
  const allowed = useQueuePermissions(name);
  const [asking, setAsking] = useState(null);
  const { data: queue, error } = useWatched((onData, onError) => watch(queuePath(name), onData, onError), [name]);
  if (!queue)
    return !error ? html`<p class="soft">Loading</p>`
      : allowed.remedies[LOOK] ? html`<div class="head"><h1>${name}</h1></div>
          <${NotAllowed} permission=${LOOK} allowed=${allowed} user=${user} /><p><a href="#/queues">All queues</a></p>`
      : html`<${Empty} title=${`Queue ${name}`}><${Problem} error=${error} /><p><a href="#/queues">All queues</a></p><//>`;
  const tabs = [["overview", "Overview"], ["messages", "Messages", "penstock:ListMessages"], ["settings", "Settings"],
    ["tasks", "Tasks", "penstock:ListTasks"]].filter(([, , permission]) => !permission || allowed.has(permission));
  const close = () => setAsking(null);
  return html`
    <div class="head">
      <h1>${queue.name}</h1>
      <${Badge}>${queue.kind === "fifo" ? "FIFO" : "standard"}<//>
      ${queue.is_dead_letter_queue && html`<${Badge} kind="warn">dead-letter queue<//>`}
      <div class="actions">
        ${queue.is_dead_letter_queue && html`<${RedriveButton} queue=${queue} allowed=${allowed} />`}
        ${allowed.has("sqs:PurgeQueue") && html`<button class="danger" onClick=${() => setAsking("purge")}>Purge</button>`}
        ${allowed.has("sqs:DeleteQueue") && html`<button class="danger" onClick=${() => setAsking("delete")}>Delete</button>`}
      </div>
    </div>
    <${Problem} error=${error} />
    <nav class="tabs" aria-label="Parts of the queue">${tabs.map(([key, title]) => html`
      <a href=${hashOf(["queue", name, key])} aria-current=${tab === key ? "page" : undefined}>${title}</a>`)}</nav>
    ${tab === "overview" && html`<${Overview} queue=${queue} allowed=${allowed} params=${params} user=${user} />`}
    ${tab === "messages" && html`<${Messages} queue=${queue} allowed=${allowed} params=${params} />`}
    ${tab === "settings" && html`<${Settings} queue=${queue} allowed=${allowed} />`}
    ${tab === "tasks" && html`<${Tasks} queue=${queue} allowed=${allowed} />`}
    ${asking === "purge" && html`<${Confirm} title=${`Purge ${name}`} action="Purge" typed=${name} onClose=${close}
      onConfirm=${() => sqs("PurgeQueue", { QueueUrl: queue.url })}>
      <p>All ${plural(queue.visible + queue.in_flight + queue.delayed, "message")} will be deleted. This cannot be undone.</p><//>`}
    ${asking === "delete" && html`<${Confirm} title=${`Delete ${name}`} action="Delete" typed=${name} onClose=${close}
      onConfirm=${async () => { await sqs("DeleteQueue", { QueueUrl: queue.url }); location.hash = "#/queues"; }}>
      <p>The queue and its ${plural(queue.visible + queue.in_flight + queue.delayed, "message")} will be deleted. This cannot be undone.</p><//>`}`;
}

function Overview({ queue, allowed, params, user }) {
  return html`
    <div class="tiles">
      <div class="tile"><b>${count(queue.visible)}</b><span>waiting</span></div>
      <div class="tile"><b>${count(queue.in_flight)}</b><span>in flight</span></div>
      <div class="tile"><b>${count(queue.delayed)}</b><span>delayed</span></div>
      <div class="tile"><b>${duration(queue.oldest_age_s)}</b><span>oldest message</span></div>
      <div class="tile"><b>${rate(queue.sent_rate)}</b><span>sent per second</span></div>
      <div class="tile"><b>${rate(queue.received_rate)}</b><span>received per second</span></div>
      <div class="tile"><b>${rate(queue.deleted_rate)}</b><span>deleted per second</span></div>
      <div class="tile"><b>${count(queue.waiting_receives)}</b><span>receivers waiting</span></div>
    </div>
    <${QueueCharts} name=${queue.name} allowed=${allowed} />
    <${QueueScaling} queue=${queue} allowed=${allowed} params=${params} user=${user} />
    <div class="grid">
      <div class="card"><h2>Dead letters</h2><${Wiring} queue=${queue} /></div>
      <div class="card"><h2>Facts</h2><dl class="facts">
        <dt>URL</dt><dd><span class="mono">${queue.url}</span> <${Copy} text=${queue.url} /></dd>
        <dt>ARN</dt><dd><span class="mono">${queue.arn}</span> <${Copy} text=${queue.arn} /></dd>
        <dt>Stored</dt><dd>${bytes(queue.bytes)}</dd>
        <dt>Created</dt><dd>${time(queue.created_at)}</dd><dt>Changed</dt><dd>${time(queue.modified_at)}</dd>
      </dl></div>
    </div>`;
}

// The queues that messages come from when they fail, this one, and where its own failed ones go.
function Wiring({ queue }) {
  const link = (name) => html`<a class="node" href=${hashOf(["queue", name])}>${name}</a>`;
  const sources = queue.sources ?? [];
  if (!sources.length && !queue.dead_letter_queue)
    return html`<p class="soft">No dead-letter queue. Messages that fail are delivered again until they expire.</p>`;
  return html`<div class="wiring">
    ${sources.length > 0 && html`<div class="wiring">${sources.slice(0, 12).map(link)}${sources.length > 12 && html`<span class="soft">and ${sources.length - 12} more</span>`}</div>
      <span aria-label="sends dead letters to">→</span>`}
    <span class="node here">${queue.name}</span>
    ${queue.dead_letter_queue && html`<span aria-label="sends dead letters to">→</span>${link(queue.dead_letter_queue)}
      <span class="soft">after ${plural(queue.max_receives, "receive")}</span>`}
  </div>`;
}
