#!/usr/bin/env python3
"""Train the net of digits.tdsl and write its weights and held-out images.

Needs PyTorch (any 1.13 or later), NumPy and scikit-learn; running the example
needs none of them.  Writes beside itself

  digits.safetensors   the weights, float32, PyTorch's names
  images.npy           held-out images, u8 [N, 8, 8], pixels 0..16
  labels.npy           what they show, i32 [N]

The data are scikit-learn's `load_digits`: 1797 images of 8x8 pixels, the test
part of the UCI set "Optical Recognition of Handwritten Digits", written by 13
people.  Labels come in runs of 0, 1, 2 ... 9, so the split is by position and
keeps what was written together on one side.  The last 360 are held out: they
are not looked at until the weights are final.  The 180 before them choose the
epoch; the rest train.
"""
import json
import os
import struct

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

HELD_OUT, VALIDATION, EPOCHS, BATCH, SEED = 360, 180, 60, 64, 20240607
HERE = os.path.dirname(os.path.abspath(__file__))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * 4 * 4, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.dropout(x.flatten(1), 0.3, self.training)
        return self.fc2(F.relu(self.fc1(x)))


def jitter(x, rng):
    """Random small rotations, scalings and shifts of a batch."""
    n = x.shape[0]
    angle = torch.from_numpy(rng.uniform(-0.2, 0.2, n)).float()
    scale = torch.from_numpy(rng.uniform(0.9, 1.1, (n, 2))).float()
    move = torch.from_numpy(rng.uniform(-0.2, 0.2, (n, 2))).float()
    c, s = angle.cos(), angle.sin()
    theta = torch.stack([
        torch.stack([c * scale[:, 0], -s * scale[:, 1], move[:, 0]], 1),
        torch.stack([s * scale[:, 0], c * scale[:, 1], move[:, 1]], 1)], 1)
    grid = F.affine_grid(theta, list(x.shape), align_corners=False)
    return F.grid_sample(x, grid, align_corners=False)


def accuracy(net, x, y):
    net.eval()
    with torch.no_grad():
        return (net(x).argmax(1) == y).float().mean().item()


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name in sorted(tensors):
        raw = np.ascontiguousarray(tensors[name], "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensors[name].shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


def main():
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    rng = np.random.default_rng(SEED)
    images, labels = load_digits(return_X_y=True)
    images = images.reshape(-1, 8, 8)
    x = torch.from_numpy(images / 16).float()[:, None]
    y = torch.from_numpy(labels).long()
    train = len(x) - HELD_OUT - VALIDATION
    vx, vy = x[train:train + VALIDATION], y[train:train + VALIDATION]
    tx, ty = x[:train], y[:train]

    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), 2e-3, weight_decay=1e-2)
    steps = EPOCHS * ((train + BATCH - 1) // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)
    best, kept = -1.0, None
    for epoch in range(EPOCHS):
        net.train()
        order = rng.permutation(train)
        for start in range(0, train, BATCH):
            pick = torch.from_numpy(order[start:start + BATCH])
            loss = F.cross_entropy(net(jitter(tx[pick], rng)), ty[pick],
                                   label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        score = accuracy(net, vx, vy)
        if score >= best:
            best = score
            kept = {k: v.clone() for k, v in net.state_dict().items()}
    net.load_state_dict(kept)
    print(f"training {accuracy(net, tx, ty):.4f}  validation {best:.4f}")
    hx, hy = x[-HELD_OUT:], y[-HELD_OUT:]
    print(f"held out {accuracy(net, hx, hy):.4f} of {HELD_OUT}")

    write_safetensors(os.path.join(HERE, "digits.safetensors"),
                      {k: v.numpy() for k, v in kept.items()})
    np.save(os.path.join(HERE, "images.npy"), images[-HELD_OUT:].astype("u1"))
    np.save(os.path.join(HERE, "labels.npy"), labels[-HELD_OUT:].astype("<i4"))


if __name__ == "__main__":
    main()
