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

export async function permissions(queue) {
  return new Permissions(await admin("GET", `permissions${query({ queue })}`));
}

export function useQueuePermissions(queue) {
  const [allowed, setAllowed] = useState(new Permissions());
  useEffect(() => {
    let current = true;
    permissions(queue).then((found) => current && setAllowed(found), () => {});
    return () => { current = false; };
  }, [queue]);
  return allowed;
}
