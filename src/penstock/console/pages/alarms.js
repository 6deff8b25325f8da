import { html } from "../html.js";
export const Alarms = () => html``;
