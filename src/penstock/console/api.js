// Requests to the server, in the name of the signed-in user.

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// Which account and region the pages show. The account can be chosen on an open server only.
export const place = { region: "", account: "" };

export const events = new EventTarget(); // "signed-out"

const FORM = "application/x-www-form-urlencoded";

function headers(more = {}) {
  const found = { "X-Penstock-Console": "1", ...more };
  if (place.region) found["X-Penstock-Region"] = place.region;
  if (place.account) found["X-Penstock-Account"] = place.account;
  return found;
}

// The body is sent as JSON, or as a form if it is one.
async function request(method, path, body, signal) {
  const isForm = body instanceof URLSearchParams;
  const type = isForm ? FORM : "application/json";
  const options = { method, headers: headers(body === undefined ? {} : { "Content-Type": type }), signal };
  if (body !== undefined) options.body = isForm ? body.toString() : JSON.stringify(body);
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "Unreachable", "The server does not answer. Is it running?");
  }
  const text = await response.text();
  let read = {};
  try {
    read = text ? JSON.parse(text) : {};
  } catch {
    if (response.ok) throw new ApiError(response.status, "Unreadable", "The server's answer is not JSON.");
  }
  if (response.ok) return read;
  throw errorOf(response, read);
}

function errorOf(response, read) {
  const named = (response.headers.get("x-amzn-query-error") ?? "").split(";")[0];
  const { Code, Message } = read.Error ?? {}; // of the Query protocol
  const code = named || response.headers.get("x-amzn-errortype") || Code || read.code || (read.__type ?? "").split("#").pop();
  return refusedBy({ status: response.status, code, message: Message ?? read.message ?? read.Message ?? "" });
}

function refusedBy({ status, code, message }) {
  if (status === 401 || /ExpiredToken|InvalidClientTokenId|UnrecognizedClient/.test(code))
    events.dispatchEvent(new Event("signed-out"));
  return new ApiError(status, code || `HTTP ${status}`, message);
}

export function query(members) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (Array.isArray(value)) for (const each of value) pairs.append(name, each);
    else if (value !== undefined && value !== null && value !== "") pairs.append(name, value);
  }
  const text = pairs.toString();
  return text ? `?${text}` : "";
}

export const session = {
  show: () => request("GET", "session"),
  signIn: (keys) => request("POST", "session", keys),
  signOut: () => request("DELETE", "session"),
};

export const sqs = (action, members = {}) => request("POST", `api/sqs/${action}`, members);
export const cloudwatch = (action, members = {}) => request("POST", `api/monitoring/${action}`, members);

// SNS speaks the Query protocol only, which writes {Tags: [{Key: "a"}]} as Tags.member.1.Key=a, and maps as entries.
export async function sns(action, members = {}) {
  const form = new URLSearchParams();
  for (const [name, value] of Object.entries(members)) {
    if (value === undefined || Array.isArray(value) || typeof value !== "object") addMember(form, name, value);
    else addMap(form, name, value);
  }
  const answer = await request("POST", `api/sns/${action}`, form);
  return answer[`${action}Response`]?.[`${action}Result`] ?? {};
}

function addMap(form, name, map) {
  const [keyName, valueName] = name === "MessageAttributes" ? ["Name", "Value"] : ["key", "value"];
  Object.entries(map).forEach(([key, value], at) => {
    form.append(`${name}.entry.${at + 1}.${keyName}`, key);
    addMember(form, `${name}.entry.${at + 1}.${valueName}`, value);
  });
}

function addMember(form, name, value) {
  if (value === undefined) return;
  if (Array.isArray(value)) value.forEach((each, at) => addMember(form, `${name}.member.${at + 1}`, each));
  else if (typeof value === "object") for (const [inner, each] of Object.entries(value)) addMember(form, `${name}.${inner}`, each);
  else form.append(name, value);
}

// A map in an answer of the Query protocol, such as the attributes of a topic.
export const mapOf = (entries) => Object.fromEntries((entries ?? []).map(({ key, value }) => [key, value]));

export const admin = (method, path, body, signal) => request(method, `api/admin/v1/${path}`, body, signal);
export const queuePath = (name) => `queues/${encodeURIComponent(name)}`;
export const messagePath = (queue, id) => `${queuePath(queue)}/messages/${encodeURIComponent(id)}`;

// Calls onData with an answer of the admin API, and again whenever it changes. Returns what ends it.
export function watch(path, onData, onError = () => {}) {
  const ending = new AbortController();
  follow(path, onData, onError, ending.signal);
  return () => ending.abort();
}

async function follow(path, onData, onError, signal) {
  let pause = 500;
  while (!signal.aborted) {
    try {
      if (document.hidden) await shown(signal);
      const response = await fetch(`watch/admin/v1/${path}`, { headers: headers(), signal });
      if (!response.ok) throw errorOf(response, await response.json().catch(() => ({})));
      for await (const { name, data } of eventsOf(response.body)) {
        if (name === "refused") throw refusedBy(JSON.parse(data));
        pause = 500;
        onError(null);
        onData(JSON.parse(data));
      }
    } catch (error) {
      if (signal.aborted) return;
      const lost = !(error instanceof ApiError);
      onError(lost ? new ApiError(0, "Unreachable", "The connection to the server is lost. Trying again.") : error);
      if (!lost && error.status >= 400 && error.status < 500) return;
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
    pause = Math.min(pause * 2, 10_000);
  }
}

// A page in the background asks for nothing.
function shown(signal) {
  return new Promise((resolve) => {
    const look = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
    signal.addEventListener("abort", look);
  });
}

async function* eventsOf(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    buffer += value;
    const parts = buffer.split("\n\n");
    buffer = parts.pop();
    for (const part of parts) {
      let name = "message", data = "";
      for (const line of part.split("\n")) {
        if (line.startsWith("event: ")) name = line.slice(7);
        else if (line.startsWith("data: ")) data += line.slice(6);
      }
      if (data) yield { name, data };
    }
  }
}
