// The messages of a queue, in any state, without receiving them.
import { admin, query, queuePath } from "../api.js";
import { age, bytes, count, plural } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Badge, Empty, FilterInput, Problem, replaceHash, rowKeys } from "../ui.js";
import { Message } from "./message.js";
import { State } from "./message_parts.js";
import { Send } from "./send.js";
import { BulkDialog } from "./tasks.js";

const PAGE = 50;
const FILTERS = ["state", "body", "regex", "json", "attribute", "group", "older_than_s", "receives_min", "source"];

export function Messages({ queue, allowed, params }) {
  const [pages, setPages] = useState([""]); // where each page begins: the last one is shown
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [opened, setOpened] = useState(null);
  const [sending, setSending] = useState(false);
  const [bulk, setBulk] = useState(false);
  const [version, setVersion] = useState(0);
  const filter = Object.fromEntries(FILTERS.filter((name) => params[name]).map((name) => [name, params[name]]));
  const order = params.order ?? "position";
  const key = JSON.stringify([queue.name, filter, order]);
  const reload = () => setVersion((before) => before + 1);

  useEffect(() => setPages([""]), [key]);
  useEffect(() => {
    const ending = new AbortController();
    (async () => {
      try {
        setFound(await fullPage(queue.name, { ...filter, order }, pages.at(-1), ending.signal));
        setError(null);
      } catch (failure) {
        if (failure.name !== "AbortError") setError(failure);
      }
    })();
    return () => ending.abort();
  }, [key, pages, version, queue.visible, queue.in_flight, queue.delayed]);

  const change = (more) => replaceHash(["queue", queue.name, "messages"], { ...filter, order, ...more });
  const input = (name, title, size) => html`<${FilterInput} title=${title} size=${size} value=${filter[name] ?? ""} first=${name === "body"}
    onDone=${(text) => change({ [name]: text })} />`;
  const messages = found?.messages ?? [];

  return html`
    <form class="row" onSubmit=${(event) => event.preventDefault()}>
      <select aria-label="State" value=${filter.state ?? ""} onChange=${(event) => change({ state: event.target.value })}>
        <option value="">Any state</option><option value="visible">Waiting</option>
        <option value="in_flight">In flight</option><option value="delayed">Delayed</option>
      </select>
      ${input("body", "Text in the body", 16)}${input("json", "JSON: $.id = 17", 14)}${input("regex", "Regular expression", 14)}
      ${input("attribute", "Attribute: name=value", 14)}${input("group", "Group", 8)}
      <select aria-label="Order" value=${order} onChange=${(event) => change({ order: event.target.value })}>
        <option value="position">In order of the queue</option><option value="age">Oldest first</option><option value="due">Next due first</option>
      </select>
      <span class="row">
        <button type="button" onClick=${reload}>Refresh</button>
        ${allowed.has("penstock:StartTask") && html`<button type="button" onClick=${() => setBulk(true)}>Change all that match</button>`}
        ${allowed.has("sqs:SendMessage") && html`<button type="button" class="primary" onClick=${() => setSending(true)}>Send message</button>`}
      </span>
    </form>
    <${Problem} error=${error} />
    <div class="card scroll" tabindex="0" role="region" aria-label="Messages"><table onKeyDown=${rowKeys}>
      <thead><tr><th>Message</th><th>State</th><th>Body</th><th class="number">Receives</th><th class="number optional">Age</th><th class="number optional">Size</th></tr></thead>
      <tbody>${messages.map((message) => html`<tr key=${message.id} tabindex="-1">
        <td><button class="plain mono" onClick=${() => setOpened(message.id)}>${message.id.slice(0, 8)}</button>
          ${message.edited && html`<${Badge}>edited<//>`}</td>
        <td><${State} message=${message} /></td>
        <td class="cut mono">${message.unreadable ? "(its key cannot be used, or it is damaged)" : message.body}</td>
        <td class="number">${count(message.receives)}</td>
        <td class="number optional">${age(message.sent_at)}</td><td class="number optional">${bytes(message.size)}</td>
      </tr>`)}</tbody>
    </table>
    ${found && !messages.length && html`<${Empty} title=${Object.keys(filter).length ? "No message matches" : "The queue is empty"} />`}
    </div>
    <div class="row">
      ${pages.length > 1 && html`<button onClick=${() => setPages(pages.slice(0, -1))}>Previous</button>`}
      ${found?.next && html`<button onClick=${() => setPages([...pages, found.next])}>Next</button>`}
      <span class="soft">${plural(messages.length, "message")} on page ${pages.length}. Looking changes nothing.</span>
    </div>
    ${opened && html`<${Message} queue=${queue} id=${opened} allowed=${allowed} onClose=${() => { setOpened(null); reload(); }} />`}
    ${sending && html`<${Send} queue=${queue} onClose=${() => { setSending(false); reload(); }} />`}
    ${bulk && html`<${BulkDialog} queue=${queue} filter=${filter} onClose=${() => { setBulk(false); reload(); }} />`}`;
}

// One request looks at a part of a long queue: repeat this until a page is full or the queue ends.
async function fullPage(queue, filter, after, signal) {
  let messages = [], next = after;
  for (let requests = 0; requests < 50; requests++) {
    const limit = PAGE - messages.length;
    const found = await admin("GET", `${queuePath(queue)}/messages${query({ ...filter, after: next, limit, body_bytes: 65536 })}`, undefined, signal);
    messages = [...messages, ...found.messages];
    next = found.next;
    if (!next || messages.length >= PAGE) break;
  }
  return { messages, next };
}
