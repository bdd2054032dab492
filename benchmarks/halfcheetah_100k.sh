#!/bin/sh
# The paper's own setting and size on HalfCheetah-v4, one seed to 100,000 steps, over the published curve.
#   sh benchmarks/halfcheetah_100k.sh PUBLISHED.csv [OUT]      hours on two cores; interrupted, it goes on where it was
set -eu
cd "$(dirname "$0")/.."
published=$1
out=${2:-runs/halfcheetah-100k}
if [ -f "$out/config.json" ]; then
    .venv/bin/flashsac resume "$out"
else
    # The learning-rate schedule of the paper's million steps, of which this run is the first tenth. Products in bf16 where the
    # machine has them: two hours instead of four (the paper's table for these tasks says fp32).
    .venv/bin/flashsac train mujoco:HalfCheetah-v4 --preset single --steps 100000 --agent.learning-rate-end 2.963e-4 \
        --precision auto --eval.every 10000 --run-dir "$out"
fi
.venv/bin/flashsac report "$out" --out benchmarks/results/halfcheetah-100k --published "$published"
