// Where answers come from: the page's own server, or, below /apis/, the resources of the aggregated API.

const API = /^(.*\/apis\/view\.bayplan\.dev\/v1alpha1)((?:\/namespaces\/[^/]+)?)\/schedulers\/leader\/page\//;
const GROUPS = { Job: "jobs", JobSet: "jobsets", LeaderWorkerSet: "leaderworkersets" };
const [, root, scope] = location.pathname.match(API) ?? [];

export const behindApi = root !== undefined;
export const source = behindApi ? `the scheduler${scope && `, for the namespace ${scope.split("/")[2]}`}` : "";

export const bays = () => (behindApi ? `${root}${scope}/schedulers/leader/bays` : "bays");

// A Pod by its key, or a group.
export function why(kind, key) {
  const slash = key.indexOf("/");
  const [namespace, name] = [key.slice(0, slash), key.slice(slash + 1)];
  if (!behindApi) return `why?${new URLSearchParams({ namespace, [kind]: name })}`;
  const parts = name.split("/");
  const plural = kind === "pod" ? "pods" : parts.length > 1 ? GROUPS[parts[0]] : "podgroups";
  return `${root}/namespaces/${encodeURIComponent(namespace)}/${plural}/${encodeURIComponent(parts.at(-1))}/explanation`;
}

// What a refusal says: plain text, or a Status of Kubernetes.
export async function said(answer) {
  const text = (await answer.text()).trim();
  try {
    return JSON.parse(text).message ?? text;
  } catch {
    return text;
  }
}
