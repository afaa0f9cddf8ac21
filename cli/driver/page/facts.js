"use strict";
// The report, sizes evaluated at chosen values, numbers as text, and elements without markup.

const data = (id) => JSON.parse(document.getElementById(id).textContent);
const report = data("report-data");
const kernelTexts = data("kernel-texts");
const compiled = Object.keys(kernelTexts).length > 0;
const symbols = report.symbols || [];
const entries = report.entries || [];
const stateLeaves = report.state || [];
const libraryCalls = report.library_calls || [];
const gpu = report.machine.multiprocessors !== undefined;
const gpuName = report.machine.gpu ?? report.machine.gpus;  // for which times are predicted
const chosen = {};  // symbol -> value
for (const s of symbols) chosen[s.name] = s.max;
Object.assign(chosen, data("chosen-sizes"));

// ---- Sizes
const operators = {
  "+": (a, b) => a + b,
  "*": (a, b) => a * b,
  floordiv: (a, b) => Math.floor(a / b),
  mod: (a, b) => a - b * Math.floor(a / b),
  min: Math.min,
  max: Math.max,
};
function evaluate(postfix) {
  const stack = [];
  for (const word of postfix.split(" ")) {
    const op = Object.hasOwn(operators, word) ? operators[word] : null;
    if (op && stack.length > 1) {
      const b = stack.pop();
      stack.push(op(stack.pop(), b));
    } else {
      stack.push(Object.hasOwn(chosen, word) ? chosen[word] : Number(word));
    }
  }
  return stack.length === 1 ? stack[0] : NaN;
}
let sizeValues = [];
// A size of the report: a number, or -1-i for the formula i of its table.
const sizeOf = (ref) => (ref >= 0 ? ref : sizeValues[-1 - ref]);
const sizeText = (ref) => (ref >= 0 ? String(ref) : report.sizes[-1 - ref].text);
const typeBytes = (t) => (t < 0 ? 0 : sizeOf(report.types[t].bytes));
const typeText = (t) => (t < 0 ? "scratch memory" : report.types[t].text);

// ---- Numbers
// x with d digits after the point; ties go to the even digit, as nablac prints them.
function fixed(x, d) {
  const scaled = x * 10 ** d, floor = Math.floor(scaled);
  if (scaled - floor === 0.5) return ((floor % 2 ? floor + 1 : floor) / 10 ** d).toFixed(d);
  return x.toFixed(d);
}
function bytesText(n) {
  if (n < 1e4) return `${Math.trunc(n)} B`;
  if (n < 1e7) return `${fixed(n / 1e3, 1)} KB`;
  return n < 1e10 ? `${fixed(n / 1e6, 1)} MB` : `${fixed(n / 1e9, 2)} GB`;
}
function flopsText(n) {
  if (n < 1e4) return `${fixed(n, 0)} FLOP`;
  if (n < 1e6) return `${fixed(n / 1e3, 1)} kFLOP`;
  return n < 1e9 ? `${fixed(n / 1e6, 2)} MFLOP` : `${fixed(n / 1e9, 2)} GFLOP`;
}
// Three digits.
function timeText(us) {
  const [n, unit] = us < 0.9995 ? [us * 1e3, "ns"] : us < 999.5 ? [us, "us"] : [us / 1e3, "ms"];
  return `${fixed(n, n < 9.995 ? 2 : n < 99.95 ? 1 : 0)} ${unit}`;
}
const intensityText = (flops, bytes) => (bytes > 0 ? fixed(flops / bytes, flops / bytes < 10 ? 2 : 1) : "–");
const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
// Of an entry, a kernel or a library's call, at the chosen sizes.
const entryNumber = (e, which) => (e.formulas ? evaluate(e.formulas[which].postfix) : e[which]);

// ---- Places
const placeShort = (p) => (p ? `${report.places[p].file.split("/").pop()}:${report.places[p].line}` : "no source line");
const placeLong = (p) => (p ? `${report.places[p].file}:${report.places[p].line}` : "no source line");
const placeHue = (p) => (p * 47) % 360;

// ---- Functions, with what follows from their data
const node = {
  op: 0,
  place: 1,
  operands: 2,
  results: 3,
  attrs: 4,
  flops: 5,
  bytes: 6
};  // fields of a node
const step = {
  what: 0,
  kind: 1,
  place: 2,
  computes: 3,
  bytes: 4,
  call: 5
};  // of an instruction
// What an instruction runs: of a GPU's library the problem.
function stepName(s) {
  if (s[step.call] < 0) return s[step.what];
  const call = libraryCalls[s[step.call]];
  return call.problem + (call.epilogue ? ` with ${call.epilogue}` : "");
}
const buffer = {
  name: 0,
  type: 1,
  offset: 2,
  reserved: 3,
  first: 4,
  last: 5,
  place: 6
};  // of a buffer

// As the text form of the IR names them: what has no name of its own, or one that is taken, is numbered.
function nameValues(f) {
  const names = f.values.map(() => "%?"), taken = new Set();
  let next = 0;
  for (const v of [...f.params, ...f.nodes.flatMap((n) => n[node.results])]) {
    const own = f.values[v][1], fresh = own !== "" && !taken.has(own);
    if (fresh) taken.add(own);
    names[v] = "%" + (fresh ? own : next++);
  }
  return names;
}

const functions = (report.functions || []).map((f, index) => {
  const maker = new Int32Array(f.values.length).fill(-1);
  const users = f.values.map(() => []);
  f.nodes.forEach((n, i) => {
    for (const v of n[node.results]) maker[v] = i;
    for (const v of n[node.operands])
      if (users[v].at(-1) !== i) users[v].push(i);
  });
  const stepsOf = f.nodes.map(() => []);
  f.instructions.forEach((s, i) => s[step.computes].forEach((n) => stepsOf[n].push(i)));
  const callOf = new Map(f.calls.map((c) => [c.node, c]));
  const names = nameValues(f);
  return {...f, names, index, maker, users, stepsOf, callOf, entry: entries.find((e) => e.function === f.name) || null};
});
const valueName = (f, v) => f.names[v];
const valueType = (f, v) => typeText(f.values[v][0]);
const nodeFlops = (n) => sizeOf(n[node.flops]);
// An op that several instructions compute counts in equal parts.
const stepFlops = (f, s) => s[step.computes].reduce((sum, n) => sum + nodeFlops(f.nodes[n]) / f.stepsOf[n].length, 0);
function functionTitle(f) { return f.entry ? f.entry.name : "@" + f.name; }

// What a loop or a branch runs: a loop counts its trips, a branch its costlier side, a while one round.
let totals = new Map();  // by function, at the chosen sizes
function callFlops(call) {
  const inside = call.functions.map((g) => totalFlops(functions[g]));
  if (call.kind === "branch") return Math.max(...inside);
  return sizeOf(call.trips) * inside.reduce((a, b) => a + b, 0);
}
// A node with all that it runs, and a function likewise.
const nodeTotal = (f, i) => nodeFlops(f.nodes[i]) + (f.callOf.has(i) ? callFlops(f.callOf.get(i)) : 0);
function totalFlops(f) {
  if (!totals.has(f)) totals.set(f, f.nodes.reduce((sum, _, i) => sum + nodeTotal(f, i), 0));
  return totals.get(f);
}

// How often each function runs in one run of `root`, counted likewise.
function runsFrom(root) {
  const runs = new Map();
  const walk = (f, times) => {
    runs.set(f, (runs.get(f) || 0) + times);
    for (const c of f.calls) {
      const inside = c.functions.map((g) => functions[g]);
      const most = Math.max(...inside.map(totalFlops));
      const taken = c.kind === "branch" ? [inside.find((g) => totalFlops(g) === most)] : inside;
      for (const g of taken) walk(g, times * sizeOf(c.trips));
    }
  };
  walk(root, 1);
  return runs;
}

// Every size again, at what is chosen now.
function evaluateSizes() {
  sizeValues = (report.sizes || []).map((s) => evaluate(s.postfix));
  totals = new Map();
}

// ---- Elements; texts are always text nodes, so that nothing in the user's program is markup
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on"))
      element.addEventListener(name.slice(2), value);
    else if (value === true)
      element.setAttribute(name, "");
    else if (value !== false && value != null)
      element.setAttribute(name, value);
  }
  element.append(
      ...children.flat(3).filter((c) => c != null && c !== false).map((c) => (c instanceof Node ? c : String(c))));
  return element;
}
const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
    fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
const $ = (id) => document.getElementById(id);

const ruler = document.createElement("canvas").getContext("2d");
const fontOf = (px, weight) => `${weight || 400} ${px}px system-ui, sans-serif`;
function textWidth(text, font) {
  ruler.font = font;
  return ruler.measureText(text).width;
}
// The text, shortened to fit a width.
function fitted(text, width, font) {
  if (textWidth(text, font) <= width) return text;
  let low = 0, high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(text.slice(0, middle) + "…", font) <= width)
      low = middle;
    else
      high = middle - 1;
  }
  return text.slice(0, low) + "…";
}

// ---- What is shown
const view = {
  root: functions.find((f) => f.entry && f.entry.name === "step") || functions.find((f) => f.entry) || functions[0],
  tab: "overview",
};
view.current = view.root;  // an entry's function or one that it runs

const tip = {
  show(event, lines) {
    const box = $("tip");
    box.replaceChildren(...lines.filter(Boolean).map((line, i) => h(i ? "div" : "strong", null, line)));
    box.hidden = false;
    const x = Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 8);
    const y = event.clientY + 18 + box.offsetHeight > innerHeight ? event.clientY - box.offsetHeight - 12 :
                                                                    event.clientY + 18;
    box.style.left = `${Math.max(8, x)}px`;
    box.style.top = `${Math.max(8, y)}px`;
  },
  hide() { $("tip").hidden = true; },
};
