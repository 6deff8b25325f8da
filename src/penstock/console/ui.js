// Pieces that all pages use.
import { html, useEffect, useRef, useState } from "./html.js";

// -- addresses: #/queues?sort=age ------------------------------------------------------------------------------

export function readHash() {
  const [path, text = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").map(decodeURIComponent), params: Object.fromEntries(new URLSearchParams(text)) };
}

export function hashOf(parts, params = {}) {
  const given = Object.entries(params).filter(([, value]) => value !== "" && value !== undefined && value !== false);
  const text = new URLSearchParams(given).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

// Replaces the address without another entry in the history: filters are kept in it.
export function replaceHash(parts, params) {
  history.replaceState(null, "", hashOf(parts, params));
  dispatchEvent(new HashChangeEvent("hashchange"));
}

// -- notices ----------------------------------------------------------------------------------------------------

const notices = new EventTarget();

export function notify(text, kind = "info") {
  notices.dispatchEvent(new CustomEvent("notice", { detail: { text, kind, id: Math.random() } }));
}

// Runs what a button does, and says what went wrong.
export async function attempt(work, success) {
  try {
    const result = await work();
    if (success) notify(success);
    return result ?? true;
  } catch (error) {
    notify(error.message || error.code || String(error), "error");
    return undefined;
  }
}

export function Notices() {
  const [shown, setShown] = useState([]);
  useEffect(() => {
    const add = ({ detail }) => {
      setShown((before) => [...before.slice(-3), detail]);
      const stays = detail.kind === "error" ? 12_000 : 4_000;
      setTimeout(() => setShown((before) => before.filter((each) => each.id !== detail.id)), stays);
    };
    notices.addEventListener("notice", add);
    return () => notices.removeEventListener("notice", add);
  }, []);
  const close = (id) => setShown((before) => before.filter((each) => each.id !== id));
  return html`<div class="notices" aria-live="polite">
    ${shown.map(({ id, text, kind }) => html`<div key=${id} class=${`notice ${kind}`}>
      <span>${text}</span><button class="plain" aria-label="Dismiss" onClick=${() => close(id)}>×</button>
    </div>`)}
  </div>`;
}

export const Problem = ({ error }) => error && html`<p class="problem" role="alert">${error.message || error.code}</p>`;

// What the user may not do, and the command with which an administrator allows it. "children" say what is shown instead.
export function NotAllowed({ permission, allowed, user, children }) {
  const command = allowed.remedies[permission];
  return html`<section class="card hint" aria-label="Not allowed">
    <p><b>${user.arn?.split(":").pop()}</b> lacks the permission <code>${permission}</code>. ${children}</p>
    ${command ? html`<p>To allow it, attach a policy on the server:</p>
        <div class="row"><code class="grow">${command}</code><${Copy} text=${command} /></div>
        <p class="soft">The policy <code>administrator</code> allows everything in the account. Reload this page afterwards.</p>`
      : html`<p class="soft">A policy denies it, or it belongs to another account: ask the administrator of this server.</p>`}
  </section>`;
}

// -- dialogs ----------------------------------------------------------------------------------------------------

// A drawer is a dialog at the left edge, which a click beside it closes.
export function Dialog({ title, onClose, children, wide, drawer }) {
  const element = useRef();
  useEffect(() => {
    const opener = document.activeElement;
    element.current.showModal();
    return () => opener.focus(); // the browser does so only if the dialog is closed before it is removed
  }, []);
  const beside = (event) => drawer && event.target === element.current && onClose();
  return html`<dialog ref=${element} class=${drawer ? "drawer" : wide ? "wide" : ""} aria-label=${title} onClick=${beside}
      onCancel=${(event) => { event.preventDefault(); onClose(); }}>
    <header><h2>${title}</h2><button class="plain" aria-label="Close" onClick=${onClose}>×</button></header>
    ${children}
  </dialog>`;
}

export function TypeToConfirm({ name, text, onText }) {
  return html`<label class="field"><span>Type <b>${name}</b> to confirm</span>
    <input value=${text} autocomplete="off" spellcheck=${false} onInput=${(event) => onText(event.target.value)} /></label>`;
}

// Asks before something is destroyed; with ``typed``, the text has to be typed.
export function Confirm({ title, children, action, typed, onConfirm, onClose }) {
  const [text, setText] = useState("");
  const [busy, setBusy] = useState(false);
  const confirm = async (event) => {
    event.preventDefault();
    setBusy(true);
    if (await attempt(onConfirm) !== undefined) onClose();
    else setBusy(false);
  };
  return html`<${Dialog} title=${title} onClose=${onClose}>
    <form onSubmit=${confirm}>
      ${children}
      ${typed && html`<${TypeToConfirm} name=${typed} text=${text} onText=${setText} />`}
      <footer>
        <button type="button" onClick=${onClose}>Cancel</button>
        <button class="danger" disabled=${busy || (typed && text !== typed)}>${action}</button>
      </footer>
    </form>
  <//>`;
}

// -- small things -----------------------------------------------------------------------------------------------

export const Badge = ({ kind = "", children }) => html`<span class=${`badge ${kind}`}>${children}</span>`;

export function Copy({ text, label = "Copy" }) {
  const [done, setDone] = useState(false);
  const copy = async () => {
    await navigator.clipboard?.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 1500);
  };
  return html`<button type="button" class="small" onClick=${copy}>${done ? "Copied" : label}</button>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><h2>${title}</h2>${children}</div>`;
}

export function Field({ label, hint, children }) {
  return html`<label class="field"><span>${label}</span>${children}${hint && html`<small>${hint}</small>`}</label>`;
}

// A text that is used when it is complete: the page is drawn again while it is being typed.
export function FilterInput({ title, value, onDone, size = 14, first, placeholder = title, ...rest }) {
  const [text, setText] = useState(value);
  useEffect(() => setText(value), [value]);
  return html`<input ...${rest} size=${size} placeholder=${placeholder} aria-label=${title} value=${text} data-filter=${first ? "" : undefined}
    onInput=${(event) => setText(event.target.value)} onChange=${() => onDone(text.trim())} />`;
}

// A heading of a table that sorts by its column.
export function Sortable({ name, sort, descending, onSort, numeric, children }) {
  const active = sort === name;
  const order = active ? (descending ? "descending" : "ascending") : "none";
  return html`<th aria-sort=${order} class=${numeric ? "number" : ""}>
    <button class="plain" onClick=${() => onSort(name, active ? !descending : Boolean(numeric))}>
      ${children}${active && html`<span aria-hidden="true"> ${descending ? "↓" : "↑"}</span>`}
    </button>
  </th>`;
}

// j and k move between the rows of a table, Enter opens one.
export function rowKeys(event) {
  if (event.target.tagName !== "TR") return;
  const step = { j: "nextElementSibling", ArrowDown: "nextElementSibling", k: "previousElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  if (step) {
    event.target[step]?.focus();
    event.preventDefault();
  } else if (event.key === "Enter") event.target.querySelector("a, button")?.click();
}

export function useWatched(start, inputs) {
  const [state, setState] = useState({ data: null, error: null });
  useEffect(() => {
    setState((before) => ({ data: before.data, error: null }));
    return start(
      (data) => setState({ data, error: null }),
      (error) => setState((before) => ({ data: before.data, error })),
    );
  }, inputs);
  return state;
}

export function Progress({ done, total }) {
  return html`<progress value=${done} max=${Math.max(total, 1)} aria-label="Progress"></progress>`;
}
