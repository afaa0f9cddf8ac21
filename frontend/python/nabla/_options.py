"""What arguments of public functions have to be: each check raises TypeError or ValueError that names the argument."""

import os

from ._core import whole


def flag(name, value):
    if not isinstance(value, bool):
        raise TypeError(f"{name} is True or False, got {value!r}")
    return value


def count(name, value, low, what):
    number = whole(value)
    if number is None:
        raise TypeError(f"{name} is {what}, got {value!r}")
    if not low <= number < 1 << 31:
        raise ValueError(f"{name} is {what}, got {value!r}")
    return number


def text(name, value):
    if not isinstance(value, str):
        raise TypeError(f"{name} is a text, got {value!r}")
    return value


def texts(name, values):
    listed = list(values) if hasattr(values, "__iter__") and not isinstance(values, str) else None
    if listed is None or not all(isinstance(v, str) for v in listed):
        raise TypeError(f"{name} is a list of texts, got {values!r}")
    return listed


def sizes(name, values):
    """Lists of sizes, such as "batch=8,64", between which options of passes have semicolons."""
    listed = texts(name, values)
    for v in listed:
        if ";" in v:
            raise ValueError(f"{name}: {v!r} has a semicolon: the lists of several sizes are elements of their own")
    return listed


def threads(value):
    return count("threads", value, 0, "a number of threads, or 0 for all")


def names(name, value):
    """Names, one or several."""
    listed = (value,) if isinstance(value, str) else value
    if not hasattr(listed, "__iter__") or not all(isinstance(v, str) for v in listed):
        raise TypeError(f"{name} is a name, or several, got {value!r}")
    return tuple(listed)


def places(name, value):
    """Places of arguments, one or several."""
    listed = value if hasattr(value, "__iter__") and not isinstance(value, str) else (value,)
    found = tuple(whole(v) for v in listed)
    if None in found:
        raise TypeError(f"{name} is the place of an argument, or several, got {value!r}")
    return found


def path(what, given):
    """The name of a file."""
    name = os.fsdecode(given) if isinstance(given, (str, bytes, os.PathLike)) else None
    if not name or "\0" in name:
        raise TypeError(f"{what}: path names a file, got {given!r}")
    return name


def limit(value):
    """Of bytes, as an option of nablac; None: there is none."""
    return "" if value is None else str(value) or "nothing"


def check_bounds(name, min, max, multiple):
    """Raises TypeError or ValueError unless these bounds of a symbolic size are integers of 64 bits."""
    for what, number in (("min", min), ("max", max), ("multiple", multiple)):
        n = whole(number)
        if n is None:
            raise TypeError(f"size {name}: {what} is {number!r}, expected an integer")
        if not -1 << 63 <= n < 1 << 63:
            raise ValueError(f"size {name}: {what} is {n}, more than a size can be, {(1 << 63) - 1}")
