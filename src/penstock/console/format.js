// Numbers, times and texts as people read them.

const numbers = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });

export const count = (value) => (value === undefined || value === null ? "–" : numbers.format(value));
export const compact = (value) => (Math.abs(value) < 10_000 ? numbers.format(Math.round(value * 100) / 100) : short.format(value));
export const named = (value, noun) => (value === 1 ? noun : `${noun}s`);
export const plural = (value, noun) => `${count(value)} ${named(value, noun)}`;

export function rate(value) {
  if (!value) return "0";
  if (value < 0.05) return "< 0.1";
  return value < 10 ? value.toFixed(1) : compact(Math.round(value));
}

export function bytes(value) {
  if (value === undefined || value === null) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (value >= 1024 && at < units.length - 1) [value, at] = [value / 1024, at + 1];
  return `${at && value < 10 ? value.toFixed(1) : Math.round(value)} ${units[at]}`;
}

export function duration(seconds) {
  if (seconds === undefined || seconds === null) return "–";
  if (seconds < 1) return `${Math.round(seconds * 1000)} ms`;
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const at = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[at];
  const whole = Math.floor(seconds / size);
  const next = parts[at + 1];
  const rest = next && whole < 10 ? Math.floor((seconds - whole * size) / next[0]) : 0;
  return rest ? `${whole} ${unit} ${rest} ${next[1]}` : `${whole} ${unit}`;
}

export const time = (text) => (text ? new Date(text).toLocaleString() : "–");
export const age = (text) => (text ? duration(Math.max(0, (Date.now() - new Date(text)) / 1000)) : "–");

// JSON indented, with its numbers exactly as they were written; other texts as they are.
export function pretty(text) {
  try {
    JSON.parse(text);
  } catch {
    return text;
  }
  let out = "", depth = 0, inString = false;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (inString) {
      out += char;
      if (char === "\\") out += text[++at];
      else if (char === '"') inString = false;
    } else if (char === '"') [out, inString] = [out + char, true];
    else if (char === "{" || char === "[") {
      let end = at + 1;
      while (/\s/.test(text[end])) end++;
      if (text[end] === "}" || text[end] === "]") [out, at] = [out + char + text[end], end];
      else {
        depth++;
        out += char + line();
      }
    } else if (char === "}" || char === "]") {
      depth--;
      out += line() + char;
    } else if (char === ",") out += char + line();
    else if (char === ":") out += ": ";
    else if (!/\s/.test(char)) out += char;
  }
  return out;
}
