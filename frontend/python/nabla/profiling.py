"""What a compiled function needs and where its time goes: Compiled.memory, Compiled.inspect, Compiled.profile."""

import collections
import json
import os
import tempfile

Row = collections.namedtuple("Row", "name kind source calls seconds flops bytes")
Row.__doc__ = """One kernel or product, at one line of the program.

calls: in one run. seconds: of all of them, the median of the runs. flops, bytes: of one call, None where sizes are
dynamic; bytes are those of the arrays that it reads and writes, each once.
"""


def _text(n, unit):
    if not isinstance(n, int):
        return f"{n} {unit}"
    for prefix in ("", "K", "M", "G"):
        if abs(n) < 1000 or prefix == "G":
            return f"{n:.4g} {prefix}{unit}"
        n /= 1000


def _bound(size):
    """A size, or the formula of a dynamic one."""
    return size if isinstance(size, int) else size["text"]


class Memory:
    """Bytes that a compiled function needs beside its arguments and results: `arena` for what lies between, of which
    `peak` are in use at once at most, `constants` in the program; `buffers` are the largest at the peak, as (bytes,
    type, made by, source line)."""

    def __init__(self, report):
        entry = report["entries"][0]
        self.arena = report["arena_bytes"]
        self.peak = _bound(entry["peak_bytes"])
        self.constants = report["constants_bytes"]
        self.buffers = [(b["bytes"], b["type"], b["made_by"], b["source"]) for b in entry["top_buffers"]]

    def __repr__(self):
        parts = {"arena": self.arena, "peak": self.peak, "constants": self.constants}
        lines = ["   ".join(f"{name} {_text(n, 'B')}" for name, n in parts.items())]
        lines += [f"{_text(n, 'B'):>12}  {kind:<24} {maker:<32} {source}" for n, kind, maker, source in self.buffers]
        return "\n".join(lines)


class Profile:
    """Times of a compiled function, as a table when it is printed; `rows`, the slowest first, and `seconds` of one run
    (the median), which includes what lies between the rows."""

    def __init__(self, rows, seconds, runs):
        self.rows, self.seconds, self.runs = rows, seconds, runs

    def __repr__(self):
        out = [f"{self.seconds * 1e6:.1f} us a run, the median of {self.runs}",
               f"{'share':>6} {'time/us':>10} {'calls':>6} {'GFLOP/s':>8} {'GB/s':>7}  {'what':<36} source"]
        for r in self.rows:
            rate = [f"{n * r.calls / r.seconds / 1e9:.3g}" if n and r.seconds > 0 else "-" for n in (r.flops, r.bytes)]
            out.append(f"{100 * r.seconds / self.seconds:5.1f}% {r.seconds * 1e6:10.2f} {r.calls:6.4g} {rate[0]:>8} "
                       f"{rate[1]:>7}  {r.name:<36} {r.source}")
        return "\n".join(out)


def memory_of(bundle):
    return Memory(json.loads(bundle.report))


def profile_of(bundle, name, threads, tensors, runs):
    """Runs the program once to warm it up and `runs` times with a clock before and after each of its instructions."""
    if runs < 1:
        raise ValueError(f"profile: runs is at least 1, got {runs}")
    with tempfile.TemporaryDirectory(prefix="nabla-profile-") as folder:
        path = os.path.join(folder, "trace.json")
        traced = bundle.traced(name, threads, path)
        entry = traced.entry("main")
        for _ in range(runs + 1):
            traced.run(entry, tensors)
        traced.finish()
        with open(path, encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
    return _profile(events, _costs(json.loads(bundle.report)), runs)


def _profile(events, costs, runs):
    spans = [e for e in events if e["ph"] == "X"]
    begins = sorted(e["ts"] for e in spans if e["cat"] == "entry")[1:]  # the first run warms up
    whole = sorted(e["dur"] for e in spans if e["cat"] == "entry" and e["ts"] >= begins[0])
    times = collections.defaultdict(lambda: [0.0] * runs)
    calls = collections.Counter()
    for e in spans:
        if e["cat"] in ("entry", "control") or e["ts"] < begins[0]:
            continue
        run = sum(b <= e["ts"] for b in begins) - 1
        key = (e["name"], e["cat"], e["args"].get("source", ""))
        times[key][run] += e["dur"]
        calls[key] += 1
    rows = []
    for key, each in times.items():
        flops, moved = costs.get(key, (None, None))
        rows.append(Row(*key, calls[key] / runs, sorted(each)[runs // 2] / 1e6, flops, moved))
    rows.sort(key=lambda r: -r.seconds)
    return Profile(rows, whole[len(whole) // 2] / 1e6, runs)


def _costs(report):
    """(FLOPs, bytes) of one call of an instruction, by its name, kind and source line."""
    places = [f"{p['file']}:{p['line']}" if p["file"] else "" for p in report["places"]]
    out = {}
    for f in report["functions"]:
        for name, kind, place, nodes, moved, _ in f["instructions"]:
            flops = [f["nodes"][n][5] for n in nodes]
            known = all(n >= 0 for n in flops + [moved])  # others are numbers of formulas
            out[name, kind, places[place]] = (sum(flops), moved) if known else (None, None)
    return out
