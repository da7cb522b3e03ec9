/* Stops a process, or fails it, at the n-th operation that changes a file below one folder.
 *
 * Loaded with LD_PRELOAD, so that what Python, Arrow and SQLite do in C passes through here as well as what Python code does: an
 * audit hook sees neither write() nor SQLite. Counting begins with arm(); a process that was not armed is left alone. Operations
 * are counted over all threads, in the order in which they come.
 *
 * With error 0 the process kills itself (SIGKILL) instead of the n-th operation; where that is a write, half of the bytes are
 * written first, since a killed process may leave a torn write. With another error the n-th and every later operation that needs
 * space or the right to write fails with it, as on a disk that is full (ENOSPC) or read-only (EROFS) from then on.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { FREES, GROWS }; /* a full disk still lets files be deleted, renamed and flushed; a read-only one lets nothing */

static char below[PATH_MAX];
static size_t below_length;
static atomic_long counted;
static long stop_at;
static int fail_with;

void arm(const char *folder, long nth, int error) {
    below_length = strlen(folder);
    memcpy(below, folder, below_length + 1);
    stop_at = nth;
    fail_with = error;
    atomic_store(&counted, 0);
}

long operations(void) { return atomic_load(&counted); }

void disarm(void) { below_length = 0; }

static int is_below(const char *path) {
    return strncmp(path, below, below_length) == 0 && (path[below_length] == '/' || path[below_length] == 0);
}

static int is_handle_below(int handle) {
    char link[64], path[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    return is_below(path);
}

static int is_path_below(int folder, const char *path) {
    char start[PATH_MAX];
    if (path[0] == '/') return is_below(path);
    if (folder != AT_FDCWD) return is_handle_below(folder);
    return getcwd(start, sizeof start) && is_below(start);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

/* 0: go on; 1: this is the operation to die at (the caller may do half of it first); -1: it fails, errno is set */
static int met(enum kind kind) {
    long at = atomic_fetch_add(&counted, 1) + 1;
    if (stop_at == 0 || at < stop_at) return 0;
    if (fail_with == 0) return at == stop_at;
    if (kind == FREES && fail_with == ENOSPC) return 0;
    errno = fail_with;
    return -1;
}

#define NEXT(type, name, ...) \
    static type (*next)(__VA_ARGS__); \
    if (!next) next = (type(*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

#define GUARD(kind, test, failure) \
    if (below_length && (test)) switch (met(kind)) { case 1: die(); break; case -1: return failure; }

#define WRITES(flags) (((flags) & O_ACCMODE) != O_RDONLY || ((flags) & (O_CREAT | O_TRUNC)))

#define OPEN(name) \
    int name(const char *path, int flags, ...) { \
        NEXT(int, #name, const char *, int, ...); \
        va_list rest; va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest); \
        GUARD(GROWS, WRITES(flags) && is_path_below(AT_FDCWD, path), -1) \
        return next(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name) \
    int name(int folder, const char *path, int flags, ...) { \
        NEXT(int, #name, int, const char *, int, ...); \
        va_list rest; va_start(rest, flags); \
        mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; va_end(rest); \
        GUARD(GROWS, WRITES(flags) && is_path_below(folder, path), -1) \
        return next(folder, path, flags, mode); \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name) \
    FILE *name(const char *path, const char *mode) { \
        NEXT(FILE *, #name, const char *, const char *); \
        GUARD(GROWS, strpbrk(mode, "wa+") && is_path_below(AT_FDCWD, path), NULL) \
        return next(path, mode); \
    }
FOPEN(fopen)
FOPEN(fopen64)

ssize_t write(int handle, const void *bytes, size_t size) {
    NEXT(ssize_t, "write", int, const void *, size_t);
    if (below_length && is_handle_below(handle)) switch (met(GROWS)) {
        case 1: if (next(handle, bytes, size / 2)) {} die(); break;
        case -1: return -1;
    }
    return next(handle, bytes, size);
}

#define PWRITE(name, offset_type) \
    ssize_t name(int handle, const void *bytes, size_t size, offset_type offset) { \
        NEXT(ssize_t, #name, int, const void *, size_t, offset_type); \
        if (below_length && is_handle_below(handle)) switch (met(GROWS)) { \
            case 1: if (next(handle, bytes, size / 2, offset)) {} die(); break; \
            case -1: return -1; \
        } \
        return next(handle, bytes, size, offset); \
    }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define CALL(type, name, kind, test, failure, parameters, ...) \
    type name parameters { \
        static type (*next) parameters; \
        if (!next) next = (type(*) parameters)dlsym(RTLD_NEXT, #name); \
        GUARD(kind, test, failure) \
        return next(__VA_ARGS__); \
    }
CALL(ssize_t, writev, GROWS, is_handle_below(handle), -1, (int handle, const struct iovec *parts, int count), handle, parts, count)
CALL(ssize_t, sendfile, GROWS, is_handle_below(to), -1, (int to, int from, off_t *at, size_t size), to, from, at, size)
CALL(ssize_t, sendfile64, GROWS, is_handle_below(to), -1, (int to, int from, off64_t *at, size_t size), to, from, at, size)
CALL(ssize_t, copy_file_range, GROWS, is_handle_below(to), -1,
     (int from, off64_t *from_at, int to, off64_t *to_at, size_t size, unsigned flags), from, from_at, to, to_at, size, flags)
CALL(int, fsync, FREES, is_handle_below(handle), -1, (int handle), handle)
CALL(int, fdatasync, FREES, is_handle_below(handle), -1, (int handle), handle)
CALL(int, ftruncate, FREES, is_handle_below(handle), -1, (int handle, off_t size), handle, size)
CALL(int, ftruncate64, FREES, is_handle_below(handle), -1, (int handle, off64_t size), handle, size)
CALL(int, posix_fallocate, GROWS, is_handle_below(handle), errno, (int handle, off_t at, off_t size), handle, at, size)
CALL(int, rename, FREES, is_path_below(AT_FDCWD, to), -1, (const char *from, const char *to), from, to)
CALL(int, renameat, FREES, is_path_below(to_folder, to), -1,
     (int from_folder, const char *from, int to_folder, const char *to), from_folder, from, to_folder, to)
CALL(int, unlink, FREES, is_path_below(AT_FDCWD, path), -1, (const char *path), path)
CALL(int, unlinkat, FREES, is_path_below(folder, path), -1, (int folder, const char *path, int flags), folder, path, flags)
CALL(int, rmdir, FREES, is_path_below(AT_FDCWD, path), -1, (const char *path), path)
CALL(int, mkdir, GROWS, is_path_below(AT_FDCWD, path), -1, (const char *path, mode_t mode), path, mode)
CALL(int, mkdirat, GROWS, is_path_below(folder, path), -1, (int folder, const char *path, mode_t mode), folder, path, mode)
CALL(int, symlink, GROWS, is_path_below(AT_FDCWD, path), -1, (const char *to, const char *path), to, path)
CALL(int, symlinkat, GROWS, is_path_below(folder, path), -1, (const char *to, int folder, const char *path), to, folder, path)
CALL(int, link, GROWS, is_path_below(AT_FDCWD, path), -1, (const char *from, const char *path), from, path)
