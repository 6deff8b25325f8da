// One message: its content, who holds it, what happened to it, and changes.
import { admin, messagePath, query } from "../api.js";
import { readEnvelope } from "../envelopes.js";
import { age, bytes, count, pretty, time } from "../format.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { attempt, Copy, Dialog, Field, Problem } from "../ui.js";
import { AttributeRows, readAttributes, State } from "./message_parts.js";

export function Message({ queue, id, allowed, onClose }) {
  const [message, setMessage] = useState(null);
  const [history, setHistory] = useState(null);
  const [error, setError] = useState(null);
  const [editing, setEditing] = useState(false);
  const path = messagePath(queue.name, id);

  const load = async () => {
    try {
      setMessage(await admin("GET", path));
      setError(null);
      if (allowed.has("penstock:GetMessageHistory")) setHistory(await admin("GET", `${path}/history`));
    } catch (failure) {
      setError(failure);
    }
  };
  useEffect(() => { load(); }, [path]);

  // Names the version that is shown: a change in between is not overwritten.
  const change = async (what, done, body = {}) => {
    const stays = await attempt(() => admin("POST", `${path}/${what}`, { version: message.version, ...body }), done);
    if (stays === undefined || what === "release" || what === "reset" || what === "reorder") await load();
    else onClose();
  };
  const remove = async () => {
    if (await attempt(() => admin("DELETE", `${path}${query({ version: message.version })}`), "The message was deleted.")) onClose();
  };

  return html`<${Dialog} title=${`Message ${id}`} onClose=${onClose} wide>
    <${Problem} error=${error} />
    ${message && (editing
      ? html`<${Edit} message=${message} path=${path} fifo=${queue.kind === "fifo"} onDone=${() => { setEditing(false); load(); }} />`
      : html`
        <${Actions} message=${message} queue=${queue} allowed=${allowed} change=${change} remove=${remove} edit=${() => setEditing(true)} />
        <${Content} message=${message} />
        <div class="grid"><${Facts} message=${message} />${history && html`<${History} history=${history} />`}</div>`)}
  <//>`;
}

function Actions({ message, queue, allowed, change, remove, edit }) {
  const [target, setTarget] = useState("");
  if (message.state === "in_flight")
    return html`<p class="soft">A receiver has this message, so it cannot be changed now.</p>`;
  const button = (permission, title, work, shown) =>
    shown && allowed.has(`penstock:${permission}`) && html`<button onClick=${work}>${title}</button>`;
  return html`<div class="row">
    ${button("EditMessage", "Edit", edit, !message.unreadable)}
    ${button("ReleaseMessage", "Make visible now", () => change("release", "The message is visible."), message.state === "delayed")}
    ${button("ResetMessage", "Reset counts", () => change("reset", "Counts and times were reset."), message.receives > 0)}
    ${button("ReorderMessage", "To front", () => change("reorder", "The message is the first one.", { to: "front" }), true)}
    ${button("ReorderMessage", "To back", () => change("reorder", "The message is the last one.", { to: "back" }), true)}
    ${button("DeadLetterMessage", "To dead-letter queue", () => change("dead-letter", "The message is in the dead-letter queue."), queue.dead_letter_queue)}
    ${button("RedriveMessage", "Back to its source", () => change("redrive", "The message is back in its source queue."), message.source)}
    ${allowed.has("penstock:MoveMessage") && html`<span class="row"><input size="14" placeholder="Queue" aria-label="Move to queue" value=${target}
      onInput=${(event) => setTarget(event.target.value)} /><button disabled=${!target}
      onClick=${() => change("move", `The message was moved to ${target}.`, { to: target })}>Move</button></span>`}
    ${allowed.has("penstock:DeleteMessage") && html`<${DeleteButton} remove=${remove} />`}
  </div>`;
}

function DeleteButton({ remove }) {
  const [sure, setSure] = useState(false);
  return html`<button class="danger" onClick=${() => (sure ? remove() : setSure(true))}>${sure ? "Really delete" : "Delete"}</button>`;
}

function Content({ message }) {
  const envelope = useMemo(() => (message.unreadable || message.body_cut ? null : readEnvelope(message.body ?? "")), [message]);
  if (message.unreadable) return html`<p class="problem">Its encryption key cannot be used, or it is damaged, so its content is not shown.</p>`;
  const attributes = Object.entries(message.attributes ?? {});
  return html`<section>
    <div class="grid">
      <div><div class="row"><h2>Body</h2><span class="soft">${bytes(message.size)}</span><${Copy} text=${message.body} /></div>
        <pre tabindex="0">${pretty(message.body ?? "")}</pre></div>
      ${envelope && html`<${Envelope} ...${envelope} />`}
    </div>
    ${message.body_cut && html`<p class="soft">The body is longer than what is shown.</p>`}
    ${attributes.length > 0 && html`<h2>Attributes</h2><div class="scroll"><table><thead><tr><th>Name</th><th>Type</th><th>Value</th></tr></thead>
      <tbody>${attributes.map(([name, { type, value }]) => html`<tr><td class="mono">${name}</td><td>${type}</td><td class="mono">${value}</td></tr>`)}</tbody></table></div>`}
  </section>`;
}

// What is inside the body, for people; consumers get the body itself.
function Envelope({ kind, facts, content }) {
  return html`<div role="group" aria-label=${kind}>
    <div class="row"><h2>${kind}</h2><span class="soft">decoded</span>${content !== undefined && html`<${Copy} text=${content} />`}</div>
    <dl class="facts">${facts.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${content !== undefined && html`<pre tabindex="0">${pretty(content)}</pre>`}
  </div>`;
}

function Facts({ message }) {
  const rows = [
    ["State", html`<${State} message=${message} />`], ["Receives", count(message.receives)], ["Version", `${message.version}${message.edited ? " (edited)" : ""}`],
    ["Sent", `${time(message.sent_at)}, ${age(message.sent_at)} ago`], ["Sender", message.sender],
    ["In this queue since", time(message.enqueued_at)], ["Expires", time(message.expires_at)],
    ["Visible from", message.visible_at && time(message.visible_at)], ["First received", message.first_received_at && time(message.first_received_at)],
    ["Group", message.group], ["Deduplication id", message.dedup_id], ["Sequence number", message.sequence_number],
    ["Trace", message.trace], ["Dead letter of", message.source],
    ["Held by", message.holder && `${message.holder.by} from ${message.holder.address} (${message.holder.user_agent}), until ${time(message.holder.until)}`],
    ["Failed because", message.failure && `${message.failure.reason}${message.failure.worker ? `, in ${message.failure.worker}` : ""}`],
  ].filter(([, value]) => value);
  return html`<section><h2>Facts</h2><dl class="facts">${rows.map(([name, value]) => html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
    ${message.failure?.detail && html`<pre tabindex="0">${message.failure.detail}</pre>`}</section>`;
}

function History({ history }) {
  return html`<section><h2>History</h2>
    ${history.events.length === 0 && html`<p class="soft">Nothing is known any more.</p>`}
    <dl class="facts">${history.events.map((event) => html`<dt>${time(event.at)}</dt>
      <dd>${event.event}${event.by ? ` by ${event.by}` : ""}${event.detail ? `: ${event.detail}` : ""}</dd>`)}</dl>
    ${!history.complete && html`<p class="soft">Earlier events were forgotten.</p>`}</section>`;
}

function Edit({ message, path, fifo, onDone }) {
  const [body, setBody] = useState(message.body ?? "");
  const [rows, setRows] = useState(Object.entries(message.attributes ?? {}).map(([name, each]) => ({ name, ...each })));
  const save = async (event) => {
    event.preventDefault();
    const changed = { version: message.version };
    if (body !== message.body) changed.body = body;
    changed.attributes = readAttributes(rows);
    if (await attempt(() => admin("PATCH", path, changed), "The message was changed.")) onDone();
  };
  if (message.body_cut) return html`<p class="problem">The body is too long to be edited here. Use <code>penstock message set</code>.</p>`;
  return html`<form onSubmit=${save}>
    <${Field} label="Body"><textarea value=${body} onInput=${(event) => setBody(event.target.value)} spellcheck=${false}></textarea><//>
    <${AttributeRows} rows=${rows} onChange=${setRows} />
    <footer><button type="button" onClick=${onDone}>Cancel</button><button class="primary">Save</button></footer>
  </form>`;
}
