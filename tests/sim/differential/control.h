/* SPDX-License-Identifier: MIT */
/*
 * Control flow that differs from lane to lane: loops with trip counts of the lane's own, early
 * returns, switches, state machines, local arrays indexed at run time, calls.
 *
 * This file is long because it is a list of programs, each of which is run on the CPU and on the
 * software GPU.
 */

FUNCTION2(u32, sum_to_count, u32, a, small, n)
{
    u32 sum = 0;
    for (u32 i = 0; i < n; i++)
        sum += a ^ i * i;
    return sum;
}
FUNCTION1(u32, collatz_steps, u32, a)
{
    u32 x = a % 1000 + 1, steps = 0;
    while (x != 1) {
        x = x & 1 ? 3 * x + 1 : x / 2;
        steps++;
    }
    return steps;
}
FUNCTION2(u32, greatest_common_divisor, u32, a, u32, b)
{
    while (b) {
        const u32 r = a % b;
        a = b;
        b = r;
    }
    return a;
}
FUNCTION2(u64, binary_gcd, u64, a, u64, b)
{
    u32 shift = 0;
    if (!a || !b)
        return a | b;
    while (!((a | b) & 1))
        a >>= 1, b >>= 1, shift++;
    while (!(a & 1))
        a >>= 1;
    do {
        while (!(b & 1))
            b >>= 1;
        if (a > b) {
            const u64 t = a;
            a = b;
            b = t;
        }
        b -= a;
    } while (b);
    return a << shift;
}
FUNCTION2(u32, nested_loops, small, n, small, m)
{
    u32 sum = 0;
    for (u32 i = 0; i < n; i++)
        for (u32 j = i; j < m; j++)
            sum = sum * 3 + i * j;
    return sum;
}
FUNCTION3(u32, triple_nest_with_exits, small, n, small, m, u32, a)
{
    u32 sum = 0;
    for (u32 i = 0; i < (n & 7); i++) {
        for (u32 j = 0; j < (m & 7); j++) {
            if ((a >> (i + j) & 3) == 3)
                continue;
            for (u32 k = 0; k < 4; k++) {
                if ((a >> ((k + 4 * j) & 31) & 1) == 0)
                    break;
                sum += i + 8 * j + 64 * k;
            }
            if (sum > 3000)
                return sum | 0x80000000u;
        }
        a = a >> 1 | a << 31;
    }
    return sum;
}
FUNCTION2(u32, early_returns, u32, a, u32, b)
{
    if (a == b)
        return 1;
    if ((a & 0xff) == 0)
        return b ? a / b : 2;
    if (a > b) {
        if (b & 1)
            return a - b;
        a ^= b;
    }
    for (u32 i = 0; i < 32; i++)
        if (a >> i & 1)
            return i + 100;
    return 3;
}
FUNCTION3(u32, dense_switch, u32, a, u32, b, u32, c)
{
    switch (a & 7) {
    case 0:
        return b + c;
    case 1:
        return b - c;
    case 2:
        return b * c;
    case 3:
        return b & c;
    case 4:
        b ^= c; /* fall through */
        __attribute__((fallthrough));
    case 5:
        return b | 1;
    case 6:
        return b >> (c & 31);
    default:
        return ~b;
    }
}
FUNCTION2(u32, sparse_switch, u32, a, u32, b)
{
    switch (a % 1000) {
    case 3:
    case 17:
        return b + 1;
    case 100:
        return b * 2;
    case 250 ... 260:
        return b ^ 0x55;
    case 999:
        return 0;
    default:
        return a < 500 ? b - a : a;
    }
}
FUNCTION1(u32, switch_to_table, u32, a)
{
    switch (a % 9) {
    case 0:
        return 31;
    case 1:
        return 41;
    case 2:
        return 59;
    case 3:
        return 26;
    case 4:
        return 53;
    case 5:
        return 58;
    case 6:
        return 97;
    default:
        return 93;
    }
}
FUNCTION3(u32, chain_of_conditions, u32, a, u32, b, u32, c)
{
    u32 r = 0;
    if (a < b)
        r += 1;
    else if (b < c)
        r += 2;
    else if (a & c & 1)
        r += 4;
    if ((i32)a < 0 && ((i32)b > 0 || (c & 6) == 6))
        r += 8;
    if (!((a ^ b) & 0x10) != !((b ^ c) & 0x20))
        r += a >> 16;
    return r;
}
FUNCTION2(u32, bits_by_state_machine, u32, a, u32, b)
{
    u32 state = 0, runs = 0, longest = 0, length = 0;
    for (u32 i = 0; i < 32; i++) {
        const u32 bit = a >> i & 1;
        switch (state) {
        case 0:
            if (bit)
                state = 1, length = 1;
            break;
        case 1:
            if (bit)
                length++;
            else
                state = (b >> i & 1) ? 2 : 0, runs++;
            break;
        default:
            if (!bit)
                state = 0;
            break;
        }
        if (length > longest)
            longest = length;
    }
    return state | runs << 8 | longest << 16;
}
FUNCTION1(u32, integer_square_root, u32, a)
{
    u32 r = 0, bit = 1u << 30;
    while (bit > a)
        bit >>= 2;
    while (bit) {
        if (a >= r + bit) {
            a -= r + bit;
            r = (r >> 1) + bit;
        } else {
            r >>= 1;
        }
        bit >>= 2;
    }
    return r;
}
FUNCTION1(u32, is_prime, u32, a)
{
    const u32 n = a % 5000;
    if (n < 2)
        return 0;
    for (u32 d = 2; d * d <= n; d++)
        if (n % d == 0)
            return d;
    return 1;
}
FUNCTION1(u32, crc32_of_word, u32, a)
{
    u32 crc = ~a;
    for (u32 i = 0; i < 32; i++)
        crc = crc & 1 ? crc >> 1 ^ 0xedb88320u : crc >> 1;
    return ~crc;
}
FUNCTION2(u32, modular_power, u32, a, u32, n)
{
    const u32 m = 65521;
    u32 r = 1, x = a % m;
    for (n &= 0xffff; n; n >>= 1) {
        if (n & 1)
            r = (u32)((u64)r * x % m);
        x = (u32)((u64)x * x % m);
    }
    return r;
}
FUNCTION1(u32, fibonacci, small, n)
{
    u32 a = 0, b = 1;
    while (n--) {
        const u32 t = a + b;
        a = b;
        b = t;
    }
    return a;
}
FUNCTION1(u32, date_of_day, u32, a)
{
    const u32 z = a % 3652059 + 60, era = z / 146097, doe = z - era * 146097;
    const u32 yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const u32 doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
    const u32 d = doy - (153 * mp + 2) / 5 + 1, m = mp < 10 ? mp + 3 : mp - 9;
    return (yoe + era * 400 + (m <= 2)) << 9 | m << 5 | d;
}
FUNCTION1(u32, decimal_digits_packed, u32, a)
{
    u32 bcd = 0;
    for (u32 i = 0; i < 8; i++) {
        bcd |= a % 10 << 4 * i;
        a /= 10;
        if (!a)
            break;
    }
    return bcd;
}
FUNCTION1(f32, logarithm_by_loop, f32, a)
{
    f32 sum = 0;
    if (!(a > 0) || a > 0x1p100f)
        return -1.0f;
    while (a >= 2.0f)
        a *= 0.5f, sum += 1.0f;
    while (a < 1.0f)
        a *= 2.0f, sum -= 1.0f;
    for (f32 bit = 0.5f; bit > 0x1p-12f; bit *= 0.5f) {
        a *= a;
        if (a >= 2.0f)
            a *= 0.5f, sum += bit;
    }
    return sum;
}
FUNCTION2(u32, mandelbrot_steps, plain, a, plain, b)
{
    f32 x = 0, y = 0;
    u32 n = 0;
    const f32 p = a * 0x1p-4f, q = b * 0x1p-4f;
    while (n < 40 && x * x + y * y < 4.0f) {
        const f32 t = x * x - y * y + p;
        y = 2.0f * x * y + q;
        x = t;
        n++;
    }
    return n;
}
FUNCTION2(f64, continued_fraction, small, n, nonzero, a)
{
    f64 x = a & 0xff;
    for (u32 i = 0; i < n; i++)
        x = 1.0 + 1.0 / (x + (a >> (i & 31) & 1));
    return x;
}
FUNCTION2(u32, loop_with_two_exits, u32, a, u32, b)
{
    for (u32 i = 0;; i++) {
        if (a & 1u << (i & 31))
            return i;
        if (i > 20) {
            b += i;
            break;
        }
        a += b | 1;
    }
    return b | 0x8000;
}
FUNCTION2(u32, do_while_with_continue, u32, a, small, n)
{
    u32 i = 0, sum = 0;
    do {
        i++;
        if ((a >> (i & 31) & 1) == 0)
            continue;
        sum += i * a;
    } while (i < n);
    return sum;
}
FUNCTION4(u32, logic_of_conditions, u32, a, u32, b, u32, c, u32, d)
{
    const int p = a < b, q = (c & 4) != 0, r = d > 100, s = (a ^ d) >> 31;
    u32 x = (u32)((p && q) || (r && !s));
    x |= (u32)((p ^ q) & (r | s)) << 1;
    x |= (u32)(p ? q ? r : s : q ? s : r) << 2;
    return x;
}

/* ---- Local arrays, indexed at run time ------------------------------------------------------- */

FUNCTION3(u32, indexed_array, u32, a, u32, b, u32, i)
{
    u32 x[16];
    for (u32 k = 0; k < 16; k++)
        x[k] = a * k ^ b;
    x[i & 15] += 12345;
    x[i >> 4 & 15] ^= x[i >> 8 & 15];
    return x[i >> 12 & 15] + x[3];
}
FUNCTION2(u32, sorted_array, u64, a, small, n)
{
    u8 x[16];
    for (u32 k = 0; k < 16; k++)
        x[k] = (u8)(a >> 4 * k & 15);
    for (u32 k = 1; k < 16; k++) {
        const u8 v = x[k];
        u32 j = k;
        for (; j > 0 && x[j - 1] > v; j--)
            x[j] = x[j - 1];
        x[j] = v;
    }
    return (u32)x[n & 15] << 16 | (u32)x[7] << 8 | x[15];
}
FUNCTION2(u32, histogram_of_nibbles, u64, a, u32, i)
{
    u32 count[16] = {0};
    for (u32 k = 0; k < 16; k++)
        count[a >> 4 * k & 15]++;
    return count[i & 15] | count[i >> 4 & 15] << 8 | count[0] << 16;
}
FUNCTION3(u64, array_of_u64, u64, a, u64, b, u32, i)
{
    u64 x[8];
    for (u32 k = 0; k < 8; k++)
        x[k] = a * (k + 1) + b;
    x[i & 7] = x[i >> 3 & 7] ^ x[i >> 6 & 7];
    return x[i >> 9 & 7] + x[(i & 7) ^ 1];
}
FUNCTION3(u64, array_of_halves, u32, a, u16, b, u32, i)
{
    u16 x[8];
    for (u32 k = 0; k < 8; k++)
        x[k] = (u16)(a >> k);
    x[i & 7] = b;
    u64 sum = 0;
    for (u32 k = 0; k < 8; k++)
        sum = sum * 65599 + x[k];
    return sum;
}
FUNCTION3(u32, array_of_bytes, u32, a, u32, b, u32, i)
{
    u8 x[16];
    for (u32 k = 0; k < 16; k++)
        x[k] = (u8)(a * k + b);
    x[i & 15] ^= 0x55;
    u32 sum = x[i >> 4 & 15];
    for (u32 k = 0; k < 16; k++)
        sum = sum * 33 + x[k];
    return sum;
}
FUNCTION1(u32, code_by_thresholds, plain, a)
{
    u32 code = 0;
    code += a > -0.8f;
    code += a > -0.6f;
    code += a > -0.33f;
    code += a > 0.0f;
    code += a > 0.2f;
    return code + (a > 0.9f);
}
FUNCTION2(f32, array_of_f32, plain, a, u32, i)
{
    f32 x[12];
    x[0] = a;
    for (u32 k = 1; k < 12; k++)
        x[k] = x[k - 1] * 1.25f + 1.0f;
    return x[i % 12] - x[(i >> 8) % 12];
}
FUNCTION2(u32, explicit_stack, u32, a, u32, b)
{
    u32 stack[24], depth = 0, sum = 0;
    stack[depth++] = a & 0xfff;
    while (depth) {
        const u32 x = stack[--depth];
        sum = sum * 31 + x;
        if (x > 64 && depth < 22) {
            stack[depth++] = x / 2 - (b & 1);
            if (x & 2)
                stack[depth++] = x / 3;
        }
    }
    return sum;
}
FUNCTION2(u32, edit_distance, u32, a, u32, b)
{
    u32 row[9];
    for (u32 j = 0; j <= 8; j++)
        row[j] = j;
    for (u32 i = 1; i <= 8; i++) {
        u32 diagonal = row[0];
        row[0] = i;
        for (u32 j = 1; j <= 8; j++) {
            const u32 same = (a >> 4 * (i - 1) & 15) == (b >> 4 * (j - 1) & 15);
            u32 best = diagonal + !same;
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[8];
}
FUNCTION2(u32, small_hash_table, u64, a, u32, key)
{
    u8 slots[32];
    for (u32 k = 0; k < 32; k++)
        slots[k] = 0xff;
    for (u32 k = 0; k < 16; k++) {
        const u32 v = (u32)(a >> 4 * k & 15);
        u32 at = v * 7 & 31;
        while (slots[at] != 0xff)
            at = (at + 1) & 31;
        slots[at] = (u8)(v << 4 | k);
    }
    u32 at = (key & 15) * 7 & 31, steps = 0;
    while (slots[at] != 0xff && slots[at] >> 4 != (key & 15))
        at = (at + 1) & 31, steps++;
    return (u32)slots[at] << 8 | steps;
}
FUNCTION2(u32, constant_table, u32, a, u32, b)
{
    CONST u32 table[16] = {0,          0x3f800000, 0x40000000, 0x40400000, 0x40800000, 0x40a00000,
                           0x40c00000, 0x40e00000, 7,          77,         777,        7777,
                           77777,      0x80000000, 0xfffffffe, 0x12345678};
    return table[a & 15] ^ table[b % 13] << 1;
}
FUNCTION2(u32, bytes_of_words, u32, a, u32, i)
{
    union {
        u32 word[4];
        u8 byte[16];
        u16 half[8];
    } x;
    for (u32 k = 0; k < 4; k++)
        x.word[k] = a + k * 0x01020304;
    x.byte[i & 15] = (u8)(i >> 8);
    x.half[i >> 4 & 7] ^= 0x8001;
    return x.word[i >> 16 & 3] + x.byte[i >> 20 & 15];
}
FUNCTION2(u32, matrix_power, u32, a, small, n)
{
    u32 m[4] = {a & 0xff, 1, 1, 0}, r[4] = {1, 0, 0, 1};
    for (; n; n >>= 1) {
        u32 t[4];
        if (n & 1) {
            for (u32 i = 0; i < 4; i++)
                t[i] = r[i & 2] * m[i & 1] + r[(i & 2) + 1] * m[(i & 1) + 2];
            for (u32 i = 0; i < 4; i++)
                r[i] = t[i];
        }
        for (u32 i = 0; i < 4; i++)
            t[i] = m[i & 2] * m[i & 1] + m[(i & 2) + 1] * m[(i & 1) + 2];
        for (u32 i = 0; i < 4; i++)
            m[i] = t[i];
    }
    return r[1];
}

/* ---- Calls ----------------------------------------------------------------------------------- */

CALLED u32 called_mix(u32 a, u32 b)
{
    a ^= b * 0x9e3779b9;
    return a << 11 | a >> 21;
}
CALLED f64 called_fraction(f64 a, u32 n)
{
    while (n--)
        a = 1.0 / (1.0 + a);
    return a;
}
CALLED void called_with_pointer(u32 *x, u32 n)
{
    for (u32 i = 0; i < n; i++)
        x[i] = called_mix(x[i], x[(i + 1) & 7]);
}
FUNCTION2(u32, call, u32, a, u32, b) { return called_mix(a, b) + called_mix(b, a); }
FUNCTION2(u32, call_when_odd, u32, a, u32, b) { return a & 1 ? called_mix(a, b) : b; }
FUNCTION2(f64, call_in_loop, plain, a, small, n)
{
    f64 sum = 0;
    for (u32 i = 0; i < (n & 3); i++)
        sum += called_fraction(__builtin_fabs((f64)a) + i, n);
    return sum;
}
FUNCTION3(u32, call_with_local_array, u32, a, u32, b, small, n)
{
    u32 x[8];
    for (u32 i = 0; i < 8; i++)
        x[i] = a + i * b;
    called_with_pointer(x, n & 7);
    return x[b & 7] ^ x[0];
}
