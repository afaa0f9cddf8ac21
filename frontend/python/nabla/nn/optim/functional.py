"""Optimisers as functions over trees of parameters: `init(params) -> state`, `update(params, grads, state)`.

Parameters are a tree of tensors, or a Module: then those that a selector names ("trainable" by default) are updated,
the gradients are what `nn.value_and_grad` gives (a dict by paths) or `nb.grad` (a module), and the result is a new
module. States are dicts of tensors and trees, so that whole steps compile. Leaves may be arrays or Python numbers, too:
the floating ones become tensors. Leaves that are not floating stay as they are.
"""

import inspect

from ... import _nabla
from ..._core import DType, asarray, astype
from ...autograd import untracked
from ...tree import float_tensor, tensor_leaves, tree_flatten
from .. import _math as m
from ..module import Module
from ..selectors import select
from . import rules


class _NoGradient:
    """Stands for the gradient of a parameter that has none."""

    def __repr__(self):
        return "NO_GRADIENT"


NO_GRADIENT = _NoGradient()  # in a tree, where None has no leaves


class _Parts:
    """The leaves of a tree or module that are updated, and the way back. `tensors` are the floating ones, with None in
    the places of other leaves."""

    def __init__(self, params, wrt):
        self.params = params
        if isinstance(params, Module):
            items = select(wrt).apply(params)
            self.names, self.all = [p for p, _ in items], [x for _, x in items]
            self.form = None
        else:
            self.all, self.form = tree_flatten(params)
            self.names = None
        self.tensors = [float_tensor(x) for x in self.all]
        if self.form is None:
            for name, x, given in zip(self.names, self.tensors, self.all):
                if x is None:
                    raise TypeError(f"optimiser: {name} is {asarray(given).type_str()}; only floating tensors can be "
                                    "updated")

    def tree(self, values):
        """A tree for the state: a dict by paths of a module, otherwise the parameters' form."""
        return dict(zip(self.names, values)) if self.form is None else self.form.unflatten(values)

    def leaves(self, tree, what):
        """The values of such a tree, or of a module, in order."""
        if self.form is None:
            if isinstance(tree, Module):
                tree = {path: x for path, x, _ in tree.named_tensors()}
            if not isinstance(tree, dict):
                raise TypeError(f"optimiser: {what} of a Module are a dict by paths or a Module, got "
                                f"{type(tree).__name__}")
            missing = [n for n in self.names if n not in tree]
            if missing:
                raise ValueError(f"optimiser: {what} lack {', '.join(missing[:5])}"
                                 + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
                                 + "; update takes (params, grads, state)")
            return [tree[n] for n in self.names]
        leaves, form = tree_flatten(tree)
        if form != self.form:
            raise ValueError(f"optimiser: {what} have the form {form}, the parameters {self.form}; "
                             "update takes (params, grads, state) and returns new params and state")
        return leaves

    def rebuilt(self, values):
        """The parameters with new tensors."""
        if self.form is None:
            return self.params.clone().set_tensors(dict(zip(self.names, values)))
        return self.form.unflatten(values)


class Transform:
    """An optimiser without state of its own: a rule, a learning rate (a number, a scalar or a schedule), a selector."""

    def __init__(self, rule, lr, wrt="trainable"):
        self.rule, self.lr, self.wrt = rule, lr, wrt

    def init(self, params):
        """The first state: the rule's slots, trees like the parameters, and "step", an int32 scalar."""
        parts = _Parts(params, self.wrt)
        begun = [tuple(given for _ in self.rule.slot_names) if p is None else self.rule.begin(p)
                 for p, given in zip(parts.tensors, parts.all)]
        state = {name: parts.tree([b[i] for b in begun]) for i, name in enumerate(self.rule.slot_names)}
        state["step"] = asarray(0, DType.int32)
        return state

    def update(self, params, grads, state, lr=None):
        """`(new params, new state)`. `lr` stands in for the own learning rate. No part of what `backward()` sees."""
        with untracked():
            return self._updated(params, grads, state, lr)

    def _updated(self, params, grads, state, lr):
        parts = _Parts(params, self.wrt)
        gradients = parts.leaves(grads, "gradients")
        slots = [parts.leaves(state[name], name) for name in self.rule.slot_names]
        step = m.add(asarray(state["step"], DType.int32), 1)
        lr = self.lr if lr is None else lr
        rate = lr(step) if callable(lr) else lr
        new, kept = [], []
        for i, (p, g) in enumerate(zip(parts.tensors, gradients)):
            own = tuple(s[i] for s in slots)
            if p is None or g is None or g is NO_GRADIENT:
                new.append(parts.all[i] if p is None else p)
                kept.append(own)
                continue
            g, own = asarray(g), tuple([asarray(s) for s in own])
            if tuple(g.shape) != tuple(p.shape):
                raise ValueError(f"optimiser: gradient {g.type_str()} for parameter {p.type_str()}")
            wide = DType.float64 if p.dtype == DType.float64 else DType.float32
            p, after = self.rule.apply(p, m.cast(g, p.dtype), own, step, asarray(rate, wide))
            new.append(p)
            kept.append(after)
        out = {name: parts.tree([k[i] for k in kept]) for i, name in enumerate(self.rule.slot_names)}
        out["step"] = step
        return parts.rebuilt(new), out

    def __repr__(self):
        return f"Transform({self.rule!r}, lr={self.lr!r}, wrt={self.wrt!r})"


class Multi:
    """Several transforms over a Module, each for the tensors of its selector.

    parts: `[(selector, transform), ...]`. A tensor belongs to the first selector that matches; what matches none
    stays as it is. States are lists. Raises ValueError when a selector gets nothing.
    """

    def __init__(self, parts):
        self.parts = [(select(s), t) for s, t in parts]
        if not self.parts:
            raise ValueError("Multi: no parts are given")

    def _groups(self, model):
        if not isinstance(model, Module):
            raise TypeError(f"Multi is for a Module, got {type(model).__name__}")
        taken, out = set(), []
        for selector, transform in self.parts:
            paths = [p for p, _ in (selector & "trainable").apply(model) if p not in taken]
            if not paths:
                raise ValueError(f"Multi: {selector!r} gets no parameter of {type(model).__name__} "
                                 + ("that an earlier selector leaves" if taken else ""))
            taken.update(paths)
            group = frozenset(paths)
            out.append(Transform(transform.rule, transform.lr, lambda path, x, group=group: path in group))
        return out

    def init(self, params):
        """A state per part."""
        return [t.init(params) for t in self._groups(params)]

    def update(self, params, grads, state):
        """`(new params, new states)`."""
        out = []
        for transform, own in zip(self._groups(params), state):
            params, own = transform.update(params, grads, own)
            out.append(own)
        return params, out


# ---- Transforms by name


_ARGUMENTS = {
    "lr": "the learning rate: a number, a scalar tensor, or a schedule of the step (nn.optim.schedules)",
    "betas": "(b1, b2), how much of the running means of gradients and of their squares is kept per step",
    "eps": "what is added to the root, so that it is never 0",
    "decay": "how much of the running mean of squares is kept",
    "weight_decay": "the factor of the parameters in the formula", "momentum": "how much of the last direction is kept",
    "nesterov": "whether the gradient is taken as after the step", "wrt": "which tensors are updated: a selector",
    "options": "eps, clip, decay_exponent, scale_by_parameter, weight_decay: those of the rule",
}


def _documented(rule):
    """Writes the docstring of a transform: the rule's formula and source, its arguments, what it returns and raises."""
    def decorate(f):
        rows = [f"    {name}: {_ARGUMENTS[name]}" for name in inspect.signature(f).parameters]
        f.__doc__ = (f"{inspect.getdoc(rule)}\n\nArguments:\n" + "\n".join(rows) + "\n\nReturns a Transform: "
                     "`state = t.init(params)`, `params, state = t.update(params, gradients, state)`, where params is "
                     "a Module or a tree.\nRaises ValueError for arguments out of range.")
        return f

    return decorate


@_documented(rules.SGD)
def sgd(lr, momentum=0.0, weight_decay=0.0, nesterov=False, wrt="trainable"):
    return Transform(rules.SGD(momentum, weight_decay, nesterov), lr, wrt)


@_documented(rules.AdamW)
def adamw(lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, wrt="trainable"):
    return Transform(rules.AdamW(*betas, eps, weight_decay), lr, wrt)


@_documented(rules.Adam)
def adam(lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, wrt="trainable"):
    return Transform(rules.Adam(*betas, eps, weight_decay), lr, wrt)


@_documented(rules.RMSProp)
def rmsprop(lr, decay=0.99, eps=1e-8, momentum=0.0, weight_decay=0.0, wrt="trainable"):
    return Transform(rules.RMSProp(decay, eps, momentum, weight_decay), lr, wrt)


@_documented(rules.Adagrad)
def adagrad(lr, eps=1e-10, weight_decay=0.0, wrt="trainable"):
    return Transform(rules.Adagrad(eps, weight_decay), lr, wrt)


@_documented(rules.Lion)
def lion(lr, betas=(0.9, 0.99), weight_decay=0.0, wrt="trainable"):
    return Transform(rules.Lion(*betas, weight_decay), lr, wrt)


@_documented(rules.Adafactor)
def adafactor(lr, wrt="trainable", **options):
    return Transform(rules.Adafactor(**options), lr, wrt)


# ---- The functions of eager libraries


def _scalars(param, lr):
    return asarray(lr, DType.float64 if param.dtype == DType.float64 else DType.float32)


def sgd_step(param, grad, momentum_buffer=None, *, lr, weight_decay=0.0, momentum=0.0, nesterov=False):
    """`(new param, new buffer)` of one tensor; the buffer is None without momentum, and zeros when None is given."""
    rule, param = rules.SGD(momentum, weight_decay, nesterov), asarray(param)
    slots = rule.begin(param) if momentum_buffer is None or not momentum else (asarray(momentum_buffer),)
    new, kept = rule.apply(param, m.cast(grad, param.dtype), slots, None, _scalars(param, lr))
    return new, kept[0] if kept else None


def sgd_init(params, momentum=0.0):
    """The state that sgd_update takes."""
    return sgd(0.0, momentum).init(params)


def sgd_update(params, grads, state=None, *, lr, momentum=0.0, weight_decay=0.0, nesterov=False):
    """`(new params, new state)`; without a state it begins. state: "momentum_buffers" (with momentum) and "step"."""
    transform = sgd(lr, momentum, weight_decay, nesterov)
    return transform.update(params, grads, transform.init(params) if state is None else state)


def adamw_step(param, grad, m, v, step, *, lr, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0,
               bias_correction=True):
    """`(new param, new m, new v)` of one tensor; step, an int or integer scalar, counts from 1."""
    rule, param = rules.AdamW(beta1, beta2, eps, weight_decay, bias_correction), asarray(param)
    slots = (asarray(m), asarray(v))
    new, kept = rule.apply(param, astype(grad, param.dtype), slots, asarray(step, DType.int32), _scalars(param, lr))
    return new, *kept


def adamw_init(params):
    """The state of adamw_update: {"m", "v", "step"}, zeros."""
    return adamw(0.0).init(params)


def adamw_update(params, grads, state, *, lr, weight_decay=0.0, beta1=0.9, beta2=0.999, eps=1e-8, bias_correction=True,
                 realize=None):
    """`(new params, new state)`. With `realize` their values are computed now, unless they are traced."""
    transform = Transform(rules.AdamW(beta1, beta2, eps, weight_decay, bias_correction), lr)
    out = transform.update(params, grads, state)
    if realize:
        realize_now(out)
    return out


def realize_now(tree):
    """Computes the tensors of a tree that are not traced."""
    _nabla.realize([x for x in tensor_leaves(tree) if not x.is_traced])


__all__ = ["Multi", "Transform", "adafactor", "adagrad", "adam", "adamw", "adamw_init", "adamw_step", "adamw_update",
           "lion", "rmsprop", "sgd", "sgd_init", "sgd_step", "sgd_update"]
