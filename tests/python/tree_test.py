"""Trees of containers."""

import collections
import dataclasses

import numpy as np
import pytest

import nabla as nb

Point = collections.namedtuple("Point", "x y")


class Box:
    def __init__(self, a, label):
        self.a, self.label = a, label


nb.register_pytree_node(Box, lambda b: ((b.a,), b.label), lambda label, c: Box(c[0], label))


def test_containers_are_taken_apart_and_put_together():
    tree = {"b": [1, (2, None)], "a": Point(3, {"z": 4})}
    leaves, form = nb.tree_flatten(tree)
    assert leaves == [3, 4, 1, 2]  # dicts in the order of their keys
    assert nb.tree_unflatten(form, leaves) == tree
    assert nb.tree_structure(tree) == form and hash(nb.tree_structure(tree)) == hash(form)
    assert repr(form) == "{'a': Point(*, {'z': *}), 'b': [*, (*, None)]}"


def test_forms_differ_by_kind_and_by_data():
    forms = [nb.tree_structure(t) for t in ([1], (1,), {"a": 1}, {"b": 1}, Box(1, "p"), Box(1, "q"), 1, None)]
    for i, a in enumerate(forms):
        for j, b in enumerate(forms):
            assert (a == b) == (i == j)


def test_registered_classes_keep_their_data():
    doubled = nb.tree_map(lambda x: 2 * x, Box(4, "kept"))
    assert (doubled.a, doubled.label) == (8, "kept")


def test_tree_map_refuses_other_forms():
    with pytest.raises(ValueError, match="trees of different form: a list of 2 and a list of 1"):
        nb.tree_map(lambda a, b: a, [1, 2], [1])


def test_wrong_number_of_leaves():
    with pytest.raises(ValueError, match="a tree of 2 leaves gets 3"):
        nb.tree_structure([1, 2]).unflatten([1, 2, 3])


@dataclasses.dataclass(frozen=True)
class Options:
    value: object


@pytest.mark.parametrize("wrap", [lambda v: v, lambda v: (v,), lambda v: [0, (v, "x")], lambda v: {"a": v},
                                  lambda v: Options(v), lambda v: frozenset([v]), lambda v: Point(v, 1)])
def test_static_values_that_are_equal_and_not_alike(wrap):
    makes = [lambda: 1, lambda: 1.0, lambda: True, lambda: 0, lambda: 0.0, lambda: -0.0, lambda: False,
             lambda: np.float64(1), lambda: np.float32(1), lambda: np.float32(-0.0), lambda: np.float32(0),
             lambda: float("nan"), lambda: complex(0, -0.0), lambda: complex(0, 0.0), lambda: "1", lambda: None]
    for i, a in enumerate(makes):
        for j, b in enumerate(makes):
            x, y = wrap(a()), wrap(b())
            assert nb.tree.same(x, y) == (i == j), (x, y)
            assert (nb.tree.Static(x) == nb.tree.Static(y)) == (i == j)
            if i == j:
                assert hash(nb.tree.Static(x)) == hash(nb.tree.Static(y))
            forms = [nb.tree_structure(Box(0, v)) for v in (x, y)]
            assert (forms[0] == forms[1]) == (i == j)


def test_arrays_and_numbers_hold_numbers():
    for x in (1, 1.5, True, np.ones(2), np.float32(1), np.bool_(True), nb.ones(2)):
        assert nb.tree.is_array(x)
    for x in (None, "a", b"a", [], {}, len, object(), nb.float32):
        assert not nb.tree.is_array(x)
    assert nb.tree.float_tensor(np.ones(2, np.float16)).dtype == nb.float16 and nb.tree.float_tensor(1.5).item() == 1.5
    for x in (1, True, np.arange(2), "a", None):
        assert nb.tree.float_tensor(x) is None
