// LD_PRELOAD: a process whose wall clock is shifted, and whose calls on the files of one directory fail, as a file says.
//
// FAILING_CONTROL names a file of seven 64-bit numbers, which is shared memory; FAILING_DIRECTORY the directory.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { OPEN = 1, READ, WRITE, SYNC, RENAME, SIZE, SPACE };

struct control { long long shift_s, kind, error, countdown, left, hits, seen; };

static struct control none;
static struct control *control = &none;
static const char *directory;
static size_t directory_length;

#define REAL(name) static __typeof__(name) *real; if (!real) real = dlsym(RTLD_NEXT, #name)

__attribute__((constructor)) static void attach(void) {
  const char *path = getenv("FAILING_CONTROL");
  directory = getenv("FAILING_DIRECTORY");
  if (!path || !directory) return;
  directory_length = strlen(directory);
  int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  void *found = mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (found != MAP_FAILED) control = found;
}

static int fails(void) {
  __atomic_add_fetch(&control->seen, 1, __ATOMIC_SEQ_CST);
  if (__atomic_sub_fetch(&control->countdown, 1, __ATOMIC_SEQ_CST) > 0) return 0;
  if (__atomic_sub_fetch(&control->left, 1, __ATOMIC_SEQ_CST) < 0) return 0;
  __atomic_add_fetch(&control->hits, 1, __ATOMIC_SEQ_CST);
  errno = (int)control->error;
  return 1;
}

static int path_fails(int kind, const char *path) {
  if (control->kind != kind || !path || strncmp(path, directory, directory_length)) return 0;
  if (path[directory_length] && path[directory_length] != '/') return 0;
  return fails();
}

static int file_fails(int kind, int fd) {
  if (control->kind != kind) return 0;
  char link[64], path[1024];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return path_fails(kind, path);
}

// --- the store's calls -----------------------------------------------------------------------------------------------

#define OPENS(name, first, before, path) \
  int name(first const char *path, int flags, ...) { \
    va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
    REAL(name); \
    return path_fails(OPEN, path) ? -1 : real(before path, flags, mode); \
  }
#define COMMA ,
OPENS(open, , , path)
OPENS(open64, , , path)
OPENS(openat, int at COMMA, at COMMA, path)
OPENS(openat64, int at COMMA, at COMMA, path)

#define FILE_CALL(kind, type, name, declared, given) \
  type name declared { REAL(name); return file_fails(kind, fd) ? -1 : real given; }
FILE_CALL(READ, ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
FILE_CALL(READ, ssize_t, pread, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
FILE_CALL(READ, ssize_t, pread64, (int fd, void *to, size_t n, off64_t at), (fd, to, n, at))
FILE_CALL(READ, ssize_t, preadv, (int fd, const struct iovec *to, int n, off_t at), (fd, to, n, at))
FILE_CALL(READ, ssize_t, preadv64, (int fd, const struct iovec *to, int n, off64_t at), (fd, to, n, at))
FILE_CALL(WRITE, ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
FILE_CALL(WRITE, ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n))
FILE_CALL(WRITE, ssize_t, pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
FILE_CALL(WRITE, ssize_t, pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
FILE_CALL(WRITE, ssize_t, pwritev, (int fd, const struct iovec *from, int n, off_t at), (fd, from, n, at))
FILE_CALL(WRITE, ssize_t, pwritev64, (int fd, const struct iovec *from, int n, off64_t at), (fd, from, n, at))
FILE_CALL(SYNC, int, fsync, (int fd), (fd))
FILE_CALL(SYNC, int, fdatasync, (int fd), (fd))
FILE_CALL(SYNC, int, sync_file_range, (int fd, off64_t at, off64_t n, unsigned how), (fd, at, n, how))
FILE_CALL(SIZE, int, ftruncate, (int fd, off_t n), (fd, n))
FILE_CALL(SIZE, int, ftruncate64, (int fd, off64_t n), (fd, n))
FILE_CALL(SIZE, int, fallocate, (int fd, int how, off_t at, off_t n), (fd, how, at, n))
FILE_CALL(SIZE, int, fallocate64, (int fd, int how, off64_t at, off64_t n), (fd, how, at, n))

int rename(const char *path, const char *to) { REAL(rename); return path_fails(RENAME, path) ? -1 : real(path, to); }
int statvfs(const char *path, struct statvfs *to) { REAL(statvfs); return path_fails(SPACE, path) ? -1 : real(path, to); }
int statvfs64(const char *path, struct statvfs64 *to) {
  REAL(statvfs64);
  return path_fails(SPACE, path) ? -1 : real(path, to);
}

// --- the wall clock --------------------------------------------------------------------------------------------------

int clock_gettime(clockid_t which, struct timespec *to) {
  REAL(clock_gettime);
  int code = real(which, to);
  if (code == 0 && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) to->tv_sec += control->shift_s;
  return code;
}
int gettimeofday(struct timeval *restrict to, void *restrict zone) {
  REAL(gettimeofday);
  int code = real(to, zone);
  if (code == 0) to->tv_sec += control->shift_s;
  return code;
}
time_t time(time_t *to) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (to) *to = now.tv_sec;
  return now.tv_sec;
}

// Deadlines on the wall clock go to the kernel, whose clock is not shifted. Those beyond a billion seconds are no times
// since the machine's start.
static const struct timespec *unshifted(const struct timespec *until, struct timespec *buffer) {
  if (!until || until->tv_sec < 1000000000) return until;
  *buffer = *until;
  buffer->tv_sec -= control->shift_s;
  return buffer;
}
int pthread_cond_timedwait(pthread_cond_t *restrict one, pthread_mutex_t *restrict lock, const struct timespec *restrict until) {
  static __typeof__(pthread_cond_timedwait) *real;
  if (!real) real = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
  if (!real) real = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
  struct timespec buffer;
  return real(one, lock, unshifted(until, &buffer));
}
long syscall(long number, ...) {
  static long (*real)(long, ...);
  if (!real) real = dlsym(RTLD_NEXT, "syscall");
  va_list more; va_start(more, number);
  long a = va_arg(more, long), b = va_arg(more, long), c = va_arg(more, long), d = va_arg(more, long);
  long e = va_arg(more, long), f = va_arg(more, long);
  va_end(more);
  struct timespec buffer;
  if (number == SYS_futex && (b & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET && (b & FUTEX_CLOCK_REALTIME))
    d = (long)unshifted((const struct timespec *)d, &buffer);
  return real(number, a, b, c, d, e, f);
}
