// What messages and forms about them share.
import { html } from "../html.js";
import { Badge } from "../ui.js";

export function State({ message }) {
  if (message.state === "in_flight") return html`<${Badge} kind="warn">in flight<//>`;
  if (message.state === "delayed") return html`<${Badge}>delayed<//>`;
  return html`<${Badge} kind="good">waiting<//>`;
}

const TYPES = ["String", "Number", "Binary"];

// rows: [{name, type, value}]; binary values are base64.
export function AttributeRows({ rows, onChange, types = TYPES }) {
  const set = (at, member, value) => onChange(rows.map((row, index) => (index === at ? { ...row, [member]: value } : row)));
  return html`<fieldset class="card"><legend>Attributes</legend>
    ${rows.map((row, at) => html`<div class="row" key=${at}>
      <input class="grow" placeholder="Name" aria-label=${`Name of attribute ${at + 1}`} value=${row.name} onInput=${(event) => set(at, "name", event.target.value)} />
      <select aria-label=${`Type of attribute ${at + 1}`} value=${row.type} onChange=${(event) => set(at, "type", event.target.value)}>
        ${[...new Set([...types, row.type])].map((type) => html`<option>${type}</option>`)}
      </select>
      <input class="grow" placeholder=${row.type.startsWith("Binary") ? "base64" : "Value"} aria-label=${`Value of attribute ${at + 1}`} value=${row.value}
        onInput=${(event) => set(at, "value", event.target.value)} />
      <button type="button" class="plain" aria-label=${`Remove attribute ${at + 1}`} onClick=${() => onChange(rows.filter((_, index) => index !== at))}>×</button>
    </div>`)}
    <button type="button" class="small" onClick=${() => onChange([...rows, { name: "", type: "String", value: "" }])}>Add attribute</button>
  </fieldset>`;
}

// As the APIs of SQS and SNS take them.
export const messageAttributes = (rows) => Object.fromEntries(rows.filter((row) => row.name).map(({ name, type, value }) => [
  name, { DataType: type, [type.startsWith("Binary") ? "BinaryValue" : "StringValue"]: value }]));

// As the admin API takes them.
export const readAttributes = (rows) =>
  Object.fromEntries(rows.filter((row) => row.name).map(({ name, type, value }) => [name, { type, value }]));
