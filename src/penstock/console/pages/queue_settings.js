// Attributes, policy and tags of a queue.
import { sqs } from "../api.js";
import { html, useState } from "../html.js";
import { attempt, Field } from "../ui.js";
import { Document, Tags } from "./settings_parts.js";

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
  const setTag = allowed.has("sqs:TagQueue") && ((key, value) => sqs("TagQueue", { QueueUrl: queue.url, Tags: { [key]: value } }));
  const removeTag = allowed.has("sqs:UntagQueue") && ((key) => sqs("UntagQueue", { QueueUrl: queue.url, TagKeys: [key] }));
  return html`<div class="grid">
    <div class="card"><h2>Settings</h2><${Numbers} attributes=${attributes} may=${may} save=${save} /></div>
    <div class="card"><h2>Tags</h2><${Tags} tags=${queue.tags} set=${setTag} remove=${removeTag} /></div>
    ${DOCUMENTS.map(([name, title]) => html`<div class="card" key=${name}><h2>${title}</h2>
      <${Document} key=${attributes[name]} name=${name} text=${attributes[name] ?? ""} may=${may} save=${save} /></div>`)}
    <div class="card whole"><h2>All attributes</h2><dl class="facts">${others.map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${value}</dd>`)}</dl></div>
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
