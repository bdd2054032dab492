#!/bin/sh
# Learning must not change with precision or with speed: fp32, bf16, and an earlier commit, on two tasks with three seeds each.
#   sh benchmarks/precision_learning.sh COMMIT [OUT]
# Interrupted, it goes on where it was. One thread each, two runs at a time. On a CPU without bf16 instructions bf16 is emulated by rounding (rounded_products.py).
set -eu
cd "$(dirname "$0")/.."
earlier=$1
out=$(realpath -m "${2:-runs/precision}")
export OMP_NUM_THREADS=1
settings="--preset laptop --steps 40000 --agent.critic-width 64 --agent.actor-width 32 --eval.every 4000 --no-video"
native=$(.venv/bin/python -c "import torch; from flashsac.training.precision import fastest_precision; print(fastest_precision(torch.device('cpu')))")
before=$(mktemp -d)
git worktree add --quiet --detach "$before" "$earlier"
trap 'git worktree remove --force "$before"' EXIT
for task in mujoco:HalfCheetah-v4 mujoco:Hopper-v4; do
    for seed in 0 1000 2000; do
        for variant in fp32 bf16 before; do
            case $variant in
                fp32) run="env .venv/bin/flashsac" extra="--precision fp32" ;;
                bf16)
                    if [ "$native" = bf16 ]; then
                        run="env .venv/bin/flashsac" extra="--precision bf16"
                    else
                        run="env .venv/bin/python benchmarks/rounded_products.py" extra="--precision fp32"
                    fi
                    ;;
                before) run="env PYTHONPATH=$before/src .venv/bin/flashsac" extra="--agent.precision fp32" ;;
            esac
            dir="$out/$variant/$task-$seed"
            if [ -d "$dir/checkpoints/step-000000040000" ]; then
                continue
            elif [ -f "$dir/config.json" ]; then
                echo "$run resume $dir"
            else
                echo "$run train $task $settings $extra --seed $seed --run-dir $dir"
            fi
        done
    done
done | xargs -P 2 -L 1 env
.venv/bin/flashsac report fp32="$out/fp32" bf16="$out/bf16" before="$out/before" --out benchmarks/results/precision
