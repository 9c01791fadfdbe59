// The page: reads the columns, follows their changes, and connects picture and panels.

import { Bays, time } from "./data.js";
import { lenses } from "./lenses.js";
import * as panels from "./panels.js";
import { Picture } from "./picture.js";
import * as source from "./source.js";
import { timeline } from "./timeline.js";

const AGAIN = 2000; // milliseconds until a stream that ended is asked for again
const POLL = 10000; // milliseconds between two looks at columns without changes of their own
const get = (id) => document.getElementById(id);
const page = Object.fromEntries(["summary", "lens", "lose", "losing", "more", "number", "like", "other", "others", "plan", "moves", "supposing", "suppose", "what-if", "legend", "bays", "tip", "timeline", "moments", "moment", "when", "here", "table", "answer", "pending", "rest", "filter", "queues", "problem", "help"].map((id) => [id, get(id)]));
const state = { bays: null, source: "", verdict: null, lens: null, all: [], asked: "", supposed: null, stream: null, tabled: false };
let picture;

async function start() {
  if (!page.bays.getContext?.("2d") || typeof OffscreenCanvas === "undefined") {
    return fail("This browser cannot draw on a canvas: bayplan view -o text shows the same as text.");
  }
  picture = new Picture(page.bays);
  const token = location.hash.slice(1);
  if (token && !source.behindApi) {
    history.replaceState(null, "", location.pathname);
    const answer = await fetch("session", { method: "POST", body: token });
    if (!answer.ok && answer.status !== 403) return fail(await answer.text());
  }
  listen();
  await load();
}

function fail(text) {
  page.problem.hidden = false;
  page.problem.textContent = text;
  page.summary.textContent = "";
}

function trouble(text) {
  page.problem.hidden = !text;
  page.problem.textContent = text;
}

async function load() {
  const answer = await fetch(source.bays()).catch(() => null);
  if (!answer) return again(load, AGAIN);
  if (!answer.ok && state.bays && source.behindApi) {
    trouble(`The picture may be an old one: ${await source.said(answer)}`);
    return again(load, POLL);
  }
  if (!answer.ok) {
    if (answer.status === 429) again(load, AGAIN);
    return fail(await source.said(answer));
  }
  const text = await answer.text();
  state.source = source.source || decodeURIComponent(answer.headers.get("x-bayplan-source") ?? "");
  if (source.behindApi && text === state.text) return follow();
  state.text = source.behindApi ? text : "";
  state.bays = new Bays({ generation: state.bays?.generation + 1 || 1, ...JSON.parse(text) });
  state.supposes = answer.headers.get("x-bayplan-supposes") ?? "no";
  page.plan.hidden = answer.headers.get("x-bayplan-plans") !== "yes";
  page.moves.hidden = answer.headers.get("x-bayplan-moves") !== "yes";
  page["what-if"].hidden = page.plan.hidden && page.moves.hidden;
  page.supposing.hidden = state.supposes === "no";
  page.others.hidden = state.supposes !== "configurations";
  page.problem.hidden = true;
  picture.forget();
  refresh();
  follow();
}

function follow() {
  state.stream?.close();
  if (document.hidden) return;
  if (source.behindApi) {
    trouble("");
    return again(load, POLL);
  }
  const stream = (state.stream = new EventSource(`changes?since=${state.bays.generation}`));
  stream.onmessage = (event) => {
    if (state.bays.apply(JSON.parse(event.data))) refresh();
    else again(load);
  };
  stream.addEventListener("reset", () => again(load));
  stream.addEventListener("trouble", (event) => trouble(event.data && `The picture may be an old one: ${event.data}`));
  stream.onopen = () => trouble("");
  stream.onerror = () => {
    trouble("The picture may be an old one: the page's server does not answer.");
    again(follow, AGAIN);
  };
}

function again(what, after = 0) {
  state.stream?.close();
  state.stream = null;
  clearTimeout(state.timer);
  state.timer = setTimeout(what, after);
}

// Everything as the columns are now.
function refresh() {
  const { bays } = state;
  const { nodes, pods, waiting } = bays.counts;
  const { nodesCame } = bays;
  page.summary.textContent = `${nodes} nodes, ${pods} Pods on them, ${waiting} wait; from ${state.source}`;
  state.all = lenses(bays, state.verdict);
  choose(state.lens?.id);
  timeline(bays, page.timeline);
  page.moments.hidden = !bays.recorded;
  if (bays.recorded && document.body.dataset.at !== String(bays.at)) moment();
  if (bays.pendingChanged) list();
  if (bays.queuesChanged) panels.queues(bays, page.queues);
  if (state.supposes !== "no" && (nodesCame || !page.lose.options.length)) panels.domains(bays, page.lose, page.losing);
  [bays.pendingChanged, bays.queuesChanged] = [false, false];
  document.body.dataset.generation = String(bays.generation);
}

// The slider as the moment of the recording is that is shown.
function moment() {
  const { recorded, at } = state.bays;
  document.body.dataset.at = String(at);
  page.moment.value = ((at - recorded.since) / (recorded.until - recorded.since)) * page.moment.max;
  says(at);
}

function says(at) {
  page.when.value = time(at);
  page.moment.setAttribute("aria-valuetext", time(at));
}

const chosen = () => {
  const { since, until } = state.bays.recorded;
  return since + ((until - since) * page.moment.value) / page.moment.max;
};

async function turn() {
  dismiss();
  const answer = await fetch(`moment?at=${chosen().toFixed(3)}`, { method: "POST" }).catch(() => null);
  if (!answer?.ok) panels.problem(answer ? await source.said(answer) : "The page's server does not answer.", page.answer, close);
}

function list() {
  panels.pending(state.bays, page.pending, page.rest, page.filter.value, why);
}

function choose(id) {
  state.lens = (state.all.find((lens) => lens.id === id) ?? state.all[0]).make();
  const present = [...page.lens.options].map((option) => `${option.value} ${option.text}`).join();
  if (present !== state.all.map((lens) => `${lens.id} ${lens.label}`).join()) {
    page.lens.replaceChildren(...state.all.map((lens) => panels.element("option", { value: lens.id }, lens.label)));
  }
  page.lens.value = state.lens.id;
  picture.show(state.bays, state.lens);
  panels.legend(state.lens, page.legend, picture);
  if (state.tabled) panels.nodes(state.bays, state.lens, page.table);
  page.bays.setAttribute("aria-label", `${state.bays.counts.nodes} nodes, by ${state.lens.label}`);
}

function nextLens(step) {
  const at = state.all.findIndex((lens) => lens.id === state.lens.id);
  choose(state.all[(at + step + state.all.length) % state.all.length].id);
}

// Questions

async function ask(path) {
  const answer = await fetch(path).catch(() => null);
  if (answer?.ok) return answer.json();
  panels.problem(answer ? await source.said(answer) : "The page's server does not answer.", page.answer, close);
  return null;
}

async function why(name) {
  state.asked = name;
  explain(await ask(source.why("pod", name)));
  page.answer.focus();
}

async function whyGroup(key) {
  explain(await ask(source.why("group", key)));
}

// An answer, and on the picture where its Pods would go now.
function explain(answer) {
  if (!answer) return;
  panels.why(answer, page.answer, close, source.behindApi ? null : whyNot);
  unsuppose();
  picture.ghosts = panels.planned(answer);
}

async function plan() {
  const answer = await patiently("Where all that waits would go", "plan");
  if (!answer) return;
  (answer.kind === "PlanAnswer" ? panels.plan : panels.supposed)(answer, page.answer, close);
  suppose(answer);
}

async function moves() {
  const answer = await patiently("The moves of the plan", "moves");
  if (!answer) return;
  panels.moves(answer, page.answer, close);
  suppose(answer);
}

async function supposition(event) {
  event.preventDefault();
  const query = new URLSearchParams();
  const words = [];
  if (page.lose.value) {
    const [label, value] = JSON.parse(page.lose.value);
    query.set("label", label);
    query.set("value", value);
    words.push(`without ${value}`);
  }
  if (Number(page.number.value) > 0) {
    if (!page.like.value) return page.like.focus();
    query.set("number", page.number.value);
    query.set("like", page.like.value);
    words.push(`with ${page.number.value} more like ${page.like.value}`);
  }
  if (page.other.value) {
    query.set("other", "yes");
    words.push("by configuration B");
  }
  const answer = await patiently(`What would be ${words.join(", ")}`, `suppose?${query}`);
  if (!answer) return;
  panels.supposed(answer, page.answer, close);
  suppose(answer);
}

// On the picture: nodes that are gone or new, where Pods would go.
function suppose(answer) {
  picture.lost = new Set(answer.lost);
  [picture.ghosts, picture.leaving] = panels.ghosts(answer);
  picture.add(answer.nodes ?? []);
}

function unsuppose() {
  [picture.ghosts, picture.leaving, picture.lost] = [new Map(), new Map(), new Set()];
  picture.add([]);
}

function like(name) {
  page.like.value = name;
  if (!(Number(page.number.value) > 0)) page.number.value = page.more.value = 1;
  page.more.focus();
}

// An answer that takes its time; null where something else was asked meanwhile.
async function patiently(what, path) {
  state.supposed = path;
  panels.problem(`${what}: being asked`, page.answer, close);
  page.answer.scrollIntoView({ block: "nearest" });
  const answer = await ask(path);
  return state.supposed === path ? answer : null;
}

async function whyNot() {
  if (!state.asked || source.behindApi) return;
  const verdict = await ask(`why-not?${new URLSearchParams({ pod: state.asked })}`);
  if (!verdict) return;
  if (!verdict.rejected.length && verdict.message) return void panels.problem(verdict.message, page.answer, close);
  state.verdict = verdict;
  state.all = lenses(state.bays, verdict);
  choose("why-not");
}

async function inspect(row) {
  const name = state.bays.nodes.name[row];
  if (!name) return;
  const answer = source.behindApi ? { node: name } : await ask(`node?${new URLSearchParams({ name })}`);
  if (answer) panels.node(state.bays, state.lens, row, answer, page.answer, close, state.supposes === "no" ? null : like);
}

function close() {
  dismiss();
  page.bays.focus();
}

// No answer any more, beside the picture or in it.
function dismiss() {
  page.answer.hidden = true;
  state.supposed = null;
  unsuppose();
  if (state.verdict) {
    state.verdict = null;
    state.all = lenses(state.bays, null);
    choose(state.lens.id);
  }
}

// Pointer and keyboard

function select(row) {
  if (!(row >= 0)) return;
  picture.select(row);
  page.here.textContent = panels.ofNode(state.bays, state.lens, row);
}

function toggleTable() {
  state.tabled = !state.tabled;
  get("as-table").setAttribute("aria-pressed", String(state.tabled));
  get("stage").hidden = state.tabled;
  page.table.hidden = !state.tabled;
  choose(state.lens.id);
  if (state.tabled) page.table.focus();
}

const KEYS = {
  l: () => nextLens(1),
  L: () => nextLens(-1),
  t: toggleTable,
  g: () => page["what-if"].hidden || page.plan.hidden || plan(),
  m: () => page.moves.hidden || moves(),
  p: () => page.pending.querySelector("button")?.focus(),
  "/": () => page.filter.focus(),
  n: () => {
    const pod = document.activeElement?.dataset?.pod;
    if (pod) state.asked = pod;
    whyNot();
  },
  "?": () => page.help.showModal(),
  "+": () => picture.zoomBy(1.5),
  "=": () => picture.zoomBy(1.5),
  "-": () => picture.zoomBy(1 / 1.5),
  0: () => picture.all(),
  Escape: close,
};
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

function listen() {
  page.lens.addEventListener("change", () => choose(page.lens.value));
  page.plan.addEventListener("click", plan);
  page.moves.addEventListener("click", moves);
  page.supposing.addEventListener("submit", supposition);
  page.more.addEventListener("input", () => (page.number.value = page.more.value));
  page.number.addEventListener("input", () => (page.more.value = page.number.value));
  page.filter.addEventListener("input", list);
  page.moment.addEventListener("input", () => says(chosen()));
  page.moment.addEventListener("change", turn);
  get("as-table").addEventListener("click", toggleTable);
  get("help-button").addEventListener("click", () => page.help.showModal());
  page.answer.addEventListener("click", (event) => {
    if (event.target.dataset.group) whyGroup(event.target.dataset.group);
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || page.help.open || !state.bays) return;
    if (event.target instanceof HTMLInputElement || event.target instanceof HTMLSelectElement) {
      if (event.key === "Escape") page.bays.focus();
      return;
    }
    if (KEYS[event.key]) {
      KEYS[event.key]();
      event.preventDefault();
    }
  });
  page.bays.addEventListener("keydown", (event) => {
    if (ARROWS[event.key]) select(picture.next(...ARROWS[event.key]));
    else if (event.key === "Enter") inspect(picture.selected);
    else return;
    event.preventDefault();
  });
  page.pending.addEventListener("keydown", (event) => {
    const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    if (!step) return;
    event.target.closest("li")?.[step]?.querySelector("button")?.focus();
    event.preventDefault();
  });
  drag();
  new ResizeObserver(() => {
    if (!state.bays || state.tabled) return;
    picture.arrange();
    picture.draw();
    timeline(state.bays, page.timeline);
  }).observe(get("stage"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state.bays && choose(state.lens.id));
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) again(() => {});
    else if (state.bays && !state.stream) again(follow);
  });
}

function drag() {
  let [from, moved] = [null, 0];
  const place = (event) => {
    const box = page.bays.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  page.bays.addEventListener("wheel", (event) => {
    picture.zoomBy(event.deltaY < 0 ? 1.2 : 1 / 1.2, ...place(event));
    event.preventDefault();
  }, { passive: false });
  page.bays.addEventListener("pointerdown", (event) => {
    [from, moved] = [place(event), 0];
    page.bays.setPointerCapture(event.pointerId);
  });
  page.bays.addEventListener("pointermove", (event) => {
    const here = place(event);
    if (from) {
      moved += Math.abs(here[0] - from[0]) + Math.abs(here[1] - from[1]);
      picture.pan(from[0] - here[0], from[1] - here[1]);
      from = here;
    }
    const row = state.bays ? picture.at(...here) : -1;
    page.tip.hidden = row < 0 || from !== null;
    if (row < 0) return;
    page.tip.textContent = panels.ofNode(state.bays, state.lens, row);
    const right = here[0] > picture.width / 2;
    page.tip.style.left = right ? "auto" : `${here[0] + 14}px`;
    page.tip.style.right = right ? `${picture.width - here[0] + 14}px` : "auto";
    page.tip.style.top = `${Math.min(here[1] + 14, picture.height - 60)}px`;
  });
  page.bays.addEventListener("pointerup", (event) => {
    from = null;
    if (moved > 4) return;
    const row = picture.at(...place(event));
    select(row);
    inspect(row);
  });
  page.bays.addEventListener("pointerleave", () => {
    page.tip.hidden = true;
  });
}

window.bayplan = { state, get picture() { return picture; } };
start();
