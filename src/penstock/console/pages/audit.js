// Who did what: the newest events of the audit log.
import { admin, query } from "../api.js";
import { time } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { Badge, Empty, FilterInput, Problem, replaceHash } from "../ui.js";

export function Audit({ params }) {
  const { principal = "", action = "", queue = "", denied = "", since = "1d" } = params;
  const [found, setFound] = useState(null);
  const [error, setError] = useState(null);
  const [version, setVersion] = useState(0);
  const path = `audit${query({ principal, action, queue, denied, since, limit: 200 })}`;
  useEffect(() => {
    admin("GET", path).then((answer) => { setFound(answer.events); setError(null); }, setError);
  }, [path, version]);
  const change = (more) => replaceHash(["audit"], { principal, action, queue, denied, since, ...more });
  const input = (name, title, value) => html`<${FilterInput} title=${title} value=${value} first=${name === "principal"}
    onDone=${(text) => change({ [name]: text })} />`;
  return html`
    <div class="head"><h1>Audit log</h1><div class="actions"><button onClick=${() => setVersion(version + 1)}>Refresh</button></div></div>
    <div class="row">
      ${input("principal", "User or key", principal)}${input("action", "Action", action)}${input("queue", "Queue", queue)}
      <select aria-label="Since" value=${since} onChange=${(event) => change({ since: event.target.value })}>
        <option value="1h">Last hour</option><option value="1d">Last day</option><option value="7d">Last week</option><option value="3650d">All</option></select>
      <label class="row"><input type="checkbox" checked=${denied === "true"} onChange=${(event) => change({ denied: event.target.checked })} /> Denied only</label>
    </div>
    <${Problem} error=${error} />
    <div class="card scroll" tabindex="0" role="region" aria-label="Events"><table>
      <thead><tr><th>Time</th><th>Decision</th><th>Who</th><th>Action</th><th>Queue</th><th class="optional">Address</th><th>Note</th></tr></thead>
      <tbody>${(found ?? []).map((event) => html`<tr><td>${time(event.at)}</td>
        <td><${Badge} kind=${event.decision === "denied" ? "danger" : ""}>${event.decision}<//></td><td>${event.caller}</td><td class="mono">${event.action}</td>
        <td>${event.queue}</td><td class="mono optional">${event.address}</td><td>${event.note}</td></tr>`)}</tbody></table>
      ${found?.length === 0 && html`<${Empty} title="No events" />`}</div>`;
}
