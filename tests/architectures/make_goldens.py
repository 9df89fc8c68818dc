#!/usr/bin/env python3
"""Makes the golden files of architectures_golden_test: what Hugging Face transformers computes, in float32 on the CPU,
with the tiny random models of src/model/test_tiny_models.cc. Each model runs twice:

  - as it is, with K and V in float32 (`exact` and `greedy`). This is what Ropeway approximates.
  - with K and V rounded to f16, as Ropeway's KV cache holds them (`row`). With such models that alone changes log-probs
    by 5e-4 to 4.3e-3, and where two experts are nearly as good as each other a router chooses another one (`other`):
    behind two such positions mixtral's differ by up to 7.5e-3.

The test compares with both. Within 1e-3 of the second run it proves that the architecture is computed as it should:
each operation, windows, positions, experts. It leaves out what f16 costs, behind which a mistake could hide. Within
8.5e-3 of the first run, which is the largest difference between both and those 1e-3, it proves that nothing but f16 is
between Ropeway and the model as it is. Greedy tokens must be those of the model as it is.

    python -m pip install -r tests/architectures/requirements.txt
    python tests/architectures/make_goldens.py [NAME...]

Each file tests/architectures/NAME.txt has lines of these kinds:

    weights SHA-256                        of the tensors (tiny_weights.Weights.checksum)
    ids COUNT                              of the prompt: tiny_weights.token_ids(COUNT)
    row POSITION LOGPROB (ID LOGPROB)x3    of the id behind POSITION, and the three most likely ones; K and V in f16
    exact POSITION LOGPROB (ID LOGPROB)x3  the same of the model as it is
    near POSITION MARGIN                   a router's logits of a chosen and of another expert differ by less than
                                           1e-4 there: the row is not compared
    other POSITION MARGIN                  the two runs choose other experts there; MARGIN is that of the model as it
                                           is, whose line is not compared
    greedy COUNT ID...                     what follows the first COUNT ids
    tie STEP GAP                           the two best log-probs of that step differ by less than 2e-3

and of phi3long, whose factors follow the sequence's length, so that each step computes the whole of it (use_cache=False):

    grown COUNT STEP ID HALF EXACT         what follows the first COUNT ids: its log-prob with K and V in f16, and as it is
    grown_tie COUNT STEP GAP               as tie, of that step
"""
import argparse
import dataclasses
import pathlib

import numpy
import torch
import transformers

from tiny_weights import VOCABULARY, Weights, token_ids

HERE = pathlib.Path(__file__).parent
HIDDEN = 64
HEADS = 4
FFN = 96
CONTEXT = 1024
LONG_ROPE_ORIGINAL = 32
NEAR = 1e-4
TIE = 2e-3
GREEDY_PROMPT = 40
GREEDY_TOKENS = 48
# Below LONG_ROPE_ORIGINAL (the last token is not computed), across it by one token and by many, at it, and above.
GROWN = [(10, 23), (20, 13), (20, 14), (20, 40), (32, 8), (33, 8)]
# Around the edges of blocks, of windows (20, 24, 40), of RoPE's first contexts (32, 64, 128), of the softmax's groups
# (64), of chunks of 100, and of the context.
ROWS = [*range(0, 80), *range(98, 103), *range(120, 136), *range(196, 204), *range(250, 263), *range(1008, 1023)]


@dataclasses.dataclass
class Case:
    """As TinySpec of test_tiny_models.cc."""

    name: str
    layers: int = 3
    kv_heads: int = 2
    head_dim: int = 16
    tied: bool = False
    eps: float = 1e-5
    rope_base: float = 10000.0
    window: int = 0
    experts: int = 0
    experts_used: int = 0
    expert_ffn: int = 0
    shared_ffn: int = 0
    qkv_bias: bool = False
    qk_norm: bool = False


CASES = [
    Case("llama"),
    Case("llama3", tied=True, rope_base=500000.0),
    Case("mistral", window=20),
    Case("mixtral", experts=4, experts_used=2, expert_ffn=FFN),
    Case("qwen2", tied=True, qkv_bias=True),
    Case("qwen3", head_dim=32, tied=True, qk_norm=True),
    Case("gemma2", layers=4, head_dim=32, tied=True, eps=1e-6, window=24),
    Case("gemma3", layers=7, kv_heads=1, head_dim=32, tied=True, eps=1e-6, rope_base=1e6, window=24, qk_norm=True),
    Case("gpt2", kv_heads=4, tied=True),
    Case("phi3", window=40),
    Case("phi3long"),
    Case("qwen2moe", experts=6, experts_used=2, expert_ffn=32, shared_ffn=64, qkv_bias=True),
    Case("qwen3moe", head_dim=32, experts=8, experts_used=3, expert_ffn=32, qk_norm=True),
    Case("gptoss", layers=4, rope_base=150000.0, window=24, experts=4, experts_used=2, expert_ffn=64, qkv_bias=True),
]


def common_config(case):
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": case.layers,
        "num_attention_heads": HEADS,
        "num_key_value_heads": case.kv_heads,
        "head_dim": case.head_dim,
        "max_position_embeddings": CONTEXT,
        "rms_norm_eps": case.eps,
        "rope_theta": case.rope_base,
        "tie_word_embeddings": case.tied,
        "attn_implementation": "eager",
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }


def long_rope():
    long = [1.0 + 0.5 * i for i in range(HIDDEN // HEADS // 2)]
    return {"type": "longrope", "long_factor": long, "short_factor": [1.0 + (f - 1.0) / 8.0 for f in long]}


def make_model(case):
    """A transformers model of the case, its weights not set."""
    c = common_config(case)
    t = transformers
    if case.name == "gpt2":
        # n_ctx is for llama.cpp's converter alone (tests/folders).
        return t.GPT2LMHeadModel(t.GPT2Config(
            vocab_size=VOCABULARY, n_positions=CONTEXT, n_ctx=CONTEXT, n_embd=HIDDEN, n_layer=case.layers,
            n_head=HEADS, n_inner=FFN, activation_function="gelu_new", layer_norm_epsilon=case.eps,
            attn_implementation="eager", bos_token_id=1, eos_token_id=2))
    experts = {"num_experts": case.experts, "num_experts_per_tok": case.experts_used,
               "moe_intermediate_size": case.expert_ffn, "decoder_sparse_step": 1, "mlp_only_layers": []}
    softcaps = {"attn_logit_softcapping": 5.0, "final_logit_softcapping": 10.0}
    scales = {"query_pre_attn_scalar": case.head_dim, "hidden_activation": "gelu_pytorch_tanh",
              "sliding_window": case.window}
    makers = {
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**c)),
        "llama3": lambda: t.LlamaForCausalLM(t.LlamaConfig(**c, rope_scaling={
            "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64})),
        "mistral": lambda: t.MistralForCausalLM(t.MistralConfig(**c, sliding_window=case.window)),
        "mixtral": lambda: t.MixtralForCausalLM(t.MixtralConfig(
            **c, sliding_window=None, num_local_experts=case.experts, num_experts_per_tok=case.experts_used)),
        "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**c, use_sliding_window=False)),
        "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**c, use_sliding_window=False)),
        "gemma2": lambda: t.Gemma2ForCausalLM(t.Gemma2Config(**c, **scales, **softcaps)),
        "gemma3": lambda: t.Gemma3ForCausalLM(t.Gemma3TextConfig(**c, **scales, rope_local_base_freq=10000.0)),
        "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**c, sliding_window=case.window)),
        "phi3long": lambda: t.Phi3ForCausalLM(t.Phi3Config(
            **c, sliding_window=None, rope_scaling=long_rope(),
            original_max_position_embeddings=LONG_ROPE_ORIGINAL)),
        "qwen2moe": lambda: t.Qwen2MoeForCausalLM(t.Qwen2MoeConfig(
            **c, **experts, shared_expert_intermediate_size=case.shared_ffn, norm_topk_prob=False,
            use_sliding_window=False)),
        "qwen3moe": lambda: t.Qwen3MoeForCausalLM(t.Qwen3MoeConfig(
            **c, **experts, norm_topk_prob=True, use_sliding_window=False)),
        "gptoss": lambda: t.GptOssForCausalLM(t.GptOssConfig(
            **{**c, "intermediate_size": case.expert_ffn}, sliding_window=case.window,
            num_local_experts=case.experts, num_experts_per_tok=case.experts_used,
            layer_types=["full_attention" if i % 2 else "sliding_attention" for i in range(case.layers)],
            rope_scaling={"rope_type": "yarn", "factor": 8.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                          "original_max_position_embeddings": 128})),
    }
    return makers[case.name]()


class State:
    """The state dict of a case's model, filled from the GGUF tensors."""

    def __init__(self, case, known):
        self.case = case
        self.known = known  # The keys that this version of transformers has.
        self.weights = Weights()
        self.values = {}

    def set(self, key, values):
        self.values[key] = torch.tensor(values)

    def of(self, name, *shape):
        return self.weights.get(name, *shape)

    def norm(self, key, name, size=HIDDEN):
        """GGUF adds gemma's 1 to the weights."""
        values = self.of(name, size)
        self.set(key, values - 1 if self.case.name.startswith("gemma") else values)

    def rotated(self, values, heads):
        """GGUF has llama's rows in the order of interleaved pairs, transformers in that of halves."""
        if self.case.name not in ("llama", "llama3", "mistral", "mixtral"):
            return values
        inputs = values.shape[-1]
        return values.reshape(heads, -1, 2, inputs).swapaxes(1, 2).reshape(-1, inputs)


def fill_gpt2(state):
    case = state.case
    top = "transformer."
    state.set(top + "wte.weight", state.of("token_embd.weight", VOCABULARY, HIDDEN))
    state.set("lm_head.weight", state.of("token_embd.weight", VOCABULARY, HIDDEN))
    state.set(top + "wpe.weight", state.of("position_embd.weight", CONTEXT, HIDDEN))

    def norm(key, name):
        state.set(key + ".weight", state.of(name + ".weight", HIDDEN))
        state.set(key + ".bias", state.of(name + ".bias", HIDDEN))

    def conv(key, name, inputs, outputs):
        state.set(key + ".weight", state.of(name + ".weight", outputs, inputs).T.copy())
        state.set(key + ".bias", state.of(name + ".bias", outputs))

    norm(top + "ln_f", "output_norm")
    for i in range(case.layers):
        to, of = f"{top}h.{i}.", f"blk.{i}."
        norm(to + "ln_1", of + "attn_norm")
        norm(to + "ln_2", of + "ffn_norm")
        conv(to + "attn.c_attn", of + "attn_qkv", HIDDEN, 3 * HIDDEN)
        conv(to + "attn.c_proj", of + "attn_output", HIDDEN, HIDDEN)
        conv(to + "mlp.c_fc", of + "ffn_up", HIDDEN, FFN)
        conv(to + "mlp.c_proj", of + "ffn_down", FFN, HIDDEN)


def fill_attention(state, to, of):
    case = state.case
    q, kv = HEADS * case.head_dim, case.kv_heads * case.head_dim
    to += "self_attn."
    state.set(to + "o_proj.weight", state.of(of + "attn_output.weight", HIDDEN, q))
    if case.name.startswith("phi3"):
        state.set(to + "qkv_proj.weight", state.of(of + "attn_qkv.weight", q + 2 * kv, HIDDEN))
        return
    for letter, outputs, heads in (("q", q, HEADS), ("k", kv, case.kv_heads), ("v", kv, 0)):
        values = state.of(f"{of}attn_{letter}.weight", outputs, HIDDEN)
        state.set(f"{to}{letter}_proj.weight", state.rotated(values, heads) if heads else values)
        if case.qkv_bias:
            state.set(f"{to}{letter}_proj.bias", state.of(f"{of}attn_{letter}.bias", outputs))
    if case.qk_norm:
        state.norm(to + "q_norm.weight", of + "attn_q_norm.weight", case.head_dim)
        state.norm(to + "k_norm.weight", of + "attn_k_norm.weight", case.head_dim)
    if case.name == "gptoss":
        state.set(to + "o_proj.bias", state.of(of + "attn_output.bias", HIDDEN))
        state.set(to + "sinks", state.of(of + "attn_sinks.weight", HEADS))


def fill_experts(state, to, of):
    case = state.case
    count, ffn = case.experts, case.expert_ffn
    gate = state.of(of + "ffn_gate_exps.weight", count, ffn, HIDDEN)
    up = state.of(of + "ffn_up_exps.weight", count, ffn, HIDDEN)
    down = state.of(of + "ffn_down_exps.weight", count, HIDDEN, ffn)
    router = state.of(of + "ffn_gate_inp.weight", count, HIDDEN)
    if case.name == "gptoss":
        fill_gpt_oss_experts(state, to + "mlp.", of, (gate, up, down), router)
        return
    block = "block_sparse_moe." if to + "block_sparse_moe.gate.weight" in state.known else "mlp."
    state.set(to + block + "gate.weight", router)
    names = ("w1", "w3", "w2") if block == "block_sparse_moe." else ("gate_proj", "up_proj", "down_proj")
    if to + "mlp.experts.gate_up_proj" in state.known:  # transformers 5.
        state.set(to + "mlp.experts.gate_up_proj", numpy.concatenate([gate, up], axis=1))
        state.set(to + "mlp.experts.down_proj", down)
    else:
        for name, values in zip(names, (gate, up, down)):
            for e in range(count):
                state.set(f"{to}{block}experts.{e}.{name}.weight", values[e])
    if case.shared_ffn:
        shared = to + "mlp.shared_expert"
        state.set(shared + "_gate.weight", state.of(of + "ffn_gate_inp_shexp.weight", HIDDEN).reshape(1, HIDDEN))
        for name, short, rows, inputs in (("gate_proj", "gate", case.shared_ffn, HIDDEN),
                                          ("up_proj", "up", case.shared_ffn, HIDDEN),
                                          ("down_proj", "down", HIDDEN, case.shared_ffn)):
            state.set(f"{shared}.{name}.weight", state.of(f"{of}ffn_{short}_shexp.weight", rows, inputs))


def fill_gpt_oss_experts(state, to, of, matrices, router):
    """Its gate and up lie interleaved, and inputs come first."""
    case = state.case
    count, ffn = case.experts, case.expert_ffn
    gate, up, down = matrices
    gate_bias = state.of(of + "ffn_gate_exps.bias", count, ffn)
    up_bias = state.of(of + "ffn_up_exps.bias", count, ffn)
    fused = numpy.stack([gate, up], axis=2).reshape(count, 2 * ffn, HIDDEN)
    state.set(to + "router.weight", router)
    state.set(to + "router.bias", state.of(of + "ffn_gate_inp.bias", count))
    state.set(to + "experts.gate_up_proj", fused.swapaxes(1, 2).copy())
    state.set(to + "experts.gate_up_proj_bias", numpy.stack([gate_bias, up_bias], axis=2).reshape(count, -1))
    state.set(to + "experts.down_proj", down.swapaxes(1, 2).copy())
    state.set(to + "experts.down_proj_bias", state.of(of + "ffn_down_exps.bias", count, HIDDEN))


def fill_ffn(state, to, of):
    case = state.case
    if case.experts:
        fill_experts(state, to, of)
        return
    fused = case.name.startswith("phi3")
    up = state.of(of + "ffn_up.weight", 2 * FFN if fused else FFN, HIDDEN)
    state.set(to + ("mlp.gate_up_proj.weight" if fused else "mlp.up_proj.weight"), up)
    if not fused:
        state.set(to + "mlp.gate_proj.weight", state.of(of + "ffn_gate.weight", FFN, HIDDEN))
    state.set(to + "mlp.down_proj.weight", state.of(of + "ffn_down.weight", HIDDEN, FFN))


def fill_others(state):
    case = state.case
    embedding = state.of("token_embd.weight", VOCABULARY, HIDDEN)
    state.set("model.embed_tokens.weight", embedding)
    state.set("lm_head.weight", embedding if case.tied else state.of("output.weight", VOCABULARY, HIDDEN))
    state.norm("model.norm.weight", "output_norm.weight")
    for i in range(case.layers):
        to, of = f"model.layers.{i}.", f"blk.{i}."
        state.norm(to + "input_layernorm.weight", of + "attn_norm.weight")
        if case.name.startswith("gemma"):
            state.norm(to + "post_attention_layernorm.weight", of + "post_attention_norm.weight")
            state.norm(to + "pre_feedforward_layernorm.weight", of + "ffn_norm.weight")
            state.norm(to + "post_feedforward_layernorm.weight", of + "post_ffw_norm.weight")
        elif case.name == "gptoss":
            state.norm(to + "post_attention_layernorm.weight", of + "post_attention_norm.weight")
        else:
            state.norm(to + "post_attention_layernorm.weight", of + "ffn_norm.weight")
        fill_attention(state, to, of)
        fill_ffn(state, to, of)


def load(case):
    """The model with its weights, and their checksum."""
    model = make_model(case).float().eval()
    state = State(case, set(model.state_dict()))
    (fill_gpt2 if case.name == "gpt2" else fill_others)(state)
    missing, unexpected = model.load_state_dict(state.values, strict=False)
    missing = [key for key in missing if not key.endswith((".attn.bias", ".attn.masked_bias", "inv_freq"))]
    if missing or unexpected:
        raise SystemExit(f"{case.name}: missing {missing}, unexpected {unexpected}")
    return model, state.weights.checksum()


class Routers:
    """Notes at each position the experts that each layer's router chooses, and the least margin of any."""

    def __init__(self, model, case):
        self.used = case.experts_used
        self.margins = None
        self.chosen = []
        self.hooks = [module.register_forward_pre_hook(self.note) for name, module in model.named_modules()
                      if name.endswith(("block_sparse_moe.gate", "mlp.gate", "mlp.router"))]

    def stop(self):
        for hook in self.hooks:
            hook.remove()

    def note(self, module, inputs):
        rows = inputs[0].detach().reshape(-1, HIDDEN)
        logits = torch.nn.functional.linear(rows, module.weight, getattr(module, "bias", None))
        best = torch.sort(logits, dim=-1, descending=True)
        margins = best.values[:, self.used - 1] - best.values[:, self.used]
        self.margins = margins if self.margins is None else torch.minimum(self.margins, margins)
        self.chosen.append(torch.sort(best.indices[:, :self.used], dim=-1).values)


class HalfCache(transformers.DynamicCache):
    """Rounds K and V to f16, after RoPE and the norms of heads."""

    def update(self, key_states, value_states, *args, **kwargs):
        return super().update(key_states.half().float(), value_states.half().float(), *args, **kwargs)


def logprobs_of(model, ids, cache=None):
    """With the cache that the model makes for itself, if none is given."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids]), past_key_values=cache, use_cache=True).logits[0]
    return torch.log_softmax(logits.double(), dim=-1)


def routed_logprobs_of(model, case, ids, cache=None):
    """The log-probs, and what the routers did; the latter is None without experts."""
    if not case.experts:
        return logprobs_of(model, ids, cache), None
    routers = Routers(model, case)
    logprobs = logprobs_of(model, ids, cache)
    routers.stop()
    return logprobs, routers


def row_lines(kind, logprobs, ids):
    lines = []
    for position in ROWS:
        row = logprobs[position]
        best = torch.topk(row, 3)
        text = " ".join(f"{int(i)} {v:.6f}" for i, v in zip(best.indices, best.values.tolist()))
        lines.append(f"{kind} {position} {row[ids[position + 1]].item():.6f} {text}")
    return lines


def router_lines(half, exact):
    lines = [f"near {position} {margin:.2e}"
             for position, margin in enumerate(half.margins.tolist()) if margin < NEAR]
    # [layer][position]
    differs = torch.stack([(a != b).any(dim=-1) for a, b in zip(half.chosen, exact.chosen)]).any(dim=0)
    lines += [f"other {position} {exact.margins[position].item():.2e}"
              for position in torch.nonzero(differs).flatten().tolist()]
    return lines


def greedy_lines(model, ids):
    ids = list(ids)
    chosen, ties = [], []
    for step in range(GREEDY_TOKENS):
        best = torch.topk(logprobs_of(model, ids)[-1], 2)
        gap = (best.values[0] - best.values[1]).item()
        if gap < TIE:
            ties.append(f"tie {step} {gap:.2e}")
        chosen.append(int(best.indices[0]))
        ids.append(chosen[-1])
    return [f"greedy {GREEDY_PROMPT} " + " ".join(map(str, chosen)), *ties]


def grown_lines(model, ids, tokens):
    count, ids, lines = len(ids), list(ids), []
    for step in range(tokens):
        half = logprobs_of(model, ids, HalfCache())[-1]
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1]
        exact = torch.log_softmax(logits.double(), dim=-1)
        best = torch.topk(exact, 2)
        chosen = int(best.indices[0])
        lines.append(f"grown {count} {step} {chosen} {half[chosen].item():.6f} {exact[chosen].item():.6f}")
        gap = (best.values[0] - best.values[1]).item()
        if gap < TIE:
            lines.append(f"grown_tie {count} {step} {gap:.2e}")
        ids.append(chosen)
    return lines


def lines_of(case):
    model, checksum = load(case)
    ids = token_ids(ROWS[-1] + 2)
    half, half_routers = routed_logprobs_of(model, case, ids, HalfCache())
    exact, exact_routers = routed_logprobs_of(model, case, ids)
    lines = [f"weights {checksum}", f"ids {len(ids)}", *row_lines("row", half, ids), *row_lines("exact", exact, ids)]
    if case.experts:
        lines += router_lines(half_routers, exact_routers)
    lines += greedy_lines(model, ids[:GREEDY_PROMPT])
    if case.name == "phi3long":
        for count, tokens in GROWN:
            lines += grown_lines(model, ids[:count], tokens)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a model; all without one")
    names = parser.parse_args().names
    known = [case.name for case in CASES]
    for name in names:
        if name not in known:
            parser.error(f"no such model: '{name}'; there are {', '.join(known)}")
    torch.manual_seed(0)
    made_by = f"# Made by make_goldens.py with transformers {transformers.__version__} and torch {torch.__version__}."
    for case in CASES:
        if names and case.name not in names:
            continue
        path = HERE / f"{case.name}.txt"
        path.write_text("\n".join([made_by, *lines_of(case)]) + "\n", encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
