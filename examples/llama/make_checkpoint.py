#!/usr/bin/env python3
"""Write the tiny random checkpoints of this example.  Standard library only.

  tiny/      config.json, model.safetensors (bf16, 0.15 MB)
  sharded/   the same tensors in two files under model.safetensors.index.json

Names and shapes are those of Hugging Face's LlamaForCausalLM.  The weights are
larger than a fresh model's, so that attention is far from uniform and a wrong
rotation or mask is seen in the logits.  Two runs write the same bytes.
"""
import json
import os
import random
import struct

HERE = os.path.dirname(os.path.abspath(__file__))
LAYERS, D, H, G, F, V = 3, 48, 6, 2, 84, 131
K = D // H
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_act": "silu",
    "hidden_size": D,
    "initializer_range": 0.02,
    "intermediate_size": F,
    "max_position_embeddings": 64,
    "mlp_bias": False,
    "model_type": "llama",
    "num_attention_heads": H,
    "num_hidden_layers": LAYERS,
    "num_key_value_heads": G,
    "pretraining_tp": 1,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.41.2",
    "use_cache": True,
    "vocab_size": V,
}


def shapes():
    """Name, shape, mean and standard deviation of each tensor, in order."""
    yield "model.embed_tokens.weight", (V, D), 0.0, 0.7
    for n in range(LAYERS):
        p = f"model.layers.{n}."
        yield p + "input_layernorm.weight", (D,), 1.0, 0.2
        yield p + "self_attn.q_proj.weight", (H * K, D), 0.0, 1.5 / D ** 0.5
        yield p + "self_attn.k_proj.weight", (G * K, D), 0.0, 1.5 / D ** 0.5
        yield p + "self_attn.v_proj.weight", (G * K, D), 0.0, 1 / D ** 0.5
        yield p + "self_attn.o_proj.weight", (D, H * K), 0.0, 1 / D ** 0.5
        yield p + "post_attention_layernorm.weight", (D,), 1.0, 0.2
        yield p + "mlp.gate_proj.weight", (F, D), 0.0, 1 / D ** 0.5
        yield p + "mlp.up_proj.weight", (F, D), 0.0, 1 / D ** 0.5
        yield p + "mlp.down_proj.weight", (D, F), 0.0, 1 / F ** 0.5
    yield "model.norm.weight", (D,), 1.0, 0.2
    yield "lm_head.weight", (V, D), 0.0, 1 / D ** 0.5


def bf16(x):
    """The two bytes of x rounded to nearest even (x finite and small)."""
    bits = struct.unpack("<I", struct.pack("<f", x))[0]
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)


def normal(rng):
    """About normal: Irwin-Hall, so that no libm enters the result."""
    return sum(rng.random() for _ in range(12)) - 6.0


def write(path, tensors):
    header, data = {"__metadata__": {"format": "pt"}}, bytearray()
    for name, (shape, raw) in sorted(tensors.items()):
        header[name] = {"dtype": "BF16", "shape": list(shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f, indent=2)
        f.write("\n")


def main():
    rng, tensors = random.Random(1), {}
    for name, shape, mean, deviation in shapes():
        count = shape[0] * (shape[1] if len(shape) > 1 else 1)
        tensors[name] = shape, b"".join(
            bf16(mean + deviation * normal(rng)) for _ in range(count))
    tiny, sharded = os.path.join(HERE, "tiny"), os.path.join(HERE, "sharded")
    for folder in tiny, sharded:
        os.makedirs(folder, exist_ok=True)
        write_json(os.path.join(folder, "config.json"), CONFIG)
    write(os.path.join(tiny, "model.safetensors"), tensors)

    names, where = sorted(tensors), {}
    cut = len(names) // 2
    for n, part in enumerate((names[:cut], names[cut:]), 1):
        file = f"model-{n:05}-of-00002.safetensors"
        write(os.path.join(sharded, file), {k: tensors[k] for k in part})
        where.update({k: file for k in part})
    total = sum(len(raw) for _, raw in tensors.values())
    write_json(os.path.join(sharded, "model.safetensors.index.json"),
               {"metadata": {"total_size": total}, "weight_map": where})


if __name__ == "__main__":
    main()
