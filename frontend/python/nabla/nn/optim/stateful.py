"""Optimisers that keep parameters and state: `step(grads)`, or `step()` after `backward()`."""

from collections.abc import Iterator

from ... import _nabla
from ..._core import asarray
from ...tree import tree_flatten
from ..module import Module
from ..selectors import flat_paths, select
from . import functional


class Optimizer:
    """Base. `params` is a Module, which is updated in place, or tensors: a tree, or what `model.parameters()` gives.
    `state` is the transform's.

    wrt: which tensors of a Module. lr: a number, a schedule, or a scalar tensor; assign `optimizer.lr` to change it.
    Raises TypeError for groups of parameters, which are a MultiOptimizer, and ValueError where there are none.
    """

    _realize_params = True
    _realize_state = True

    def __init__(self, params, transform):
        if isinstance(params, Iterator):
            params = list(params)
        if isinstance(params, (list, tuple)) and not params:
            raise ValueError(f"{type(self).__name__}: no parameters are given")
        if isinstance(params, (list, tuple)) and any(isinstance(p, dict) and "params" in p for p in params):
            raise TypeError(f"{type(self).__name__}: groups of parameters are parts of "
                            "nn.optim.MultiOptimizer(model, [(selector, nn.optim.adamw(lr)), ...])")
        self.params, self.transform = params, transform
        self.state = transform.init(params)

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
            raise ValueError(f"{type(self).__name__}.step(): no gradients were given, and no parameter has a .grad: "
                             "call backward() on a loss first"
                             + ("" if isinstance(self.params, Module) else ". load_state_dict, astype and other "
                                "changes give a model new tensors: make the optimiser after them, or hand over the "
                                "model itself instead of its parameters()"))
        return found if isinstance(self.params, Module) else functional.Leaves(found.values())

    def step(self, grads=None):
        """One update by gradients shaped like the parameters (for a Module also a dict by paths). Returns these.

        Without gradients those in `.grad` of the parameters, whose successors require gradients again; where `params`
        are tensors, these are changed in place, and those without a .grad stay as they are.
        """
        left = grads is None
        old = self._tensors() if left else {}
        if left:
            grads = self._left_gradients()
        new, self.state = self.transform.update(self.params, grads, self.state)
        if isinstance(self.params, Module):
            self.params.set_tensors({path: x for path, x, _ in new.named_tensors()})
        elif left:
            _write(old.values(), tree_flatten(new)[0])
        else:
            self.params = new
        wanted = tree_flatten(self.params)[0] if self._realize_params else []
        wanted += tree_flatten(self.state)[0] if self._realize_state else []
        _nabla.realize([x for x in wanted if hasattr(x, "is_traced") and not x.is_traced])
        if left and isinstance(self.params, Module):
            for name, x in self._tensors().items():
                if getattr(old[name], "requires_grad", False):
                    x.requires_grad = True
        return self.params

    def zero_grad(self):
        """Forgets what backward() left in `.grad`."""
        for x in self._tensors().values():
            x.grad = None

    def state_dict(self):
        """The state as `{name: tensor}`: "m.layers.0.weight", "step"."""
        return dict(flat_paths(self.state))

    def load_state_dict(self, state):
        """Sets the state from such a dict. Raises ValueError for names or shapes that differ."""
        own = flat_paths(self.state)
        names = {name for name, _ in own}
        if names != set(state):
            raise ValueError(f"load_state_dict: missing {sorted(names - set(state))[:5]}, not known "
                             f"{sorted(set(state) - names)[:5]}")
        values = {}
        for name, x in own:
            new = asarray(state[name], x.dtype)
            if tuple(new.shape) != tuple(x.shape):
                raise ValueError(f"load_state_dict: {name} is {x.type_str()}, the state has {new.type_str()}")
            values[id(x)] = new
        leaves, form = tree_flatten(self.state)
        self.state = form.unflatten([values[id(x)] for x in leaves])


def _write(tensors, values):
    """Gives tensors that require gradients other values, in place: who else holds them, such as a model, sees them."""
    changed = [(x, new) for x, new in zip(tensors, values) if new is not x]
    _nabla.realize([new for _, new in changed])
    for x, new in changed:
        wanted, x.requires_grad = x.requires_grad, False
        x._rebind(new)
        x.requires_grad = wanted


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
