// The time line: bindings, Pods that wait and evictions of the last minutes, as bars and as text.

import { time } from "./data.js";

const MINUTES = 10;
const LANES = [
  { name: "bound", index: 1, property: "--used" },
  { name: "waiting", index: 2, property: "--unknown" },
  { name: "evicted", index: 3, property: "--borrowed" },
];
const LANE = 16; // pixels
const WORDS = 92; // pixels, for what a lane is called

// By bar of `seconds`: bindings and evictions are summed up; of those that wait the most counts, and
// they wait until something else is said.
function bars(moments, index, until, count, seconds) {
  const found = new Array(count).fill(0);
  for (const moment of moments) {
    const bar = count - 1 - Math.floor((until - moment[0]) / seconds);
    if (bar >= 0 && bar < count && index !== 2) found[bar] += moment[index];
    if (index === 2) {
      for (let i = Math.max(bar, 0); i < count; i++) found[i] = i === bar ? Math.max(found[i], moment[2]) : moment[2];
    }
  }
  return found;
}

// From when until when: all of a recording, else the last minutes.
function span(bays) {
  const { since, until } = bays.recorded ?? { since: bays.now - MINUTES * 60, until: bays.now };
  return { since, until, seconds: until - since };
}

export function timeline(bays, canvas) {
  const moments = bays.timeline ?? [];
  canvas.hidden = !moments.length;
  if (!moments.length) return;
  const { since, until, seconds } = span(bays);
  const style = getComputedStyle(canvas);
  const ratio = window.devicePixelRatio || 1;
  const width = canvas.parentElement.clientWidth;
  [canvas.width, canvas.height] = [width * ratio, LANES.length * LANE * ratio];
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.font = "11px system-ui, sans-serif";
  const count = Math.max(10, Math.floor((width - WORDS) / 4));
  LANES.forEach(({ name, index, property }, lane) => {
    const values = bars(moments, index, until, count, seconds / count);
    const most = Math.max(...values);
    const bottom = (lane + 1) * LANE - 1;
    context.fillStyle = style.getPropertyValue(property);
    values.forEach((value, i) => {
      const high = value && Math.max(2, (value / most) * (LANE - 3));
      context.fillRect(WORDS + i * 4, bottom - high, 3, high);
    });
    context.fillStyle = style.getPropertyValue("--ink");
    context.fillText(most ? `${name} (${most})` : name, 0, bottom - 3, WORDS - 6);
  });
  if (bays.recorded) context.fillRect(WORDS + ((bays.at - since) / seconds) * count * 4 - 1, 0, 2, LANES.length * LANE);
  canvas.setAttribute("aria-label", said(bays, moments));
}

// The same for a screen reader.
function said(bays, moments) {
  const { since } = span(bays);
  const late = moments.filter(([at]) => at > since);
  const sum = (index) => late.reduce((total, moment) => total + moment[index], 0);
  const waits = bays.recorded ? bays.counts.waiting : moments.at(-1)[2];
  const when = bays.recorded ? `The whole recording, ${time(since)} to ${time(bays.recorded.until)}` : `Last ${MINUTES} minutes`;
  return `${when}: ${sum(1)} Pods bound, ${sum(3)} evicted; ${waits} wait`;
}

// By minute, or by tenth of a recording, for the table.
export function parts(bays) {
  const { since, until, seconds } = span(bays);
  const by = (index) => bars(bays.timeline ?? [], index, until, MINUTES, seconds / MINUTES);
  const [bound, waiting, evicted] = [by(1), by(2), by(3)];
  const name = (i) => (bays.recorded ? `until ${time(since + ((i + 1) * seconds) / MINUTES)}` : `${MINUTES - i} min ago`);
  return bound.flatMap((one, i) => (one || waiting[i] || evicted[i] ? [[name(i), String(one), String(waiting[i]), String(evicted[i])]] : []));
}
