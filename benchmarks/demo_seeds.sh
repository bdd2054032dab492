#!/bin/sh
# The demo, once per seed, one after the other on a quiet machine, and the curves over them.
#   sh benchmarks/demo_seeds.sh [OUT] [SEED ...]
set -eu
cd "$(dirname "$0")/.."
out=${1:-runs/demo-seeds}
[ $# -gt 0 ] && shift
[ $# -gt 0 ] || set -- 0 1000 2000 3000 4000
for seed in "$@"; do
    if [ -f "$out/$seed/config.json" ]; then
        .venv/bin/flashsac resume "$out/$seed"
    else
        .venv/bin/flashsac train mujoco:HalfCheetah-v4 --preset laptop --seed "$seed" --run-dir "$out/$seed"
    fi
done
.venv/bin/flashsac report "$out" --out benchmarks/results/demo
