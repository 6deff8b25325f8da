// What becomes of messages for one subscription: failures, what waits, and which of the last messages pass its filter.
import { admin, query, watch } from "../api.js";
import { age, count, duration } from "../format.js";
import { html } from "../html.js";
import { useRepeated } from "../metrics.js";
import { Badge, hashOf, NotAllowed, Problem, useWatched } from "../ui.js";
import { nextTry } from "./deliveries.js";
import { FailingFacts, useFailing } from "./failing.js";

const WAITING_SHOWN = 5;

const LOOK = "penstock:ListFailingSubscriptions";

export function SubscriptionActivity({ arn, filtered, pending, version, allowed, user }) {
  const failing = useFailing({ subscription: arn }, allowed, version)?.get(arn);
  if (!allowed.has(LOOK)) return html`<${NotAllowed} permission=${LOOK} allowed=${allowed} user=${user}>So it is not shown what failed.<//>`;
  return html`<div class="grid charts">
    <section class="card" aria-label="Deliveries"><h2>Deliveries</h2>
      ${pending && html`<p>Messages are not delivered before the subscription is confirmed.</p>`}
      ${failing && html`<${FailingFacts} failing=${failing} user=${user} />`}
      ${!failing && html`<p class="soft">No failure since the server was started.</p>`}
      ${allowed.has("penstock:ListWaitingDeliveries") && html`<${Waiting} arn=${arn} />`}</section>
    ${allowed.has("penstock:ListRecentMessages") && html`<${RecentMessages} arn=${arn} filtered=${filtered} allowed=${allowed} version=${version} />`}
  </div>`;
}

function Waiting({ arn }) {
  const path = `topics/deliveries${query({ subscription: arn, limit: WAITING_SHOWN })}`;
  const { data, error } = useWatched((onData, onError) => watch(path, onData, onError), [path]);
  const deliveries = data?.deliveries ?? [];
  return html`<${Problem} error=${error} />
    ${data && !deliveries.length && html`<p class="soft">Nothing waits to be delivered.</p>`}
    ${deliveries.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Waiting for this endpoint"><table>
      <thead><tr><th>Waits for</th><th class="number">Attempts</th><th>Last error</th><th class="number">Next try</th></tr></thead>
      <tbody>${deliveries.map((each) => html`<tr key=${each.message_id} title=${each.message_id}><td class="time">${duration(each.age_ms / 1000)}</td>
        <td class="number">${count(each.attempt)}</td><td>${each.last_error ?? ""}</td><td class="number">${nextTry(each)}</td></tr>`)}</tbody></table></div>
      <p><a href=${hashOf(["deliveries"], { subscription: arn })}>All that wait</a></p>`}`;
}

export const recentMessages = async (subscription) => (await admin("GET", `topics/recent${query({ subscription })}`)).messages;

function RecentMessages({ arn, filtered, allowed, version }) {
  const { data, error } = useRepeated(() => recentMessages(arn), [arn, version], 3);
  const held = data?.filter(({ passes }) => !passes).length ?? 0;
  return html`<section class="card" aria-label="Last messages"><div class="row heading"><h2>Last messages of the topic</h2>
      ${filtered && data?.length > 0 && html`<span class="soft">the filter holds back ${count(held)} of ${count(data.length)}</span>`}</div>
    <${Problem} error=${error} />
    ${data && !data.length && html`<p class="soft">None was published since the server was started.</p>`}
    ${data?.length > 0 && html`<div class="scroll" tabindex="0" role="region" aria-label="Last messages of the topic"><table>
      <thead><tr><th>Age</th><th>Message</th><th colspan="2">Filter</th></tr></thead>
      <tbody>${data.map((each) => html`<tr key=${each.id}><td class="time">${age(each.published_at)}</td>
        <td class="cut rest" title=${each.body.slice(0, 1000)}>${each.subject && `${each.subject}: `}${each.body.slice(0, 200)}</td>
        <td><${Badge} kind=${each.passes ? "good" : "warn"}>${each.passes ? "passes" : "filtered out"}<//></td>
        <td>${filtered && allowed.has("penstock:TestFilterPolicy")
          && html`<a href=${hashOf(["filter-tester"], { subscription: arn, message: each.id })}>Why</a>`}</td></tr>`)}</tbody></table></div>`}</section>`;
}
