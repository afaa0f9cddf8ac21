// The header, the tree of functions, and the overview.

function showSizes() {
  if (symbols.length === 0) return;
  $("sizes").hidden = false;
  for (const s of symbols) {
    const least = Math.ceil(s.min / s.multiple) * s.multiple;
    const most = Math.floor(s.max / s.multiple) * s.multiple;
    const range = `${s.min} to ${s.max}${s.multiple > 1 ? `, a multiple of ${s.multiple}` : ""}`;
    const slider =
        h("input", {type: "range", min: least, max: most, step: s.multiple, "aria-label": `${s.name}, ${range}`});
    const number = h(
        "input", {type: "number", min: least, max: most, step: s.multiple, id: `size-${s.name}`, "data-size": s.name});
    const problem = h("span", {class: "problem", role: "alert"});
    const take = (text) => {
      const value = Number(text);
      const ok = text !== "" && Number.isInteger(value) && value >= s.min && value <= s.max && value % s.multiple === 0;
      problem.textContent = ok ? "" : `${s.name} is ${range}`;
      if (!ok) return;
      slider.value = number.value = chosen[s.name] = value;
      refresh();
    };
    slider.value = number.value = chosen[s.name];
    slider.addEventListener("input", () => take(slider.value));
    number.addEventListener("input", () => take(number.value));
    const shared = s.buckets ? h("span", {class: "quiet"}, `launched up to ${s.buckets.join(", ")}`) : null;
    $("sizes").append(h("label", {title: range}, h("span", null, s.name), slider, number, ...[shared].filter(Boolean)),
                      problem);
  }
}

function callLabel(call, i) {
  if (call.kind === "branch") return call.functions.length === 2 ? ["if false", "if true"][i] : `case ${i}`;
  if (call.kind === "while") return i === 0 ? "while" : "do";
  return `${sizeText(call.trips)} times`;
}

const entryFlops = (e) => (e.at_least ? "≥ " : "") + flopsText(entryNumber(e, "flops"));

// Entries, and under each the functions that its loops and branches run, which fold away.
const folded = new Set();  // places in the tree, as the numbers of the functions down to them
function drawTree() {
  const fold = (f, path) => {
    if (f.calls.length === 0) return h("span", {class: "fold"});
    const open = !folded.has(path);
    const turn = () => {
      if (open) folded.add(path);
      else folded.delete(path);
      drawTree();
      document.querySelector(`.fold[data-path="${path}"]`).focus();
    };
    return h(
        "button", {
          class: "fold",
          "data-path": path,
          "aria-expanded": open ? "true" : "false",
          "aria-label": `What ${functionTitle(f)} runs`,
          onclick: turn
        },
        open ? "▾" : "▸");
  };
  const row = (f, root, path, depth, note) => {
    const current = f === view.current && root === view.root;
    const choice = h(
        "button", {
          class: "function",
          "aria-current": current ? "true" : "false",
          "data-function": f.name,
          title: note ? `${functionTitle(f)}: ${note}` : functionTitle(f),
          onclick: () => chooseFunction(f, root)
        },
        h("span", {class: "name"}, functionTitle(f)),
        h("span", {class: "note"}, note || (f.entry ? entryFlops(f.entry) : "")));
    return h("div", {class: "row", style: `--depth:${depth}`}, fold(f, path), choice);
  };
  const rows = [];
  const walk = (f, root, above, depth, note) => {
    const path = `${above} ${f.index}`;
    rows.push(row(f, root, path, depth, note));
    if (folded.has(path)) return;
    for (const c of f.calls) c.functions.forEach((g, i) => walk(functions[g], root, path, depth + 1, callLabel(c, i)));
  };
  const roots = functions.filter((f) => f.entry);
  const top = roots.length ? roots : functions;
  for (const f of top) walk(f, f, "", 0, "");
  const nested = top.some((f) => f.calls.length);
  $("program").classList.toggle("nested", nested);
  $("program").replaceChildren(h("h2", null, roots.length ? "Entries" : "Functions"), ...rows);
}

const fact = (name, value, note, id) =>
    h("div", {class: "fact"}, h("span", {class: "label"}, name), h("strong", id ? {"data-fact": id} : null, value),
      note ? h("span", {class: "note"}, note) : null);

function signature(tensors) {
  if (tensors.length === 0) return h("span", {class: "quiet"}, "nothing");
  return tensors.map(
      (t, i) => [i ? ", " : "", h("span", {class: "tensor"}, t.name, h("span", {class: "quiet"}, `: ${t.type}`))]);
}

function entryRow(e) {
  const f = functions.find((g) => g.name === e.function);
  const flops = entryNumber(e, "flops"), moved = entryNumber(e, "bytes_moved"),
        live = entryNumber(e, "temporary_bytes");
  const number = (which, text) => h("td", {class: "number", "data-entry": e.name, "data-fact": which}, text);
  return h(
      "tr", f === view.root ? {class: "chosen"} : null,
      h("th", {scope: "row"},
        h("button", {class: "link", onclick: () => f && (chooseFunction(f, f), showTab("graph"))}, e.name)),
      h("td", {class: "signature"}, h("div", null, signature(e.inputs)),
        h("div", null, h("span", {class: "quiet"}, "→ "), signature(e.outputs))),
      h("td", {class: "number"}, `${e.reads.length} / ${e.writes.length}`),
      number("flops", entryFlops(e)), number("bytes_moved", bytesText(moved)),
      h("td", {class: "number"}, intensityText(flops, moved)),
      gpu ? number("least_us", timeText(entryNumber(e, "least_us"))) : null, number("temporary_bytes", bytesText(live)),
      number("peak_bytes", bytesText(e.peak_bytes)));
}

function stateTable() {
  const groups = new Map();
  for (const l of stateLeaves) {
    const cut = l.name.lastIndexOf(".");
    const key = cut < 0 ? l.name : l.name.slice(0, cut);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(l);
  }
  const leafRow = (l) =>
      h("tr", null, h("td", {class: "leaf"}, l.name), h("td", {class: "mono"}, l.type),
        h("td", {class: "number"}, bytesText(l.bytes)),
        h("td", {class: "quiet"}, (l.memory ? `in the ${l.memory}'s memory ` : "") + l.source));
  return [...groups].map(([key, leaves]) => {
    const bytes = leaves.reduce((sum, l) => sum + l.bytes, 0);
    return h(
        "details", null,
        h("summary", null, h("span", {class: "name"}, leaves.length > 1 ? key : leaves[0].name),
          h("span", {class: "quiet"},
            leaves.length > 1 ? plural(leaves.length, "leaf").replace("leafs", "leaves") : leaves[0].type),
          h("span", {class: "number"}, bytesText(bytes))),
        h("div", {class: "scroll"}, h("table", null, h("tbody", null, leaves.map(leafRow)))));
  });
}

function formulaTable() {
  const rows = [];
  const names = [
    ["flops", "FLOPs", flopsText], ["bytes_moved", "bytes moved", bytesText],
    ["temporary_bytes", "temporaries in use", bytesText], ["least_us", "least time", timeText]
  ];
  for (const e of entries.filter((x) => x.formulas))
    for (const [which, label, text] of names.filter(([which]) => e.formulas[which]))
      rows.push(
          h("tr", null, h("th", {scope: "row"}, which === "flops" ? e.name : ""), h("td", {class: "nowrap"}, label),
            h("td", {class: "formula"}, e.formulas[which].text || "the sum over what it runs"),
            h("td", {class: "number"}, text(evaluate(e.formulas[which].postfix)))));
  return rows.length === 0 ? null : [
    h("h2", null, "Formulas"),
    h("p", {class: "quiet"},
      "What the numbers above follow from; the last column is at the chosen sizes. Memory is planned once, for the largest sizes."),
    h("div", {class: "scroll"}, h("table", {class: "formulas"}, h("tbody", null, rows)))
  ];
}

// What the compiler's passes had to say of the program.
function notesList() {
  const notes = report.notes || [];
  return notes.length ? [h("h2", null, "Notes of the compiler"), h("ul", {id: "notes"}, notes.map((note) => h("li", null, note)))] : [];
}

// Whose numbers these are.
function ranksNote() {
  const mesh = report.mesh;
  if (!mesh || mesh.ranks < 2) return [];
  const axes = mesh.axes.map(([name, size]) => `${name}=${size}`).join(", ");
  return [h(
      "p", {id: "whose"},
      `All numbers are those of one rank. Each of the ${mesh.ranks} ranks of mesh ${mesh.name} (${axes}) runs this program on its own parts.`)];
}

function drawOverview() {
  const e = view.root && view.root.entry;
  const sizesNote = symbols.length ? "at " + symbols.map((s) => `${s.name}=${chosen[s.name]}`).join(", ") : null;
  const facts = [fact(
      "parameters and other state", `${report.state_elements.toLocaleString("en")}`, bytesText(report.state_bytes))];
  if (e) {
    const flops = entryNumber(e, "flops"), moved = entryNumber(e, "bytes_moved");
    facts.push(
        fact(`work of ${e.name}`, entryFlops(e), sizesNote, "flops"),
        fact(
            "bytes moved", bytesText(moved), plural(e.instructions, "instruction"),
            "bytes_moved"),
        gpu ? fact("least time", timeText(entryNumber(e, "least_us")), `on ${gpuName}`, "least_us") : null,
        fact(
            "FLOP for a byte", intensityText(flops, moved),
            `${flops < report.machine.ridge * moved ? "bytes decide: under" : "products decide: over"} the ridge of ${
                fixed(report.machine.ridge, 1)}`),
        fact(
            "predicted time", timeText(e.timeline ? e.timeline.us : e.predicted ? e.predicted.us : e.compute_us),
            e.timeline ? `${timeText(e.timeline.exchange_us)} of exchanges` : gpu ? "of its kernels and launches" : "of one thread",
            "predicted_us"),
        fact("peak memory", bytesText(e.peak_bytes), `${bytesText(e.temporary_bytes)} of it temporary`, "peak_bytes"));
  }
  facts.push(
      fact("arena of all entries", bytesText(report.arena_bytes), `constants ${bytesText(report.constants_bytes)}`));
  const head =
      ["entry", "inputs → outputs", "reads / writes", "FLOPs", "bytes moved", "FLOP / B", gpu ? "least time" : null,
       "temporaries", "peak"].filter(Boolean);
  $("overview")
      .replaceChildren(
          h("div", {class: "facts"}, facts), ...ranksNote(), ...notesList(), h("h2", null, "Entries"),
          h("div", {class: "scroll"},
            h("table", {id: "entries"},
              h("thead", null,
                h("tr", null, head.map((t, i) => h("th", {scope: "col", class: i > 1 ? "number" : null}, t)))),
              h("tbody", null, entries.map(entryRow)))),
          h("p", {class: "quiet"},
            "Reads and writes count state leaves. Temporaries: what is alive at the peak, at these sizes. " +
                (gpu ? `Least time: what the bytes and the products of all its kernels and library calls need on ${
                           gpuName}, one after the other. ` :
                       "") +
                "Peak: state and the room that is planned for temporaries. A loop counts its trips, a branch its costlier side" +
                (entries.some((x) => x.at_least) ? ", a while one round (≥)." : ".")),
          ...(formulaTable() || []),
          h("h2", null,
            `State: ${plural(stateLeaves.length, "leaf").replace("leafs", "leaves")}, ${
                bytesText(report.state_bytes)}${report.host_bytes ? ` and ${bytesText(report.host_bytes)} of the host` : ""}`),
          h("div", {class: "state"}, stateTable()));
}
