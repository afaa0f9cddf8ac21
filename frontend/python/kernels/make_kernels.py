"""Writes the program of the kernels that eager tensors run on: an entry per op and dtypes, over symbolic extents.

    python make_kernels.py kernels.nir

What an entry is called, and how arrays are laid out for it, says frontend/python/native/eager_kernels.h.
"""

import sys

from nabla import _nabla
from nabla._core import DType, Error

FLOATS = [DType.float32, DType.float64, DType.bfloat16, DType.float16]
INTEGERS = [DType.int32, DType.int64]
DTYPES = FLOATS + INTEGERS + [DType.bool]
IR_NAMES = {DType.float32: "f32", DType.float64: "f64", DType.bfloat16: "bf16", DType.float16: "f16",
            DType.int32: "i32", DType.int64: "i64", DType.bool: "bool"}
# Where results are another type than operands, or operands are of several.
SELECT, CONVERT = "select", "convert"


class Kernels:
    """The entries of one program."""

    def __init__(self):
        self.program = _nabla.Program()
        self.n = self.program.symbol("n", 1, 1 << 28, 1)
        # A tensor may have 2^46 bytes at its bounds; what is larger runs on the interpreter.
        self.sizes = {s: self.program.symbol(s, 1, 1 << bits, 1) for s, bits in (("a", 11), ("b", 21), ("c", 11))}
        self.matrix = {s: self.program.symbol(s, 1, 1 << 14, 1) for s in ("batch", "m", "k", "j")}
        self.count = 0

    def add(self, name, types, op, attributes):
        """An entry of one op; False where the op does not take these types."""
        inputs = [(f"x{i}", dtype, shape) for i, (dtype, shape) in enumerate(types)]
        results = []

        def body(*values):
            out = _nabla.emit(op, list(values), attributes)
            results.extend(out)
            return [("out", out[0])]

        try:
            self.program.entry(name, inputs, body)
        except Error:
            return False
        self.count += 1
        return True

    def elementwise(self):
        for op, operands in _nabla.elementwise_ops():
            for dtype in DTYPES:
                self.one_elementwise(op, operands, dtype)

    def one_elementwise(self, op, operands, dtype):
        shape = (self.n,)
        if op == CONVERT:
            for to in DTYPES:
                if to != dtype:
                    self.add(f"convert_{IR_NAMES[dtype]}_to_{IR_NAMES[to]}", [(dtype, shape)], op, {"dtype": to})
            return
        dtypes = [dtype] * operands
        if op == SELECT:
            dtypes[0] = DType.bool
        result = self.result_dtype(op, dtypes)
        if result is None:
            return
        name = "_".join([op] + [IR_NAMES[d] for d in dtypes])
        if result != dtypes[0]:
            name += f"_to_{IR_NAMES[result]}"
        self.add(name, [(d, shape) for d in dtypes], op, {})
        if op == "gelu":
            self.add(name.replace("gelu", "gelu_none"), [(dtype, shape)], op, {"approximate": "none"})

    @staticmethod
    def result_dtype(op, dtypes):
        """What the op makes of these dtypes; None where it refuses them, or what it makes has no kernels."""
        try:
            dtype = _nabla.emit(op, [_nabla.full((1,), 1.0, d) for d in dtypes], {})[0].dtype
        except Error:
            return None
        return dtype if dtype in IR_NAMES else None

    def reductions(self):
        shape = (self.sizes["a"], self.sizes["b"], self.sizes["c"])
        for op in ("reduce_sum", "reduce_max", "reduce_min", "reduce_prod", "reduce_and", "reduce_or"):
            for dtype in DTYPES:
                self.add(f"{op}_{IR_NAMES[dtype]}", [(dtype, shape)], op, {"axes": [1]})
        for op in ("softmax", "log_softmax", "logsumexp"):
            for dtype in FLOATS:
                self.add(f"{op}_{IR_NAMES[dtype]}", [(dtype, (self.sizes["a"], self.sizes["b"]))], op, {"axis": 1})

    def products(self):
        b, m, k, j = (self.matrix[s] for s in ("batch", "m", "k", "j"))
        for dtype in FLOATS + [DType.int32]:
            for left in "nt":
                for right in "nt":
                    lhs = (b, m, k) if left == "n" else (b, k, m)
                    rhs = (b, k, j) if right == "n" else (b, j, k)
                    self.add(f"dot_{left}{right}_{IR_NAMES[dtype]}", [(dtype, lhs), (dtype, rhs)], "dot_general", {
                        "lhs_contract": [2 if left == "n" else 1], "rhs_contract": [1 if right == "n" else 2],
                        "lhs_batch": [0], "rhs_batch": [0]})


def main(path):
    """Writes the program to `path`."""
    kernels = Kernels()
    kernels.elementwise()
    kernels.reductions()
    kernels.products()
    kernels.program.save(path)
    print(f"{path}: {kernels.count} entries", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1])
