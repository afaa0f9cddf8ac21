#include "examples/charlm/charlm.h"

namespace nabla::charlm {
namespace {

// Attention of one block, given its normalised input [batch, len, width]; `attend` sees q, k and v by heads.
template <class Attend>
Tensor attention_layer(const Block<Tensor>& b, const Tensor& x, Attend attend) {
  Tensor qkv = matmul(x, b.qkv);
  auto part = [&](int64_t i) { return nn::split_heads(slice_axis(qkv, -1, i * kWidth, (i + 1) * kWidth), kHeads); };
  return matmul(nn::merge_heads(attend(part(0), part(1), part(2))), b.out);
}

Tensor norm(const Tensor& x, const nn::NormPair<Tensor>& p) { return layer_norm(x, p.scale, p.shift); }

// `attend(q, k, v)` and `drop` (after each half of a block) differ between training and generation.
template <class Attend, class Drop>
Tensor one_block(const Block<Tensor>& b, Tensor x, Attend attend, Drop drop) {
  x = x + drop(attention_layer(b, norm(x, b.norm1), attend));
  return x + drop(matmul(gelu(matmul(norm(x, b.norm2), b.up)), b.down));
}

Tensor causal(Tensor q, Tensor k, Tensor v) { return attention(q, k, v, {}, true); }
Tensor keep(Tensor x) { return x; }

// All blocks, then logits; `attend` is also told which layer it is.
template <class Attend, class Drop>
Tensor blocks(const Model<Tensor>& p, Tensor x, Attend attend, Drop drop) {
  for (int64_t i = 0; i < kLayers; ++i)
    x = one_block(
        p.blocks[i], x, [&](Tensor q, Tensor k, Tensor v) { return attend(i, q, k, v); }, drop);
  return matmul(norm(x, p.norm), transpose(p.embedding));
}

Tensor loss_of(const Tensor& logits, const Tensor& labels) { return mean(cross_entropy(logits, labels)); }

void init_model(Model<State>& model, const Tensor& seed) {
  uint32_t leaf = 0;
  for (auto& [name, state] : leaves_of<State>(model)) {
    const ir::Type type = state->type();
    bool scale = name.ends_with("scale"), shift = name.ends_with("shift");
    state->set(scale   ? ones(type.shape)
               : shift ? zeros(type.shape)
                       : rng_normal(fold_in(seed, ++leaf), type.shape, f32, 0, 0.02));
  }
}

struct Generation {
  Cache<State> cache;
  State position;
};

Generation declare_generation(Program& program) {
  Cache<Spec> shapes;
  for (auto& [name, spec] : leaves_of<Spec>(shapes)) *spec = {f32, {1, kHeads, kContext, kHead}};
  return {program.states("cache", shapes), program.state("position", i32, {})};
}
void clear(Generation& g) {
  for (auto& [name, leaf] : leaves_of<State>(g.cache)) leaf->set(zeros(leaf->type().shape));
  g.position.set(zeros({}, i32));
}

void add_training(Program& program, Model<State> model, Generation generation, const Options& options) {
  nn::Optimizer<Model> optimizer(program, model_specs(), nn::adamw(0.9, 0.99, 1e-8, 0.1), "adamw");
  State key = program.state("key", u32, {2});
  program.entry("init", {{"seed", u32, {2}}}, [&](Tensor seed) {
    init_model(model, seed);
    key.set(fold_in(seed, 0));
    optimizer.init();
    clear(generation);
  });
  program.entry("step", {{"tokens", u8, {kBatch, kContext + 1}}}, [&](Tensor bytes) -> Outputs {
    Tensor tokens = convert(bytes, i32);
    Tensor inputs = slice_axis(tokens, 1, 0, kContext), labels = slice_axis(tokens, 1, 1, kContext + 1);
    Tensor step = optimizer.step() + 1;
    Tensor mask_key = options.dropout > 0 ? rng_fold_in(key.get(), convert(step, u32)) : Tensor();
    auto loss = [&](Model<Tensor> p) { return loss_of(forward(p, inputs, options.dropout, mask_key), labels); };
    auto [value, gradients] = value_and_grad(loss)(get(model));
    auto [clipped, size] = nn::clip_by_global_norm(gradients, 1.0);
    Tensor rate = nn::cosine_schedule(
        step,
        {.peak = options.learning_rate, .final = options.learning_rate / 10, .warmup = 50, .total = options.steps});
    optimizer.apply(model, clipped, rate);
    return {{"loss", value}, {"gradient_norm", size}};
  });
}

void add_generation(Program& program, Model<State> model, Generation generation, const ir::Dim& len) {
  Cache<State>& cache = generation.cache;
  State& position = generation.position;
  // Stores new keys and values from `at` on; the caches afterwards.
  auto append = [&](int64_t layer, Tensor k, Tensor v, Tensor at) {
    cache.keys[layer].set(nn::cache_append(cache.keys[layer].get(), k, at, 2));
    cache.values[layer].set(nn::cache_append(cache.values[layer].get(), v, at, 2));
  };

  program.entry("prefill", {{"tokens", u8, {len}}}, [&](Tensor bytes) -> Outputs {
    Model<Tensor> p = get(model);
    clear(generation);
    Tensor tokens = reshape(convert(bytes, i32), Shape{1, len});
    Tensor x = embedding(p.embedding, tokens) + embedding(p.positions, iota({1, len}, 1));
    Tensor start = zeros({}, i32);
    Tensor logits = blocks(
        p, x,
        [&](int64_t layer, Tensor q, Tensor k, Tensor v) {
          append(layer, k, v, start);
          return causal(q, k, v);
        },
        keep);
    position.set(amax(iota({len}, 0)) + 1);
    return {{"logits", reshape(section(logits, 1, {len - 1, 1}), {kVocabulary})}};
  });

  program.entry("decode", {{"token", u8, {}}}, [&](Tensor byte) -> Outputs {
    Model<Tensor> p = get(model);
    Tensor at = position.get();
    Tensor x =
        embedding(p.embedding, reshape(convert(byte, i32), {1, 1})) + embedding(p.positions, reshape(at, {1, 1}));
    Tensor mask = nn::cache_mask(at, 1, kContext);
    Tensor logits = blocks(
        p, x,
        [&](int64_t layer, Tensor q, Tensor k, Tensor v) {
          append(layer, k, v, at);
          return attention(q, cache.keys[layer].get(), cache.values[layer].get(), {mask});
        },
        keep);
    position.set(at + 1);
    return {{"logits", reshape(logits, {kVocabulary})}};
  });
}

}  // namespace

Block<Spec> block_specs() {
  Block<Spec> b;
  b.norm1 = b.norm2 = {{f32, {kWidth}}, {f32, {kWidth}}};
  b.qkv = {f32, {kWidth, 3 * kWidth}};
  b.out = {f32, {kWidth, kWidth}};
  b.up = {f32, {kWidth, 4 * kWidth}};
  b.down = {f32, {4 * kWidth, kWidth}};
  return b;
}

Model<Spec> model_specs() {
  Model<Spec> out;
  out.embedding = {f32, {kVocabulary, kWidth}};
  out.positions = {f32, {kContext, kWidth}};
  for (Block<Spec>& b : out.blocks) b = block_specs();
  out.norm = out.blocks[0].norm1;
  return out;
}

Tensor block(const Block<Tensor>& b, const Tensor& x) { return one_block(b, x, causal, keep); }

Tensor forward(const Model<Tensor>& p, const Tensor& tokens, double dropout_rate, const Tensor& key) {
  Shape shape = tokens.shape();
  uint32_t site = 0;
  auto drop = [&](Tensor x) { return dropout_rate > 0 ? dropout(x, fold_in(key, ++site), dropout_rate) : x; };
  Tensor x = drop(embedding(p.embedding, tokens) + embedding(p.positions, iota(shape, 1)));
  return blocks(
      p, x, [](int64_t, Tensor q, Tensor k, Tensor v) { return causal(q, k, v); }, drop);
}

Tensor sample(const Tensor& logits, const Tensor& temperature, const Tensor& top_k, const Tensor& top_p,
              const Tensor& key) {
  Tensor rank = iota({kVocabulary}, 0);
  auto ordered = sort(std::vector<Tensor>{logits / maximum(temperature, 1e-6), rank}, 1, -1, true);
  Tensor probability = softmax(ordered[0], -1);
  Tensor before = cumsum(probability, 0) - probability;
  Tensor kept = ((rank < top_k) | (top_k <= 0)) & ((before < top_p) | (rank == 0));
  // The largest of logits plus Gumbel noise is a draw from their softmax.
  Tensor uniform = rng_uniform(key, {kVocabulary}, f32, 1e-7, 1);
  Tensor noise = select(temperature > 0, -log(-log(uniform)), zeros({kVocabulary}));
  Tensor choice = argmax(select(kept, ordered[0] + noise, full({kVocabulary}, -1e30)), 0);
  return convert(sum(select(rank == choice, ordered[1], zeros({kVocabulary}, i32))), u8);
}

Program make_program(const Options& options) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, kBatch), len = program.symbol("len", 1, kContext);
  Model<State> model = program.states("", model_specs());
  Generation generation = declare_generation(program);
  add_training(program, model, generation, options);

  program.entry("eval", {{"tokens", u8, {batch, len + 1}}}, [&](Tensor bytes) -> Outputs {
    Tensor tokens = convert(bytes, i32);
    Tensor logits = forward(get(model), section(tokens, 1, {0, len}));
    return {{"loss", loss_of(logits, section(tokens, 1, {1, len}))}};
  });
  program.entry("forward", {{"tokens", u8, {batch, len}}}, [&](Tensor bytes) -> Outputs {
    return {{"logits", forward(get(model), convert(bytes, i32))}};
  });
  add_generation(program, model, generation, len);
  program.entry("sample",
                {{"logits", f32, {kVocabulary}},
                 {"temperature", f32, {}},
                 {"top_k", i32, {}},
                 {"top_p", f32, {}},
                 {"seed", u32, {2}}},
                [](Tensor logits, Tensor temperature, Tensor top_k, Tensor top_p, Tensor seed) -> Outputs {
                  return {{"token", sample(logits, temperature, top_k, top_p, seed)}};
                });
  return program;
}

}  // namespace nabla::charlm
