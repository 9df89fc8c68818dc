"""The counterpart of oracle.py for architecture `gemma3`: its float32 forward pass in numpy."""
import numpy as np

LOCAL_ROPE_BASE = 10000.0  # Of layers with a window; files may say another one.
GLOBAL_EVERY = 6           # The sixth layer of each six sees all positions.


def hidden_states(field, weight, ids):
    """The states [positions, hidden size] that the output matrix multiplies, all in float32."""
    get = lambda key, default=None: field(f"gemma3.{key}", default)
    layers, heads, head_dim = get("block_count"), get("attention.head_count"), get("attention.key_length")
    kv_heads, window = get("attention.head_count_kv", heads), get("attention.sliding_window")
    eps = np.float32(get("attention.layer_norm_rms_epsilon"))
    n = len(ids)
    x = weight["token_embd.weight"][ids]
    x = x * np.sqrt(np.float32(x.shape[1]))

    def norm(y, w):  # The file's weights have the 1 that the model adds to them.
        return y / np.sqrt(np.mean(y * y, axis=-1, keepdims=True) + eps) * w

    def turns(base):
        angle = np.arange(n)[:, None] * float(base) ** (-2.0 * np.arange(head_dim // 2) / head_dim)
        return np.cos(angle).astype(np.float32)[:, None, :], np.sin(angle).astype(np.float32)[:, None, :]

    def rope(y, cos, sin):  # [n, heads, head_dim]; elements half a head apart turn together.
        first, second = np.split(y, 2, axis=-1)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def gelu(y):
        return np.float32(0.5) * y * (1 + np.tanh(np.float32(np.sqrt(2 / np.pi)) * (y + np.float32(0.044715) * y ** 3)))

    distance = np.arange(n)[:, None] - np.arange(n)[None, :]
    masks = {near: np.where((distance < 0) | (near & (distance >= window)), np.float32(-np.inf), np.float32(0))
             for near in (False, True)}
    tables = {False: turns(get("rope.freq_base", 1e6)), True: turns(get("rope.freq_base_swa", LOCAL_ROPE_BASE))}
    for i in range(layers):
        w = lambda name: weight[f"blk.{i}.{name}.weight"]
        near = i % GLOBAL_EVERY != GLOBAL_EVERY - 1
        h = norm(x, w("attn_norm"))
        q = rope(norm((h @ w("attn_q").T).reshape(n, heads, head_dim), w("attn_q_norm")), *tables[near])
        k = rope(norm((h @ w("attn_k").T).reshape(n, kv_heads, head_dim), w("attn_k_norm")), *tables[near])
        v = (h @ w("attn_v").T).reshape(n, kv_heads, head_dim)
        k, v = (np.repeat(t, heads // kv_heads, axis=1) for t in (k, v))
        score = np.einsum("qhd,khd->hqk", q, k) / np.float32(np.sqrt(head_dim)) + masks[near]
        p = np.exp(score - score.max(axis=-1, keepdims=True))
        p /= p.sum(axis=-1, keepdims=True)
        o = np.einsum("hqk,khd->qhd", p, v).reshape(n, -1) @ w("attn_output").T
        x = x + norm(o, w("post_attention_norm"))
        h = norm(x, w("ffn_norm"))
        f = (gelu(h @ w("ffn_gate").T) * (h @ w("ffn_up").T)) @ w("ffn_down").T
        x = x + norm(f, w("post_ffw_norm"))
    return norm(x, weight["output_norm.weight"])
