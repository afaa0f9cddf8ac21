"""Predicted and measured times of a GPU step's kernels, beside each other.

    nablac inspect gpt2.nbundle --target sm_90a --json | python3 bench/python/compare_predictions.py \
        bench/results/NVIDIA_H200-2026-11-26-2.jsonl gpt2_library

The report is of the GPU that its target names (`sm_90a:H200`), or of the table's (an H100 for sm_90a). The measurement
is of whatever GPU it names. If the report is of an H100 and the measurement of an H200, bytes are predicted at the
H200's rate, and everything else as of the H100, which has the same multiprocessors.
"""

import argparse
import json
import sys

H100_GBS, H200_GBS = 3350, 4800  # by their data sheets
LAUNCH_US = 1.25  # kLaunchUs of ir/cost/time.h


def predicted(report, entry, faster):
    """{kernel: (runs, microseconds of all runs)} where memory is `faster` than that of the table's GPU."""
    kernels = {k["name"]: k for k in report["kernels"]}
    runs = next(e for e in report["entries"] if e["name"] == entry)["runs"]
    out = {}
    for name, count in runs["kernels"].items():
        grids = kernels[name]["expected"]
        own = sum(max(g["code_us"], g["sectors_us"]) for g in grids)
        us = max(own, kernels[name]["moved_us"] / faster) + LAUNCH_US * len(grids)
        out[name] = (count, count * us)
    for row, count in runs["library_calls"]:
        call = report["library_calls"][row]
        moved = call["buffer_bytes"] / (report["machine"]["copy_gbs"] * 1e3)
        before = out.get("gemm", (0, 0))
        out["gemm"] = (before[0] + count, before[1] + count * (call["predicted_us"] - moved + moved / faster))
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", help="of tools/gpu_check")
    parser.add_argument("name", help="of the step there, such as gpt2 or gpt2_library")
    parser.add_argument("--entry", default="step")
    args = parser.parse_args()
    with open(args.results) as lines:
        rows = [json.loads(line) for line in lines]
    gpu = next(r["gpu"] for r in rows if r["part"] == "machine")
    profile = next(r for r in rows if r["part"] == "kernels" and r["name"] == args.name)
    measured = {k["kernel"]: k["us"] for k in profile["kernels"]}
    step = next(r["step_ms"] for r in rows if r["part"] == "training" and r["name"] == args.name)
    report = json.load(sys.stdin)
    other = "H200" in gpu and report["machine"].get("gpu", "H100") == "H100"
    all_of = predicted(report, args.entry, H200_GBS / H100_GBS if other else 1)
    print(f"{'kernel':<44} {'runs':>5} {'predicted':>10} {'measured':>9} {'ratio':>6}")
    for name, (count, us) in sorted(all_of.items(), key=lambda row: -row[1][1]):
        known = measured.get(name)
        print(f"{name:<44} {count:>5.0f} {us:>10.0f} {known or 0:>9.0f} {us / known if known else float('nan'):>6.2f}")
    total = sum(us for _, us in all_of.values()) / 1e3
    print(f"all, as a graph: {total:.2f} ms predicted, {step:.2f} ms measured on {gpu}, ratio {total / step:.2f}")


main()
