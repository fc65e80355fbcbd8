// limit PORT DIR: the least that a broker must do for a row of the benchmark, as a yardstick. Not a broker: it is never installed, keeps no
// messages over a restart, checks nobody, and serves only what loadgen.c sends (one channel a connection, no --mixed, no TLS).
//
// For every publish it reads the bytes, finds the frames, looks its route up (the one of the publish before, if the method is the same), writes
// a delivery with the consumer's own tag in front of the content as it came, counts credit (prefetch), keeps what has to be acknowledged until
// it is, and confirms once a turn. One thread, one epoll set, one recv a readable socket, one send a socket and turn, epoll_ctl only where a
// socket is full or a queue holds QUEUE_HIGH bytes. Persistent messages in a durable queue are appended to a file that is there already, and
// synced in groups: by a second thread while the first goes on, or at once where a group is smaller than INLINE_BYTES (what one publisher waits
// for takes no change of threads then). Acknowledgements are appended, and go with the next group. No checksum, no index, no second segment.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_BYTES (128u << 10)
#define OUT_HIGH (256u << 10)
#define QUEUE_HIGH (1u << 20)
#define QUEUE_LOW (QUEUE_HIGH / 2)
#define LOG_BYTES (64u << 20)
#define INLINE_BYTES (16u << 10)
#define EVENTS 256
#define QUEUES_MAX 256
#define METHOD_BYTES 600
#define RECORD_BYTES 12

typedef struct { uint8_t *at; size_t head, tail, room; } bytes; // what is between head and tail
typedef struct queue queue;
typedef struct conn conn;
struct conn {
  int fd, interest, is_confirming, is_dirty, is_waiting, is_stuck, is_gone; // waiting: for room in a queue; stuck: the socket is full
  bytes in, out;
  uint64_t published, confirmable, in_group, confirmed;       // numbers of publishes: read, on the disk or transient, being synced, said
  uint8_t method[METHOD_BYTES]; size_t method_size;           // the last publish
  queue *to[QUEUES_MAX]; int to_count, is_durable;            // and its route
  queue *from; int is_acking; uint64_t prefetch, tag, acked;  // consuming: tags given and acknowledged
  char consumer[256];
  uint8_t head[METHOD_BYTES + 300]; size_t head_size, tag_at; // the last delivery's method frame
  uint8_t head_method[METHOD_BYTES]; size_t head_method_size;
  bytes kept;                                                 // delivered and not acknowledged: size, content
};
struct queue { char name[256]; int is_there, is_durable, is_bound; bytes ready; conn *consumers[QUEUES_MAX]; int consumer_count, turn; };

static queue queues[QUEUES_MAX];
static conn **conns; static size_t conn_count, conn_room;
static conn *dirty[65536]; static size_t dirty_count;
static int ep, topology;
static int log_fd = -1, log_event; static char log_directory[4096];
static bytes gathering, writing; static off_t log_at; static int is_writing;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; static pthread_cond_t begin = PTHREAD_COND_INITIALIZER;

static void fail(const char *what) { fprintf(stderr, "limit: %s (%s)\n", what, strerror(errno)); exit(2); }
static uint32_t get4(const uint8_t *p) { return (uint32_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3]; }
static uint64_t get8(const uint8_t *p) { return (uint64_t)get4(p) << 32 | get4(p + 4); }
static void put4(uint8_t *p, uint32_t v) { v = htonl(v); memcpy(p, &v, 4); }
static void put8(uint8_t *p, uint64_t v) { put4(p, v >> 32); put4(p + 4, (uint32_t)v); }
static size_t held(const bytes *b) { return b->tail - b->head; }
static uint8_t *make_room(bytes *b, size_t size) {
  if (b->head == b->tail) b->head = b->tail = 0;
  if (b->room - b->tail >= size) return b->at + b->tail;
  if (b->head >= size && b->head >= b->room / 2) {
    memmove(b->at, b->at + b->head, held(b));
    b->tail -= b->head; b->head = 0;
    if (b->room - b->tail >= size) return b->at + b->tail;
  }
  while (b->room - b->tail < size) b->room = b->room ? b->room * 2 : 4096;
  if (!(b->at = realloc(b->at, b->room))) fail("memory");
  return b->at + b->tail;
}
static void append(bytes *b, const void *from, size_t size) { memcpy(make_room(b, size), from, size); b->tail += size; }
static void append_sized(bytes *b, const uint8_t *from, uint32_t size) {
  uint8_t *to = make_room(b, size + 4);
  memcpy(to, &size, 4); memcpy(to + 4, from, size); b->tail += size + 4;
}

// ---------- the disk
static void write_group(void) {
  size_t done = 0, size = held(&writing);
  while (done < size) {
    size_t part = size - done;
    if (log_at == LOG_BYTES) log_at = 0;
    if (part > (size_t)(LOG_BYTES - log_at)) part = LOG_BYTES - log_at;
    ssize_t put = pwrite(log_fd, writing.at + writing.head + done, part, log_at);
    if (put <= 0) fail("writing the log");
    done += put; log_at += put;
  }
  if (fdatasync(log_fd) < 0) fail("syncing the log");
}
static void *write_groups(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (is_writing != 1) pthread_cond_wait(&begin, &lock);
    pthread_mutex_unlock(&lock);
    write_group();
    __atomic_store_n(&is_writing, 2, __ATOMIC_RELEASE);
    uint64_t one = 1;
    if (write(log_event, &one, 8) != 8) fail("eventfd");
  }
  return unused;
}
static void open_log(void) {
  if (log_fd >= 0) return;
  char path[4200]; snprintf(path, sizeof path, "%s/limit.log", log_directory);
  log_fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (log_fd < 0) fail(path);
  uint8_t *nothing = calloc(1, 1 << 20);
  for (unsigned at = 0; at < LOG_BYTES; at += 1 << 20) if (pwrite(log_fd, nothing, 1 << 20, at) != 1 << 20) fail("making the log");
  free(nothing);
  if (fsync(log_fd) < 0) fail("syncing the log");
  pthread_t thread; if (pthread_create(&thread, 0, write_groups, 0)) fail("thread");
}
static void touch(conn *c) { if (!c->is_dirty && !c->is_gone) { if (dirty_count == 65536) fail("too many connections"); c->is_dirty = 1; dirty[dirty_count++] = c; } }
static void synced(void) {
  for (size_t i = 0; i < conn_count; i++) if (conns[i]->confirmable < conns[i]->in_group) { conns[i]->confirmable = conns[i]->in_group; touch(conns[i]); }
  writing.head = writing.tail = 0; is_writing = 0;
}
static int wants_sync;
static void start_group(void) { // what was gathered in this turn
  if (is_writing || !wants_sync) return;
  wants_sync = 0;
  bytes other = writing; writing = gathering; gathering = other;
  for (size_t i = 0; i < conn_count; i++) conns[i]->in_group = conns[i]->published;
  if (held(&writing) < INLINE_BYTES) { write_group(); synced(); return; }
  pthread_mutex_lock(&lock); is_writing = 1; pthread_cond_signal(&begin); pthread_mutex_unlock(&lock);
}

// ---------- out
static void want(conn *c, int interest) {
  if (c->interest == interest) return;
  struct epoll_event event = {.events = interest, .data.ptr = c};
  if (epoll_ctl(ep, EPOLL_CTL_MOD, c->fd, &event) < 0) fail("epoll_ctl");
  c->interest = interest;
}
static void send_out(conn *c) {
  if (c->is_stuck || !held(&c->out)) return;
  ssize_t sent = send(c->fd, c->out.at + c->out.head, held(&c->out), MSG_NOSIGNAL);
  if (sent < 0 && errno != EAGAIN) { c->out.head = c->out.tail = 0; return; } // it has gone; reading says so too
  if (sent > 0) c->out.head += sent;
  if (held(&c->out)) { c->is_stuck = 1; want(c, c->interest | EPOLLOUT); }
  else if (c->interest & EPOLLOUT) want(c, c->interest & ~EPOLLOUT);
}
static void frame(conn *c, int channel, int class, int method, const void *arguments, size_t size) {
  uint8_t *p = make_room(&c->out, size + 12);
  p[0] = 1; p[1] = 0; p[2] = channel; put4(p + 3, size + 4); p[7] = 0; p[8] = class; p[9] = 0; p[10] = method;
  memcpy(p + 11, arguments, size); p[11 + size] = 0xCE; c->out.tail += size + 12;
}
static void answer(conn *c, int channel, int class, int method, const void *arguments, size_t size) {
  frame(c, channel, class, method, arguments, size); touch(c);
}
static void confirm(conn *c) {
  if (!c->is_confirming || c->confirmed >= c->confirmable) return;
  uint8_t arguments[9]; put8(arguments, c->confirmable); arguments[8] = c->confirmable > c->confirmed + 1;
  c->confirmed = c->confirmable; frame(c, 1, 60, 80, arguments, 9);
}

// ---------- a message
static conn *taker(queue *q) {
  for (int i = 0; i < q->consumer_count; i++) {
    if (q->turn >= q->consumer_count) q->turn = 0;
    conn *c = q->consumers[q->turn++];
    if ((!c->prefetch || c->tag - c->acked < c->prefetch) && held(&c->out) < OUT_HIGH) return c;
  }
  return 0;
}
static void make_head(conn *c, const uint8_t *method, size_t size) { // basic.deliver of what this basic.publish sends
  size_t name = strlen(c->consumer), exchange = method[6] + 1u, key = method[6 + exchange] + 1u, n = 7;
  uint8_t *p = c->head; p[0] = 1; p[1] = 0; p[2] = 1;
  p[n++] = 0; p[n++] = 60; p[n++] = 0; p[n++] = 60; p[n++] = name; memcpy(p + n, c->consumer, name); n += name;
  c->tag_at = n; n += 8; p[n++] = 0; memcpy(p + n, method + 6, exchange + key); n += exchange + key;
  put4(p + 3, n - 7); p[n++] = 0xCE;
  c->head_size = n; memcpy(c->head_method, method, size); c->head_method_size = size;
}
static void deliver(conn *c, const uint8_t *method, size_t method_size, const uint8_t *content, size_t size) {
  if (c->head_method_size != method_size || memcmp(c->head_method, method, method_size)) make_head(c, method, method_size);
  put8(c->head + c->tag_at, ++c->tag);
  uint8_t *to = make_room(&c->out, c->head_size + size);
  memcpy(to, c->head, c->head_size); memcpy(to + c->head_size, content, size); c->out.tail += c->head_size + size;
  if (c->is_acking) append_sized(&c->kept, content, size);
  touch(c);
}
static void pump(queue *q) { // ready: method size, method, content size, content
  while (held(&q->ready)) {
    conn *c = taker(q);
    if (!c) return;
    uint8_t *p = q->ready.at + q->ready.head; uint32_t method_size, size;
    memcpy(&method_size, p, 4); memcpy(&size, p + 4 + method_size, 4);
    deliver(c, p + 4, method_size, p + 8 + method_size, size);
    q->ready.head += 8 + method_size + size;
  }
}
static int route(conn *c, const uint8_t *method, size_t size) { // 0 when the method is longer than anything loadgen sends
  static int routed; // a change of queues forgets all routes
  if (routed != topology) { routed = topology; for (size_t i = 0; i < conn_count; i++) conns[i]->method_size = 0; }
  if (c->method_size == size && !memcmp(c->method, method, size)) return 1;
  if (size > METHOD_BYTES) return 0;
  memcpy(c->method, method, size); c->method_size = size; c->to_count = c->is_durable = 0;
  size_t exchange = method[6], key = method[7 + exchange]; const char *name = (const char *)method + 8 + exchange;
  for (int i = 0; i < QUEUES_MAX; i++) {
    queue *q = &queues[i];
    if (!q->is_there || !(exchange ? q->is_bound : strlen(q->name) == key && !memcmp(q->name, name, key))) continue;
    c->to[c->to_count++] = q; c->is_durable |= q->is_durable;
  }
  return 1;
}
static void publish(conn *c, const uint8_t *method, size_t method_size, const uint8_t *content, size_t size) {
  if (!route(c, method, method_size)) { errno = EMSGSIZE; fail("a publish"); }
  c->published++;
  int is_kept = c->is_durable && content[7 + 12] == 0x10 && content[7 + 14] == 2; // its only property: delivery mode 2
  if (is_kept) {
    uint8_t record[RECORD_BYTES]; put4(record, size); put8(record + 4, c->published);
    append(&gathering, record, sizeof record); append(&gathering, content, size); wants_sync = 1;
  }
  for (int i = 0; i < c->to_count; i++) {
    queue *q = c->to[i]; conn *to = held(&q->ready) ? 0 : taker(q);
    if (to) { deliver(to, method, method_size, content, size); continue; }
    append_sized(&q->ready, method, method_size); append_sized(&q->ready, content, size);
  }
  if (!is_kept) c->confirmable = c->published;
  if (c->is_confirming) touch(c);
}
static void acknowledge(conn *c, uint64_t tag, int is_multiple) { // in order, as loadgen does
  uint64_t count = is_multiple ? tag - c->acked : 1;
  for (c->acked += count; count && held(&c->kept); count--) {
    uint32_t size; memcpy(&size, c->kept.at + c->kept.head, 4); c->kept.head += size + 4;
    if (c->from && c->from->is_durable) { uint8_t record[RECORD_BYTES] = {0}; put8(record + 4, tag); append(&gathering, record, sizeof record); }
  }
  if (c->from) pump(c->from);
}

// ---------- everything that is not a message
static void shortstr(char *to, const uint8_t *from) { memcpy(to, from + 1, *from); to[*from] = 0; }
static queue *find_queue(const char *name, int is_made) {
  queue *free_one = 0;
  for (int i = 0; i < QUEUES_MAX; i++) {
    if (queues[i].is_there && !strcmp(queues[i].name, name)) return &queues[i];
    if (!queues[i].is_there && !free_one) free_one = &queues[i];
  }
  if (!is_made) return 0;
  if (!free_one) { errno = ENOSPC; fail("too many queues"); }
  free(free_one->ready.at); memset(free_one, 0, sizeof *free_one);
  free_one->is_there = 1; strcpy(free_one->name, name); topology++;
  return free_one;
}
static void method(conn *c, const uint8_t *p, size_t size) {
  int class = p[1], number = p[3], what = class * 1000 + number; char name[256]; uint8_t reply[300] = {0}; queue *q;
  (void)size;
  switch (what) {
  case 10011: answer(c, 0, 10, 30, "\x07\xff\x00\x02\x00\x00\x00\x00", 8); break;
  case 10040: answer(c, 0, 10, 41, "\0", 1); break;
  case 20010: answer(c, 1, 20, 11, "\0\0\0\0", 4); break;
  case 40010: answer(c, 1, 40, 11, "", 0); break;
  case 40020: for (int i = 0; i < QUEUES_MAX; i++) queues[i].is_bound = 0; topology++; answer(c, 1, 40, 21, "", 0); break;
  case 50010:
    shortstr(name, p + 6); q = find_queue(name, 1); q->is_durable = p[7 + p[6]] >> 1 & 1;
    if (q->is_durable) open_log();
    memcpy(reply, p + 6, p[6] + 1u); answer(c, 1, 50, 11, reply, p[6] + 9u); break;
  case 50020: shortstr(name, p + 6); if ((q = find_queue(name, 0))) q->is_bound = 1; topology++; answer(c, 1, 50, 21, "", 0); break;
  case 50040:
    shortstr(name, p + 6);
    if ((q = find_queue(name, 0))) { q->is_there = 0; for (int i = 0; i < q->consumer_count; i++) q->consumers[i]->from = 0; }
    topology++; answer(c, 1, 50, 41, "\0\0\0\0", 4); break;
  case 60010: c->prefetch = p[8] << 8 | p[9]; answer(c, 1, 60, 11, "", 0); break;
  case 60020: {
    shortstr(name, p + 6); const uint8_t *tag = p + 7 + p[6]; shortstr(c->consumer, tag); c->is_acking = !(tag[1 + *tag] & 2);
    if ((q = find_queue(name, 0)) && q->consumer_count < QUEUES_MAX) { c->from = q; q->consumers[q->consumer_count++] = c; }
    answer(c, 1, 60, 21, tag, *tag + 1u); if (q) pump(q); break;
  }
  case 60080: acknowledge(c, get8(p + 4), p[12] & 1); break;
  case 85010: c->is_confirming = 1; answer(c, 1, 85, 11, "", 0); break;
  case 10050: answer(c, 0, 10, 51, "", 0); break;
  case 20040: answer(c, 1, 20, 41, "", 0); break;
  }
}
static int is_full(conn *c) { for (int i = 0; i < c->to_count; i++) if (held(&c->to[i]->ready) > QUEUE_HIGH) return 1; return 0; }
static int has_drained(conn *c) { for (int i = 0; i < c->to_count; i++) if (held(&c->to[i]->ready) > QUEUE_LOW) return 0; return 1; }
static void take_frames(conn *c) {
  for (;;) {
    uint8_t *p = c->in.at + c->in.head; size_t there = held(&c->in);
    if (there >= 8 && p[0] == 'A') {
      c->in.head += 8; answer(c, 0, 10, 10, "\0\x09\0\0\0\0\0\0\0\x05PLAIN\0\0\0\x05" "en_US", 24); continue;
    }
    if (there < 8) return;
    size_t size = get4(p + 3);
    if (there < size + 8) return;
    if (p[0] == 1 && p[8] == 60 && p[10] == 40) { // the content has to be there as well
      if (is_full(c)) { c->is_waiting = 1; want(c, c->interest & ~EPOLLIN); return; }
      size_t content = size + 8, at = content;
      if (there < at + 8 || there < at + get4(p + at + 3) + 8) return;
      uint64_t body = get8(p + at + 7 + 4);
      at += get4(p + at + 3) + 8;
      while (body) {
        if (there < at + 8 || there < at + get4(p + at + 3) + 8) return;
        body -= get4(p + at + 3); at += get4(p + at + 3) + 8;
      }
      publish(c, p + 7, size, p + content, at - content); c->in.head += at; continue;
    }
    if (p[0] == 1) method(c, p + 7, size);
    c->in.head += size + 8;
  }
}
static int has_gone; // somebody has
static void leave(conn *c) {
  queue *q = c->from;
  if (q) for (int i = 0; i < q->consumer_count; i++) if (q->consumers[i] == c) q->consumers[i] = q->consumers[--q->consumer_count];
  c->from = 0; c->is_gone = has_gone = 1;
}
static void forget_gone(void) {
  for (size_t i = 0; i < conn_count; i++) {
    conn *c = conns[i];
    if (!c->is_gone) continue;
    conns[i--] = conns[--conn_count];
    close(c->fd); free(c->in.at); free(c->out.at); free(c->kept.at); free(c);
  }
  has_gone = 0;
}
static void readable(conn *c) {
  uint8_t *to = make_room(&c->in, READ_BYTES); ssize_t got = recv(c->fd, to, READ_BYTES, 0);
  if (got < 0 && errno == EAGAIN) return;
  if (got <= 0) { if (!c->is_gone) leave(c); return; }
  c->in.tail += got; take_frames(c);
}
static void arrived(int listener) {
  int fd = accept4(listener, 0, 0, SOCK_NONBLOCK), one = 1;
  if (fd < 0) return;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  conn *c = calloc(1, sizeof *c);
  if (conn_count == conn_room) conns = realloc(conns, (conn_room = conn_room ? conn_room * 2 : 64) * sizeof *conns);
  if (!c || !conns) fail("memory");
  c->fd = fd; c->interest = EPOLLIN; conns[conn_count++] = c;
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
  if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &event) < 0) fail("epoll_ctl");
}

int main(int argc, char **argv) {
  if (argc != 3) { fprintf(stderr, "limit PORT DIR: see the top of limit.c\n"); return 1; }
  signal(SIGPIPE, SIG_IGN);
  snprintf(log_directory, sizeof log_directory, "%s", argv[2]);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1])), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(listener, (void *)&address, sizeof address) < 0 || listen(listener, 1024) < 0) fail("listening");
  ep = epoll_create1(0); log_event = eventfd(0, EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = &listener}, events[EVENTS];
  epoll_ctl(ep, EPOLL_CTL_ADD, listener, &event);
  event.data.ptr = &log_event; epoll_ctl(ep, EPOLL_CTL_ADD, log_event, &event);
  for (;;) {
    int count = epoll_wait(ep, events, EVENTS, -1);
    for (int i = 0; i < count; i++) {
      void *who = events[i].data.ptr;
      if (who == &listener) { arrived(listener); continue; }
      if (who == &log_event) { uint64_t n; if (read(log_event, &n, 8) == 8) synced(); continue; }
      conn *c = who;
      if (events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) readable(c);
      if (events[i].events & EPOLLOUT) { c->is_stuck = 0; touch(c); if (c->from) pump(c->from); }
    }
    int is_more;
    do {
      start_group();
      for (size_t i = 0; i < dirty_count; i++) { // one send a socket; what this makes room for is sent behind it
        conn *c = dirty[i]; c->is_dirty = 0;
        if (c->is_gone) continue;
        confirm(c); send_out(c);
        if (c->from && held(&c->from->ready) && !held(&c->out)) pump(c->from);
      }
      dirty_count = is_more = 0;
      for (size_t i = 0; i < conn_count; i++) if (conns[i]->is_waiting && has_drained(conns[i])) {
        conns[i]->is_waiting = 0; is_more = 1; want(conns[i], conns[i]->interest | EPOLLIN); take_frames(conns[i]);
      }
    } while (is_more);
    if (has_gone) forget_gone();
  }
}
