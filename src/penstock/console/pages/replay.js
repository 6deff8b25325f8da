// Replays: a subscription of a FIFO topic with an archive gets messages of the archive again.
import { mapOf, sns } from "../api.js";
import { html, useState } from "../html.js";
import { useRepeated } from "../metrics.js";
import { Badge, Field, Problem } from "../ui.js";
import { topicHash } from "./topic_parts.js";

const STATES = { Completed: "good", Failed: "danger" };

// "set" gives the subscription an attribute; "save" runs what changes it, and says whether that went well.
export function Replay({ attributes, may, mayLook, set, save, user }) {
  const { TopicArn, ReplayPolicy, ReplayStatus } = attributes;
  const ask = async () => (mayLook ? mapOf((await sns("GetTopicAttributes", { TopicArn })).Attributes) : {});
  const { data: topic, error } = useRepeated(ask, [TopicArn, mayLook], 30);
  return html`<div class="row heading"><h2>Replay</h2>${ReplayStatus && html`<${Badge} kind=${STATES[ReplayStatus] ?? "warn"}>${ReplayStatus.toLowerCase()}<//>`}</div>
    <${Problem} error=${error} />
    ${ReplayPolicy && html`<p>${periodOf(ReplayPolicy)}</p>`}
    ${topic && (mayLook && !topic.ArchivePolicy ? html`<p class="soft">The topic has no archive. Turn it on in its
        <a href=${topicHash(TopicArn, user, "settings")}>settings</a>: from then on, messages can be delivered again.</p>`
      : may && html`<${Form} key=${ReplayPolicy} begin=${topic.BeginningArchiveTime} before=${ReplayPolicy} set=${set} save=${save} />`)}`;
}

function periodOf(policy) {
  const { StartingPoint, EndingPoint } = JSON.parse(policy);
  return `From ${shown(StartingPoint)} ${EndingPoint ? `to ${shown(EndingPoint)}` : "to the time at which it was started"}.`;
}

const shown = (text) => new Date(text).toLocaleString();

function Form({ begin, before, set, save }) {
  const [from, setFrom] = useState(local(begin));
  const [to, setTo] = useState("");
  const start = (event) => {
    event.preventDefault();
    const policy = { PointType: "Timestamp", StartingPoint: atLeast(from, begin), ...(to && { EndingPoint: new Date(to).toISOString() }) };
    save(() => begun(set, before, JSON.stringify(policy)), "The replay begins.");
  };
  return html`<form onSubmit=${start}>
    <p class="soft">Messages of the archive that pass the filter are delivered again, to this subscription only, marked as replayed.
      Messages that are published meanwhile are not held back.</p>
    <div class="grid">
      <${Field} label="From" hint=${begin ? `The archive begins at ${shown(begin)}.` : "In your time."}><input name="from" type="datetime-local" step="1" required value=${from}
        min=${local(begin)} onInput=${(event) => setFrom(event.target.value)} /><//>
      <${Field} label="To" hint="Empty: until now."><input name="to" type="datetime-local" step="1" value=${to} min=${from} onInput=${(event) => setTo(event.target.value)} /><//>
    </div>
    <div class="row"><button class="primary">Start replay</button>
      ${before && html`<button type="button" onClick=${() => save(() => set("ReplayPolicy", "{}"), "The replay was removed.")}>Remove replay</button>`}</div>
  </form>`;
}

// SNS: a policy that does not change begins nothing.
async function begun(set, before, policy) {
  if (policy === before) await set("ReplayPolicy", "{}");
  await set("ReplayPolicy", policy);
}

// A field shows whole seconds in the time of the user: its first second may begin before the archive does.
function atLeast(text, begin) {
  const at = new Date(text), first = begin ? new Date(begin) : at;
  return (at < first && first - at < 1000 ? first : at).toISOString();
}

function local(text) {
  if (!text) return "";
  const at = new Date(text);
  return new Date(at - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 19);
}
