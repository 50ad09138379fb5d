/* SPDX-License-Identifier: MIT */
/* Writes and reads plan.json (launch_json.h). */
#include "files/launch_json.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The kinds of an argument, as plan.json spells them. */
static const struct {
    const char *name;
    size_t size; /* bytes, and alignment; 0: half as many bytes as it has digits, unaligned */
} kinds[] = {
    [QUERN_ARG_POINTER] = {"pointer", 8}, [QUERN_ARG_I32] = {"i32", 4},
    [QUERN_ARG_U32] = {"u32", 4},         [QUERN_ARG_I64] = {"i64", 8},
    [QUERN_ARG_U64] = {"u64", 8},         [QUERN_ARG_F32] = {"f32", 4},
    [QUERN_ARG_BYTES] = {"bytes", 0},
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

static const char *const access_names[] = {
    [QUERN_SIM_READ] = "r", [QUERN_SIM_WRITE] = "w", [QUERN_SIM_READ_WRITE] = "rw"};

/* ---- Writing --------------------------------------------------------------------------------- */

char *launch_object_name(const struct quern_kernel_info *kernel)
{
    char *name;

    return asprintf(&name, "%s-%.8s.co", kernel->symbol, kernel->entry_key) < 0 ? NULL : name;
}

static json_t *operands_json(const struct quern_operand *operands, size_t count)
{
    json_t *array = json_array();

    for (size_t i = 0; i < count; i++) {
        const struct quern_operand *o = &operands[i];
        json_t *shape = json_array();
        for (int d = 0; d < o->rank; d++)
            json_array_append_new(shape, json_integer(o->shape[d]));
        json_array_append_new(array,
                              json_make("{s:s, s:s, s:o, s:I, s:s}", "name", o->name, "dtype",
                                        o->dtype, "shape", shape, "bytes", (json_int_t)o->bytes,
                                        "access", access_names[o->access]));
    }
    return array;
}

static json_t *argument_json(const struct quern_launch_arg *a)
{
    json_t *json = json_make("{s:s, s:s}", "name", a->name, "kind", kinds[a->kind].name);

    if (a->kind == QUERN_ARG_POINTER) {
        if (a->is_null)
            json_object_set_new(json, "value", json_integer(0));
    } else if (a->kind == QUERN_ARG_F32) {
        const uint32_t bits = (uint32_t)a->value;
        float value;
        memcpy(&value, &bits, sizeof value);
        json_object_set_new(json, "value", json_real((double)value));
    } else {
        json_object_set_new(json, "value", json_integer(a->value));
    }
    return json;
}

static json_t *triple_json(const uint32_t v[3])
{
    return json_make("[I, I, I]", (json_int_t)v[0], (json_int_t)v[1], (json_int_t)v[2]);
}

static json_t *launch_json(const struct quern_launch *l, const struct quern_kernel_info *kernel)
{
    json_t *arguments = json_array();
    char *object = launch_object_name(kernel);

    for (size_t i = 0; i < l->arg_count; i++)
        json_array_append_new(arguments, argument_json(&l->args[i]));
    json_t *json =
        json_make("{s:s, s:s, s:o, s:o, s:I, s:o}", "object", object ? object : "", "kernel",
                  kernel->symbol, "grid", triple_json(l->grid), "block", triple_json(l->block),
                  "lds_bytes", (json_int_t)l->lds_bytes, "args", arguments);
    free(object);
    return json;
}

/* Takes the layout out of a problem's text: "layout=bnb …" gives "bnb". The weights in memory have
 * it: no family of this version reads another layout than the problem's. */
static void layout_of(const char *problem, char *layout, size_t size)
{
    const char *word = strstr(problem, "layout=");
    const char *value = word ? word + strlen("layout=") : "";

    snprintf(layout, size, "%.*s", (int)strcspn(value, " "), value);
}

/* Adds the workspace, if the launches use one, behind the operands of the problem. */
static void add_workspace(const quern_op *op, int64_t m, struct quern_operand *operands,
                          size_t *count)
{
    const size_t bytes = quern_op_workspace(op, m);

    if (bytes)
        operands[(*count)++] = (struct quern_operand){.name = "workspace",
                                                      .dtype = "u8",
                                                      .rank = 1,
                                                      .shape = {(int64_t)bytes},
                                                      .bytes = bytes,
                                                      .access = QUERN_SIM_WRITE};
}

static json_t *resources_json(const struct quern_resources *r)
{
    return json_make("{s:I, s:I, s:I, s:I, s:I}", "vgpr", (json_int_t)r->vgprs, "sgpr",
                     (json_int_t)r->sgprs, "lds", (json_int_t)r->lds_bytes, "scratch",
                     (json_int_t)r->scratch_bytes, "waves_per_simd", (json_int_t)r->waves_per_simd);
}

/* What only a plan of op=moe or op=moe_align has: how many rows of A, or tokens, there are, slots,
 * and slots of a block. */
static int add_blocks(json_t *plan, const struct quern_problem *problem, int64_t m)
{
    int64_t slots;

    if (problem->op != QUERN_OP_MOE && problem->op != QUERN_OP_MOE_ALIGN)
        return EXIT_OK;
    const quern_status status = quern_moe_slots(problem, m, &slots);
    if (status)
        return fail_status(status, NULL);
    return json_object_set_new(plan, "tokens", json_integer(m)) ||
                   json_object_set_new(plan, "rows", json_integer(slots)) ||
                   json_object_set_new(plan, "block_rows", json_integer(problem->block_rows))
               ? fail("out of memory")
               : EXIT_OK;
}

int launch_plan_make(quern_op *op, const struct quern_problem *given, const char *target, int64_t m,
                     json_t **plan, bool *used)
{
    struct quern_problem at_m = *given;
    const struct quern_problem *const problem = &at_m;
    struct quern_operand operands[QUERN_OPERANDS_MAX + 1];
    struct quern_launch launches[QUERN_LAUNCHES_MAX];
    struct quern_kernel_info main_kernel = {0};
    struct quern_target_info info = QUERN_INIT(struct quern_target_info);
    char text[QUERN_TEXT_MAX], layout[32];
    size_t operand_count = 0, launch_count = 0;
    quern_status status;

    /* the text of the plan says how large blocks are, so that its operands can be made anew */
    if ((given->op != QUERN_OP_MOE_ALIGN &&
         (status = quern_op_block_rows(op, m, &at_m.block_rows))) ||
        (status = quern_problem_text(problem, text, sizeof text)) ||
        (status = quern_problem_operands(problem, m, operands, &operand_count)) ||
        (status = quern_op_launches(op, m, launches, &launch_count)) ||
        (status = quern_target_find(target, &info)))
        return fail_status(status, NULL);
    add_workspace(op, m, operands, &operand_count);
    layout_of(text, layout, sizeof layout);

    json_t *array = json_array();
    for (size_t i = 0; i < launch_count; i++) {
        struct quern_kernel_info kernel = QUERN_INIT(struct quern_kernel_info);
        if ((status = quern_op_kernel(op, launches[i].kernel, &kernel))) {
            json_decref(array);
            return fail_status(status, NULL);
        }
        used[launches[i].kernel] = true;
        if (!i)
            main_kernel = kernel;
        json_array_append_new(array, launch_json(&launches[i], &kernel));
    }
    /* a plan of one slice serves the kernel's whole range of M; one of several, this M only */
    const bool one_slice = launch_count == 1 && m <= main_kernel.m_hi;
    *plan = json_make("{s:i, s:s, s:s, s:[I, I], s:[I, I], s:b, s:s, s:s, s:I, s:o, s:o, s:o}",
                      "quern_plan", 1, "problem", text, "target", target, "m", (json_int_t)m,
                      (json_int_t)m, "covers", (json_int_t)(one_slice ? main_kernel.m_lo : m),
                      (json_int_t)(one_slice ? main_kernel.m_hi : m), "verified",
                      main_kernel.verified, "verified_by", info.verified_by, "b_layout", layout,
                      "workspace_bytes", (json_int_t)quern_op_workspace(op, m), "operands",
                      operands_json(operands, operand_count), "launches", array, "resources",
                      resources_json(&main_kernel.resources));
    return *plan ? add_blocks(*plan, problem, m) : fail("out of memory");
}

/* ---- Reading --------------------------------------------------------------------------------- */

#define PLAN_BYTES_MAX    ((size_t)16 << 20)
#define LAUNCHES_MAX      4096
#define ARGUMENTS_MAX     512
#define OPERANDS_MAX      64
#define OPERAND_BYTES_MAX ((int64_t)1 << 40)
#define GRID_MAX          ((int64_t)INT32_MAX)
#define BLOCK_MAX         1024 /* work-items of a workgroup, as the hardware allows */
#define LDS_MAX           (1 << 20)

/* Member `field` as an array of 1 (or 0, if `may_be_empty`) to `max` values. */
static int field_array(const json_t *object, const char *where, const char *field, size_t min,
                       size_t max, json_t **array)
{
    *array = json_object_get(object, field);
    if (!json_is_array(*array))
        return fail("%s: '%s' must be an array", where, field);
    if (json_array_size(*array) < min || json_array_size(*array) > max)
        return fail("%s: '%s' has %zu items; it must have from %zu to %zu", where, field,
                    json_array_size(*array), min, max);
    return EXIT_OK;
}

static int read_triple(const json_t *object, const char *where, const char *field, int64_t max,
                       uint32_t out[3])
{
    json_t *array;
    char shown[JSON_SHOWN_BYTES];

    const int status = field_array(object, where, field, 3, 3, &array);
    if (status)
        return status;
    for (size_t i = 0; i < 3; i++) {
        const json_t *value = json_array_get(array, i);
        if (!json_is_integer(value) || json_integer_value(value) < 1 ||
            json_integer_value(value) > max)
            return fail("%s: '%s' is %s; each value must be an integer from 1 to %lld", where,
                        field, json_shown(array, shown), (long long)max);
        out[i] = (uint32_t)json_integer_value(value);
    }
    return EXIT_OK;
}

static int read_operand(const json_t *json, const char *path, size_t index, struct plan_operand *o)
{
    char where[512];
    int64_t bytes;

    snprintf(where, sizeof where, "%s: operand %zu", path, index);
    int status = json_field_text(json, where, "name", &o->name);
    if (status || (status = json_field_int(json, where, "bytes", 0, OPERAND_BYTES_MAX, &bytes)))
        return status;
    o->bytes = (uint64_t)bytes;
    o->dtype = json_string_value(json_object_get(json, "dtype"));
    const json_t *access = json_object_get(json, "access");
    const char *text = access ? json_string_value(access) : "rw";
    for (int a = QUERN_SIM_READ; a <= QUERN_SIM_READ_WRITE; a++)
        if (text && !strcmp(text, access_names[a]))
            o->access = (enum quern_sim_access)a;
    char shown[JSON_SHOWN_BYTES];
    if (!o->access)
        return fail("%s: 'access' is %s; it must be \"r\", \"w\" or \"rw\"", where,
                    json_shown(access, shown));
    return EXIT_OK;
}

static int read_operands(struct launch_plan *plan, const char *path)
{
    json_t *array, *item;
    size_t i;

    if (!json_object_get(plan->root, "operands"))
        return EXIT_OK;
    int status = field_array(plan->root, path, "operands", 0, OPERANDS_MAX, &array);
    if (status)
        return status;
    plan->has_operands = true;
    plan->operands = calloc(json_array_size(array) + 1, sizeof *plan->operands);
    if (!plan->operands)
        return fail("out of memory");
    json_array_foreach(array, i, item)
    {
        struct plan_operand *o = &plan->operands[i];
        if ((status = read_operand(item, path, i, o)))
            return status;
        for (size_t j = 0; j < i; j++)
            if (!strcmp(plan->operands[j].name, o->name))
                return fail("%s: operand '%s' is listed twice", path, o->name);
        plan->operand_count++;
    }
    return EXIT_OK;
}

/* The value of an integer argument, sign-extended. */
static int read_integer(const json_t *json, const char *where, struct plan_argument *a)
{
    static const struct {
        int64_t lo, hi;
    } limits[KIND_COUNT] = {
        [QUERN_ARG_I32] = {INT32_MIN, INT32_MAX},
        [QUERN_ARG_U32] = {0, UINT32_MAX},
        [QUERN_ARG_I64] = {INT64_MIN, INT64_MAX},
        /* JSON numbers beyond that are not read: give them as `bytes` */
        [QUERN_ARG_U64] = {0, INT64_MAX},
    };
    int64_t value;
    const int status =
        json_field_int(json, where, "value", limits[a->kind].lo, limits[a->kind].hi, &value);

    a->bits = (uint64_t)value;
    return status;
}

static int read_value(const json_t *json, const char *where, struct plan_argument *a)
{
    const json_t *value = json_object_get(json, "value");
    char shown[JSON_SHOWN_BYTES];

    switch (a->kind) {
    case QUERN_ARG_POINTER:
        if (value && !(json_is_integer(value) && json_integer_value(value) == 0))
            return fail("%s: 'value' is %s; a pointer has none, or 0 for null", where,
                        json_shown(value, shown));
        a->null = value != NULL;
        return a->null ? EXIT_OK : json_field_text(json, where, "name", &a->name);
    case QUERN_ARG_F32: {
        const float number = (float)json_number_value(value);
        uint32_t bits;
        if (!json_is_number(value))
            return fail("%s: 'value' must be a number", where);
        memcpy(&bits, &number, sizeof bits);
        a->bits = bits;
        return EXIT_OK;
    }
    case QUERN_ARG_BYTES: {
        const int status = json_field_text(json, where, "value", &a->bytes);
        if (status)
            return status;
        a->size = strlen(a->bytes) / 2;
        if (strlen(a->bytes) % 2 || strspn(a->bytes, "0123456789abcdefABCDEF") != 2 * a->size)
            return fail("%s: 'value' is %s; it must be pairs of hexadecimal digits", where,
                        json_shown(value, shown));
        return EXIT_OK;
    }
    default:
        return read_integer(json, where, a);
    }
}

static int read_argument(const json_t *json, const char *launch, size_t index,
                         struct plan_launch *l)
{
    struct plan_argument *a = &l->arguments[index];
    char where[600], shown[JSON_SHOWN_BYTES];
    const char *kind;

    snprintf(where, sizeof where, "%s: argument %zu", launch, index);
    int status = json_field_text(json, where, "kind", &kind);
    if (status)
        return status;
    for (size_t k = QUERN_ARG_POINTER; k < KIND_COUNT; k++)
        if (!strcmp(kind, kinds[k].name))
            a->kind = (enum quern_arg_kind)k;
    if (!a->kind)
        return fail("%s: 'kind' is %s; it must be pointer, i32, u32, i64, u64, f32 or bytes", where,
                    json_shown(json_object_get(json, "kind"), shown));
    a->name = "";
    a->size = kinds[a->kind].size;
    const size_t alignment = a->size ? a->size : 1;
    if ((status = read_value(json, where, a)))
        return status;
    a->offset = (l->kernarg_bytes + alignment - 1) / alignment * alignment;
    l->kernarg_bytes = a->offset + a->size;
    return EXIT_OK;
}

static int read_launch(const json_t *json, const char *path, size_t index, struct plan_launch *l)
{
    json_t *array, *item;
    char where[512];
    int64_t lds = 0;
    size_t i;
    int status;

    snprintf(where, sizeof where, "%s: launch %zu", path, index);
    if ((status = json_field_text(json, where, "object", &l->object)) ||
        (status = json_field_text(json, where, "kernel", &l->kernel)) ||
        (status = read_triple(json, where, "grid", GRID_MAX, l->grid)) ||
        (status = read_triple(json, where, "block", BLOCK_MAX, l->block)))
        return status;
    const uint64_t items = (uint64_t)l->block[0] * l->block[1] * l->block[2];
    if (items > BLOCK_MAX)
        return fail("%s: 'block' has %llu work-items; at most %d are possible", where,
                    (unsigned long long)items, BLOCK_MAX);
    if (json_object_get(json, "lds_bytes") &&
        (status = json_field_int(json, where, "lds_bytes", 0, LDS_MAX, &lds)))
        return status;
    l->lds_bytes = (uint32_t)lds;
    if ((status = field_array(json, where, "args", 0, ARGUMENTS_MAX, &array)))
        return status;
    l->argument_count = json_array_size(array);
    l->arguments = calloc(l->argument_count + 1, sizeof *l->arguments);
    if (!l->arguments)
        return fail("out of memory");
    json_array_foreach(array, i, item)
    {
        if ((status = read_argument(item, where, i, l)))
            return status;
    }
    return EXIT_OK;
}

/* Checks that every pointer that the launches take is in the plan's list of operands, if it has
 * one. */
static int check_pointers(const struct launch_plan *plan, const char *path)
{
    for (size_t i = 0; plan->has_operands && i < plan->launch_count; i++) {
        const struct plan_launch *l = &plan->launches[i];
        for (size_t j = 0; j < l->argument_count; j++) {
            const struct plan_argument *a = &l->arguments[j];
            size_t o = 0;
            if (a->kind != QUERN_ARG_POINTER || a->null)
                continue;
            while (o < plan->operand_count && strcmp(plan->operands[o].name, a->name))
                o++;
            if (o == plan->operand_count)
                return fail("%s: launch %zu takes '%s', which is not among the operands", path, i,
                            a->name);
        }
    }
    return EXIT_OK;
}

/* Reads the members that are only told to people or the cost model: one with a wrong value counts
 * as absent. */
static void read_about(struct launch_plan *plan)
{
    const json_t *m = json_array_get(json_object_get(plan->root, "m"), 0);

    plan->problem = json_string_value(json_object_get(plan->root, "problem"));
    plan->m = json_is_integer(m) && json_integer_value(m) > 0 ? json_integer_value(m) : 0;
}

int launch_plan_read(const char *path, struct launch_plan *plan)
{
    json_t *root = NULL;

    *plan = (struct launch_plan){0};
    const int status = json_file_load(path, PLAN_BYTES_MAX, &root);
    return status ? status : launch_plan_take(root, path, plan);
}

int launch_plan_take(json_t *root, const char *path, struct launch_plan *plan)
{
    json_t *array, *item;
    int64_t version;
    size_t i;
    int status;

    *plan = (struct launch_plan){.root = root};
    read_about(plan);
    if ((status = json_field_int(plan->root, path, "quern_plan", 1, 1, &version)))
        return status;
    if (json_object_get(plan->root, "target") &&
        (status = json_field_text(plan->root, path, "target", &plan->target)))
        return status;
    if ((status = read_operands(plan, path)) ||
        (status = field_array(plan->root, path, "launches", 1, LAUNCHES_MAX, &array)))
        return status;
    plan->launches = calloc(json_array_size(array), sizeof *plan->launches);
    if (!plan->launches)
        return fail("out of memory");
    json_array_foreach(array, i, item)
    {
        plan->launch_count++;
        if ((status = read_launch(item, path, i, &plan->launches[i])))
            return status;
    }
    return check_pointers(plan, path);
}

void launch_plan_free(struct launch_plan *plan)
{
    for (size_t i = 0; i < plan->launch_count; i++)
        free(plan->launches[i].arguments);
    free(plan->launches);
    free(plan->operands);
    json_decref(plan->root);
    *plan = (struct launch_plan){0};
}
