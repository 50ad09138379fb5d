/* SPDX-License-Identifier: MIT */
/*
 * The rules that lists in a quantization_config make: names and regular expressions of modules,
 * each with a scheme. The first rule that fits a module counts.
 */
#ifndef TOOLS_HF_RULES_H
#define TOOLS_HF_RULES_H

#include "model/hf_modules.h"

#include <stdbool.h>

/* How the name of a module is compared with an entry. */
enum hf_how {
    HF_NAME,    /* the whole name */
    HF_PATTERN, /* a regular expression from its beginning */
    HF_TARGET,  /* as it is read: an HF_PATTERN if "re:" is before it, else an HF_NAME */
    HF_GLOB,    /* the whole name, with * and ? for anything; becomes an HF_PATTERN */
    HF_PART,    /* anywhere in the name */
    HF_WORDS,   /* its beginning or end, or one word of it, words being what has dots between them;
                 * with a * or the like an HF_PATTERN, as transformers has it */
};

/* What a list says of the modules that an entry names. */
struct hf_rule {
    enum hf_how how;
    const char *key, *text; /* the list, and the entry as it stands there */
    const char *name;       /* what of that is compared */
    struct name_pattern *pattern;
    size_t scheme;
    bool used;
};

struct hf_rules {
    const char *path;
    const json_t *q; /* quantization_config */
    struct model *m;
    struct hf_modules modules;
    size_t count, room;
    struct hf_rule *list;
    json_t *names;      /* the place of the first HF_NAME rule of each name */
    bool plain_head;    /* lm_head is not quantised, whatever the rules say */
    const json_t *only; /* only modules with one of these in their names are quantised; null: all */
    size_t fallback;    /* the scheme of modules that no rule is for */
    json_t *split;      /* `only`, made of a text with commas; freed with the rules */
    uint64_t steps;
    const struct hf_rule *slow; /* the rule that took the last of the steps; null: some are left */
};

/* Sets `steps`, which bounds the time that comparisons take, and `names`; the rest is the caller's.
 */
int hf_rules_start(struct hf_rules *r);
void hf_rules_free(struct hf_rules *r);

/* Adds a rule. `name` is the part of `text` that is compared; both live as long as the file. A
 * regular expression that is not understood is noted, and makes no rule. */
int hf_rules_add(struct hf_rules *r, const char *key, const char *text, const char *name,
                 enum hf_how how, size_t scheme);
/* Adds the rules of a list of modules that are not quantised, if the file has it. */
int hf_rules_add_list(struct hf_rules *r, const char *key, enum hf_how how);
/* Says on stderr what of the file is left out, and why. */
void hf_rules_not_heeded(const struct hf_rules *r, const char *key, const json_t *value,
                         const char *why);

/* Finds the scheme of every module, and fills in the model's uses. */
int hf_rules_apply(struct hf_rules *r);

#endif
