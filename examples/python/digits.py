"""Classifies the digits of examples/digits by an MLP or a small convolutional network, as the C++ programs there do."""

import argparse
import os

import nabla as nb
import numpy as np
from nabla import nn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits", "digits.npz")
BATCH = 64


def he_uniform(shape, *, key, dtype=None):
    return nn.init.he_uniform(shape, key=key, dtype=dtype)


class Mlp(nn.Module):
    rate, epochs = 2e-3, 40

    def __init__(self, key):
        self.layers = nn.MLP([64, 128, 64, 10], key=key, init=he_uniform)

    def forward(self, pictures):
        return self.layers(nb.reshape(pictures, (pictures.shape[0], 64)))


class Cnn(nn.Module):
    rate, epochs = 2e-3, 25

    def __init__(self, key):
        keys = [nb.random.fold_in(nb.random.key(key), i) for i in range(3)]
        self.conv1 = nn.Conv2d(1, 16, 3, padding="same", key=keys[0], init=he_uniform)
        self.conv2 = nn.Conv2d(16, 32, 3, padding="same", key=keys[1], init=he_uniform)
        self.head = nn.Linear(128, 10, key=keys[2], init=he_uniform)
        self.pool = nn.MaxPool2d(2)

    def forward(self, pictures):
        x = nb.reshape(pictures, (*pictures.shape, 1))
        x = self.pool(nb.relu(self.conv1(x)))
        x = self.pool(nb.relu(self.conv2(x)))
        return self.head(nb.reshape(x, (x.shape[0], 128)))


def pictures_of(x):
    return x.astype("float32") / 16.0


def train(model, epochs, seed=0):
    data = np.load(DATA)
    x, y = data["x_train"], data["y_train"]
    optimizer = nn.optim.adamw(model.rate, weight_decay=0.01)

    @nb.jit
    def step(model, state, x, y):
        loss = (lambda m: nn.cross_entropy_loss(m(pictures_of(x)), y))
        value, gradients = nn.value_and_grad(loss)(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, value

    state, rng = optimizer.init(model), np.random.RandomState(seed)
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[i:i + BATCH]
            model, state, value = step(model, state, x[rows], y[rows])
    return model, value.item()


def accuracy(model):
    data = np.load(DATA)
    scores = nb.jit(lambda m, x: m(pictures_of(x)))(model.eval(), data["x_test"])
    return float((np.asarray(scores).argmax(1) == data["y_test"]).mean())


def main(kind="mlp", epochs=None, seed=0):
    model = {"mlp": Mlp, "cnn": Cnn}[kind](seed)
    model, loss = train(model, epochs or model.epochs, seed)
    share = accuracy(model)
    print(f"{kind}: last loss {loss:.4f}, test accuracy {100 * share:.2f} %")
    return share


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", nargs="?", default="mlp", choices=["mlp", "cnn"])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    main(args.kind, args.epochs, args.seed)
