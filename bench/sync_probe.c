// sync_probe DIR MS [BYTES [RATE]]: append BYTES (1024) to a file in DIR and fdatasync, again and again for MS milliseconds.
// Prints one JSON object: how many syncs, and how long one took, in microseconds, the append left out of it.
// What a durable message costs at least on this disk at this moment; a benchmark runs it before every row that syncs.
//
// With RATE, messages of BYTES then come RATE times a second, for ten times MS, to a broker that does nothing but keep them: it
// writes over a file that is there, everything that has come since the last write at once, and syncs. ideal_p50_us, ideal_p99_us:
// from a message's coming to the end of its sync. Nobody confirms sooner on this disk with one thread that writes.
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
#define IDEAL_FILE_BYTES (16u << 20)
#define IDEAL_TIMES 10
#define IDEAL_MESSAGES_MAX 50000000.0

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

static int compare_ideal(int fd, size_t bytes, double rate, double length_us, double *p50_us, double *p99_us) {
  char *data = malloc(IDEAL_FILE_BYTES);
  double wanted = rate * length_us / 1e6 * 2 + 1;
  if (rate <= 0 || wanted > IDEAL_MESSAGES_MAX || bytes > IDEAL_FILE_BYTES) {
    fprintf(stderr, "sync_probe: RATE is above 0, at most %.0f messages in the whole run, and BYTES at most %u\n", IDEAL_MESSAGES_MAX / 2, IDEAL_FILE_BYTES);
    return 2;
  }
  size_t room = (size_t)wanted, count = 0, taken = 0, at = 0;
  double *took = malloc(room * sizeof *took);
  if (!data || !took) return fail("memory");
  memset(data, 'y', IDEAL_FILE_BYTES);
  if (pwrite(fd, data, IDEAL_FILE_BYTES, 0) != IDEAL_FILE_BYTES || fsync(fd) < 0) return fail("making the file");
  double start = now_us(), now;
  while ((now = now_us()) < start + length_us && count < room) {
    size_t come = (size_t)((now - start) * rate / 1e6);
    if (come == taken) continue;
    size_t size = (come - taken) * bytes;
    if (size > IDEAL_FILE_BYTES) size = IDEAL_FILE_BYTES;
    if (at + size > IDEAL_FILE_BYTES) at = 0;
    if (pwrite(fd, data, size, at) != (ssize_t)size) return fail("write");
    if (fdatasync(fd) < 0) return fail("fdatasync");
    at += size;
    double ended = now_us();
    for (; taken < come && count < room; taken++) took[count++] = ended - (start + taken * 1e6 / rate);
  }
  if (!count) return fail("no message came: the rate is too low for this time");
  qsort(took, count, sizeof *took, by_size);
  *p50_us = took[count / 2];
  *p99_us = took[count * 99 / 100];
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 3) {
    fprintf(stderr, "sync_probe DIR MS [BYTES [RATE]]\n");
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
  printf("{\"count\":%d,\"p50_us\":%.1f,\"p99_us\":%.1f,\"max_us\":%.1f", count, took[count / 2], took[count * 99 / 100], took[count - 1]);
  if (argc > 4) {
    double p50_us = 0, p99_us = 0;
    if (compare_ideal(fd, bytes, strtod(argv[4], NULL), strtod(argv[2], NULL) * 1e3 * IDEAL_TIMES, &p50_us, &p99_us)) return 2;
    printf(",\"ideal_p50_us\":%.1f,\"ideal_p99_us\":%.1f", p50_us, p99_us);
  }
  printf("}\n");
  return 0;
}
