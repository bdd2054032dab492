#!/bin/sh
# What each way to the robot is worth: context estimator, mirrored batches, privileged critic, each on and off, two seeds, Go1 without its velocity.
#   sh benchmarks/plug_ins.sh [NAME ...]      all, or all-on no-context no-mirror no-privileged; a quarter of an hour a run on two cores
# Interrupted, it goes on where it was.
set -eu
cd "$(dirname "$0")/.."

learn() { # name, seed, options
    run=runs/plug-ins/$1-$2
    if [ -f "$run/config.json" ]; then
        .venv/bin/flashsac resume "$run"
        return
    fi
    seed=$2
    shift 2
    .venv/bin/flashsac train playground:Go1JoystickFlatTerrain --preset laptop --seed "$seed" --run-dir "$run" --env.blind \
        --env.num-envs 64 --steps 1000000 --agent.updates-per-transition 0.016 --agent.batch-size 256 --agent.warmup 20000 \
        --eval.every 100000 --no-video "$@"
}

[ $# -gt 0 ] || set -- all-on no-context no-mirror no-privileged
for name in "$@"; do
    for seed in 0 1; do
        case $name in
            all-on) learn all-on $seed --env.history 5 --agent.symmetry ;;
            no-context) learn no-context $seed --agent.symmetry ;;
            no-mirror) learn no-mirror $seed --env.history 5 ;;
            no-privileged) learn no-privileged $seed --agent.symmetry --env.no-privileged ;;
        esac
    done
done
.venv/bin/flashsac report all-on=runs/plug-ins/all-on-* no-context=runs/plug-ins/no-context-* no-mirror=runs/plug-ins/no-mirror-* \
    no-privileged=runs/plug-ins/no-privileged-* --out benchmarks/results/plug-ins
