#!/bin/sh
# Learning from pixels on a CPU: two tasks, two seeds each, and one of them without random shifts. Smaller images, encoder and networks than the paper's.
#   sh benchmarks/vision_learning.sh [NAME ...]     all, or balance swingup noshift; half an hour a run, one thread
# Interrupted, it goes on where it was.
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1

learn() { # directory, seed, task, options
    run=runs/vision/$1-$2
    if [ -f "$run/config.json" ]; then
        .venv/bin/flashsac resume "$run"
        return
    fi
    name=$1 seed=$2 task=$3
    shift 3
    .venv/bin/flashsac train "$task" --preset vision --seed "$seed" --run-dir "$run" --env.image-size 40 --env.num-envs 2 \
        --agent.image-channels 16 --agent.image-shift 2 --agent.batch-size 64 --agent.critic-width 64 --agent.actor-width 32 \
        --agent.warmup 2000 --steps 50000 --eval.every 5000 --eval.episodes 4 "$@"
}

[ $# -gt 0 ] || set -- balance swingup noshift
for name in "$@"; do
    for seed in 0 1; do
        case $name in
            balance) learn balance $seed dmc-vision:cartpole-balance ;;
            swingup) learn swingup $seed dmc-vision:cartpole-swingup ;;
            noshift) learn noshift $seed dmc-vision:cartpole-swingup --agent.image-shift 0 ;;
        esac
    done
done
.venv/bin/flashsac report balance=runs/vision/balance-* --out benchmarks/results/vision
.venv/bin/flashsac report shift=runs/vision/swingup-* noshift=runs/vision/noshift-* --out benchmarks/results/vision
