"""A peer as one runner of the bench: worker.py KIND NET.yir WEIGHTS.safetensors THREADS FILE[,FILE...] OUTPUT[,OUTPUT...]

KIND is a key of RUNNERS; a FILE for each of the network's inputs holds its bytes, f32. The words on stdin: "run N" answers with the
times of N runs in milliseconds, "dump FILE" writes the outputs' bytes one after the other. Each answer is one line of
JSON; the first, unasked, tells what was loaded. A run gives the network's outputs into memory of the library, with no copy
besides.
"""

import json
import os
import sys
import time

import numpy

import ir


def onnxruntime(net, weights, outputs, threads, inputs):
    import onnxruntime as ort

    import onnx_net

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    model = onnx_net.build(net, weights, outputs).SerializeToString()
    session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in zip(net.inputs, inputs):
        binding.bind_cpu_input(name, array)
    for name in outputs:
        binding.bind_output(name)
    run = lambda: session.run_with_iobinding(binding)
    return ort.__version__, run, lambda: binding.copy_outputs_to_cpu()


def openvino(net, weights, outputs, threads, inputs):
    import openvino as ov

    import onnx_net

    core = ov.Core()
    model = core.read_model(onnx_net.build(net, weights, outputs).SerializeToString())
    compiled = core.compile_model(model, "CPU", {
        "PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"})
    request = compiled.create_infer_request()
    for name, array in zip(net.inputs, inputs):
        request.set_tensor(name, ov.Tensor(array, shared_memory=True))
    run = lambda: request.infer(share_inputs=True, share_outputs=True)
    return ov.__version__.split("-")[0], run, lambda: [request.get_tensor(name).data for name in outputs]


def _torch(net, weights, outputs, threads, inputs, compiled):
    import torch

    import torch_net

    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    module = torch_net.Net(net, weights, outputs).eval()
    call = torch.compile(module) if compiled else module
    (images,) = inputs  # no network of more inputs has all its ops in torch_net
    x = torch.from_numpy(images).contiguous(memory_format=torch.channels_last)
    result = []

    def run():
        with torch.inference_mode():
            result[:] = call(x)

    return torch.__version__, run, lambda: [t.contiguous().numpy() for t in result]


def torch_eager(*args):
    return _torch(*args, compiled=False)


def torch_compile(*args):
    return _torch(*args, compiled=True)


RUNNERS = {"onnxruntime": onnxruntime, "openvino": openvino, "torch": torch_eager, "torch-compile": torch_compile}


def times(run, n):
    out = []
    for _ in range(n):
        start = time.perf_counter()
        run()
        out.append(round((time.perf_counter() - start) * 1e3, 6))
    return out


def answer(line, run, results):
    word, _, rest = line.strip().partition(" ")
    if word == "run":
        return {"ms": times(run, int(rest))}
    if word == "dump":
        with open(rest, "wb") as f:
            for array in results():
                f.write(numpy.ascontiguousarray(array, numpy.float32).tobytes())
        return {}
    raise ValueError(f"not understood: {line}")


def main(argv):
    kind, text, tensors, threads, files, outputs = argv[1:]
    # Libraries may print: what they print goes to stderr.
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(what):
        print(json.dumps(what), file=replies, flush=True)

    net, weights = ir.load(text, tensors)
    inputs = [numpy.fromfile(file, numpy.float32).reshape(t.dims)
              for file, t in zip(files.split(","), net.inputs.values(), strict=True)]
    start = time.perf_counter()
    version, run, results = RUNNERS[kind](net, weights, outputs.split(","), int(threads), inputs)
    loaded = time.perf_counter() - start
    say({"version": version, "load_ms": round(loaded * 1e3, 3)})
    for line in sys.stdin:
        say(answer(line, run, results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
