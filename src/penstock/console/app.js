// The frame around all pages: navigation, sign-in, keyboard shortcuts.
import { events, place, session } from "./api.js";
import { html, render, useEffect, useState } from "./html.js";
import { KEYS, Navigation, pageAt } from "./navigation.js";
import { SignIn } from "./pages/sign_in.js";
import { permissions } from "./permissions.js";
import { attempt, Dialog, Empty, NotAllowed, Notices, Problem, readHash } from "./ui.js";

const SHORTCUTS = [
  ...[...KEYS].map(([key, page]) => [`g ${key}`, page.title.toLowerCase()]), ["/", "filter"],
  ["j, k", "next, previous row"], ["Enter", "open"], ["Esc", "close"], ["?", "this list"],
];

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
      if (going && KEYS.has(event.key)) location.hash = `#/${KEYS.get(event.key).address}`;
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
  const [menu, setMenu] = useState(false); // on a narrow screen
  const [version, setVersion] = useState(0); // grows when another place is shown
  useShortcuts(() => setHelp(true));
  useEffect(() => setMenu(false), [hash]);

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

  const { page, Shown, lacks } = pageAt(hash.parts, allowed) ?? {};
  const moved = async () => {
    setAllowed(await permissions());
    setVersion(version + 1);
  };
  return html`
    <a class="skip" href="#content" onClick=${(event) => { event.preventDefault(); document.querySelector("main").focus(); }}>Skip to content</a>
    <header class="top">
      <button class="plain menu" aria-label="Menu" title="Menu" aria-haspopup="dialog" aria-expanded=${menu} onClick=${() => setMenu(true)}>☰</button>
      <a class="brand" href="#/"><img src="icon.svg" alt="" />Penstock</a>
      <div class="right">
        <${Place} user=${user} onChange=${moved} />
        ${user.secured && html`<span class="optional" title=${user.arn}>${user.arn?.split(":").pop()}</span>
          <button onClick=${() => attempt(() => session.signOut().then(load))}>Sign out</button>`}
        <button class="plain" aria-label="Light or dark" title="Light or dark" onClick=${switchTheme}>◐</button>
        <button class="plain" aria-label="Keyboard shortcuts" title="Keyboard shortcuts" onClick=${() => setHelp(true)}>?</button>
      </div>
    </header>
    <div class="frame">
      <div class="side"><${Navigation} current=${page} allowed=${allowed} /></div>
      <main id="content" tabindex="-1" key=${version}>
        ${lacks ? html`<div class="head"><h1>${page.title}</h1></div>
            <${NotAllowed} permission=${lacks} allowed=${allowed} user=${user} />`
          : Shown ? html`<${Shown} parts=${hash.parts} params=${hash.params} allowed=${allowed} user=${user} />`
          : html`<${Empty} title="There is no such page"><a href="#/queues">Queues</a><//>`}
      </main>
    </div>
    ${menu && html`<${Dialog} title="Pages" drawer onClose=${() => setMenu(false)}>
      <${Navigation} current=${page} allowed=${allowed} focused onChoose=${() => setMenu(false)} /><//>`}
    ${help && html`<${Dialog} title="Keyboard shortcuts" onClose=${() => setHelp(false)}>
      <dl class="facts">${SHORTCUTS.map(([keys, what]) => html`<dt><kbd>${keys}</kbd></dt><dd>${what}</dd>`)}</dl>
    <//>`}
    <${Notices} />`;
}

render(html`<${App} />`, document.getElementById("app"));
