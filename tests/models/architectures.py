"""Tiny randomly initialised models of transformers, one per kind of architecture."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from typing import Any

import torch

VOCABULARY = 96
SEQUENCE = 12

# Names that most text configurations share; a configuration ignores what it does not know.
TEXT = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "hidden_dropout": 0.0,
    "hidden_dropout_prob": 0.0,
    "attention_dropout": 0.0,
    "attention_probs_dropout_prob": 0.0,
}
EXPERTS = {"num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 24}
VISION = {"image_size": 32, "patch_size": 8, "num_channels": 3, "num_labels": 5}


Inputs = Callable[[], dict[str, torch.Tensor]]


@dataclasses.dataclass(frozen=True)
class Architecture:
    kind: str
    model_class: str  # of transformers: an Auto class
    config: dict[str, Any]
    inputs: Inputs
    generates: bool = False
    badly_conditioned: bool = False  # compared with float64 where CPU and device differ


def tokens(rows: int = 2, length: int = SEQUENCE) -> torch.Tensor:
    return torch.randint(3, VOCABULARY, (rows, length))


def causal() -> dict[str, torch.Tensor]:
    ids = tokens()
    return {"input_ids": ids, "labels": ids.clone()}


def masked() -> dict[str, torch.Tensor]:
    ids = tokens()
    mask = torch.ones_like(ids)
    mask[1, -3:] = 0
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.clone()}


def translation() -> dict[str, torch.Tensor]:
    return {"input_ids": tokens(), "labels": tokens(length=8)}


def image(size: int = 32) -> dict[str, torch.Tensor]:
    return {"pixel_values": torch.randn(2, 3, size, size), "labels": torch.tensor([1, 3])}


def larger_image() -> dict[str, torch.Tensor]:
    """For strides of 32 with batch norm, which needs more than a number or two per channel to be well conditioned."""
    return image(128)


def mel() -> dict[str, torch.Tensor]:
    return {"input_features": torch.randn(2, 16, 64), "labels": tokens(length=6)}


def waveform() -> dict[str, torch.Tensor]:
    return {"input_values": torch.randn(2, 800), "labels": torch.tensor([0, 2])}


def text(config: dict[str, Any]) -> dict[str, Any]:
    """TEXT with changes; `without` names what the configuration does not let one set."""
    without = config.pop("without", ())
    return {k: v for k, v in TEXT.items() if k not in without} | config


def decoder(kind: str, **config: Any) -> Architecture:
    return Architecture(kind, "AutoModelForCausalLM", text(config), causal, generates=True)


def encoder(kind: str, **config: Any) -> Architecture:
    return Architecture(kind, "AutoModelForMaskedLM", text(config), masked)


def encoder_decoder(kind: str, **config: Any) -> Architecture:
    small = {
        "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
        "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4,
        "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "dropout": 0.0, "dropout_rate": 0.0, "activation_dropout": 0.0,
        "decoder_start_token_id": 0, "forced_eos_token_id": None,
    }  # fmt: skip
    return Architecture(kind, "AutoModelForSeq2SeqLM", text(small | config), translation, generates=True)


def classifier_of_images(kind: str, inputs: Inputs = image, **config: Any) -> Architecture:
    config = text(VISION | config)
    return Architecture(kind, "AutoModelForImageClassification", config, inputs, badly_conditioned=inputs is larger_image)


ARCHITECTURES: dict[str, Architecture] = {
    # dense decoders
    "gpt2": decoder("dense", n_embd=32, n_layer=2, n_head=4, n_positions=64, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0),
    "llama": decoder("dense"),
    "mistral": decoder("dense", sliding_window=6),
    "qwen2": decoder("dense"),
    "qwen3": decoder("dense"),
    "gemma3_text": decoder("dense", sliding_window=6, query_pre_attn_scalar=8),
    "phi3": decoder("dense"),
    "gpt_neox": decoder("dense", rotary_pct=0.5),
    "opt": decoder("dense", ffn_dim=48, word_embed_proj_dim=32, dropout=0.0),
    "bloom": decoder("dense", n_layer=2, n_head=4),
    "falcon": decoder("dense", ffn_hidden_size=48, without=["head_dim"]),
    "cohere": decoder("dense"),
    "olmo2": decoder("dense"),
    # mixture of experts
    "mixtral": decoder("mixture of experts", **EXPERTS),
    "qwen3_moe": decoder("mixture of experts", **EXPERTS),
    "gpt_oss": decoder("mixture of experts", **EXPERTS, sliding_window=6),
    "olmoe": decoder("mixture of experts", **EXPERTS),
    "deepseek_v3": decoder(
        "mixture of experts", n_routed_experts=4, num_experts_per_tok=2, n_shared_experts=1, n_group=2, topk_group=1,
        moe_intermediate_size=24, first_k_dense_replace=1, q_lora_rank=16, kv_lora_rank=16, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=8, num_key_value_heads=4,
    ),
    # state space and linear attention
    "mamba": decoder("state space", state_size=8, conv_kernel=4, time_step_rank=4, expand=2),
    "mamba2": decoder("state space", state_size=8, head_dim=16, num_heads=4, n_groups=1, chunk_size=4, expand=2),
    "jamba": decoder(
        "state space", **EXPERTS, attn_layer_period=2, attn_layer_offset=1, expert_layer_period=2, expert_layer_offset=1,
        mamba_d_state=8, mamba_dt_rank=4, use_mamba_kernels=False,
    ),
    "qwen3_next": decoder(
        "linear attention", **EXPERTS, linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2,
        linear_num_value_heads=4, shared_expert_intermediate_size=24, layer_types=["linear_attention", "full_attention"],
    ),
    "recurrent_gemma": decoder("linear attention", lru_width=32, attention_window_size=8, conv1d_width=4, block_types=["recurrent", "attention"]),
    # encoders
    "bert": encoder("encoder"),
    "roberta": encoder("encoder"),
    "distilbert": encoder("encoder", dim=32, n_layers=2, n_heads=4, hidden_dim=48, dropout=0.0),
    "electra": encoder("encoder", embedding_size=32),
    "albert": encoder("encoder", embedding_size=16, classifier_dropout_prob=0.0),
    "modernbert": encoder("encoder", local_attention=4, global_attn_every_n_layers=2),
    "deberta-v2": encoder("encoder", relative_attention=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, max_relative_positions=16),
    "fnet": encoder("encoder"),
    # encoder-decoders
    "t5": encoder_decoder("encoder-decoder"),
    "bart": encoder_decoder("encoder-decoder"),
    "pegasus": encoder_decoder("encoder-decoder"),
    # vision
    "vit": classifier_of_images("vision"),
    "dinov2": classifier_of_images("vision"),
    "swin": classifier_of_images("vision", embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=2, drop_path_rate=0.0, without=["num_attention_heads", "num_hidden_layers", "hidden_size", "head_dim"]),
    "convnext": classifier_of_images("vision", hidden_sizes=[16, 32], depths=[1, 1], num_stages=2),
    "resnet": classifier_of_images("vision", embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], layer_type="basic"),
    "mobilenet_v2": classifier_of_images("vision", larger_image, depth_multiplier=0.25, finegrained_output=False, classifier_dropout_prob=0.0),
    "segformer": classifier_of_images(
        "vision", depths=[1, 1], hidden_sizes=[16, 32], num_attention_heads=[1, 2], num_encoder_blocks=2, sr_ratios=[2, 1],
        patch_sizes=[7, 3], strides=[4, 2], mlp_ratios=[2, 2], drop_path_rate=0.0, classifier_dropout_prob=0.0,
    ),
    # speech
    "whisper": Architecture(
        "speech", "AutoModelForSpeechSeq2Seq",
        {
            **TEXT, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
            "decoder_attention_heads": 4, "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "num_mel_bins": 16,
            "max_source_positions": 32, "max_target_positions": 32, "decoder_start_token_id": 1, "begin_suppress_tokens": None,
            "suppress_tokens": None,
        },
        mel, generates=True,
    ),
    "wav2vec2": Architecture(
        "speech", "AutoModelForAudioClassification",
        {
            **TEXT, "conv_dim": [16, 16], "conv_kernel": [10, 4], "conv_stride": [5, 4], "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "layerdrop": 0.0, "feat_proj_dropout": 0.0,
            "final_dropout": 0.0, "activation_dropout": 0.0, "apply_spec_augment": False, "classifier_proj_size": 16,
            "num_labels": 4,
        },
        waveform,
    ),
}  # fmt: skip


def build(name: str) -> tuple[torch.nn.Module, dict[str, torch.Tensor]]:
    """The model on the CPU with inputs; the same weights and inputs every time."""
    import transformers

    architecture = ARCHITECTURES[name]
    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(name, **copy.deepcopy(architecture.config))
    model = getattr(transformers, architecture.model_class).from_config(config)
    # Many start as exact zeros or identities, which would hide mistakes.
    for parameter in model.parameters():
        with torch.no_grad():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model, architecture.inputs()
