/*
 * Ends a process at one of its calls that change files: an LD_PRELOAD shim over those that Node and SQLite make.
 *
 * A point is a call that succeeded and the path it changed: `rename apps/main/current.json`. The path is relative to the
 * watched folder; what differs from run to run in it (ids, times, hashes) is a `*`. Writes of one process to one path in a row
 * are one point, at the first of them. Not watched: `*-shm` (SQLite rebuilds it), sockets, and paths that are not absolute.
 *
 * Environment: CRASH_FOLDERS, the watched folders, without symbolic links, separated by colons; CRASH_PLAN, a file. Each of its
 * lines is a crash to come, `<passing> <process|tree> <point>`: the first line is taken away when its point has been passed
 * that many times, and the process ends; `tree` ends all that have this plan. Beside it, `<file>.passed` gets a line
 * `<pid> <point>` for each point. Programs that are started inherit all of it, whatever environment they are given.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) __extension__({ \
  static __typeof__(&name) real; \
  if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name); \
  real; })

static char *settings[3], *folders, *plan;

static char *assignment(const char *name) {
  char *text = NULL;
  if (asprintf(&text, "%s=%s", name, getenv(name)) < 0) abort();
  return text;
}

__attribute__((constructor)) static void start(void) {
  if (!getenv("CRASH_FOLDERS") || !getenv("CRASH_PLAN")) return;
  settings[0] = assignment("LD_PRELOAD");
  settings[1] = assignment("CRASH_FOLDERS");
  settings[2] = assignment("CRASH_PLAN");
  folders = strchr(settings[1], '=') + 1;
  plan = strchr(settings[2], '=') + 1;
}

/* ---- Points ---- */

/* The part of `path` below a watched folder; NULL elsewhere. */
static const char *watched(const char *path) {
  size_t length = strlen(path);
  if (!plan || (length > 4 && strcmp(path + length - 4, "-shm") == 0)) return NULL;
  for (const char *folder = folders; folder; folder = strchr(folder, ':') ? strchr(folder, ':') + 1 : NULL) {
    size_t end = strcspn(folder, ":");
    if (strncmp(path, folder, end) == 0 && path[end] == '/') return path + end + 1;
  }
  return NULL;
}

/* Whether a word is part of an id, a time or a hash: three digits, four hexadecimal ones, or two that are a folder of hashes. */
static int differs(const char *word, size_t length, int whole) {
  size_t digits = 0, hex = 0;
  for (size_t i = 0; i < length; i++) {
    digits += isdigit(word[i]) != 0;
    hex += isxdigit(word[i]) != 0;
  }
  return digits >= 3 || (hex == length && (length >= 4 || (whole && length == 2)));
}

/* Such words in a row, as in a UUID, are one `*`. */
static void name(char *point, const char *call, const char *path) {
  char *to = point + sprintf(point, "%s ", call);
  for (const char *at = path; *at;) {
    size_t length = 0;
    while (isalnum(at[length])) length++;
    if (length > 0 && differs(at, length, (at == path || at[-1] == '/') && strchr("/", at[length]))) {
      if (strchr("-_", to[-1]) && to[-2] == '*') to--;
      else *to++ = '*';
    } else to = mempcpy(to, at, length);
    at += length;
    if (*at) *to++ = *at++;
  }
  *to = 0;
}

static int has_plan(const char *pid) {
  char path[PATH_MAX], text[64 * 1024];
  snprintf(path, sizeof path, "/proc/%s/environ", pid);
  int fd = REAL(open64)(path, O_RDONLY | O_CLOEXEC);
  ssize_t length = fd < 0 ? -1 : REAL(read)(fd, text, sizeof text);
  if (fd >= 0) close(fd);
  return length > 0 && memmem(text, length, settings[2], strlen(settings[2]) + 1) != NULL;
}

/* The gateway, which came first, goes first, so that it sees no child end; this process, which does it, goes last. */
static void end_tree(void) {
  DIR *proc = opendir("/proc");
  for (struct dirent *entry; (entry = readdir(proc));) {
    int pid = atoi(entry->d_name);
    if (pid > 0 && pid != getpid() && has_plan(entry->d_name)) kill(pid, SIGKILL);
  }
}

static void take_next_crash(int fd, const char *point) {
  char text[PATH_MAX * 2], mode[8], wanted[PATH_MAX + 16];
  ssize_t length = REAL(pread64)(fd, text, sizeof text - 1, 0);
  text[length < 0 ? 0 : length] = 0;
  int left;
  if (sscanf(text, "%d %7s %[^\n]", &left, mode, wanted) != 3 || strcmp(wanted, point) != 0) return;
  char rest[PATH_MAX * 2 + 64];
  const char *later = strchr(text, '\n') + 1;
  int size = left > 1 ? sprintf(rest, "%d %s %s\n%s", left - 1, mode, wanted, later) : sprintf(rest, "%s", later);
  if (REAL(ftruncate64)(fd, 0) < 0 || REAL(pwrite64)(fd, rest, size, 0) != size) abort();
  if (left > 1) return;
  if (strcmp(mode, "tree") == 0) end_tree();
  kill(getpid(), SIGKILL);
}

static void pass(const char *call, const char *path) {
  static char last[PATH_MAX + 16];
  const char *below = watched(path);
  if (!below) return;
  int saved = errno;
  char point[PATH_MAX + 16], list[PATH_MAX], line[PATH_MAX + 32];
  name(point, call, below);
  int fd = REAL(open64)(plan, O_RDWR | O_CLOEXEC);
  /* One at a time among all threads and processes of the plan. */
  if (fd < 0 || flock(fd, LOCK_EX) < 0) abort();
  if (strcmp(call, "write") != 0 || strcmp(point, last) != 0) {
    strcpy(last, point);
    snprintf(list, sizeof list, "%s.passed", plan);
    int passed = REAL(open64)(list, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    int length = sprintf(line, "%d %s\n", getpid(), point);
    if (REAL(write)(passed, line, length) != length) abort();
    close(passed);
    take_next_crash(fd, point);
  }
  close(fd);
  errno = saved;
}

/* Of files: what a folder's fsync makes durable is there for every process already. */
static void pass_fd(const char *call, int fd) {
  struct stat found;
  char link[40], path[PATH_MAX];
  int saved = errno;
  if (plan && fstat(fd, &found) == 0 && S_ISREG(found.st_mode)) {
    sprintf(link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length > 0) {
      path[length] = 0;
      pass(call, path);
    }
  }
  errno = saved;
}

/* ---- Calls ---- */

#define ON_FD(type, name, call, parameters, ...) \
  type name parameters { \
    type result = REAL(name)(__VA_ARGS__); \
    if (result >= 0) pass_fd(call, fd); \
    return result; \
  }
ON_FD(ssize_t, write, "write", (int fd, const void *bytes, size_t length), fd, bytes, length)
ON_FD(ssize_t, writev, "write", (int fd, const struct iovec *parts, int count), fd, parts, count)
ON_FD(ssize_t, pwrite64, "write", (int fd, const void *bytes, size_t length, off64_t at), fd, bytes, length, at)
ON_FD(ssize_t, pwritev64, "write", (int fd, const struct iovec *parts, int count, off64_t at), fd, parts, count, at)
ON_FD(ssize_t, sendfile64, "write", (int fd, int from, off64_t *at, size_t length), fd, from, at, length)
ON_FD(int, ftruncate64, "truncate", (int fd, off64_t size), fd, size)
ON_FD(int, fsync, "sync", (int fd), fd)
ON_FD(int, fdatasync, "sync", (int fd), fd)

#define ON_PATH(name, call, parameters, ...) \
  int name parameters { \
    int result = REAL(name)(__VA_ARGS__); \
    if (result == 0) pass(call, path); \
    return result; \
  }
ON_PATH(mkdir, "mkdir", (const char *path, mode_t mode), path, mode)
ON_PATH(rmdir, "rmdir", (const char *path), path)
ON_PATH(unlink, "unlink", (const char *path), path)
/* As Node removes a file from 26 on. */
int remove(const char *path) {
  struct stat found;
  return lstat(path, &found) == 0 && S_ISDIR(found.st_mode) ? rmdir(path) : unlink(path);
}
ON_PATH(link, "link", (const char *from, const char *path), from, path)
ON_PATH(symlink, "symlink", (const char *to, const char *path), to, path)
ON_PATH(rename, "rename", (const char *from, const char *path), from, path)

static int do_open(const char *path, int flags, mode_t mode) {
  struct stat found;
  if (!(flags & (O_CREAT | O_TRUNC)) || !watched(path)) return REAL(open64)(path, flags, mode);
  int existed = stat(path, &found) == 0;
  int fd = REAL(open64)(path, flags, mode);
  if (fd >= 0 && !existed) pass("create", path);
  else if (fd >= 0 && (flags & O_TRUNC) && found.st_size > 0) pass("truncate", path);
  return fd;
}

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; \
    va_start(rest, flags); \
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
    va_end(rest); \
    return do_open(path, flags, mode); \
  }
OPEN(open)
OPEN(open64)

/* ---- Programs that are started ---- */

static char **with_settings(char *const given[]) {
  if (!plan) return (char **)given;
  size_t count = 0, kept = 0;
  while (given && given[count]) count++;
  char **all = malloc((count + 4) * sizeof *all);
  for (size_t i = 0; i < count; i++)
    if (strncmp(given[i], "LD_PRELOAD=", 11) && strncmp(given[i], "CRASH_", 6)) all[kept++] = given[i];
  for (int i = 0; i < 3; i++) all[kept++] = settings[i];
  all[kept] = NULL;
  return all;
}
int execvp(const char *file, char *const argv[]) { return execvpe(file, argv, with_settings(environ)); }
int execve(const char *path, char *const argv[], char *const envp[]) {
  return REAL(execve)(path, argv, with_settings(envp));
}
