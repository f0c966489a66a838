"""What a result file of bench/gpu.sh holds. Plain Python."""

import record

SCHEMA = {
    "format": int, "what": str, "date": str, "commit": str, "void": [str],
    "device": {"gpu": str, "multiprocessors": int, "driver": str, "memory_gb": float, "clocks": [str], "cpu_cores": int},
    "versions": dict,
    "models": [{
        "name": str, "yaml": str, "scale": str, "size": int, "batch": int, "precision": str, "wanted": float, "gflop": float,
        "agreement": [{"runner": str, "output": str, "score": float, "mean": float}],
        "compile_ms": {"untuned": float, "tuned": (float, None), "cached": float, "load": float, "torch-compile": (float, None)},
        "rounds": int,
        "runners": [{"runner": str, "ms": record.DISTRIBUTION, "slices": [float]}],
        "ratios": [{"ours": str, "peer": str, "p50": float, "low": float, "high": float}],
        "stages_ms": (dict, None),
        "variants": [{"what": str, "ms": record.DISTRIBUTION}],
        "layers": [{"label": str, "kernel": str, "ms": float, "tflops": float}],
    }],
}
