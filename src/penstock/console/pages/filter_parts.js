// The fields of a filter policy, in forms.
import { html } from "../html.js";
import { Field } from "../ui.js";

export const SCOPES = [["MessageAttributes", "attributes of the message"], ["MessageBody", "body of the message (JSON)"]];

const HINT = 'Such as {"kind": ["order", {"prefix": "refund-"}], "amount": [{"numeric": [">=", 100]}]}. Without one, all messages pass.';

// Fields "scope" and "filter". onChange({scope, policy}) is called when a user changes one; without it they keep what is typed.
export function FilterFields({ scope = SCOPES[0][0], policy = "", disabled, required, onChange }) {
  const change = (name) => onChange && ((event) => onChange({ scope, policy, [name]: event.target.value }));
  return html`
    <${Field} label="Filter by the"><select name="scope" disabled=${disabled} ...${onChange && { value: scope }} onChange=${change("scope")}>
      ${SCOPES.map(([value, title]) => html`<option value=${value}>${title}</option>`)}</select><//>
    <${Field} label="Filter policy" hint=${HINT}>
      <textarea name="filter" rows="8" spellcheck=${false} disabled=${disabled} required=${required} ...${onChange && { value: policy }}
        onInput=${change("policy")}></textarea><//>`;
}
