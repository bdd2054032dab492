"""The choice of the encoder, by the observations that an environment offers."""

from __future__ import annotations

import torch

from flashsac.config.schema import AgentConfig
from flashsac.core.encoders.context import ContextEncoder
from flashsac.core.encoders.pixels import PixelEncoder
from flashsac.core.encoders.state import StateEncoder
from flashsac.core.sync import ALONE, Sync
from flashsac.types import EnvSpec

ENCODERS = (StateEncoder, PixelEncoder, ContextEncoder)
Encoder = StateEncoder | PixelEncoder


def make_encoder(spec: EnvSpec, config: AgentConfig, dtype: torch.dtype, sync: Sync = ALONE) -> Encoder:
    if spec.pixels:
        return PixelEncoder(spec, config, dtype, sync)
    return ContextEncoder(spec, config, sync) if spec.history else StateEncoder(spec)
