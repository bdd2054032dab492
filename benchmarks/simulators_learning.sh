#!/bin/sh
# Learning, not only stepping: one task of each simulator at the laptop preset's size, one seed, one thread.
#   sh benchmarks/simulators_learning.sh [NAME ...]      all, or walker reach go1 go2 cartpole pull; a quarter of an hour to an hour each
# Needs the environments of `make test-sims` for go2 (genesis), cartpole (mjlab) and pull (maniskill). Interrupted, it goes on where it was.
set -eu
cd "$(dirname "$0")/.."
export OMP_NUM_THREADS=1

learn() { # name, bin directory, task, options
    name=$1 bin=$2 task=$3
    shift 3
    run=runs/sims/$name
    if [ -f "$run/config.json" ]; then
        "$bin/flashsac" resume "$run"
    else
        "$bin/flashsac" train "$task" --preset laptop --run-dir "$run" "$@"
    fi
    "$bin/flashsac" report "$run" --out benchmarks/results/sims
}

[ $# -gt 0 ] || set -- all
for name in "$@"; do
    case $name in walker | all) learn walker .venv/bin dmc:walker-walk --steps 80000 --eval.every 8000 ;; esac
    case $name in reach | all) learn reach .venv/bin myosuite:myo-reach --steps 60000 --eval.every 6000 ;; esac
    case $name in go1 | all)
        # Two rewards eased: as it stands, moving a foot that is not ten centimetres high costs more than a slow step brings, and it stays
        # where it is (docs/log.md). Judged on the task as it stands too.
        learn go1 .venv/bin playground:Go1JoystickFlatTerrain --steps 4000000 --eval.every 250000 --replay.capacity 4000000 \
            --env.num-envs 128 --agent.updates-per-transition 0.04 --agent.warmup 50000 \
            --env.options tracking_sigma=0.5 feet_clearance_scale=-0.2
        .venv/bin/flashsac eval runs/sims/go1 --episodes 100 --env.options --out benchmarks/results/sims/go1-as-it-stands.csv
        .venv/bin/python benchmarks/commands_followed.py runs/sims/go1 benchmarks/results/sims/go1-commands.csv
        .venv/bin/python benchmarks/film_strip.py runs/sims/go1/videos/final.mp4 benchmarks/results/sims/go1-walk.png 4 0.4 0.15 0.05 0.75
        ;;
    esac
    case $name in go2 | all)
        # Not the paper's setting, but one that a core can afford: small batches, many of them, windows of five steps, a short memory.
        learn go2 .venvs/genesis/bin genesis:go2-walk_easy --steps 3000000 --eval.every 250000 --replay.capacity 300000 \
            --env.num-envs 1024 --agent.batch-size 256 --agent.updates-per-transition 0.015625 --agent.actor-delay 1 \
            --agent.n-step 5 --agent.discount 0.97 --agent.warmup 100000 --agent.learning-rate-end 2.9e-4
        # As Genesis' example begins.
        .venvs/genesis/bin/flashsac eval runs/sims/go2 --episodes 20 --env.options start=still --out benchmarks/results/sims/go2-still-start.csv
        .venv/bin/python benchmarks/film_strip.py runs/sims/go2/videos/final.mp4 benchmarks/results/sims/go2-walk.png 4 0.36 0.25 0.2 0.75
        ;;
    esac
    case $name in cartpole | all)
        learn cartpole .venvs/mjlab/bin mjlab:Mjlab-Cartpole-Swingup --steps 40000 --eval.every 8000 \
            --env.num-envs 64 --agent.updates-per-transition 0.25
        ;;
    esac
    case $name in pull | all)
        learn pull .venvs/maniskill/bin maniskill:PullCube-v1 --steps 30000 --eval.every 3000 --eval.episodes 8 \
            --env.num-envs 2 --agent.warmup 2000
        ;;
    esac
done
