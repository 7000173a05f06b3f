"""ONNX Runtime's CPU provider, operands and result bound once."""
import numpy
import onnxruntime

import graphs

VERSION = onnxruntime.__version__
_threads = 1


def start(threads):
    global _threads
    _threads = threads


def session(model):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = _threads
    options.inter_op_num_threads = 1
    # workers spin during a run and not behind it, when others are measured
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return onnxruntime.InferenceSession(model, options,
                                        providers=["CPUExecutionProvider"])


def open(task, load, sets):
    model, arrays, rotating = graphs.build(task, load)
    run = session(model)
    out = numpy.empty(graphs.result_shape(model), numpy.float32)
    name = run.get_outputs()[0].name
    calls, shared = [], None
    for i in range(sets if rotating else 1):
        own = {key: array.copy() if key == rotating or i == 0 else
               shared[key] for key, array in arrays.items()}
        shared = shared or own
        binding = run.io_binding()
        for key, array in own.items():
            binding.bind_input(key, "cpu", 0, array.dtype, array.shape,
                               array.ctypes.data)
        binding.bind_output(name, "cpu", 0, numpy.float32, out.shape,
                            out.ctypes.data)
        calls.append(lambda b=binding, o=own: run.run_with_iobinding(b))
    return calls, lambda: out
