// What the pages of topics and subscriptions share.
import { place, sns, sqs } from "../api.js";
import { html } from "../html.js";
import { Badge, hashOf } from "../ui.js";

export const TOPIC_TYPES = ["String", "String.Array", "Number", "Binary"]; // of message attributes

const ARN_PARTITIONS = [["cn-", "aws-cn"], ["us-gov-", "aws-us-gov"]];
const PENDING = "PendingConfirmation", DELETED = "Deleted"; // in the place of the ARN of a subscription

const shown = (user) => ({ region: place.region || user.region, account: place.account || user.account });

export function arnOf(service, name, user) {
  const { region, account } = shown(user);
  const [, partition] = ARN_PARTITIONS.find(([prefix]) => region.startsWith(prefix)) ?? ["", "aws"];
  return `arn:${partition}:${service}:${region}:${account}:${name}`;
}

export const nameOf = (arn) => arn.split(":").slice(5).join(":");
export const isFifo = (arn) => arn.endsWith(".fifo");

// An address has the name of a topic, or the ARN of one in another account or region.
export const topicOf = (text, user) => (text.startsWith("arn:") ? text : arnOf("sns", text, user));
export const topicParts = (arn, user, ...more) => ["topic", arn === arnOf("sns", nameOf(arn), user) ? nameOf(arn) : arn, ...more];
export const topicHash = (arn, user, ...more) => hashOf(topicParts(arn, user, ...more));
export const TopicLink = ({ arn, user }) => html`<a href=${topicHash(arn, user)} title=${nameOf(arn)}>${nameOf(arn)}</a>`;

// The name of a queue that has a page here; other endpoints are shown as they are.
export const shortEndpoint = (text, user) => (isOwnQueue(text, user) ? nameOf(text) : text);
const isOwnQueue = (text, user) => text === arnOf("sqs", nameOf(text), user);

export const Endpoint = ({ text, user }) => (isOwnQueue(text, user) ? html`<a href=${hashOf(["queue", nameOf(text)])}>${nameOf(text)}</a>`
  : html`<span class="mono">${text}</span>`);

export const isPending = ({ SubscriptionArn }) => SubscriptionArn === PENDING;
export const hasPage = ({ SubscriptionArn }) => ![PENDING, DELETED].includes(SubscriptionArn);

export function SubscriptionState({ subscription }) {
  if (isPending(subscription)) return html`<${Badge} kind="warn">pending<//>`;
  return hasPage(subscription) ? html`<${Badge} kind="good">confirmed<//>` : html`<${Badge}>deleted<//>`;
}

export function deadLetterQueueOf({ RedrivePolicy = "" }) {
  try {
    return JSON.parse(RedrivePolicy).deadLetterTargetArn ?? "";
  } catch {
    return "";
  }
}

export const redrivePolicy = (text, user) => JSON.stringify({ deadLetterTargetArn: queueArn(text, user) });
export const queueArn = (text, user) => (text.includes(":") ? text : arnOf("sqs", text, user));

// What is offered where the ARN of a queue is asked for; users may enter any other.
export async function queueNames(prefix, allowed) {
  if (!allowed.has("sqs:ListQueues")) return [];
  const { QueueUrls = [] } = await sqs("ListQueues", { MaxResults: 50, ...(prefix && { QueueNamePrefix: prefix }) });
  return QueueUrls.map((url) => url.split("/").pop());
}

// Pages of 100 as SNS lists them, until enough of their items match: SNS has no search.
export async function listed(action, member, members, matches, after) {
  const found = [];
  let next = after;
  for (let page = 0; page < 20; page++) {
    const answer = await sns(action, { ...members, ...(next && { NextToken: next }) });
    found.push(...(answer[member] ?? []).filter(matches));
    next = answer.NextToken ?? "";
    if (!next || found.length >= 100) break;
  }
  return { found, next };
}

// after: where these items begin, empty for the first ones; next: where the following ones do, if there are any.
export function Turns({ label, after, next, onTurn }) {
  return (after || next) && html`<nav class="row" aria-label=${label}>
    ${after && html`<button onClick=${() => onTurn("")}>First page</button>`}
    ${next && html`<button onClick=${() => onTurn(next)}>Next page</button>`}
  </nav>`;
}
