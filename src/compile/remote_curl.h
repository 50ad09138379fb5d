/* SPDX-License-Identifier: MIT */
/*
 * What the helper that fetches from a remote cache calls of libcurl, which it meets by dlopen: so
 * that quern is built without libcurl, and one that was built runs with whichever the machine has.
 * Names, numbers and layouts are those of curl/curl.h and curl/multi.h, which libcurl.so.4 has kept
 * since 2006 (https://curl.se/libcurl/abi.html); all are of 7.40 or older but PIPEWAIT (7.43),
 * AWS_SIGV4 (7.75) and CAINFO_BLOB (7.77).
 */
#ifndef QUERN_COMPILE_REMOTE_CURL_H
#define QUERN_COMPILE_REMOTE_CURL_H

#include <stddef.h>

typedef void CURL;
typedef void CURLM;
struct curl_slist;

/* enum CURLoption: the type's base and the option's number. */
enum {
    CURLOPT_WRITEDATA = 10000 + 1,
    CURLOPT_URL = 10000 + 2,
    CURLOPT_PROXY = 10000 + 4,
    CURLOPT_READDATA = 10000 + 9,
    CURLOPT_ERRORBUFFER = 10000 + 10,
    CURLOPT_WRITEFUNCTION = 20000 + 11,
    CURLOPT_READFUNCTION = 20000 + 12,
    CURLOPT_USERAGENT = 10000 + 18,
    CURLOPT_LOW_SPEED_LIMIT = 19,
    CURLOPT_LOW_SPEED_TIME = 20,
    CURLOPT_HTTPHEADER = 10000 + 23,
    CURLOPT_HEADERDATA = 10000 + 29,
    CURLOPT_UPLOAD = 46,
    CURLOPT_FOLLOWLOCATION = 52,
    CURLOPT_MAXREDIRS = 68,
    CURLOPT_HEADERFUNCTION = 20000 + 79,
    CURLOPT_HTTP_VERSION = 84,
    CURLOPT_NOSIGNAL = 99,
    CURLOPT_PRIVATE = 10000 + 103,
    CURLOPT_INFILESIZE_LARGE = 30000 + 115,
    CURLOPT_MAXFILESIZE_LARGE = 30000 + 117,
    CURLOPT_TIMEOUT_MS = 155,
    CURLOPT_CONNECTTIMEOUT_MS = 156,
    CURLOPT_SEEKFUNCTION = 20000 + 167,
    CURLOPT_SEEKDATA = 10000 + 168,
    CURLOPT_USERNAME = 10000 + 173,
    CURLOPT_PASSWORD = 10000 + 174,
    CURLOPT_PROTOCOLS = 181,
    CURLOPT_REDIR_PROTOCOLS = 182,
    CURLOPT_PIPEWAIT = 237,
    CURLOPT_AWS_SIGV4 = 10000 + 305,
    CURLOPT_CAINFO_BLOB = 40000 + 309
};
enum { CURLPROTO_HTTP = 1, CURLPROTO_HTTPS = 2 };
enum { CURL_HTTP_VERSION_2_0 = 3, CURL_HTTP_VERSION_2TLS = 4 };
#define CURL_ERROR_SIZE 256
enum { CURL_SEEKFUNC_OK = 0, CURL_SEEKFUNC_FAIL = 1 };

/* enum CURLINFO */
enum {
    CURLINFO_PRIVATE = 0x100000 + 21,
    CURLINFO_RESPONSE_CODE = 0x200000 + 2,
    CURLINFO_HTTP_VERSION = 0x200000 + 46
};

/* enum CURLMoption */
enum { CURLMOPT_PIPELINING = 3, CURLMOPT_MAX_HOST_CONNECTIONS = 7 };
#define CURLPIPE_MULTIPLEX 2L

#define CURL_GLOBAL_ALL 3L
/* CURLcode */
enum {
    CURLE_OK = 0,
    CURLE_COULDNT_RESOLVE_HOST = 6,
    CURLE_COULDNT_CONNECT = 7,
    CURLE_OPERATION_TIMEDOUT = 28,
    CURLE_SSL_CONNECT_ERROR = 35,
    CURLE_PEER_FAILED_VERIFICATION = 60
};
#define CURLM_OK     0
#define CURLMSG_DONE 1

/* What an option of type BLOB is given. Flags 0: the bytes outlive the transfer. */
struct curl_blob {
    void *data;
    size_t len;
    unsigned flags;
};

struct CURLMsg {
    int msg;
    CURL *easy_handle;
    union {
        void *whatever;
        int result;
    } data;
};

struct curl_waitfd {
    int fd;
    short events, revents;
};
#define CURL_WAIT_POLLIN 1

/* The functions: X(member, result, symbol behind "curl_", parameters). */
#define CURL_FUNCTIONS(X)                                                                          \
    X(global_init, int, "global_init", (long))                                                     \
    X(version, char *, "version", (void))                                                          \
    X(easy_init, CURL *, "easy_init", (void))                                                      \
    X(easy_setopt, int, "easy_setopt", (CURL *, int, ...))                                         \
    X(easy_getinfo, int, "easy_getinfo", (CURL *, int, ...))                                       \
    X(easy_cleanup, void, "easy_cleanup", (CURL *))                                                \
    X(slist_append, struct curl_slist *, "slist_append", (struct curl_slist *, const char *))      \
    X(slist_free_all, void, "slist_free_all", (struct curl_slist *))                               \
    X(easy_strerror, const char *, "easy_strerror", (int))                                         \
    X(multi_init, CURLM *, "multi_init", (void))                                                   \
    X(multi_setopt, int, "multi_setopt", (CURLM *, int, ...))                                      \
    X(multi_add_handle, int, "multi_add_handle", (CURLM *, CURL *))                                \
    X(multi_remove_handle, int, "multi_remove_handle", (CURLM *, CURL *))                          \
    X(multi_perform, int, "multi_perform", (CURLM *, int *))                                       \
    X(multi_wait, int, "multi_wait", (CURLM *, struct curl_waitfd[], unsigned, int, int *))        \
    X(multi_info_read, struct CURLMsg *, "multi_info_read", (CURLM *, int *))

#endif
