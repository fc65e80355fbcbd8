// Loaded before the C library (LD_PRELOAD), makes every fdatasync of a process take longer, and counts them.
//
// SLOW_SYNC names a file of 32 bytes that both sides map: how many nanoseconds longer (written by whoever measures), how many
// syncs there were, and how many nanoseconds all of them took (written here). So the disk can be slow for a while, and what a
// broker says of its disk can be compared with what the disk did.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

struct shared {
  _Atomic uint64_t longer_ns, count, total_ns, unused;
};

static struct shared *shared;

__attribute__((constructor)) static void open_shared(void) {
  const char *path = getenv("SLOW_SYNC");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *found = mmap(NULL, sizeof(struct shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (found != MAP_FAILED) shared = found;
}

static uint64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int fdatasync(int fd) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  if (!shared) return real(fd);
  uint64_t began = now_ns(), longer = atomic_load(&shared->longer_ns);
  int result = real(fd);
  if (longer) {
    struct timespec rest = {(time_t)(longer / 1000000000u), (long)(longer % 1000000000u)};
    nanosleep(&rest, NULL);
  }
  atomic_fetch_add(&shared->total_ns, now_ns() - began);
  atomic_fetch_add(&shared->count, 1);
  return result;
}
