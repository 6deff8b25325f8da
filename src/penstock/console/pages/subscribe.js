// The dialog that subscribes an endpoint to a topic.
import { sns } from "../api.js";
import { html, useEffect, useState } from "../html.js";
import { attempt, Dialog, Field, notify } from "../ui.js";
import { FilterFields } from "./filter_parts.js";
import { isFifo, nameOf, queueArn, queueNames, redrivePolicy } from "./topic_parts.js";

// Protocol, what its endpoint is, and whether messages can be delivered without an envelope.
const PROTOCOLS = {
  sqs: ["ARN of a queue, or the name of one of this account", true], http: ["http://…", true], https: ["https://…", true],
  email: ["Address of email", false], "email-json": ["Address of email", false], sms: ["Phone number", false],
  application: ["ARN of an endpoint for push notifications", false], lambda: ["ARN of a function", false],
};

export function Subscribe({ topic, allowed, user, onClose, onDone }) {
  const [protocol, setProtocol] = useState("sqs");
  const [queues, setQueues] = useState([]);
  const [hint, canBeRaw] = PROTOCOLS[protocol];
  useEffect(() => { queueNames("", allowed).then(setQueues, () => {}); }, []);
  const subscribe = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const text = given.get("endpoint").trim(), dead = given.get("dead").trim(), filter = given.get("filter").trim();
    const Attributes = {
      ...(filter && { FilterPolicy: filter, FilterPolicyScope: given.get("scope") }),
      ...(given.get("raw") && { RawMessageDelivery: "true" }), ...(dead && { RedrivePolicy: redrivePolicy(dead, user) }),
    };
    const Endpoint = protocol === "sqs" ? queueArn(text, user) : text;
    const found = await attempt(() => sns("Subscribe", { TopicArn: topic, Protocol: protocol, Endpoint, Attributes }));
    if (!found) return;
    notify(found.SubscriptionArn === "pending confirmation" ? `The subscription waits until ${text} confirms it.` : `${text} is subscribed.`);
    onDone();
  };
  return html`<${Dialog} title=${`Subscribe to ${nameOf(topic)}`} onClose=${onClose} wide><form onSubmit=${subscribe}>
    <div class="row start">
      <${Field} label="Protocol"><select value=${protocol} onChange=${(event) => setProtocol(event.target.value)}>
        ${Object.keys(PROTOCOLS).filter((each) => !isFifo(topic) || each === "sqs").map((each) => html`<option>${each}</option>`)}</select><//>
      <div class="grow"><${Field} label="Endpoint" hint=${hint}>
        <input name="endpoint" required autofocus list=${protocol === "sqs" ? "queues" : undefined} autocomplete="off" /><//></div>
    </div>
    ${protocol === "sqs" && user.secured && html`<p class="soft">The access policy of the queue has to allow the topic to send.</p>`}
    ${canBeRaw && html`<label class="row"><input type="checkbox" name="raw" /> <span>Raw: deliver the message without an envelope</span></label>`}
    <${FilterFields} />
    <${Field} label="Dead-letter queue" hint="Optional: where messages go that cannot be delivered."><input name="dead" list="queues" autocomplete="off" /><//>
    <datalist id="queues">${queues.map((name) => html`<option value=${name} />`)}</datalist>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button class="primary">Subscribe</button></footer>
  </form><//>`;
}
