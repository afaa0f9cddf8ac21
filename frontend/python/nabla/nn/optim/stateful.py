"""Optimisers that keep parameters and state: `step(grads)`, or `step()` after `backward()`."""

import collections.abc

from ... import _nabla
from ..._core import Tensor, asarray
from ..._mesh import laid_out_like
from ...tree import leaves_with_path, tree_flatten
from .._handles import keep_handle, write_tensor
from ..module import Module
from ..selectors import select
from . import functional


def _tree_of(params, name):
    """What the optimiser is handed as a Module or a tree: iterators as lists, `(name, tensor)` pairs as a dict."""
    if isinstance(params, Module):
        return params
    if isinstance(params, collections.abc.ItemsView):
        params = dict(params)
    elif isinstance(params, (collections.abc.Iterator, collections.abc.ValuesView)):
        params = list(params)
    if isinstance(params, (list, tuple)):
        if any(isinstance(x, dict) and "params" in x for x in params):
            raise TypeError(f"{name}: parameter groups, dicts with \"params\", are not taken: nn.optim.MultiOptimizer("
                            "model, [(\"encoder.**\", nn.optim.sgd(0.1)), ...]) updates parts of a model differently")
        if params and all(isinstance(x, tuple) and len(x) == 2 and isinstance(x[0], str) for x in params):
            params = dict(params)
    leaves = tree_flatten(params)[0]
    if not leaves:
        raise ValueError(f"{name}: no parameters are given")
    for x in leaves:
        if not isinstance(x, Tensor) and (isinstance(x, (float, set)) or hasattr(x, "__array__")):
            raise TypeError(f"{name}: a parameter is a {type(x).__name__}, which step() cannot change: hand over a "
                            "Module, its parameters(), or tensors, nb.asarray(x).requires_grad_()")
    if not any(isinstance(x, Tensor) for x in leaves):
        raise TypeError(f"{name}: {type(params).__name__} has no tensors: hand over a Module, its parameters(), or a "
                        "list or dict of tensors")
    return params


class Optimizer:
    """Base. `params` is a Module, or a tree of tensors, such as the list that `model.parameters()` is.

    step() changes a Module in place, and tensors that require gradients, as a model's parameters do, too: whoever holds
    them sees their new elements. Of other tensors it makes new ones, in `params`. `state` is the transform's.
    wrt: which tensors of a Module. lr: a number, a schedule, or a scalar tensor; assign `optimizer.lr` to change it.
    Raises TypeError for what has no tensors that can be changed, and for parameter groups.
    """

    _realize_params = True
    _realize_state = True

    def __init__(self, params, transform):
        self.params, self.transform = _tree_of(params, type(self).__name__), transform
        self.state = transform.init(self.params)
        if not isinstance(self.params, Module):
            for x in self._tensors().values():
                keep_handle(x)

    @classmethod
    def set_execution_policy(cls, *, auto_realize_updated_params=None, auto_realize_updated_state=None):
        """Whether step() computes the new parameters, and the new state, at once (the default) or when used."""
        if auto_realize_updated_params is not None:
            cls._realize_params = bool(auto_realize_updated_params)
        if auto_realize_updated_state is not None:
            cls._realize_state = bool(auto_realize_updated_state)

    @classmethod
    def get_execution_policy(cls):
        """What set_execution_policy set."""
        return {"auto_realize_updated_params": cls._realize_params, "auto_realize_updated_state": cls._realize_state}

    @property
    def lr(self):
        """The learning rate: a number, a scalar or a schedule."""
        return self.transform.lr

    @lr.setter
    def lr(self, value):
        self.transform.lr = value

    def __getattr__(self, name):
        """The rule's numbers: beta1, momentum, eps."""
        if name.startswith("_") or "transform" not in self.__dict__:
            raise AttributeError(name)
        if not hasattr(getattr(self.transform, "rule", None), name):
            raise AttributeError(f"{type(self).__name__} has no {name}")
        return getattr(self.transform.rule, name)

    @property
    def step_count(self):
        """How many steps there have been."""
        state = self.state[0] if isinstance(self.state, list) else self.state
        return state["step"].item()

    def _tensors(self):
        if isinstance(self.params, Module):
            return dict(select(getattr(self.transform, "wrt", "trainable")).apply(self.params))
        return dict(enumerate(tree_flatten(self.params)[0]))

    def _left_gradients(self):
        """What backward() left in `.grad`."""
        found = {name: getattr(x, "grad", None) for name, x in self._tensors().items()}
        if all(g is None for g in found.values()):
            raise ValueError(f"{type(self).__name__}.step(): no gradients were given, and none of its {len(found)} "
                             "parameters has a .grad: call backward() on a loss of them first"
                             + ("" if isinstance(self.params, Module) else "; a model whose parameters were assigned "
                                "anew needs a new optimizer"))
        if isinstance(self.params, Module):
            return found
        return tree_flatten(self.params)[1].unflatten(
            [functional.NO_GRADIENT if g is None else g for g in found.values()])

    def step(self, grads=None):
        """One update by gradients shaped like the parameters (for a Module also a dict by paths). Returns these.

        Without gradients those in `.grad` of the parameters, whose successors require gradients again. Parameters
        without a gradient stay as they are.
        """
        if grads is None:
            grads = self._left_gradients()
        new, state = self.transform.update(self.params, grads, self.state)
        wanted = tree_flatten(new)[0] if self._realize_params else []
        wanted += tree_flatten(state)[0] if self._realize_state else []
        _nabla.realize([x for x in wanted if hasattr(x, "is_traced") and not x.is_traced])
        self.state = state
        if not isinstance(self.params, Module):
            self._write(new)
            return self.params
        self.params.set_tensors({path: x for path, x, _ in new.named_tensors()})
        return self.params

    def _write(self, new):
        """Tensors that require gradients get the new elements themselves; others are replaced."""
        leaves, form = tree_flatten(self.params)
        after = tree_flatten(new)[0]
        for i, (x, y) in enumerate(zip(leaves, after)):
            if x is not y and getattr(x, "requires_grad", False):
                write_tensor(keep_handle(x), y)
                after[i] = x
        if any(x is not y for x, y in zip(leaves, after)):
            self.params = form.unflatten(after)

    def zero_grad(self):
        """Forgets what backward() left in `.grad`."""
        for x in self._tensors().values():
            x.grad = None

    def state_dict(self):
        """The state as `{name: tensor}`: "m.layers.0.weight", "step"."""
        return dict(leaves_with_path(self.state))

    def load_state_dict(self, state):
        """Sets the state from such a dict, laid out as it is now. Raises ValueError for names or shapes that differ."""
        leaves, form = tree_flatten(self.state)
        own = list(zip(form.leaf_paths(), leaves))
        names = {name for name, _ in own}
        if names != set(state):
            raise ValueError(f"load_state_dict: missing {sorted(names - set(state))[:5]}, not known "
                             f"{sorted(set(state) - names)[:5]}")
        values = []
        for name, x in own:
            x = asarray(x)
            new = asarray(state[name], x.dtype)
            if tuple(new.shape) != tuple(x.shape):
                raise ValueError(f"load_state_dict: {name} is {x.type_str()}, the state has {new.type_str()}")
            values.append(laid_out_like(new, x))
        self.state = form.unflatten(values)


class SGD(Optimizer):
    """Gradient descent with momentum: rules.SGD."""

    def __init__(self, params, lr, momentum=0.0, weight_decay=0.0, nesterov=False, *, wrt="trainable"):
        super().__init__(params, functional.sgd(lr, momentum, weight_decay, nesterov, wrt))


class AdamW(Optimizer):
    """Adam with decoupled weight decay: rules.AdamW."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, wrt="trainable"):
        super().__init__(params, functional.adamw(lr, betas, eps, weight_decay, wrt))


class Adam(Optimizer):
    """Adam: rules.Adam."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, wrt="trainable"):
        super().__init__(params, functional.adam(lr, betas, eps, weight_decay, wrt))


class RMSProp(Optimizer):
    """rules.RMSProp."""

    def __init__(self, params, lr, decay=0.99, eps=1e-8, momentum=0.0, weight_decay=0.0, *, wrt="trainable"):
        super().__init__(params, functional.rmsprop(lr, decay, eps, momentum, weight_decay, wrt))


class Adagrad(Optimizer):
    """rules.Adagrad."""

    def __init__(self, params, lr, eps=1e-10, weight_decay=0.0, *, wrt="trainable"):
        super().__init__(params, functional.adagrad(lr, eps, weight_decay, wrt))


class Lion(Optimizer):
    """rules.Lion."""

    def __init__(self, params, lr, betas=(0.9, 0.99), weight_decay=0.0, *, wrt="trainable"):
        super().__init__(params, functional.lion(lr, betas, weight_decay, wrt))


class Adafactor(Optimizer):
    """rules.Adafactor, whose options these are."""

    def __init__(self, params, lr, *, wrt="trainable", **options):
        super().__init__(params, functional.adafactor(lr, wrt, **options))


class MultiOptimizer(Optimizer):
    """Several optimisers over one Module: `[(selector, functional.Transform), ...]`, see functional.Multi."""

    def __init__(self, model, parts):
        super().__init__(model, functional.Multi(parts))

    @property
    def lr(self):
        """The learning rates of the parts."""
        return [t.lr for _, t in self.transform.parts]


__all__ = ["Adafactor", "Adagrad", "Adam", "AdamW", "Lion", "MultiOptimizer", "Optimizer", "RMSProp", "SGD"]
