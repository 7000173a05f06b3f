"""JAX's CPU compiler, one jitted function a row; XLA takes as many threads as
there are cores to run on."""
import os
import sys

_CORES = sorted(os.sched_getaffinity(0))[:int(sys.argv[2])]
os.sched_setaffinity(0, _CORES)  # before the thread pool is made

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402

from peer import Refused  # noqa: E402

VERSION = jax.__version__
HIGHEST = jax.lax.Precision.HIGHEST


def start(threads):
    jax.config.update("jax_platforms", "cpu")
    del threads


def gemm(load, b_is_nk, m, n, k, batch):
    lead = (batch,) if batch > 1 else ()
    a = load(0, "f32", *lead, m, k)
    b = load(1, "f32", *lead, *((n, k) if b_is_nk else (k, n)))

    def f(b, a):
        return jnp.matmul(a, b.T if b_is_nk else b, precision=HIGHEST)
    return f, b, (a,)


def linear_gelu(load, m, n, k):
    x, w, b = load(0, "f32", m, k), load(1, "f32", n, k), load(2, "f32", n)
    wt = jnp.asarray(w.T)

    def f(x):
        return jax.nn.gelu(x @ wt + b, approximate=False)
    return f, x, ()


def gemv(load, kind, n, k):
    if kind not in ("f32", "f16", "i8"):
        raise Refused("no product of this type")
    w, x = load(0, kind, n, k), load(1, "f32", k)
    return lambda w, x: w.astype(jnp.float32) @ x, w, (x,)


def softmax(load, r, c):
    return lambda x: jax.nn.softmax(x, axis=1), load(0, "f32", r, c), ()


def residual_norm(load, r, c):
    x, s = (load(i, "f32", r, c) for i in (0, 1))
    w = load(2, "f32", c)

    def f(x, s, w):
        h = x + s
        return h * jax.lax.rsqrt(jnp.mean(h * h, 1, keepdims=True) + 1e-5) * w
    return f, x, (s, w)


def layernorm_gelu(load, r, c):
    x = load(0, "f32", r, c)
    w, b = (load(i, "f32", c) for i in (1, 2))

    def f(x, w, b):
        m = jnp.mean(x, 1, keepdims=True)
        v = jnp.mean((x - m) ** 2, 1, keepdims=True)
        z = (x - m) * jax.lax.rsqrt(v + 1e-5) * w + b
        return jax.nn.gelu(z, approximate=False)
    return f, x, (w, b)


def cross_entropy(load, r, v):
    x, y = load(0, "f32", r, v), load(1, "i32", r)

    def f(x, y):
        at = jnp.take_along_axis(x, y[:, None], 1)[:, 0]
        return jax.nn.logsumexp(x, 1) - at
    return f, x, (y,)


def linear_cross_entropy(load, r, d, v):
    h, w, y = load(0, "f32", r, d), load(1, "f32", v, d), load(2, "i32", r)

    def f(h, w, y):
        z = h @ w.T
        at = jnp.take_along_axis(z, y[:, None], 1)[:, 0]
        return jax.nn.logsumexp(z, 1) - at
    return f, h, (w, y)


def attention(load, h, g, t, s, d, kind):
    if kind not in ("full", "causal"):
        raise Refused("not written for this form")
    q = load(0, "f32", h, t, d).transpose(1, 0, 2)
    k, v = (load(i, "f32", g, s, d).transpose(1, 0, 2) for i in (1, 2))

    def f(q, k, v):
        o = jax.nn.dot_product_attention(q, k, v, scale=0.125,
                                         is_causal=kind == "causal")
        return o.transpose(1, 0, 2)
    return f, q, (k, v)


TASKS = {f.__name__: f for f in (
    gemm, linear_gelu, gemv, softmax, residual_norm, layernorm_gelu,
    cross_entropy, linear_cross_entropy, attention)}


def open(task, load, sets):
    if task[0] not in TASKS:
        raise Refused("not written for it")
    args = [int(w) if w.lstrip("-").isdigit() else w for w in task[1:]]
    function, first, rest = TASKS[task[0]](load, *args)
    function = jax.jit(function)
    rest = [jnp.asarray(r) for r in rest]
    firsts = [jnp.array(first, copy=True) for _ in range(sets)]
    calls = [lambda a=a: function(a, *rest).block_until_ready()
             for a in firsts]
    return calls, lambda: function(firsts[0], *rest)
