"""Writes the programs of the kernels that eager tensors run on: an entry per op and dtypes, over symbolic extents.

    python make_kernels.py kernels.nir products.nir

Products of matrices are a program of their own: they call a library, whose opening takes longer than many sums.

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
        self.rows = {s: self.program.symbol(s, 1, 1 << 21, 1) for s in ("rows", "count")}
        self.matrix = {s: self.program.symbol(s, 1, 1 << 14, 1) for s in ("batch", "m", "k", "j")}
        self.large = {s: self.program.symbol(s, 1, 1 << 21, 1) for s in ("M", "K", "J")}
        self.count = 0

    def add(self, name, types, op, attributes):
        """An entry of one op; False where the op does not take these types."""
        inputs = [(f"x{i}", dtype, shape, None) for i, (dtype, shape) in enumerate(types)]
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
                self.add(f"{op}_rows_{IR_NAMES[dtype]}", [(dtype, tuple(self.rows.values()))], op, {"axes": [1]})
        for op in ("softmax", "log_softmax", "logsumexp"):
            for dtype in FLOATS:
                self.add(f"{op}_{IR_NAMES[dtype]}", [(dtype, (self.sizes["a"], self.sizes["b"]))], op, {"axis": 1})

    def products(self):
        self.matrices("dot", [self.matrix["batch"]], *(self.matrix[s] for s in ("m", "k", "j")))
        self.matrices("product", [], *self.large.values())

    def matrices(self, kind, batch, m, k, j):
        """Products of matrices, or of a batch of them, in all layouts."""
        first, batch_dims = len(batch), list(range(len(batch)))
        for dtype in FLOATS + [DType.int32]:
            for left in "nt":
                for right in "nt":
                    lhs = (*batch, m, k) if left == "n" else (*batch, k, m)
                    rhs = (*batch, k, j) if right == "n" else (*batch, j, k)
                    self.add(f"{kind}_{left}{right}_{IR_NAMES[dtype]}", [(dtype, lhs), (dtype, rhs)], "dot_general", {
                        "lhs_contract": [first + (left == "n")], "rhs_contract": [first + (right == "t")],
                        "lhs_batch": batch_dims, "rhs_batch": batch_dims})


def main(kernels_path, products_path):
    """Writes the two programs."""
    kernels, products = Kernels(), Kernels()
    kernels.elementwise()
    kernels.reductions()
    products.products()
    for program, path in ((kernels, kernels_path), (products, products_path)):
        program.program.save(path)
        print(f"{path}: {program.count} entries", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
