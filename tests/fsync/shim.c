/* Preloaded into a process, writes one line per fsync or fdatasync that has returned successfully:
 *
 *     fdatasync 1234567890123456 /data/ledger.db-wal
 *
 * the call, the time of its return in nanoseconds of CLOCK_MONOTONIC, and the file. The file to
 * write to is named by FSYNC_LOG; without it the shim is silent.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void note(const char *call, int fd)
{
    const char *log = getenv("FSYNC_LOG");
    if (log == NULL)
        return;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    char link[64], path[PATH_MAX], line[PATH_MAX + 64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length < 0 ? 0 : length] = '\0';
    int written = snprintf(line, sizeof line, "%s %lld %s\n", call,
                           (long long)now.tv_sec * 1000000000LL + now.tv_nsec, path);
    /* One write to a file opened for appending: lines of several threads do not mix. */
    int out = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        return;
    if (write(out, line, (size_t)written) != written)
        abort(); /* a count that is too low would make a test pass or fail for no reason */
    close(out);
}

static int passed_on(const char *call, int fd)
{
    int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, call);
    int outcome = real(fd);
    int error = errno;
    if (outcome == 0)
        note(call, fd);
    errno = error;
    return outcome;
}

int fsync(int fd) { return passed_on("fsync", fd); }

int fdatasync(int fd) { return passed_on("fdatasync", fd); }
