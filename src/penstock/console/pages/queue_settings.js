// Attributes, policy and tags of a queue.
import { sqs } from "../api.js";
import { pretty } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { attempt, Field } from "../ui.js";

const EDITABLE = [
  ["VisibilityTimeout", "Visibility timeout (seconds)"], ["DelaySeconds", "Delay (seconds)"],
  ["MessageRetentionPeriod", "Retention (seconds)"], ["MaximumMessageSize", "Largest message (bytes)"],
  ["ReceiveMessageWaitTimeSeconds", "Long polling (seconds)"],
];
const DOCUMENTS = [["RedrivePolicy", "Dead-letter queue (RedrivePolicy)"], ["RedriveAllowPolicy", "Who may use it as one (RedriveAllowPolicy)"], ["Policy", "Access policy"]];

export function Settings({ queue, allowed }) {
  const attributes = queue.attributes ?? {};
  const may = allowed.has("sqs:SetQueueAttributes");
  const others = Object.entries(attributes).filter(([name]) => ![...EDITABLE, ...DOCUMENTS].some(([each]) => each === name));
  const save = (changed, what) => attempt(() => sqs("SetQueueAttributes", { QueueUrl: queue.url, Attributes: changed }), `${what} of ${queue.name} changed.`);
  return html`<div class="grid">
    <div class="card"><h2>Settings</h2><${Numbers} attributes=${attributes} may=${may} save=${save} /></div>
    <div class="card"><h2>Tags</h2><${Tags} queue=${queue} allowed=${allowed} /></div>
    ${DOCUMENTS.map(([name, title]) => html`<div class="card" key=${name}><h2>${title}</h2>
      <${Document} key=${attributes[name]} name=${name} text=${attributes[name] ?? ""} may=${may} save=${save} /></div>`)}
    <div class="card"><h2>All attributes</h2><dl class="facts">${others.map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${value}</dd>`)}</dl></div>
  </div>`;
}

function Numbers({ attributes, may, save }) {
  const [changed, setChanged] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    if (await save(changed, "Settings")) setChanged({});
  };
  return html`<form onSubmit=${submit}>
    ${EDITABLE.map(([name, title]) => html`<${Field} key=${name} label=${title}><input type="number" min="0" disabled=${!may}
      value=${changed[name] ?? attributes[name]} onInput=${(event) => setChanged({ ...changed, [name]: event.target.value })} /><//>`)}
    ${may && html`<button class="primary" disabled=${!Object.keys(changed).length}>Save settings</button>`}
  </form>`;
}

function Document({ name, text, may, save }) {
  const [value, setValue] = useState(pretty(text));
  if (!may) return text ? html`<pre tabindex="0">${pretty(text)}</pre>` : html`<p class="soft">None.</p>`;
  const submit = (event) => {
    event.preventDefault();
    save({ [name]: value.trim() }, name);
  };
  return html`<form onSubmit=${submit}>
    <textarea aria-label=${name} value=${value} spellcheck=${false} placeholder="None. Enter JSON." onInput=${(event) => setValue(event.target.value)}></textarea>
    <button disabled=${value === pretty(text)}>Save ${name}</button>
  </form>`;
}

function Tags({ queue, allowed }) {
  const tags = Object.entries(queue.tags ?? {});
  const add = async (event) => {
    event.preventDefault();
    const form = event.target, given = new FormData(form);
    if (await attempt(() => sqs("TagQueue", { QueueUrl: queue.url, Tags: { [given.get("key")]: given.get("value") } }), "The tag was set.")) form.reset();
  };
  const remove = (key) => attempt(() => sqs("UntagQueue", { QueueUrl: queue.url, TagKeys: [key] }), "The tag was removed.");
  return html`
    ${tags.length === 0 && html`<p class="soft">None.</p>`}
    <dl class="facts">${tags.map(([key, value]) => html`<dt>${key}</dt><dd>${value}
      ${allowed.has("sqs:UntagQueue") && html` <button class="plain" aria-label=${`Remove tag ${key}`} onClick=${() => remove(key)}>×</button>`}</dd>`)}</dl>
    ${allowed.has("sqs:TagQueue") && html`<form class="row" onSubmit=${add}>
      <input name="key" required maxlength="128" placeholder="Key" aria-label="Key of the tag" size="10" />
      <input name="value" maxlength="256" placeholder="Value" aria-label="Value of the tag" size="10" /><button>Set tag</button></form>`}`;
}
