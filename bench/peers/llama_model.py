"""Whole models through libllama: the matrix' checkpoint as a GGUF file."""
import os

import gguf
import llama_cpp
import numpy

import checkpoint

KINDS = {"f32": gguf.GGMLQuantizationType.F32,
         "f16": gguf.GGMLQuantizationType.F16,
         "i8": gguf.GGMLQuantizationType.Q8_0}


def interleaved(array, heads):
    """Rows of q and k in the order of llama.cpp's rotation: pairs."""
    return (array.reshape(heads, 2, array.shape[0] // heads // 2,
                          *array.shape[1:]).swapaxes(1, 2)
            .reshape(array.shape))


def coded(codes, scale):
    """Codes with a scale for each row as blocks of 32 with a scale each."""
    rows, columns = codes.shape
    scales = numpy.repeat(scale.astype(numpy.float16), columns // 32)
    blocks = numpy.concatenate(
        (scales.view(numpy.uint8).reshape(-1, 2),
         codes.view(numpy.uint8).reshape(-1, 32)), axis=1)
    return blocks.reshape(rows, columns // 32 * 34)


def add_vocabulary(writer, labels):
    writer.add_tokenizer_model("no_vocab")
    writer.add_vocab_size(labels)


def write_llama(path, config, tensors, dtype):
    w = gguf.GGUFWriter(path, "llama")
    heads = config["num_attention_heads"]
    groups = config["num_key_value_heads"]
    w.add_context_length(2048)
    w.add_embedding_length(config["hidden_size"])
    w.add_block_count(config["num_hidden_layers"])
    w.add_feed_forward_length(config["intermediate_size"])
    w.add_head_count(heads)
    w.add_head_count_kv(groups)
    w.add_layer_norm_rms_eps(config["rms_norm_eps"])
    w.add_rope_freq_base(config["rope_theta"])
    w.add_rope_dimension_count(config["head_dim"])
    add_vocabulary(w, config["vocab_size"])
    names = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
             "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
             "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
             "post_attention_layernorm": "ffn_norm"}

    def add(name, source, count=0):
        array = tensors[source + ".weight"]
        scale = tensors.get(source + ".scale")
        if count:
            array = interleaved(array, count)
            scale = None if scale is None else interleaved(scale, count)
        if scale is not None:
            w.add_tensor(name, coded(array, scale), raw_dtype=KINDS[dtype])
        elif array.ndim == 1:
            w.add_tensor(name, array.astype(numpy.float32))
        else:
            w.add_tensor(name, numpy.ascontiguousarray(array))

    add("token_embd.weight", "model.embed_tokens")
    add("output_norm.weight", "model.norm")
    for i in range(config["num_hidden_layers"]):
        for source, name in names.items():
            count = {"attn_q": heads, "attn_k": groups}.get(name, 0)
            add(f"blk.{i}.{name}.weight", f"model.layers.{i}.{source}", count)
    return w


def write_gpt2(path, config, tensors, dtype):
    w = gguf.GGUFWriter(path, "gpt2")
    w.add_context_length(config["n_positions"])
    w.add_embedding_length(config["n_embd"])
    w.add_block_count(config["n_layer"])
    w.add_feed_forward_length(4 * config["n_embd"])
    w.add_head_count(config["n_head"])
    w.add_layer_norm_eps(1e-5)
    add_vocabulary(w, config["vocab_size"])
    names = {"ln_1": "attn_norm", "attn.c_proj": "attn_output",
             "ln_2": "ffn_norm", "mlp.c_fc": "ffn_up",
             "mlp.c_proj": "ffn_down"}

    def add(name, array):
        w.add_tensor(name, array.astype(numpy.float32) if array.ndim == 1
                     else numpy.ascontiguousarray(array))

    add("token_embd.weight", tensors["wte.weight"])
    add("position_embd.weight", tensors["wpe.weight"].astype(numpy.float32))
    for part in ("weight", "bias"):
        add(f"output_norm.{part}", tensors[f"ln_f.{part}"])
        for i in range(config["n_layer"]):
            for source, name in names.items():
                add(f"blk.{i}.{name}.{part}", tensors[f"h.{i}.{source}.{part}"])
            add(f"blk.{i}.attn_qkv.{part}", numpy.concatenate(
                [tensors[f"h.{i}.attn.{x}.{part}"] for x in "qkv"]))
    return w


def write(folder, arch, dtype):
    config, tensors = checkpoint.read(folder)
    path = f"{folder}/model.gguf"
    if not os.path.exists(path):
        w = {"llama": write_llama, "gpt2": write_gpt2}[arch](
            path, config, tensors, dtype)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.write_tensors_to_file()
        w.close()
    return path, config["vocab_size"]


class Model:
    def __init__(self, folder, arch, dtype, count, threads):
        path, self.labels = write(folder, arch, dtype)
        p = llama_cpp.llama_model_default_params()
        p.use_mmap = False
        self.model = llama_cpp.llama_load_model_from_file(path.encode(), p)
        p = llama_cpp.llama_context_default_params()
        p.n_ctx, p.n_batch, p.n_ubatch = 1024, 512, 512
        p.n_threads = p.n_threads_batch = threads
        if dtype == "f32":
            p.type_k = p.type_v = 0
        self.context = llama_cpp.llama_new_context_with_model(self.model, p)
        self.memory = llama_cpp.llama_get_memory(self.context)
        self.tokens = checkpoint.tokens(self.labels)
        self.count, self.at = count, 0
        if count == 1:
            self.evaluate(self.tokens[:checkpoint.PROMPT])
            self.at = checkpoint.PROMPT

    def evaluate(self, tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        batch = llama_cpp.llama_batch_get_one(array, len(tokens))
        if llama_cpp.llama_decode(self.context, batch) != 0:
            raise RuntimeError("llama_decode")
        llama_cpp.llama_synchronize(self.context)

    def prefill(self):
        llama_cpp.llama_memory_clear(self.memory, False)
        self.evaluate(self.tokens[:self.count])

    def decode(self):
        self.evaluate([self.tokens[0]])
        self.at += 1
        if self.at == checkpoint.LAST:
            self.at = checkpoint.PROMPT
            llama_cpp.llama_memory_seq_rm(self.memory, 0, self.at, -1)

    def logits(self):
        p = llama_cpp.llama_get_logits_ith(self.context, -1)
        return numpy.ctypeslib.as_array(p, (self.labels,)).copy()

    def __del__(self):
        llama_cpp.llama_free(self.context)
        llama_cpp.llama_free_model(self.model)


def open(folder, arch, dtype, count, threads):
    m = Model(folder, arch, dtype, count, threads)
    return [m.decode if count == 1 else m.prefill], m.logits
