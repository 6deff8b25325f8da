// Says of a message and a filter policy whether the message passes, and for each condition why.
import { admin, mapOf, sns } from "../api.js";
import { pretty, time } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { Badge, Field, hashOf, Problem } from "../ui.js";
import { FilterFields, SCOPES } from "./filter_parts.js";
import { AttributeRows, readAttributes } from "./message_parts.js";
import { recentMessages } from "./subscription_activity.js";
import { TOPIC_TYPES } from "./topic_parts.js";

const EMPTY = { scope: SCOPES[0][0], policy: "" };

export function FilterTester({ params, allowed }) {
  const [filter, setFilter] = useState(EMPTY);
  const [body, setBody] = useState("");
  const [rows, setRows] = useState([]);
  const [result, setResult] = useState(null);
  const [error, setError] = useState(null);
  const [recent, setRecent] = useState([]);
  const judge = async (policy, text, attributes) => {
    try {
      setResult(await admin("POST", "topics/test-filter", { ...policy, body: text, attributes: readAttributes(attributes) }));
      setError(null);
    } catch (failure) {
      setResult(null);
      setError(failure);
    }
  };
  const take = (message) => {
    const taken = Object.entries(message.attributes).map(([name, { type, value }]) => ({ name, type, value }));
    setBody(message.body);
    setRows(taken);
    return taken;
  };
  const fill = async ({ subscription, message }) => {
    if (!subscription) return;
    const found = await filterOf(subscription);
    setFilter(found);
    if (!allowed.has("penstock:ListRecentMessages")) return;
    const messages = await recentMessages(subscription);
    setRecent(messages);
    const chosen = messages.find(({ id }) => id === message);
    if (chosen) await judge(found, chosen.body, take(chosen));
    else if (message) setError({ message: "This message is not remembered any more: choose another one, or enter it." });
  };
  useEffect(() => { fill(params).catch(setError); }, [params.subscription, params.message]);
  const choose = ({ target }) => {
    const chosen = recent.find(({ id }) => id === target.value);
    setResult(null);
    if (chosen) take(chosen);
  };
  const test = (event) => {
    event.preventDefault();
    judge(filter, body, rows);
  };
  return html`
    <div class="head"><h1>Filter tester</h1></div>
    <p class="soft">Nothing is published: this shows what a filter policy says of a message.
      ${params.subscription && html` The policy is that of <a href=${hashOf(["subscription", params.subscription])}><code>${params.subscription}</code></a>.`}</p>
    <form class="grid" onSubmit=${test}>
      <div class="card"><h2>Filter</h2><${FilterFields} ...${filter} required onChange=${setFilter} /></div>
      <div class="card"><h2>Message</h2>
        ${recent.length > 0 && html`<${Field} label="One of the last messages of the topic"><select name="recent" onChange=${choose}>
          <option value="">Choose one, or enter a message below</option>
          ${recent.map((each) => html`<option value=${each.id} selected=${each.id === params.message}>${time(each.published_at)}: ${(each.subject ?? each.body).slice(0, 60)}${each.passes
            ? "" : " (filtered out)"}</option>`)}</select><//>`}
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
  const element = useRef();
  useEffect(() => element.current.scrollIntoView({ block: "nearest" }), [result]);
  return html`<section ref=${element} class="card scroll" aria-live="polite" aria-label="Result" tabindex="0" role="region">
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
