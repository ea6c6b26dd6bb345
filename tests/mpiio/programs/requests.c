/* Counts the requests at one file, for tests: preloaded, it stands before the C library. At the end of a process it appends a line to
 * the file that FB_REQUESTS names, on the file FB_REQUESTS_OF: write requests, the same cut at stripes of 1 MiB, read requests, the same
 * cut, and bytes read. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Copies: other threads ask while a program may be changing its environment. */
static char of[4096], to[4096];

__attribute__((constructor)) static void begin(void) {
    const char *asked_of = getenv("FB_REQUESTS_OF"), *asked_to = getenv("FB_REQUESTS");
    if (asked_of) snprintf(of, sizeof of, "%s", asked_of);
    if (asked_to) snprintf(to, sizeof to, "%s", asked_to);
}

static long long writes, striped_writes, reads, striped_reads, bytes_read;

static int is_counted(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t len = *of ? readlink(link, path, sizeof path - 1) : -1;
    if (len < 0) return 0;
    path[len] = 0;
    return !strcmp(path, of);
}

static long long stripes(long long offset, long long len) { return (offset + len - 1) / (1 << 20) - offset / (1 << 20) + 1; }

static void count(int fd, long long offset, long long len) {
    if (len <= 0 || !is_counted(fd)) return;
    __sync_fetch_and_add(&writes, 1);
    __sync_fetch_and_add(&striped_writes, stripes(offset, len));
}

static void count_read(int fd, long long offset, long long len) {
    if (len <= 0 || !is_counted(fd)) return;
    __sync_fetch_and_add(&reads, 1);
    __sync_fetch_and_add(&striped_reads, stripes(offset, len));
    __sync_fetch_and_add(&bytes_read, len);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t pwrite64(int fd, const void *buf, size_t n, off64_t offset) {
    ssize_t done = NEXT(pwrite64)(fd, buf, n, offset);
    count(fd, offset, done);
    return done;
}
ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset) {
    ssize_t done = NEXT(pwrite)(fd, buf, n, offset);
    count(fd, offset, done);
    return done;
}
ssize_t write(int fd, const void *buf, size_t n) {
    ssize_t done = NEXT(write)(fd, buf, n);
    count(fd, lseek(fd, 0, SEEK_CUR) - done, done);
    return done;
}
ssize_t pwritev(int fd, const struct iovec *rows, int n, off_t offset) {
    ssize_t done = NEXT(pwritev)(fd, rows, n, offset);
    count(fd, offset, done);
    return done;
}

ssize_t pread64(int fd, void *buf, size_t n, off64_t offset) {
    ssize_t done = NEXT(pread64)(fd, buf, n, offset);
    count_read(fd, offset, done);
    return done;
}
ssize_t pread(int fd, void *buf, size_t n, off_t offset) {
    ssize_t done = NEXT(pread)(fd, buf, n, offset);
    count_read(fd, offset, done);
    return done;
}
ssize_t read(int fd, void *buf, size_t n) {
    ssize_t done = NEXT(read)(fd, buf, n);
    if (done > 0 && is_counted(fd)) count_read(fd, lseek(fd, 0, SEEK_CUR) - done, done);
    return done;
}

__attribute__((destructor)) static void tell(void) {
    if (!*to || (!writes && !reads)) return;
    char line[128];
    int len = snprintf(line, sizeof line, "%lld %lld %lld %lld %lld\n", writes, striped_writes, reads, striped_reads, bytes_read);
    int fd = open(to, O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || NEXT(write)(fd, line, len) != len) abort();
    close(fd);
}
