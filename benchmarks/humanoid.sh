#!/bin/sh
# The humanoid on a CPU: playground:G1JoystickFlatTerrain with FlashSAC, with PPO for as long, and FlashSAC's best policy in plain MuJoCo.
#   sh benchmarks/humanoid.sh [NAME ...]      all, or flashsac ppo deploy; two hours, two hours, five minutes, on two cores with nothing else running
# Interrupted, FlashSAC goes on where it was. What PPO and the curves need of it is kept with the results, so that they can be made another day. PPO needs: pip install -c constraints.txt "flashsac[baselines]"
set -eu
cd "$(dirname "$0")/.."
task=playground:G1JoystickFlatTerrain
runs=runs/humanoid
out=benchmarks/results/humanoid

keep() { # settings and metrics of a run
    mkdir -p "$out/$1"
    cp "$runs/$1/config.json" "$runs/$1/metrics.csv" "$out/$1"
}

deployed() { # options: in plain MuJoCo; a robot that falls (exit code 3) is a result too
    .venv/bin/flashsac deploy $runs/g1.onnx "$@" || [ $? -eq 3 ]
}

[ $# -gt 0 ] || set -- flashsac ppo deploy
for name in "$@"; do
    case $name in
        flashsac)
            if [ -f $runs/flashsac/config.json ]; then
                .venv/bin/flashsac resume $runs/flashsac
            else
                # The paper's networks and discount, its batch for a CPU; as many updates as two cores can make in two hours.
                .venv/bin/flashsac train $task --run-dir $runs/flashsac --env.num-envs 64 --steps 4200000 --agent.warmup 25600 \
                    --agent.batch-size 512 --agent.updates-per-transition 0.015625 --replay.capacity 4200000 --replay.obs-dtype float16 \
                    --eval.every 200000 --eval.episodes 20
            fi
            keep flashsac
            ;;
        ppo)
            if [ -f $runs/ppo/config.json ]; then
                .venv/bin/flashsac resume $runs/ppo
            else
                .venv/bin/flashsac baseline ppo $task --run-dir $runs/ppo --as-long-as $out/flashsac --eval.episodes 20
            fi
            keep ppo
            .venv/bin/flashsac report flashsac=$out/flashsac ppo=$out/ppo --out $out
            ;;
        deploy)
            mkdir -p $out
            .venv/bin/flashsac export $runs/flashsac --out $runs/g1.onnx
            # With the training's noise and a walk of every kind: without, twenty episodes would be nearly the same one.
            walk="--commands benchmarks/walk.csv --noise 1"
            deployed --episodes 20 $walk --report $out/plain.json --video $runs/plain.mp4
            deployed --episodes 20 $walk --pushes --report $out/pushes.json
            deployed --episodes 20 $walk --pushes --friction 0.7 --action-delay 0.01 --observation-delay 0.01 --report $out/harder.json
            deployed --episodes 20 --noise 1 --command 0 0 0 --report $out/told_zero.json
            deployed --episodes 3 $walk --real-time --report $out/real_time.json
            .venv/bin/python benchmarks/commands_followed.py $runs/flashsac $out/commands.csv
            .venv/bin/python benchmarks/film_strip.py $runs/plain.mp4 $out/walk.png 0.5 1.5 0.2 0.3 0.75
            ;;
    esac
done
