"""A small convolutional network on pictures of noise: two convolutions, average and maximum pooling (example 13)."""

import nabla as nb
import numpy as np
from nabla import nn


class Net(nn.Module):
    def __init__(self):
        self.conv1 = nn.Conv2d(1, 8, 3, padding="same", key=1)
        self.conv2 = nn.Conv2d(8, 16, 3, padding="same", key=2)
        self.head = nn.Linear(256, 1, key=3)
        self.average, self.maximum = nn.AvgPool2d(2), nn.MaxPool2d(2)

    def forward(self, x):
        x = self.average(nb.relu(self.conv1(x)))
        x = self.maximum(nb.relu(self.conv2(x)))
        return self.head(nb.reshape(x, (x.shape[0], 256)))


def data():
    x = np.random.RandomState(0).randn(64, 16, 16, 1).astype(np.float32)
    y = np.random.RandomState(1).randn(64, 1).astype(np.float32) * 0.2
    return nb.asarray(x), nb.asarray(y)


def main(steps=60):
    x, y = data()
    net, optimizer = Net(), nn.optim.sgd(3e-2)

    @nb.jit
    def step(net, state):
        value, gradients = nn.value_and_grad(lambda m: nn.mse_loss(m(x), y))(net)
        net, state = optimizer.update(net, gradients, state)
        return net, state, value

    state, losses = optimizer.init(net), []
    for _ in range(steps):
        net, state, value = step(net, state)
        losses.append(value.item())
    print("losses:", [round(v, 6) for v in losses[::10]], "final", round(losses[-1], 6))
    return losses


if __name__ == "__main__":
    main()
