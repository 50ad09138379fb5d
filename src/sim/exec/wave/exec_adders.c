/* SPDX-License-Identifier: MIT */
/*
 * The adders of RDNA 3 and 4, CDNA 2 and 3 (docs/sim.md). All of it is done in doubles, in which
 * products, grids (powers of two) and aligned sums are exact, so that compilers make vector code of
 * the loops over columns; infinities and NaNs go another way.
 *
 * A factor's exponent is that of its format, which for denormals is the least. A product stands at
 * the sum of its factors' exponents, wherever its leading bit is; `power` is two to the exponent.
 */
#include "sim/exec/wave/adders.h"
#include "sim/exec/wave/host_mode.h"
#include "sim/launch.h"

#define STEP_MOST    16
#define COLUMNS_MOST 32
/* The power of a zero: with any other below every product of numbers that are none. */
#define POWER_OF_ZERO 0x1p-450

#define NAN_OF_FACTORS 0xffc00a3du /* a factor is a NaN */
#define NAN_OF_INVALID 0xffc00000u /* infinity times zero, or less infinity */

/* What is added in a step: factors x of a row, y of columns. */
struct products {
    unsigned count;
    double x[STEP_MOST], x_power[STEP_MOST];
    double y[STEP_MOST][COLUMNS_MOST], y_power[STEP_MOST][COLUMNS_MOST];
};

INLINE double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Two to the exponent of x; 0 of 0. */
INLINE double power_of(double x)
{
    return f64_of(bits_of_f64(x) & 0x7ff0000000000000u);
}

/* One by a power of two that is no denormal, of which the exponent is negated: divisions took a
 * third of the time of a step. */
INLINE double reciprocal(double power)
{
    return f64_of(0x7fe0000000000000u - bits_of_f64(power));
}

INLINE double factor_power(double x, double least, double of_zero)
{
    return x == 0 ? of_zero : larger(power_of(x), least);
}

INLINE double without_sign(double x)
{
    return f64_of(bits_of_f64(x) & 0x7fffffffffffffffu);
}

INLINE bool is_cdna3(const struct adder *how)
{
    return how->model.kind >= ADDER_CDNA3;
}

/* ---- Candidates ------------------------------------------------------------------------------ */

int open_candidate(const struct wave *w)
{
    atomic_bool *const met = &w->group->run->module->sim->met_open;

    /* looked at first: a line that every thread writes would go from one to the other */
    if (w->candidate != SIM_NO_CANDIDATE && !atomic_load_explicit(met, memory_order_relaxed))
        atomic_store_explicit(met, true, memory_order_relaxed);
    return w->candidate;
}

struct adder_model open_model(const struct wave *w,
                              const struct adder_model candidates[SIM_CANDIDATES])
{
    const int n = open_candidate(w);

    return n == SIM_NO_CANDIDATE ? (struct adder_model){ADDER_FUSED, 1, 1} : candidates[n];
}

/* ---- Infinities and NaNs --------------------------------------------------------------------- */

static uint32_t special_result(const struct adder *how, uint32_t bits)
{
    switch (how->result) {
    case ADDER_F16:
        return bits == NAN_OF_FACTORS ? 0xfe3d
                                      : (bits >> 16 & 0x8000) | 0x7c00 | (bits >> 13 & 0x3ff);
    case ADDER_BF16:
        return bits == NAN_OF_FACTORS ? 0xfffd : bits >> 16;
    default:
        return bits;
    }
}

/* A column's sum as a float again. */
static float widened(const struct adder *how, uint32_t bits)
{
    return how->result == ADDER_F16    ? f16_to_f32(bits)
           : how->result == ADDER_BF16 ? f32_of(bits << 16)
                                       : f32_of(bits);
}

/* Whether a sum is one that is not computed; then *sum is it. NaNs of factors come before products
 * that are none, and those before a NaN that is added to. */
static bool special_column(const struct adder *how, const struct products *p, unsigned c,
                           float *sum)
{
    const bool cdna = is_cdna3(how);
    const uint32_t old = bits_of_f32(*sum);
    bool infinite[2] = {false, false}, beyond[2] = {false, false}, invalid = false;
    uint32_t bits;

    for (unsigned k = 0; k < p->count; k++) {
        const double x = p->x[k], y = p->y[k][c];
        if (isnan(x) || isnan(y)) {
            *sum = widened(how, special_result(how, NAN_OF_FACTORS));
            return true;
        }
        invalid |= (isinf(x) && y == 0) || (isinf(y) && x == 0);
        const bool negative = (bits_of_f64(x) ^ bits_of_f64(y)) >> 63;
        infinite[negative] |= isinf(x) || isinf(y);
        beyond[negative] |= cdna && fabs(x * y) >= 0x1p128;
    }
    if (invalid || (infinite[0] && infinite[1])) {
        bits = NAN_OF_INVALID;
    } else if (isnan(*sum)) {
        bits = old | 0x400000;
    } else {
        infinite[0] |= old == 0x7f800000;
        infinite[1] |= old == 0xff800000u;
        /* where nothing is infinite, CDNA 3 takes a product beyond f32 for an infinity */
        if (!infinite[0] && !infinite[1])
            memcpy(infinite, beyond, sizeof infinite);
        if (!infinite[0] && !infinite[1])
            return false;
        bits = infinite[0] && infinite[1] ? NAN_OF_INVALID : infinite[1] ? 0xff800000u : 0x7f800000;
    }
    *sum = widened(how, special_result(how, bits));
    return true;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* v, which is exact, as a number of the type of the result: rounded to it once, but that bf16 is
 * the upper half of an f32. A zero is positive. */
INLINE float rounded(enum adder_result result, double v)
{
    if (result == ADDER_F16) {
        const double unit = larger(power_of(v), 0x1p-14) * 0x1p-10;
        const double near = rint(v / unit) * unit;
        return f32_of(pick(fabs(near) >= 0x1p16,
                           0x7f800000u | (uint32_t)(bits_of_f64(v) >> 32 & 0x80000000u),
                           bits_of_f32((float)near + 0.0f)));
    }
    const float f = (float)v + 0.0f;
    return result == ADDER_BF16 ? f32_of(bits_of_f32(f) & 0xffff0000u) : f;
}

/* ---- RDNA 3 ---------------------------------------------------------------------------------- */

/* t on the grid, towards zero; where its sign is not the addend's, the complement of that, which is
 * one less than the negative. */
INLINE double complemented(double t, double per_unit, uint64_t sign)
{
    const double units = floor(without_sign(t) * per_unit);
    return (bits_of_f64(t) ^ sign) >> 63 ? -units - 1 : units;
}

/* Two products and the addend at once. f32 denormals do not count, neither as addend nor as result,
 * and the addend's sign is that of a frame in which all others are. */
INLINE void step_rdna3(const struct adder *how, const struct products *p, float *sum, unsigned n)
{
    const double least = how->result == ADDER_F16 ? 0x1p-14 : 0;

    for (unsigned c = 0; c < n; c++) {
        const double wide = (double)sum[c];
        const uint64_t sign = bits_of_f64(wide) & 0x8000000000000000u;
        const double addend =
            without_sign(wide) < 0x1p-126 ? f64_of(sign) : wide; /* of f16 all are above */
        const double p0 = p->x[0] * p->y[0][c], p1 = p->x[1] * p->y[1][c];
        const double most =
            larger(p->x_power[0] * p->y_power[0][c], p->x_power[1] * p->y_power[1][c]);
        const double lead =
            larger(larger(power_of(addend), least), larger(power_of(p0), power_of(p1)));
        const double grid = larger(most * 0x1p-24, lead * 0x1p-26), per_unit = reciprocal(grid);
        const double units = complemented(addend, per_unit, sign) +
                             complemented(p0, per_unit, sign) + complemented(p1, per_unit, sign);
        double v;
        if (how->result == ADDER_F16) {
            v = units * grid;
        } else { /* rounded to 24 bits before it is seen to be too small */
            v = (double)(float)units * grid;
            v = without_sign(v) < 0x1p-126 ? 0 : v;
        }
        sum[c] = rounded(how->result, f64_of(bits_of_f64(v) ^ sign) + 0.0);
    }
}

/* ---- RDNA 4 ---------------------------------------------------------------------------------- */

/* Products on the grid of the largest of them, downwards. */
INLINE double group_rdna4(const struct products *p, unsigned first, unsigned count, unsigned c,
                          double *most)
{
    double top = 0, units = 0;

    for (unsigned k = first; k < first + count; k++)
        top = larger(top, p->x_power[k] * p->y_power[k][c]);
    const double grid = top * 0x1p-24, per_unit = reciprocal(grid);
    for (unsigned k = first; k < first + count; k++)
        units += floor(p->x[k] * p->y[k][c] * per_unit);
    *most = larger(*most, top);
    return units * grid;
}

/* Groups of products, and the addend, on a common grid, downwards. A negative addend of which
 * nothing is left on a grid that is not the finest does not count. */
INLINE void step_rdna4(const struct adder *how, const struct products *p, float *sum, unsigned n,
                       unsigned group)
{
    const double least = how->result == ADDER_F16 ? 0x1p-14 : 0x1p-126;

    for (unsigned c = 0; c < n; c++) {
        const double addend = (double)sum[c];
        double most = 0, groups[2] = {0, 0};
        groups[0] = group_rdna4(p, 0, group, c, &most);
        if (p->count > group)
            groups[1] = group_rdna4(p, group, group, c, &most);
        const double grid = larger(most * 0x1p-24, larger(power_of(addend), least) * 0x1p-26);
        const double per_unit = reciprocal(grid), scaled = addend * per_unit;
        const double own = grid > least && scaled > -1 && scaled < 0 ? 0 : floor(scaled);
        const double units = own + floor(groups[0] * per_unit) + floor(groups[1] * per_unit);
        sum[c] = rounded(how->result, units * grid);
    }
}

/* ---- CDNA ------------------------------------------------------------------------------------ */

INLINE float tiny_to_zero(float f)
{
    return pick_f32(fabsf(f) < 0x1p-126f, copysignf(0, f), f);
}

/* CDNA 2: pairs, pairs of those, the addend; each sum is rounded to f32, denormals are zeros. */
INLINE void step_cdna2(const struct products *p, float *sum, unsigned n)
{
    for (unsigned c = 0; c < n; c++) {
        float part[STEP_MOST];
        for (unsigned k = 0; k < p->count; k++)
            part[k] = tiny_to_zero((float)(p->x[k] * p->y[k][c]) + 0.0f);
        for (unsigned width = p->count; width > 1; width /= 2)
            for (unsigned k = 0; k < width / 2; k++)
                part[k] = tiny_to_zero(part[2 * k] + part[2 * k + 1]);
        sum[c] = tiny_to_zero(sum[c] + part[0]);
    }
}

/* Each `apart`-th product from `first` on, towards zero on the grid of the largest of them. */
INLINE double group_cdna3(const struct products *p, unsigned first, unsigned apart, unsigned c,
                          double *most)
{
    double units = 0;

    *most = 0;
    for (unsigned k = first; k < p->count; k += apart)
        *most = larger(*most, p->x_power[k] * p->y_power[k][c]);
    const double per_unit = 0x1p24 * reciprocal(*most);
    for (unsigned k = first; k < p->count; k += apart)
        units += trunc(p->x[k] * p->y[k][c] * per_unit);
    return units * (*most * 0x1p-24);
}

/* The sum of products, of which the largest has the power `most`, and the addend: downwards, on
 * grids that are 31 and 24 bits below the larger of both. */
INLINE float with_addend(double products, double most, double addend)
{
    const double both = larger(most, larger(power_of(addend), 0x1p-126));
    const double per_unit = reciprocal(both);
    const double low = floor(products * (0x1p31 * per_unit)) * 0x1p-31;
    const double high = floor(addend * (0x1p24 * per_unit)) * 0x1p-24;

    return (float)((low + high) * both) + 0.0f;
}

INLINE void step_cdna3(const struct products *p, float *sum, unsigned n)
{
    for (unsigned c = 0; c < n; c++) {
        double most;
        const double products = group_cdna3(p, 0, 1, c, &most);
        sum[c] = with_addend(products, most, (double)sum[c]);
    }
}

/* The candidates of eight-bit floats: two such sums, brought to a common grid of 24 bits, and an
 * addend that does not count where nothing of it is left. */
INLINE void step_cdna3_apart(const struct products *p, float *sum, unsigned n, bool cut)
{
    for (unsigned c = 0; c < n; c++) {
        const double addend = (double)sum[c];
        double part[2], power[2], products = 0;
        for (unsigned h = 0; h < 2; h++)
            part[h] = group_cdna3(p, h, 2, c, &power[h]);
        const double most = larger(power[0], power[1]), per_unit = 0x1p24 * reciprocal(most);
        for (unsigned h = 0; h < 2; h++)
            products += cut ? trunc(part[h] * per_unit) : floor(part[h] * per_unit);
        const bool lost = larger(power_of(addend), 0x1p-126) < most * 0x1p-25;
        sum[c] = with_addend(products * (most * 0x1p-24), most, lost ? 0 : addend);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void step(const struct adder *how, const struct products *p, float *sum, unsigned n)
{
    switch (how->model.kind) {
    case ADDER_RDNA3:
        step_rdna3(how, p, sum, n);
        break;
    case ADDER_RDNA4:
        if (how->model.group == 2)
            step_rdna4(how, p, sum, n, 2);
        else
            step_rdna4(how, p, sum, n, 4);
        break;
    case ADDER_CDNA2:
        step_cdna2(p, sum, n);
        break;
    case ADDER_CDNA3_APART:
        step_cdna3_apart(p, sum, n, false);
        break;
    case ADDER_CDNA3_APART_CUT:
        step_cdna3_apart(p, sum, n, true);
        break;
    default:
        step_cdna3(p, sum, n);
        break;
    }
}

/* A step of which some sums may be infinite or none: one column after the other. */
static __attribute__((noinline)) void step_apart(const struct adder *how, const struct products *p,
                                                 float *sum, unsigned n)
{
    for (unsigned c = 0; c < n; c++) {
        struct products own;
        if (special_column(how, p, c, &sum[c]))
            continue;
        memcpy(&own, p, offsetof(struct products, y));
        for (unsigned k = 0; k < p->count; k++) {
            own.y[k][0] = p->y[k][c];
            own.y_power[k][0] = p->y_power[k][c];
        }
        step(how, &own, &sum[c], 1);
    }
}

/* RDNA 3 has no denormals of bf16; CDNA 2 none at all, and loses their sign. */
INLINE float factor(const struct adder *how, float f)
{
    const bool rdna3 = how->model.kind == ADDER_RDNA3 && how->least[0] < 0x1p-100f;

    return fabsf(f) < how->least[0] && (rdna3 || how->model.kind == ADDER_CDNA2)
               ? copysignf(0, rdna3 ? f : 1)
               : f;
}

INLINE bool is_special(float f)
{
    return (bits_of_f32(f) & 0x7f800000u) == 0x7f800000u;
}

/* The k of factor n in the order in which they are added. */
INLINE unsigned ordered(const struct factors *f, unsigned n)
{
    return f->order ? f->order[n] : n;
}

/* Fills in the columns' side of a step: factors `first` to first + p->count - 1 of all n columns.
 * Returns whether any of them is an infinity or a NaN. */
INLINE bool take_columns(const struct adder *how, const struct factors *f, unsigned first,
                         double of_zero, struct products *p, unsigned n)
{
    const double least = (double)how->least[1];
    unsigned any = 0;

    for (unsigned k = 0; k < p->count; k++) {
        const float *const y = f->b + ordered(f, first + k) * f->b_width;
        for (unsigned c = 0; c < n; c++) {
            p->y[k][c] = (double)factor(how, y[c]);
            p->y_power[k][c] = factor_power(p->y[k][c], least, of_zero);
            any |= is_special(y[c]);
        }
    }
    return any;
}

/* Fills in the rows' side of that step: the factors of row r. Returns whether any of them is an
 * infinity or a NaN. */
INLINE bool take_row(const struct adder *how, const struct factors *f, unsigned first,
                     double of_zero, struct products *p, unsigned r)
{
    bool special = false;

    for (unsigned k = 0; k < p->count; k++) {
        const float x = factor(how, f->a[ordered(f, first + k) * f->a_width + r]);
        p->x[k] = (double)x;
        p->x_power[k] = factor_power(p->x[k], (double)how->least[0], of_zero);
        special |= is_special(x);
    }
    return special;
}

/* Whether a product is beyond f32, which those of f16 never are. */
INLINE bool is_beyond(const struct products *p, unsigned n)
{
    unsigned any = 0;

    for (unsigned k = 0; k < p->count; k++)
        for (unsigned c = 0; c < n; c++)
            any |= without_sign(p->x[k] * p->y[k][c]) >= 0x1p128;
    return any;
}

void add_rows(const struct adder *how, float *sum, size_t sum_width, unsigned rows, unsigned n,
              const struct factors *f)
{
    /* CDNA 3's zeros have an exponent, if a low one, which matters for products of tiny bf16 */
    const double of_zero = is_cdna3(how) ? 0x1p-126 : POWER_OF_ZERO;
    const bool cdna2 = how->model.kind == ADDER_CDNA2;
    const bool large = is_cdna3(how) && how->least[0] < 0x1p-100f;
    struct products p;

    for (unsigned r = 0; r < rows && cdna2; r++) {
        float *const of_row = sum + r * sum_width;
        for (unsigned c = 0; c < n; c++)
            of_row[c] = fabsf(of_row[c]) < 0x1p-126f ? 0 : of_row[c];
    }
    for (unsigned first = 0; first < f->count; first += p.count) {
        p.count = LEAST(how->model.step, f->count - first);
        const bool columns = take_columns(how, f, first, of_zero, &p, n);
        for (unsigned r = 0; r < rows; r++) {
            float *const of_row = sum + r * sum_width;
            bool special = columns | take_row(how, f, first, of_zero, &p, r);
            for (unsigned c = 0; c < n; c++)
                special |= is_special(of_row[c]);
            if (UNLIKELY((special || (large && is_beyond(&p, n))) && !cdna2))
                step_apart(how, &p, of_row, n);
            else
                step(how, &p, of_row, n);
        }
    }
}

float add_dot2(enum sim_adder kind, bool bf16, enum adder_result result, uint32_t a, uint32_t b,
               float c)
{
    const float least = bf16 ? 0x1p-126f : 0x1p-14f;
    const struct adder how = {{kind, 2, 2}, {least, least}, result};
    const float x[2] = {bf16 ? f32_of(a << 16) : LOW_F16(a),
                        bf16 ? f32_of(a & 0xffff0000u) : HIGH_F16(a)};
    const float y[2] = {bf16 ? f32_of(b << 16) : LOW_F16(b),
                        bf16 ? f32_of(b & 0xffff0000u) : HIGH_F16(b)};
    const unsigned mode = set_denormals(false);
    float sum = c;

    add_rows(&how, &sum, 1, 1, 1,
             &(struct factors){.a = x, .b = y, .a_width = 1, .b_width = 1, .count = 2});
    restore_denormals(mode);
    return sum;
}

/* All four products are one group. An invalid product gives the NaN of factors here. */
float add_dot4(uint32_t a, uint32_t b, float c, bool a_bf8, bool b_bf8)
{
    const struct adder how = {{ADDER_RDNA4, 4, 4}, {0, 0}, ADDER_F32};
    const double least[2] = {a_bf8 ? 0x1p-14 : 0x1p-6, b_bf8 ? 0x1p-14 : 0x1p-6};
    const unsigned mode = set_denormals(false);
    struct products p;
    float sum = c;

    p.count = 4;
    for (unsigned k = 0; k < 4; k++) {
        const uint32_t x = a >> 8 * k & 0xff, y = b >> 8 * k & 0xff;
        p.x[k] = (double)(a_bf8 ? bf8_to_f32(x) : fp8_to_f32(x));
        p.y[k][0] = (double)(b_bf8 ? bf8_to_f32(y) : fp8_to_f32(y));
        p.x_power[k] = factor_power(p.x[k], least[0], POWER_OF_ZERO);
        p.y_power[k][0] = factor_power(p.y[k][0], least[1], POWER_OF_ZERO);
    }
    if (!special_column(&how, &p, 0, &sum))
        step_rdna4(&how, &p, &sum, 1, 4);
    else if (bits_of_f32(sum) == NAN_OF_INVALID)
        sum = f32_of(NAN_OF_FACTORS);
    restore_denormals(mode);
    return sum;
}
