"""What is traced and thrown away leaves nothing behind."""

import gc
import unittest

import nabla as nb


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def chain(x):
    for _ in range(200):
        x = nb.sin(x) + 1
    return x


NODES = 400


class LeaksTest(unittest.TestCase):
    def grows_by(self, f, rounds=60):
        """Bytes per node and round, once the allocator has what it needs."""
        for _ in range(10):
            f()
        gc.collect()
        before = resident_bytes()
        for _ in range(rounds):
            f()
        gc.collect()
        return (resident_bytes() - before) / rounds / NODES

    def test_traces(self):
        x = nb.ones((4,))
        self.assertLess(self.grows_by(lambda: nb.trace(chain, x)), 100)

    def test_traces_that_take_values_of_outside(self):
        x, y = nb.ones((4,)), nb.ones((4,)) * 2
        self.assertLess(self.grows_by(lambda: nb.trace(lambda v: chain(v) * y, x)), 100)

    def of_calls_grow_by(self, f):
        def calls():
            for _ in range(NODES):
                f()

        return self.grows_by(calls)

    def test_values_that_nobody_looks_at(self):
        x = nb.ones((4,))
        self.assertLess(self.of_calls_grow_by(lambda: nb.ones(3)), 100)
        self.assertLess(self.of_calls_grow_by(lambda: x * 2 + 1), 100)

    def test_beside_a_value_that_waits(self):
        waiting = nb.ones((4,)) * 2
        self.assertLess(self.of_calls_grow_by(lambda: nb.ones(3)), 100)
        self.assertEqual(waiting.tolist(), [2.0] * 4)

    def test_beside_values_that_gradients_may_be_asked_of(self):
        w, x = nb.ones((4,)), nb.ones((4,)) * 3
        w.requires_grad = True
        square = w * w * x
        nb.realize_all(square, x)
        tripled, last = w * 3, x
        self.assertLess(self.of_calls_grow_by(lambda: nb.ones(3)), 100)
        self.assertLess(self.of_calls_grow_by(lambda: (w * 2).realize()), 100)

        def chained():
            nonlocal last
            last = last * 1
            last.realize()

        self.assertLess(self.of_calls_grow_by(chained), 100)
        nb.sum(square + tripled + last).backward()
        self.assertEqual(w.grad.tolist(), [9.0] * 4)

    def test_inputs_of_values_that_nobody_looks_at(self):
        waiting = nb.ones((4,)) * 2
        row = bytearray(1 << 16)
        self.assertLess(self.of_calls_grow_by(lambda: nb.asarray(memoryview(row).cast("f")) + 1), 100)
        self.assertEqual(waiting.tolist(), [2.0] * 4)

    def test_shapes_and_texts_of_functions(self):
        x = nb.ones((4,))
        x.realize()
        self.assertLess(self.of_calls_grow_by(lambda: nb.eval_shape(lambda v: nb.sin(v) * 2, x)), 100)
        self.assertLess(self.of_calls_grow_by(lambda: nb.make_ir(lambda v: nb.sin(v) * 2)(x)), 100)

    def test_functions_are_called_after_others_were_forgotten(self):
        x = nb.ones((4,))
        x.realize()
        _, pullback = nb.vjp(lambda v: v * v, x)
        for _ in range(NODES):
            nb.eval_shape(lambda v: nb.sin(v) * 2, x)
            self.assertEqual(pullback(x)[0].tolist(), [2.0] * 4)

    def test_eager_transforms(self):
        x = nb.ones((4,))
        self.assertLess(self.grows_by(lambda: nb.grad(lambda v: nb.sum(chain(v)))(x).tolist()), 100)
        self.assertLess(self.grows_by(lambda: nb.vmap(chain)(x).tolist()), 100)


if __name__ == "__main__":
    unittest.main()
