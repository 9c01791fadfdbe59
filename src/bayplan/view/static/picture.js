// The picture: nodes as cells on a canvas, in blocks by domain. Far away a cell is one colour, filled from
// below; from NEAR pixels on, Pods are strips in it. Nothing moves by itself.
//
// Every rectangle is whole pixels of the device: others cost a browser without a GPU several times as much.
// So is every step of the picture when it is dragged: what is shown already is copied to its new place, and
// only what comes into view is drawn.

import { byPeople } from "./data.js";

const NEAR = 24;
const MOST_DEVICES = 64; // of a kind, that are drawn one by one
const NAMED = 56; // from here on a cell has its name
const HATCHED = 6; // from here on a rectangle of a category has its lines
const NOT_KNOWN = -1; // a category or step
const GAP = 18; // between blocks, with their label
const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8c8c8c"];
const SCALES = {
  light: ["#e8f1fa", "#cde0f1", "#abcfe6", "#82badb", "#58a1cf", "#3787c0", "#1b6aaf", "#0a488e"],
  dark: ["#1d2b3a", "#20405c", "#24567f", "#2b6da1", "#3b86bd", "#5fa3d2", "#90c2e4", "#c9e2f5"],
};

export class Picture {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.slots = new Map(); // by block, rows of nodes in their places; NaN where none is any more
    this.zoom = 1;
    [this.left, this.top] = [0, 0]; // of the view, always whole pixels of the device
    this.few = 400; // cells, that are drawn faster than the picture is copied
    this.shown = null; // where the view was when it was drawn; null while all has to be drawn anew
    this.selected = -1;
    this.lost = new Set(); // names of nodes that are thought away
    this.ghosts = new Map(); // by name of a node, how many Pods would go there
    this.leaving = new Map(); // and how many would be evicted there
    this.added = []; // names of nodes that are thought to be there; their rows come after all others
    this.patterns = new Map();
  }

  show(bays, lens) {
    [this.bays, this.lens] = [bays, lens];
    this.read();
    if (bays.nodesCame) {
      bays.nodesCame = false;
      this.place();
      this.arrange();
    }
    this.draw();
  }

  // What the lens says of each node, once for all frames: how far a cell is filled, and with what.
  read() {
    const { bays, lens } = this;
    this.resources = bays.resources;
    this.counted = bays.counted;
    this.shares = new Float32Array(bays.size + this.added.length);
    this.codes = new Int16Array(bays.size + this.added.length).fill(NOT_KNOWN);
    for (let row = 0; row < bays.size; row++) {
      if (!bays.nodes.name[row]) continue;
      this.shares[row] = lens.share(row) ?? 0;
      this.codes[row] = (lens.category ?? lens.step)(row) ?? NOT_KNOWN;
    }
    this.ofPods = null;
  }

  // The same of each Pod: by row the share of its node that it takes, and with what that is filled.
  readPods() {
    const { bays, lens } = this;
    const count = bays.pods.node?.length ?? 0;
    const [shares, codes] = [new Float32Array(count), new Int16Array(count)];
    for (let row = 0; row < bays.size; row++) {
      const resource = this.resource(row);
      const offered = bays.nodes[`allocatable/${resource}`]?.[row] ?? 0;
      for (const pod of bays.podsOn(row)) {
        const amount = resource === "pods" ? 1 : (bays.amounts(pod)[resource] ?? 0);
        shares[pod] = offered > 0 ? amount / offered : 0;
        codes[pod] = lens.ofPod ? (lens.codeOf(lens.ofPod(pod)) ?? NOT_KNOWN) : this.codes[row];
      }
    }
    this.ofPods = { shares, codes };
  }

  // What the strips of a node are shares of.
  resource(row) {
    return this.lens.resource ?? this.bays.dominant(row, this.resources)[1];
  }

  forget() {
    this.slots.clear();
  }

  // Think nodes of these names to be there, in a block of their own.
  add(names) {
    const same = names.length === 0 && this.added.length === 0;
    this.added = names;
    if (!same) {
      this.read();
      this.arrange();
    }
    this.draw();
  }

  name(row) {
    return this.bays.nodes.name[row] ?? this.added[row - this.bays.size];
  }

  // Each node in its block. Who is there keeps the place; who is new takes a free one, or the next.
  place() {
    const { bays } = this;
    const block = (row) => bays.domains(row).filter(Boolean).join(" / ");
    const wanted = new Map();
    for (let row = 0; row < bays.size; row++) {
      if (bays.nodes.name[row]) wanted.set(row, block(row));
    }
    for (const [key, rows] of this.slots) {
      rows.forEach((row, i) => {
        if (wanted.get(row) === key) wanted.delete(row);
        else rows[i] = NaN;
      });
      while (rows.length && Number.isNaN(rows.at(-1))) rows.pop();
      if (!rows.length) this.slots.delete(key);
    }
    for (const [row, key] of wanted) {
      if (!this.slots.has(key)) this.slots.set(key, []);
      const rows = this.slots.get(key);
      const free = rows.findIndex(Number.isNaN);
      if (free < 0) rows.push(row);
      else rows[free] = row;
    }
  }

  // The largest cells with which all blocks fit.
  arrange() {
    const ratio = window.devicePixelRatio || 1;
    const box = this.canvas.parentElement.getBoundingClientRect();
    [this.width, this.height] = [Math.max(box.width, 50), Math.max(box.height, 50)];
    this.canvas.width = Math.round(this.width * ratio);
    this.canvas.height = Math.round(this.height * ratio);
    this.ratio = ratio;
    const blocks = [...this.slots].sort(([a], [b]) => (a === "") - (b === "") || byPeople(a, b));
    const { size } = this.bays;
    if (this.added.length) blocks.push(["added", this.added.map((_, i) => size + i)]);
    let [low, high] = [1, 96];
    while (low < high) {
      const cell = Math.ceil((low + high) / 2);
      if (this.flow(blocks, cell).bottom <= this.height) low = cell;
      else high = cell - 1;
    }
    const { placed } = this.flow(blocks, low);
    this.cell = low;
    this.blocks = placed;
    this.x = new Float32Array(size + this.added.length).fill(NaN);
    this.y = new Float32Array(size + this.added.length).fill(NaN);
    for (const { rows, columns, x, y } of placed) {
      rows.forEach((row, i) => {
        if (Number.isNaN(row)) return;
        this.x[row] = x + (i % columns) * low;
        this.y[row] = y + Math.floor(i / columns) * low;
      });
    }
  }

  // Blocks from left to right, in lines.
  flow(blocks, cell) {
    const placed = [];
    let [x, y, line] = [0, 0, 0];
    const label = blocks.length > 1 ? GAP : 0;
    for (const [key, rows] of blocks) {
      const fitting = Math.max(1, Math.floor(this.width / cell));
      const columns = Math.min(fitting, Math.max(1, Math.ceil(Math.sqrt(rows.length * 2))));
      const wide = Math.max(columns * cell, label ? 60 : 0);
      const high = Math.ceil(rows.length / columns) * cell + label;
      if (x > 0 && x + wide > this.width) [x, y, line] = [0, y + line + 4, 0];
      placed.push({ key, rows, columns, x, y: y + label, wide: columns * cell, label });
      x += wide + 8;
      line = Math.max(line, high);
    }
    return { placed, bottom: y + line };
  }

  // Drawing

  draw() {
    this.shown = null;
    this.request();
  }

  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const { context, bays, lens } = this;
    if (!bays || !lens || !this.x) return;
    const size = this.cell * this.zoom;
    let areas = [[0, 0, this.width, this.height]];
    let visible = this.visible(size, areas);
    if (this.shown && visible.length > this.few) {
      areas = this.moved();
      visible = this.visible(size, areas);
    }
    this.shown = [this.left, this.top];
    if (!areas.length) return;
    this.readStyle();
    context.save();
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.beginPath();
    for (const area of areas) context.rect(...area);
    context.clip();
    context.clearRect(0, 0, this.width, this.height);
    const inner = this.whole(size > 5 ? size - 1 : size > 2.5 ? size - 0.5 : size + 0.5);
    context.fillStyle = this.empty;
    for (const row of visible) context.fillRect(this.px(row), this.py(row), inner, inner);
    if (size >= NEAR) this.strips(visible, inner);
    else this.fills(visible, inner);
    this.marks(visible, inner);
    this.without(visible, inner);
    this.planned(visible, inner);
    this.labels();
    this.frame(inner);
    context.restore();
    if (!this.painted) this.painted = performance.now();
  }

  // Copy what is shown to where it is now; returns what has to be drawn: left, top, width, height.
  moved() {
    const { canvas, context, width, height } = this;
    const [right, down] = [this.left - this.shown[0], this.top - this.shown[1]];
    if (Math.abs(right) >= width || Math.abs(down) >= height) return [[0, 0, width, height]];
    if (right || down) {
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.globalCompositeOperation = "copy";
      context.drawImage(canvas, Math.round(-right * this.ratio), Math.round(-down * this.ratio));
      context.globalCompositeOperation = "source-over";
    }
    const areas = [];
    if (right) areas.push([right > 0 ? width - right : 0, 0, Math.abs(right), height]);
    if (down) areas.push([0, down > 0 ? height - down : 0, width, Math.abs(down)]);
    return areas;
  }

  // A length in whole pixels of the device.
  whole(length) {
    return Math.round(length * this.ratio) / this.ratio;
  }

  px(row) {
    return this.whole(this.x[row] * this.zoom) - this.left;
  }

  py(row) {
    return this.whole(this.y[row] * this.zoom) - this.top;
  }

  // Rows of nodes that are at least partly in one of the areas.
  visible(size, areas) {
    const rows = [];
    for (let row = 0; row < this.x.length; row++) {
      const [x, y] = [this.px(row), this.py(row)];
      if (areas.some(([left, top, wide, high]) => x > left - size - 1 && x < left + wide && y > top - size - 1 && y < top + high)) rows.push(row);
    }
    return rows;
  }

  // By colour, since changing it costs more than a rectangle.
  fills(rows, inner) {
    const { lens, context } = this;
    const byCode = new Map();
    for (const row of rows) {
      const code = this.codes[row];
      if (!byCode.has(code)) byCode.set(code, []);
      byCode.get(code).push(row);
    }
    for (const [code, ofIt] of byCode) {
      context.fillStyle = this.colour(code, inner);
      const least = code === NOT_KNOWN ? 0 : lens.category ? 0.3 : 0.06;
      for (const row of ofIt) {
        const high = this.whole(Math.min(Math.max(this.shares[row], least), 1) * inner);
        context.fillRect(this.px(row), this.py(row) + inner - high, inner, high);
      }
    }
  }

  colour(code, size) {
    if (code === NOT_KNOWN) return this.unknown;
    return this.lens.category ? this.hatched(code, size >= HATCHED) : this.scale[code];
  }

  // Pods of each node from below, as high as their share of what the lens shows; by colour.
  strips(rows, inner) {
    if (!this.ofPods || this.bays.podsMoved) this.readPods();
    const { bays, context } = this;
    const { shares, codes } = this.ofPods;
    const byColour = new Map(); // code and whether lines of a hatch can be seen: then x, top, height by threes
    const add = (code, x, top, high, shown) => {
      const key = 2 * code + (high >= HATCHED);
      let strips = byColour.get(key);
      if (!strips) byColour.set(key, (strips = []));
      const last = strips.length - 3;
      if (shown === high && strips[last] === x && strips[last + 1] === top + high) {
        strips[last + 1] = top; // nothing tells the two apart
        strips[last + 2] += high;
      } else strips.push(x, top, shown);
    };
    const [leaving, binding] = [[], []];
    for (const row of rows) {
      const [x, y] = [this.px(row), this.py(row)];
      let bottom = y + inner;
      for (const pod of bays.podsOn(row)) {
        const top = Math.min(this.whole(bottom - shares[pod] * inner), bottom - 1);
        if (top < y) break;
        const high = bottom - top;
        add(codes[pod], x, top, high, high - (high > 3 ? 1 : 0));
        const state = bays.pods.state[pod];
        if (state === 1) leaving.push([x, top, high]);
        if (state === 2) binding.push([x, top, high]);
        bottom = top;
      }
      const rest = this.whole((bays.share(row, this.resource(row)) ?? 0) * inner - (y + inner - bottom)); // of Pods that are not shown
      if (!bays.named && rest >= 1) add(NOT_KNOWN, x, Math.max(bottom - rest, y), 0, Math.min(rest, bottom - y));
    }
    for (const [key, strips] of byColour) {
      context.fillStyle = this.colour(key >> 1, key & 1 ? HATCHED : 0);
      for (let i = 0; i < strips.length; i += 3) context.fillRect(strips[i], strips[i + 1], inner, strips[i + 2]);
    }
    context.fillStyle = this.pattern("leaving", this.ink, "rgba(0,0,0,0)", 1);
    for (const [x, top, high] of leaving) context.fillRect(x, top, inner, high);
    context.strokeStyle = this.ink;
    for (const [x, top, high] of binding) context.strokeRect(x + 0.5, top + 0.5, inner - 1, high - 1);
    for (const row of rows) this.near(row, inner);
  }

  // What a node has besides its Pods: the colour of its category, devices, its name.
  near(row, inner) {
    const { lens, context } = this;
    const [x, y] = [this.px(row), this.py(row)];
    if (lens.category && !lens.ofPod) {
      context.fillStyle = this.colour(this.codes[row], inner);
      context.fillRect(x, y, inner, this.whole(Math.max(4, inner / 8)));
    }
    this.devices(row, x, y, inner);
    if (inner >= NAMED) {
      context.fillStyle = this.ink;
      context.font = "11px system-ui, sans-serif";
      this.write(this.name(row), x + 3, y + 12, inner - 6);
    }
  }

  // Squares at the right, one for each device: full ones are allocated. A line for each kind.
  devices(row, x, y, inner) {
    const { context } = this;
    const side = Math.min(9, Math.floor(inner / 9));
    if (side < 4) return;
    let right = x + inner - 2;
    for (const [, offered, taken] of this.counted) {
      const number = offered[row] ?? 0;
      if (number < 1 || number > MOST_DEVICES) continue;
      const lines = Math.max(1, Math.floor((inner - 4) / side));
      for (let i = 0; i < number; i++) {
        const [left, top] = [right - side * (Math.floor(i / lines) + 1), y + 2 + side * (i % lines)];
        context.fillStyle = this.empty;
        context.fillRect(left, top, side, side);
        context.fillStyle = context.strokeStyle = this.ink;
        if (i < taken[row]) context.fillRect(left + 1, top + 1, side - 2, side - 2);
        else context.strokeRect(left + 1.5, top + 1.5, side - 3, side - 3);
      }
      right -= side * Math.ceil(number / lines) + 2;
    }
  }

  // A cap where more is requested than there is, a cross on cordoned nodes.
  marks(rows, inner) {
    const { bays, context } = this;
    context.strokeStyle = this.ink;
    context.lineWidth = 1;
    context.beginPath();
    for (const row of rows) {
      const [x, y] = [this.px(row), this.py(row)];
      if (this.shares[row] > 1) {
        context.moveTo(x, y + 0.5);
        context.lineTo(x + inner, y + 0.5);
      }
      if (bays.nodes.unschedulable[row] === 1 && inner >= 6) {
        context.moveTo(x, y);
        context.lineTo(x + inner, y + inner);
        context.moveTo(x + inner, y);
        context.lineTo(x, y + inner);
      }
    }
    context.stroke();
  }

  // Nodes that are thought away are pale, and crossed out.
  without(rows, inner) {
    const { bays, context } = this;
    if (!this.lost.size) return;
    context.strokeStyle = this.ink;
    for (const row of rows) {
      if (!this.lost.has(bays.nodes.name[row])) continue;
      const [x, y] = [this.px(row), this.py(row)];
      context.globalAlpha = 0.85;
      context.fillStyle = this.empty;
      context.fillRect(x, y, inner, inner);
      context.globalAlpha = 1;
      context.beginPath();
      context.moveTo(x, y + inner);
      context.lineTo(x + inner, y);
      context.stroke();
    }
  }

  // Where Pods would go: a dashed frame, and how many; where Pods would leave: a corner, and how many.
  planned(rows, inner) {
    const { context } = this;
    if (!this.ghosts.size && !this.leaving.size && !this.added.length) return;
    context.strokeStyle = this.ink;
    context.fillStyle = this.ink;
    context.lineWidth = Math.max(1.5, Math.min(3, inner / 10));
    context.font = "bold 12px system-ui, sans-serif";
    for (const row of rows) {
      const [x, y, name] = [this.px(row), this.py(row), this.name(row)];
      const [come, leave] = [this.ghosts.get(name), this.leaving.get(name)];
      if (row >= this.bays.size) context.strokeRect(x + 0.5, y + 0.5, inner - 1, inner - 1);
      if (come) {
        context.setLineDash([4, 3]);
        context.strokeRect(x + 1, y + 1, inner - 2, inner - 2);
        context.setLineDash([]);
        if (inner >= NEAR) this.write(`+${come}`, x + 4, y + inner - 5, inner / 2 - 6);
      }
      if (leave) {
        const corner = Math.max(inner / 3, 3);
        context.beginPath();
        context.moveTo(x + inner, y);
        context.lineTo(x + inner - corner, y);
        context.lineTo(x + inner, y + corner);
        context.fill();
        if (inner >= NEAR) this.write(`\u2212${leave}`, x + inner / 2, y + inner - 5, inner / 2 - 4);
      }
    }
    context.lineWidth = 1;
  }

  // Text that can be read on every colour.
  write(text, x, y, width) {
    const { context } = this;
    context.save();
    context.setLineDash([]);
    context.strokeStyle = this.empty;
    context.lineWidth = 3;
    context.strokeText(text, x, y, width);
    context.fillText(text, x, y, width);
    context.restore();
  }

  labels() {
    const { context } = this;
    context.fillStyle = this.ink;
    context.font = "12px system-ui, sans-serif";
    for (const { key, rows, x, y, wide, label } of this.blocks) {
      if (!label) continue;
      const count = rows.filter((row) => !Number.isNaN(row)).length;
      const text = `${key || "no domain"} (${count})`;
      context.fillText(text, x * this.zoom - this.left, y * this.zoom - this.top - 5, Math.max(wide, 60) * this.zoom);
    }
  }

  frame(inner) {
    if (this.selected < 0 || !(this.px(this.selected) > -inner)) return;
    const { context } = this;
    context.strokeStyle = this.ink;
    context.lineWidth = 2;
    context.strokeRect(this.px(this.selected) - 1, this.py(this.selected) - 1, inner + 2, inner + 2);
    context.lineWidth = 1;
  }

  // Colours

  readStyle() {
    const style = getComputedStyle(this.canvas);
    this.ink = style.getPropertyValue("--ink").trim();
    this.unknown = style.getPropertyValue("--unknown").trim();
    this.empty = style.getPropertyValue("--cell").trim();
    this.scale = SCALES[style.getPropertyValue("--scheme").trim()] ?? SCALES.light;
  }

  hatched(code, large) {
    return large ? this.pattern(code, COLOURS[code], COLOURS[code], code) : COLOURS[code];
  }

  // A colour alone for the first category, with lines in other directions for others.
  pattern(key, line, ground, kind) {
    const name = `${key} ${this.ink} ${this.ratio}`;
    if (!this.patterns.has(name)) {
      const tile = new OffscreenCanvas(8, 8);
      const context = tile.getContext("2d");
      hatch(context, ground, key === "leaving" ? line : "rgba(0,0,0,0.45)", kind);
      this.patterns.set(name, this.context.createPattern(tile, "repeat"));
    }
    const pattern = this.patterns.get(name);
    pattern.setTransform(new DOMMatrix([1, 0, 0, 1, -this.left, -this.top])); // it moves with the cells
    return pattern;
  }

  // The same for the legend.
  swatch(canvas, entry) {
    const context = canvas.getContext("2d");
    if (entry.category === undefined) {
      this.readStyle();
      context.fillStyle = this.scale[entry.step];
      context.fillRect(0, 0, canvas.width, canvas.height);
      return;
    }
    const tile = new OffscreenCanvas(8, 8);
    hatch(tile.getContext("2d"), COLOURS[entry.category], "rgba(0,0,0,0.45)", entry.category);
    context.fillStyle = context.createPattern(tile, "repeat");
    context.fillRect(0, 0, canvas.width, canvas.height);
  }

  // Where things are

  at(x, y) {
    const size = this.cell * this.zoom;
    for (let row = 0; row < this.x.length; row++) {
      const [left, top] = [this.px(row), this.py(row)];
      if (x >= left && x < left + size && y >= top && y < top + size) return row;
    }
    return -1;
  }

  // The nearest node in a direction.
  next(dx, dy) {
    const from = this.selected;
    if (!(from >= 0) || Number.isNaN(this.x[from])) return this.x.findIndex((x) => !Number.isNaN(x));
    let [best, least] = [from, Infinity];
    for (let row = 0; row < this.x.length; row++) {
      const along = (this.x[row] - this.x[from]) * dx + (this.y[row] - this.y[from]) * dy;
      const aside = Math.abs((this.x[row] - this.x[from]) * dy) + Math.abs((this.y[row] - this.y[from]) * dx);
      if (!(along > 0)) continue;
      const far = along + aside * 3;
      if (far < least) [best, least] = [row, far];
    }
    return best;
  }

  select(row) {
    this.selected = row;
    if (row >= 0) this.reveal(row);
    this.draw();
  }

  reveal(row) {
    const size = this.cell * this.zoom;
    const [x, y] = [this.px(row), this.py(row)];
    let [left, top] = [this.left, this.top];
    if (x < 0) left += x - 8;
    if (y < 0) top += y - 24;
    if (x + size > this.width) left += x + size - this.width + 8;
    if (y + size > this.height) top += y + size - this.height + 8;
    this.view(left, top);
  }

  // Zoom by a factor, with this point staying where it is.
  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), 256 / this.cell);
    const [left, top] = [(this.left + x) * (zoom / this.zoom) - x, (this.top + y) * (zoom / this.zoom) - y];
    this.zoom = zoom;
    this.view(left, top);
    this.draw();
  }

  pan(dx, dy) {
    this.view(this.left + dx, this.top + dy);
    this.request();
  }

  // Let the view begin there, or as near as the picture's edges allow.
  view(left, top) {
    this.left = this.whole(Math.min(Math.max(left, 0), this.width * (this.zoom - 1)));
    this.top = this.whole(Math.min(Math.max(top, 0), this.height * (this.zoom - 1)));
  }

  all() {
    [this.zoom, this.left, this.top] = [1, 0, 0];
    this.draw();
  }
}

// Lines on a ground, 8 by 8 pixels: eight kinds that differ without colour.
function hatch(context, ground, line, kind) {
  context.fillStyle = ground;
  context.fillRect(0, 0, 8, 8);
  context.strokeStyle = line;
  context.fillStyle = line;
  context.lineWidth = 1.2;
  context.beginPath();
  const lines = {
    1: [[-2, 10, 10, -2], [-2, 2, 2, -2], [6, 10, 10, 6]],
    2: [[-2, -2, 10, 10], [6, -2, 10, 2], [-2, 6, 2, 10]],
    3: [[0, 4, 8, 4]],
    4: [[4, 0, 4, 8]],
    5: [[0, 4, 8, 4], [4, 0, 4, 8]],
    6: [[-2, 10, 10, -2], [-2, -2, 10, 10]],
  };
  for (const [x, y, toX, toY] of lines[kind] ?? []) {
    context.moveTo(x, y);
    context.lineTo(toX, toY);
  }
  context.stroke();
  if (kind === 7) for (const at of [1, 5]) context.fillRect(at, at, 2, 2);
}
