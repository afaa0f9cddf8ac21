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

    def test_eager_transforms(self):
        x = nb.ones((4,))
        self.assertLess(self.grows_by(lambda: nb.grad(lambda v: nb.sum(chain(v)))(x).tolist()), 100)
        self.assertLess(self.grows_by(lambda: nb.vmap(chain)(x).tolist()), 100)


if __name__ == "__main__":
    unittest.main()
