"""How tensors print."""

from html import escape

from ._core import DType

_MOST, _EDGE, _WIDTH = 1000, 3, 100


def text_of(x):
    """The elements, dtype and shape; a traced tensor, which has none, shows its type."""
    if x.is_traced:
        return f"Tensor({x.type_str()}, traced)"
    dtype = str(x.dtype).rpartition(".")[2]
    count = 1
    for n in x.shape:
        count *= n
    if count == 0:
        return f"Tensor([], shape={x.shape}, dtype={dtype})"
    lines = _lines(x.tolist(), x.shape, count > _MOST, _writer(x))
    body = "\n".join([lines[0]] + [" " * 7 + line for line in lines[1:]])
    where = f", shape={x.shape}" if count > _MOST else ""
    return f"Tensor({body}{where}, dtype={dtype})"


def html_of(x):
    """text_of for notebooks."""
    return f"<pre>{escape(text_of(x))}</pre>"


def _writer(x):
    if not x.dtype.is_float():
        return str
    digits = 6 if x.dtype in (DType.float32, DType.float64) else 4

    def write(v):
        text = f"{v:.{digits}g}"
        return text if any(c in text for c in ".enai") else text + "."

    return write


def _kept(n, short):
    if not short or n <= 2 * _EDGE + 1:
        return list(range(n))
    return list(range(_EDGE)) + [None] + list(range(n - _EDGE, n))


def _lines(values, shape, short, write):
    """Text lines of nested lists; every line but the first is indented by one bracket per level."""
    width = max((len(t) for t in _texts(values, shape, short, write)), default=0)

    def of(v, dims):
        if not dims:
            return [write(v).rjust(width) if shape else write(v)]
        kept = _kept(dims[0], short)
        if len(dims) == 1:
            return _wrapped(["..." if i is None else write(v[i]).rjust(width) for i in kept])
        out = []
        for n, i in enumerate(kept):
            block = ["..."] if i is None else of(v[i], dims[1:])
            last = n == len(kept) - 1
            block[-1] += "]" if last else ","
            out += [("[" if n == 0 and k == 0 else " ") + line for k, line in enumerate(block)]
            if not last and len(dims) > 2:
                out.append("")
        return out

    return of(values, list(shape))


def _texts(values, dims, short, write):
    if not dims:
        yield write(values)
        return
    for i in _kept(dims[0], short):
        if i is not None:
            yield from _texts(values[i], dims[1:], short, write)


def _wrapped(cells):
    lines, line = [], ""
    for n, cell in enumerate(cells):
        piece = cell + ("]" if n == len(cells) - 1 else ",")
        if line and len(line) + 1 + len(piece) > _WIDTH:
            lines.append(line)
            line = " " + piece
        else:
            line = f"{line} {piece}" if line else "[" + piece
    return lines + [line]
