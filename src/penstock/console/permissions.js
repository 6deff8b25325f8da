// What the user may do: what is not allowed is not offered. The server decides again on each request.
import { admin, query } from "./api.js";
import { useEffect, useState } from "./html.js";

export async function permissions(queue) {
  const { allowed } = await admin("GET", `permissions${query({ queue })}`);
  return new Set(allowed);
}

export function useQueuePermissions(queue) {
  const [allowed, setAllowed] = useState(new Set());
  useEffect(() => {
    let current = true;
    permissions(queue).then((found) => current && setAllowed(found), () => {});
    return () => { current = false; };
  }, [queue]);
  return allowed;
}
