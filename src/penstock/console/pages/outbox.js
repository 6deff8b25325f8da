// What could not leave this machine: texts to phones, push notifications, and emails without a mail server.
import { admin, query, watch } from "../api.js";
import { pretty, time } from "../format.js";
import { html, useState } from "../html.js";
import { attempt, Badge, Confirm, Copy, Dialog, Empty, Problem, replaceHash, rowKeys, useWatched } from "../ui.js";
import { TopicLink, Turns } from "./topic_parts.js";

export function Outbox({ params, allowed, user }) {
  const { after = "" } = params;
  const [opened, setOpened] = useState(null);
  const [clearing, setClearing] = useState(false);
  const path = `outbox${query({ after, limit: 100 })}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  const entries = data?.entries ?? [];
  return html`
    <div class="head"><h1>Outbox</h1><div class="actions">${entries.length > 0 && allowed.has("penstock:ClearOutbox")
      && html`<button class="danger" onClick=${() => setClearing(true)}>Clear</button>`}</div></div>
    <${Problem} error=${error} />
    <div class="card scroll" tabindex="0" role="region" aria-label="Outbox"><table onKeyDown=${rowKeys}>
      <thead><tr><th>Time</th><th>To</th><th>Topic</th><th>Subject</th><th>Message</th></tr></thead>
      <tbody>${entries.map((entry) => html`<tr key=${entry.id} tabindex="-1">
        <td class="time">${time(entry.at_ms)}</td><td class="time"><button class="plain" onClick=${() => setOpened(entry)}>${entry.destination}</button> <${Badge}>${entry.protocol}<//></td>
        <td class="cut short">${entry.topic && html`<${TopicLink} arn=${entry.topic} user=${user} />`}</td>
        <td class="cut short">${entry.subject}</td><td class="cut rest">${entry.body}</td></tr>`)}</tbody>
    </table>${data && !entries.length && html`<${Empty} title="The outbox is empty">
      <p>Texts to phones (<code>sms</code>) and push notifications (<code>application</code>) are kept here instead of being sent,
        and so are emails as long as the server knows no mail server.</p><//>`}</div>
    <${Turns} label="Pages of the outbox" after=${after} next=${data?.next} onTurn=${(begins) => replaceHash(["outbox"], { after: begins })} />
    ${opened && html`<${Entry} entry=${opened} allowed=${allowed} onClose=${() => setOpened(null)} />`}
    ${clearing && html`<${Confirm} title="Clear the outbox" action="Clear" onClose=${() => setClearing(false)} onConfirm=${() => admin("DELETE", "outbox")}>
      <p>All its entries will be deleted. This cannot be undone.</p><//>`}`;
}

function Entry({ entry, allowed, onClose }) {
  const drop = async () => {
    if (await attempt(() => admin("DELETE", `outbox/${encodeURIComponent(entry.id)}`), "The entry was deleted.")) onClose();
  };
  return html`<${Dialog} title=${`To ${entry.destination}`} onClose=${onClose} wide>
    <dl class="facts"><dt>Protocol</dt><dd>${entry.protocol}</dd><dt>Time</dt><dd>${time(entry.at_ms)}</dd>
      ${entry.topic && html`<dt>Topic</dt><dd class="mono">${entry.topic}</dd>`}
      ${entry.subject && html`<dt>Subject</dt><dd>${entry.subject}</dd>`}</dl>
    <div class="row"><h2>Message</h2><${Copy} text=${entry.body} /></div>
    <pre tabindex="0">${pretty(entry.body)}</pre>
    ${allowed.has("penstock:DeleteOutboxEntry") && html`<footer><button class="danger" onClick=${drop}>Delete</button></footer>`}
  <//>`;
}
