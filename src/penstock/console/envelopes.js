// What other software wraps around a body: Celery (kombu), Dramatiq, SNS, base64. Contents are decoded, never run, and
// are shown as the text that was sent: JSON that is written again would lose digits of large numbers.

// {kind, facts: [[name, text]], content: text or undefined}; null if the body is none of these.
export function readEnvelope(body) {
  const decoded = parsed(body) === undefined ? fromBase64(body) : undefined;
  const value = parsed(decoded ?? body);
  if (!isObject(value) && !(decoded && Array.isArray(value))) return null;
  for (const read of [celery, dramatiq, sns]) {
    const found = read(value);
    if (found) return { content: decoded, ...found, facts: shown(found.facts) };
  }
  return decoded === undefined ? null : { kind: "Base64", facts: [], content: decoded };
}

// Protocol 2 has the task in headers and [args, kwargs, options] as content, protocol 1 all of it in the content.
function celery({ headers, properties, body, "content-type": type }) {
  if (!isObject(headers) || !isObject(properties) || typeof body !== "string") return null;
  const content = properties.body_encoding === "base64" ? fromBase64(body) : body;
  const readable = /json|text|yaml/.test(type) ? content : undefined;
  const inside = parsed(readable);
  const task = typeof headers.task === "string" ? headers : isObject(inside) ? inside : {};
  if (typeof task.task !== "string") return null;
  const facts = [["Task", task.task], ["Id", task.id], ["Retries", task.retries], ["Not before", task.eta], ["Expires", task.expires],
    ["Group", task.group], ["Started by", task.parent_id], ["Sent by", task.origin]];
  if (readable === undefined) facts.push(["Arguments", task.argsrepr], ["Keyword arguments", task.kwargsrepr], ["Content type", type]);
  return { kind: "Celery task", facts, content: readable };
}

function dramatiq({ actor_name, message_id, message_timestamp, queue_name, args, options }) {
  if (typeof actor_name !== "string" || typeof message_id !== "string" || !Array.isArray(args)) return null;
  const { retries, eta } = isObject(options) ? options : {};
  const facts = [["Actor", actor_name], ["Id", message_id], ["Queue", queue_name], ["Sent", date(message_timestamp)],
    ["Retries", retries], ["Not before", date(eta)]];
  return { kind: "Dramatiq message", facts };
}

function sns({ Type, TopicArn, Message, MessageId, Subject, Timestamp, MessageAttributes }) {
  if (Type !== "Notification" || typeof TopicArn !== "string" || typeof Message !== "string") return null;
  const attributes = isObject(MessageAttributes) ? Object.entries(MessageAttributes).map(([name, each]) => [name, each?.Value]) : [];
  const facts = [["Topic", TopicArn], ["Subject", Subject], ["Id", MessageId], ["Published", Timestamp], ...attributes];
  return { kind: "SNS notification", facts, content: Message };
}

const isObject = (value) => typeof value === "object" && value !== null && !Array.isArray(value);
const shown = (facts) => facts.filter(([, value]) => ["string", "number"].includes(typeof value) && value !== "")
  .map(([name, value]) => [name, String(value)]);
const date = (ms) => (typeof ms === "number" ? new Date(ms).toLocaleString() : undefined);

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

// The text, or undefined if it is not base64 of UTF-8.
function fromBase64(text) {
  const given = text.trim();
  if (given.length % 4 || !/^[A-Za-z0-9+/]+={0,2}$/.test(given)) return undefined;
  try {
    const bytes = Uint8Array.from(atob(given), (char) => char.charCodeAt(0));
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}
