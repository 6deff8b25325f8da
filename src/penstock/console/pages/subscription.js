// One subscription: its filter, how it delivers, and where messages go that cannot be delivered.
import { mapOf, sns } from "../api.js";
import { count, pretty } from "../format.js";
import { html, useState } from "../html.js";
import { useRepeated } from "../metrics.js";
import { useTopicPermissions } from "../permissions.js";
import { attempt, Badge, Confirm, Copy, Field, hashOf, NotAllowed, Problem } from "../ui.js";
import { FilterFields, SCOPES } from "./filter_parts.js";
import { Publish } from "./publish.js";
import { Replay } from "./replay.js";
import { Document } from "./settings_parts.js";
import { SubscriptionActivity } from "./subscription_activity.js";
import { deadLetterQueueOf, Endpoint, isFifo, nameOf, redrivePolicy, shortEndpoint, topicHash, TopicLink } from "./topic_parts.js";

const LOOK = "sns:GetSubscriptionAttributes";
const RAW_PROTOCOLS = ["sqs", "http", "https", "firehose"];
const FACTS = [["Owner", "Owner"], ["SubscriptionPrincipal", "Subscribed by"], ["SubscriptionRoleArn", "Role"]];

export function Subscription(given) {
  const arn = given.parts[1] ?? "";
  const allowed = useTopicPermissions(arn.split(":").slice(0, 6).join(":"));
  if (!allowed) return html`<p class="soft">Loading</p>`;
  return allowed.has(LOOK) ? html`<${OneSubscription} key=${arn} arn=${arn} ...${given} allowed=${allowed} />`
    : html`<div class="head"><h1>Subscription</h1></div><${NotAllowed} permission=${LOOK} allowed=${allowed} user=${given.user} />`;
}

function OneSubscription({ arn, allowed, user }) {
  const [asking, setAsking] = useState("");
  const [version, setVersion] = useState(0);
  const ask = async () => mapOf((await sns("GetSubscriptionAttributes", { SubscriptionArn: arn })).Attributes);
  const { data: attributes, error } = useRepeated(ask, [arn, version], 5);
  if (!attributes)
    return !error ? html`<p class="soft">Loading</p>`
      : html`<div class="head"><h1>Subscription</h1></div><${Problem} error=${error} /><p><a href="#/subscriptions">All subscriptions</a></p>`;
  const { Protocol, TopicArn, Endpoint: endpoint } = attributes;
  const pending = attributes.PendingConfirmation === "true";
  const may = allowed.has("sns:SetSubscriptionAttributes");
  const set = (AttributeName, AttributeValue) => sns("SetSubscriptionAttributes", { SubscriptionArn: arn, AttributeName, AttributeValue });
  const save = async (work, success) => {
    const saved = await attempt(work, success);
    setVersion((before) => before + 1);
    return saved;
  };
  const saveDocument = ([[name, text]]) => save(() => set(name, text || undefined), `${name} changed.`);
  const document = (name, title) => html`<div class="card"><h2>${title}</h2>
    <${Document} key=${attributes[name]} name=${name} text=${attributes[name] ?? ""} may=${may} save=${(changed) => saveDocument(Object.entries(changed))} /></div>`;
  return html`
    <div class="head"><h1>${shortEndpoint(endpoint, user)}</h1><${Badge}>${Protocol}<//>
      <${Badge} kind=${pending ? "warn" : "good"}>${pending ? "pending" : "confirmed"}<//>
      <div class="actions">
        ${allowed.has("sns:Publish") && html`<button onClick=${() => setAsking("publish")}>Publish message</button>`}
        ${allowed.has("sns:Unsubscribe") && html`<button class="danger" onClick=${() => setAsking("delete")}>Unsubscribe</button>`}</div></div>
    <${Problem} error=${error} />
    <${SubscriptionActivity} arn=${arn} filtered=${Boolean(attributes.FilterPolicy)} pending=${pending} version=${version} allowed=${allowed} user=${user} />
    <div class="grid charts">
      <div class="card"><h2>Facts</h2><dl class="facts">
        <dt>Topic</dt><dd><${TopicLink} arn=${TopicArn} user=${user} /></dd>
        <dt>Endpoint</dt><dd><${Endpoint} text=${endpoint} user=${user} /></dd>
        <dt>ARN</dt><dd><span class="mono">${arn}</span> <${Copy} text=${arn} /></dd>
        ${FACTS.filter(([name]) => attributes[name]).map(([name, title]) => html`<dt>${title}</dt><dd class="mono">${attributes[name]}</dd>`)}
        ${!pending && html`<dt>Confirmed</dt><dd>${attributes.ConfirmationWasAuthenticated === "true" ? "with a signature" : "with a link or token"}</dd>`}
        ${attributes.EffectiveDeliveryPolicy && html`<dt>Retries in force</dt><dd><${Retries} policy=${attributes.EffectiveDeliveryPolicy} /></dd>`}
      </dl></div>
      <div class="card"><div class="row heading"><h2>Filter</h2>
        ${allowed.has("penstock:TestFilterPolicy") && html`<a href=${hashOf(["filter-tester"], { subscription: arn })}>Test it</a>`}</div>
        <${Filter} key=${`${attributes.FilterPolicyScope} ${attributes.FilterPolicy}`} attributes=${attributes} may=${may} set=${set} save=${save} /></div>
      <div class="card"><h2>Delivery</h2><${Delivery} key=${attributes.RedrivePolicy} attributes=${attributes} may=${may} set=${set} save=${save} user=${user} /></div>
      ${["http", "https"].includes(Protocol) && document("DeliveryPolicy", "Retries (DeliveryPolicy)")}
      ${isFifo(TopicArn) && html`<section class="card" aria-label="Replay">
        <${Replay} attributes=${attributes} may=${may} mayLook=${allowed.has("sns:GetTopicAttributes")} set=${set} save=${save} user=${user} /></section>`}
    </div>
    ${asking === "publish" && html`<${Publish} topic=${{ arn: TopicArn, name: nameOf(TopicArn) }} onClose=${() => setAsking("")} />`}
    ${asking === "delete" && html`<${Confirm} title="Unsubscribe" action="Unsubscribe" onClose=${() => setAsking("")}
      onConfirm=${async () => { await sns("Unsubscribe", { SubscriptionArn: arn }); location.hash = topicHash(TopicArn, user, "subscriptions"); }}>
      <p>${endpoint} gets no more messages of the topic.</p><//>`}`;
}

// How often an HTTP endpoint is tried again, in a sentence. SNS: those without a pause come first, then those with the least pause.
function Retries({ policy }) {
  const { healthyRetryPolicy: given = {}, throttlePolicy } = JSON.parse(policy);
  const { numRetries = 0, minDelayTarget = 0, maxDelayTarget = 0, numNoDelayRetries = 0, backoffFunction = "linear" } = given;
  const delays = minDelayTarget === maxDelayTarget ? `${minDelayTarget} s apart` : `${minDelayTarget} s to ${maxDelayTarget} s apart (${backoffFunction})`;
  return html`<details><summary>${count(numRetries)} ${numRetries === 1 ? "retry" : "retries"}${numRetries > 0 && `, ${delays}`}${numNoDelayRetries > 0
    && `, ${count(numNoDelayRetries)} of them at once`}${throttlePolicy?.maxReceivesPerSecond && `; at most ${throttlePolicy.maxReceivesPerSecond} per second`}</summary>
    <pre tabindex="0">${pretty(policy)}</pre></details>`;
}

function Filter({ attributes, may, set, save }) {
  const saved = { scope: attributes.FilterPolicyScope ?? SCOPES[0][0], policy: pretty(attributes.FilterPolicy ?? "") };
  const [given, setGiven] = useState(saved);
  const submit = (event) => {
    event.preventDefault();
    save(() => setFilter(set, saved, given), "The filter changed.");
  };
  return html`<form onSubmit=${submit}>
    <${FilterFields} ...${given} disabled=${!may} onChange=${setGiven} />
    ${may && html`<button class="primary" disabled=${given.scope === saved.scope && given.policy === saved.policy}>Save filter</button>`}
  </form>`;
}

// SNS sets one attribute at a time, and refuses nested policies for attributes: the wider scope is set while either policy is in force.
async function setFilter(set, before, { scope, policy }) {
  const text = policy.trim();
  if (scope === "MessageAttributes" || scope === before.scope) {
    if (policy !== before.policy) await set("FilterPolicy", text);
    if (scope !== before.scope) await set("FilterPolicyScope", scope);
    return;
  }
  await set("FilterPolicyScope", scope);
  try {
    await set("FilterPolicy", text);
  } catch (error) {
    await set("FilterPolicyScope", before.scope);
    throw error;
  }
}

function Delivery({ attributes, may, set, save, user }) {
  const before = deadLetterQueueOf(attributes);
  const [dead, setDead] = useState(before);
  const raw = attributes.RawMessageDelivery === "true";
  const submit = (event) => {
    event.preventDefault();
    // SNS: an attribute without a value removes the dead-letter queue.
    save(() => set("RedrivePolicy", dead.trim() ? redrivePolicy(dead.trim(), user) : undefined), "The dead-letter queue changed.");
  };
  return html`
    ${RAW_PROTOCOLS.includes(attributes.Protocol) && html`<label class="row"><input type="checkbox" checked=${raw} disabled=${!may}
      onChange=${() => save(() => set("RawMessageDelivery", String(!raw)), "Raw delivery changed.")} /> <span>Raw: deliver the message without an envelope</span></label>`}
    <form onSubmit=${submit}>
      <${Field} label="Dead-letter queue" hint="ARN of a queue, or the name of one of this account; empty: messages that cannot be delivered are lost.">
        <input value=${dead} disabled=${!may} autocomplete="off" onInput=${(event) => setDead(event.target.value)} /><//>
      ${may && html`<button disabled=${dead === before}>Save dead-letter queue</button>`}
    </form>`;
}
