// The columns of docs/view.md in the browser, what changes in them, and what follows from them.

export const NONE = -1;
const FIRST = ["cpu", "memory", "pods"];
const MOMENTS = 1200; // of the time line
const MEASURED = /^(cpu|memory|pods|ephemeral-storage|hugepages-.*|attachable-volumes-.*)$/;
const TABLES = ["nodes", "pods", "pending"];

export class Bays {
  constructor(document) {
    Object.assign(this, document);
    this.podsMoved = true;
    this.queuesChanged = true;
    this.pendingChanged = true;
    this.nodesCame = true;
  }

  // Write a delta; false where one is missing before it.
  apply(delta) {
    if (delta.generation <= this.generation) return true;
    if (delta.generation !== this.generation + 1) return false;
    this.generation = delta.generation;
    for (const table of TABLES) {
      if (delta[table]) write(this[table], delta[table]);
    }
    this.texts.push(...(delta.texts ?? []));
    this.requests.push(...(delta.requests ?? []));
    if (delta.queues) this.queues = delta.queues;
    if (delta.at !== undefined) this.at = delta.at;
    if (delta.timeline) this.timeline = [...this.timeline, delta.timeline].slice(-MOMENTS);
    this.podsMoved ||= Boolean(delta.pods);
    this.pendingChanged ||= Boolean(delta.pending);
    this.queuesChanged ||= Boolean(delta.queues);
    this.nodesCame ||= Boolean(delta.nodes?.name) || this.levels.some((l) => delta.nodes?.[`domain/${l}`]);
    return true;
  }

  // Seconds since the epoch: now, or the moment of a recording that is shown.
  get now() {
    return this.at ?? Date.now() / 1000;
  }

  // Resources that nodes offer, those of every node first.
  get resources() {
    const names = Object.keys(this.nodes)
      .filter((name) => name.startsWith("allocatable/"))
      .map((name) => name.slice("allocatable/".length))
      .filter((name) => this.nodes[`allocatable/${name}`].some((amount) => amount > 0));
    return [...FIRST.filter((name) => names.includes(name)), ...names.filter((name) => !FIRST.includes(name))];
  }

  get size() {
    return this.nodes.name?.length ?? 0;
  }

  text(column, row) {
    const index = this.nodes[column]?.[row] ?? NONE;
    return index < 0 ? "" : this.texts[index];
  }

  domains(row) {
    return this.levels.map((level) => this.text(`domain/${level}`, row));
  }

  // What is requested of a resource as a share of what there is; null where there is none.
  share(row, resource) {
    const offered = this.nodes[`allocatable/${resource}`]?.[row] ?? 0;
    return offered > 0 ? this.nodes[`requested/${resource}`][row] / offered : null;
  }

  // What is counted rather than measured, one by one: devices of claims, and other whole things.
  get counted() {
    const of = (kind) => Object.keys(this.nodes).flatMap((name) => (name.startsWith(`${kind}/`) ? [name.slice(kind.length + 1)] : []));
    const devices = of("devices").map((name) => [name, this.nodes[`devices/${name}`], this.nodes[`allocated/${name}`]]);
    const whole = this.resources.filter((name) => !MEASURED.test(name));
    return [...devices, ...whole.map((name) => [name, this.nodes[`allocatable/${name}`], this.nodes[`requested/${name}`]])];
  }

  // The resource of which the largest share is requested, and that share.
  dominant(row, resources) {
    let most = 0;
    let which = resources[0];
    for (const resource of resources) {
      const share = this.share(row, resource);
      if (share !== null && share > most) [most, which] = [share, resource];
    }
    return [most, which];
  }

  // Rows of the Pods on a node.
  podsOn(node) {
    if (this.podsMoved) this.sortPods();
    return this.order.subarray(this.starts[node] ?? 0, this.starts[node + 1] ?? 0);
  }

  sortPods() {
    const on = this.pods.node ?? [];
    const starts = new Int32Array(this.size + 1);
    for (const node of on) if (node >= 0) starts[node + 1]++;
    for (let i = 0; i < this.size; i++) starts[i + 1] += starts[i];
    const next = starts.slice();
    const order = new Int32Array(starts[this.size] ?? 0);
    on.forEach((node, pod) => {
      if (node >= 0) order[next[node]++] = pod;
    });
    [this.starts, this.order, this.podsMoved] = [starts, order, false];
  }

  amounts(pod) {
    return this.requests[this.pods.requests[pod]] ?? {};
  }

  podText(column, pod) {
    const index = this.pods[column]?.[pod] ?? NONE;
    return index < 0 ? "" : this.texts[index];
  }

  // What waits: the highest priority first, then the oldest.
  waiting() {
    const columns = this.pending;
    const rows = (columns.name ?? []).flatMap((name, row) => (name ? [row] : []));
    rows.sort((a, b) => columns.priority[b] - columns.priority[a] || columns.created[a] - columns.created[b]);
    return rows;
  }

  get counts() {
    const there = (column) => (column ?? []).reduce((sum, value) => sum + (value !== "" && value !== NONE), 0);
    return { nodes: there(this.nodes.name), pods: there(this.pods.node), waiting: there(this.pending.name) };
  }
}

function write(columns, written) {
  const lengths = Object.values(columns).map((column) => column.length);
  let size = Math.max(0, ...lengths);
  for (const [rows] of Object.values(written)) size = rows.reduce((most, row) => Math.max(most, row + 1), size);
  for (const name of Object.keys(written)) columns[name] ??= [];
  for (const [name, column] of Object.entries(columns)) {
    const empty = name === "name" ? "" : NONE;
    while (column.length < size) column.push(empty);
  }
  for (const [name, [rows, values]] of Object.entries(written)) {
    rows.forEach((row, i) => {
      columns[name][row] = values[i];
    });
  }
}

// An amount as people read it: cores, bytes with a suffix, or a count.
export function shown(resource, amount) {
  if (amount === null || amount === undefined) return "-";
  const name = resource.split("@")[0];
  if (name === "cpu") return String(+(amount / 1000).toFixed(3));
  if (!["memory", "ephemeral-storage"].includes(name) && !name.startsWith("hugepages-")) return String(amount);
  for (const [power, suffix] of [[40, "Ti"], [30, "Gi"], [20, "Mi"], [10, "Ki"]]) {
    if (Math.abs(amount) >= 2 ** power) return `${+(amount / 2 ** power).toPrecision(4)}${suffix}`;
  }
  return String(amount);
}

export function percent(share) {
  return share === null ? "-" : `${Math.round(share * 100)}%`;
}

export function age(created, now) {
  if (created < 0) return "";
  const minutes = Math.max(0, Math.floor((now - created) / 60));
  if (minutes < 60) return `${minutes}m`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)}h` : `${Math.floor(minutes / 1440)}d`;
}

// A time as bayplan view --at takes it.
export const time = (seconds) => new Date(seconds * 1000).toISOString().replace(/\.\d+/, "");

export const byPeople = new Intl.Collator("en", { numeric: true }).compare;
