"""safetensors files: tensors by name, and states of modules and optimisers in them.

The format (huggingface.co/docs/safetensors): the length of a JSON header, 8 bytes little endian; the header, with the
dtype, shape and place of each tensor; their bytes without gaps. Reading checks all of that before it uses it. Writing
goes to a temporary file beside the target, which then takes its name, so that a file is whole or not there. Nothing in
a file is executed. nabla-run reads and writes the same files.
"""

import json
import math
import os
import re
import tempfile

from .. import _nabla
from .._core import DType, Tensor, asarray, astype
from .._mesh import laid_out_like
from .module import Module
from .selectors import flat_paths, select

_CODES = {"BOOL": DType.bool, "I8": DType.int8, "U8": DType.uint8, "I16": DType.int16, "U16": DType.uint16,
          "I32": DType.int32, "U32": DType.uint32, "I64": DType.int64, "U64": DType.uint64, "F16": DType.float16,
          "BF16": DType.bfloat16, "F32": DType.float32, "F64": DType.float64}
_NAMES = {d: c for c, d in _CODES.items()}
_FORMATS = {DType.bool: "?", DType.int8: "b", DType.uint8: "B", DType.int16: "h", DType.uint16: "H", DType.int32: "i",
            DType.uint32: "I", DType.int64: "q", DType.uint64: "Q", DType.float32: "f", DType.float64: "d"}
_MAX_HEADER = 100_000_000


class CheckpointError(ValueError):
    """A file that is no safetensors file, is damaged, or does not hold what was asked for."""


class MissingCheckpoint(CheckpointError, FileNotFoundError):
    """There is no such file."""


def _bytes_of(x):
    """The little-endian bytes of a tensor."""
    if x.dtype == DType.bfloat16:
        x = _nabla.emit("bitcast", [x], {"dtype": DType.uint16})[0]
    x.realize()
    return memoryview(x).cast("B") if x.ndim and 0 not in x.shape else bytes(memoryview(x).tobytes())


def _tensor_of(data, dtype, shape):
    if dtype in (DType.bfloat16, DType.float16):  # memoryviews of these there are not
        return _nabla.emit("bitcast", [_tensor_of(data, DType.uint16, shape)], {"dtype": dtype})[0]
    if 0 in shape:
        return _nabla.full(list(shape), 0.0, dtype)
    view = memoryview(data).cast(_FORMATS[dtype])
    return _nabla.emit("reshape", [_nabla.from_buffer(view)], {"shape": list(shape)})[0]


def save_file(tensors, path, metadata=None):
    """Writes `{name: tensor}` to a safetensors file; `metadata` is a dict of strings. Raises TypeError, OSError."""
    header = {}
    if metadata:
        for k, v in metadata.items():
            if not isinstance(k, str) or not isinstance(v, str):
                raise TypeError(f"safetensors: metadata {k!r}: {v!r} are not both strings")
        header["__metadata__"] = dict(metadata)
    values, place = [], 0
    # Wide elements first, so that every tensor is aligned; then by name.
    for name in sorted(tensors, key=lambda n: (-asarray(tensors[n]).dtype.itemsize, n)):
        x = asarray(tensors[name])
        if name == "__metadata__":
            raise TypeError("safetensors: a tensor cannot have the name __metadata__")
        size = math.prod(x.shape) * x.dtype.itemsize
        header[name] = {"dtype": _NAMES[x.dtype], "shape": list(x.shape), "data_offsets": [place, place + size]}
        place += size
        values.append(x)
    _nabla.realize([x for x in values])
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    _write_whole(path, [len(text).to_bytes(8, "little"), text], values)


def _write_whole(path, head, values):
    path = os.fspath(path)
    handle, temporary = tempfile.mkstemp(prefix="." + os.path.basename(path) + ".", dir=os.path.dirname(path) or ".")
    try:
        with os.fdopen(handle, "wb") as f:
            for part in head:
                f.write(part)
            for x in values:
                f.write(_bytes_of(x))
            f.flush()
            os.fsync(f.fileno())
        mask = os.umask(0)
        os.umask(mask)
        os.chmod(temporary, 0o666 & ~mask)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def read_header(path):
    """`({name: (dtype, shape, begin, end)}, metadata, start of the data)` of a file. Raises CheckpointError."""
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        first = f.read(8)
        length = int.from_bytes(first, "little") if len(first) == 8 else None
        if length is None or length > min(size - 8, _MAX_HEADER):
            raise CheckpointError(f"{path}: no safetensors file: a header of {length} bytes in a file of {size}")
        text = f.read(length)
    try:
        header = json.loads(text)
    except (UnicodeDecodeError, json.JSONDecodeError) as e:
        raise CheckpointError(f"{path}: the header is no JSON: {e}") from None
    if not isinstance(header, dict):
        raise CheckpointError(f"{path}: the header is no JSON object")
    metadata = header.pop("__metadata__", None) or {}
    entries = {name: _entry(path, name, e) for name, e in header.items()}
    place = 0
    for name, (_, _, begin, end) in sorted(entries.items(), key=lambda item: item[1][2:]):
        if begin != place:
            raise CheckpointError(f"{path}: tensor {name} begins at {begin}, expected {place}: tensors overlap or "
                                  "leave gaps")
        place = end
    if 8 + length + place != size:
        raise CheckpointError(f"{path}: {size} bytes, the header speaks of {8 + length + place}: the file is damaged")
    return entries, metadata, 8 + length


def _entry(path, name, e):
    try:
        code, shape, (begin, end) = e["dtype"], e["shape"], e["data_offsets"]
        good = all(type(n) is int and n >= 0 for n in [*shape, begin, end])
    except (TypeError, KeyError, ValueError):
        good = False
    if not good:
        raise CheckpointError(f"{path}: the entry of tensor {name} is {e!r}")
    if code not in _CODES:
        raise CheckpointError(f"{path}: tensor {name} has dtype {code!r}, expected one of {', '.join(_CODES)}")
    if math.prod(shape) * _CODES[code].itemsize != end - begin:
        raise CheckpointError(f"{path}: tensor {name} is {code}{shape} in {end - begin} bytes")
    return _CODES[code], tuple(shape), begin, end


def load_file(path, names=None):
    """`{name: tensor}` of a safetensors file, all or those of `names`. Raises CheckpointError, OSError."""
    entries, _, start = read_header(path)
    wanted = list(entries) if names is None else list(names)
    missing = [n for n in wanted if n not in entries]
    if missing:
        raise CheckpointError(f"{path}: no tensor {', '.join(missing[:5])}")
    out = {}
    with open(path, "rb") as f:
        for name in wanted:
            dtype, shape, begin, end = entries[name]
            f.seek(start + begin)
            data = f.read(end - begin)
            if len(data) != end - begin:
                raise CheckpointError(f"{path}: tensor {name} ends early")
            out[name] = _tensor_of(data, dtype, shape)
    return out


def load_metadata(path):
    """The strings that a safetensors file was saved with."""
    return dict(read_header(path)[1])


# ---- Modules and trees


def save(model, path, selector=None, metadata=None):
    """Writes a Module's tensors (those that `selector` names, otherwise all), or a tree's, by their paths."""
    if isinstance(model, Module):
        tensors = {path: x for path, x, _ in model.named_tensors()} if selector is None else dict(
            select(selector).apply(model))
    else:
        tensors = {name: x for name, x in flat_paths(model) if isinstance(x, Tensor)}
    if selector is not None and not tensors:
        raise CheckpointError(f"save: {selector!r} selects nothing of {type(model).__name__}")
    save_file(tensors, path, metadata)


def load(model, path, selector=None, strict=True, names=None, stack=None):
    """Sets a Module's tensors from a file by their paths, and returns it; of a tree, returns a new one.

    With a selector only what it names is set and must be there. Without `strict` names may be missing or not known.
    Values are converted to the dtypes that the model has, and laid out as its tensors are. Raises CheckpointError for
    names and shapes that differ.
    names: how the file calls what the model calls otherwise: a function of the file's name that gives the model's, or
    None to leave it out; or `{pattern: name}`, in whose patterns `*` is any part between dots, which stands for the
    same `*` of the name: {"h.*.attn.w": "blocks.*.attention.weight"}; of several that fit the first counts, and names
    that none fits stay. A name that ends in ".T" has its last two dimensions exchanged.
    stack: patterns such as "blocks.*.weight", after `names`, whose tensors lie in the file per layer, in the model as
    one, stacked along dimension 0 as StackedModuleList has them: "blocks.layer.weight".
    """
    stored = _renamed(load_file(path), names, path)
    for pattern in [stack] if isinstance(stack, str) else stack or ():
        _stack_layers(stored, pattern, path)
    try:
        if isinstance(model, Module):
            if selector is not None:
                chosen = dict(select(selector).apply(model))
                missing = [p for p in chosen if p not in stored]
                if strict and missing:
                    raise CheckpointError(f"{path}: no tensor {', '.join(missing[:5])}")
                model.load_state_dict({p: stored[p] for p in chosen if p in stored}, strict=False)
            else:
                model.load_state_dict(stored, strict)
            return model
        return _load_tree(model, stored, path, strict)
    except CheckpointError:
        raise
    except ValueError as e:
        raise CheckpointError(f"{path}: {e}") from None


def _pattern(text):
    """A pattern with `*` as an expression with a group for each."""
    return re.compile("".join("([^.]+)" if part == "*" else re.escape(part) for part in re.split(r"(\*)", text)))


def _renamed(stored, names, path):
    if names is None:
        return dict(stored)
    if callable(names):
        rename = names
    else:
        rows = [(_pattern(pattern), name) for pattern, name in names.items()]

        def rename(old):
            for pattern, name in rows:
                found = pattern.fullmatch(old)
                if found:
                    parts = iter(found.groups())
                    return None if name is None else re.sub(r"\*", lambda _: next(parts), name)
            return old

    out, origin = {}, {}
    for old, x in stored.items():
        new = rename(old)
        if new is None:
            continue
        if new.endswith(".T"):
            new = new[:-2]
            x = x.mT
        if new in out:
            raise CheckpointError(f"{path}: names give {origin[new]} and {old} one name, {new}")
        out[new], origin[new] = x, old
    return out


def _stack_layers(stored, pattern, path):
    if pattern.count("*") != 1:
        raise CheckpointError(f"{path}: stack {pattern!r} has {pattern.count('*')} places for the layer's number, "
                              "not 1")
    expression = _pattern(pattern)
    layers = {}
    for name in stored:
        found = expression.fullmatch(name)
        if found and found.group(1).isdigit():
            layers[int(found.group(1))] = name
    if sorted(layers) != list(range(len(layers))) or not layers:
        raise CheckpointError(f"{path}: stack {pattern!r} finds the layers {sorted(layers)}, not all from 0 on")
    parts = [stored.pop(layers[i]) for i in range(len(layers))]
    if any(p.shape != parts[0].shape for p in parts):
        raise CheckpointError(f"{path}: stack {pattern!r}: the layers have the shapes {[p.shape for p in parts]}")
    stored[pattern.replace("*", "layer")] = _nabla.stack(parts, 0)


def _load_tree(tree, stored, path, strict):
    from ..tree import tree_flatten
    named = [(n, x) for n, x in flat_paths(tree) if isinstance(x, Tensor)]
    missing = [n for n, _ in named if n not in stored]
    unknown = [n for n in stored if n not in {n for n, _ in named}]
    if strict and (missing or unknown):
        raise CheckpointError(f"{path}: missing {', '.join(missing[:5]) or 'nothing'}; not known "
                              f"{', '.join(unknown[:5]) or 'nothing'}")
    new = {}
    for name, x in named:
        if name in stored:
            if tuple(stored[name].shape) != tuple(x.shape):
                raise CheckpointError(f"{path}: {name} is {stored[name].type_str()}, expected {x.type_str()}")
            new[id(x)] = laid_out_like(astype(stored[name], x.dtype), x)
    leaves, form = tree_flatten(tree)
    return form.unflatten([new.get(id(x), x) for x in leaves])


def save_checkpoint(path, model, optimizer=None, step=None, metadata=None):
    """One file with "model.*", "optimizer.*" (a stateful optimiser or a state tree) and the step as metadata."""
    tensors = {f"model.{k}": v for k, v in dict(flat_paths(model)).items() if isinstance(v, Tensor)}
    if optimizer is not None:
        state = optimizer.state if hasattr(optimizer, "state_dict") else optimizer
        tensors.update({f"optimizer.{k}": v for k, v in flat_paths(state) if isinstance(v, Tensor)})
    texts = dict(metadata or {})
    if step is not None:
        texts["step"] = str(int(step))
    save_file(tensors, path, texts)


def load_checkpoint(path, model, optimizer=None):
    """Sets what save_checkpoint wrote. Returns `(model, optimizer, metadata)`: a Module and a stateful optimiser are
    set in place, trees come back new; tensors are laid out as they are there. Raises CheckpointError."""
    stored = load_file(path)
    parts = {"model": {}, "optimizer": {}}
    for name, x in stored.items():
        prefix, _, rest = name.partition(".")
        if prefix not in parts:
            raise CheckpointError(f"{path}: tensor {name} is of no model or optimizer")
        parts[prefix][rest] = x
    if isinstance(model, Module):
        try:
            model.load_state_dict(parts["model"])
        except ValueError as e:
            raise CheckpointError(f"{path}: {e}") from None
    else:
        model = _load_tree(model, parts["model"], path, True)
    if optimizer is not None:
        if hasattr(optimizer, "load_state_dict"):
            optimizer.load_state_dict(parts["optimizer"])
        else:
            optimizer = _load_tree(optimizer, parts["optimizer"], path, True)
    return model, optimizer, load_metadata(path)


__all__ = ["CheckpointError", "MissingCheckpoint", "load", "load_checkpoint", "load_file", "load_metadata", "save",
           "save_checkpoint", "save_file"]
