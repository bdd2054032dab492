#!/bin/sh
# The paper's G1 task on a CPU, flat and rough, 2,000 steps of four robots each, with context estimator and mirrored batches: enough to see that it
# trains and that its losses stay finite, far too few to walk.
#   sh benchmarks/g1_mjlab.sh [NAME ...]      both, or Flat Rough; needs mjlab's environment (docs/simulators/mjlab.md); some minutes each, the first time some more
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
out=benchmarks/results/g1-mjlab
mkdir -p $out
[ $# -gt 0 ] || set -- Flat Rough
for name in "$@"; do
    run=runs/g1-mjlab/$name
    if [ ! -f "$run/config.json" ]; then
        .venvs/mjlab/bin/flashsac train mjlab:FlashSAC-G1-$name --preset laptop --run-dir "$run" --env.num-envs 4 --steps 8000 --agent.warmup 400 \
            --agent.updates-per-transition 0.25 --env.history 5 --agent.symmetry --log-every 400 --eval.every 4000 --eval.episodes 2 --no-video
    else
        .venvs/mjlab/bin/flashsac resume "$run"
    fi
    if grep -qiE ',-?(nan|inf)' "$run/metrics.csv"; then
        echo "$run/metrics.csv holds a number that is not finite"
        exit 1
    fi
    cp "$run/metrics.csv" "$out/$name.csv"
done
