/* SPDX-License-Identifier: MIT */
/*
 * The file beside a config.json that says how weights are quantised, of checkpoints whose
 * config.json does not: AutoGPTQ's quantize_config.json, AWQ's quant_config.json and AutoRound's
 * quantization_config.json. These names, and that config.json goes before them, are vLLM's
 * (get_config_filenames in vllm/model_executor/layers/quantization/gptq.py, awq.py, auto_round.py;
 * get_quant_config in vllm/model_executor/model_loader/weight_utils.py).
 */
#ifndef TOOLS_HF_BESIDE_H
#define TOOLS_HF_BESIDE_H

#include <jansson.h>

/* Reads that file, says so on stderr, and fills in quant_method where it is left out. *q becomes
 * its JSON and *path its name, for the caller to free; null where there is no such file, or
 * `config` is not called config.json. An error if the file cannot be read. */
int hf_beside_read(const char *config, json_t **q, char **path);

#endif
