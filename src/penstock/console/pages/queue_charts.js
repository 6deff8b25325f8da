import { html } from "../html.js";

export function QueueCharts() {
  return html``;
}
