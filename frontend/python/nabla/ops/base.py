"""Ops as classes: a kernel that is written in ops of nabla, with derivatives of its own where it has any."""

from .._core import Tensor, asarray
from ._common import axis_of

# What classes of the Python library nabla-ml may define too, and what says it here.
_FOLLOWS = {
    "execute": "kernel says what the op computes",
    "compute_physical_shape": "shapes and dtypes follow from the ops that kernel calls",
    "infer_output_rank": "shapes follow from the ops that kernel calls",
    "infer_output_shape": "shapes follow from the ops that kernel calls",
    "infer_sharding_spec": "layouts follow from the ops that kernel calls, or from sharding_rule",
    "partial_passthrough_axes": "sums over ranks are taken where the ops that kernel calls need them",
    "collective_reduce_type": "the ops that kernel calls say how ranks' parts are combined",
    "compute_cost": "costs are those of the ops that kernel calls",
    "memory_cost": "costs are those of the ops that kernel calls",
    "communication_cost": "costs are those of the ops that kernel calls",
}


class Operation:
    """An op: `kernel(args, kwargs)` maps a list of tensors to one, or to a list.

    `vjp_rule(primals, cotangents, outputs, kwargs)` gives the gradients by the args, None for zero;
    `jvp_rule(primals, tangents, outputs, kwargs)` the tangents of the outputs: a list, or the only one itself. Without
    rules the derivative is that of the kernel; where one of them is there, it is used for both modes as far as it says.
    `sharding_rule(input_shapes, output_shapes, **kwargs)` says how results lie by how the args do. Instances keep no
    state.

    `op(args, kwargs)` takes a list of tensors and gives a list of them; `op(x, y, axis=0)` gives the result itself.
    Raises TypeError for a class that defines what follows from its kernel here, such as compute_physical_shape.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, why in _FOLLOWS.items():
            if name in vars(cls):
                raise TypeError(f"{cls.__name__}.{name} would not be called: {why}. Leave it out")

    @property
    def name(self):
        """The name in printed IR."""
        return type(self).__name__

    def kernel(self, args, kwargs):
        """The results of the op."""
        raise NotImplementedError(f"{type(self).__name__} has no kernel")

    def adapt_kwargs(self, args, kwargs, batch_dims=0):
        """What kernel and rules get as kwargs. vmap keeps dimensions of batches out of sight: none are skipped."""
        return kwargs

    def vjp_rule(self, primals, cotangents, outputs, kwargs):
        """The gradients by the args."""
        raise NotImplementedError(f"{type(self).__name__} has no vjp_rule")

    def jvp_rule(self, primals, tangents, outputs, kwargs):
        """The tangents of the outputs."""
        raise NotImplementedError(f"{type(self).__name__} has no jvp_rule")

    def sharding_rule(self, input_shapes, output_shapes, **kwargs):
        """How results lie by how the args do, whatever the ops that kernel calls find: a text such as
        "m k, k n -> m n", or what nabla.core.sharding.propagation makes of one. None: as those ops find."""
        return None

    def _has(self, rule):
        return getattr(type(self), rule) is not getattr(Operation, rule)

    def _by_rule(self, args, outputs, kwargs):
        rule = self.sharding_rule([x.shape for x in args], [y.shape for y in outputs], **kwargs)
        if rule is None:
            return outputs
        from .communication import _by_rule
        return _by_rule(f"{self.name}.sharding_rule", outputs, args, rule)

    def _listed(self, rule, given):
        if isinstance(given, Tensor):
            return (given,)
        if not isinstance(given, (list, tuple)):
            raise TypeError(f"{self.name}.{rule} gives {given!r}, expected a list of tensors, with None for a zero")
        return tuple(given)

    def __call__(self, *args, **kwargs):
        listed = len(args) in (1, 2) and isinstance(args[0], (list, tuple)) and not kwargs
        if listed:
            args, kwargs = args[0], dict(args[1]) if len(args) == 2 and args[1] else {}
        args = [asarray(a) for a in args]
        out = self._applied(args, self.adapt_kwargs(args, kwargs))
        return out if listed else out[0] if len(out) == 1 else out

    def _applied(self, args, kwargs):
        from ..transforms.rules import custom_jvp, custom_vjp

        def plain(*xs):
            out = self.kernel(list(xs), kwargs)
            out = tuple(out) if isinstance(out, (list, tuple)) else (out,)
            if not out or not all(isinstance(t, Tensor) for t in out):
                raise TypeError(f"{self.name}: its kernel gives {out!r}, expected tensors")
            return self._by_rule(xs, out, kwargs)

        def tangents(primals, ts):
            out = plain(*primals)
            return out, self._listed("jvp_rule", self.jvp_rule(list(primals), list(ts), list(out), kwargs))

        def forward(*xs):
            out = f(*xs)
            return out, (xs, out)

        def backward(kept, cotangents):
            primals, outputs = kept
            return self._listed("vjp_rule", self.vjp_rule(list(primals), list(cotangents), list(outputs), kwargs))

        plain.__name__ = self.name
        f = plain
        if self._has("jvp_rule"):
            f = custom_jvp(plain)
            f.defjvp(tangents)
        if not self._has("vjp_rule"):
            return list(f(*args))
        whole = custom_vjp(f)
        whole.defvjp(forward, backward)
        return list(whole(*args))


class UnaryOperation(Operation):
    """An op on one tensor, element by element. `_derivative(primal, output)` gives d output / d primal; otherwise the
    rules of Operation."""

    def _derivative(self, primals, output):
        return NotImplemented

    def _has(self, rule):
        own = getattr(type(self), rule) is not getattr(UnaryOperation, rule)
        return own or type(self)._derivative is not UnaryOperation._derivative

    def vjp_rule(self, primals, cotangents, outputs, kwargs):
        """The cotangent times the derivative."""
        return [cotangents[0] * self._derivative(primals[0], outputs[0])]

    def jvp_rule(self, primals, tangents, outputs, kwargs):
        """The tangent times the derivative."""
        return [tangents[0] * self._derivative(primals[0], outputs[0])]


class BinaryOperation(Operation):
    """An op on two tensors, element by element. They are broadcast to one shape before kernel and rules see them."""

    def _applied(self, args, kwargs):
        from .binary import broadcast_arrays
        if len(args) != 2:
            raise TypeError(f"{self.name} takes two tensors, got {len(args)}")
        return super()._applied(list(broadcast_arrays(*args)), kwargs)


class AxisOp(Operation):
    """An op with a dimension among its kwargs: `axis` and `dim` are counted from the front when kernel and rules get
    them. Raises Error (E0204) where there is no such dimension."""

    def adapt_kwargs(self, args, kwargs, batch_dims=0):
        """`axis` and `dim` counted from the front."""
        out = dict(kwargs)
        for key in ("axis", "dim"):
            if isinstance(out.get(key), int):
                out[key] = axis_of(out[key], args[0].ndim, self.name)
            elif isinstance(out.get(key), (list, tuple)):
                out[key] = tuple(axis_of(a, args[0].ndim, self.name) for a in out[key])
        return out


class ReduceOperation(AxisOp):
    """A reduction over the dimensions `axis` (an int, several, or None for all), which `keepdims` keeps at size 1:
    kernel and rules get a tuple and a bool."""

    def adapt_kwargs(self, args, kwargs, batch_dims=0):
        """`axis` as a tuple counted from the front, and `keepdims`."""
        axis = kwargs.get("axis")
        axis = range(args[0].ndim) if axis is None else [axis] if isinstance(axis, int) else axis
        return super().adapt_kwargs(args, {**kwargs, "axis": tuple(axis), "keepdims": bool(kwargs.get("keepdims"))})


class ShapeOp(Operation):
    """An op that moves elements alone: reshapes, broadcasts."""


class CreationOperation(Operation):
    """An op that makes a tensor of none: its gradients are zero."""


class CollectiveOperation(Operation):
    """An op that ranks do together: kernel is written for one rank, on its part of the tensor, and calls collectives.
    `output_spec(spec, kwargs)` says how the results' parts are laid out, by default as the operand. Raises Error
    (E0210) for a tensor that is laid out over no mesh, TypeError for a class that has a sharding_rule beside it."""

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if "sharding_rule" in vars(cls):
            raise TypeError(f"{cls.__name__}.sharding_rule would not be called: kernel gets parts, and output_spec "
                            "says how those of the result lie. Leave it out")

    def output_spec(self, spec, kwargs):
        """The ShardingSpec of the result."""
        return spec

    def _applied(self, args, kwargs):
        from . import communication
        if len(args) != 1:
            raise TypeError(f"{self.name} takes one tensor, got {len(args)}")
        x = args[0]
        spec = communication._need_spec(x, self.name)

        def body(part):
            out = super(CollectiveOperation, self)._applied([part], kwargs)
            if len(out) != 1 or not isinstance(out[0], Tensor):
                raise TypeError(f"{self.name}: its kernel gives {len(out)} tensors, expected one")
            return out[0]

        out = self.output_spec(spec, kwargs)
        if not isinstance(out, communication.ShardingSpec):
            raise TypeError(f"{self.name}.output_spec gives {out!r}, expected a ShardingSpec")
        return [communication._on_parts(self.name, x, spec, out, body)]


def ensure_tensor(x):
    """x as a tensor."""
    return asarray(x)


__all__ = ["AxisOp", "BinaryOperation", "CollectiveOperation", "CreationOperation", "Operation", "ReduceOperation",
           "ShapeOp", "UnaryOperation", "ensure_tensor"]
