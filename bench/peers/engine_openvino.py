"""OpenVINO's CPU plugin in f32, one stream, tensors shared with the request."""
import openvino

import graphs

VERSION = openvino.__version__.split("-")[0]
_threads = 1


def start(threads):
    global _threads
    _threads = threads


def open(task, load, sets):
    model, arrays, rotating = graphs.build(task, load)
    core = openvino.Core()
    compiled = core.compile_model(
        core.read_model(model), "CPU",
        {"INFERENCE_NUM_THREADS": _threads, "NUM_STREAMS": 1,
         "INFERENCE_PRECISION_HINT": "f32", "ENABLE_CPU_PINNING": False})
    requests, calls, shared = [], [], None
    for i in range(sets if rotating else 1):
        request = compiled.create_infer_request()
        own = {key: array.copy() if key == rotating or i == 0 else
               shared[key] for key, array in arrays.items()}
        shared = shared or own
        for key, array in own.items():
            request.set_tensor(key, openvino.Tensor(array, shared_memory=True))
        requests.append((request, own))
        calls.append(request.infer)
    return calls, lambda: requests[0][0].get_output_tensor(0).data
