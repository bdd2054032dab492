#!/bin/sh
# FlashSAC and other algorithms in the same three minutes: mujoco:HalfCheetah-v4 for all, playground:G1JoystickFlatTerrain for FlashSAC and PPO.
#   sh benchmarks/baselines.sh      half an hour, one thread, one seed; needs: pip install -c constraints.txt "flashsac[baselines]"
# Interrupted, it goes on where it was; what is finished is not run again.
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
minutes=3
runs=runs/baselines
out=benchmarks/results/baselines

trained() { # directory, command: begin a run, or go on with it
    directory=$1
    shift
    if [ -f "$directory/config.json" ]; then
        .venv/bin/flashsac resume "$directory"
    else
        .venv/bin/flashsac "$@" --run-dir "$directory"
    fi
}

cheetah=mujoco:HalfCheetah-v4
# So many steps take about three minutes on one core. The curves against time are the ones to compare.
trained $runs/cheetah-flashsac train $cheetah --preset laptop --steps 30000
for algorithm in ppo sac td3 crossq tqc; do
    trained $runs/cheetah-$algorithm baseline $algorithm $cheetah --minutes $minutes
done
g1=playground:G1JoystickFlatTerrain
trained $runs/g1-flashsac train $g1 --preset laptop --steps 30000
trained $runs/g1-ppo baseline ppo $g1 --minutes $minutes
.venv/bin/flashsac report $runs --out $out
