/*
 * Adds to the time of day of a process what a file says: an LD_PRELOAD shim, as if somebody set the clock of its machine. Clocks that
 * only go forward stay as they are.
 *
 * Environment: CLOCK_FILE, a file of 8 bytes: microseconds, with a sign, in the byte order of the machine. It may change at any time.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MICROS 1000000

static volatile int64_t *added;

__attribute__((constructor)) static void start(void) {
  const char *path = getenv("CLOCK_FILE");
  int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (file < 0) return;
  void *mapped = mmap(NULL, sizeof *added, PROT_READ, MAP_SHARED, file, 0);
  if (mapped != MAP_FAILED) added = mapped;
  close(file);
}

static int64_t offset(void) { return added ? *added : 0; }

int clock_gettime(clockid_t clock, struct timespec *at) {
  static int (*real)(clockid_t, struct timespec *);
  if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  int result = real(clock, at);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
    int64_t micros = (int64_t)at->tv_sec * MICROS + at->tv_nsec / 1000 + offset();
    at->tv_sec = micros / MICROS;
    at->tv_nsec = micros % MICROS * 1000 + at->tv_nsec % 1000;
  }
  return result;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
  struct timespec now;
  (void)zone;
  if (clock_gettime(CLOCK_REALTIME, &now) != 0) return -1;
  at->tv_sec = now.tv_sec;
  at->tv_usec = now.tv_nsec / 1000;
  return 0;
}

time_t time(time_t *at) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (at) *at = now.tv_sec;
  return now.tv_sec;
}
