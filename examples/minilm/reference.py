#!/usr/bin/env python3
"""Compute the stored reference embeddings with PyTorch and transformers.

Run once, after fetch.sh; needs PyTorch, transformers and tokenizers (made with
1.13, 4.41.2 and 0.19.1).  Reads sentences.txt and data/, writes

  tokens.npy     i32 [B, T], padded with 0
  length.npy     i32 [B], tokens of each row
  reference.npy  f32 [B, 384], unit vectors, computed in binary64

The model is Hugging Face's BertModel, not the program under test; pooling and
normalization are those of sentence-transformers, written out below.  The last
row is a single token without [CLS] and [SEP], the shortest input there is.
"""
import os

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import BertConfig, BertModel
from safetensors.torch import load_file

HERE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.join(HERE, "data")
LONGEST = 256                       # max_seq_length of the published model


def main():
    tokenizer = Tokenizer.from_file(os.path.join(DATA, "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(LONGEST)
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        rows = [tokenizer.encode(line.rstrip("\n")).ids for line in f]
    rows.append([tokenizer.token_to_id("hello")])

    config = BertConfig.from_json_file(os.path.join(DATA, "config.json"))
    model = BertModel(config)
    weights = load_file(os.path.join(DATA, "model.safetensors"))
    unused = model.load_state_dict(weights, strict=False)
    assert not unused.missing_keys, unused
    model = model.double().eval()

    # Each row alone, without padding, so that masking is not assumed.
    vectors = []
    with torch.no_grad():
        for row in rows:
            hidden = model(torch.tensor([row])).last_hidden_state[0]
            mean = hidden.mean(0)
            vectors.append((mean / mean.norm()).numpy())

    tokens = np.zeros((len(rows), max(map(len, rows))), "<i4")
    for b, row in enumerate(rows):
        tokens[b, :len(row)] = row
    np.save(os.path.join(HERE, "tokens.npy"), tokens)
    np.save(os.path.join(HERE, "length.npy"),
            np.array([len(r) for r in rows], "<i4"))
    np.save(os.path.join(HERE, "reference.npy"),
            np.stack(vectors).astype("<f4"))
    print("tokens in each row:", *map(len, rows))


if __name__ == "__main__":
    main()
