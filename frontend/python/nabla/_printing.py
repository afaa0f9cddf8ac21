"""How tensors print."""

import itertools
import re
from html import escape

from ._core import DType

_MOST, _EDGE, _WIDTH, _TABLE = 1000, 3, 100, 12


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
    """For notebooks: the type, and the elements as a table where there are few in one or two dimensions."""
    head = f"<div style='color:#666;font:12px monospace'>{escape(x.type_str())}{' traced' if x.is_traced else ''}</div>"
    if x.is_traced:
        return head
    if not 1 <= x.ndim <= 2 or not all(0 < n <= _TABLE for n in x.shape):
        return f"{head}<pre>{escape(text_of(x))}</pre>"
    write, rows = _writer(x), x.tolist()
    cells = "".join("<tr>" + "".join(f"<td>{escape(write(v))}</td>" for v in row) + "</tr>"
                    for row in (rows if x.ndim == 2 else [rows]))
    return f"{head}<table style='font-family:monospace'>{cells}</table>"


# A function's name, a value's, a type, the name of an op in front of its operands, a string or number of an attribute.
_TOKEN = re.compile(r"""(?P<function>@[\w.$]+)|(?P<value>%[\w.$]+)|(?P<type>\b(?:bool|[fiu]\d+|bf16)\[[^\]]*\])"""
                    r"""|(?P<op>\b\w+(?=\())|(?P<text>"[^"]*")""")
_COLORS = {"function": "#8250df", "value": "#0550ae", "type": "#1a7f37", "op": "#953800", "text": "#57606a"}
_shown = itertools.count()


def ir_html(text):
    """IR in colours: a part that folds per function; names of functions and values lead to where they are made."""
    page, out = next(_shown), []
    for block in str(text).strip().split("\n\n"):
        head, _, rest = block.partition("\n")
        function = re.match(r"func @([\w.$]+)", head)
        scope = f"ir{page}-{function[1]}" if function else f"ir{page}"
        lines = [_ir_line(line, page, scope) for line in (rest if function else block).split("\n")]
        body = "<pre style='margin:0 0 8px;line-height:1.35'>" + "\n".join(lines) + "</pre>"
        head = f"<summary style='font-family:monospace'>{_ir_line(head, page, scope)}</summary>"
        out.append(f"<details open>{head}{body}</details>" if function else body)
    return "<div style='overflow-x:auto'>" + "".join(out) + "</div>"


def _ir_line(line, page, scope):
    made = line.partition(" = ")[0] if " = " in line and line.startswith("  ") else ""
    if line.startswith("func "):
        made = line

    def of(token):
        kind, name = token.lastgroup, token[0]
        span = f"<span style='color:{_COLORS[kind]}'>{escape(name)}</span>"
        if kind not in ("function", "value"):
            return span
        place = f"{scope}-{name[1:]}" if kind == "value" else f"ir{page}-{name[1:]}"
        # What the line makes: values left of the sign of equality, a function's own name and parameters.
        if token.end() <= len(made) and not (kind == "function" and token.start() > len("func ")):
            return f"<a id='{escape(place)}'>{span}</a>"
        return f"<a href='#{escape(place)}' style='text-decoration:none'>{span}</a>"

    out, at = [], 0
    for token in _TOKEN.finditer(line):
        out += [escape(line[at:token.start()]), of(token)]
        at = token.end()
    return "".join(out) + escape(line[at:])


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
