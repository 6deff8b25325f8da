// Subscribers that do not get their messages: which, and why.
import { admin, query } from "../api.js";
import { count, duration, plural } from "../format.js";
import { html } from "../html.js";
import { useRepeated } from "../metrics.js";
import { Badge, Copy, hashOf } from "../ui.js";
import { Endpoint, nameOf, shortEndpoint, TopicLink } from "./topic_parts.js";

const SHOWN_MAX = 10;

const age = (text) => duration(Math.max(1, (Date.now() - new Date(text)) / 1000));

// Of a topic by its name, of one subscription by its ARN, or of all. By ARN; null until it is known, or if the user may not know.
export function useFailing(of, allowed, version) {
  const may = allowed.has("penstock:ListFailingSubscriptions");
  const ask = async () => {
    if (!may) return null;
    const { subscriptions } = await admin("GET", `topics/failing${query({ ...of, limit: 1000 })}`);
    return new Map(subscriptions.map((each) => [each.subscription, each]));
  };
  return useRepeated(ask, [JSON.stringify(of), may, version], 5).data;
}

// What is in the place of the state in a table.
export function FailingBadge({ failing }) {
  const { attempt, undelivered } = failing;
  if (attempt) return html`<${Badge} kind="danger">failing for ${age(attempt.since)}<//>`;
  return html`<${Badge} kind=${undelivered.dead_letter_queue ? "warn" : "danger"}>${undelivered.dead_letter_queue ? "dead letter" : "lost"} ${age(undelivered.at)} ago<//>`;
}

const lastOf = ({ attempt, undelivered }) => (attempt ?? undelivered).at;
export const reasonOf = ({ attempt, undelivered }) => (attempt ?? undelivered).reason;

// The latest failures first.
export function FailingList({ failing, topic, user, most = SHOWN_MAX }) {
  if (!failing?.size) return null;
  const all = [...failing.values()].sort((a, b) => lastOf(b).localeCompare(lastOf(a)));
  return html`<section class="card" aria-label="Failing subscriptions">
    <h2>${plural(all.length, "subscription")} did not get ${all.length === 1 ? "its" : "their"} messages</h2>
    <ul class="lines">${all.slice(0, most).map((each) => html`<li class="row" key=${each.subscription}>
      <a class="cut" href=${hashOf(["subscription", each.subscription])} title=${each.endpoint}>${shortEndpoint(each.endpoint, user)}</a>
      ${!topic && html`<span class="cut soft">of <${TopicLink} arn=${each.topic} user=${user} /></span>`}
      <${FailingBadge} failing=${each} /><span>${reasonOf(each)}</span></li>`)}</ul>
    ${all.length > most && html`<p class="soft">And ${count(all.length - most)} more: they are marked in the <a href="#/subscriptions">list of subscriptions</a>.</p>`}</section>`;
}

// The same for one subscription, in sentences.
export function FailingFacts({ failing, user }) {
  const { attempt, undelivered } = failing;
  return html`<dl class="facts">
    ${attempt && html`<dt>Last attempt failed</dt><dd><b>${attempt.reason}</b>, ${age(attempt.at)} ago (attempt ${count(attempt.number)}).
      No attempt has succeeded for ${age(attempt.since)}.</dd>`}
    ${undelivered && html`<dt>Given up</dt><dd>${plural(undelivered.count, "message")} since the server was started, the last one ${age(undelivered.at)} ago:
      <b> ${undelivered.reason}</b>. ${undelivered.dead_letter_queue
        ? html`It is in the dead-letter queue <${Endpoint} text=${undelivered.dead_letter_queue} user=${user} />.`
        : html`<${Badge} kind="danger">lost<//>`}</dd>`}</dl>
    ${undelivered?.is_denied && html`<${Remedy} failing=${failing} />`}`;
}

// What the policy of a queue needs, so that it takes messages of the topic.
function Remedy({ failing }) {
  const statement = JSON.stringify({ Effect: "Allow", Principal: { Service: "sns.amazonaws.com" }, Action: "sqs:SendMessage", Resource: failing.endpoint,
    Condition: { ArnEquals: { "aws:SourceArn": failing.topic } } }, null, 2);
  return html`<div class="row"><p class="grow">Add this statement to the <a href=${hashOf(["queue", nameOf(failing.endpoint), "settings"])}>access policy</a> of the queue, and one like it to that of the dead-letter queue, if there is one:</p>
    <${Copy} text=${statement} /></div><pre tabindex="0">${statement}</pre>`;
}
