"""The part of libyolort that the GPU bench calls, through ctypes, with the memory and the streams of PyTorch."""

import ctypes

import torch

DTYPES = {0: torch.float32, 1: torch.float16, 2: torch.bfloat16, 4: torch.uint8}


class Io(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("dtype", ctypes.c_int), ("is_output", ctypes.c_int), ("rank", ctypes.c_int),
                ("dim", ctypes.c_int64 * 6), ("bytes_per_image", ctypes.c_size_t)]


class Image(ctypes.Structure):
    _fields_ = [("rgb", ctypes.c_void_p), ("width", ctypes.c_int), ("height", ctypes.c_int), ("row_bytes", ctypes.c_size_t)]


class ContextOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("device", ctypes.c_int), ("threads", ctypes.c_int), ("guard", ctypes.c_int),
                ("spin_us", ctypes.c_int), ("graph", ctypes.c_int)]


GRAPH_OFF, GRAPH_CHAIN, GRAPH_FULL_EDGES = 1, 2, 4


class Detection(ctypes.Structure):
    _fields_ = [("box", ctypes.c_float * 4), ("score", ctypes.c_float), ("cls", ctypes.c_int32), ("row", ctypes.c_int32)]


class Parts(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("in", "letterbox", "network", "select", "out")]


PROFILE_PARTS = 2


class RuntimeFailure(RuntimeError):
    """What libyolort said."""


def library(path):
    lib = ctypes.CDLL(path)
    p, s = ctypes.c_void_p, ctypes.c_size_t
    for name, result, *arguments in (
            ("yolort_load_file", ctypes.c_int, p, ctypes.c_char_p, p, s), ("yolort_module_free", None, p),
            ("yolort_context_opts_init", None, p, s), ("yolort_context_new", ctypes.c_int, p, p, p), ("yolort_context_free", None, p),
            ("yolort_io_find", ctypes.c_int, p, ctypes.c_char_p), ("yolort_io_at", ctypes.POINTER(Io), p, s),
            ("yolort_bind", ctypes.c_int, p, s, p, s), ("yolort_run", ctypes.c_int, p, ctypes.c_int, p),
            ("yolort_wait", ctypes.c_int, p), ("yolort_error", ctypes.c_char_p, p),
            ("yolort_detect", ctypes.c_int, p, p, ctypes.c_int, p, p, s, p), ("yolort_profile", ctypes.c_int, p, ctypes.c_int),
            ("yolort_parts_of", ctypes.c_int, p, p)):
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    return lib


class Session:
    """A module and a context on the first GPU."""

    def __init__(self, lib, path, graph=0):
        self.lib, self.module, self.context, self.kept = lib, ctypes.c_void_p(), ctypes.c_void_p(), []
        error = ctypes.create_string_buffer(512)
        if lib.yolort_load_file(ctypes.byref(self.module), str(path).encode(), error, len(error)):
            raise RuntimeFailure(f"{path}: {error.value.decode()}")
        options = ContextOptions()
        lib.yolort_context_opts_init(ctypes.byref(options), ctypes.sizeof(options))
        options.graph = graph
        if lib.yolort_context_new(ctypes.byref(self.context), self.module, ctypes.byref(options)):
            raise RuntimeFailure(f"{path}: no context")

    def check(self, status):
        if status:
            raise RuntimeFailure(self.lib.yolort_error(self.context).decode() or f"status {status}")

    def bind(self, name, tensor):
        self.kept.append(tensor)
        at = self.lib.yolort_io_find(self.module, name.encode())
        self.check(self.lib.yolort_bind(self.context, at, tensor.data_ptr(), tensor.numel() * tensor.element_size()))

    def output(self, name, batch, device="cuda"):
        """A bound tensor for an output."""
        io = self.lib.yolort_io_at(self.module, self.lib.yolort_io_find(self.module, name.encode()))[0]
        tensor = torch.empty((batch, *io.dim[1:io.rank]), dtype=DTYPES[io.dtype], device=device)
        self.bind(name, tensor)
        return tensor

    def run(self, batch, stream):
        self.check(self.lib.yolort_run(self.context, batch, stream))

    def detect(self, image, found, count):
        """One picture; found: an array of Detection, count: a c_size_t."""
        self.check(self.lib.yolort_detect(self.context, ctypes.byref(image), 1, None, found, len(found), ctypes.byref(count)))

    def profile(self, what):
        self.check(self.lib.yolort_profile(self.context, what))

    def parts(self):
        """Milliseconds of the last detection's parts."""
        out = Parts()
        self.check(self.lib.yolort_parts_of(self.context, ctypes.byref(out)))
        return {name: getattr(out, name) for name, _ in Parts._fields_}

    def close(self):
        self.lib.yolort_context_free(self.context)
        self.lib.yolort_module_free(self.module)
