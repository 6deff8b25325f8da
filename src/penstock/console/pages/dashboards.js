import { html } from "../html.js";
export const Dashboards = () => html``;
