"""A transformer that classifies sequences by the sum of their tokens modulo 3, as modules in a list (example 06)."""

import nabla as nb
import numpy as np
from nabla import nn

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, INNER, CLASSES = 20, 8, 32, 4, 2, 64, 3


class Classifier(nn.Module):
    def __init__(self, positions=False, dropout=0.0, key=0):
        keys = [nb.random.fold_in(nb.random.key(key), i) for i in range(LAYERS + 3)]
        self.embedding = nn.Embedding(VOCABULARY, WIDTH, key=keys[0])
        self.positions = nn.Parameter(nb.random.normal(keys[1], (LENGTH, WIDTH)) * 0.1) if positions else None
        # A plain list: its modules train.
        self.layers = [nn.TransformerEncoderLayer(WIDTH, HEADS, INNER, dropout, key=k) for k in keys[3:]]
        self.head = nn.Linear(WIDTH, CLASSES, key=keys[2])

    def forward(self, tokens):
        x = self.embedding(tokens)
        if self.positions is not None:
            x = x + self.positions
        for layer in self.layers:
            x = layer(x)
        return self.head(nb.mean(x, axis=1))


def data(samples=150):
    tokens = np.random.RandomState(42).randint(0, VOCABULARY, (samples, LENGTH)).astype(np.int32)
    return nb.asarray(tokens), nb.asarray((tokens.sum(1) % CLASSES).astype(np.int32))


def train(model, steps, rate=3e-3):
    tokens, labels = data()
    optimizer = nn.optim.adamw(rate)

    @nb.jit
    def step(model, state, key):
        with nn.rngs(key):
            value, gradients = nn.value_and_grad(lambda m: nn.cross_entropy_loss(m(tokens), labels))(model)
        model, state = optimizer.update(model, gradients, state)
        return model, state, value

    state, losses = optimizer.init(model), []
    for i in range(steps):
        model, state, value = step(model, state, nb.random.key(i))
        losses.append(value.item())
    model.eval()
    accuracy = nb.mean((nb.argmax(model(tokens), axis=-1) == labels).astype("float32")).item()
    return losses, accuracy


def main(steps=60):
    out = {}
    for positions, count in ((False, 17827), (True, 18083)):
        model = Classifier(positions)
        assert model.num_parameters() == count
        losses, accuracy = train(model, steps)
        print(f"{count} parameters: loss {losses[0]:.4f} -> {losses[-1]:.4f}, accuracy {100 * accuracy:.2f} %")
        out[count] = (losses, accuracy)
    return out


if __name__ == "__main__":
    main()
