/*
 * A disk that can lose its power, fill up or fail, as an LD_PRELOAD shim over the calls with which Node and SQLite write.
 *
 * Writes go through at once, so that all processes see each other's; what they replaced goes into a journal outside of the
 * watched folder, and `fsync` notes in it what has become durable. After the kill `journal.ts` reads the journal and takes back
 * what had not. A name (created, renamed, removed) becomes durable only by the fsync of its folder, as POSIX has it; file
 * systems that promise more are kinder than this one.
 *
 * Environment: POWERCUT_ROOT, the watched folder, without symbolic links; POWERCUT_DIR, the folder of `control` (the page
 * below, shared by all processes and written by the test), of the journal, and of `keep/`: removed files, by sequence
 * number. Programs that are started inherit all of it, whatever environment they are given.
 * Not watched: `*-shm` (SQLite rebuilds it), sockets, and what is written through mmap (SQLite does that to `*-shm` alone).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Bits of `faults`. */
enum { FULL = 1, WRITE_EIO = 2, SYNC_EIO = 4, SHORT = 8, READ_EIO = 16 };

/* The page `control`. The first 128 bytes are the test's to write and to read; see disk.ts. */
struct control {
  volatile uint32_t journalling, halted, faults, sync_delay_us;
  volatile uint32_t hits_full, hits_write, hits_sync, hits_short, hits_read;
  uint32_t unused[7];
  char only[64]; /* Faults strike the paths that hold this text; all when empty. */
  volatile uint32_t ready;
  uint32_t unused2;
  uint64_t seq, end;
  pthread_mutex_t lock; /* Robust: a process may be killed while it holds it. */
};

enum kind { WRITE = 1, TRUNCATE, SYNC, SYNC_LOST, SYNC_ALL, CREATE, UNLINK, MKDIR, RMDIR, RENAME };

/* Followed by the two names and the old bytes. journal.ts reads the same layout. */
struct record {
  uint32_t kind, mode;
  uint64_t seq;
  uint64_t ino, other; /* The file; or the folder and what the name stood for. */
  uint64_t offset, length, size_before;
  uint64_t moved, replaced; /* RENAME: inodes. */
  uint32_t name, name2, data, zero;
};

static struct control *control;
static int journal = -1;
static char root[PATH_MAX], dir[PATH_MAX];
static size_t root_length;

#define REAL(name) __extension__({ \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
  real; })

/* ---- Set-up ---- */

static char *setting_preload, *setting_root, *setting_dir;

static char *assignment(const char *name) {
  const char *value = getenv(name);
  char *text = NULL;
  if (value && asprintf(&text, "%s=%s", name, value) < 0) abort();
  return text;
}

__attribute__((constructor)) static void start(void) {
  const char *watched = getenv("POWERCUT_ROOT"), *folder = getenv("POWERCUT_DIR");
  if (!watched || !folder) return;
  setting_preload = assignment("LD_PRELOAD");
  setting_root = assignment("POWERCUT_ROOT");
  setting_dir = assignment("POWERCUT_DIR");
  snprintf(root, sizeof root, "%s", watched);
  snprintf(dir, sizeof dir, "%s", folder);
  root_length = strlen(root);
  char path[PATH_MAX + 16];
  snprintf(path, sizeof path, "%s/control", dir);
  int fd = REAL(open64)(path, O_RDWR | O_CLOEXEC);
  snprintf(path, sizeof path, "%s/journal", dir);
  journal = REAL(open64)(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(struct control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (page == MAP_FAILED || journal < 0) {
    fprintf(stderr, "powercut: no control page or journal in %s\n", dir);
    abort();
  }
  REAL(close)(fd);
  struct control *shared = page;
  /* The daemon comes first and alone; its children find the lock made. */
  if (!shared->ready) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&shared->lock, &attributes);
    shared->ready = 1;
  }
  control = shared;
}

/* ---- What is watched ---- */

static int below_root(const char *path) {
  return strncmp(path, root, root_length) == 0 && (path[root_length] == '/' || path[root_length] == 0);
}

static int is_index(const char *path) {
  size_t length = strlen(path);
  return length > 4 && strcmp(path + length - 4, "-shm") == 0;
}

/* Fills `path`, when `fd` is a file or folder that is watched. */
static int watched_fd(int fd, struct stat *found, char path[PATH_MAX]) {
  if (!control) return 0;
  int saved = errno, watched = 0;
  if (fstat(fd, found) == 0 && (S_ISREG(found->st_mode) || S_ISDIR(found->st_mode))) {
    char link[40];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, PATH_MAX - 1);
    if (length > 0) {
      path[length] = 0;
      watched = below_root(path) && !is_index(path);
    }
  }
  errno = saved;
  return watched;
}

/* A name in a watched folder. */
struct entry {
  char folder[PATH_MAX];
  const char *name;
  uint64_t folder_ino;
  struct stat found;
  int exists;
};

static int watched_entry(const char *path, struct entry *entry) {
  if (!control || !path || is_index(path)) return 0;
  int saved = errno, watched = 0;
  char text[PATH_MAX];
  struct stat folder;
  size_t length = strlen(path);
  if (length == 0 || length >= sizeof text) return 0;
  memcpy(text, path, length + 1);
  while (length > 1 && text[length - 1] == '/') text[--length] = 0;
  char *slash = strrchr(text, '/');
  entry->name = strrchr(path, '/') ? path + (slash ? slash - text + 1 : 0) : path;
  if (slash) *slash = 0;
  const char *parent = slash ? (slash == text ? "/" : text) : ".";
  if (realpath(parent, entry->folder) && below_root(entry->folder) && stat(entry->folder, &folder) == 0) {
    entry->folder_ino = folder.st_ino;
    entry->exists = lstat(path, &entry->found) == 0;
    watched = 1;
  }
  errno = saved;
  return watched;
}

/* ---- The journal ---- */

static void stop_if_halted(void) {
  while (control->halted) usleep(1000000);
}

static void lock(void) {
  for (;;) {
    stop_if_halted();
    if (pthread_mutex_lock(&control->lock) == EOWNERDEAD) pthread_mutex_consistent(&control->lock);
    if (!control->halted) return;
    pthread_mutex_unlock(&control->lock);
  }
}

static void unlock(void) { pthread_mutex_unlock(&control->lock); }

/* Under the lock. A record counts once `end` is behind it: what a killed process left half is written over. */
static void append(struct record *record, const char *name, const char *name2, const void *data) {
  if (!record->seq) record->seq = ++control->seq;
  record->name = name ? strcspn(name, "/") : 0;
  record->name2 = name2 ? strcspn(name2, "/") : 0;
  struct iovec parts[] = {{record, sizeof *record},
                          {(void *)name, record->name},
                          {(void *)name2, record->name2},
                          {(void *)data, record->data}};
  size_t length = sizeof *record + record->name + record->name2 + record->data;
  if (REAL(pwritev64)(journal, parts, 4, control->end) != (ssize_t)length) {
    fprintf(stderr, "powercut: the journal cannot be written\n");
    abort();
  }
  control->end += length;
}

static void append_old_bytes(int fd, const struct stat *found, enum kind kind, uint64_t offset, uint64_t length) {
  uint64_t size = found->st_size, end = kind == TRUNCATE ? size : offset + length;
  if (end > size) end = size;
  struct record record = {.kind = kind, .ino = found->st_ino, .offset = offset, .length = length, .size_before = size};
  char *old = NULL;
  if (offset < end) {
    record.data = end - offset;
    old = malloc(record.data);
    if (!old || REAL(pread64)(fd, old, record.data, offset) != (ssize_t)record.data) {
      char link[40];
      snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
      int readable = REAL(open64)(link, O_RDONLY | O_CLOEXEC);
      if (!old || readable < 0 || REAL(pread64)(readable, old, record.data, offset) != (ssize_t)record.data) {
        fprintf(stderr, "powercut: the old bytes cannot be read\n");
        abort();
      }
      REAL(close)(readable);
    }
  }
  append(&record, NULL, NULL, old);
  free(old);
}

static void append_name(enum kind kind, const struct entry *entry, uint64_t ino, uint32_t mode) {
  struct record record = {.kind = kind, .mode = mode, .ino = entry->folder_ino, .other = ino};
  append(&record, entry->name, NULL, NULL);
}

/* What a name stood for stays reachable in `keep/`. */
static void keep(const struct entry *entry, uint64_t seq) {
  char from[2 * PATH_MAX], to[PATH_MAX + 32];
  snprintf(from, sizeof from, "%s/%.*s", entry->folder, (int)strcspn(entry->name, "/"), entry->name);
  snprintf(to, sizeof to, "%s/keep/%llu", dir, (unsigned long long)seq);
  if (REAL(link)(from, to) < 0) {
    fprintf(stderr, "powercut: %s cannot be kept: %m\n", from);
    abort();
  }
}

/* ---- Faults ---- */

static int struck(uint32_t fault, const char *path) {
  return (control->faults & fault) && (!control->only[0] || strstr(path, control->only));
}

static int fail(volatile uint32_t *hits, int error) {
  __atomic_add_fetch(hits, 1, __ATOMIC_RELAXED);
  errno = error;
  return -1;
}

static int full(const char *path) { return struck(FULL, path) ? fail(&control->hits_full, ENOSPC) : 0; }

/* ---- Writing ---- */

static ssize_t do_write(int fd, const struct iovec *parts, int count, int64_t at, int positioned) {
  struct stat found;
  char path[PATH_MAX];
  if (!watched_fd(fd, &found, path)) return positioned ? REAL(pwritev64)(fd, parts, count, at) : REAL(writev)(fd, parts, count);
  stop_if_halted();
  size_t length = 0;
  for (int i = 0; i < count; i++) length += parts[i].iov_len;
  if (struck(WRITE_EIO, path)) return fail(&control->hits_write, EIO);
  /* A full disk still takes what overwrites the blocks that a file has. */
  if (!positioned || at + (int64_t)length > found.st_size) if (full(path)) return -1;
  struct iovec cut;
  if (count > 0 && parts[0].iov_len > 1 && struck(SHORT, path) && (random() & 3) == 0) {
    __atomic_add_fetch(&control->hits_short, 1, __ATOMIC_RELAXED);
    cut = (struct iovec){parts[0].iov_base, 1 + random() % (parts[0].iov_len - 1)};
    parts = &cut;
    count = 1;
    length = cut.iov_len;
  }
  if (!control->journalling) return positioned ? REAL(pwritev64)(fd, parts, count, at) : REAL(writev)(fd, parts, count);
  lock();
  fstat(fd, &found);
  int64_t offset = positioned ? at : (fcntl(fd, F_GETFL) & O_APPEND) ? found.st_size : lseek64(fd, 0, SEEK_CUR);
  append_old_bytes(fd, &found, WRITE, offset, length);
  ssize_t written = positioned ? REAL(pwritev64)(fd, parts, count, at) : REAL(writev)(fd, parts, count);
  int error = errno;
  unlock();
  errno = error;
  return written;
}

ssize_t write(int fd, const void *bytes, size_t length) {
  struct iovec part = {(void *)bytes, length};
  return do_write(fd, &part, 1, 0, 0);
}
ssize_t writev(int fd, const struct iovec *parts, int count) { return do_write(fd, parts, count, 0, 0); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
  struct iovec part = {(void *)bytes, length};
  return do_write(fd, &part, 1, at, 1);
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off64_t at) { return do_write(fd, parts, count, at, 1); }

static int do_truncate(int fd, off64_t size) {
  struct stat found;
  char path[PATH_MAX];
  if (!watched_fd(fd, &found, path)) return REAL(ftruncate64)(fd, size);
  stop_if_halted();
  if (struck(WRITE_EIO, path)) return fail(&control->hits_write, EIO);
  if (size > found.st_size && full(path)) return -1;
  if (!control->journalling) return REAL(ftruncate64)(fd, size);
  lock();
  fstat(fd, &found);
  append_old_bytes(fd, &found, TRUNCATE, size, 0);
  int result = REAL(ftruncate64)(fd, size), error = errno;
  unlock();
  errno = error;
  return result;
}
int ftruncate64(int fd, off64_t size) { return do_truncate(fd, size); }

/* Callers of these fall back to reading and writing. */
ssize_t sendfile64(int to, int from, off64_t *at, size_t length) {
  struct stat found;
  char path[PATH_MAX];
  if (!watched_fd(to, &found, path)) return REAL(sendfile64)(to, from, at, length);
  errno = EINVAL;
  return -1;
}

/* ---- Making durable ---- */

static int do_sync(int fd, int (*real)(int), int everything) {
  struct stat found;
  char path[PATH_MAX];
  if (!watched_fd(fd, &found, path)) return real(fd);
  stop_if_halted();
  int lost = struck(SYNC_EIO, path);
  if (control->journalling) {
    lock();
    uint64_t until = control->seq;
    unlock();
    /* The disk at work: long enough that a power cut falls into it. */
    if (control->sync_delay_us) usleep(random() % control->sync_delay_us);
    lock();
    /* As Linux has it: what an fsync failed to write is not tried again by the next one. */
    struct record record = {.kind = lost ? SYNC_LOST : everything ? SYNC_ALL : SYNC, .ino = found.st_ino, .length = until};
    append(&record, NULL, NULL, NULL);
    unlock();
  }
  if (lost) return fail(&control->hits_sync, EIO);
  return control->journalling ? 0 : real(fd);
}
int fsync(int fd) { return do_sync(fd, REAL(fsync), 0); }
int fdatasync(int fd) { return do_sync(fd, REAL(fdatasync), 0); }
int syncfs(int fd) { return do_sync(fd, REAL(syncfs), 1); }

/* ---- Names ---- */

static int do_open(const char *path, int flags, mode_t mode) {
  struct entry entry;
  if (!(flags & (O_CREAT | O_TRUNC)) || (flags & O_TMPFILE) == O_TMPFILE || !watched_entry(path, &entry))
    return REAL(open64)(path, flags, mode);
  stop_if_halted();
  if (!entry.exists && full(path)) return -1;
  if (!control->journalling) return REAL(open64)(path, flags, mode);
  lock();
  watched_entry(path, &entry);
  if (entry.exists && (flags & O_TRUNC) && S_ISREG(entry.found.st_mode) && entry.found.st_size > 0) {
    int fd = REAL(open64)(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
      append_old_bytes(fd, &entry.found, TRUNCATE, 0, 0);
      REAL(close)(fd);
    }
  }
  int fd = REAL(open64)(path, flags, mode), error = errno;
  struct stat made;
  if (fd >= 0 && !entry.exists && fstat(fd, &made) == 0) append_name(CREATE, &entry, made.st_ino, 0);
  unlock();
  errno = error;
  return fd;
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return do_open(path, flags, mode);
}
int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  return do_open(path, flags, mode);
}

int mkdir(const char *path, mode_t mode) {
  struct entry entry;
  if (!watched_entry(path, &entry) || entry.exists) return REAL(mkdir)(path, mode);
  stop_if_halted();
  if (full(path)) return -1;
  if (!control->journalling) return REAL(mkdir)(path, mode);
  lock();
  int result = REAL(mkdir)(path, mode), error = errno;
  struct stat made;
  if (result == 0 && stat(path, &made) == 0) append_name(MKDIR, &entry, made.st_ino, mode);
  unlock();
  errno = error;
  return result;
}

int rmdir(const char *path) {
  struct entry entry;
  if (!watched_entry(path, &entry)) return REAL(rmdir)(path);
  stop_if_halted();
  if (!control->journalling) return REAL(rmdir)(path);
  lock();
  int result = REAL(rmdir)(path), error = errno;
  if (result == 0) append_name(RMDIR, &entry, entry.found.st_ino, entry.found.st_mode & 07777);
  unlock();
  errno = error;
  return result;
}

int unlink(const char *path) {
  struct entry entry;
  if (!watched_entry(path, &entry)) return REAL(unlink)(path);
  stop_if_halted();
  if (!control->journalling) return REAL(unlink)(path);
  lock();
  if (watched_entry(path, &entry) && entry.exists && S_ISREG(entry.found.st_mode)) {
    keep(&entry, control->seq + 1);
    append_name(UNLINK, &entry, entry.found.st_ino, 0);
  }
  int result = REAL(unlink)(path), error = errno;
  unlock();
  errno = error;
  return result;
}
int remove(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode) ? rmdir(path) : unlink(path);
}

int link(const char *from, const char *to) {
  struct entry entry;
  if (!watched_entry(to, &entry)) return REAL(link)(from, to);
  stop_if_halted();
  if (full(to)) return -1;
  if (!control->journalling) return REAL(link)(from, to);
  lock();
  int result = REAL(link)(from, to), error = errno;
  struct stat made;
  if (result == 0 && stat(to, &made) == 0) append_name(CREATE, &entry, made.st_ino, 0);
  unlock();
  errno = error;
  return result;
}

int rename(const char *from, const char *to) {
  struct entry source, target;
  if (!watched_entry(from, &source) || !watched_entry(to, &target)) return REAL(rename)(from, to);
  stop_if_halted();
  if (full(to)) return -1;
  if (!control->journalling) return REAL(rename)(from, to);
  lock();
  if (watched_entry(from, &source) && watched_entry(to, &target) && source.exists) {
    struct record record = {.kind = RENAME, .ino = source.folder_ino, .other = target.folder_ino, .moved = source.found.st_ino};
    record.seq = ++control->seq;
    if (target.exists && S_ISREG(target.found.st_mode)) {
      record.replaced = target.found.st_ino;
      keep(&target, record.seq);
    }
    append(&record, source.name, target.name, NULL);
  }
  int result = REAL(rename)(from, to), error = errno;
  unlock();
  errno = error;
  return result;
}

/* ---- Reading ---- */

static int unreadable(int fd) {
  struct stat found;
  char path[PATH_MAX];
  return control && (control->faults & READ_EIO) && watched_fd(fd, &found, path) && struck(READ_EIO, path) &&
         fail(&control->hits_read, EIO);
}
ssize_t read(int fd, void *bytes, size_t length) { return unreadable(fd) ? -1 : REAL(read)(fd, bytes, length); }
ssize_t pread64(int fd, void *bytes, size_t length, off64_t at) {
  return unreadable(fd) ? -1 : REAL(pread64)(fd, bytes, length, at);
}

/* ---- Programs that are started ---- */

static char **with_settings(char *const given[]) {
  if (!setting_preload || !setting_root || !setting_dir) return (char **)given;
  size_t count = 0, kept = 0;
  while (given && given[count]) count++;
  char **all = malloc((count + 4) * sizeof *all);
  for (size_t i = 0; i < count; i++)
    if (strncmp(given[i], "LD_PRELOAD=", 11) && strncmp(given[i], "POWERCUT_", 9)) all[kept++] = given[i];
  all[kept++] = setting_preload;
  all[kept++] = setting_root;
  all[kept++] = setting_dir;
  all[kept] = NULL;
  return all;
}
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, with_settings(environ)); }
int execve(const char *path, char *const argv[], char *const envp[]) {
  return REAL(execve)(path, argv, with_settings(envp));
}
