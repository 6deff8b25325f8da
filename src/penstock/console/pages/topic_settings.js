// Attributes, policies and tags of a topic.
import { sns } from "../api.js";
import { html, useState } from "../html.js";
import { attempt, Field } from "../ui.js";
import { Document, Tags } from "./settings_parts.js";
import { isFifo } from "./topic_parts.js";

// Name, title, and the values to choose from; without them it is a text. An attribute that was not set has the first.
const SETTINGS = [["DisplayName", "Display name, the sender of emails"], ["KmsMasterKeyId", "Encryption key (KmsMasterKeyId)"],
  ["TracingConfig", "Tracing", ["PassThrough", "Active"]]];
const STANDARD = [["SignatureVersion", "Version of signatures", ["1", "2"]]];
const FIFO = [["ContentBasedDeduplication", "Recognize duplicates by their content", ["false", "true"]],
  ["FifoThroughputScope", "Duplicates are recognized in", ["Topic", "MessageGroup"]]];

const POLICY = ["Policy", "Access policy"];
const DOCUMENTS = { standard: [POLICY, ["DeliveryPolicy", "Retries of HTTP (DeliveryPolicy)"]], fifo: [POLICY, ["ArchivePolicy", "Archive (ArchivePolicy)"]] };

export function TopicSettings({ topic, allowed, onChange }) {
  const { arn, attributes, tags } = topic;
  const may = allowed.has("sns:SetTopicAttributes");
  const settings = [...SETTINGS, ...(isFifo(arn) ? FIFO : STANDARD)], documents = DOCUMENTS[isFifo(arn) ? "fifo" : "standard"];
  const others = Object.entries(attributes).filter(([name]) => ![...settings, ...documents].some(([each]) => each === name));
  // Each call of SNS sets one attribute: those before a refused one are set.
  const save = async (changed, what) => {
    const saved = await attempt(async () => {
      for (const [AttributeName, AttributeValue] of Object.entries(changed))
        await sns("SetTopicAttributes", { TopicArn: arn, AttributeName, AttributeValue });
    }, `${what} of ${topic.name} changed.`);
    onChange();
    return saved;
  };
  const setTag = allowed.has("sns:TagResource") && (async (Key, Value) => {
    await sns("TagResource", { ResourceArn: arn, Tags: [{ Key, Value }] });
    onChange();
  });
  const removeTag = allowed.has("sns:UntagResource") && (async (key) => {
    await sns("UntagResource", { ResourceArn: arn, TagKeys: [key] });
    onChange();
  });
  return html`<div class="grid">
    <div class="card"><h2>Settings</h2><${Choices} settings=${settings} attributes=${attributes} may=${may} save=${save} /></div>
    <div class="card"><h2>Tags</h2><${Tags} tags=${tags} set=${setTag} remove=${removeTag} /></div>
    ${documents.map(([name, title]) => html`<div class="card" key=${name}><h2>${title}</h2>
      <${Document} key=${attributes[name]} name=${name} text=${attributes[name] ?? ""} may=${may} save=${save} /></div>`)}
    <div class="card whole"><h2>All attributes</h2><dl class="facts">${others.map(([name, value]) => html`<dt>${name}</dt><dd class="mono">${value}</dd>`)}</dl></div>
  </div>`;
}

function Choices({ settings, attributes, may, save }) {
  const [changed, setChanged] = useState({});
  const submit = async (event) => {
    event.preventDefault();
    if (await save(changed, "Settings")) setChanged({});
  };
  const change = (name) => (event) => setChanged({ ...changed, [name]: event.target.value });
  return html`<form onSubmit=${submit}>
    ${settings.map(([name, title, values]) => html`<${Field} key=${name} label=${title}>${values
      ? html`<select disabled=${!may} value=${changed[name] ?? attributes[name] ?? values[0]} onChange=${change(name)}>
          ${values.map((value) => html`<option>${value}</option>`)}</select>`
      : html`<input disabled=${!may} value=${changed[name] ?? attributes[name] ?? ""} onInput=${change(name)} />`}<//>`)}
    ${may && html`<button class="primary" disabled=${!Object.keys(changed).length}>Save settings</button>`}
  </form>`;
}
