"""Compile every CUDA kernel of the project to PTX: needs a CUDA toolkit or numba-cuda's own NVVM, but no GPU.

python tools/ptx_check.py [COMPUTE_CAPABILITY, as 9.0]

The simulator runs kernels as Python, so it cannot see what the compiler refuses. Status 0: all compile; 1: some do
not; 2: there is no compiler.
"""

import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))


MODULES = [f"cuda_kernels.{name}_cuda" for name in ("depth", "remap", "reproject", "splat_statistics")]


def unlisted(listed: set[object]) -> list[str]:
    """Kernels of any ``*_cuda`` module that the list below has forgotten."""
    found = []
    for path in sorted((ROOT / "cuda_kernels").glob("*_cuda.py")):
        module = import_module(f"cuda_kernels.{path.stem}")
        for name, value in vars(module).items():
            options = getattr(value, "targetoptions", None)
            if options is not None and not options.get("device") and value not in listed:
                found.append(f"{path.stem}.{name}")
    return found


def kernels() -> list[tuple[object, tuple[object, ...]]]:
    """Every kernel with the types of its arguments."""
    from numba import types as t

    depth_cuda, remap_cuda, reproject_cuda, splat_statistics_cuda = map(import_module, MODULES)

    def flat(kind: object) -> object:
        return kind[::1]  # type: ignore[index]

    def rows(kind: object) -> object:
        return kind[:, ::1]  # type: ignore[index]

    f32, f64, u8, i32, i64 = flat(t.float32), flat(t.float64), flat(t.uint8), flat(t.int32), t.int64
    real, image = t.float64, t.uint8[:, :, ::1]
    return [
        (depth_cuda._unproject, (f32, i64, f64, rows(t.float64), rows(t.float64))),
        (depth_cuda._unproject, (f64, i64, f64, rows(t.float64), rows(t.float64))),
        (depth_cuda._choose, (f32, f32, f32, real, real, real, real, f32, f32)),
        (depth_cuda._agree, (f32, f32, f32, f32, real, real, u8, u8)),
        (depth_cuda._erode, (u8, i64, i64, u8)),
        (depth_cuda._dilate_or, (u8, i64, i64, flat(t.boolean), u8)),
        (depth_cuda._fuse, (f32, f32, f32, f32, f32, u8, u8, real, f32, f32, u8)),
        (reproject_cuda._reproject, (f32, i64, f64, f64, rows(t.float64), real, real, i64, i64, f32)),
        (
            splat_statistics_cuda._measure,
            (rows(t.float32), rows(t.float32), f32, f32, rows(t.int32), i32, i64, i64, real, f32, f32),
        ),
        (remap_cuda._bilinear, (image, i32, rows(t.int16), rows(t.uint8))),
        (remap_cuda._bicubic, (image, i32, rows(t.int16), rows(t.int16), rows(t.uint8))),
        (remap_cuda._nearest, (image, i32, i64, rows(t.uint8))),
    ]


def main(arguments: list[str]) -> int:
    """Print what compiles and what does not."""
    from numba import cuda
    from numba.cuda import dispatcher

    major, minor = map(int, (arguments[0] if arguments else "9.0").split("."))
    # device functions ask the current device for its capability when they are compiled; here there is none
    dispatcher.get_current_device = lambda: SimpleNamespace(compute_capability=(major, minor))
    try:
        cuda.compile_ptx(lambda: None, (), cc=(major, minor))
    except Exception as error:
        print(f"no compiler for CUDA kernels here: {error}", file=sys.stderr)
        return 2
    listed = kernels()
    forgotten = unlisted({kernel for kernel, _ in listed})
    for name in forgotten:
        print(f"{name}: not in this program's list")
    failed = len(forgotten)
    for kernel, signature in listed:
        name = kernel.py_func.__name__  # type: ignore[attr-defined]
        try:
            text, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(major, minor))  # type: ignore[attr-defined]
            print(f"{name}: {len(text)} bytes of PTX")
        except Exception as error:
            failed += 1
            print(f"{name}: {error}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
