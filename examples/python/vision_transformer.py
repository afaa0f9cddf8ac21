"""A vision transformer (Dosovitskiy et al., 2020) at a small size, trained on the digits."""

import os

import nabla as nb
import numpy as np
from nabla import nn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "digits", "digits.npz")


class VisionTransformer(nn.Module):
    """Patches of pictures [n, side, side, channels] as tokens beside one that stands for the class."""

    def __init__(self, side=224, patch=16, channels=3, width=768, heads=12, layers=12, classes=1000, dropout=0.0,
                 key=0):
        if side % patch:
            raise ValueError(f"patches of {patch} do not divide pictures of {side}")
        keys = [nb.random.fold_in(nb.random.key(key), i) for i in range(layers + 4)]
        self.patches = nn.Conv2d(channels, width, patch, patch, key=keys[0])
        self.token = nn.Parameter(nn.init.normal((1, 1, width), 0.02, key=keys[1]))
        self.positions = nn.Parameter(nn.init.normal((1, (side // patch) ** 2 + 1, width), 0.02, key=keys[2]))
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(width, heads, 4 * width, dropout, key=k)
                                    for k in keys[4:])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, classes, key=keys[3])

    def forward(self, pictures):
        x = self.patches(pictures)
        x = nb.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], x.shape[3]))
        token = nb.broadcast_to(self.token, (x.shape[0], 1, x.shape[2]))
        x = nb.concatenate([token, x], axis=1) + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def main(epochs=6, batch=64):
    data = np.load(DATA)
    x, y = data["x_train"].astype(np.float32)[..., None] / 16, data["y_train"]
    model = VisionTransformer(8, 2, 1, 32, 4, 2, 10, key=1)
    optimizer = nn.optim.adamw(3e-3, weight_decay=0.01)

    @nb.jit
    def step(model, state, x, y):
        loss, gradients = nn.value_and_grad(lambda m: nn.cross_entropy_loss(m(x), y))(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, loss

    state, rng, losses = optimizer.init(model), np.random.RandomState(0), []
    for _ in range(epochs):
        order = rng.permutation(len(x))
        for i in range(0, len(x) - batch + 1, batch):
            model, state, loss = step(model, state, x[order[i:i + batch]], y[order[i:i + batch]])
            losses.append(loss.item())
    scores = nb.jit(lambda m, x: m(x))(model.eval(), data["x_test"].astype(np.float32)[..., None] / 16)
    share = float((np.asarray(scores).argmax(1) == data["y_test"]).mean())
    print(f"{model.num_parameters()} parameters, loss {losses[0]:.4f} -> {losses[-1]:.4f}, "
          f"test accuracy {100 * share:.2f} %")
    return losses, share


if __name__ == "__main__":
    main()
