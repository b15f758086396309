#!/bin/sh
# All that only a GPU can show, in under 8 minutes with gsplat's build: tests/gpu, then the benchmark on the device.
#
#   PYTHON=.venv/bin/python OUT=out/gpu sh tools/gpu_check.sh
#
# Nothing is installed and nothing is fetched: torch with CUDA, gsplat, numba-cuda, pytest, pytest-timeout, beartype,
# scipy and opencv must be there, and nvcc on the path (or CUDA_HOME) where gsplat is not built yet. Logs and
# splat_cuda.json go to $OUT. Status: 0 all is well, 1 something failed, 2 there is no GPU to check.
set -u
cd "$(dirname "$0")/.." || exit 1
PYTHON=${PYTHON:-.venv/bin/python}
OUT=${OUT:-out/gpu}
export PYTHONUNBUFFERED=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" OMP_WAIT_POLICY=PASSIVE
mkdir -p "$OUT"

reason=$("$PYTHON" -c "from recon.gsplat_backend import why_not; print(why_not() or '')") || exit 1
if [ -n "$reason" ]; then
  echo "no GPU to check: $reason" >&2
  exit 2
fi
"$PYTHON" -c "import beartype" 2>/dev/null || export EGOSPATIAL_NO_SHAPE_CHECKS=1
command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader

status=0
began=$(date +%s)
left() { echo $(($1 - ($(date +%s) - began))); }

timeout 330 "$PYTHON" -c "
from recon.gsplat_backend import gsplat_engine
gsplat_engine()
from gsplat.cuda._backend import _C
assert _C is not None, 'gsplat found no CUDA toolkit'" >"$OUT/build.log" 2>&1 || { status=1; tail -n 30 "$OUT/build.log"; }
echo "gsplat ready: $(($(date +%s) - began)) s"

# Other packages' warnings are no reason to lose the run: -W default.
timeout "$(left 400)" "$PYTHON" -m pytest -m gpu -q -W default -p no:cacheprovider --durations=8 \
  tests/gpu tests/cuda_kernels/test_remap.py tests/recon/test_fit.py >"$OUT/tests.log" 2>&1 || status=1
tail -n 40 "$OUT/tests.log"
echo "tests: $(($(date +%s) - began)) s"

quick=
[ "$(left 470)" -lt 150 ] && quick=--quick
timeout "$(left 470)" "$PYTHON" benchmarks/splat.py --device cuda $quick --out "$OUT" >"$OUT/benchmark.log" 2>&1 || status=1
cat "$OUT/benchmark.log"
echo "all: $(($(date +%s) - began)) s, status $status"
exit $status
