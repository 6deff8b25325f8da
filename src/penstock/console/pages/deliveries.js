// What waits for which endpoint of a topic, why it failed last, and when it is tried again.
import { query, watch } from "../api.js";
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { Empty, FilterInput, hashOf, Problem, replaceHash, useWatched } from "../ui.js";
import { shortEndpoint, TopicLink, Turns } from "./topic_parts.js";

export function Deliveries({ params, user }) {
  const { topic = "", subscription = "", after = "" } = params;
  const path = `topics/deliveries${query({ topic: subscription ? "" : topic, subscription, after, limit: 100 })}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  const deliveries = data?.deliveries ?? [];
  return html`
    <div class="head"><h1>Waiting deliveries</h1></div>
    <${Problem} error=${error} />
    ${subscription && html`<p class="soft">For the subscription <a href=${hashOf(["subscription", subscription])}><code>${subscription}</code></a>.
      <a href=${hashOf(["deliveries"])}>All that wait</a></p>`}
    <div class="row" hidden=${Boolean(subscription)}><${FilterInput} title="Name of a topic" value=${topic} first size=${24} onDone=${(text) => replaceHash(["deliveries"], { topic: text })} /></div>
    <div class="card scroll" tabindex="0" role="region" aria-label="Waiting deliveries"><table>
      <thead><tr><th>Endpoint</th><th>Topic</th><th class="number">Attempts</th><th>Last error</th><th class="number">Next try</th><th class="number">Age</th><th class="optional">Message</th></tr></thead>
      <tbody>${deliveries.map((each) => html`<tr key=${`${each.subscription} ${each.message_id}`}>
        <td class="cut narrow"><a href=${hashOf(["subscription", each.subscription])} title=${each.endpoint}>${shortEndpoint(each.endpoint, user)}</a></td>
        <td class="cut narrow"><${TopicLink} arn=${each.topic} user=${user} /></td>
        <td class="number">${count(each.attempt)}</td><td class="cut rest" title=${each.last_error}>${each.last_error ?? ""}</td>
        <td class="number">${nextTry(each)}</td><td class="number">${duration(each.age_ms / 1000)}</td><td class="optional mono cut short" title=${each.message_id}>${each.message_id}</td></tr>`)}</tbody>
    </table>${data && !deliveries.length && html`<${Nothing} filtered=${topic || subscription || after} />`}</div>
    <${Turns} label="Pages of deliveries" after=${after} next=${data?.next} onTurn=${(begins) => replaceHash(["deliveries"], { topic, subscription, after: begins })} />`;
}

export function nextTry({ state, due_ms }) {
  if (state === "in_flight") return "under way";
  const seconds = (due_ms - Date.now()) / 1000;
  return seconds <= 0 ? "now" : `in ${duration(seconds)}`;
}

function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="Nothing that matches waits" />`;
  return html`<${Empty} title="Nothing waits">
    <p>All messages have reached their endpoints, or were given up: those are in the dead-letter queues of their subscriptions.</p><//>`;
}
