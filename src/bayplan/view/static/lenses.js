// Lenses: by what a node is filled and coloured. A lens gives each node a share (how far it is filled),
// and a step of a scale or a category; what is not known is neither.

import { age, byPeople, percent } from "./data.js";

export const STEPS = 8; // of a scale, light to dark
export const CATEGORIES = 8; // the last stands for all others

// All lenses that these columns allow: id, label, and a function that makes it, since that looks at all
// nodes or Pods. verdict is the answer of /why-not, or null.
export function lenses(bays, verdict) {
  const resources = bays.resources;
  const dominant = (row) => bays.dominant(row, resources)[0];
  const all = [];
  const add = (id, label, make) => all.push({ id, label, make: () => ({ id, label, ...make() }) });
  add("dominant", "dominant share", () => scale("dominant share", dominant));
  for (const name of resources) {
    add(`resource ${name}`, name, () => ({ ...scale(name, (row) => bays.share(row, name)), resource: name }));
  }
  for (const name of ["cpu", "memory"]) {
    const load = bays.nodes[`load/${name}`];
    if (load) add(`load ${name}`, `measured load: ${name}`, () => scale(`load of ${name}`, (row) => known(load[row])));
  }
  for (const name of Object.keys(bays.nodes)) {
    const own = name.startsWith("lens/") && name.slice("lens/".length);
    if (own) add(name, own, () => scale(own, (row) => known(bays.nodes[name][row])));
    const driver = name.startsWith("devices/") && name.slice("devices/".length);
    const share = (row) => (bays.nodes[name][row] > 0 ? bays.nodes[`allocated/${driver}`][row] / bays.nodes[name][row] : null);
    if (driver) add(name, `devices of ${driver}`, () => scale(`devices of ${driver}`, share));
  }
  add("stranded", "stranded room", () => strandedRoom(bays, resources));
  const ofPods = (label, ofPod) => () => ({
    ...category(label, bays, (row) => most(bays, row, ofPod), dominant),
    ofPod,
  });
  if (bays.queues.length) add("queue", "queue", ofPods("queue", (pod) => bays.podText("queue", pod)));
  add("namespace", "namespace", ofPods("namespace", (pod) => bays.podText("owner", pod).split("/")[0]));
  if (bays.pods.group?.some((text) => text > 0)) add("group", "group", ofPods("group", (pod) => bays.podText("group", pod)));
  add("owner", "owner", ofPods("owner", (pod) => bays.podText("owner", pod)));
  if (bays.nodes.created) {
    add("age", "age", () => range("age", bays, (row) => known(bays.nodes.created[row]), dominant, (created) => age(created, bays.now)));
    const cordoned = (row) => (bays.nodes.unschedulable[row] === 1 ? "cordoned" : "");
    const taints = (row) => [cordoned(row), bays.text("taints", row)].filter(Boolean).join(", ") || "none";
    add("taints", "taints", () => category("taints", bays, taints, dominant));
  }
  const price = (row) => known(bays.nodes.price[row]);
  if (bays.nodes.price?.some((one) => one >= 0)) {
    add("price", "price per hour", () => range("price", bays, price, dominant, String));
  }
  if (verdict) add("why-not", `why not ${verdict.pod}`, () => against(bays, verdict, dominant));
  return all;
}

const known = (value) => (value === undefined || value < 0 ? null : value);

function scale(label, share) {
  const step = (row) => {
    const value = share(row);
    return value === null ? null : Math.min(STEPS - 1, Math.floor(Math.max(value, 0) * STEPS));
  };
  const legend = Array.from({ length: STEPS }, (_, i) => ({ step: i, text: `from ${Math.round((i / STEPS) * 100)}%` }));
  return { share, step, legend, says: (row) => `${label} ${percent(share(row))}` };
}

// What is free, but of no use, since another resource of the node is used up.
function strandedRoom(bays, resources) {
  const lost = (row) => resources.map((name) => [name, known(bays.nodes[`stranded/${name}`]?.[row]) / bays.nodes[`allocatable/${name}`][row]]).filter(([, share]) => share > 0);
  const share = (row) => Math.max(0, ...lost(row).map(([, one]) => one));
  const says = (row) => `stranded ${lost(row).map(([name, one]) => `${name} ${percent(one)}`).join(", ") || "nothing"}`;
  return { ...scale("stranded", share), says };
}

function range(label, bays, value, share, words) {
  const values = bays.nodes.name.map((_, row) => value(row)).filter((one) => one !== null);
  const low = values.reduce((a, b) => Math.min(a, b), Infinity);
  const high = values.reduce((a, b) => Math.max(a, b), -Infinity);
  const width = (high - low) / STEPS || 1;
  const step = (row) => {
    const one = value(row);
    return one === null ? null : Math.min(STEPS - 1, Math.max(0, Math.floor((one - low) / width)));
  };
  const at = (i) => low + i * width;
  const legend = values.length ? [0, STEPS - 1].map((i) => ({ step: i, text: words(i ? high : at(0)) })) : [];
  return { share, step, legend, says: (row) => (value(row) === null ? `${label} not known` : `${label} ${words(value(row))}`) };
}

function category(label, bays, of, share) {
  const counts = new Map();
  bays.nodes.name.forEach((name, row) => {
    if (name) counts.set(of(row), (counts.get(of(row)) ?? 0) + 1);
  });
  counts.delete("");
  const named = [...counts].sort((a, b) => b[1] - a[1] || byPeople(a[0], b[0]));
  const index = new Map(named.map(([name], i) => [name, Math.min(i, CATEGORIES - 1)]));
  const legend = named.slice(0, CATEGORIES - (named.length > CATEGORIES ? 1 : 0)).map(([name, n], i) => ({ category: i, text: `${name} (${n})` }));
  if (named.length > CATEGORIES) legend.push({ category: CATEGORIES - 1, text: `${named.length - CATEGORIES + 1} others` });
  const codeOf = (name) => index.get(name) ?? (name ? CATEGORIES - 1 : null);
  return {
    share,
    legend,
    codeOf,
    category: (row) => codeOf(of(row)),
    says: (row) => `${label} ${of(row) || "none"}`,
  };
}

function against(bays, verdict, share) {
  const rejected = verdict.rejected;
  const fits = verdict.node.reduce((sum, code, row) => sum + (code < 0 && bays.nodes.name[row] !== ""), 0);
  const legend = rejected.slice(0, CATEGORIES - 1).map((one, i) => ({ category: i + 1, text: `${one.plugin || "not looked at"}: ${one.reasons.join(", ")} (${one.nodes})` }));
  legend.unshift({ category: 0, text: `nothing stands against it (${fits})` });
  const code = (row) => verdict.node[row] ?? null;
  return {
    share,
    legend,
    category: (row) => (code(row) === null ? null : Math.min(code(row) + 1, CATEGORIES - 1)),
    says: (row) => {
      const one = rejected[code(row)];
      return one ? `${one.plugin} rejects ${verdict.pod}: ${one.reasons.join(", ")}` : `nothing stands against ${verdict.pod}`;
    },
  };
}

// What most of the Pods on a node have in common.
function most(bays, row, of) {
  const counts = new Map();
  let best = "";
  for (const pod of bays.podsOn(row)) {
    const name = of(pod);
    counts.set(name, (counts.get(name) ?? 0) + 1);
    if (name && (best === "" || counts.get(name) > counts.get(best))) best = name;
  }
  return best;
}

