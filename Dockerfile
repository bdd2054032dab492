# flashsac on a CPU. Not built yet on a machine with a Docker engine; its steps are those of `make setup`.
#   docker build -t flashsac .
#   docker run --rm -v "$PWD/runs:/work/runs" flashsac train mujoco:HalfCheetah-v4 --preset laptop --run-dir runs/cheetah
# With NVIDIA GPUs (not run on a GPU so far): docker build --build-arg TORCH_INDEX=URL_OF_PYTORCH_CUDA_WHEELS -t flashsac:cuda .
# and then docker run --gpus all ... --device cuda
FROM python:3.11-slim-bookworm

# g++ compiles the update; the GL libraries draw videos without a display.
RUN apt-get update \
 && apt-get install --yes --no-install-recommends g++ libegl1 libgl1-mesa-dri \
 && rm -rf /var/lib/apt/lists/*

WORKDIR /opt/flashsac
ARG TORCH_INDEX=""
COPY constraints.txt requirements.lock pyproject.toml README.md LICENSE ./
RUN pip install --no-cache-dir --require-hashes --no-deps --only-binary :all: --requirement requirements.lock \
 && PIP_EXTRA_INDEX_URL="$TORCH_INDEX" pip install --no-cache-dir --constraint constraints.txt torch
COPY src ./src
RUN pip install --no-cache-dir --no-deps --no-build-isolation .

RUN useradd --create-home --uid 1000 robot && mkdir /work && chown robot /work
USER robot
WORKDIR /work
ENTRYPOINT ["flashsac"]
CMD ["--help"]
