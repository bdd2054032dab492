#!/bin/sh
# The paper's setting from images, full size: 2,000 steps, half of them warm-up, once to the end and once killed (kill -9) on the way and resumed.
# Both must come to the same metrics and the same policy, bit for bit. About half an hour on two cores.
#   sh benchmarks/vision_full_size.sh [TASK]      writes benchmarks/results/vision-full-size.csv
set -eu
cd "$(dirname "$0")/.."
task=${1:-dmc-vision:walker-run}
runs=runs/vision-full-size
rm -rf "$runs"

train() { # directory
    .venv/bin/flashsac train "$task" --run-dir "$runs/$1" --steps 2000 --agent.warmup 1000 --log-every 100 --checkpoint-every 500 \
        --eval.every 1000 --eval.episodes 1 --no-video
}

train killed &
trainer=$!
until [ "$(tail -n 1 "$runs/killed/metrics.csv" 2>/dev/null | cut -d, -f1)" = 1700 ]; do
    kill -0 $trainer # it must not have ended before
    sleep 1
done
pkill -KILL -f "run-dir $runs/killed"
wait $trainer || echo "killed at 1,700 steps or a little later; the newest checkpoint is of 1,500"
.venv/bin/flashsac resume "$runs/killed"
train whole
.venv/bin/python benchmarks/same_run.py "$runs/whole" "$runs/killed" --out benchmarks/results/vision-full-size.csv
