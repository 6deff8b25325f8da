// What the settings of queues, topics and subscriptions share: documents in JSON, and tags.
import { pretty } from "../format.js";
import { html, useState } from "../html.js";
import { attempt } from "../ui.js";

// save({name: text}) stores a document.
export function Document({ name, text, may, save }) {
  const [value, setValue] = useState(pretty(text));
  if (!may) return text ? html`<pre tabindex="0">${pretty(text)}</pre>` : html`<p class="soft">None.</p>`;
  const submit = (event) => {
    event.preventDefault();
    save({ [name]: value.trim() }, name);
  };
  return html`<form onSubmit=${submit}>
    <textarea aria-label=${name} value=${value} spellcheck=${false} placeholder="None. Enter JSON." onInput=${(event) => setValue(event.target.value)}></textarea>
    <button disabled=${value === pretty(text)}>Save ${name}</button>
  </form>`;
}

// "set" and "remove" are falsy if the user may not.
export function Tags({ tags = {}, set, remove }) {
  const entries = Object.entries(tags);
  const add = async (event) => {
    event.preventDefault();
    const form = event.target, given = new FormData(form);
    if (await attempt(() => set(given.get("key"), given.get("value")), "The tag was set.")) form.reset();
  };
  const drop = (key) => attempt(() => remove(key), "The tag was removed.");
  return html`
    ${entries.length === 0 && html`<p class="soft">None.</p>`}
    <dl class="facts">${entries.map(([key, value]) => html`<dt>${key}</dt><dd>${value}
      ${remove && html` <button class="plain" aria-label=${`Remove tag ${key}`} onClick=${() => drop(key)}>×</button>`}</dd>`)}</dl>
    ${set && html`<form class="row" onSubmit=${add}>
      <input name="key" required maxlength="128" placeholder="Key" aria-label="Key of the tag" size="10" />
      <input name="value" maxlength="256" placeholder="Value" aria-label="Value of the tag" size="10" /><button>Set tag</button></form>`}`;
}
