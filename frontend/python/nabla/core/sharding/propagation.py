"""Rules of layouts: what `Operation.sharding_rule` returns."""

from ... import _nabla


class OpShardingRule:
    """How results of an op lie by how its operands do, as a text: "m k, k n -> m n".

    A word per dimension: a name (letters, digits and _, a digit never first), which two dimensions share that lie along
    the same axes; `1` for one of one element; `(h d)` for a product of factors, major first; `...` for any dimensions,
    counted from the last one. A name that no operand has is one along which nothing lies.
    What the text says is checked where it is used: Error (E0204) for a text of another form, or for names whose sizes
    differ.
    """

    def __init__(self, equation):
        if not isinstance(equation, str):
            raise TypeError(f"a rule of layouts is a text, such as \"m k, k n -> m n\", got {equation!r}")
        self.equation = equation

    def __eq__(self, other):
        return isinstance(other, OpShardingRule) and self.equation == other.equation

    def __hash__(self):
        return hash(self.equation)

    def __repr__(self):
        return f"OpShardingRule({self.equation!r})"


class OpShardingRuleTemplate(OpShardingRule):
    """A rule for operands of any shapes."""

    @staticmethod
    def parse(equation, input_shapes=None):
        """The rule that the text says."""
        return OpShardingRuleTemplate(equation)

    def instantiate(self, input_shapes, output_shapes):
        """The rule for operands and results of these shapes. Raises Error (E0204) where the text has another number of
        tensors."""
        left, _, right = self.equation.partition("->")
        for side, shapes, what in ((left, input_shapes, "operands"), (right, output_shapes, "results")):
            said = len(side.split(","))
            if said != len(shapes):
                _nabla.fail(204, f"rule \"{self.equation}\" says {said} {what}, there are {len(shapes)}: "
                            f"{', '.join(map(str, shapes))}", "the words of each stand between commas")
        return OpShardingRule(self.equation)


__all__ = ["OpShardingRule", "OpShardingRuleTemplate"]
