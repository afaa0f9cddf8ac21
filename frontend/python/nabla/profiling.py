"""What a compiled function needs and where its time goes: Compiled.memory, Compiled.inspect, Compiled.profile."""

import collections
import json

Row = collections.namedtuple("Row", "name kind problem source calls seconds flops bytes of_peak")
Row.__doc__ = """One kernel, product or convolution, at one line of the program; figures are of one run.

name: of the kernel or the op. kind: "kernel", "library" or "copy". problem: of a library, with its sizes, else empty.
calls: in one run. seconds: of all of them, the median of the runs. flops, bytes: of all of them, bytes those of the
arrays that each call reads and writes; None where there are none or they are unknown. of_peak: the least time that this
machine needs, by its measured FLOP/s and bandwidth, over `seconds`; None where it is unknown.
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

    def __init__(self, rows, seconds, runs, text):
        self.rows, self.seconds, self.runs = rows, seconds, runs
        self._text = text

    def __repr__(self):
        return self._text


def memory_of(bundle):
    return Memory(json.loads(bundle.report))


def profile_of(profiled, tensors, runs):
    """Runs the program once to warm it up and `runs` times with a clock before and after each of its instructions.
    profiled: the bundle, opened to do so."""
    if runs < 1:
        raise ValueError(f"profile: runs is at least 1, got {runs}")
    entry = profiled.entry("main")
    for _ in range(runs + 1):
        profiled.run(entry, tensors)
    found, text = profiled.profile()
    (main,) = json.loads(found)
    rows = []
    for row in main["rows"]:
        row.update(flops=row["flops"] or None, bytes=row["bytes"] or None)
        row.update(of_peak=row["of_peak"] if row["of_peak"] >= 0 else None)
        rows.append(Row(**row))
    return Profile(rows, main["seconds"], main["runs"], text.rstrip("\n"))
