/** For tests: systemd's side of a service, with its programs and a datagram socket of the test. */
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { inTime, LONG_MS } from './waiting.ts';

/** Prints each datagram as a line of JSON text, its lines separated by `\n`. */
const RECEIVER = `
  use Socket;
  $| = 1;
  socket(my $socket, AF_UNIX, SOCK_DGRAM, 0) or die $!;
  bind($socket, sockaddr_un($ARGV[0])) or die $!;
  print "listening\\n";
  while (defined recv($socket, my $bytes, 4096, 0)) { $bytes =~ s/\\n/\\\\n/g; print "$bytes\\n"; }
`;

/** Why tests that need programs of systemd are skipped here, or false. */
export function withoutSystemd(): string | false {
  const isThere = ['systemd-notify', 'systemd-socket-activate'].every(
    (program) => spawnSync(program, ['--version']).error === undefined,
  );
  return isThere || process.env.CI === 'true' ? false : 'systemd-notify and systemd-socket-activate are not installed.';
}

export type Datagrams = {
  /** For NOTIFY_SOCKET. */
  readonly path: string;
  /** The next message that matches; others before it are skipped. */
  next(pattern: RegExp): Promise<string>;
  /** The messages before the next one that matches. */
  until(pattern: RegExp): Promise<string[]>;
};

/**
 * Receives services' notifications to systemd, at a socket in `folder`. The receiver is Perl: Node has no such sockets.
 */
export async function datagramsAt(t: { after(end: () => unknown): void }, folder: string): Promise<Datagrams> {
  const path = join(folder, 'notify.sock');
  const receiver = spawn('perl', ['-e', RECEIVER, path], { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => receiver.kill('SIGKILL') && once(receiver, 'exit'));
  const lines = createInterface({ input: receiver.stdout })[Symbol.asyncIterator]();
  const line = async (): Promise<string> => {
    const { value, done } = await inTime(lines.next(), 'a message to systemd', LONG_MS);
    if (done) throw new Error('The receiver of messages ended.');
    return value.replaceAll('\\n', '\n').trim();
  };
  await line();
  const until = async (pattern: RegExp, before: string[] = []): Promise<{ before: string[]; found: string }> => {
    const message = await line();
    return pattern.test(message) ? { before, found: message } : until(pattern, [...before, message]);
  };
  return {
    path,
    next: async (pattern) => (await until(pattern)).found,
    until: async (pattern) => (await until(pattern)).before,
  };
}

/**
 * Listens as systemd does for a socket unit, at a free port of 127.0.0.1, and runs the command with that socket whenever a line
 * is written to its input: `LISTEN_PID` is its process. Prints the port first, and a line with its exit code at its end.
 */
const ACTIVATOR = `
  use Socket; use POSIX ();
  $| = 1; $^F = 10;
  socket(my $socket, AF_INET, SOCK_STREAM, 0) or die $!;
  bind($socket, sockaddr_in(0, inet_aton("127.0.0.1"))) or die $!;
  listen($socket, 64) or die $!;
  my ($port) = sockaddr_in(getsockname($socket));
  print "$port\n";
  while (<STDIN>) {
    my $pid = fork();
    if ($pid == 0) {
      POSIX::dup2(fileno($socket), 3);
      $ENV{LISTEN_PID} = $$; $ENV{LISTEN_FDS} = 1;
      exec(map { s/PORT/$port/r } @ARGV);
    }
    print "$pid\n";
    waitpid($pid, 0);
    print "ended " . ($? >> 8) . "\n";
  }
`;

export type Activator = {
  readonly port: number;
  /** Starts the command; resolves with its process. */
  run(): Promise<number>;
  /** The exit code of the running process, after it has ended. */
  ended(): Promise<number>;
};

/** A socket that stays open after the processes that serve it end; `PORT` in the command is its port. */
export async function activator(
  t: { after(end: () => unknown): void },
  command: string[],
  env: Record<string, string>,
): Promise<Activator> {
  const child = spawn('perl', ['-e', ACTIVATOR, ...command], {
    env: { ...process.env, ...env },
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  t.after(() => child.kill('SIGKILL') && once(child, 'exit'));
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  /** The next line of the listener itself; the command prints to the same output. */
  const line = async (pattern: RegExp): Promise<number> => {
    const { value = '', done } = await inTime(lines.next(), 'the activator', LONG_MS);
    if (done) throw new Error('The activator ended.');
    const [, number] = pattern.exec(value) ?? [];
    return number === undefined ? line(pattern) : Number(number);
  };
  const port = await line(/^(\d+)$/);
  return {
    port,
    run: () => {
      child.stdin.write('run\n');
      return line(/^(\d+)$/);
    },
    ended: () => line(/^ended (\d+)$/),
  };
}
