// What waits for which endpoint of a topic, why it failed last, and when it is tried again.
import { query, watch } from "../api.js";
import { count, duration } from "../format.js";
import { html } from "../html.js";
import { Empty, FilterInput, hashOf, Problem, replaceHash, useWatched } from "../ui.js";
import { TopicLink, Turns } from "./topic_parts.js";

export function Deliveries({ params, user }) {
  const { topic = "", after = "" } = params;
  const path = `topics/deliveries${query({ topic, after, limit: 100 })}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  const deliveries = data?.deliveries ?? [];
  return html`
    <div class="head"><h1>Waiting deliveries</h1></div>
    <${Problem} error=${error} />
    <div class="row"><${FilterInput} title="Name of a topic" value=${topic} first size=${24} onDone=${(text) => replaceHash(["deliveries"], { topic: text })} /></div>
    <div class="card scroll" tabindex="0" role="region" aria-label="Waiting deliveries"><table>
      <thead><tr><th>Endpoint</th><th>Topic</th><th>Message</th><th class="number">Attempts</th><th>Last error</th><th class="number">Next try</th><th class="number">Age</th></tr></thead>
      <tbody>${deliveries.map((each) => html`<tr key=${`${each.subscription} ${each.message_id}`}>
        <td class="cut"><a href=${hashOf(["subscription", each.subscription])} title=${each.endpoint}>${each.endpoint}</a> <span class="soft">${each.protocol}</span></td>
        <td><${TopicLink} arn=${each.topic} user=${user} /></td><td class="mono">${each.message_id}</td>
        <td class="number">${count(each.attempt)}</td><td>${each.last_error ?? ""}</td>
        <td class="number">${nextTry(each.due_ms)}</td><td class="number">${duration(each.age_ms / 1000)}</td></tr>`)}</tbody>
    </table>${data && !deliveries.length && html`<${Nothing} filtered=${topic || after} />`}</div>
    <${Turns} label="Pages of deliveries" after=${after} next=${data?.next} onTurn=${(begins) => replaceHash(["deliveries"], { topic, after: begins })} />`;
}

function nextTry(due_ms) {
  const seconds = (due_ms - Date.now()) / 1000;
  return seconds <= 0 ? "now" : `in ${duration(seconds)}`;
}

function Nothing({ filtered }) {
  if (filtered) return html`<${Empty} title="Nothing that matches waits" />`;
  return html`<${Empty} title="Nothing waits">
    <p>All messages have reached their endpoints, or were given up: those are in the dead-letter queues of their subscriptions.</p><//>`;
}
