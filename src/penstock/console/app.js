// The frame around all pages: navigation, sign-in, keyboard shortcuts.
import { events, place, session } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { Alarms } from "./pages/alarms.js";
import { Audit } from "./pages/audit.js";
import { Dashboards } from "./pages/dashboards.js";
import { Queue } from "./pages/queue.js";
import { Queues } from "./pages/queues.js";
import { Server } from "./pages/server.js";
import { SignIn } from "./pages/sign_in.js";
import { permissions } from "./permissions.js";
import { attempt, Dialog, Empty, NotAllowed, Notices, Problem, readHash } from "./ui.js";

const PAGES = [
  ["queues", "Queues", Queues], // says itself what is not allowed
  ["alarms", "Alarms", Alarms, "cloudwatch:DescribeAlarms"],
  ["dashboards", "Dashboards", Dashboards, "cloudwatch:ListDashboards"],
  ["server", "Server", Server, "penstock:GetStatus"],
  ["audit", "Audit log", Audit, "penstock:ListAuditEvents"],
];

const SHORTCUTS = [
  ["g q", "queues"], ["g a", "alarms"], ["g d", "dashboards"], ["g s", "server"], ["g l", "audit log"], ["/", "filter"],
  ["j, k", "next, previous row"], ["Enter", "open"], ["Esc", "close"], ["?", "this list"],
];
const GO = { q: "#/queues", a: "#/alarms", d: "#/dashboards", s: "#/server", l: "#/audit" };

function useHash() {
  const [hash, setHash] = useState(readHash);
  useEffect(() => {
    const changed = () => setHash(readHash());
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  return hash;
}

function useShortcuts(showHelp) {
  useEffect(() => {
    let going = false;
    const pressed = (event) => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName) || document.querySelector("dialog[open]");
      if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
      if (going && GO[event.key]) location.hash = GO[event.key];
      else if (event.key === "/") document.querySelector("[data-filter]")?.focus();
      else if (event.key === "?") showHelp();
      else if ((event.key === "j" || event.key === "ArrowDown") && event.target === document.body)
        document.querySelector("tbody tr[tabindex]")?.focus();
      else if (event.key !== "g") return void (going = false);
      going = event.key === "g";
      event.preventDefault();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}

function switchTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("penstock.theme", root.dataset.theme);
  dispatchEvent(new Event("theme"));
}

function Place({ user, onChange }) {
  const [region, setRegion] = useState(place.region || user.region);
  const [account, setAccount] = useState(place.account || user.account);
  const change = (event) => {
    event.preventDefault();
    if (/^[a-z]{2}(-[a-z]+)+-\d$/.test(region)) place.region = region;
    if (!user.secured && /^\d{12}$/.test(account)) place.account = account;
    onChange();
  };
  return html`<form class="row" onSubmit=${change}>
    ${!user.secured && html`<input class="optional" size="12" aria-label="Account" title="Account" value=${account}
      onInput=${(event) => setAccount(event.target.value)} onChange=${change} />`}
    <input size="11" aria-label="Region" title="Region" value=${region}
      onInput=${(event) => setRegion(event.target.value)} onChange=${change} />
  </form>`;
}

function App() {
  const hash = useHash();
  const [user, setUser] = useState(null);
  const [error, setError] = useState(null);
  const [allowed, setAllowed] = useState(null);
  const [help, setHelp] = useState(false);
  const [version, setVersion] = useState(0); // grows when another place is shown
  useShortcuts(() => setHelp(true));

  const load = async () => {
    try {
      const found = await session.show();
      setUser(found);
      setError(null);
      if (found.signed_in) setAllowed(await permissions());
    } catch (failure) {
      setError(failure);
      setTimeout(load, 3000);
    }
  };
  useEffect(() => {
    load();
    const signedOut = () => setUser((before) => before && { ...before, signed_in: !before.secured });
    events.addEventListener("signed-out", signedOut);
    return () => events.removeEventListener("signed-out", signedOut);
  }, []);

  if (!user) return html`<main><${Problem} error=${error} /></main>`;
  if (!user.signed_in) return html`<${SignIn} onDone=${load} /><${Notices} />`;
  if (!allowed) return html`<main><p class="soft">Loading</p><${Problem} error=${error} /></main>`;

  const [page = ""] = hash.parts;
  const offered = PAGES.filter(([, , , permission]) => !permission || allowed.has(permission));
  const current = page === "queue" || page === "" ? "queues" : page;
  const [, title, shown, permission] = PAGES.find(([name]) => name === current) ?? [];
  const Page = page === "queue" ? Queue : shown;
  const moved = async () => {
    setAllowed(await permissions());
    setVersion(version + 1);
  };
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>Skip to content</a>
    <header class="top">
      <a class="brand" href="#/queues"><img src="icon.svg" alt="" />Penstock</a>
      <nav aria-label="Pages">
        ${offered.map(([name, title]) => html`<a href=${`#/${name}`} aria-current=${current === name ? "page" : undefined}>${title}</a>`)}
      </nav>
      <div class="right">
        <${Place} user=${user} onChange=${moved} />
        ${user.secured && html`<span class="optional" title=${user.arn}>${user.arn?.split(":").pop()}</span>
          <button onClick=${() => attempt(() => session.signOut().then(load))}>Sign out</button>`}
        <button class="plain" aria-label="Light or dark" title="Light or dark" onClick=${switchTheme}>◐</button>
        <button class="plain" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" onClick=${() => setHelp(true)}>?</button>
      </div>
    </header>
    <main id="content" tabindex="-1" key=${version}>
      ${permission && !allowed.has(permission) ? html`<div class="head"><h1>${title}</h1></div>
          <${NotAllowed} permission=${permission} allowed=${allowed} user=${user} />`
        : Page ? html`<${Page} parts=${hash.parts} params=${hash.params} allowed=${allowed} user=${user} />`
        : html`<${Empty} title="There is no such page"><a href="#/queues">Queues</a><//>`}
    </main>
    ${help && html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setHelp(false)}>
      <dl class="facts">${SHORTCUTS.map(([keys, what]) => html`<dt><kbd>${keys}</kbd></dt><dd>${what}</dd>`)}</dl>
    <//>`}
    <${Notices} />`;
}

render(html`<${App} />`, document.getElementById("app"));
