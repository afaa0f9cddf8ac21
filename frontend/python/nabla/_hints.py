"""What those who come from PyTorch, JAX and nabla-ml write and Nabla calls otherwise, or has not: words for
AttributeErrors."""

# docs/from-pytorch.md has the table for readers; a test holds it to this one.
NAMES = {
    "as_tensor": "nb.asarray", "from_numpy": "nb.asarray", "FloatTensor": "nb.asarray", "LongTensor": "nb.asarray",
    "cat": "nb.concatenate", "clamp": "nb.clip",
    "bmm": "nb.matmul", "mm": "nb.matmul", "mv": "nb.matmul", "topk": "nb.top_k",
    "take_along_dim": "nb.take_along_axis", "index_select": "nb.take", "index_add": "x.at[index].add(v)",
    "manual_seed": "nb.seed", "randint": "nb.random.randint", "randperm": "nb.random.permutation",
    "multinomial": "nb.random.categorical", "bernoulli": "nb.random.bernoulli", "normal": "nb.random.normal",
    "Generator": "nb.random.key", "autograd": "nb.grad, nb.custom_vjp", "Function": "nb.custom_vjp",
    "inference_mode": "nb.no_grad", "set_detect_anomaly": "nb.jit(f, check_nan=True)",
    "profiler": "nb.jit(f).profile(*args)",
    "Multinomial": "nb.random.multinomial", "Gamma": "nb.random.gamma",
    "MultiheadAttention": "nn.MultiHeadAttention", "CrossEntropyLoss": "nn.cross_entropy_loss",
    "MSELoss": "nn.mse_loss", "L1Loss": "nn.l1_loss", "NLLLoss": "nn.nll_loss", "HuberLoss": "nn.huber_loss",
    "KLDivLoss": "nn.kl_div_loss", "BCEWithLogitsLoss": "nn.bce_with_logits_loss",
    "cross_entropy": "nn.cross_entropy_loss", "kl_div": "nn.kl_div_loss",
    "binary_cross_entropy_with_logits": "nn.bce_with_logits_loss", "TransformerEncoder": "nn.TransformerEncoderLayer",
    "RMSprop": "nn.optim.RMSProp", "CosineAnnealingLR": "nn.optim.schedules.cosine",
    "OneCycleLR": "nn.optim.schedules.one_cycle", "StepLR": "nn.optim.schedules.step_decay",
    "lr_scheduler": "nn.optim.schedules", "clip_grad_norm_": "nn.optim.clip_by_global_norm",
    "clip_grad_value_": "nn.optim.clip_by_value", "safetensors": "nn.load_file, nn.save_file",
    "init_device_mesh": "nb.DeviceMesh", "make_mesh": "nb.DeviceMesh", "NamedSharding": "nb.ShardingSpec",
    "distribute_tensor": "nb.shard", "device_put": "nb.shard", "redistribute": "nb.reshard",
    "full_tensor": "x.gather()", "to_local": "x.shards", "placements": "x.sharding", "DTensor": "nb.shard",
    "psum_scatter": "nb.reduce_scatter", "local_map": "nb.shard_map", "SequenceParallel": "nb.with_sharding_constraint",
    "DistributedDataParallel": "data_axes of nb.jit and nb.compile_bundle",
    "no_sync": "microbatches of nb.jit and nb.compile_bundle",
    "fully_shard": "zero=3 of nb.jit and nb.compile_bundle",
    "ZeroRedundancyOptimizer": "zero=1 of nb.jit and nb.compile_bundle",
    **dict.fromkeys(("parallelize_module", "ColwiseParallel", "RowwiseParallel"),
                    "layouts of nb.jit and nb.compile_bundle"),
    "apply_activation_checkpointing": "nb.checkpoint, or remat_bytes of nb.compile_bundle",
    "pipelining": "nb.vmap with spmd_axis_name and nb.ppermute",
    "ParameterList": "a list of nn.Parameter", "utils": "nn.optim.clip_by_global_norm and nb.checkpoint",
}

_BATCHES = ("vmap keeps dimensions of batches out of sight of the function that it maps, and moves them itself; "
            "x.batch_dims counts them")
# Names of nabla-ml that have no counterpart, and why.
ABSENT = {
    **dict.fromkeys(("broadcast_batch_dims", "incr_batch_dims", "decr_batch_dims", "move_axis_to_batch_dims",
                     "move_axis_from_batch_dims", "with_batch_dims"), _BATCHES),
    **dict.fromkeys(("traced", "untraced"), "nb.grad, nb.jit and their like trace what they are given; x.is_traced "
                                            "says whether a tensor stands for one in such a function"),
    "GRAPH": "tensors are computed when somebody looks, without a graph of the process; nb.realize_all(*tensors) "
             "computes several",
    "get_cache_stats": "compiled functions count their own calls: nb.jit(f).stats",
}


def module_getattr(module):
    """A `__getattr__` for the module of this name."""
    def getattr_(name):
        hint = f": it is {NAMES[name]} here" if name in NAMES else f": {ABSENT[name]}" if name in ABSENT else ""
        raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}", name=name)

    return getattr_
