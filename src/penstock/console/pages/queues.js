// All queues with live counts, and what to do when there are none. Who may not use the admin API sees what SQS tells.
import { admin, query, sqs, watch } from "../api.js";
import { Spark } from "../charts.js";
import { bytes, count, duration, named, rate } from "../format.js";
import { html, useState } from "../html.js";
import { filled, useRepeated } from "../metrics.js";
import { attempt, Badge, Copy, Dialog, Empty, Field, hashOf, NotAllowed, Problem, replaceHash, rowKeys, Sortable, useWatched } from "../ui.js";

const PAGE = 100;

const LIST = "penstock:ListQueues";

export function Queues(given) {
  return given.allowed.has(LIST) ? html`<${AllQueues} ...${given} />` : html`<${QueuesOfSqs} ...${given} />`;
}

function AllQueues({ params, allowed, user }) {
  const { contains = "", kind = "", sort = "name", descending = "", after = "", page = "1" } = params;
  const [before, setBefore] = useState([]); // where the pages before this one begin, as far as they were seen
  const [creating, setCreating] = useState(false);
  const [paused, setPaused] = useState(false);
  const path = `queues${query({ contains, kind, sort, descending, after, limit: PAGE, totals: true })}`;
  const { data, error } = useWatched(
    (onData, onError) => (paused ? () => {} : watch(path, onData, onError)), [path, paused]);
  const sparks = useSentLately(allowed, sort === "name" ? (data?.queues[0]?.name ?? "") : "");
  const change = (more) => {
    setBefore([]);
    replaceHash(["queues"], { contains, kind, sort, descending, ...more });
  };
  const turn = (to, begins, seen) => {
    setBefore(seen);
    replaceHash(["queues"], { contains, kind, sort, descending, after: begins, page: begins && to });
  };
  const onSort = (name, down) => change({ sort: name, descending: down });
  const queues = data?.queues ?? [];
  const here = after ? Number(page) || 1 : 1;
  const unfiltered = !contains && !kind && !after;
  const head = (name, title, numeric = true) => html`<${Sortable} name=${name} sort=${sort} descending=${descending === "true"}
    numeric=${numeric} onSort=${onSort}>${title}<//>`;

  return html`
    <div class="head">
      <h1>Queues</h1>
      <div class="actions">
        <button aria-pressed=${paused} onClick=${() => setPaused(!paused)}>${paused ? "Resume" : "Pause"}</button>
        ${allowed.has("sqs:CreateQueue") && html`<button class="primary" onClick=${() => setCreating(true)}>Create queue</button>`}
      </div>
    </div>
    <${Problem} error=${error} />
    ${data && queues.length === 0 && unfiltered ? html`<${FirstSteps} user=${user} />` : html`
      <div class="row">
        <input class="grow" data-filter type="search" placeholder="Filter by name" aria-label="Filter by name" value=${contains}
          onInput=${(event) => change({ contains: event.target.value })} />
        <select aria-label="Kind" value=${kind} onChange=${(event) => change({ kind: event.target.value })}>
          <option value="">All kinds</option><option value="standard">Standard</option>
          <option value="fifo">FIFO</option><option value="dlq">Dead-letter queues</option>
        </select>
      </div>
      ${data?.totals && html`<${Totals} totals=${data.totals} filtered=${contains || kind} />`}
      <div class="card scroll" tabindex="0" role="region" aria-label="Queues"><table onKeyDown=${rowKeys}>
        <thead><tr>
          ${head("name", "Name", false)}${head("visible", "Waiting")}${head("in_flight", "In flight")}
          ${head("delayed", "Delayed")}${head("age", "Oldest")}${head("sent_rate", "Sent / s")}
          <th class="number optional">Received / s</th><th class="optional">Sent, last hour</th>${head("bytes", "Size")}
        </tr></thead>
        <tbody>${queues.map((queue) => html`<tr key=${queue.name} tabindex="-1">
          <td><a href=${hashOf(["queue", queue.name])}>${queue.name}</a>
            ${" "}${queue.kind === "fifo" && html`<${Badge}>FIFO<//>`}
            ${queue.is_dead_letter_queue && html`<${Badge} kind=${queue.visible ? "danger" : ""}>dead letters<//>`}</td>
          <td class="number">${count(queue.visible)}</td><td class="number">${count(queue.in_flight)}</td>
          <td class="number">${count(queue.delayed)}</td><td class="number">${duration(queue.oldest_age_s)}</td>
          <td class="number">${rate(queue.sent_rate)}</td><td class="number optional">${rate(queue.received_rate)}</td>
          <td class="optional"><${Spark} values=${sparks.get(queue.name)} /></td>
          <td class="number">${bytes(queue.bytes)}</td>
        </tr>`)}</tbody>
      </table>
      ${data && queues.length === 0 && html`<${Empty} title="No queue matches" />`}
      </div>
      ${data && (after || data.next) && html`<nav class="row" aria-label="Pages of queues">
        ${after && html`<button onClick=${() => turn(1, "", [])}>First page</button>`}
        ${before.length > 0 && html`<button onClick=${() => turn(here - 1, before.at(-1), before.slice(0, -1))}>Previous page</button>`}
        ${data.next && html`<button onClick=${() => turn(here + 1, data.next, [...before, after])}>Next page</button>`}
        <span class="soft">Page ${count(here)} of ${count(Math.max(here, Math.ceil((data.totals?.queues ?? 0) / PAGE)))}</span>
      </nav>`}`}
    ${creating && html`<${CreateQueue} onClose=${() => setCreating(false)} />`}`;
}

const COUNTS = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible", "ApproximateNumberOfMessagesDelayed"];

function QueuesOfSqs({ params, allowed, user }) {
  const { after = "" } = params;
  const [creating, setCreating] = useState(false);
  const listed = allowed.has("sqs:ListQueues");
  const { data, error } = useRepeated(async () => (listed ? pageOfSqs(after, allowed) : { queues: [] }), [after, listed], 15);
  const turn = (begins) => replaceHash(["queues"], { after: begins });
  return html`
    <div class="head">
      <h1>Queues</h1>
      <div class="actions">${allowed.has("sqs:CreateQueue") && html`<button class="primary" onClick=${() => setCreating(true)}>Create queue</button>`}</div>
    </div>
    <${NotAllowed} permission=${LIST} allowed=${allowed} user=${user}>
      ${listed && "This list has what SQS tells, without ages, rates and messages."}<//>
    <${Problem} error=${error} />
    ${listed && data && html`<div class="card scroll" tabindex="0" role="region" aria-label="Queues"><table onKeyDown=${rowKeys}>
      <thead><tr><th>Name</th><th class="number">Waiting</th><th class="number">In flight</th><th class="number">Delayed</th></tr></thead>
      <tbody>${data.queues.map(({ name, counts }) => html`<tr key=${name} tabindex="-1">
        <td><a href=${hashOf(["queue", name])}>${name}</a></td>
        ${COUNTS.map((each) => html`<td class="number">${count(counts[each])}</td>`)}</tr>`)}</tbody>
    </table>${!data.queues.length && html`<${Empty} title="There are no queues" />`}</div>
    ${(after || data.next) && html`<nav class="row" aria-label="Pages of queues">
      ${after && html`<button onClick=${() => turn("")}>First page</button>`}
      ${data.next && html`<button onClick=${() => turn(data.next)}>Next page</button>`}
    </nav>`}`}
    ${creating && html`<${CreateQueue} onClose=${() => setCreating(false)} />`}`;
}

// A count that may not be read is left out.
async function pageOfSqs(after, allowed) {
  const { QueueUrls = [], NextToken } = await sqs("ListQueues", { MaxResults: PAGE, ...(after && { NextToken: after }) });
  const counts = async (QueueUrl) => (await sqs("GetQueueAttributes", { QueueUrl, AttributeNames: COUNTS })).Attributes ?? {};
  const queues = QueueUrls.map(async (url) => ({
    name: url.split("/").pop(),
    counts: allowed.has("sqs:GetQueueAttributes") ? await counts(url).catch(() => ({})) : {},
  }));
  return { queues: await Promise.all(queues), next: NextToken };
}

// Messages sent in each minute of the last hour, by queue. The server has them in order of name, from "first" on.
function useSentLately(allowed, first) {
  const after = first && first.slice(0, -1);
  const path = `metrics${query({ metrics: "sent", start: -3600, period_s: 60, limit: 200, after })}`;
  const ask = async () => (allowed.has("penstock:ListQueueMetrics") ? admin("GET", path) : { queues: [] });
  const { data } = useRepeated(ask, [path], 30);
  const found = new Map();
  for (const { queue, series } of data?.queues ?? []) found.set(queue, filled(series[0], data.start, data.end, data.period_s));
  return found;
}

// Of all queues that match, whatever the page.
function Totals({ totals, filtered }) {
  const { queues, visible, in_flight, dead_letters, sent_rate, received_rate } = totals;
  return html`<div class="tiles" role="group" aria-label="All queues">
    <div class="tile"><b>${count(queues)}</b><span>${named(queues, "queue")}${filtered ? ` that ${queues === 1 ? "matches" : "match"}` : ""}</span></div>
    <div class="tile"><b>${count(visible)}</b><span>${named(visible, "message")} waiting</span></div>
    <div class="tile"><b>${count(in_flight)}</b><span>in flight</span></div>
    <div class="tile"><b>${count(dead_letters)}</b><span>${named(dead_letters, "dead letter")}</span></div>
    <div class="tile"><b>${rate(sent_rate)}</b><span>sent per second</span></div>
    <div class="tile"><b>${rate(received_rate)}</b><span>received per second</span></div>
  </div>`;
}

function FirstSteps({ user }) {
  const address = location.origin;
  const keys = user.secured ? "" : ` \\\n    aws_access_key_id="any", aws_secret_access_key="any",`.replace(" \\", "");
  const python = `import boto3

sqs = boto3.client("sqs", endpoint_url="${address}", region_name="${user.region}",${keys}
)
url = sqs.create_queue(QueueName="orders")["QueueUrl"]
sqs.send_message(QueueUrl=url, MessageBody="one espresso")`;
  const shell = `aws --endpoint-url ${address} sqs create-queue --queue-name orders
aws --endpoint-url ${address} sqs send-message --queue-url orders --message-body "two lattes"
penstock queue ls --endpoint-url ${address}`;
  return html`<div class="card"><h2>There are no queues yet</h2>
    <p>Create one here, or with any client of Amazon SQS. It appears on this page at once.</p>
    <div class="grid">
      <div><div class="row"><h2>Python</h2><${Copy} text=${python} /></div><pre>${python}</pre></div>
      <div><div class="row"><h2>Terminal</h2><${Copy} text=${shell} /></div><pre>${shell}</pre></div>
    </div></div>`;
}

function CreateQueue({ onClose }) {
  const [fifo, setFifo] = useState(false);
  const create = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const Attributes = {};
    for (const name of ["VisibilityTimeout", "DelaySeconds", "MessageRetentionPeriod"])
      if (given.get(name)) Attributes[name] = given.get(name);
    let name = given.get("name").trim();
    if (fifo) {
      Attributes.FifoQueue = "true";
      if (given.get("content")) Attributes.ContentBasedDeduplication = "true";
      if (!name.endsWith(".fifo")) name += ".fifo";
    }
    if (await attempt(() => sqs("CreateQueue", { QueueName: name, Attributes }), `Queue ${name} was created.`)) {
      onClose();
      location.hash = hashOf(["queue", name]);
    }
  };
  return html`<${Dialog} title="Create queue" onClose=${onClose}><form onSubmit=${create}>
    <${Field} label="Name"><input name="name" required maxlength="80" pattern="[A-Za-z0-9_\\-]+(\\.fifo)?" autofocus /><//>
    <label class="row"><input type="checkbox" checked=${fifo} onChange=${(event) => setFifo(event.target.checked)} /> FIFO: keep the order, drop duplicates</label>
    ${fifo && html`<label class="row"><input type="checkbox" name="content" /> Recognize duplicates by their content</label>`}
    <div class="grid">
      <${Field} label="Visibility timeout" hint="Seconds; 30 if empty."><input name="VisibilityTimeout" type="number" min="0" max="43200" /><//>
      <${Field} label="Delay" hint="Seconds; 0 if empty."><input name="DelaySeconds" type="number" min="0" max="900" /><//>
      <${Field} label="Retention" hint="Seconds; 4 days if empty."><input name="MessageRetentionPeriod" type="number" min="60" max="1209600" /><//>
    </div>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Create</button></footer>
  </form><//>`;
}
