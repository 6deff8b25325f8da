import { sqs } from "../api.js";
import { html, useState } from "../html.js";
import { attempt, Dialog, Field } from "../ui.js";
import { AttributeRows, messageAttributes } from "./message_parts.js";

export function Send({ queue, onClose }) {
  const fifo = queue.kind === "fifo";
  const [rows, setRows] = useState([]);
  const send = async (event) => {
    event.preventDefault();
    const given = new FormData(event.target);
    const request = { QueueUrl: queue.url, MessageBody: given.get("body") };
    if (given.get("delay")) request.DelaySeconds = Number(given.get("delay"));
    if (given.get("group")) request.MessageGroupId = given.get("group");
    if (given.get("dedup")) request.MessageDeduplicationId = given.get("dedup");
    const attributes = messageAttributes(rows);
    if (Object.keys(attributes).length) request.MessageAttributes = attributes;
    const sent = await attempt(() => sqs("SendMessage", request), "The message was sent.");
    if (sent && event.submitter?.value !== "again") onClose();
  };
  return html`<${Dialog} title=${`Send to ${queue.name}`} onClose=${onClose} wide><form onSubmit=${send}>
    <${Field} label="Body"><textarea name="body" required autofocus spellcheck=${false}></textarea><//>
    <${AttributeRows} rows=${rows} onChange=${setRows} />
    <div class="grid">
      ${!fifo && html`<${Field} label="Delay" hint="Seconds, up to 900."><input name="delay" type="number" min="0" max="900" /><//>`}
      <${Field} label="Message group" hint=${fifo ? "Messages of a group keep their order." : "Of a fair queue: the tenant."}><input name="group" required=${fifo} maxlength="128" /><//>
      ${fifo && html`<${Field} label="Deduplication id" hint="Not necessary with content-based deduplication."><input name="dedup" maxlength="128" /><//>`}
    </div>
    <footer><button type="button" onClick=${onClose}>Cancel</button><button value="again">Send, and stay here</button><button class="primary">Send</button></footer>
  </form><//>`;
}
