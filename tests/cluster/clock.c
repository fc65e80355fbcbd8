/* A wall clock that is wrong: as many seconds as the file PENSTOCK_CLOCK says, read a few times a
 * second. For LD_PRELOAD; the monotonic clock is the machine's.
 *
 *     cc -shared -fPIC -O2 -o clock.so clock.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

static int (*real)(clockid_t, struct timespec *);

static long offset_s(long now_ns)
{
    static long read_at_ns, offset;
    if (now_ns - read_at_ns > 200000000L || now_ns < read_at_ns) {
        const char *path = getenv("PENSTOCK_CLOCK");
        FILE *file = path ? fopen(path, "r") : NULL;
        long found;
        read_at_ns = now_ns;
        if (file) {
            if (fscanf(file, "%ld", &found) == 1)
                offset = found;
            fclose(file);
        }
    }
    return offset;
}

int clock_gettime(clockid_t clock, struct timespec *at)
{
    struct timespec now;
    int result;
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    result = real(clock, at);
    if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        real(CLOCK_MONOTONIC, &now);
        at->tv_sec += offset_s(now.tv_sec * 1000000000L + now.tv_nsec);
    }
    return result;
}

int gettimeofday(struct timeval *at, void *zone)
{
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at)
        *at = now.tv_sec;
    return now.tv_sec;
}
