// What the user may do: what is not allowed is not offered. The server decides again on each request.
import { admin, query } from "./api.js";
import { useEffect, useState } from "./html.js";

// The permissions that the user has, and by missing permission the command that allows it.
class Permissions extends Set {
  constructor({ allowed = [], remedies = {} } = {}) {
    super(allowed);
    this.remedies = remedies;
  }
}

// of: {queue} or {topic}; without it: all of them.
export async function permissions(of = {}) {
  return new Permissions(await admin("GET", `permissions${query(of)}`));
}

export function useQueuePermissions(queue) {
  const [allowed, setAllowed] = useState(new Permissions());
  useEffect(() => {
    let current = true;
    permissions({ queue }).then((found) => current && setAllowed(found), () => {});
    return () => { current = false; };
  }, [queue]);
  return allowed;
}

// null until it is known. "topic" is an ARN: policies may name single topics.
export function useTopicPermissions(topic) {
  const [allowed, setAllowed] = useState(null);
  useEffect(() => {
    let current = true;
    permissions({ topic }).then((found) => current && setAllowed(found), () => current && setAllowed(new Permissions()));
    return () => { current = false; };
  }, [topic]);
  return allowed;
}
