// The process that answers, its store, and the shards of all processes.
import { watch } from "../api.js";
import { bytes, count, duration } from "../format.js";
import { html } from "../html.js";
import { Badge, Problem, Progress, useWatched } from "../ui.js";

export function Server({ allowed }) {
  const { data: status, error } = useWatched((onData, onError) => watch("status", onData, onError), []);
  if (!status) return html`<${Problem} error=${error} />`;
  const { store, shards } = status;
  const owners = [...new Set(shards.map((shard) => shard.owner).filter(Boolean))];
  return html`
    <div class="head"><h1>Server</h1><${Badge}>version ${status.version}<//>${status.node && html`<${Badge}>node ${status.node}<//>`}</div>
    <${Problem} error=${error} />
    ${store.refuses && html`<p class="problem" role="alert">Sends are refused: ${store.refuses}</p>`}
    ${store.disk_low && html`<p class="problem" role="alert">The disk is nearly full: ${store.disk_low}</p>`}
    <div class="tiles">
      <div class="tile"><b>${duration(status.uptime_s)}</b><span>running</span></div>
      <div class="tile"><b>${count(status.connections)}</b><span>connections</span></div>
      <div class="tile"><b>${count(shards.reduce((sum, shard) => sum + shard.messages, 0))}</b><span>messages</span></div>
      <div class="tile"><b>${count(status.running_tasks)}</b><span>running tasks</span></div>
      ${owners.length > 0 && html`<div class="tile"><b>${count(owners.length)}</b><span>processes</span></div>`}
    </div>
    <div class="grid">
      <div class="card"><h2>Store</h2><dl class="facts">
        <dt>Kind</dt><dd>${store.kind}</dd><dt>Durability</dt><dd>${store.durability}</dd><dt>Encryption</dt><dd>${store.encryption}</dd>
        ${store.used_bytes !== undefined && html`<dt>Used</dt><dd>${bytes(store.used_bytes)}</dd>`}
        ${store.free_bytes !== undefined && html`<dt>Free on the disk</dt><dd>${bytes(store.free_bytes)}</dd>`}
      </dl></div>
      <div class="card"><h2>Memory for messages</h2><p>${bytes(status.memory_used)} of ${bytes(status.memory_budget)}</p>
        <${Progress} done=${status.memory_used} total=${status.memory_budget} /></div>
    </div>
    <div class="card scroll" tabindex="0" role="region" aria-label="Shards"><h2>Shards</h2><table>
      <thead><tr><th class="number">Shard</th><th>State</th><th>Owner</th><th class="number">Queues</th><th class="number">Messages</th><th class="number">Size</th><th class="number optional">Commits</th></tr></thead>
      <tbody>${shards.map((shard) => html`<tr key=${shard.index}><td class="number">${shard.index}</td>
        <td>${shard.open ? html`<${Badge} kind="good">open<//>` : html`<${Badge} kind="danger">not served<//>`}</td>
        <td class="mono">${shard.owner ?? "this process"}</td><td class="number">${count(shard.queues)}</td>
        <td class="number">${count(shard.messages)}</td><td class="number">${bytes(shard.bytes)}</td><td class="number optional">${count(shard.commits)}</td></tr>`)}</tbody>
    </table></div>
    ${allowed.has("penstock:ListInternalQueues") && html`<${InternalQueues} />`}`;
}

// What the server has to do in the background.
function InternalQueues() {
  const { data, error } = useWatched((onData, onError) => watch("internal-queues", onData, onError), []);
  if (!data) return html`<${Problem} error=${error} />`;
  return html`<div class="card scroll" tabindex="0" role="region" aria-label="Internal queues"><h2>Internal queues</h2>
    ${data.queues.length === 0 ? html`<p class="soft">The server has no work that waits.</p>` : html`<table>
      <thead><tr><th>Kind</th><th>Account</th><th>Region</th><th class="number">Waiting</th><th class="number">Running</th><th class="number">Put off</th><th class="number">Oldest</th></tr></thead>
      <tbody>${data.queues.map((queue) => html`<tr key=${`${queue.kind}/${queue.account}/${queue.region}`}><td>${queue.kind}</td>
        <td class="mono">${queue.account}</td><td>${queue.region}</td><td class="number">${count(queue.waiting)}</td>
        <td class="number">${count(queue.running)}</td><td class="number">${count(queue.put_off)}</td>
        <td class="number">${queue.oldest_age_s === undefined ? "–" : duration(queue.oldest_age_s)}</td></tr>`)}</tbody>
    </table>`}
    ${data.next && html`<p class="soft">There are more: <code>penstock queue ls --internal</code> lists all.</p>`}</div>`;
}
