// One topic: figures, subscriptions, settings, publish.
import { mapOf, sns } from "../api.js";
import { count, named, time } from "../format.js";
import { html, useState } from "../html.js";
import { useRepeated } from "../metrics.js";
import { useTopicPermissions } from "../permissions.js";
import { Badge, Confirm, Copy, hashOf, NotAllowed, Problem } from "../ui.js";
import { FailingList, useFailing } from "./failing.js";
import { Publish } from "./publish.js";
import { SubscriptionList } from "./subscriptions.js";
import { isFifo, nameOf, topicHash, topicOf } from "./topic_parts.js";
import { TopicCharts } from "./topic_charts.js";
import { TopicSettings } from "./topic_settings.js";

const LOOK = "sns:GetTopicAttributes";

export function Topic(given) {
  const arn = topicOf(given.parts[1], given.user);
  const allowed = useTopicPermissions(arn);
  if (!allowed) return html`<p class="soft">Loading</p>`;
  return allowed.has(LOOK) ? html`<${OneTopic} key=${arn} arn=${arn} ...${given} allowed=${allowed} />`
    : html`<div class="head"><h1>${nameOf(arn)}</h1></div><${NotAllowed} permission=${LOOK} allowed=${allowed} user=${given.user} />`;
}

function OneTopic({ arn, parts, params, allowed, user }) {
  const [, , tab = "overview"] = parts;
  const [asking, setAsking] = useState("");
  const [version, setVersion] = useState(0);
  const { data: topic, error } = useRepeated(() => topicNamed(arn, allowed), [arn, version], 5);
  if (!topic)
    return !error ? html`<p class="soft">Loading</p>`
      : html`<div class="head"><h1>${nameOf(arn)}</h1></div><${Problem} error=${error} /><p><a href="#/topics">All topics</a></p>`;
  const tabs = [["overview", "Overview"], ["subscriptions", "Subscriptions", "sns:ListSubscriptionsByTopic"], ["settings", "Settings"]]
    .filter(([, , permission]) => !permission || allowed.has(permission));
  const close = () => setAsking("");
  const changed = () => setVersion((before) => before + 1);
  return html`
    <div class="head">
      <h1>${topic.name}</h1><${Badge}>${isFifo(arn) ? "FIFO" : "standard"}<//>
      <div class="actions">
        ${allowed.has("sns:Publish") && html`<button class="primary" onClick=${() => setAsking("publish")}>Publish message</button>`}
        ${allowed.has("sns:DeleteTopic") && html`<button class="danger" onClick=${() => setAsking("delete")}>Delete</button>`}
      </div>
    </div>
    <${Problem} error=${error} />
    <nav class="tabs" aria-label="Parts of the topic">${tabs.map(([key, title]) => html`
      <a href=${topicHash(arn, user, key)} aria-current=${tab === key ? "page" : undefined}>${title}</a>`)}</nav>
    ${tab === "overview" && html`<${Overview} topic=${topic} allowed=${allowed} user=${user} />`}
    ${tab === "subscriptions" && html`<${SubscriptionList} topic=${arn} params=${params} allowed=${allowed} user=${user} onChange=${changed} />`}
    ${tab === "settings" && html`<${TopicSettings} topic=${topic} allowed=${allowed} onChange=${changed} />`}
    ${asking === "publish" && html`<${Publish} topic=${topic} onClose=${close} />`}
    ${asking === "delete" && html`<${Confirm} title=${`Delete ${topic.name}`} action="Delete" typed=${topic.name} onClose=${close}
      onConfirm=${async () => { await sns("DeleteTopic", { TopicArn: arn }); location.hash = "#/topics"; }}>
      <p>The topic and its subscriptions will be deleted. This cannot be undone.</p><//>`}`;
}

async function topicNamed(arn, allowed) {
  const { Attributes } = await sns("GetTopicAttributes", { TopicArn: arn });
  const tags = allowed.has("sns:ListTagsForResource") ? (await sns("ListTagsForResource", { ResourceArn: arn })).Tags ?? [] : [];
  return { arn, name: nameOf(arn), attributes: mapOf(Attributes), tags: Object.fromEntries(tags.map(({ Key, Value }) => [Key, Value])) };
}

function Overview({ topic, allowed, user }) {
  const { arn, attributes } = topic;
  const failing = useFailing({ topic: topic.name }, allowed, 0);
  return html`
    <div class="tiles">
      <div class="tile"><b>${count(Number(attributes.SubscriptionsConfirmed))}</b><span>${named(Number(attributes.SubscriptionsConfirmed), "subscription")}</span></div>
      <div class="tile"><b>${count(Number(attributes.SubscriptionsPending))}</b><span>waiting for confirmation</span></div>
      <div class="tile"><b>${count(Number(attributes.SubscriptionsDeleted))}</b><span>deleted by their endpoints</span></div>
    </div>
    <${FailingList} failing=${failing} topic=${arn} user=${user} />
    <${TopicCharts} name=${topic.name} allowed=${allowed} />
    <div class="card"><h2>Facts</h2><dl class="facts">
      <dt>ARN</dt><dd><span class="mono">${arn}</span> <${Copy} text=${arn} /></dd>
      <dt>Owner</dt><dd>${attributes.Owner}</dd>
      ${attributes.DisplayName && html`<dt>Display name</dt><dd>${attributes.DisplayName}</dd>`}
      ${isFifo(arn) && html`<dt>Duplicates</dt><dd>${attributes.ContentBasedDeduplication === "true" ? "recognized by content or id" : "recognized by id"},
        ${attributes.FifoThroughputScope === "MessageGroup" ? " in each group" : " in the whole topic"}</dd>`}
      ${attributes.ArchivePolicy && html`<dt>Archive</dt><dd>messages of ${JSON.parse(attributes.ArchivePolicy).MessageRetentionPeriod} days${attributes.BeginningArchiveTime
        && `, at present since ${time(attributes.BeginningArchiveTime)}`}; subscriptions can replay them</dd>`}
      ${allowed.has("penstock:ListWaitingDeliveries") && html`<dt>Waiting</dt><dd><a href=${hashOf(["deliveries"], { topic: topic.name })}>What waits for its endpoints</a></dd>`}
    </dl></div>`;
}
