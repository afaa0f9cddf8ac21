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
import sys
import tempfile

from .. import _nabla
from .._core import DType, asarray, astype
from .._mesh import laid_out_like
from ..tree import is_array, leaves_with_path, tree_flatten
from .module import Module
from .selectors import select

_CODES = {"BOOL": DType.bool, "I8": DType.int8, "U8": DType.uint8, "I16": DType.int16, "U16": DType.uint16,
          "I32": DType.int32, "U32": DType.uint32, "I64": DType.int64, "U64": DType.uint64, "F16": DType.float16,
          "BF16": DType.bfloat16, "F32": DType.float32, "F64": DType.float64}
_NAMES = {d: c for c, d in _CODES.items()}
_FORMATS = {DType.bool: "?", DType.int8: "b", DType.uint8: "B", DType.int16: "h", DType.uint16: "H", DType.int32: "i",
            DType.uint32: "I", DType.int64: "q", DType.uint64: "Q", DType.float32: "f", DType.float64: "d"}
_MAX_HEADER = 100_000_000
_MAX_SIZE = 1 << 56  # of a dimension, a tensor and a file


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
        if len(first) < 8:
            raise CheckpointError(f"{path}: no safetensors file: it has {size} bytes, and begins with a length of 8")
        length = int.from_bytes(first, "little")
        if length > min(size - 8, _MAX_HEADER):
            raise CheckpointError(f"{path}: no safetensors file: a header of {length} bytes in a file of {size}")
        text = f.read(length)
    if not text.startswith(b"{"):
        raise CheckpointError(f"{path}: no safetensors file: its header is no JSON object")
    header = _parsed_header(text, path)
    metadata = header.pop("__metadata__", None)
    metadata = {} if metadata is None else metadata
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise CheckpointError(f"{path}: __metadata__ is {_short(metadata)}, expected an object of strings")
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


def _parsed_header(text, path):
    """The header's object. Raises CheckpointError."""
    try:
        header = json.loads(text.decode(), object_pairs_hook=_unique, parse_constant=_no_number)
    except RecursionError:
        raise CheckpointError(f"{path}: the header is nested too deeply") from None
    except ValueError as e:  # wrong UTF-8 and numbers of too many digits, too
        raise CheckpointError(f"{path}: the header is no JSON: {e}") from None
    return header


def _unique(pairs):
    out = {}
    for key, value in pairs:
        key.encode()  # ValueError for halves of surrogate pairs
        if key in out:
            raise ValueError(f"the key {key!r} is there twice")
        out[key] = value
    return out


def _short(value):
    try:
        return repr(value)[:200]
    except RecursionError:
        return "nested too deeply"


def _no_number(text):
    raise ValueError(f"{text} is no number of JSON")


def _entry(path, name, e):
    try:
        code, shape, (begin, end) = e["dtype"], e["shape"], e["data_offsets"]
        good = len(e) == 3 and isinstance(code, str) and isinstance(shape, list) and all(
            type(n) is int and 0 <= n < _MAX_SIZE for n in [*shape, begin, end])
        good = good and math.prod(n for n in shape if n) < _MAX_SIZE
    except (TypeError, KeyError, ValueError):
        good = False
    if not good:
        raise CheckpointError(f"{path}: the entry of tensor {name} is {_short(e)}, expected its dtype, shape and "
                              "data_offsets")
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
            if dtype == DType.bool and max(data, default=0) > 1:
                raise CheckpointError(f"{path}: tensor {name} of bools has a byte {max(data)}, expected 0 or 1")
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
        tensors = named_arrays(model, "save")
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
    that none fits stay. A name that ends in ".T" has its last two dimensions exchanged. One that ends in ":reshape" has
    the shape that the model has, with the elements in their order: {"fc.bias": "0.bias:reshape"}.
    stack: patterns such as "blocks.*.weight", after `names`, whose tensors lie in the file per layer, in the model as
    one, stacked along dimension 0 as StackedModuleList has them: "blocks.layer.weight".
    """
    stored = _renamed(load_file(path), names, model, path)
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
        return load_tree(model, stored, path, strict)
    except ValueError as e:
        text = str(e) if isinstance(e, CheckpointError) else f"{path}: {e}"
        raise CheckpointError(text + _shape_help(model, stored)) from None


def _shape_help(model, stored):
    """The help text for a stored tensor that has the right number of elements in another shape."""
    for name, shape in _shapes(model).items():
        there = tuple(stored[name].shape) if name in stored else tuple(shape)
        if there == tuple(shape) or math.prod(there) != math.prod(shape):
            continue
        end = ".T" if len(shape) == 2 and there == tuple(shape)[::-1] else ":reshape"
        return f"; names={{{name!r}: \"{name}{end}\"}} takes it"
    return ""


def _pattern(text):
    """A pattern with `*` as an expression with a group for each."""
    return re.compile("".join("([^.]+)" if part == "*" else re.escape(part) for part in re.split(r"(\*)", text)))


def _shapes(model):
    """The shapes of the leaves of a Module or a tree, by their paths."""
    return {name: asarray(x).shape for name, x in leaves_with_path(model) if is_array(x)}


def _reshaped(x, name, shapes, path):
    if name not in shapes or math.prod(shapes[name]) != math.prod(x.shape):
        there = f"the shape {list(shapes[name])} there" if name in shapes else "no tensor of the name"
        raise CheckpointError(f"{path}: {name}:reshape gets {x.type_str()}, and the model has {there}")
    return _nabla.emit("reshape", [x], {"shape": list(shapes[name])})[0]


def _renamed(stored, names, model, path):
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

    out, origin, shapes = {}, {}, None
    for old, x in stored.items():
        new = rename(old)
        if new is None:
            continue
        if new.endswith(".T"):
            new = new[:-2]
            x = x.mT
        elif new.endswith(":reshape"):
            new = new.removesuffix(":reshape")
            shapes = _shapes(model) if shapes is None else shapes
            x = _reshaped(x, new, shapes, path)
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


def named_arrays(tree, what):
    """`{path: leaf}` of a tree of tensors, arrays and numbers. Raises TypeError for other leaves, and ValueError for
    two leaves of one path: neither can be read again from a file."""
    out = {}
    for name, x in leaves_with_path(tree):
        if not is_array(x):
            raise TypeError(f"{what}: {name or 'the tree'} is a {type(x).__name__}, which a safetensors file cannot "
                            "hold: leave it out of the tree, or pass it in metadata")
        if name in out:
            raise ValueError(f"{what}: two leaves of the tree have the path {name}: rename a key")
        try:
            out[name] = _exact(x)
        except (TypeError, ValueError) as e:
            raise type(e)(f"{what}: {name or 'the tree'}: {e}") from None
    return out


def _exact(x):
    """A leaf as a tensor that holds all of it: Python numbers have 64 bits. OverflowError for an int that has more."""
    if type(x) is int and x >= 1 << 63:
        return asarray(x, DType.uint64)
    return asarray(x, {int: DType.int64, float: DType.float64}.get(type(x)))


def load_tree(tree, stored, path, strict):
    """The tree with leaves of a file by their paths, each as what it is in the tree: a tensor, an array, a number."""
    leaves, form = tree_flatten(tree)
    names = form.leaf_paths()
    known = {name for name, x in zip(names, leaves) if is_array(x)}
    missing = [n for n in names if n in known and n not in stored]
    unknown = [n for n in stored if n not in known]
    if strict and (missing or unknown):
        raise CheckpointError(f"{path}: missing {', '.join(missing[:5]) or 'nothing'}; not known "
                              f"{', '.join(unknown[:5]) or 'nothing'}")
    return form.unflatten([_leaf_like(x, stored[name], f"{path}: {name}") if name in known and name in stored else x
                           for name, x in zip(names, leaves)])


def _leaf_like(like, x, where):
    """x in the place of a leaf: of its dtype and layout, and an array or a number if the leaf is one."""
    tensor = _exact(like)
    if tuple(x.shape) != tuple(tensor.shape):
        raise CheckpointError(f"{where} is {x.type_str()}, expected {tensor.type_str()}")
    if type(like) in (bool, int, float):
        return _number_like(like, x.item(), where)
    out = laid_out_like(astype(x, tensor.dtype), tensor)
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(like, (numpy.ndarray, numpy.generic)):
        return out
    return out.numpy().astype(like.dtype, copy=False)[() if isinstance(like, numpy.generic) else ...]


def _number_like(like, number, where):
    kind = type(like)
    if kind is not float and (not math.isfinite(number) or kind(number) != number):
        raise CheckpointError(f"{where} is {number}, expected a number of type {kind.__name__}")
    return kind(number)


def save_checkpoint(path, model, optimizer=None, step=None, metadata=None):
    """One file with "model.*", "optimizer.*" (a stateful optimiser or a state tree) and the step as metadata.

    Trees may hold tensors, arrays and Python numbers. Raises TypeError for other leaves."""
    tensors = {f"model.{k}": v for k, v in named_arrays(model, "save_checkpoint: model").items()}
    if optimizer is not None:
        state = optimizer.state if hasattr(optimizer, "state_dict") else optimizer
        tensors.update({f"optimizer.{k}": v for k, v in named_arrays(state, "save_checkpoint: optimizer").items()})
    texts = dict(metadata or {})
    if step is not None:
        texts["step"] = str(int(step))
    save_file(tensors, path, texts)


def load_checkpoint(path, model, optimizer=None):
    """Sets what save_checkpoint wrote. Returns `(model, optimizer, metadata)`: a Module and a stateful optimiser are
    set in place, trees come back new; tensors are laid out as they are there, and arrays and numbers of the trees are
    arrays and numbers again. Raises CheckpointError."""
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
        model = load_tree(model, parts["model"], path, True)
    if optimizer is not None:
        if hasattr(optimizer, "load_state_dict"):
            optimizer.load_state_dict(parts["optimizer"])
        else:
            optimizer = load_tree(optimizer, parts["optimizer"], path, True)
    return model, optimizer, load_metadata(path)


__all__ = ["CheckpointError", "MissingCheckpoint", "load", "load_checkpoint", "load_file", "load_metadata", "save",
           "save_checkpoint", "save_file"]
