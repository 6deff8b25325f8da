// The dialog that publishes a message to a topic.
import { sns } from "../api.js";
import { html, useState } from "../html.js";
import { attempt, Dialog, Field, notify } from "../ui.js";
import { AttributeRows, messageAttributes } from "./message_parts.js";
import { isFifo, TOPIC_TYPES } from "./topic_parts.js";

export function Publish({ topic, onClose }) {
  const fifo = isFifo(topic.arn);
  const [rows, setRows] = useState([]);
  const publish = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target), text = (name) => given.get(name) || undefined;
    const published = await attempt(() => sns("Publish", {
      TopicArn: topic.arn, Message: given.get("message"), Subject: text("subject"), MessageStructure: text("structure"),
      MessageGroupId: text("group"), MessageDeduplicationId: text("dedup"), MessageAttributes: messageAttributes(rows),
    }));
    if (!published) return;
    notify(`The message was published. Its id is ${published.MessageId}.`);
    if (event.submitter?.value !== "again") onClose();
  };
  return html`<${Dialog} title=${`Publish to ${topic.name}`} onClose=${onClose} wide><form onSubmit=${publish}>
    <${Field} label="Message"><textarea name="message" required autofocus spellcheck=${false}></textarea><//>
    <label class="row"><input type="checkbox" name="structure" value="json" />
      <span>The message is JSON with a text for each protocol: <code>{"default": "…", "sqs": "…"}</code></span></label>
    <${Field} label="Subject" hint="Of emails; optional."><input name="subject" maxlength="100" /><//>
    <${AttributeRows} rows=${rows} onChange=${setRows} types=${TOPIC_TYPES} />
    <div class="grid">
      <${Field} label="Message group" hint=${fifo ? "Messages of a group keep their order." : "For fair queues: the tenant."}><input name="group" required=${fifo} maxlength="128" /><//>
      ${fifo && html`<${Field} label="Deduplication id" hint="Not necessary with content-based deduplication."><input name="dedup" maxlength="128" /><//>`}
    </div>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button value="again">Publish, and stay here</button><button class="primary">Publish</button></footer>
  </form><//>`;
}
