"""A language model over bytes of the text in examples/charlm, with validation, a checkpoint and generation."""

import argparse
import os

import nabla as nb
import numpy as np
from language_models import Generator, Gpt2, next_token_loss, train_step
from nabla import nn

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "charlm", "jargon.txt")
CONTEXT, BATCH = 128, 16


def texts():
    data = np.fromfile(TEXT, np.uint8).astype(np.int32)
    return data[:1_000_000], data[1_000_000:]


def batches(data, rng, rows=BATCH, context=CONTEXT):
    while True:
        starts = rng.randint(0, len(data) - context, rows)
        yield np.stack([data[s:s + context + 1] for s in starts])


def main(steps=1500, width=128, layers=4, heads=4, context=CONTEXT, rate=2e-3, sample=200, checkpoint=None):
    training, validation = texts()
    model = Gpt2(256, context, width, heads, layers, key=0)
    optimizer = nn.optim.adamw(nn.optim.schedules.cosine(rate, steps, min(50, steps), rate / 10), (0.9, 0.99),
                               weight_decay=0.1)
    step, state = train_step(optimizer), optimizer.init(model)
    losses = []
    for i, tokens in zip(range(steps), batches(training, np.random.RandomState(0), context=context)):
        model, state, loss, _ = step(model, state, tokens, nb.random.key(i))
        losses.append(loss.item())
        if i % 100 == 0 or i + 1 == steps:
            print(f"step {i + 1}: loss {losses[-1]:.4f}")
    model.eval()
    evaluate = nb.jit(next_token_loss)
    rows = [tokens for _, tokens in zip(range(8), batches(validation, np.random.RandomState(1), context=context))]
    score = float(np.mean([evaluate(model, r).item() for r in rows]))
    print(f"validation: {score:.4f} nats per byte")
    if checkpoint:
        nn.save_checkpoint(checkpoint, model, state, step=steps)
        nn.load_checkpoint(checkpoint, model, state)
    prompt = np.frombuffer(b"The ", np.uint8)[None].astype(np.int32)
    count = min(sample, context - prompt.shape[1])
    tokens = Generator(model, context, 0.8, 40)(prompt, count)[0]
    text = "The " + bytes(tokens).decode("ascii", "replace")
    print(text)
    return {"losses": losses, "validation": score, "text": text}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--checkpoint", help="where the model and the optimizer are saved")
    args = parser.parse_args()
    main(args.steps, checkpoint=args.checkpoint)
