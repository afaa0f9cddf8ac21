"""What a program costs on ranks, before they are there: `nb.plan(program, ranks=8)`."""

import json

from ._core import whole
from ._options import limit, path, text
from ._spread import names, options
from .export import ExportedProgram


class Plan:
    """What a program costs on meshes and under ZeRO's stages. `rows` are dicts: mesh, ranks, zero, auto (True: laid
    out as auto_shard finds best, whatever zero), and state_bytes, memory_bytes (of a rank), host_bytes (of its state,
    in the host's memory), transfer_us (of copies of that), sent_bytes (by a rank, in a step), work (of all ranks, in
    units of what one alone computes), exchange_us, compute_us, step_us, or refusal, and for a GPU target predicted_for,
    the GPU that times are for; the quickest first, and one rank alone last, to compare with. It prints as a table."""

    def __init__(self, rows, text):
        self.rows, self._text = rows, text

    def __repr__(self):
        return self._text


def plan(program, ranks, axes=(), data_axes=(), entry="", target="cpu", layouts=None, microbatches=None, max_bytes=None,
         offload="none", tuning=None):
    """Compares meshes of `ranks` ranks, each with zero 0, 1 and 3 (2 of microbatches too) and as auto_shard lays it
    out, as `nablac plan` does; no kernel is compiled.

    axes: names of the mesh's axes, by default only "dp". data_axes: those of the batch, by default "dp", or the first;
    where given, of the rows of auto_shard too, which else lays out the batch itself.
    entry: whose run is a step, by default the first that computes gradients. target: what predictions are for,
    such as "sm_90a:H200".
    layouts, microbatches, offload: as in compile_bundle. max_bytes, such as "256MiB": rows that need more memory are
    printed last, and found layouts keep within; the host's does not count. tuning: file that `nablac tune` wrote:
    rates of the machine that runs it.
    Raises Error (E0901; E0503 and E0801 for such a file).
    """
    if not isinstance(program, ExportedProgram):
        raise TypeError(f"plan takes what nabla.export returned, got {type(program).__name__}")
    number = whole(ranks)
    if number is None or not 1 <= number <= 4096:
        raise ValueError(f"plan: ranks is a number from 1 to 4096, got {ranks!r}")
    spread = options(layouts=layouts, microbatches=microbatches, offload=offload)
    rows, table = program._program.plan(number, names("axes", axes), names("data_axes", data_axes),
                                        text("entry", entry), text("target", target), spread, limit(max_bytes),
                                        "" if tuning is None else path("tuning", tuning))
    return Plan(json.loads(rows), table.rstrip("\n"))


__all__ = ["Plan", "plan"]
