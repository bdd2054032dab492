#!/bin/sh
# What each way to the robot is worth: context estimator, mirrored batches, privileged critic, each on and off, two seeds, Go1 without its velocity.
#   sh benchmarks/plug_ins.sh      eight runs of about a quarter of an hour, one thread each, two at a time
# The estimator and the mirror are weighed against all-on, the privileged critic against no-context: the estimator learns from what no-privileged hides.
# Short: after a million steps Go1 only stands (docs/log.md). Judged too by how well commands are followed.
# Interrupted, it goes on where it was.
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1
settings="--preset laptop --env.blind --env.num-envs 128 --steps 1000000 --agent.updates-per-transition 0.04 --agent.warmup 50000 \
    --eval.every 100000 --no-video"
for seed in 0 1; do
    for variant in all-on no-context no-mirror no-privileged; do
        case $variant in
            all-on) extra="--env.history 5 --agent.symmetry" ;;
            no-context) extra="--agent.symmetry" ;;
            no-mirror) extra="--env.history 5" ;;
            no-privileged) extra="--agent.symmetry --env.no-privileged" ;;
        esac
        run=runs/plug-ins/$variant-$seed
        if [ -f $run/config.json ]; then
            echo resume $run
        else
            echo train playground:Go1JoystickFlatTerrain $settings $extra --seed $seed --run-dir $run
        fi
    done
done | xargs -P 2 -L 1 .venv/bin/flashsac
for run in runs/plug-ins/*; do
    .venv/bin/python benchmarks/commands_followed.py "$run" "benchmarks/results/plug-ins/commands/$(basename "$run").csv"
done
.venv/bin/flashsac report all-on=runs/plug-ins/all-on-* no-context=runs/plug-ins/no-context-* no-mirror=runs/plug-ins/no-mirror-* \
    no-privileged=runs/plug-ins/no-privileged-* --out benchmarks/results/plug-ins
