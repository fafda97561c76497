# SPDX-License-Identifier: Apache-2.0
"""Writes a tiny Llama: its configuration, its tokenizer, its weights.

make.py TEXT FOLDER
"""

from __future__ import annotations

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))

from bpe import SPECIAL, learn
from weights import ONE, safetensors, spread

# Each number that ranks share divides by two, three and four: heads, the middle, and rows of the vocabulary, of which
# vLLM pads to a multiple of 64.
VOCABULARY, HIDDEN, MIDDLE, HEADS, HEAD, LAYERS, LONGEST = 576, 192, 192, 12, 32, 2, 2048
PAD, BEGIN, END = range(len(SPECIAL))

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "vocab_size": VOCABULARY,
    "hidden_size": HIDDEN,
    "intermediate_size": MIDDLE,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "head_dim": HEAD,
    "hidden_act": "silu",
    "max_position_embeddings": LONGEST,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "pad_token_id": PAD,
    "bos_token_id": BEGIN,
    "eos_token_id": END,
}
TOKENIZER_CONFIG = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "pad_token": SPECIAL[PAD],
    "bos_token": SPECIAL[BEGIN],
    "eos_token": SPECIAL[END],
    "model_max_length": LONGEST,
    "chat_template": "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:",
}


def tokenizer(text: str) -> dict[str, object]:
    """Return the document that the library tokenizers reads."""
    vocabulary, merges = learn(text, VOCABULARY)
    bytewise = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": number, "content": word, **flags} for number, word in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": bytewise,
        "post_processor": None,
        "decoder": bytewise,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [list(pair) for pair in merges],
        },
    }


def weights() -> bytes:
    """Return the weights' file."""
    heads = HEADS * HEAD
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCABULARY, HIDDEN)}
    for layer in range(LAYERS):
        inner = {
            "input_layernorm": (HIDDEN,),
            "self_attn.q_proj": (heads, HIDDEN),
            "self_attn.k_proj": (heads, HIDDEN),
            "self_attn.v_proj": (heads, HIDDEN),
            "self_attn.o_proj": (HIDDEN, heads),
            "post_attention_layernorm": (HIDDEN,),
            "mlp.gate_proj": (MIDDLE, HIDDEN),
            "mlp.up_proj": (MIDDLE, HIDDEN),
            "mlp.down_proj": (HIDDEN, MIDDLE),
        }
        shapes.update({f"model.layers.{layer}.{name}.weight": shape for name, shape in inner.items()})
    shapes.update({"model.norm.weight": (HIDDEN,), "lm_head.weight": (VOCABULARY, HIDDEN)})
    return safetensors({name: (shape, _filled(name, shape)) for name, shape in shapes.items()})


def _filled(name: str, shape: tuple[int, ...]) -> bytes:
    # Norms leave things as they are; what a product gives is then about as large as what it takes.
    if len(shape) == 1:
        return ONE * shape[0]
    return spread(name, shape[0] * shape[1], 1.0 if name.startswith("model.embed") else (3 / shape[1]) ** 0.5)


def main() -> int:
    """Write the five files."""
    text, folder = pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"), pathlib.Path(sys.argv[2])
    documents = {
        "config.json": CONFIG,
        "generation_config.json": {"bos_token_id": BEGIN, "eos_token_id": END},
        "tokenizer.json": tokenizer(text),
        "tokenizer_config.json": TOKENIZER_CONFIG,
    }
    for name, document in documents.items():
        content = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        (folder / name).write_text(content, encoding="utf-8")
    (folder / "model.safetensors").write_bytes(weights())
    return 0


if __name__ == "__main__":
    sys.exit(main())
