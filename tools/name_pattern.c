/* SPDX-License-Identifier: MIT */
#include "name_pattern.h"

#include <stdlib.h>
#include <string.h>

#define PATTERN_BYTES_MAX 4096 /* far more than any published one has */
#define DEPTH_MAX         64   /* of groups in one another */
#define MATCH_DEPTH_MAX   3000 /* some hundred kilobytes of the stack, and longer than any name */
#define REPEAT_MAX        1000
#define ENDLESS           (-1)
#define NONE              (-1) /* no node: the end of a sequence */

enum kind {
    SET,       /* one character out of a set */
    BEGIN,     /* ^ */
    END,       /* $: the end, or before a last line feed, of which names have none */
    EDGE,      /* \b */
    INSIDE,    /* \B */
    EITHER,    /* one sequence or the other; nothing is behind it in its own */
    REPEAT,    /* a sequence, min to max times */
    AHEAD,     /* a sequence that follows, and is not taken */
    NOT_AHEAD, /* one that does not follow */
};

struct node {
    enum kind kind;
    int next;        /* behind it in its sequence */
    int body, other; /* first nodes of sequences */
    int min, max;
    uint32_t set[8]; /* bit c % 32 of [c / 32] */
};

struct name_pattern {
    int first, count;
    struct node nodes[];
};

/* ---- Reading --------------------------------------------------------------------------------- */

struct reader {
    struct name_pattern *p;
    const char *at;
    const char *why; /* what is not understood, once something is not */
    int depth;
};

static int refuse(struct reader *r, const char *why)
{
    if (!r->why)
        r->why = why;
    return NONE;
}

/* Each character of a pattern makes at most one node, for which there is room. */
static int add_node(struct reader *r, enum kind kind)
{
    r->p->nodes[r->p->count] =
        (struct node){.kind = kind, .next = NONE, .body = NONE, .other = NONE};
    return r->p->count++;
}

static void set_add(uint32_t set[8], int c)
{
    set[(c & 255) / 32] |= UINT32_C(1) << (c & 31);
}

static bool set_has(const uint32_t set[8], char c)
{
    return set[(unsigned char)c / 32] >> ((unsigned char)c & 31) & 1;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_word(char c)
{
    return is_digit(c) || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

/* \d, \w, \s and what they leave out; names are ASCII. */
static bool set_add_class(uint32_t set[8], char letter)
{
    const char kind = letter | 0x20; /* the small letter */

    if (!letter || !strchr("dDwWsS", letter))
        return false;
    for (int c = 1; c < 128; c++) {
        const bool in = kind == 'd'   ? is_digit((char)c)
                        : kind == 'w' ? is_word((char)c)
                                      : c == ' ' || (c >= '\t' && c <= '\r');
        if (in == (letter == kind))
            set_add(set, c);
    }
    return true;
}

/* The character that stands behind a backslash; -1 for what means something else. */
static int escaped(char c)
{
    return !c || (is_word(c) && c != '_') ? -1 : (unsigned char)c;
}

/* A member of a class in brackets, which may be the first of a range; -1 if it is \d or the like,
 * or there is none. */
static int read_member(struct reader *r, uint32_t set[8])
{
    int c = (unsigned char)*r->at;

    if (!c)
        return refuse(r, "a [ without its ]");
    r->at++;
    if (c != '\\')
        return c;
    c = *r->at ? *r->at++ : 0;
    if (set_add_class(set, (char)c))
        return -1;
    const int meant = escaped((char)c);
    return meant < 0 ? refuse(r, "a backslash that it does not know in a class") : meant;
}

static int read_class(struct reader *r)
{
    const int at = add_node(r, SET);
    uint32_t *const set = r->p->nodes[at].set;
    const bool negated = *r->at == '^';

    r->at += negated;
    for (bool any = false; !r->why && (*r->at != ']' || !any); any = true) {
        const int low = read_member(r, set);
        int high = low;
        if (low >= 0 && r->at[0] == '-' && r->at[1] && r->at[1] != ']') {
            r->at++;
            high = read_member(r, set);
        }
        if (high < low)
            return refuse(r, "a range in a class that is none");
        for (int c = low; c >= 0 && c <= high; c++)
            set_add(set, c);
    }
    r->at += !r->why;
    for (int i = 0; negated && i < 8; i++)
        set[i] = ~set[i];
    return at;
}

static int read_escape(struct reader *r)
{
    static const struct {
        char letter;
        enum kind kind;
    } places[] = {{'b', EDGE}, {'B', INSIDE}, {'A', BEGIN}, {'Z', END}};
    const char c = *r->at;

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (c == places[i].letter) {
            r->at++;
            return add_node(r, places[i].kind);
        }
    const int at = add_node(r, SET), meant = escaped(c);
    if (meant >= 0)
        set_add(r->p->nodes[at].set, meant);
    else if (!set_add_class(r->p->nodes[at].set, c))
        return refuse(r, "a backslash that it does not know");
    r->at++;
    return at;
}

static int read_either(struct reader *r);

/* What is in parentheses: a group, of any kind, is its alternatives taken once. */
static int read_group(struct reader *r)
{
    enum kind kind = REPEAT;

    if (!strncmp(r->at, "?:", 2)) {
        r->at += 2;
    } else if (!strncmp(r->at, "?=", 2) || !strncmp(r->at, "?!", 2)) {
        kind = r->at[1] == '=' ? AHEAD : NOT_AHEAD;
        r->at += 2;
    } else if (!strncmp(r->at, "?P<", 3)) {
        r->at += 3 + strcspn(r->at + 3, ">)");
        if (*r->at++ != '>')
            return refuse(r, "a group whose name does not end");
    } else if (*r->at == '?') {
        return refuse(r, !strncmp(r->at, "?<", 2) ? "a look behind" : "a group of an unknown kind");
    }
    if (++r->depth > DEPTH_MAX)
        return refuse(r, "too many groups in one another");
    const int at = add_node(r, kind);
    r->p->nodes[at].min = r->p->nodes[at].max = 1;
    const int body = read_either(r);
    r->p->nodes[at].body = body;
    r->depth--;
    if (*r->at != ')')
        return refuse(r, "a ( without its )");
    r->at++;
    return at;
}

/* * + ? {2} {2,} {,3} {2,3}, each with a ? behind it or not. */
static bool read_counts(struct reader *r, int *min, int *max)
{
    char *end;
    const char c = *r->at;

    if (c == '*' || c == '+' || c == '?') {
        *min = c == '+';
        *max = c == '?' ? 1 : ENDLESS;
        r->at++;
    } else if (c == '{' && (is_digit(r->at[1]) || r->at[1] == ',')) {
        const long low = strtol(r->at + 1, &end, 10);
        const bool list = *end == ',', open = list && !is_digit(end[1]);
        const long high = !list ? low : open ? 0 : strtol(end + 1, &end, 10);
        end += open;
        if (*end != '}' || low > REPEAT_MAX || high > REPEAT_MAX || (!open && high < low)) {
            refuse(r, "counts in braces that it does not know");
            return false;
        }
        *min = (int)low;
        *max = open ? ENDLESS : (int)high;
        r->at = end + 1;
    } else {
        return false;
    }
    if (*r->at == '?')
        r->at++;
    else if (*r->at && strchr("*+{", *r->at))
        refuse(r, "a repeat of a repeat");
    return true;
}

static int read_one(struct reader *r)
{
    const char c = *r->at++;
    int min, max;

    const bool set = c && !strchr("([\\^$*+?", c);
    int at = c == '('    ? read_group(r)
             : c == '['  ? read_class(r)
             : c == '\\' ? read_escape(r)
                         : NONE;

    if (c == '^' || c == '$')
        at = add_node(r, c == '^' ? BEGIN : END);
    else if (strchr("*+?", c))
        return refuse(r, "a repeat of nothing");
    if (set) {
        at = add_node(r, SET);
        if (c == '.')
            memset(r->p->nodes[at].set, 0xff, sizeof r->p->nodes[at].set);
        else
            set_add(r->p->nodes[at].set, c);
    }
    if (r->why || !read_counts(r, &min, &max))
        return at;
    const int repeat = add_node(r, REPEAT);
    r->p->nodes[repeat].body = at;
    r->p->nodes[repeat].min = min;
    r->p->nodes[repeat].max = max;
    return repeat;
}

static int read_sequence(struct reader *r)
{
    int first = NONE, last = NONE;

    while (!r->why && *r->at && *r->at != '|' && *r->at != ')') {
        const int at = read_one(r);
        if (r->why)
            return NONE;
        if (last == NONE)
            first = at;
        else
            r->p->nodes[last].next = at;
        last = at;
    }
    return first;
}

/* Sequences with bars between them. */
static int read_either(struct reader *r)
{
    const int left = read_sequence(r);

    if (r->why || *r->at != '|')
        return left;
    r->at++;
    const int at = add_node(r, EITHER), right = read_either(r);
    r->p->nodes[at].body = left;
    r->p->nodes[at].other = right;
    return at;
}

struct name_pattern *name_pattern_compile(const char *text, const char **why)
{
    const size_t length = strlen(text);
    struct reader r = {.at = text};

    *why = length > PATTERN_BYTES_MAX ? "too many characters" : "no memory to be read";
    if (length > PATTERN_BYTES_MAX)
        return NULL;
    r.p = malloc(sizeof *r.p + (length + 1) * sizeof r.p->nodes[0]);
    if (!r.p)
        return NULL;
    r.p->count = 0;
    r.p->first = read_either(&r);
    if (!r.why && *r.at)
        refuse(&r, "a ) without its (");
    if (!r.why)
        return r.p;
    *why = r.why;
    free(r.p);
    return NULL;
}

void name_pattern_free(struct name_pattern *p)
{
    free(p);
}

/* ---- Matching -------------------------------------------------------------------------------- */

/* Repeats whose rounds are under way, from the inmost out. */
struct rounds {
    const struct rounds *outer;
    int node, count;  /* the REPEAT, and how many rounds this one makes */
    const char *from; /* where it began */
};

struct match {
    const struct name_pattern *p;
    const char *begin;
    uint64_t *budget;
    int depth; /* of match_from in itself */
};

static bool match_from(struct match *m, int node, const char *at, const struct rounds *r);

/* Rounds that take one character each, as those of .* do, which most patterns are made of: they
 * need no look at each of them. */
static bool match_characters(struct match *m, const struct node *n, const char *at,
                             const struct rounds *outer)
{
    const struct node *const body = &m->p->nodes[n->body];
    const struct node *const next = n->next == NONE ? NULL : &m->p->nodes[n->next];
    int count = 0;

    while (at[count] && (n->max == ENDLESS || count < n->max) && set_has(body->set, at[count]))
        count++;
    for (; count >= n->min; count--)
        if (!next || next->kind != SET || (at[count] && set_has(next->set, at[count])))
            if (match_from(m, n->next, at + count, outer))
                return true;
    return false;
}

/* As many more rounds as will do: their order makes no difference to whether any will. */
static bool match_repeat(struct match *m, int node, int count, const char *at,
                         const struct rounds *outer)
{
    const struct node *const n = &m->p->nodes[node];
    const struct rounds r = {outer, node, count + 1, at};

    if ((n->max == ENDLESS || count < n->max) && match_from(m, n->body, at, &r))
        return true;
    return count >= n->min && match_from(m, n->next, at, outer);
}

/* What follows the end of a sequence. */
static bool match_behind(struct match *m, const char *at, const struct rounds *r)
{
    if (!r)
        return true;
    /* a round that took nothing can be done as often as need be */
    if (at == r->from)
        return match_from(m, m->p->nodes[r->node].next, at, r->outer);
    return match_repeat(m, r->node, r->count, at, r->outer);
}

static bool match_place(struct match *m, enum kind kind, const char *at)
{
    const bool before = at > m->begin && is_word(at[-1]);

    if (kind == BEGIN)
        return at == m->begin;
    if (kind == END)
        return !*at;
    return (before != is_word(*at)) == (kind == EDGE);
}

static bool match_sequence(struct match *m, int node, const char *at, const struct rounds *r)
{
    while (node != NONE) {
        const struct node *const n = &m->p->nodes[node];
        if (!*m->budget)
            return false;
        --*m->budget;
        node = n->next;
        switch (n->kind) {
        case SET:
            if (!*at || !set_has(n->set, *at))
                return false;
            at++;
            break;
        case EITHER:
            if (match_from(m, n->body, at, r))
                return true;
            node = n->other;
            break;
        case REPEAT:
            if (n->body != NONE && m->p->nodes[n->body].kind == SET &&
                m->p->nodes[n->body].next == NONE)
                return match_characters(m, n, at, r);
            return match_repeat(m, (int)(n - m->p->nodes), 0, at, r);
        case AHEAD:
        case NOT_AHEAD:
            if (match_from(m, n->body, at, NULL) != (n->kind == AHEAD))
                return false;
            break;
        default:
            if (!match_place(m, n->kind, at))
                return false;
        }
    }
    return match_behind(m, at, r);
}

static bool match_from(struct match *m, int node, const char *at, const struct rounds *r)
{
    if (m->depth == MATCH_DEPTH_MAX) {
        *m->budget = 0;
        return false;
    }
    m->depth++;
    const bool found = match_sequence(m, node, at, r);
    m->depth--;
    return found;
}

bool name_pattern_match(const struct name_pattern *p, const char *name, uint64_t *budget)
{
    return match_from(&(struct match){p, name, budget, 0}, p->first, name, NULL) && *budget;
}
