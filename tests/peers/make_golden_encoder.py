#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/encoder/*.json: what Hugging Face's tokenizer and PyTorch's BERT answer for
all-MiniLM-L6-v2.

Run once, by hand, in a throw-away environment; the result is committed:

    sh tools/fetch_model.sh
    python3 -m venv /tmp/golden
    /tmp/golden/bin/pip install torch==2.15.0 transformers tokenizers
    /tmp/golden/bin/python tests/peers/make_golden_encoder.py

tokens.json: [{"text": …, "tokens": [ids, [CLS] and [SEP] included]}]
embeddings.json: [{"text": …, "embedding": [mean of the token vectors, divided by its length]}]
"""

import json
import pathlib

import tokenizers
import torch
import transformers

TOP = pathlib.Path(__file__).parent.parent.parent
MODEL = TOP / "build" / "models" / "all-MiniLM-L6-v2"
OUT = TOP / "tests" / "golden" / "encoder"

SENTENCES = [
    "The cat sits on the mat.",
    "A kitten is resting on a small rug.",
    "Central banks raised interest rates by 25 basis points in 2023, surprising many analysts.",
]

ODD = [
    "",
    " ",
    "\t \n\r",
    "Hello, world!",
    "HELLO",
    "don't stop-believing... (ever)",
    "a!b?c;d",
    "$100 + 20% = <what>?",
    "foo_bar@example.com",
    "`~^|\\{}[]",
    "Crème brûlée, façade, naïve, Ångström, Đorđe, Łódź, ﬁne",
    "ÀÉÎÕÜ àéîõü ÿ Ñ Ç ß ẞ",
    "e\u0301 decomposed, a\u0308\u0301 twice, \u0301 alone",
    "İstanbul'da ılık DŽ Dž",
    "Việt Nam, Tiếng Việt: ĐƯỜNG",
    "ΑΒΓ Ελληνικά ΆΈΉ ἀρχή ᾳ",
    "ПРИВЕТ мир Ёлка йод",
    "Արմենիա ᎠᎡ ႠႡ",
    "你好世界",
    "日本語のテキスト、カタカナ。ガギグ",
    "mixed汉字and latin",
    "한국어 문장 각",
    "العربية مُحَمَّد",
    "עִבְרִית",
    "हिन्दी किताब",
    "ภาษาไทย",
    "😀 smile 👩‍👩‍👧 flag 🇩🇪 ok",
    "emoji😀inside",
    "full-width ＡＢＣ１２３！",
    "“curly” ‘quotes’ – dash — em … ellipsis",
    "§ ¶ © ® ™ € £ ¥ ° ± × ÷ ½ ²",
    "zero\u200bwidth soft\u00adhyphen bom\ufeffmark",
    "no\u00a0break thin\u2009space ideographic\u3000space line\u2028para\u2029end",
    "control\x01chars\x7f\x85here\x0bvt\x0cff",
    "replacement\ufffdchar",
    "private\ue000use",
    "unaffable embeddings tokenization antidisestablishmentarianism",
    "xqzjkvw qqqq ∀∃∅",
    "supercalifragilisticexpialidocious" * 2,
    "a" * 100,
    "a" * 101,
    "é" * 100,
    "é" * 101,
    "ab" * 49 + "!" + "x" * 150 + " after",
    "１２３ 𝟏𝟐𝟑 Ⅷ ⅷ ⓐ Ⓐ",
    "𐐀𐐁 deseret",
    "\u4dbf\u4dc0\u9fff\ua000 \U00020000x\U0002a6e0",
    "ǅ ǆ Ǆ ŉ ĳ Ĳ",
    "K\u212b\u2126 kelvin angstrom ohm",
    "\u037e greek question mark \u00b7 \u0387",
    "ṩ ẛ̣ ḍ̇",
    "1,234.56 3.14e-10 0x7f v2.0.1",
    "word " * 300,
]


def main():
    tokenizer = tokenizers.Tokenizer.from_file(str(MODEL / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(json.loads((MODEL / "sentence_bert_config.json").read_text())
                                ["max_seq_length"])
    model = transformers.BertModel.from_pretrained(MODEL, attn_implementation="eager")
    model = model.double().eval()

    def embedding(text):
        ids = torch.tensor([tokenizer.encode(text).ids])
        with torch.no_grad():
            mean = model(ids).last_hidden_state[0].mean(0)
        return [float(f"{x:.9g}") for x in (mean / mean.norm()).tolist()]

    def write(name, rows):
        text = ",\n".join(json.dumps(row, separators=(",", ":")) for row in rows)
        (OUT / name).write_text(f"[\n{text}\n]\n")

    OUT.mkdir(parents=True, exist_ok=True)
    write("tokens.json", [{"text": t, "tokens": tokenizer.encode(t).ids} for t in SENTENCES + ODD])
    write("embeddings.json", [{"text": t, "embedding": embedding(t)} for t in SENTENCES])


if __name__ == "__main__":
    main()
