// The panel beside the graph and the charts: what one node, group, edge or buffer is.

// Opening and closing changes the room for what stands beside it.
function setDetails(open) {
  const before = $("stage").clientWidth;
  if ($("details").hidden !== open) return;
  $("details").hidden = !open;
  if (view.tab === "graph") graph.resized(before);
  if (view.tab === "memory") memory.draw();
}
function showDetails(title, kind, ...parts) {
  $("details").replaceChildren(
      h("div", {class: "head"}, h("div", null, h("span", {class: "quiet"}, kind), h("h2", null, title)),
        h("button", {class: "close", "aria-label": "Close the details", onclick: closeDetails}, "×")),
      ...parts.flat(3).filter(Boolean));
  setDetails(true);
  $("details").scrollTop = 0;
}
function closeDetails() {
  setDetails(false);
  graph.select(null);
}

const list = (...rows) =>
    h("dl", null, rows.filter(Boolean).map(([term, text]) => [h("dt", null, term), h("dd", null, text)]));

// A function's name without the arguments of its templates.
const shortFunction = (name) => (name.length <= 48 ? name : `${name.split("<")[0].slice(0, 48)}…`);

function sourceExcerpt(p) {
  if (!p) return h("p", {class: "quiet"}, "No source line is known.");
  const at = report.places[p];
  return h(
      "figure", {class: "source"},
      h("figcaption", {title: at.function}, placeLong(p),
        at.function ? h("span", {class: "quiet"}, ` in ${shortFunction(at.function)}`) : null),
      h("pre", null, at.text || "(the line's text is not recorded)"));
}

const listOf = (items) => h("ul", {class: "plain"}, items.map((item) => h("li", null, item)));
const section = (title, ...parts) => [h("h3", null, title), ...parts];

// A value with its type; a click shows what makes it.
function valueLink(f, v) {
  const maker = f.maker[v];
  const text = [h("code", null, valueName(f, v)), " ", h("span", {class: "quiet"}, valueType(f, v))];
  if (maker >= 0) return h("button", {class: "link", onclick: () => goToNode(f, maker)}, text);
  return [...text, h("span", {class: "quiet"}, isState(f, v) ? " state" : " parameter")];
}
const isState = (f, v) => f.entry && f.params.indexOf(v) >= 0 && f.params.indexOf(v) < f.entry.reads.length;

// The instructions that compute these nodes, by what they run.
function becameList(f, nodes) {
  const steps = [...new Set(nodes.flatMap((i) => f.stepsOf[i]))].sort((a, b) => a - b);
  if (steps.length === 0)
    return h("p", {class: "quiet"}, "Nothing at run time: a constant, a view of other bytes, or dead.");
  const what = new Map(steps.map((i) => [runKey(f.instructions[i]), f.instructions[i]]));
  return [
    h("p", {class: "quiet"},
      steps.length === 1 ? `instruction ${steps[0]}` : `${steps.length} instructions, ${steps[0]} to ${steps.at(-1)}`),
    h("ul", {class: "plain"},
      [...what].map(
          ([key, s]) =>
              h("li", null,
                s[step.kind] === "control" ?
                    stepName(s) :
                    h("button", {class: "link mono", onclick: () => goToKernel(key)}, stepName(s)),
                s[step.kind] === "kernel" ? null : h("span", {class: "quiet"}, ` ${s[step.kind]}`))))
  ];
}

function workList(flops, bytes, formula) {
  return list(
      ["FLOPs", flopsText(flops)], formula && ["", h("span", {class: "mono quiet"}, formula)],
      ["bytes", `${bytesText(bytes)} by itself`], ["FLOP / B", intensityText(flops, bytes)]);
}

function resultText(f, v) {
  const facts = `${valueType(f, v)}, ${bytesText(typeBytes(f.values[v][0]))}, ${plural(f.users[v].length, "user")}`;
  return [h("code", null, valueName(f, v)), " ", h("span", {class: "quiet"}, facts)];
}

function calleeLink(call, g, k) {
  const open = () => {
    chooseFunction(functions[g], view.root);
    showTab("graph");
  };
  return [
    h("button", {class: "link", onclick: open}, functionTitle(functions[g])), " ",
    h("span", {class: "quiet"}, callLabel(call, k))
  ];
}

function showNode(f, i) {
  const n = f.nodes[i], call = f.callOf.get(i), formula = n[node.flops] < 0 && sizeText(n[node.flops]);
  const parts = [];
  if (n[node.results].length) parts.push(section("Results", listOf(n[node.results].map((v) => resultText(f, v)))));
  if (n[node.operands].length) parts.push(section("Operands", listOf(n[node.operands].map((v) => valueLink(f, v)))));
  if (n[node.attrs]) parts.push(section("Attributes", h("pre", {class: "attrs"}, n[node.attrs])));
  if (call) parts.push(section("Runs", listOf(call.functions.map((g, k) => calleeLink(call, g, k)))));
  showDetails(
      n[node.op], `node ${i} of ${functionTitle(f)}`, ...parts,
      section("Work", workList(nodeTotal(f, i), sizeOf(n[node.bytes]), formula)),
      section("Source", sourceExcerpt(n[node.place])), section("Became", becameList(f, [i])));
}

function showGroup(f, group) {
  const flops = flopsOf(f, group.nodes), bytes = bytesOf(f, group.nodes);
  const types = new Set(group.nodes.flatMap((i) => f.nodes[i][node.results].map((v) => valueType(f, v))));
  showDetails(
      placeShort(group.place), plural(group.nodes.length, "node"), h("h3", null, "Source"), sourceExcerpt(group.place),
      h("h3", null, "Ops"), h("p", null, opSummary(f, group.nodes)), h("h3", null, "Result types"),
      h("p", {class: "mono small"},
        [...types].slice(0, 12).join("  ") + (types.size > 12 ? ` and ${types.size - 12} more` : "")),
      h("h3", null, "Work"), workList(flops, bytes), h("h3", null, "Became"), becameList(f, group.nodes));
}

function showEdge(f, values) {
  showDetails(
      plural(values.length, "value"), "edge", listOf(values.map((v) => valueLink(f, v))),
      list(["bytes", bytesText(values.reduce((sum, v) => sum + typeBytes(f.values[v][0]), 0))]));
}

function showBuffer(f, b) {
  const made = f.instructions[b[buffer.first]];
  showDetails(
      b[buffer.name]         ? "%" + b[buffer.name] :
          b[buffer.type] < 0 ? "scratch memory" :
                               `result of ${stepName(made)}`,
      "buffer",
      list(
          ["type", h("span", {class: "mono"}, typeText(b[buffer.type]))], ["bytes", bytesText(bufferBytes(b))],
          ["reserved", `${bytesText(b[buffer.reserved])} at offset ${b[buffer.offset].toLocaleString("en")}`],
          [
            "lives",
            b[buffer.first] === b[buffer.last] ? `during instruction ${b[buffer.first]}` :
                                                 `instructions ${b[buffer.first]} to ${b[buffer.last]}`
          ],
          ["made by", stepName(made)]),
      h("h3", null, "Source"), sourceExcerpt(b[buffer.place]));
}
