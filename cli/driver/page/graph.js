// The graph of one function: boxes of nodes by source line, which open on a click.

const boxFont = fontOf(12), boldFont = fontOf(12, 600), smallFont = fontOf(11);

const graph = {
  open: new Map(),     // function -> keys of the groups that are open
  grouped: new Map(),  // function -> groupByLine
  at: {x: 0, y: 0, k: 1},
  shown: null,       // the function that was drawn last
  selected: null,    // {node} or {group}
  boxes: new Map(),  // key of a drawn thing -> {x, y, w, h} in the drawing
  inner: new Set(),  // keys of those inside a frame
  hues: new Map(),   // colour by key
  size: {width: 0, height: 0},

  groupsOf(f) {
    if (!this.grouped.has(f)) this.grouped.set(f, groupByLine(f));
    return this.grouped.get(f);
  },
  openOf(f) {
    if (!this.open.has(f)) this.open.set(f, new Set());
    return this.open.get(f);
  },

  // ---- What is drawn, with sizes: groups, then inputs, then outputs
  items(f) {
    const {groups} = this.groupsOf(f), open = this.openOf(f);
    const items = groups.map((g) => {
      if (g.nodes.length === 1)
        return {kind: "node", i: g.nodes[0], key: `n${g.nodes[0]}`, w: 176, h: 56, lonely: true};
      if (!open.has(g.key)) return {kind: "group", g, key: `g${g.key}`, w: 232, h: 58};
      return this.frame(f, g);
    });
    const skipped = f.entry ? f.entry.reads.length : 0, wrote = f.entry ? f.entry.writes.length : 0;
    const inputBox = new Map(), outputBox = new Map();
    const ends = (values, names, box, kind) => {
      const label = (k, v) => names[k] || valueName(f, v);
      const pill = (text, of) => items.push({
        kind,
        text,
        of,
        key: `${kind}${of[0]}-${of.length}-${items.length}`,
        w: Math.min(200, textWidth(text, boldFont) + 28),
        h: 28
      }) - 1;
      const put = (v, at) => (kind === "input" ? box.set(v, at) : box.set(v, [...(box.get(v) || []), at]));
      if (values.length > 8) {
        const at = pill(plural(values.length, kind), values);
        values.forEach((v) => put(v, at));
      } else {
        values.forEach((v, k) => put(v, pill(label(k, v), [v])));
      }
    };
    ends(
        f.params.slice(skipped).filter((v) => f.users[v].length || f.results.includes(v)),
        f.entry ? f.entry.inputs.map((t) => t.name) : [], inputBox, "input");
    ends(f.results.slice(wrote), f.entry ? f.entry.outputs.map((t) => t.name) : [], outputBox, "output");
    return {items, inputBox, outputBox};
  },
  // An open group: its nodes laid out inside a frame.
  frame(f, g) {
    const inside = g.nodes.map((i) => ({kind: "node", i, key: `n${i}`, w: 168, h: 42}));
    const boxOf = new Int32Array(f.nodes.length).fill(-1);
    g.nodes.forEach((i, k) => (boxOf[i] = k));
    const edges = edgesBetween(f, boxOf, new Map(), new Map());
    const layout = layered(inside, edges.map((e) => [e.from, e.to]));
    return {
      kind: "frame",
      g,
      key: `g${g.key}`,
      inside,
      edges,
      layout,
      w: Math.max(layout.width, 210) + 28,
      h: layout.height + 58
    };
  },

  draw() {
    const f = view.current, fresh = this.shown !== f;
    this.shown = f;
    this.boxes.clear();
    this.inner.clear();
    this.hues.clear();
    const {items, inputBox, outputBox} = this.items(f);
    const edges = edgesBetween(f, this.groupsOf(f).groupOf, inputBox, outputBox);
    const layout = layered(items, edges.map((e) => [e.from, e.to]));
    this.size = {width: layout.width, height: layout.height};
    this.heaviest = Math.max(1, ...this.groupsOf(f).groups.map((g) => flopsOf(f, g.nodes)));
    const lines = [], boxes = [];
    this.drawEdges(f, items, edges, layout, lines, 0, 0);
    items.forEach((it, k) => boxes.push(this.drawItem(f, it, layout.at[k].x - it.w / 2, layout.at[k].y, lines, 0)));
    const focused =
        document.activeElement && document.activeElement.dataset ? document.activeElement.dataset.key : null;
    $("canvas").replaceChildren(
        svg("g", {id: "edges"}, lines), svg("g", {id: "boxes"}, boxes), svg("g", {id: "traced"}));
    const groups = this.groupsOf(f).groups;
    $("graph-count").textContent =
        `${plural(f.nodes.length, "node")} in ${plural(groups.length, "box").replace("boxs", "boxes")}`;
    if (fresh) this.fit();
    minimap.draw();
    this.mark();
    if (focused) this.focus(focused);
  },
  focus(key) {
    const element = [...$("boxes").querySelectorAll("[data-key]")].find((e) => e.dataset.key === key);
    if (element) element.focus({preventScroll: true});
  },

  drawEdges(f, items, edges, layout, out, dx, dy) {
    const stubs = new Map();
    edges.forEach((e, k) => {
      const types = e.values.slice(0, 6).map((v) => `${valueName(f, v)}: ${valueType(f, v)}`);
      if (e.values.length > 6) types.push(`and ${e.values.length - 6} more`);
      const hover = {
        onmousemove: (ev) => tip.show(ev, [plural(e.values.length, "value"), ...types]),
        onmouseleave: () => tip.hide(),
        onclick: () => showEdge(f, e.values)
      };
      if (layout.routes[k]) {
        const path = curve(layout.routes[k].map((p) => ({x: p.x + dx, y: p.y + dy})));
        out.push(svg("g", {class: "edge", ...hover}, svg("path", {d: path, class: "wide"}), svg("path", {d: path})));
        return;
      }
      for (const [box, end] of [[e.from, "down"], [e.to, "up"]]) {
        const key = `${box} ${end}`;
        if (!stubs.has(key)) stubs.set(key, {box, end, values: []});
        stubs.get(key).values.push(...e.values.filter((v) => !stubs.get(key).values.includes(v)));
      }
    });
    for (const {box, end, values} of stubs.values()) {
      const x = layout.at[box].x + dx + items[box].w / 2 - 14,
            y = layout.at[box].y + dy + (end === "down" ? items[box].h : 0), to = y + (end === "down" ? 10 : -10);
      const lines = values.slice(0, 6).map((v) => `${valueName(f, v)}: ${valueType(f, v)}`);
      if (values.length > 6) lines.push(`and ${values.length - 6} more`);
      out.push(
          svg("g", {
            class: "edge stub",
            onmousemove: (ev) => tip.show(ev, [end === "down" ? "used far below" : "made far above", ...lines]),
            onmouseleave: () => tip.hide(),
            onclick: () => showEdge(f, values)
          },
              svg("path", {d: `M${x} ${y}V${to}`, class: "wide"}), svg("path", {d: `M${x} ${y}V${to}`}),
              svg("circle", {cx: x, cy: to, r: 2.5})));
    }
  },

  drawItem(f, it, x, y, lines, depth) {
    this.boxes.set(it.key, {x, y, w: it.w, h: it.h});
    if (depth > 0) this.inner.add(it.key);
    if (it.g || it.kind === "node") this.hues.set(it.key, placeHue(it.g ? it.g.place : f.nodes[it.i][node.place]));
    if (it.kind === "node") return this.drawNode(f, it, x, y);
    if (it.kind === "group") return this.drawGroup(f, it, x, y);
    if (it.kind === "frame") return this.drawFrame(f, it, x, y);
    const types = it.of.map((v) => `${valueName(f, v)}: ${valueType(f, v)}`);
    return svg(
        "g", {
          class: `pill ${it.kind}`,
          onmousemove: (e) =>
              tip.show(e, [it.kind, ...types.slice(0, 8), types.length > 8 && `and ${types.length - 8} more`]),
          onmouseleave: () => tip.hide()
        },
        svg("rect", {x, y, width: it.w, height: it.h, rx: 14}),
        svg("text", {x: x + it.w / 2, y: y + 18.5, "text-anchor": "middle"}, fitted(it.text, it.w - 20, boldFont)));
  },
  button(key, label, classes, action, ...children) {
    return svg(
        "g", {
          class: classes,
          tabindex: 0,
          role: "button",
          "aria-label": label,
          "data-key": key,
          onclick: () => {
            if (!this.moved) action();
          },
          onkeydown: (e) => {
            if (e.key === "Enter" || e.key === " ") {
              e.preventDefault();
              action();
            }
          },
          onfocus: (e) => {
            if (e.target.matches(":focus-visible")) this.reveal(key);
          }
        },
        children);
  },
  heat(flops, x, y, w) {
    const share = flops / this.heaviest;
    return share > 0.004 ? svg("rect", {class: "heat", x, y, height: 3, width: Math.max(2, share * w), rx: 1.5}) : null;
  },
  drawNode(f, it, x, y) {
    const n = f.nodes[it.i], result = n[node.results][0];
    const type = result === undefined ?
        "" :
        valueType(f, result) + (n[node.results].length > 1 ? ` +${n[node.results].length - 1}` : "");
    return this.button(
        it.key, `${n[node.op]} ${type}, ${placeShort(n[node.place])}`, "node" + (f.callOf.has(it.i) ? " control" : ""),
        () => this.choose({node: it.i}), svg("rect", {class: "body", x, y, width: it.w, height: it.h, rx: 5}),
        svg("rect", {class: "spine", x, y, width: 4, height: it.h, rx: 2, style: `--hue:${placeHue(n[node.place])}`}),
        svg("text", {class: "strong", x: x + 13, y: y + 18}, fitted(n[node.op], it.w - 22, boldFont)),
        svg("text", {x: x + 13, y: y + 34}, fitted(type, it.w - 22, smallFont)),
        it.lonely &&
            svg("text", {class: "faint", x: x + 13, y: y + 49},
                fitted(placeShort(n[node.place]), it.w - 22, smallFont)),
        this.heat(nodeTotal(f, it.i), x + 8, y + it.h - 4, it.w - 16));
  },
  drawGroup(f, it, x, y) {
    const g = it.g, text = report.places[g.place].text.trim(), count = String(g.nodes.length);
    const badge = textWidth(count, smallFont) + 14;
    return this.button(
        it.key, `${placeShort(g.place)}, ${plural(g.nodes.length, "node")}; opens`, "group", () => this.toggle(g),
        svg("rect", {class: "under", x: x + 4, y: y + 4, width: it.w - 4, height: it.h, rx: 6}),
        svg("rect", {class: "body", x, y, width: it.w - 4, height: it.h, rx: 6}),
        svg("rect", {class: "spine", x, y, width: 4, height: it.h, rx: 2, style: `--hue:${placeHue(g.place)}`}),
        svg("text", {class: "strong", x: x + 14, y: y + 18}, fitted(placeShort(g.place), it.w - badge - 36, boldFont)),
        svg("rect", {class: "badge", x: x + it.w - badge - 12, y: y + 6, width: badge, height: 16, rx: 8}),
        svg("text", {class: "count", x: x + it.w - badge / 2 - 12, y: y + 18, "text-anchor": "middle"}, count),
        svg("text", {class: "code", x: x + 14, y: y + 34},
            fitted(text || "no source text", (it.w - 30) * 0.92, "11px ui-monospace, monospace")),
        svg("text", {class: "faint", x: x + 14, y: y + 49}, fitted(opSummary(f, g.nodes), it.w - 30, smallFont)),
        this.heat(flopsOf(f, g.nodes), x + 8, y + it.h - 4, it.w - 20));
  },
  drawFrame(f, it, x, y) {
    const g = it.g, dx = x + (it.w - it.layout.width) / 2, dy = y + 42, lines = [];
    this.drawEdges(f, it.inside, it.edges, it.layout, lines, dx, dy);
    const title = `${placeShort(g.place)}   ${report.places[g.place].text.trim()}`;
    const inside = it.inside.map(
        (n, k) => this.drawItem(f, n, dx + it.layout.at[k].x - n.w / 2, dy + it.layout.at[k].y, lines, 1));
    return svg(
        "g", {class: "frame", "data-group": g.key},
        svg("rect", {class: "body", x, y, width: it.w, height: it.h, rx: 8}),
        this.button(
            it.key, `${placeShort(g.place)}, open; closes`, "caption", () => this.toggle(g),
            svg("rect", {class: "hit", x, y, width: it.w, height: 28, rx: 8}), svg("rect", {
              class: "spine",
              x: x + 12,
              y: y + 9,
              width: 10,
              height: 10,
              rx: 2,
              style: `--hue:${placeHue(g.place)}`
            }),
            svg("text", {class: "strong", x: x + 29, y: y + 18}, fitted(title, it.w - 64, boldFont)),
            svg("text", {class: "faint", x: x + it.w - 18, y: y + 18.5, "text-anchor": "middle"}, "–")),
        lines, inside);
  },

  // ---- Choosing
  toggle(g) {
    const f = view.current, open = this.openOf(f), key = `g${g.key}`, before = this.boxes.get(key);
    if (open.has(g.key))
      open.delete(g.key);
    else
      open.add(g.key);
    this.selected = {group: g};
    this.draw();
    const after = this.boxes.get(key);
    if (before && after) {  // it stays where it was
      this.at.x += (before.x + before.w / 2 - after.x - after.w / 2) * this.at.k;
      this.at.y += (before.y - after.y) * this.at.k;
      this.move();
    }
    showGroup(f, g);
  },
  choose(what) {
    this.select(what);
    showNode(view.current, what.node);
  },
  select(what) {
    this.selected = what;
    if (this.shown) this.mark();
  },
  keyOf(f, i) {
    const g = this.groupsOf(f).groups[this.groupsOf(f).groupOf[i]];
    return g.nodes.length === 1 || this.openOf(f).has(g.key) ? `n${i}` : `g${g.key}`;
  },
  // Shows which box is chosen, and every edge at it in full.
  mark() {
    const f = this.shown, s = this.selected;
    for (const e of $("boxes").querySelectorAll(".chosen")) e.classList.remove("chosen");
    $("traced").replaceChildren();
    if (!s) return;
    const nodes = s.group ? s.group.nodes : [s.node];
    const key = s.group && s.group.nodes.length > 1 ? `g${s.group.key}` : `n${nodes[0]}`;
    const element = [...$("boxes").querySelectorAll("[data-key]")].find((e) => e.dataset.key === key),
          me = this.boxes.get(key);
    if (!element || !me) return;
    element.classList.add("chosen");
    const own = new Set(nodes), up = new Set(), down = new Set();
    for (const i of nodes) {
      for (const v of f.nodes[i][node.operands])
        if (f.maker[v] >= 0 && !own.has(f.maker[v])) up.add(this.keyOf(f, f.maker[v]));
      for (const v of f.nodes[i][node.results])
        for (const u of f.users[v])
          if (!own.has(u)) down.add(this.keyOf(f, u));
    }
    const line = (a, b) => svg("path", {d: curve([{x: a.x + a.w / 2, y: a.y + a.h}, {x: b.x + b.w / 2, y: b.y}])});
    const near = (keys, draw) => [...keys].map((k) => this.boxes.get(k)).filter(Boolean).map(draw);
    $("traced").append(...near(up, (b) => line(b, me)), ...near(down, (b) => line(me, b)));
  },

  // ---- Moving
  move() {
    $("canvas").setAttribute(
        "transform", `translate(${this.at.x.toFixed(1)} ${this.at.y.toFixed(1)}) scale(${this.at.k.toFixed(4)})`);
    minimap.move();
  },
  zoom(factor, cx, cy) {
    const stage = $("stage").getBoundingClientRect(), x = cx ?? stage.width / 2, y = cy ?? stage.height / 2;
    const k = Math.min(2.5, Math.max(0.04, this.at.k * factor)), ratio = k / this.at.k;
    this.at = {x: x - (x - this.at.x) * ratio, y: y - (y - this.at.y) * ratio, k};
    this.move();
    minimap.draw();
  },
  // The middle stays in the middle.
  resized(before) {
    this.at.x += ($("stage").clientWidth - before) / 2;
    this.move();
    minimap.draw();
  },
  wholeScale(stage) {
    const {width, height} = this.size;
    return Math.min(1, (stage.width - 24) / Math.max(1, width), (stage.height - 24) / Math.max(1, height));
  },
  // All of it where that can be read; else its first box, in the middle of the top.
  fit() {
    const stage = $("stage").getBoundingClientRect();
    if (this.wholeScale(stage) >= 0.6) return this.whole();
    const k = Math.min(1, Math.max(0.85, (stage.width - 32) / Math.max(1, this.size.width)));
    const first = [...this.boxes.values()].reduce((a, b) => (!a || b.y < a.y ? b : a), null);
    this.at = {x: stage.width / 2 - (first ? first.x + first.w / 2 : 0) * k, y: 20, k};
    this.move();
  },
  whole() {
    const stage = $("stage").getBoundingClientRect(), k = this.wholeScale(stage);
    this.at = {x: (stage.width - this.size.width * k) / 2, y: 12, k};
    this.move();
    minimap.draw();
  },
  // Moves the drawing only when the box is not in sight.
  reveal(key, always) {
    const box = this.boxes.get(key), stage = $("stage").getBoundingClientRect();
    if (!box || stage.width === 0) return;
    const x = this.at.x + box.x * this.at.k, y = this.at.y + box.y * this.at.k;
    if (!always && x >= 0 && y >= 0 && x + box.w * this.at.k <= stage.width && y + box.h * this.at.k <= stage.height)
      return;
    if (always && this.at.k < 0.7) this.at.k = 0.9;
    this.at.x = stage.width / 2 - (box.x + box.w / 2) * this.at.k;
    this.at.y = stage.height / 3 - box.y * this.at.k;
    this.move();
  },

  setUp() {
    const tool = (label, title, action) =>
        h("button", {class: "tool", title, "aria-label": title, onclick: action}, label);
    $("graph").append(
        h("div", {class: "tools"}, h("span", {id: "graph-count", class: "quiet"}),
          tool("Open all", "Open every box", () => this.all(true)),
          tool("Close all", "Close every box", () => this.all(false)),
          tool("Fit", "Show the whole graph", () => this.whole()), tool("+", "Zoom in", () => this.zoom(1.25)),
          tool("−", "Zoom out", () => this.zoom(0.8))),
        h("div", {class: "stage"},
          svg("svg", {id: "stage", role: "group", "aria-label": "Graph of the function"}, svg("g", {id: "canvas"})),
          minimap.element()));
    const stage = $("stage"), fingers = new Map();
    stage.addEventListener("wheel", (e) => {
      e.preventDefault();
      const box = stage.getBoundingClientRect();
      if (e.ctrlKey || e.metaKey)
        return this.zoom(Math.exp(-e.deltaY / 300), e.clientX - box.left, e.clientY - box.top);
      this.at.x -= e.shiftKey ? e.deltaY : e.deltaX;
      this.at.y -= e.shiftKey ? 0 : e.deltaY;
      this.move();
    }, {passive: false});
    stage.addEventListener("pointerdown", (e) => {
      fingers.set(e.pointerId, e);
      this.moved = false;
    });
    addEventListener("pointermove", (e) => {
      const last = fingers.get(e.pointerId);
      if (!last) return;
      const others = [...fingers.values()].filter((o) => o.pointerId !== e.pointerId),
            box = stage.getBoundingClientRect();
      if (others.length === 1) {
        const span = (p) => Math.hypot(p.clientX - others[0].clientX, p.clientY - others[0].clientY);
        this.zoom(
            span(e) / Math.max(1, span(last)), (e.clientX + others[0].clientX) / 2 - box.left,
            (e.clientY + others[0].clientY) / 2 - box.top);
      } else {
        this.at.x += e.clientX - last.clientX;
        this.at.y += e.clientY - last.clientY;
        this.move();
      }
      if (Math.hypot(e.clientX - last.clientX, e.clientY - last.clientY) > 2) this.moved = true;
      fingers.set(e.pointerId, e);
    });
    for (const end of ["pointerup", "pointercancel"]) addEventListener(end, (e) => fingers.delete(e.pointerId));
  },
  all(open) {
    const f = view.current;
    this.open.set(f, new Set(open ? this.groupsOf(f).groups.filter((g) => g.nodes.length > 1).map((g) => g.key) : []));
    this.draw();
    this.fit();
  },
};

// Shows a node wherever it is: its function, its box open.
function goToNode(f, i) {
  if (f !== view.current) chooseFunction(f, rootOf(f));
  showTab("graph");
  const {groups, groupOf} = graph.groupsOf(f);
  if (groups[groupOf[i]].nodes.length > 1) graph.openOf(f).add(groupOf[i]);
  graph.selected = {node: i};
  graph.draw();
  showNode(f, i);
  graph.reveal(`n${i}`, true);
}
// An entry from which the function runs.
function rootOf(f) {
  if (runsFrom(view.root).has(f)) return view.root;
  return functions.find((g) => g.entry && runsFrom(g).has(f)) || f;
}
