#!/bin/sh
# The paper's ablations in their laptop size: 36 runs on the architecture, 36 on exploration, 45 on scaling.
#   sh benchmarks/ablations.sh [OUT]    two or three hours on two cores with bf16; needs: pip install -c constraints.txt "flashsac[report]"
# PUBLISHED=published_diagnostics.csv also compares the order of the architectures by their diagnostics with the published one.
# Interrupted, it goes on where it was; what is finished is not run again. Runs that diverge are tried again twice.
set -eu
cd "$(dirname "$0")/.."
out=${1:-runs/ablations}
results=benchmarks/results/ablations
export OMP_NUM_THREADS=1
for name in architecture exploration scaling; do
    .venv/bin/flashsac sweep ablation/$name --laptop --set precision=bf16 --retries 2 --out "$out/$name" || echo "some runs of $name are not finished"
    .venv/bin/flashsac report "$out/$name" --out "$out/pages/$name"
    mkdir -p $results/$name
    cp "$out/pages/$name"/*.csv "$out/pages/$name"/*.png $results/$name
    .venv/bin/python benchmarks/page_pictures.py "$out/pages/$name/index.html" --sections ablations --out $results/$name
    .venv/bin/python benchmarks/ablation_findings.py "$out/$name" --out $results/$name ${PUBLISHED:+--published "$PUBLISHED"}
done
