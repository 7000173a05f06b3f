#!/usr/bin/env python3
"""Compute the stored logits with Hugging Face transformers.

Run once, after make_checkpoint.py; needs PyTorch, transformers and safetensors
(made with 1.13, 4.41.2 and 0.8).  Writes

  tokens.npy   i32 [B, N]     three sequences
  exact.npy    f32 [B, N, V]  logits at every position, float32 throughout
  rounded.npy  f32 [B, N, V]  the same with eight intermediate values of each
                              layer and the last norm rounded to bf16

llama.tdsl keeps activations and the key-value cache in bf16 and says where it
rounds.  Hugging Face's own bf16 mode rounds after every operation, which is
another function.  So `rounded` is LlamaForCausalLM in float32 with hooks that
round to bf16 exactly what llama.tdsl writes as bf16; everything else is the
library's code.  `exact` is the model without hooks; llama_f32.tdsl, the same
text with f32 for bf16 activations, is compared with that.

A value close to the middle between two bf16 neighbours may be rounded either
way by engines that differ in the last bit of f32.  The tokens are drawn so that
no value comes that close: a token is rejected if one of its intermediate values
lies within MARGIN (relative to the root mean square of its row, about five
standard deviations of the error of an f32 sum of this length) of such a middle.
Values below SMALL of their row do not count: their bf16 steps are so fine that
a step more or less is not seen.  Engines whose f32 arithmetic is sound then
round alike, and the logits must agree closely.
"""
import os
import random

import numpy as np
import torch
from transformers import LlamaForCausalLM
from transformers.models.llama import modeling_llama

HERE = os.path.dirname(os.path.abspath(__file__))
ROWS, LENGTH, MARGIN, SMALL = 3, 24, 5e-7, 2e-3


class Rounding:
    """Hooks that round to bf16, and the closest call that they saw."""

    def __init__(self, model):
        self.closest = np.inf
        for layer in model.model.layers:
            self.output(layer.input_layernorm)
            self.output(layer.self_attn.v_proj)
            self.input(layer.self_attn.o_proj)
            self.output(layer.post_attention_layernorm)
            self.input(layer.mlp.down_proj)
            layer.register_forward_hook(
                lambda _m, _in, out: (self.round(out[0]),) + out[1:])
        self.output(model.model.norm)
        rotate = modeling_llama.apply_rotary_pos_emb
        modeling_llama.apply_rotary_pos_emb = lambda *a, **k: tuple(
            self.round(x) for x in rotate(*a, **k))
        self.undo = lambda: setattr(
            modeling_llama, "apply_rotary_pos_emb", rotate)

    def output(self, module):
        module.register_forward_hook(lambda _m, _in, out: self.round(out))

    def input(self, module):
        module.register_forward_pre_hook(lambda _m, args: self.round(args[0]))

    def round(self, x):
        y = x.float().to(torch.bfloat16)
        bits = y.view(torch.int16)
        back = y.to(x.dtype)
        # The middle towards x: half way to the neighbour on that side.
        step = torch.where((x.abs() > back.abs()), 1, -1).to(torch.int16)
        other = (bits + step).view(torch.bfloat16).to(x.dtype)
        gap = (x - (back + other) / 2).abs()
        scale = x.square().mean(-1, True).sqrt()
        gap[x.abs() < SMALL * scale] = np.inf
        self.closest = min(self.closest, (gap / scale).min().item())
        return back


def load(dtype):
    return LlamaForCausalLM.from_pretrained(
        os.path.join(HERE, "tiny"), torch_dtype=dtype,
        attn_implementation="eager").eval()


def draw(model, rounding, rng):
    """A sequence none of whose intermediate values is a close call."""
    tokens, past, rejected = [], None, 0
    while len(tokens) < LENGTH:
        token = rng.randrange(3, model.config.vocab_size)
        rounding.closest = np.inf
        step = model(torch.tensor([[token]]), past_key_values=past,
                     use_cache=True)
        if rounding.closest > MARGIN:
            tokens.append(token)
            past = step.past_key_values
        else:
            rejected += 1
    print(f"{len(tokens)} tokens, {rejected} rejected")
    return tokens


def main():
    torch.set_num_threads(1)
    rng = random.Random(2)
    with torch.no_grad():
        model = load(torch.float32)
        rounding = Rounding(model)
        tokens = torch.tensor(
            [draw(model, rounding, rng) for _ in range(ROWS)])
        rounding.closest = np.inf
        rounded = model(tokens).logits
        print(f"closest call {rounding.closest:.2e} of the row")
        # Token by token through the library's cache, as decoding does.
        past, steps = None, []
        for t in range(LENGTH):
            step = model(tokens[:, t:t + 1], past_key_values=past,
                         use_cache=True)
            past = step.past_key_values
            steps.append(step.logits)
        decoded = torch.cat(steps, 1)
        rounding.undo()

        double = load(torch.float64)
        rounding = Rounding(double)
        fine = double(tokens).logits
        rounding.undo()
        exact = load(torch.float32)(tokens).logits
        exact64 = load(torch.float64)(tokens).logits

    def difference(a, b):
        return (a.double() - b.double()).abs().max().item()

    print(f"logits up to {exact.abs().max().item():.2f}")
    print(f"rounded: decode against prefill {difference(decoded, rounded):.1e}"
          f", float32 against float64 {difference(rounded, fine):.1e}")
    print(f"exact: float32 against float64 {difference(exact, exact64):.1e}")
    print(f"rounded against exact {difference(rounded, exact):.1e}")
    assert difference(decoded, rounded) < 2e-5
    assert difference(rounded, fine) < 2e-5
    two = rounded.topk(2, -1).values
    lead = (two[..., 0] - two[..., 1]).min().item()
    print(f"smallest lead of the best token {lead:.1e}")
    assert lead > 3e-4
    np.save(os.path.join(HERE, "tokens.npy"), tokens.numpy().astype("<i4"))
    np.save(os.path.join(HERE, "exact.npy"), exact.numpy().astype("<f4"))
    np.save(os.path.join(HERE, "rounded.npy"), rounded.numpy().astype("<f4"))


if __name__ == "__main__":
    main()
