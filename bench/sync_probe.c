// sync_probe DIR MS [BYTES]: append BYTES (1024) to a file in DIR and fdatasync, again and again for MS milliseconds.
// Prints one JSON object: how many syncs, and how long one took, in microseconds, the append left out of it.
// What a durable message costs at least on this disk at this moment; a benchmark runs it before every row that syncs.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MIN 20
#define ROUNDS_MAX 100000

static double now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int fail(const char *what) {
  fprintf(stderr, "sync_probe: %s (%s)\n", what, strerror(errno));
  return 2;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "sync_probe DIR MS [BYTES]\n");
    return 1;
  }
  size_t bytes = argc > 3 ? strtoul(argv[3], NULL, 10) : 1024;
  char path[4096];
  if (snprintf(path, sizeof path, "%s/sync-probe-XXXXXX", argv[1]) >= (int)sizeof path) return fail("path too long");
  int fd = mkstemp(path);
  if (fd < 0) return fail(path);
  unlink(path);
  char *data = malloc(bytes ? bytes : 1);
  double *took = malloc(ROUNDS_MAX * sizeof *took);
  if (!data || !took) return fail("memory");
  memset(data, 'x', bytes);
  double end = now_us() + strtod(argv[2], NULL) * 1e3;
  int count = 0;
  while (count < ROUNDS_MAX && (count < ROUNDS_MIN || now_us() < end)) {
    if (write(fd, data, bytes) != (ssize_t)bytes) return fail("write");
    double began = now_us();
    if (fdatasync(fd) < 0) return fail("fdatasync");
    took[count++] = now_us() - began;
  }
  qsort(took, count, sizeof *took, by_size);
  printf("{\"count\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f}\n", count, took[count / 2], took[count * 99 / 100], took[count - 1]);
  return 0;
}
