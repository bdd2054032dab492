#!/bin/sh
# A HalfCheetah policy fine-tuned on another time limit, against the same task from scratch; three seeds.
#   sh benchmarks/fine_tune.sh      twelve runs of two to six minutes, one thread each, two at a time
# Interrupted, it goes on where it was. benchmarks/results/fine-tune gets the curves.
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
task="mujoco:HalfCheetah-v4 --preset laptop --eval.every 5000 --no-video"
short="$task --env.max-episode-steps 200 --steps 30000"
runs=runs/fine-tune
begin_or_resume() {
    while read -r run options; do
        if [ -f "$runs/$run/config.json" ]; then echo "resume $runs/$run"; else echo "train $options --run-dir $runs/$run"; fi
    done | xargs -P 2 -L 1 .venv/bin/flashsac
}
for seed in 0 1 2; do echo "parent-$seed $task --steps 60000 --seed $seed"; done | begin_or_resume
for seed in 0 1 2; do
    echo "scratch-$seed $short --seed $seed"
    echo "from-$seed $short --seed 1$seed --from $runs/parent-$seed"
    echo "replay-$seed $short --seed 1$seed --from $runs/parent-$seed --from-replay"
done | begin_or_resume
.venv/bin/flashsac report scratch=$runs/scratch-0 scratch=$runs/scratch-1 scratch=$runs/scratch-2 \
    from=$runs/from-0 from=$runs/from-1 from=$runs/from-2 \
    from-with-replay=$runs/replay-0 from-with-replay=$runs/replay-1 from-with-replay=$runs/replay-2 \
    --out benchmarks/results/fine-tune
