// Nodes of one source line that can stand for one box: the graph of boxes has no cycle.

// Groups in an order in which they can run: {place, nodes, key}.
function groupByLine(f) {
  const groups = [], groupOf = new Int32Array(f.nodes.length), open = new Map();  // source line -> its latest groups
  const inputs = [];  // of each group, the groups that it reads
  // Is `from` among what the groups of `start` need? Groups only read older nodes, but an old group may have grown.
  const reaches = (from, start) => {
    const seen = new Set(), work = [...start];
    while (work.length) {
      const g = work.pop();
      if (g === from) return true;
      if (seen.has(g)) continue;
      seen.add(g);
      for (const next of inputs[g]) work.push(next);
    }
    return false;
  };
  f.nodes.forEach((n, i) => {
    const reads = new Set();
    for (const v of n[node.operands])
      if (f.maker[v] >= 0) reads.add(groupOf[f.maker[v]]);
    const line = placeLong(n[node.place]);
    const candidates = open.get(line) || [];
    let mine = -1;
    for (let k = candidates.length - 1; k >= 0 && mine < 0 && candidates.length - k <= 3; --k) {
      const g = candidates[k], others = [...reads].filter((r) => r !== g);
      if (!reaches(g, others)) mine = g;
    }
    if (mine < 0) {
      mine = groups.length;
      groups.push({place: n[node.place], nodes: [], key: mine});
      inputs.push(new Set());
      open.set(line, [...candidates, mine]);
    }
    groups[mine].nodes.push(i);
    groupOf[i] = mine;
    for (const r of reads)
      if (r !== mine) inputs[mine].add(r);
  });
  return {groups, groupOf};
}

// Edges between boxes, each once, with the values that run along it. boxOf: box of a node, or -1 where it is not drawn.
function edgesBetween(f, boxOf, inputBox, outputBox) {
  const edges = new Map();
  const add = (a, b, v) => {
    if (a < 0 || b < 0 || a === b) return;
    const key = `${a} ${b}`;
    if (!edges.has(key)) edges.set(key, {from: a, to: b, values: []});
    const values = edges.get(key).values;
    if (!values.includes(v)) values.push(v);
  };
  const makerBox = (v) => (f.maker[v] >= 0 ? boxOf[f.maker[v]] : inputBox.has(v) ? inputBox.get(v) : -1);
  f.nodes.forEach((n, i) => n[node.operands].forEach((v) => add(makerBox(v), boxOf[i], v)));
  for (const [v, boxes] of outputBox)
    for (const box of boxes) add(makerBox(v), box, v);
  return [...edges.values()];
}

const flopsOf = (f, nodes) => nodes.reduce((sum, i) => sum + nodeTotal(f, i), 0);
const bytesOf = (f, nodes) => nodes.reduce((sum, i) => sum + sizeOf(f.nodes[i][node.bytes]), 0);
// "mul ×4, add, exp" with the most frequent first.
function opCounts(f, nodes) {
  const counts = new Map();
  for (const i of nodes) counts.set(f.nodes[i][node.op], (counts.get(f.nodes[i][node.op]) || 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1]);
}
const opSummary = (f, nodes) => opCounts(f, nodes).map(([op, n]) => (n > 1 ? `${op} ×${n}` : op)).join(", ");
