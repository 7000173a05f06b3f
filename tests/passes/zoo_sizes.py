"""What the chains of find_cascades/zoo.tdsl may keep in memory between their
kernels, typed from the design: nothing where there are rows enough, else the
state of each split of the axis, and what later kernels read of a row. Never an
element for each pair of row and place of the axis."""

# floats of state a row; a place is an i64, two floats
STATE = {"p01": 2, "p02": 2, "p03": 3, "p10": 66, "p13": 132, "p14": 66,
         "p16": 3, "p19": 3, "p20": 5, "p21": 3, "p22": 4, "p23": 131,
         "p24": 2, "p25": 11 + 16, "p26": 9, "p27": 2, "p28": 3, "p29": 7,
         "p30": 2, "p31": 3, "p32": 4, "p33": 8, "p34": 10 + 8, "p35": 9,
         "p36": 2, "p37": 7, "p38": 3}
MANY_ROWS = ("p04", "p05", "p06", "p07", "p08", "p09", "p12", "p15")
SPLIT, LINE = 1024, 64  # elements of the axis; bytes that a tensor begins at
ENTRIES = tuple("p%02d" % i for i in range(1, 39))
WIDE = {"p12": {"C": 64, "R": 32}, "p25": {"O": 8}, "p26": {"O": 8},
        "p34": {"O": 8}, "p35": {"O": 8}}  # extents that are compiled in


def kept(entry, d):
    """Bytes for the dims d."""
    if entry in MANY_ROWS:
        return 0
    if entry == "p17":  # the logarithm and the point of a row
        return 4 * 2 * d["N"] + 2 * LINE
    if entry == "p18":  # besides, the normalised rows
        return 4 * (2 * 64 + 2) * d["N"] + 4 * LINE
    if entry == "p11":
        axis, state = d["MP"] * 16, 8 * 66
    elif entry == "p27":
        axis, state = d["C"] * d["Y"] * d["X"], STATE[entry]
    else:
        axis, state = d["N"], STATE[entry]
    splits = (axis + SPLIT - 1) // SPLIT
    # the number of elements of a split is one more, and so is a pivot
    return splits * 4 * (state + 2) + (state % 64 + 2) * LINE
