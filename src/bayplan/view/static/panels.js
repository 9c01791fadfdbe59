// What stands beside the picture: what waits, answers, Queues, the legend, the table. All of it is text
// for everybody: a screen reader gets what the picture shows.

import { age, byPeople, percent, shown } from "./data.js";
import { parts } from "./timeline.js";

const MOST_LISTED = 200;
const MOST_ROWS = 500;

// An element with attributes and children; text is text, never markup.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") made.addEventListener("click", value);
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

const table = (titles, rows) =>
  element(
    "table",
    {},
    element("thead", {}, element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, ...rows.map((cells) => element("tr", {}, ...cells.map((cell) => element("td", {}, cell))))),
  );

export function sentence(bays, row) {
  return bays.text.call({ nodes: bays.pending, texts: bays.texts }, "message", row) || "nothing was said of it yet";
}

const pendingText = (bays, column, row) => bays.text.call({ nodes: bays.pending, texts: bays.texts }, column, row);

export function pending(bays, list, more, filter, ask) {
  const words = filter.toLowerCase().split(" ").filter(Boolean);
  const text = (row) => [bays.pending.name[row], pendingText(bays, "queue", row), pendingText(bays, "group", row), sentence(bays, row)].join(" ").toLowerCase();
  const rows = bays.waiting().filter((row) => words.every((word) => text(row).includes(word)));
  const focused = document.activeElement?.dataset?.pod;
  list.replaceChildren(
    ...rows.slice(0, MOST_LISTED).map((row) => {
      const name = bays.pending.name[row];
      const priority = bays.pending.priority[row];
      const facts = [pendingText(bays, "group", row), pendingText(bays, "queue", row) && `queue ${pendingText(bays, "queue", row)}`, priority ? `priority ${priority}` : "", age(bays.pending.created[row], bays.now)];
      return element(
        "li",
        {},
        element(
          "button",
          { type: "button", "data-pod": name, onclick: () => ask(name) },
          element("b", {}, name),
          element("span", { class: "facts" }, ` ${facts.filter(Boolean).join(", ")}`),
          element("span", { class: "said" }, sentence(bays, row)),
        ),
      );
    }),
  );
  if (focused) list.querySelector(`[data-pod="${CSS.escape(focused)}"]`)?.focus();
  more.textContent = rows.length > MOST_LISTED ? `and ${rows.length - MOST_LISTED} more` : rows.length ? "" : "Nothing waits.";
}

export function queues(bays, list) {
  list.closest("section").hidden = !bays.queues.length;
  list.replaceChildren(...bays.queues.map((queue) => oneQueue(queue)));
}

function oneQueue(queue) {
  const made = element("li", {}, element("b", {}, queue.queue), queue.pending ? ` ${queue.pending} waiting` : "");
  made.style.marginInlineStart = `${queue.depth}em`;
  for (const [resource, amounts] of Object.entries(queue.resources)) {
    const { guaranteed, share, used, limit } = amounts;
    if (!guaranteed && !used && !share && limit === null) continue;
    const whole = Math.max(guaranteed, share, used, limit ?? 0, 1);
    const bar = element("div", { class: "bar", "aria-hidden": "true" });
    const part = (kind, from, to) => {
      const drawn = element("i", { class: kind });
      drawn.style.insetInlineStart = `${(from / whole) * 100}%`;
      drawn.style.width = `${(Math.max(to - from, 0) / whole) * 100}%`;
      bar.append(drawn);
    };
    part("used", 0, Math.min(used, guaranteed));
    part("borrowed", guaranteed, used);
    part("guaranteed", guaranteed, guaranteed);
    part("share", share, share);
    if (limit !== null) part("limit", limit, limit);
    const words = `${resource}: used ${shown(resource, used)}, guaranteed ${shown(resource, guaranteed)}, share ${shown(resource, share)}, limit ${shown(resource, limit)}`;
    made.append(bar, element("span", { class: "facts" }, words));
  }
  return made;
}

export function legend(lens, list, picture) {
  const step = lens.legend[0]?.step !== undefined;
  list.replaceChildren(
    ...lens.legend.map((entry) => {
      const swatch = element("canvas", { width: 24, height: 14, "aria-hidden": "true" });
      picture.swatch(swatch, entry);
      return element("li", {}, swatch, ` ${entry.text}`);
    }),
    element("li", {}, step ? "filled from below by the share" : "filled from below by the dominant share"),
  );
}

// What a screen reader is told of a node.
export function ofNode(bays, lens, row) {
  if (!(row >= 0) || !bays.nodes.name[row]) return "";
  const shares = bays.resources
    .map((name) => [name, bays.share(row, name)])
    .filter(([, share]) => share !== null)
    .map(([name, share]) => `${name} ${shown(name, bays.nodes[`requested/${name}`][row])} of ${shown(name, bays.nodes[`allocatable/${name}`][row])} (${percent(share)})`);
  const devices = bays.counted.filter(([name, offered]) => offered[row] > 0 && !bays.resources.includes(name)).map(([name, offered, taken]) => `${taken[row]} of ${offered[row]} devices of ${name}`);
  const cordoned = bays.nodes.unschedulable[row] === 1 ? "cordoned" : "";
  const where = bays.domains(row).filter(Boolean).join(" / ");
  return [bays.nodes.name[row], where, lens.says(row), ...shares, ...devices, cordoned, bays.text("taints", row)].filter(Boolean).join("; ");
}

export function nodes(bays, lens, into) {
  const rows = bays.nodes.name.flatMap((name, row) => (name ? [row] : [])).slice(0, MOST_ROWS);
  const resources = bays.resources;
  const made = table(
    ["node", "domain", lens.label, ...resources, "taints"],
    rows.map((row) => [bays.nodes.name[row], bays.domains(row).filter(Boolean).join(" / "), lens.says(row), ...resources.map((name) => percent(bays.share(row, name))), bays.text("taints", row)]),
  );
  const left = bays.counts.nodes - rows.length;
  const late = parts(bays);
  const times = late.length ? table(["time", "bound", "most that waited", "evicted"], late) : "";
  into.replaceChildren(times, made, left > 0 ? `and ${left} more: bayplan view -o text shows them all` : "");
}

// Answers

export function why(answer, into, close, whyNot) {
  const lines = [];
  const plan = [...planned(answer)].map(([name, count]) => (count > 1 ? `${count} on ${name}` : name));
  if (plan.length) lines.push(`would go to: ${plan.join(", ")}`);
  if (answer.leads === false) lines.push(`said by a standby, which does not decide; ${answer.leader || "nobody"} leads`);
  const last = answer.last;
  if (last) lines.push(`last attempt, ${last.time}: ${last.reason}${last.node ? ` on ${last.node}` : ""}${last.message ? `: ${last.message}` : ""}`);
  const queue = answer.queue ?? answer.group?.queue;
  if (queue) {
    const parts = [`queue: ${queue.state}`, `${queue.attempts} attempts`];
    if (queue.waitingSeconds !== undefined) parts.push(`waits for ${Math.round(queue.waitingSeconds)} s`);
    if (queue.backoffSeconds !== undefined) parts.push(`backoff ${queue.backoffSeconds} s`);
    if (queue.rejectedBy) parts.push(`rejected by ${queue.rejectedBy.join(", ")}`);
    lines.push(parts.join(", "));
  }
  const group = answer.kind === "GroupAnswer" ? answer : answer.group;
  if (group?.waiting !== undefined) lines.push(`group ${group.name ?? answer.group}: ${group.waiting} wait, ${group.placed ?? 0} placed${group.minimum ? ` of ${group.minimum} needed` : ""}`);
  const now = answer.now ?? {};
  if (now.eviction) lines.push(`${now.eviction.victims} Pods would be evicted${now.eviction.victimsPods ? `: ${now.eviction.victimsPods.join(", ")}` : ""}`);
  const tables = [
    now.rejected?.length && table(["nodes", "rejected by", "because", "such as"], now.rejected.map((one) => [String(one.nodes), one.plugin, one.reasons.join(", "), (one.some ?? []).slice(0, 3).join(", ")])),
    now.almost?.length && table(["lacks nothing but", "needed", "free", "node"], now.almost.map((one) => [one.resource, shown(one.resource, one.requested), shown(one.resource, one.free), one.node ?? ""])),
    now.best?.length && table(["node", "total", "scores"], now.best.map((one) => [one.node, String(one.total), Object.entries(one.scores).map(([name, score]) => `${name} ${score}`).join(", ")])),
    answer.tenant?.resources && table([`queue ${answer.tenant.queue}`, "requested", "used", "share", "limit"], Object.entries(answer.tenant.resources).map(([name, one]) => [name, ...["requested", "used", "share", "limit"].map((what) => shown(name, one[what]))])),
  ].filter(Boolean);
  const groupKey = answer.kind === "PodAnswer" ? answer.group?.name : undefined;
  show(into, answer.sentence, [
    element("p", { class: "doing" }, answer.kind === "PodAnswer" && whyNot ? element("button", { type: "button", id: "why-not", onclick: whyNot }, "Why not, on each node (n)") : null, groupKey ? element("button", { type: "button", "data-group": groupKey }, `Group ${groupKey}`) : null),
    ...lines.map((line) => element("p", {}, line)),
    ...tables,
  ], close);
}

// By node, how many Pods of an answer would go there as things are.
export function planned(answer) {
  const now = answer.now ?? {};
  const nodes = now.plan ? Object.values(now.plan) : now.node ? [now.node] : [];
  return byNode(nodes);
}

export function byNode(nodes) {
  const counts = new Map();
  for (const name of nodes) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

// What is on a node; like says that new nodes are to be like this one, where they can be asked about.
export function node(bays, lens, row, answer, into, close, like) {
  const pods = (answer.pods ?? []).slice(0, MOST_LISTED).map((pod) => [pod.pod, Object.entries(pod.requests).map(([name, amount]) => `${amount} ${name}`).join(", "), pod.terminating ? "terminating" : ""]);
  const adding = like && element("p", { class: "doing" }, element("button", { type: "button", id: "like-this", onclick: () => like(answer.node) }, "What if there were more like this"));
  show(into, answer.node, [element("p", {}, ofNode(bays, lens, row)), adding, pods.length ? table(["pod", "requests", ""], pods) : answer.pods && element("p", {}, "no Pods")].filter(Boolean), close);
}

function listed(title, entries) {
  const rows = Object.entries(entries ?? {});
  if (!rows.length) return [];
  return [table(title, rows.slice(0, MOST_LISTED).map(([pod, remark]) => [pod, [remark].flat().join(", ")])), rows.length > MOST_LISTED ? element("p", {}, `and ${rows.length - MOST_LISTED} more`) : null].filter(Boolean);
}

// What would be in another cluster, as bayplan simulate --lose --add has it.
export function supposed(answer, into, close) {
  const { down = {}, back = {}, noLonger = [], waits } = answer;
  const kept = Object.fromEntries(noLonger.map((pod) => [pod, waits[pod] ?? ""]));
  const rest = Object.fromEntries(Object.entries(waits).filter(([pod]) => !(pod in kept || pod in down)));
  const placed = answer.fits ?? Object.fromEntries(Object.entries(answer.placed).filter(([pod]) => !(pod in back)));
  show(into, answer.sentence, [
    answer.judgedBy ? element("p", {}, answer.judgedBy) : null,
    ...listed(["stays down", "why"], down),
    ...listed(["would be evicted", "for"], answer.evicted),
    ...listed(["gone", "why"], answer.gone),
    ...listed(["comes back", "on"], back),
    ...listed([answer.fits ? "placed in addition" : "placed", "on"], placed),
    ...listed(["no longer placed", "why"], kept),
    ...listed(["on another node", "on"], answer.elsewhere),
    ...listed(["still waits", "why"], rest),
  ].filter(Boolean), close);
}

// What a plan of bayplan improve does. Pods that are not where it says are not drawn.
export function moves(answer, into, close) {
  const there = new Set(Object.keys(answer.leaving));
  const rows = answer.moves.slice(0, MOST_LISTED).map((one) => [String(one.step), one.pod, one.from, one.to, there.has(one.pod) ? "" : "is not there any more"]);
  show(into, answer.sentence, [
    answer.elsewhere.length ? element("p", {}, `the plan is of another state: Pods that are not on the node that it says: ${answer.elsewhere.length}`) : null,
    rows.length ? table(["step", "pod", "from", "to", ""], rows) : element("p", {}, "nothing has to move"),
    ...listed(["then", "to"], answer.goal),
  ].filter(Boolean), close);
}

// What the running scheduler would do with all that waits.
export function plan(answer, into, close) {
  const counted = (one) => `${one.of}${one.pods > 1 ? ` (${one.pods} Pods)` : ""}`;
  const rows = (title, entries) => (entries?.length ? [table(title, entries.slice(0, MOST_LISTED)), entries.length > MOST_LISTED ? element("p", {}, `and ${entries.length - MOST_LISTED} more`) : null].filter(Boolean) : []);
  show(into, answer.sentence, [
    ...rows(["would be evicted", "for"], answer.evictedPods?.map((one) => [one.pod, one.for])),
    ...rows(["placed", "on"], answer.on?.map((one) => [counted(one), one.node ?? ""])),
    ...rows(["still waits", "why"], answer.rejected?.map((one) => [counted(one), one.message])),
  ], close);
}

// By node how many Pods would come, and how many would leave, of either answer.
export function ghosts(answer) {
  const come = byNode((answer.on ?? []).flatMap((one) => Array(one.pods).fill(one.node ?? "")));
  for (const [node, count] of byNode(Object.values(answer.kind ? {} : answer.placed))) come.set(node, count);
  const leave = byNode([...Object.values(answer.leaving ?? {}), ...(answer.evictedPods ?? []).map((one) => one.node ?? "")]);
  return [come, leave];
}

// The domains that can be lost, by level.
export function domains(bays, select, label) {
  const before = select.value;
  const options = bays.levels.flatMap((level) => {
    const values = new Set(bays.nodes.name.map((name, row) => (name ? bays.text(`domain/${level}`, row) : "")));
    values.delete("");
    return [...values].sort(byPeople).map((value) => element("option", { value: JSON.stringify([level, value]) }, `${level.split("/").at(-1)} ${value}`));
  });
  select.replaceChildren(element("option", { value: "" }, "nothing"), ...options);
  select.value = options.some((option) => option.value === before) ? before : "";
  label.hidden = !options.length;
}

export function problem(text, into, close) {
  show(into, text, [], close);
}

function show(into, title, children, close) {
  into.hidden = false;
  into.replaceChildren(element("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "×"), element("h2", {}, title), ...children);
}
