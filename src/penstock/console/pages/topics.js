// All topics of the account, with what was published lately; and what to do when there are none.
import { admin, mapOf, query, sns } from "../api.js";
import { Spark } from "../charts.js";
import { count } from "../format.js";
import { html, useState } from "../html.js";
import { filled, metricData, useRepeated } from "../metrics.js";
import { attempt, Badge, Copy, Dialog, Empty, Field, hashOf, Problem, replaceHash, rowKeys } from "../ui.js";
import { FailingList, useFailing } from "./failing.js";
import { arnOf, isFifo, listed, nameOf, topicHash, TopicLink, topicOf, Turns } from "./topic_parts.js";

export function Topics({ params, allowed, user }) {
  const { contains = "", after = "" } = params;
  const [creating, setCreating] = useState(false);
  const [ask, every] = allowed.has("penstock:ListTopics") ? [topicsOfAdmin, 5] : [topicsOfSns, 15];
  const { data, error } = useRepeated(() => ask(contains, after, allowed), [contains, after], every);
  const failing = useFailing({}, allowed, 0);
  const topics = data?.topics ?? [];
  const sparks = usePublishedLately(topics.map(({ name }) => name), allowed);
  return html`
    <div class="head"><h1>Topics</h1><div class="actions">
      ${allowed.has("sns:CreateTopic") && html`<button class="primary" onClick=${() => setCreating(true)}>Create topic</button>`}</div></div>
    <${Problem} error=${error} />
    ${data && !topics.length && !contains && !after ? html`<${FirstSteps} user=${user} />` : html`
      ${!contains && !after && html`<${FailingList} failing=${failing} user=${user} most=${5} />`}
      <input data-filter type="search" placeholder="Filter by name" aria-label="Filter by name" value=${contains}
        onInput=${(event) => replaceHash(["topics"], { contains: event.target.value })} />
      <div class="card scroll" tabindex="0" role="region" aria-label="Topics"><table onKeyDown=${rowKeys}>
        <thead><tr><th>Name</th><th class="number">Subscriptions</th><th class="number">Pending</th><th class="number">Waiting</th><th class="optional">Published, last hour</th></tr></thead>
        <tbody>${topics.map(({ arn, confirmed, pending, waiting, failing, name }) => html`<tr key=${arn} tabindex="-1">
          <td class="cut"><${TopicLink} arn=${arn} user=${user} />${isFifo(arn) && html` <${Badge}>FIFO<//>`}${failing > 0
            && html` <a href=${topicHash(arn, user, "subscriptions")}><${Badge} kind="danger">${count(failing)} failing<//></a>`}</td>
          <td class="number">${count(confirmed)}</td><td class="number">${count(pending)}</td>
          <td class="number">${waiting > 0 ? html`<a href=${hashOf(["deliveries"], { topic: name })}>${count(waiting)}</a>` : count(waiting)}</td>
          <td class="optional"><${Spark} values=${sparks.get(name)} /></td></tr>`)}</tbody>
      </table>${data && !topics.length && html`<${Empty} title=${data.next ? "None of the first topics matches" : "No topic matches"} />`}</div>
      <${Turns} label="Pages of topics" after=${after} next=${data?.next} onTurn=${(begins) => replaceHash(["topics"], { contains, after: begins })} />`}
    ${creating && html`<${CreateTopic} user=${user} onClose=${() => setCreating(false)} />`}`;
}

const topicsOfAdmin = (contains, after) => admin("GET", `topics${query({ contains, after, limit: 100 })}`);

// For users without the admin API. Counts that may not be read are left out.
async function topicsOfSns(contains, after, allowed) {
  const matches = ({ TopicArn }) => nameOf(TopicArn).includes(contains);
  const { found, next } = await listed("ListTopics", "Topics", {}, matches, after);
  const counts = async (TopicArn) => {
    const { SubscriptionsConfirmed, SubscriptionsPending } = mapOf((await sns("GetTopicAttributes", { TopicArn })).Attributes);
    return { confirmed: Number(SubscriptionsConfirmed), pending: Number(SubscriptionsPending) };
  };
  const topics = found.map(async ({ TopicArn }) => ({
    arn: TopicArn, name: nameOf(TopicArn),
    ...(allowed.has("sns:GetTopicAttributes") && await counts(TopicArn).catch(() => ({}))),
  }));
  return { topics: await Promise.all(topics), next };
}

// Messages published in each minute of the last hour, by topic.
function usePublishedLately(names, allowed) {
  const ask = async () => {
    if (!names.length || !allowed.has("cloudwatch:GetMetricData")) return new Map();
    const queries = names.map((name, at) => ({ Id: `m${at}`, Label: name, MetricStat: {
      Metric: { Namespace: "AWS/SNS", MetricName: "NumberOfMessagesPublished", Dimensions: [{ Name: "TopicName", Value: name }] },
      Period: 60, Stat: "Sum" } }));
    const found = await metricData(queries, 3600, 60);
    const end = Math.floor(Date.now() / 60_000) * 60;
    return new Map(found.map((each) => [each.label, filled(each, end - 3600, end, 60)]));
  };
  return useRepeated(ask, [names.join(" ")], 30).data ?? new Map();
}

function FirstSteps({ user }) {
  const address = location.origin, topic = arnOf("sns", "orders", user), queue = arnOf("sqs", "invoices", user);
  const keys = user.secured ? "" : `
    "aws_access_key_id": "any", "aws_secret_access_key": "any",`;
  const python = `import boto3

server = {
    "endpoint_url": "${address}",
    "region_name": "${user.region}",${keys}
}
sqs = boto3.client("sqs", **server)
sqs.create_queue(QueueName="invoices")
sns = boto3.client("sns", **server)
topic = sns.create_topic(Name="orders")["TopicArn"]
sns.subscribe(
    TopicArn=topic, Protocol="sqs",
    Endpoint="${queue}",
)
sns.publish(TopicArn=topic, Message="one espresso")`;
  const shell = `export AWS_ENDPOINT_URL=${address}
aws sns create-topic --name orders
aws sqs create-queue --queue-name invoices
aws sns subscribe --protocol sqs \\
  --topic-arn ${topic} \\
  --notification-endpoint ${queue}
aws sns publish --message "two lattes" \\
  --topic-arn ${topic}`;
  return html`<div class="card"><h2>There are no topics yet</h2>
    <p>A topic passes each message on to all its subscriptions: to queues, to URLs, to addresses of email. Create one here, or with any client of Amazon SNS.</p>
    <div class="grid">
      <div><div class="row"><h2>Python</h2><${Copy} text=${python} /></div><pre>${python}</pre></div>
      <div><div class="row"><h2>Terminal</h2><${Copy} text=${shell} /></div><pre>${shell}</pre></div>
    </div></div>`;
}

function CreateTopic({ user, onClose }) {
  const [fifo, setFifo] = useState(false);
  const create = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    let Name = given.get("name").trim();
    if (fifo && !isFifo(Name)) Name += ".fifo";
    const Attributes = {
      ...(given.get("display") && { DisplayName: given.get("display") }),
      ...(fifo && { FifoTopic: "true" }), ...(given.get("content") && { ContentBasedDeduplication: "true" }),
    };
    if (await attempt(() => sns("CreateTopic", { Name, Attributes }), `Topic ${Name} was created.`)) {
      onClose();
      location.hash = topicHash(topicOf(Name, user), user);
    }
  };
  return html`<${Dialog} title="Create topic" onClose=${onClose}><form onSubmit=${create}>
    <${Field} label="Name"><input name="name" required maxlength="256" pattern="[A-Za-z0-9_\\-]+(\\.fifo)?" autofocus /><//>
    <label class="row"><input type="checkbox" checked=${fifo} onChange=${(event) => setFifo(event.target.checked)} /> FIFO: keep the order, drop duplicates</label>
    ${fifo && html`<label class="row"><input type="checkbox" name="content" /> Recognize duplicates by their content</label>`}
    <${Field} label="Display name" hint="The sender of emails; optional."><input name="display" maxlength="100" /><//>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Create</button></footer>
  </form><//>`;
}
