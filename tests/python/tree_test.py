"""Trees of containers."""

import collections

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
