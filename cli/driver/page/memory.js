// The arena over the instructions of one function: a rectangle per buffer, above it the bytes that are alive.

const bufferBytes = (b) =>
    (b[buffer.type] < 0 ? b[buffer.reserved] : Math.min(typeBytes(b[buffer.type]), b[buffer.reserved]));

// Bytes alive at each instruction, and where they are the most.
function liveBytes(f) {
  const count = f.instructions.length + (f.buffers.some((b) => b[buffer.last] >= f.instructions.length) ? 1 : 0);
  const live = new Float64Array(Math.max(1, count));
  for (const b of f.buffers)
    for (let i = b[buffer.first]; i <= b[buffer.last]; ++i) live[i] += bufferBytes(b);
  let peak = 0;
  live.forEach((n, i) => {
    if (n > live[peak]) peak = i;
  });
  return {live, peak};
}

// Round steps for an axis of bytes.
function byteTicks(most, count) {
  const raw = Math.max(1, most) / count, power = 10 ** Math.floor(Math.log10(raw));
  const unit = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= raw);
  const ticks = [];
  for (let t = 0; t <= most; t += unit) ticks.push(t);
  return ticks;
}

function bufferTip(f, b) {
  const made = f.instructions[b[buffer.first]];
  return [
    b[buffer.name] ? "%" + b[buffer.name] : `result of ${stepName(made)}`,
    `${typeText(b[buffer.type])}, ${bytesText(bufferBytes(b))}`,
    `instructions ${b[buffer.first]} to ${b[buffer.last]}, offset ${b[buffer.offset].toLocaleString("en")}`,
    placeLong(b[buffer.place])
  ];
}

function memoryChart(f, width) {
  const {live, peak} = liveBytes(f);
  const left = 66, right = 14, top = 26, curveHeight = 84, between = 34, mapHeight = 340,
        inner = Math.max(40, width - left - right);
  const mapTop = top + curveHeight + between, height = mapTop + mapHeight + 34;
  const x = (i) => left + (i / live.length) * inner;
  const most = Math.max(1, live[peak]), arena = Math.max(1, f.temporary_bytes);
  const curveY = (n) => top + curveHeight * (1 - n / most), mapY = (n) => mapTop + mapHeight * (1 - n / arena);
  const axis = (ticks, y) => ticks.map(
      (t) =>
          svg("g", {class: "tick"}, svg("line", {x1: left, x2: width - right, y1: y(t), y2: y(t)}),
              svg("text", {x: left - 8, y: y(t) + 4, "text-anchor": "end"}, t ? bytesText(t) : "0")));
  const area = `M${x(0)} ${curveY(0)}` +
      [...live].map((n, i) => `V${curveY(n).toFixed(1)}H${x(i + 1).toFixed(1)}`).join("") + `V${curveY(0)}Z`;
  const rects = f.buffers.map((b, k) => {
    const bytes = bufferBytes(b), y = mapY(b[buffer.offset] + bytes), place = {
      x: x(b[buffer.first]).toFixed(2),
      width: Math.max(1, x(b[buffer.last] + 1) - x(b[buffer.first]) - 0.5).toFixed(2)
    };
    return [
      b[buffer.reserved] - bytes > arena / 400 && svg("rect", {
        class: "reserved",
        ...place,
        y: mapY(b[buffer.offset] + b[buffer.reserved]).toFixed(2),
        height: (mapHeight * b[buffer.reserved] / arena).toFixed(2)
      }),
      svg("rect", {
        class: "buffer" + (b[buffer.type] < 0 ? " scratch" : ""),
        "data-buffer": k,
        ...place,
        y: y.toFixed(2),
        height: Math.max(0.75, mapHeight * bytes / arena).toFixed(2),
        style: `--hue:${placeHue(b[buffer.place])}`,
        onmousemove: (e) => tip.show(e, bufferTip(f, b)),
        onmouseleave: () => tip.hide(),
        onclick: () => pickBuffer(f, k)
      })
    ];
  });
  const peakX = (x(peak) + x(peak + 1)) / 2, label = `peak ${bytesText(live[peak])} at instruction ${peak}`,
        half = textWidth(label, smallFont) / 2 + 4;
  const labelX = Math.min(width - right - half, Math.max(left + half, peakX));
  const steps = Math.max(1, Math.ceil(live.length / Math.max(2, Math.floor(inner / 90))));
  const marks = [];
  for (let i = 0; i < live.length; i += steps)
    marks.push(svg("text", {class: "axis", x: x(i), y: mapTop + mapHeight + 16}, i));
  return svg(
      "svg", {
        id: "arena",
        width,
        height,
        tabindex: 0,
        role: "img",
        "aria-label": `${plural(f.buffers.length, "buffer")} in the arena; ${
            label}. Left and right arrows go through the buffers.`,
        onkeydown: (e) => stepBuffer(e, f)
      },
      axis(byteTicks(most, 3), curveY), svg("path", {class: "live", d: area}), axis(byteTicks(arena, 6), mapY), rects,
      svg("line", {class: "peak", x1: peakX, x2: peakX, y1: top - 6, y2: mapTop + mapHeight}),
      svg("text", {class: "peak", x: labelX, y: top - 11, "text-anchor": "middle"}, label),
      svg("text", {class: "caption", x: left, y: mapTop - 10}, `arena offset, ${plural(f.buffers.length, "buffer")}`),
      marks, svg("text", {class: "axis", x: width - right, y: height - 4, "text-anchor": "end"}, "instruction"));
}

function pickBuffer(f, k) {
  showBuffer(f, f.buffers[k]);
  for (const r of document.querySelectorAll("#arena .picked")) r.classList.remove("picked");
  const rect = document.querySelector(`#arena [data-buffer="${k}"]`);
  if (rect) rect.classList.add("picked");
  memory.picked = k;
}
function stepBuffer(e, f) {
  const by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
  if (!by || f.buffers.length === 0) return;
  e.preventDefault();
  pickBuffer(f, (memory.picked + by + f.buffers.length) % f.buffers.length);
}

// State leaves side by side as they lie in the arena.
function stateBar(width) {
  const total = Math.max(1, report.state_bytes), height = 22;
  return svg(
      "svg", {id: "state-bar", width, height, role: "img", "aria-label": `state, ${bytesText(report.state_bytes)}`},
      stateLeaves.map((l, i) => svg("rect", {
                        class: "leaf",
                        x: (l.offset / total * width).toFixed(2),
                        width: Math.max(0.5, l.bytes / total * width - 0.5).toFixed(2),
                        y: 0,
                        height,
                        style: `--hue:${(i * 29) % 360}`,
                        onmousemove: (e) => tip.show(e, [l.name, `${l.type}, ${bytesText(l.bytes)}`, l.source]),
                        onmouseleave: () => tip.hide()
                      })));
}

// What an entry's memory is for, in the order in which it is drawn; a report has those that are known.
const memoryClasses = [
  ["parameters", "parameters"], ["optimizer", "optimizer's state"], ["other_state", "other state"], ["state", "state"],
  ["gradients", "gradients"], ["temporaries", "other temporaries"], ["gaps", "gaps"], ["inputs", "inputs"], ["outputs", "outputs"]
];
function classesOf(memory) {
  return memoryClasses.map(([key, name], i) => ({key, name, hue: i * 67 + 210, bytes: (memory || {})[key] || 0}))
      .filter((c) => c.bytes > 0);
}
// State that lives in the host's memory beside a GPU's, and what a run copies of it.
function hostText(e) {
  if (!(e.memory || {}).host) return null;
  const parts = classesOf(e.memory.host).map((c) => `${c.name} ${bytesText(c.bytes)}`);
  const copies = Object.entries(e.transfers || {}).map(
      ([to, t]) => `${bytesText(t.bytes)} ${to === "to_host" ? "to the host" : "to the GPU"} in at least ${timeText(t.us)}`);
  return h("p", {id: "host-memory"}, `In the host's memory: ${parts.join(", ")}. A run copies ${copies.join(", ") || "nothing of it"}.`);
}
function classBar(e, width) {
  const classes = classesOf(e.memory), total = Math.max(1, classes.reduce((sum, c) => sum + c.bytes, 0)), height = 22;
  let before = 0;
  const bar = svg(
      "svg", {id: "class-bar", width, height, role: "img", "aria-label": classes.map((c) => `${c.name} ${bytesText(c.bytes)}`).join(", ")},
      classes.map((c) => {
        const x = before / total * width;
        before += c.bytes;
        return svg("rect", {
          class: "leaf",
          "data-class": c.key,
          x: x.toFixed(2),
          width: Math.max(0.5, c.bytes / total * width - 0.5).toFixed(2),
          y: 0,
          height,
          style: `--hue:${c.hue}`,
          onmousemove: (event) => tip.show(event, [c.name, `${c.bytes.toLocaleString("en")} bytes`]),
          onmouseleave: () => tip.hide()
        });
      }));
  const legend = classes.map(
      (c) => h("span", null, h("span", {class: "swatch", style: `--hue:${c.hue}`}), `${c.name} `, h("strong", null, bytesText(c.bytes))));
  return [
    h("h2", null, `What ${e.name} needs: ${bytesText(total)}`), bar, h("p", {class: "legend"}, legend), hostText(e),
    h("p", {class: "quiet small"},
      "At the peak, at the largest sizes; inputs and outputs are the caller's memory. Gradients are what the new value of a " +
          "parameter follows from, before the state meets it.")
  ];
}

function atPeakTable(f) {
  const {peak} = liveBytes(f);
  const alive = f.buffers.map((b, k) => [b, k])
                    .filter(([b]) => b[buffer.first] <= peak && peak <= b[buffer.last])
                    .sort((a, b) => bufferBytes(b[0]) - bufferBytes(a[0]) || a[1] - b[1]);
  const rows = alive.slice(0, 12).map(
      ([b, k]) =>
          h("tr", null, h("td", {class: "number"}, bytesText(bufferBytes(b))),
            h("td", {class: "mono"}, typeText(b[buffer.type])),
            h("td", null,
              h("button", {class: "link mono", onclick: () => pickBuffer(f, k)},
                stepName(f.instructions[b[buffer.first]]))),
            h("td", {class: "quiet nowrap"}, placeShort(b[buffer.place])),
            h("td", {class: "mono clip"}, report.places[b[buffer.place]].text.trim())));
  return [
    h("h2", null,
      `Alive at the peak: ${alive.length > 12 ? "the 12 largest of " : ""}${plural(alive.length, "buffer")}`),
    h("div", {class: "scroll"},
      h("table", null,
        h("thead", null,
          h("tr", null,
            ["bytes", "type", "made by", "source", ""].map((t, i) => h("th", {class: i ? null : "number"}, t)))),
        h("tbody", null, rows)))
  ];
}

const memory = {
  picked: -1,
  draw() {
    const f = view.current, width = Math.max(300, $("memory").clientWidth);
    const {live, peak} = liveBytes(f);
    const focused = document.activeElement && document.activeElement.id === "arena";
    this.picked = -1;
    $("memory").replaceChildren(
        h("div", {class: "facts"}, fact("temporaries, reserved", bytesText(f.temporary_bytes), "after the state"),
          fact("alive at the peak", bytesText(live[peak]), symbols.length ? "at the chosen sizes" : null),
          fact("buffers", String(f.buffers.length), plural(f.instructions.length, "instruction")),
          fact("state", bytesText(report.state_bytes), "kept between calls"),
          fact("constants", bytesText(report.constants_bytes), "in the bundle")),
        ...(f.entry ? classBar(f.entry, width) : []),
        f.buffers.length ?
            [h("h2", null, `Bytes alive in ${functionTitle(f)}`), memoryChart(f, width)].reduce(
                (box, e) => (box.append(e), box), h("div", {class: "chart"})) :
            h("p", {class: "quiet"}, "This function keeps nothing but its inputs, outputs and the state."),
        ...(f.buffers.length ? atPeakTable(f) : []),
        h("h2", null, `State: ${bytesText(report.state_bytes)} before the temporaries`),
        stateLeaves.length ? stateBar(width) : h("p", {class: "quiet"}, "No state."));
    if (focused && $("arena")) $("arena").focus({preventScroll: true});
  },
};
