"""Keys of random numbers, their words, and the global key of numbers that are drawn without one."""

import operator
import threading

from . import _nabla
from ._core import DType, Error, Tensor, asarray, astype, dtype_of
from .ops._common import emit1, sizes_of

_SPLIT = 0x73706C69  # of split: its children are not those of fold_in with small numbers


def key(seed):
    """The key of an integer seed of 64 bits: its high and low half, as `nabla-run --seed` fills inputs `seed`."""
    if not -1 << 63 <= operator.index(seed) < 1 << 64:
        raise ValueError(f"key: the seed {seed} does not fit into 64 bits")
    seed = operator.index(seed) & 0xFFFFFFFFFFFFFFFF
    return asarray([seed >> 32, seed & 0xFFFFFFFF], DType.uint32)


PRNGKey = key


def checked(k):
    """k as a key. Raises TypeError for other tensors."""
    k = asarray(k)
    if k.dtype != DType.uint32 or k.shape != (2,):
        raise TypeError(f"a key is a uint32 tensor of two words, from nabla.random.key(seed), split or fold_in; got "
                        f"{k.type_str()}")
    return k


def fold_in(key, data):
    """A new key for each integer `data` (a Python int or an integer scalar, of which the low 32 bits count)."""
    if isinstance(data, _nabla.Dim):
        data = asarray(data, DType.int64)
    elif not isinstance(data, Tensor):
        data = asarray(operator.index(data) & 0xFFFFFFFF, DType.uint32)
    return emit1("rng_fold_in", [checked(key), astype(data, DType.uint32)], {})


def split(key, num=2):
    """`num` independent keys, as the rows of a uint32 tensor [num, 2]: words of a stream of its own."""
    return emit1("rng_bits", [fold_in(key, _SPLIT)], {"shape": [num, 2]})


def bits(key, shape=(), dtype="uint32"):
    """Uniform 32-bit words: uint32, or uint64 of two of them."""
    shape, dtype = sizes_of(shape, "bits"), dtype_of(dtype)
    if dtype == DType.uint64:
        words = emit1("rng_bits", [checked(key)], {"shape": shape + [2]})
        low, high = [astype(w, DType.uint64) for w in _nabla.unbind(words, len(shape))]
        return emit1("or", [emit1("shift_left", [high, 32], {}), low], {})
    words = emit1("rng_bits", [checked(key)], {"shape": shape})
    if not dtype.is_integer() or dtype.itemsize > 4:
        raise TypeError(f"bits: {dtype} is none of the unsigned integers")
    return astype(words, dtype)


# ---- The global key


class _Global(threading.local):
    def __init__(self):
        self.seed, self.draws = 0, 0


_global = _Global()


def seed(n=0):
    """Begins the numbers without a key anew, for this thread."""
    _global.seed, _global.draws = operator.index(n), 0


def get_state():
    """(seed, number of draws) of this thread; set_state goes back to it."""
    return _global.seed, _global.draws


def set_state(state):
    """Continues where get_state was called."""
    _global.seed, _global.draws = [operator.index(v) for v in state]


def next_key():
    """A key of the global sequence, which advances. Raises Error in functions that are compiled or repeated."""
    if _nabla.is_tracing():
        raise Error("a random number without a key inside of a traced function: it would be the same at every call. "
                    "Pass a key, nabla.random.normal(key, shape), and split or fold_in it for every step")
    n = _global.draws
    _global.draws += 1
    return fold_in(fold_in(key(_global.seed), n >> 32), n)
