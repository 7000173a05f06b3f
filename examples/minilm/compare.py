#!/usr/bin/env python3
"""The comparisons of run.sh.  Standard library only.

  compare.py row N DIR            write row N of the batch, without padding, as
                                  DIR/tokens.npy and DIR/length.npy
  compare.py rows N WIDTH DIR     write the first N rows of the batch, padded
                                  to WIDTH tokens, likewise
  compare.py reference OUT.npy [N]
                                  compare all embeddings, or the first N, with
                                  reference.npy
  compare.py same OUT.npy N ROW.npy
                                  row N of OUT.npy and ROW.npy are equal bits
"""
import array
import ast
import math
import os
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
COSINE, DIFFERENCE = 0.9999, 2e-4


def read_npy(path):
    """Shape and flat array of a C-ordered little-endian f4 or i4 file."""
    with open(path, "rb") as f:
        raw = f.read()
    if raw[:6] != b"\x93NUMPY":
        raise SystemExit(f"{path}: not an npy file")
    wide = raw[6] > 1
    start = 12 if wide else 10
    size = struct.unpack("<I" if wide else "<H", raw[8:start])[0]
    head = ast.literal_eval(raw[start:start + size].decode("latin-1"))
    code = {"<f4": "f", "<i4": "i"}.get(head["descr"])
    if code is None or head["fortran_order"]:
        raise SystemExit(f"{path}: {head}: not expected here")
    data = array.array(code)
    data.frombytes(raw[start + size:])
    if sys.byteorder == "big":
        data.byteswap()
    if len(data) != math.prod(head["shape"]):
        raise SystemExit(f"{path}: truncated")
    return head["shape"], data


def write_npy(path, shape, data):
    head = repr({"descr": "<i4", "fortran_order": False, "shape": shape})
    head += " " * (-(len(head) + 11) % 64) + "\n"
    if sys.byteorder == "big":
        data.byteswap()
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)))
        f.write(head.encode() + data.tobytes())


def batch():
    shape, tokens = read_npy(os.path.join(HERE, "tokens.npy"))
    return shape, tokens, read_npy(os.path.join(HERE, "length.npy"))[1]


def sentences(count):
    with open(os.path.join(HERE, "sentences.txt"), encoding="utf-8") as f:
        lines = f.read().split("\n")[:-1]
    return (lines + ["hello (one token alone)"] * count)[:count]


def write_row(n, folder):
    (_, width), tokens, length = batch()
    row = tokens[n * width:n * width + length[n]]
    write_npy(os.path.join(folder, "tokens.npy"), (1, len(row)), row)
    write_npy(os.path.join(folder, "length.npy"), (1,), length[n:n + 1])


def write_rows(count, new_width, folder):
    (_, width), tokens, length = batch()
    if max(length[:count]) > new_width:
        raise SystemExit(f"a sentence has more than {new_width} tokens")
    rows = array.array("i")
    for n in range(count):
        rows += tokens[n * width:n * width + new_width]
    write_npy(os.path.join(folder, "tokens.npy"), (count, new_width), rows)
    write_npy(os.path.join(folder, "length.npy"), (count,), length[:count])


def reference(path, count):
    shape, got = read_npy(path)
    wanted, want = read_npy(os.path.join(HERE, "reference.npy"))
    wanted = (count or wanted[0],) + wanted[1:]
    if shape != wanted:
        raise SystemExit(f"{path}: shape {shape}, wanted {wanted}")
    rows, width = shape
    length = batch()[2]
    print("tokens   1 - cosine   difference   sentence")
    good = True
    texts = sentences(rows)
    for b, text in enumerate(texts):
        x = got[b * width:(b + 1) * width]
        y = want[b * width:(b + 1) * width]
        norms = math.sqrt(math.fsum(v * v for v in x)
                          * math.fsum(v * v for v in y))
        dot = math.fsum(p * q for p, q in zip(x, y))
        cosine = dot / norms if norms > 0 else math.nan
        worst = max(math.nan if p != p else abs(p - q) for p, q in zip(x, y))
        if any(p != p for p in x):
            worst = math.nan
        passed = cosine >= COSINE and worst <= DIFFERENCE
        good = good and passed
        text = text if len(text) <= 38 else text[:35] + "..."
        text = text or "(empty)"
        away = 1 - cosine if cosine < 1 or cosine != cosine else 0.0
        print(f"{length[b]:6}   {away:10.1e}   {worst:10.1e}"
              f"   {text}{'' if passed else '   FAILED'}")
    for a, b in ((1, 2), (3, 4), (1, 4)):       # what the vectors are for
        x = got[a * width:(a + 1) * width]
        y = got[b * width:(b + 1) * width]
        print(f"likeness {math.fsum(p * q for p, q in zip(x, y)):5.2f}: "
              f"{texts[a][:29]}... {texts[b][:29]}...")
    print(f"minilm: {rows} sentences, wanted cosine >= {COSINE} and "
          f"difference <= {DIFFERENCE:g}: {'passed' if good else 'FAILED'}")
    return good


def same(path, n, row_path):
    (_, width), got = read_npy(path)
    _, row = read_npy(row_path)
    good = got[n * width:(n + 1) * width].tobytes() == row.tobytes()
    print(f"minilm: sentence {n} alone and in the padded batch: "
          f"{'equal bits' if good else 'DIFFERENT bits'}")
    return good


def main(argv):
    if len(argv) == 3 and argv[0] == "row":
        write_row(int(argv[1]), argv[2])
        return 0
    if len(argv) == 4 and argv[0] == "rows":
        write_rows(int(argv[1]), int(argv[2]), argv[3])
        return 0
    if len(argv) in (2, 3) and argv[0] == "reference":
        return 0 if reference(argv[1], int((argv + [0])[2])) else 1
    if len(argv) == 4 and argv[0] == "same":
        return 0 if same(argv[1], int(argv[2]), argv[3]) else 1
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
