// What components are written with: html`<p>${value}</p>`. Values become text, never markup.
import htm from "./vendor/htm.js";
import { h } from "./vendor/preact.js";

export const html = htm.bind(h);
export { render } from "./vendor/preact.js";
export { useCallback, useEffect, useMemo, useRef, useState } from "./vendor/hooks.js";
