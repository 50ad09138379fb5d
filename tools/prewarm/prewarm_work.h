/* SPDX-License-Identifier: MIT */
/* What `quern prewarm` works on, and how it reports. */
#ifndef TOOLS_PREWARM_WORK_H
#define TOOLS_PREWARM_WORK_H

#include "model/model.h"
#include "command/options.h"

#include <jansson.h>

/* One run of a kernel on the software GPU against the reference. */
struct prewarm_run {
    int64_t m;
    size_t kernel; /* index in its problem's kernels */
    quern_status status;
    struct quern_verification result;
};

struct prewarm_kernel {
    char symbol[128];
    int64_t m_lo, m_hi;
    bool and_more; /* serves every M from m_lo on */
    bool cached;
    double compile_ms;
    size_t object_bytes;
    struct quern_resources resources;
    char source_key[33], entry_key[33];
};

struct prewarm_problem {
    size_t target;     /* index in its prewarm's targets */
    bool plain;        /* a layer that a quantised model leaves as it is */
    int nearest_split; /* of a layer that cannot be made as it is split: one that can; 0: none */
    char layers[512];  /* names of the model's layers; "" for a problem given as text */
    char text[QUERN_TEXT_MAX];
    struct quern_problem problem;
    struct m_set m; /* rows to make kernels for */
    size_t kernel_count;
    struct prewarm_kernel *kernels; /* by increasing M */
    size_t run_count;
    struct prewarm_run *runs;
    quern_status status; /* the first failure of reading its words, or of making, loading back or
                          * verifying its kernels */
    char error[1024];    /* what went wrong */
};

#define WARNINGS_MAX 16 /* of the library, that are shown at the end */

/* One of the targets that kernels are made for, and its problems: first … end - 1. */
struct prewarm_target {
    char text[64]; /* as it was given */
    struct quern_target_info info;
    size_t first, end;
};

#define PREWARM_TARGETS_MAX 64
struct prewarm {
    struct common common;
    size_t target_count;
    struct prewarm_target targets[PREWARM_TARGETS_MAX];
    size_t model_count;   /* 0 when problems were given as text */
    char models[256];     /* their names, comma-separated */
    struct m_set m_set;   /* --m, or all */
    bool skip_impossible; /* what cannot be made does not change the exit status */
    int experts;          /* enum prewarm_experts */
    int verify;           /* 0: no, else enum prewarm_verify */
    size_t count, room;
    struct prewarm_problem *problems; /* by target */
    void *known; /* of <search.h>: where among the problems each target and text is */
    double make_seconds, verify_seconds;
    bool show_counters;
    uint64_t counters[QUERN_STAT_COUNT]; /* of all contexts that made kernels */
    char warnings[WARNINGS_MAX][1024];   /* the first may be the reason why nothing is stored */
    size_t warning_count;                /* those beyond the maximum too */
};

/* How the experts of a mixture are made: all in one launch where that goes, or else as GEMMs of
 * single experts; only so; only as single GEMMs. The names are in the order of --experts. */
enum prewarm_experts { PREWARM_EXPERTS_ANY, PREWARM_EXPERTS_MOE, PREWARM_EXPERTS_GEMM };

enum prewarm_verify { PREWARM_VERIFY_ALL = 1, PREWARM_VERIFY_ENDS };

/* Where the problems come from; models or a manifest, or neither. */
#define PREWARM_WORDS 11 /* problem words that are options beside --model */
struct prewarm_origin {
    struct texts models;
    const char *manifest, *tp, *shard;
    int base;    /* 1: the targets' base kernels that are shipped, 2: all of them; 0: problems */
    int experts; /* enum prewarm_experts */
    const char *values[PREWARM_WORDS];
};

/* Problem words that stand as options beside --model: --wq nf4 is wq=nf4 in every layer. */
extern const char *const prewarm_words[PREWARM_WORDS];

/* The flags about models, whose values go to *FROM. */
#define PREWARM_MODEL_FLAGS(FROM)                                                                  \
    {"model", FLAG_TEXTS, &(FROM)->models, "FILE",                                                 \
     "config.json, or a manifest as in cache/models; may be repeated"},                            \
        {"wq", FLAG_TEXT, &(FROM)->values[0], "FORMAT",                                            \
         "weights: nf4, fp4, … (the problem word wq)"},                                            \
        {"group", FLAG_TEXT, &(FROM)->values[1], "N", "weights that share a scale"},               \
        {"scale", FLAG_TEXT, &(FROM)->values[2], "TYPE", "type of the scales"},                    \
        {"zero", FLAG_TEXT, &(FROM)->values[3], "KIND", "zero points"},                            \
        {"a", FLAG_TEXT, &(FROM)->values[4], "TYPE", "type of the activations"},                   \
        {"c", FLAG_TEXT, &(FROM)->values[5], "TYPE", "type of the result"},                        \
        {"bias", FLAG_TEXT, &(FROM)->values[6], "0|1", "add a bias"},                              \
        {"layout", FLAG_TEXT, &(FROM)->values[7], "NAME", "order of the weights"},                 \
        {"round", FLAG_TEXT, &(FROM)->values[8], "MODE", "rounding of the result"},                \
        {"exact", FLAG_TEXT, &(FROM)->values[9], "PROMISE",                                        \
         "bits that do not depend on M, or unrounded weights"},                                    \
        {"kernels", FLAG_TEXT, &(FROM)->values[10], "base",                                        \
         "kernels that serve every layer of a kind"},                                              \
        {"experts",                                                                                \
         FLAG_CHOICE,                                                                              \
         &(FROM)->experts,                                                                         \
         "OP",                                                                                     \
         "of a mixture: only all in one launch, or each as a GEMM",                                \
         "moe|gemm",                                                                               \
         false},                                                                                   \
        {"tp", FLAG_TEXT, &(FROM)->tp, "LIST",                                                     \
         "layers as split over that many GPUs, e.g. 1,2,4,8"}

/* Fills in targets and problems. Returns an exit status. */
int prewarm_collect(struct prewarm *w, struct prewarm_origin *from);

/* Frees the problems and what belongs to them. */
void prewarm_free(struct prewarm *w);

/* Makes room for one more problem behind the last. */
int prewarm_make_room(struct prewarm *w);

/* Adds a problem of the last target, for which there is room, for those rows; or its layers' names
 * and rows to one that is the same. With an error it stays for the report. */
quern_status prewarm_add_problem(struct prewarm *w, const char *layers, const char *text,
                                 const struct m_set *m);

/* Reads a model, and what of its words holds beside the options: values of prewarm_words. */
int prewarm_read_model(const char *path, const char *const options[PREWARM_WORDS], struct model *m);

/* Notes the names of the models that were read. Of a config.json the name is its model_type, so
 * that two may be called alike: these take the names of their directories, or files. */
void prewarm_name_models(struct prewarm *w, struct model *models, size_t count,
                         const char *const *paths);

/* Adds the layers of a model for the last target, in each way to split it, and says which experts
 * no single launch does. */
int prewarm_add_model(struct prewarm *w, const struct model *m, const int *tp, size_t tp_count,
                      const char *const options[PREWARM_WORDS]);

/* Fails at once, with the first reason, if no layer of the models can be made, or no quantised
 * layer of a quantised model: the request made no sense. */
int prewarm_check_models(const struct prewarm *w);

/* Leaves those problems that are of one part of the work (--shard). Returns an exit status. */
int prewarm_take_shard(struct prewarm *w, const char *text);

/* Whether there are no kernels for a problem: it is left out, and no failure of the work. */
static inline bool prewarm_is_impossible(const struct prewarm_problem *p)
{
    return p->status == QUERN_E_PROBLEM || p->status == QUERN_E_DECLINED;
}

/* Keeps a problem's failure, with the message of quern_last_error. */
void prewarm_keep_error(struct prewarm_problem *p, quern_status status);

/* The same where the command itself has no memory, of which quern_last_error knows nothing. */
void prewarm_out_of_memory(struct prewarm_problem *p);

/* Has the library find or make all kernels, target by target, and waits for what a remote is given;
 * `doing` is what the progress line says. What fails of a problem is kept there; the result, an
 * exit status, is of the work as a whole: a context that cannot be opened. */
int prewarm_make(struct prewarm *w, const char *doing);

/* Issue slots times lanes for each weight that was read. */
double prewarm_per_weight(const struct prewarm_run *r);

/* Prints the table and the closing line, or JSON, on stdout. Returns an exit status. */
int prewarm_report(const struct prewarm *w);

/* The counters of all contexts by name. Null when out of memory. */
json_t *prewarm_counters_json(const struct prewarm *w);

/* Says the library's warnings on stderr. */
void prewarm_note_warnings(const struct prewarm *w);

/* Prints on stderr one line for each reason why problems were left out, then one for the first
 * failure, of a problem or of storing; if there is none, the warnings. Returns an exit status. */
int prewarm_conclude(const struct prewarm *w);

#endif
