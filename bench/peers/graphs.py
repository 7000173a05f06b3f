"""The rows as ONNX graphs, for the engines that read those.

build(task, load) gives (model bytes, inputs, rotating): inputs are arrays by
name, and rotating names the one of which there is a copy for each set.
"""
import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

from peer import Refused

FLOAT = TensorProto.FLOAT
NEW = 23  # opset with RMSNormalization and Attention


class Graph:
    def __init__(self, opset=20):
        self.nodes, self.constants = [], []
        self.inputs, self.arrays = [], {}
        self.opset = opset
        self.domains = {}

    def input(self, name, array):
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        self.inputs.append(helper.make_tensor_value_info(name, kind,
                                                         array.shape))
        self.arrays[name] = array
        return name

    def constant(self, name, array):
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def node(self, op, inputs, domain="", outputs=1, **attributes):
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(op, inputs, names, domain=domain,
                                           **attributes))
        if domain:
            self.domains[domain] = 1
        return names[0]

    def model(self, result, shape):
        out = helper.make_tensor_value_info(result, FLOAT, shape)
        graph = helper.make_graph(self.nodes, "row", self.inputs, [out],
                                  self.constants)
        opsets = [helper.make_opsetid("", self.opset)]
        opsets += [helper.make_opsetid(d, v)
                   for d, v in self.domains.items()]
        # readers of a version know the format of that version
        return helper.make_model(graph, opset_imports=opsets,
                                 ir_version=10).SerializeToString()


def gemm(load, b_is_nk, m, n, k, batch):
    g = Graph()
    lead = (batch,) if batch > 1 else ()
    a = g.input("a", load(0, "f32", *lead, m, k))
    b = g.input("b", load(1, "f32", *lead, *((n, k) if b_is_nk else (k, n))))
    if b_is_nk:
        out = g.node("Gemm", [a, b], transB=1)
    else:
        out = g.node("MatMul", [a, b])
    return g.model(out, lead + (m, n)), g.arrays, "b"


def linear_gelu(load, m, n, k):
    g = Graph()
    x = g.input("x", load(0, "f32", m, k))
    w = g.constant("w", numpy.ascontiguousarray(load(1, "f32", n, k).T))
    b = g.constant("b", load(2, "f32", n))
    y = g.node("Gelu", [g.node("Add", [g.node("MatMul", [x, w]), b])])
    return g.model(y, (m, n)), g.arrays, None


def gemv(load, kind, n, k):
    g = Graph()
    if kind == "f32":
        w = g.input("w", load(0, "f32", n, k))
        x = g.input("x", load(1, "f32", k).reshape(1, k))
        return g.model(g.node("Gemm", [x, w], transB=1), (1, n)), g.arrays, "w"
    if kind not in ("q4", "q8"):
        raise Refused("no product of this type")
    bits = 4 if kind == "q4" else 8
    if bits == 4:
        c = load(0, "u8", n, k // 32, 16)
    else:
        c = (load(0, "i8", n, k // 32, 32).astype(numpy.int16) + 128)
    s = load(1, "f16", n, k // 32).astype(numpy.float32)
    w = g.constant("w", numpy.ascontiguousarray(c.astype(numpy.uint8)))
    s = g.constant("s", s)
    x = g.input("x", load(2, "f32", k).reshape(1, k))
    y = g.node("MatMulNBits", [x, w, s], domain="com.microsoft", K=k, N=n,
               bits=bits, block_size=32, accuracy_level=4)
    return g.model(y, (1, n)), g.arrays, None


def softmax(load, r, c):
    g = Graph()
    x = g.input("x", load(0, "f32", r, c))
    return g.model(g.node("Softmax", [x], axis=1), (r, c)), g.arrays, None


def residual_norm(load, r, c):
    g = Graph(NEW)
    x, s = (g.input("xs"[i], load(i, "f32", r, c)) for i in (0, 1))
    w = g.constant("w", load(2, "f32", c))
    y = g.node("RMSNormalization", [g.node("Add", [x, s]), w], axis=-1,
               epsilon=1e-5)
    return g.model(y, (r, c)), g.arrays, None


def layernorm_gelu(load, r, c):
    g = Graph()
    x = g.input("x", load(0, "f32", r, c))
    w, b = (g.constant("wb"[i], load(i + 1, "f32", c)) for i in (0, 1))
    y = g.node("Gelu", [g.node("LayerNormalization", [x, w, b], axis=-1,
                               epsilon=1e-5)])
    return g.model(y, (r, c)), g.arrays, None


def cross_entropy(load, r, v):
    g = Graph()
    x = g.input("x", load(0, "f32", r, v))
    y = g.constant("y", load(1, "i32", r).astype(numpy.int64))
    loss = g.node("SoftmaxCrossEntropyLoss", [x, y], reduction="none")
    return g.model(loss, (r,)), g.arrays, None


def attention(load, h, g_heads, t, s, d, kind):
    if kind not in ("full", "causal"):
        raise Refused("no operator for this form")
    g = Graph(NEW)
    q = g.input("q", load(0, "f32", 1, h, t, d))
    k, v = (g.input("kv"[i - 1], load(i, "f32", 1, g_heads, s, d))
            for i in (1, 2))
    o = g.node("Attention", [q, k, v], scale=0.125,
               is_causal=int(kind == "causal"))
    return g.model(o, (1, h, t, d)), g.arrays, None


TASKS = {f.__name__: f for f in (
    gemm, linear_gelu, gemv, softmax, residual_norm, layernorm_gelu,
    cross_entropy, attention)}


def build(task, load):
    if task[0] not in TASKS:
        raise Refused("not written for it")
    args = [int(w) if w.lstrip("-").isdigit() else w for w in task[1:]]
    model, arrays, rotating = TASKS[task[0]](load, *args)
    return model, arrays, rotating


def result_shape(model):
    dims = onnx.load_from_string(model).graph.output[0].type.tensor_type.shape
    return [d.dim_value for d in dims.dim]
