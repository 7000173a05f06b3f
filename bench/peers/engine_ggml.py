"""llama.cpp: products of one row through ggml's C interface, as its models
make them, with weights in the buffer type that is faster; whole models
through libllama (llama_model.py)."""
import ctypes
import glob
import importlib.metadata
import importlib.util
import os
import time
from ctypes import POINTER, c_bool, c_char_p, c_int, c_int64, c_size_t
from ctypes import c_void_p

import numpy

from peer import Refused

F32, F16, Q4_0, Q8_0 = 0, 1, 2, 8
_lib = {}
_threads = 1


class InitParams(ctypes.Structure):
    _fields_ = [("mem_size", c_size_t), ("mem_buffer", c_void_p),
                ("no_alloc", c_bool)]


def _open_libraries():
    spec = importlib.util.find_spec("llama_cpp")
    if spec is None:
        raise ImportError("no llama_cpp")
    folder = os.path.join(os.path.dirname(spec.origin), "lib")
    for name in ("ggml-base", "ggml-cpu", "ggml"):
        path = sorted(glob.glob(f"{folder}/lib{name}.so*"))[0]
        _lib[name] = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)


_open_libraries()
VERSION = ("llama-cpp-python " +
           importlib.metadata.version("llama-cpp-python"))


def function(library, name, result, *arguments):
    f = getattr(_lib[library], name)
    f.restype, f.argtypes = result, list(arguments)
    return f


init = function("ggml-base", "ggml_init", c_void_p, InitParams)
free = function("ggml-base", "ggml_free", None, c_void_p)
new_2d = function("ggml-base", "ggml_new_tensor_2d", c_void_p, c_void_p,
                  c_int, c_int64, c_int64)
mul_mat = function("ggml-base", "ggml_mul_mat", c_void_p, c_void_p, c_void_p,
                   c_void_p)
new_graph = function("ggml-base", "ggml_new_graph", c_void_p, c_void_p)
expand = function("ggml-base", "ggml_build_forward_expand", None, c_void_p,
                  c_void_p)
alloc_from = function("ggml-base", "ggml_backend_alloc_ctx_tensors_from_buft",
                      c_void_p, c_void_p, c_void_p)
alloc_on = function("ggml-base", "ggml_backend_alloc_ctx_tensors", c_void_p,
                    c_void_p, c_void_p)
release = function("ggml-base", "ggml_backend_buffer_free", None, c_void_p)
set_tensor = function("ggml-base", "ggml_backend_tensor_set", None, c_void_p,
                      c_void_p, c_size_t, c_size_t)
get_tensor = function("ggml-base", "ggml_backend_tensor_get", None, c_void_p,
                      c_void_p, c_size_t, c_size_t)
compute = function("ggml-base", "ggml_backend_graph_compute", c_int, c_void_p,
                   c_void_p)
default_type = function("ggml-base", "ggml_backend_get_default_buffer_type",
                        c_void_p, c_void_p)
get_proc = function("ggml-base", "ggml_backend_reg_get_proc_address",
                    c_void_p, c_void_p, c_char_p)
get_device = function("ggml-base", "ggml_backend_reg_dev_get", c_void_p,
                      c_void_p, c_size_t)
alloc_buffer = function("ggml-base", "ggml_backend_buft_alloc_buffer",
                        c_void_p, c_void_p, c_size_t)
supports = function("ggml-base", "ggml_backend_dev_supports_op", c_bool,
                    c_void_p, c_void_p)
cpu_init = function("ggml-cpu", "ggml_backend_cpu_init", c_void_p)
cpu_reg = function("ggml-cpu", "ggml_backend_cpu_reg", c_void_p)
cpu_threads = function("ggml-cpu", "ggml_backend_cpu_set_n_threads", None,
                       c_void_p, c_int)
_backend = None


def start(threads):
    global _threads, _backend
    _threads = threads
    _backend = cpu_init()
    cpu_threads(_backend, threads)


def extra_buffer_types():
    """Where weights are laid out anew as they arrive."""
    registry = cpu_reg()
    address = get_proc(registry, b"ggml_backend_dev_get_extra_bufts")
    if not address:
        return []
    get = ctypes.CFUNCTYPE(POINTER(c_void_p), c_void_p)(address)
    types, found = get(get_device(registry, 0)), []
    while types and types[len(found)]:
        found.append(types[len(found)])
    return found


def is_for(buffer_type, weight, product):
    """Whether the product can be made with the weight in such memory. The
    second field of a tensor is its buffer."""
    field = ctypes.cast(weight + 8, POINTER(c_void_p))
    empty = alloc_buffer(buffer_type, 0)
    field[0] = empty
    answer = supports(get_device(cpu_reg(), 0), product)
    field[0] = None
    release(empty)
    return answer


class Product:
    """y = W x for several copies of W in one buffer type."""

    def __init__(self, kind, codes, x, n, k, sets, buffer_type):
        self.contexts = [init(InitParams(1 << 20, None, True)) for _ in "12"]
        weights, work = self.contexts
        ws = [new_2d(weights, kind, k, n) for _ in range(sets)]
        xt = new_2d(work, F32, k, 1)
        self.outs = [mul_mat(work, w, xt) for w in ws]
        self.buffers = []
        if not is_for(buffer_type, ws[0], self.outs[0]):
            raise Refused("no layout of this type")
        self.buffers.append(alloc_from(weights, buffer_type))
        self.graphs = []
        for out in self.outs:
            self.graphs.append(new_graph(work))
            expand(self.graphs[-1], out)
        self.buffers.append(alloc_on(work, _backend))
        for w in ws:
            set_tensor(w, codes.ctypes.data, 0, codes.nbytes)
        set_tensor(xt, x.ctypes.data, 0, x.nbytes)
        self.n = n

    def calls(self):
        return [lambda g=g: compute(_backend, g) for g in self.graphs]

    def result(self):
        out = numpy.empty(self.n, numpy.float32)
        get_tensor(self.outs[0], out.ctypes.data, 0, out.nbytes)
        return out

    def __del__(self):
        for b in self.buffers:
            release(b)
        for c in self.contexts:
            free(c)


def blocks(kind, load, n, k):
    """Our codes and scales in the order of ggml's blocks of 32."""
    scales = load(1, "f16", n, k // 32, 1).view(numpy.uint8)
    if kind == "q4":  # two neighbours to a byte: there i and i + 16
        codes = load(0, "u8", n, k // 32, 16)
        codes = numpy.stack((codes & 15, codes >> 4), 3)
        codes = codes.reshape(n, k // 32, 32)
        codes = codes[:, :, :16] | codes[:, :, 16:] << 4
    else:
        codes = load(0, "i8", n, k // 32, 32).view(numpy.uint8)
    return numpy.ascontiguousarray(numpy.concatenate((scales, codes), axis=2))


def seconds(product):
    calls, best = product.calls(), 1e9
    for call in calls + calls:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best


def gemv(load, sets, kind, n, k):
    kinds = {"f32": F32, "f16": F16, "q4": Q4_0, "q8": Q8_0}
    if kind not in kinds:
        raise Refused("no such type")
    if kind in ("f32", "f16"):
        codes, x = load(0, kind, n, k), load(1, "f32", k)
    else:
        codes, x = blocks(kind, load, n, k), load(2, "f32", k)
    types = [default_type(_backend)]
    if kind in ("q4", "q8"):  # the others have no other layout
        types += extra_buffer_types()
    products = []
    for t in types:
        try:
            products.append(Product(kinds[kind], codes, x, n, k, sets, t))
        except Refused:
            pass
    best = min(products, key=seconds)
    return best.calls(), best.result


def open(task, load, sets):
    if task[0] == "gemv":
        return gemv(load, sets, task[1], int(task[2]), int(task[3]))
    if task[0] == "model":
        import llama_model
        return llama_model.open(load.folder, task[1], task[2], int(task[3]),
                                _threads)
    raise Refused("not written for it")
