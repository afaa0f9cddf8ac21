"""GPipe as one program: stages are a batch whose axis lies along the ranks, and ppermute hands activations on.

Every tick all stages work at once (vmap over stacked weights, whose first dimension is cut along `stage`), then each
rank's activation moves to the next rank. Microbatch t enters at tick t and leaves the last stage `STAGES` ticks later.
Three programs, with the numbers of examples 07, 08 and 09 of the Python library nabla-ml, from NumPy's generator of
seed 42: gradients on 4 ranks, a loss on 2 x 4 ranks (data parallel x stages), and inference. The ranks are those of one
process, or with `mpirun -np 4 python3 pipelines.py`, or -np 8, processes, each of which runs this script.
"""

import nabla as nb
import numpy as np
from nabla import distributed, ops
from nabla.core.sharding import DeviceMesh, DimSpec
from nabla.core.sharding import PartitionSpec as P
from nabla.ops import communication
from nabla.transforms import vmap

STAGES, ROWS, DIM = 4, 4, 16


def stage(x, w, b):
    """One stage, of one rank: linear and ReLU."""
    return ops.relu(ops.matmul(x, w) + b)


def next_stage(mesh, axis):
    """The ring along an axis of the mesh, as pairs of ranks: every rank to the next one along it."""
    size = mesh.get_axis_size(axis)
    pairs = []
    for rank in range(mesh.num_devices):
        here = mesh.get_axis_indices(rank)
        there = dict(here, **{axis: (here[axis] + 1) % size})
        pairs += [(rank, r) for r in mesh.devices if mesh.get_axis_indices(r) == there]
    return pairs


def run_pipeline(stages, ring, inputs, weights, state, first):
    """The outputs of all ticks. `inputs` has a microbatch per tick, zeros at the end; `first` is true at stage 0."""
    outputs = []
    for t in range(inputs.shape[0]):
        fresh = ops.squeeze(ops.slice_tensor(inputs, start=(t, 0, 0), size=(1, ROWS, DIM)), axis=0)
        moved = communication.ppermute(stages(state, *weights), ring)
        # What the last stage made has moved to stage 0, where the next microbatch takes its place.
        outputs.append(ops.reduce_sum(ops.where(first, moved, ops.zeros_like(moved)), axis=0))
        state = ops.where(first, fresh, moved)
    return ops.stack(outputs, axis=0)


def mean_squared(outputs, targets):
    """Of what left the pipeline after it was full."""
    there = ops.gather(outputs, ops.arange(STAGES, STAGES + targets.shape[0], dtype=nb.DType.int64), axis=0)
    return ops.mean((there - targets) ** 2)


def padded(x):
    """Zeros flow in while the last microbatches leave."""
    return np.concatenate([x, np.zeros((STAGES, ROWS, DIM), np.float32)])


def on_ranks(f):
    """Under mpirun what the processes run together, compiled; else the function as it is, op by op."""
    return nb.jit(f, engine="mpi") if distributed.is_initialized() and distributed.world_size() > 1 else f


def draw(microbatches):
    rng = np.random.RandomState(42)
    shapes = [(STAGES, DIM, DIM), (STAGES, DIM), (microbatches, ROWS, DIM), (microbatches, ROWS, DIM)]
    return [rng.randn(*shape).astype(np.float32) for shape in shapes]


def first_stage():
    return np.eye(STAGES, 1).reshape(STAGES, 1, 1).astype(bool)


def gradients():
    """Loss and gradients of a pipeline on 4 ranks: (loss, dx, dw, db)."""
    mesh = DeviceMesh("pp", (STAGES,), ("stage",))
    w, b, x, y = draw(microbatches=8)
    matrices = [DimSpec.from_raw(d) for d in P("stage", None, None)]
    vectors = [DimSpec.from_raw(d) for d in P("stage", None)]
    w, b = ops.shard(nb.Tensor.from_dlpack(w), mesh, matrices), ops.shard(nb.Tensor.from_dlpack(b), mesh, vectors)
    state = ops.shard(nb.zeros((STAGES, ROWS, DIM)), mesh, matrices)
    first = ops.shard(nb.Tensor.from_dlpack(first_stage()), mesh, matrices)
    nb.realize_all(w, b, state, first)
    stages = vmap(stage, in_axes=(0, 0, 0), out_axes=0, spmd_axis_name="stage", mesh=mesh)
    ring = next_stage(mesh, "stage")

    def loss_of(x, w, b):
        return mean_squared(run_pipeline(stages, ring, x, (w, b), state, first), nb.asarray(y))

    loss, grads = on_ranks(nb.value_and_grad(loss_of, argnums=(0, 1, 2)))(nb.asarray(padded(x)), w, b)
    dx, dw, db = nb.Tensor.to_numpy_all(*grads)
    return loss.item(), dx[:len(x)], dw, db


def two_dimensional():
    """Loss and gradients on 2 x 4 ranks: rows of every microbatch along dp, stages along pp: (loss, dw, db)."""
    mesh = DeviceMesh("2d", (2, STAGES), ("dp", "pp"))
    w, b, x, y = draw(microbatches=4)
    rows = [None, DimSpec.from_raw("dp"), None]
    w = ops.shard(nb.asarray(w), mesh, [DimSpec.from_raw("pp"), None, None]).realize()
    b = ops.shard(nb.asarray(b), mesh, [DimSpec.from_raw("pp"), None]).realize()
    x = ops.shard(nb.asarray(padded(x)), mesh, rows).realize()
    y = ops.shard(nb.asarray(y), mesh, rows).realize()
    state = ops.shard(nb.zeros((STAGES, ROWS, DIM)), mesh, [DimSpec.from_raw("pp"), DimSpec.from_raw("dp"), None])
    first = ops.shard(nb.asarray(first_stage()), mesh, [DimSpec.from_raw("pp"), None, None])
    stages = vmap(stage, in_axes=(0, 0, 0), out_axes=0, spmd_axis_name="pp", mesh=mesh)
    ring = next_stage(mesh, "pp")

    def loss_of(w, b):
        return mean_squared(run_pipeline(stages, ring, x, (w, b), state, first), y)

    loss, (dw, db) = on_ranks(nb.value_and_grad(loss_of, argnums=(0, 1)))(w, b)
    return loss.item(), dw, db


def inference():
    """What a pipeline without biases makes of 8 microbatches, and what one rank makes of them."""
    mesh = DeviceMesh("pp", (STAGES,), ("stage",))
    rng = np.random.RandomState(42)
    w = rng.randn(STAGES, DIM, DIM).astype(np.float32)
    x = rng.randn(8, ROWS, DIM).astype(np.float32)
    spec = P("stage", None, None)
    weights = ops.shard(nb.asarray(w), mesh, spec)
    state = ops.shard(nb.zeros((STAGES, ROWS, DIM)), mesh, spec)
    first = ops.shard(nb.asarray(first_stage()), mesh, spec)
    stages = vmap(lambda x, w: ops.relu(x @ w), spmd_axis_name="stage", mesh=mesh)
    ring = next_stage(mesh, "stage")
    outputs = on_ranks(lambda x, w: run_pipeline(stages, ring, x, (w,), state, first))(nb.asarray(padded(x)), weights)
    alone = x
    for each in w:
        alone = np.maximum(alone @ each, 0)
    return outputs.numpy()[STAGES:], alone


def main():
    distributed.init()
    ranks, loss = distributed.world_size(), None
    say = print if distributed.is_main_process() else lambda text: None
    if ranks in (1, 4):
        loss, dx, dw, db = gradients()
        say(f"4 ranks:     loss {loss:.4f}, dw [{dw.min():.4f}, {dw.max():.4f}], db [{db.min():.4f}, {db.max():.4f}]")
    if ranks in (1, 8):
        loss, dw, db = two_dimensional()
        say(f"2 x 4 ranks: loss {loss:.4f}, dw {dw.sharding}, each rank {dw.local_shape}")
    if ranks in (1, 4):
        outputs, alone = inference()
        say(f"inference:   largest {outputs.max():.4f}, off by {abs(outputs - alone).max():.1e} from one rank")
    if loss is None:
        raise SystemExit(f"{ranks} processes: there are programs for 4 and for 8 ranks")
    return loss


if __name__ == "__main__":
    main()
