"""Learning rates by step: functions of a step, an int or an integer scalar counted from 1, that give a float32 scalar.

They stand wherever an optimiser takes `lr`.
"""

import math

from ... import _nabla
from ..._core import asarray
from .. import _math as m


def _f32(step):
    return asarray(step, "float32")


def _progress(step, warmup, total):
    return _nabla.clip(m.div(m.sub(step, float(warmup)), float(max(1, total - warmup))), 0.0, 1.0)


def _warmed_up(step, warmup, peak, later):
    if warmup <= 0:
        return later
    return m.where(m.op("lt", step, _f32(warmup)), m.mul(step, peak / warmup), later)


def constant(rate):
    """The same at every step."""
    return lambda step: _f32(rate)


def cosine(peak, total, warmup=0, final=0.0):
    """Linear from 0 to `peak` in `warmup` steps, then half a cosine down to `final` at step `total`."""
    def schedule(step):
        step = _f32(step)
        wave = m.add(m.mul(m.op("cos", m.mul(_progress(step, warmup, total), math.pi)), 0.5), 0.5)
        return _warmed_up(step, warmup, peak, m.add(m.mul(wave, peak - final), final))
    return schedule


def linear(peak, total, warmup=0, final=0.0):
    """Linear from 0 to `peak` in `warmup` steps, then linear to `final` at step `total`."""
    def schedule(step):
        step = _f32(step)
        return _warmed_up(step, warmup, peak, m.add(m.mul(_progress(step, warmup, total), final - peak), peak))
    return schedule


def inverse_sqrt(peak, warmup):
    """peak sqrt(warmup / step) after a linear warm-up (at least 1 step)."""
    def schedule(step):
        step, count = _f32(step), float(max(1, warmup))
        return m.mul(m.minimum(m.div(step, count), m.rsqrt(m.div(m.maximum(step, 1.0), count))), peak)
    return schedule


def step_decay(rate, factor, every):
    """rate factor^floor((step - 1) / every)."""
    if every < 1:
        raise ValueError(f"step_decay: a decay every {every} steps")

    def schedule(step):
        times = m.op("floor", m.div(m.sub(_f32(step), 1.0), float(every)))
        return m.mul(m.power(_f32(factor), times), rate)
    return schedule


def exponential(rate, factor, warmup=0):
    """rate factor^(step - warmup) after a linear warm-up."""
    def schedule(step):
        step = _f32(step)
        later = m.mul(m.power(_f32(factor), m.maximum(m.sub(step, float(warmup)), 0.0)), rate)
        return _warmed_up(step, warmup, rate, later)
    return schedule


def one_cycle(peak, total, warmup_share=0.3, start=None, final=None):
    """Half a cosine from `start` (peak / 25) up to peak, then one down to `final` (start / 10000) (Smith, 2018)."""
    start = peak / 25 if start is None else start
    final = start / 1e4 if final is None else final
    warmup = max(1.0, warmup_share * total)

    def between(a, b, share):
        return m.add(m.mul(m.add(m.mul(m.op("cos", m.mul(share, math.pi)), 0.5), 0.5), a - b), b)

    def schedule(step):
        step = _f32(step)
        up = _nabla.clip(m.div(step, warmup), 0.0, 1.0)
        down = _nabla.clip(m.div(m.sub(step, warmup), max(1.0, total - warmup)), 0.0, 1.0)
        return m.where(m.op("lt", step, _f32(warmup)), between(start, peak, up), between(peak, final, down))
    return schedule


def joined(parts, boundaries):
    """parts[0] up to step boundaries[0], then parts[1] as from its own step 1, and so on."""
    if len(parts) != len(boundaries) + 1:
        raise ValueError(f"joined: {len(parts)} schedules need {len(parts) - 1} boundaries, got {len(boundaries)}")

    def schedule(step):
        step = asarray(step)
        out = parts[0](step)
        for part, boundary in zip(parts[1:], boundaries):
            out = m.where(m.op("gt", step, asarray(boundary, step.dtype)), part(m.sub(step, boundary)), out)
        return out
    return schedule


__all__ = ["constant", "cosine", "exponential", "inverse_sqrt", "joined", "linear", "one_cycle", "step_decay"]
