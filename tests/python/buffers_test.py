"""Policies of buffers: batch normalisation by the statistics of each part of the batch, whose mean is kept or the value
of each, against numpy, on one rank and on several."""

import json

import nabla as nb
import numpy as np
import pytest
from nabla import nn

C, N, PARTS = 3, 8, 4
SPREAD = {"mesh": {"dp": 4}, "data_axes": "dp"}
X = np.random.default_rng(0).normal(size=(N, 5, C)).astype(np.float32) * 2 + 1


def by_hand(x, parts):
    """(normalised, means [parts, C], unbiased variances [parts, C]) of each part of the batch."""
    cut = x.reshape(parts, -1, C).astype(np.float64)
    mean, variance = cut.mean(1), cut.var(1)
    out = (cut - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    return out.reshape(x.shape), mean, cut.var(1, ddof=1)


def model(policy):
    parts = 1 if policy == "replicated" else PARTS
    return nn.Sequential(nn.Linear(C, C, key=1), nn.BatchNorm(C, parts=parts, buffers=policy))


def test_each_part_is_normalised_by_its_own_statistics():
    out, mean, variance = by_hand(X, PARTS)
    for policy, means, variances in (("rank_local", mean, variance), ("dp_mean", mean.mean(0), variance.mean(0))):
        layer = nn.BatchNorm(C, parts=PARTS, buffers=policy)
        np.testing.assert_allclose(np.asarray(layer(X)), out, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(np.asarray(layer.running_mean), 0.1 * means, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(layer.running_var), 0.9 + 0.1 * variances, rtol=1e-5, atol=1e-6)


def test_one_part_is_the_whole_batch():
    whole = nn.BatchNorm(C)
    out = np.asarray(whole(X))
    for policy in ("rank_local", "dp_mean"):
        layer = nn.BatchNorm(C, parts=1, buffers=policy)
        np.testing.assert_allclose(np.asarray(layer(X)), out, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(np.asarray(layer.running_var).reshape(C), np.asarray(whole.running_var), rtol=1e-6)


def test_evaluation_takes_the_parts_own_statistics_and_joined_those_of_all():
    layer = nn.BatchNorm(C, momentum=1.0, parts=PARTS, buffers="rank_local")
    layer(X)
    layer.eval()
    mean, variance = np.asarray(layer.running_mean), np.asarray(layer.running_var)
    cut = X.reshape(PARTS, -1, C)
    want = (cut - mean[:, None]) / np.sqrt(variance[:, None] + 1e-5)
    np.testing.assert_allclose(np.asarray(layer(X)), want.reshape(X.shape), rtol=1e-4, atol=1e-5)
    joined = layer.joined()
    assert not joined.training and joined.joined() is joined and joined.running_mean.shape == (C,)
    np.testing.assert_allclose(np.asarray(joined.running_mean), X.reshape(-1, C).mean(0), rtol=1e-4, atol=1e-6)
    spread = variance.mean(0) + mean.var(0)
    np.testing.assert_allclose(np.asarray(joined.running_var), spread, rtol=1e-5)
    assert joined(X[:1]).shape == (1, 5, C)


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match='buffers are "replicated", "dp_mean" or "rank_local", got \'local\''):
        nn.BatchNorm(C, buffers="local")
    with pytest.raises(ValueError, match='4 parts of the batch, and buffers that are "replicated"'):
        nn.BatchNorm(C, parts=4)
    for policy in ("dp_mean", "rank_local"):
        with pytest.raises(ValueError, match=f'BatchNorm: buffers="{policy}" is about .* parts of the batch, and '
                                             r"nothing says into how many: give parts, .*\(parts=1 is the whole"):
            nn.BatchNorm(C, buffers=policy)
    with pytest.raises(ValueError, match="parts is a number from 1 on, got 0"):
        nn.BatchNorm(C, parts=0, buffers="dp_mean")
    layer = nn.BatchNorm(C, parts=3, buffers="rank_local")
    with pytest.raises(ValueError, match=r"3 parts do not divide the batch of f32\[8,5,3\]\n"):
        layer(X)
    with pytest.raises(ValueError, match=r"do not divide the batch of f32\[8,5,3\]; joined\(\) has the statistics"):
        layer.eval()(X)
    with pytest.raises(nb.Error, match=r"batch_norm: 3 parts of equal size of the first dimension of f32\[8,5,3\]"):
        nn.functional.batch_norm_train(X, parts=3)


def program(policy):
    """One step of descent on a layer before the normalisation."""
    def step(state, x):
        loss, g = nn.value_and_grad(lambda net, x: nb.mean(nb.tanh(net(x) + 0.5) ** 3))(state, x)
        state[0].weight = state[0].weight - 0.1 * g["0.weight"]
        return state, {"loss": loss}

    return nb.export({"init": lambda: model(policy), "step": step}, state=model(policy),
                     args={"step": {"x": nb.spec(X.shape)}})


def trained(path, policy, **options):
    bundle = nb.compile_bundle(program(policy), path, **options)
    bundle.run("init")
    losses = [bundle.run("step", x=X)["loss"].item() for _ in range(3)]
    return losses, np.asarray(bundle.get_state("1.running_mean")), np.asarray(bundle.get_state("1.running_var"))


@pytest.mark.parametrize("policy", ["rank_local", "dp_mean"])
@pytest.mark.parametrize("ranks", [1, 2, 4, 8])
def test_ranks_compute_what_one_does(tmp_path, policy, ranks):
    one, *of_one = trained(tmp_path / "one", policy)
    many, *of_many = trained(tmp_path / "many", policy, mesh={"dp": ranks}, data_axes="dp")
    assert many == pytest.approx(one, rel=1e-5) and len(set(one)) == 3
    for a, b in zip(of_one, of_many):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
        assert a.shape == ((PARTS, C) if policy == "rank_local" else (C,))


def exchanged(path, policy, **options):
    """Elements of what ranks exchange in a step, by what it is made of."""
    report = json.loads(nb.compile_bundle(program(policy), path, load=False, **options))
    step = next(e for e in report["entries"] if e["name"] == "step")
    return sorted(c["elements"] for c in step["collectives"])


def test_ranks_with_a_part_each_exchange_no_statistics(tmp_path):
    gradient_and_loss = C * C + 1
    assert exchanged(tmp_path / "p", "rank_local", **SPREAD) == [gradient_and_loss]
    assert exchanged(tmp_path / "p", "rank_local", mesh={"dp": 2}, data_axes="dp") == [gradient_and_loss]
    assert exchanged(tmp_path / "p", "dp_mean", **SPREAD) == [2 * C + gradient_and_loss]  # and the kept means
    assert len(exchanged(tmp_path / "p", "rank_local", mesh={"dp": 8}, data_axes="dp")) > 1  # two ranks share a part


def test_a_layout_holds_the_compiler_to_a_value_per_rank(tmp_path):
    layouts = dict(layouts={r"1\.running_.*": ("dp", None)}, allow_padding=False)
    assert exchanged(tmp_path / "p", "rank_local", **layouts, **SPREAD) == [C * C + 1]
    with pytest.raises(nb.Error, match="E0210.*1.running_mean") as e:
        exchanged(tmp_path / "p", "rank_local", **layouts, mesh={"dp": 8}, data_axes="dp")
    assert "8" in str(e.value) and "4" in str(e.value)


def test_files_of_state_have_a_value_per_part(tmp_path):
    bundle = nb.compile_bundle(program("rank_local"), tmp_path / "p", **SPREAD)
    bundle.run("init")
    bundle.run("step", x=X)
    bundle.save_state(tmp_path / "s.safetensors")
    alone = nb.compile_bundle(program("rank_local"), tmp_path / "q")
    alone.load_state(tmp_path / "s.safetensors")
    mean = np.asarray(alone.get_state("1.running_mean"))
    net = model("rank_local")
    np.testing.assert_allclose(mean, 0.1 * by_hand(np.asarray(net[0](X)), PARTS)[1], rtol=1e-4, atol=1e-6)
    assert alone.run("step", x=X)["loss"].item() == pytest.approx(bundle.run("step", x=X)["loss"].item(), rel=1e-5)


def test_microbatches_are_parts_too(tmp_path):
    one, *of_one = trained(tmp_path / "one", "rank_local")
    many, *of_many = trained(tmp_path / "many", "rank_local", mesh={"dp": 2}, data_axes="dp", microbatches=2)
    assert many == pytest.approx(one, rel=1e-5)
    np.testing.assert_allclose(of_many[0], of_one[0], rtol=1e-4, atol=1e-6)
    # The whole batch's statistics need all of them.
    with pytest.raises(nb.Error, match="E0210(?s:.*)help: .*neither microbatches nor mb in layouts"):
        trained(tmp_path / "whole", "replicated", microbatches=2)


def test_compiled_for_ranks_and_sizes_of_the_run(tmp_path):
    mesh = nb.DeviceMesh("m", (4,), ("dp",))
    layer = nn.BatchNorm(C, parts=PARTS, buffers="rank_local")

    def step(layer, x):
        return layer(x), layer.running_var

    out, variance = nb.jit(step)(layer, nb.ops.shard(nb.asarray(X), mesh, nb.P("dp")))
    want, _, variances = by_hand(X, PARTS)
    np.testing.assert_allclose(np.asarray(out), want, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(np.asarray(variance), 0.9 + 0.1 * variances, rtol=1e-5)
    assert repr(variance.sharding) == "sharding<@m, [{dp}, {}]>"
    n = nb.symbol("n", 4, 64, 4)
    sized = nb.export({"f": lambda x: nn.BatchNorm(C, parts=PARTS, buffers="dp_mean")(x)},
                      args={"f": {"x": nb.spec((n, 5, C))}})
    bundle = nb.compile_bundle(sized, tmp_path / "p")
    for size in (4, 8):
        want = by_hand(X[:size], PARTS)[0]
        np.testing.assert_allclose(bundle.run("f", x=X[:size])["out"], want, rtol=1e-4, atol=1e-5)
