// How many workers a queue needs. The server measures and decides; KEDA and other autoscalers ask it the same.
import { admin, place, query, queuePath } from "../api.js";
import { compact, count, duration, plural, rate } from "../format.js";
import { html } from "../html.js";
import { useRepeated } from "../metrics.js";
import { Copy, Field, FilterInput, Problem, replaceHash } from "../ui.js";

const ASK_EVERY_S = 5;
const LATENCY_S = 60;

export function QueueScaling({ queue, allowed, params, user }) {
  if (!allowed.has("penstock:GetScaling")) return null;
  const { latency_s = LATENCY_S, messages_per_worker, workers } = params;
  const target = { latency_s, messages_per_worker, workers };
  // In the address, so that it can be shared and reloaded.
  const change = (member) => (value) => replaceHash(["queue", queue.name], { ...params, [member]: value });
  const number = (member, label, min, placeholder) => html`<${Field} label=${label}>
    <${FilterInput} title=${label} placeholder=${placeholder} type="number" min=${min} step=${member === "latency_s" ? "any" : 1}
      value=${String(target[member] ?? "")} onDone=${change(member)} /><//>`;
  return html`<section class="card" aria-label="Workers"><h2>Workers</h2>
    <div class="row">
      ${number("latency_s", "Target latency (seconds)", 0, LATENCY_S)}
      ${number("messages_per_worker", "Messages that a worker holds", 1, "1")}
      ${number("workers", "Workers that run now", 0, "estimated")}
    </div>
    <${Suggestion} name=${queue.name} target=${target} />
    <${Keda} queue=${queue} target=${target} user=${user} /></section>`;
}

function Suggestion({ name, target }) {
  const path = `${queuePath(name)}/scaling${query(target)}`;
  const { data: found, error } = useRepeated(() => admin("GET", path), [path], ASK_EVERY_S);
  if (!found) return html`<${Problem} error=${error} />`;
  return html`<${Problem} error=${error} />
    <div class="tiles">
      <div class="tile"><b>${count(found.suggested_workers)}</b><span>suggested ${found.suggested_workers === 1 ? "worker" : "workers"} for a latency of ${duration(found.latency_s)}</span></div>
      <div class="tile"><b>${compact(found.backlog_per_worker)}</b><span>backlog per worker</span></div>
      <div class="tile"><b>${duration(found.processing_time_s)}</b><span>processing time</span></div>
      <div class="tile"><b>${rate(found.sent_rate)}</b><span>arrivals per second</span></div>
      <div class="tile"><b>${rate(found.deleted_rate)}</b><span>departures per second</span></div>
    </div>
    <p class="soft">${explained(found)}</p>`;
}

function explained({ processing_time_s, backlog, in_flight }) {
  if (processing_time_s !== undefined)
    return "Measured over the last five minutes. The processing time is from a receive to the delete of the message.";
  const unknown = "Not enough data yet: no message was received and deleted in the last five minutes, so the processing time is not known.";
  if (backlog + in_flight === 0) return `${unknown} The queue is empty and needs no worker.`;
  return `${unknown} One worker is suggested for the ${plural(backlog + in_flight, "message")} until then.`;
}

// The metrics-api scaler cannot sign requests, and what is not signed is about the server's own account and region.
function Keda({ queue, target, user }) {
  const atHome = [[place.region, user.region], [place.account, user.account]].every(([shown, home]) => !shown || shown === home);
  const byWorkers = !user.secured && atHome;
  const trigger = byWorkers ? suggestedTrigger(queue, target) : backlogTrigger(queue, user);
  return html`<details><summary>Scale by this with KEDA</summary>
    <p class="soft">${byWorkers ? "A trigger that runs as many workers as suggested."
      : "A trigger by the number of messages: KEDA can sign requests to SQS, but not those to the API of this page. Give it keys with a TriggerAuthentication."}</p>
    <pre tabindex="0">${trigger}</pre>
    <p><${Copy} text=${trigger} label="Copy trigger" /></p></details>`;
}

const suggestedTrigger = ({ name }, { latency_s, messages_per_worker }) => `triggers:
  - type: metrics-api
    metadata:
      url: ${JSON.stringify(`${location.origin}/admin/v1/${queuePath(name)}/scaling${query({ latency_s, messages_per_worker })}`)}
      valueLocation: suggested_workers
      targetValue: "1"
`;

const backlogTrigger = ({ url }, { region }) => `triggers:
  - type: aws-sqs-queue
    metadata:
      queueURL: ${JSON.stringify(url)}
      queueLength: "5"
      awsRegion: ${JSON.stringify(place.region || region)}
      awsEndpoint: ${JSON.stringify(location.origin)}
`;
