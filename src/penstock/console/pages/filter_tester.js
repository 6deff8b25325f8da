// Says of a message and a filter policy whether the message passes, and for each condition why.
import { admin, mapOf, sns } from "../api.js";
import { pretty } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Badge, Field, Problem } from "../ui.js";
import { FilterFields, SCOPES } from "./filter_parts.js";
import { AttributeRows, readAttributes } from "./message_parts.js";
import { TOPIC_TYPES } from "./topic_parts.js";

const EMPTY = { scope: SCOPES[0][0], policy: "" };

export function FilterTester({ params }) {
  const [filter, setFilter] = useState(EMPTY);
  const [body, setBody] = useState("");
  const [rows, setRows] = useState([]);
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  useEffect(() => {
    if (params.subscription) filterOf(params.subscription).then(setFilter, setError);
  }, [params.subscription]);
  const test = async (event) => {
    event.preventDefault();
    try {
      setResult(await admin("POST", "topics/test-filter", { ...filter, body, attributes: readAttributes(rows) }));
      setError(null);
    } catch (failure) {
      setResult(null);
      setError(failure);
    }
  };
  return html`
    <div class="head"><h1>Filter tester</h1></div>
    <p class="soft">Nothing is published: this shows what a filter policy says of a message.
      ${params.subscription && html` The policy is that of <code>${params.subscription}</code>.`}</p>
    <form class="grid" onSubmit=${test}>
      <div class="card"><h2>Filter</h2><${FilterFields} ...${filter} required onChange=${setFilter} /></div>
      <div class="card"><h2>Message</h2>
        <${Field} label="Body"><textarea rows="8" spellcheck=${false} value=${body} onInput=${(event) => setBody(event.target.value)}></textarea><//>
        <${AttributeRows} rows=${rows} onChange=${setRows} types=${TOPIC_TYPES} />
        <p><button class="primary">Test</button></p></div>
    </form>
    <${Problem} error=${error} />
    ${result && html`<${Result} result=${result} />`}`;
}

async function filterOf(SubscriptionArn) {
  const { FilterPolicy = "", FilterPolicyScope = SCOPES[0][0] } = mapOf((await sns("GetSubscriptionAttributes", { SubscriptionArn })).Attributes);
  return { scope: FilterPolicyScope, policy: pretty(FilterPolicy) };
}

function Result({ result }) {
  return html`<section class="card scroll" aria-live="polite" aria-label="Result" tabindex="0" role="region">
    <div class="row"><h2>${result.matched ? "The message passes" : "The message is filtered out"}</h2>
      <${Badge} kind=${result.matched ? "good" : "danger"}>${result.outcome}<//></div>
    <p>${result.why}</p>
    ${result.conditions.length > 0 && html`<table>
      <thead><tr><th>Result</th><th>Where</th><th>Condition</th><th>Found</th><th>Why</th></tr></thead>
      <tbody>${result.conditions.map(({ path, condition, found, passed, why }) => html`<tr>
        <td><${Badge} kind=${passed ? "good" : "danger"}>${passed ? "passed" : "failed"}<//></td>
        <td class="mono">${path}</td><td class="mono">${condition}</td><td class="mono">${found}</td><td>${why}</td></tr>`)}</tbody>
    </table>`}</section>`;
}
