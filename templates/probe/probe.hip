/* SPDX-License-Identifier: MIT */
// A kernel that measures a fact gets memory in which every word is its own index, and answers with
// a word for each work-item: bit v, whether the v-th of the fact's values fits what it saw.

#define PROBE KERNEL WORKGROUP(WAVE, 1) void SYMBOL(u32 *memory)
DEVICE u32 lane_of() { return __builtin_amdgcn_workitem_id_x(); }
DEVICE u32 group_of() { return __builtin_amdgcn_workgroup_id_x(); }
DEVICE void answer(u32 *memory, u32 values) { memory[group_of() * WAVE + lane_of()] = values; }
// Memory behind the answers.
DEVICE u32 *rest(u32 *memory) { return memory + 64 * WAVE; }
