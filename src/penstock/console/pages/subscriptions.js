// Subscriptions of a topic, or of all topics; subscribe and confirm.
import { mapOf, sns } from "../api.js";
import { html, useRef, useState } from "../html.js";
import { useRepeated } from "../metrics.js";
import { attempt, Badge, Dialog, Empty, Field, hashOf, Problem, replaceHash, rowKeys } from "../ui.js";
import { FailingBadge, FailingList, reasonOf, useFailing } from "./failing.js";
import { Subscribe } from "./subscribe.js";
import {
  deadLetterQueueOf, Endpoint, hasPage, isPending, listed, nameOf, shortEndpoint, SubscriptionState, TopicLink, topicParts, Turns,
} from "./topic_parts.js";

export const Subscriptions = (given) => html`<div class="head"><h1>Subscriptions</h1></div><${SubscriptionList} ...${given} />`;

// topic: the ARN of one topic; without it, all subscriptions of the account are shown.
export function SubscriptionList({ topic, params, allowed, user, onChange = () => {} }) {
  const { contains = "", after = "" } = params;
  const [asking, setAsking] = useState(null);
  const [version, setVersion] = useState(0);
  const isFirst = useRef(true);
  const ask = () => {
    const refresh = isFirst.current;
    isFirst.current = false;
    return subscriptionsFrom(topic, contains, after, allowed, refresh);
  };
  const { data, error } = useRepeated(ask, [topic, contains, after, version], 10);
  const failing = useFailing({ topic: topic && nameOf(topic) }, allowed, version);
  const subscriptions = data?.subscriptions ?? [];
  const change = (more) => replaceHash(topic ? topicParts(topic, user, "subscriptions") : ["subscriptions"], more);
  const done = () => {
    isFirst.current = true;
    setAsking(null);
    setVersion((before) => before + 1);
    onChange();
  };
  return html`
    <${Problem} error=${error} />
    <${FailingList} failing=${failing} topic=${topic} user=${user} />
    <div class="row">
      <input class="grow" data-filter type="search" placeholder="Filter by endpoint or protocol" aria-label="Filter by endpoint or protocol" value=${contains}
        onInput=${(event) => change({ contains: event.target.value })} />
      ${topic && allowed.has("sns:Subscribe") && html`<button class="primary" onClick=${() => setAsking({ subscribe: true })}>Subscribe</button>`}
    </div>
    <div class="card scroll" tabindex="0" role="region" aria-label="Subscriptions"><table onKeyDown=${rowKeys}>
      <thead><tr><th>Endpoint</th>${!topic && html`<th>Topic</th>`}<th>Protocol</th><th>State</th><th>Filter</th><th class="optional">Dead-letter queue</th></tr></thead>
      <tbody>${subscriptions.map((each) => html`<${Row} key=${`${each.TopicArn} ${each.Protocol} ${each.Endpoint}`} subscription=${each} topic=${topic} failing=${failing?.get(each.SubscriptionArn)}
        user=${user} onConfirm=${allowed.has("sns:ConfirmSubscription") && (() => setAsking({ confirm: each }))} />`)}</tbody>
    </table>${data && !subscriptions.length && html`<${Nothing} topic=${topic} filtered=${contains || after} />`}</div>
    <${Turns} label="Pages of subscriptions" after=${after} next=${data?.next} onTurn=${(begins) => change({ contains, after: begins })} />
    ${asking?.subscribe && html`<${Subscribe} topic=${topic} allowed=${allowed} user=${user} onClose=${() => setAsking(null)} onDone=${done} />`}
    ${asking?.confirm && html`<${ConfirmSubscription} subscription=${asking.confirm} onClose=${() => setAsking(null)} onDone=${done} />`}`;
}

// Attributes change seldom, and a page of 100 subscriptions asks for those of each.
const ATTRIBUTES_MS = 60_000, READ_MAX = 1000;
const read = new Map(); // ARN -> {at, attributes}

async function attributesOf(SubscriptionArn, refresh) {
  const known = read.get(SubscriptionArn);
  if (known && !refresh && Date.now() - known.at < ATTRIBUTES_MS) return known.attributes;
  const attributes = mapOf((await sns("GetSubscriptionAttributes", { SubscriptionArn })).Attributes);
  if (read.size >= READ_MAX) read.clear();
  read.set(SubscriptionArn, { at: Date.now(), attributes });
  return attributes;
}

// The parts that may not be read are left out.
async function subscriptionsFrom(topic, contains, after, allowed, refresh) {
  const wanted = contains.toLowerCase();
  const matches = ({ Endpoint, Protocol }) => `${Protocol} ${Endpoint}`.toLowerCase().includes(wanted);
  const [action, members] = topic ? ["ListSubscriptionsByTopic", { TopicArn: topic }] : ["ListSubscriptions", {}];
  const { found, next } = await listed(action, "Subscriptions", members, matches, after);
  const readable = (each) => hasPage(each) && allowed.has("sns:GetSubscriptionAttributes");
  const subscriptions = found.map(async (each) => ({ ...each, attributes: readable(each) ? await attributesOf(each.SubscriptionArn, refresh).catch(() => ({})) : {} }));
  return { subscriptions: await Promise.all(subscriptions), next };
}

function Row({ subscription, topic, failing, user, onConfirm }) {
  const { SubscriptionArn, TopicArn, Protocol, Endpoint: endpoint, attributes } = subscription;
  const { FilterPolicy = "", FilterPolicyScope } = attributes;
  const dead = deadLetterQueueOf(attributes);
  return html`<tr tabindex="-1">
    <td class="cut narrow">${hasPage(subscription) ? html`<a href=${hashOf(["subscription", SubscriptionArn])} title=${endpoint}>${shortEndpoint(endpoint, user)}</a>`
      : html`<span title=${endpoint}>${shortEndpoint(endpoint, user)}</span>`}</td>
    ${!topic && html`<td class="cut narrow"><${TopicLink} arn=${TopicArn} user=${user} /></td>`}
    <td>${Protocol}${attributes.RawMessageDelivery === "true" && html` <${Badge}>raw<//>`}</td>
    <td title=${failing && reasonOf(failing)}>${failing ? html`<${FailingBadge} failing=${failing} />` : html`<${SubscriptionState} subscription=${subscription} />`}
      ${isPending(subscription) && onConfirm && html` <button class="small" onClick=${onConfirm}>Confirm</button>`}</td>
    <td class="cut narrow mono" title=${FilterPolicy}>${FilterPolicy ? html`${FilterPolicyScope === "MessageBody" ? "body " : "attributes "}${FilterPolicy}` : ""}</td>
    <td class="optional">${dead && html`<${Endpoint} text=${dead} user=${user} />`}</td></tr>`;
}

function Nothing({ topic, filtered }) {
  if (filtered) return html`<${Empty} title="No subscription matches" />`;
  return html`<${Empty} title="No subscriptions yet"><p>${topic
    ? "What is published goes nowhere until a queue, a URL or an address of email subscribes."
    : html`Open one of the <a href="#/topics">topics</a> to subscribe to it.`}</p><//>`;
}

// With the token of the confirmation, or the whole link in it.
function ConfirmSubscription({ subscription, onClose, onDone }) {
  const { TopicArn, Protocol, Endpoint: endpoint } = subscription;
  const confirm = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target).get("token").trim();
    const Token = /[?&]Token=([^&\s]+)/.exec(given)?.[1] ?? given;
    if (await attempt(() => sns("ConfirmSubscription", { TopicArn, Token }), "The subscription was confirmed.")) onDone();
  };
  const again = () => attempt(() => sns("Subscribe", { TopicArn, Protocol, Endpoint: endpoint }), "Another confirmation is on its way.");
  return html`<${Dialog} title="Confirm the subscription" onClose=${onClose}><form onSubmit=${confirm}>
    <p>${endpoint} was sent a message with a link. Whoever opens it confirms the subscription; so does its token or link here.</p>
    <${Field} label="Token or link"><input name="token" required autofocus autocomplete="off" /><//>
    <footer><button type="button" onClick=${again}>Send it again</button><button type="button" onClick=${onClose}>Cancel</button>
      <button class="primary">Confirm</button></footer>
  </form><//>`;
}
