// Real programs: what is read of them, what they are given, and that nothing of them is left, wherever they put it.
import assert from 'node:assert/strict';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { LIMITS } from '../../protocol/limits.ts';
import { eventually } from '../../testing/edges.ts';
import { isRunning } from '../../testing/processes.ts';
import { inTime, pause } from '../../testing/waiting.ts';
import { type Program, startProgram } from './program.ts';

const MiB = 1024 * 1024;
const onLinux = { skip: process.platform !== 'linux' };
const folder = mkdtempSync(join(tmpdir(), 'svc-program-'));
const PATH = process.env.PATH ?? '';

before(() => assert.ok(existsSync(folder)));
after(() => rmSync(folder, { recursive: true, force: true }));

let started = 0;
const told: [pid: number, alive: boolean][] = [];

async function start(t: TestContext, command: string, ...args: string[]): Promise<Program> {
  const tag = `test-${process.pid}.${++started}`;
  const program = await startProgram({ command, args, cwd: folder, env: { PATH } }, tag, (pid, alive) =>
    told.push([pid, alive]),
  );
  t.after(() => program.kill());
  return program;
}

const shell = (t: TestContext, script: string) => start(t, '/bin/sh', '-c', script);
const node = (t: TestContext, script: string) => start(t, process.execPath, '-e', script);

async function linesOf(program: Program): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of program.lines()) lines.push(line);
  return lines;
}

async function nextLines(program: Program, count: number): Promise<string[]> {
  const lines: string[] = [];
  for await (const line of program.lines()) if (lines.push(line) === count) break;
  return lines;
}

const failsWith = (message: RegExp, code = 'AGENT_FAILED') => ({ code, message });

describe('what a program writes', () => {
  test('its lines come whole, the last one without its end too', async (t) => {
    const program = await shell(t, `printf 'a\\n\\n'; sleep 0.05; printf 'b\\303'; sleep 0.05; printf '\\244\\nrest'`);
    assert.deepEqual(await inTime(linesOf(program), 'its lines'), ['a', '', 'bä', 'rest']);
    assert.equal(program.ended, 'exited with code 0');
  });

  test('a reader that stops goes on where it was', async (t) => {
    const program = await shell(t, 'seq 1 5; cat');
    assert.deepEqual(await inTime(nextLines(program, 2), 'two lines'), ['1', '2']);
    assert.deepEqual(await inTime(nextLines(program, 3), 'three lines'), ['3', '4', '5']);
    await program.write('{"from":"us"}');
    assert.deepEqual(await inTime(nextLines(program, 1), 'the echo'), ['{"from":"us"}']);
    await program.end();
  });

  test('a line at the limit is read, one over it is refused', async (t) => {
    const line = (bytes: number) => `process.stdout.write('x'.repeat(${bytes}) + '\\n')`;
    const fits = await node(t, line(LIMITS.agentLineBytes));
    assert.equal((await inTime(linesOf(fits), 'a long line'))[0]?.length, LIMITS.agentLineBytes);
    const over = await node(t, `${line(LIMITS.agentLineBytes + 1)}; setInterval(() => {}, 1000)`);
    await assert.rejects(inTime(linesOf(over), 'a line that is too long'), failsWith(/a line of more than 8388608/));
    await over.end(100);
  });

  test('nothing is read ahead of the reader', onLinux, async (t) => {
    const program = await start(t, 'yes', 'x'.repeat(1000));
    assert.equal((await nextLines(program, 1))[0]?.length, 1000);
    const written = () => Number(/wchar: (\d+)/.exec(readFileSync(`/proc/${program.pid}/io`, 'utf8'))?.[1]);
    let before = -1;
    await eventually(async () => {
      const stands = written() === before;
      before = written();
      await pause(50);
      return stands;
    });
    assert.ok(before < 2 * MiB, `${before} bytes were written`);
    await nextLines(program, 10_000);
    assert.ok(written() > before, 'it goes on when it is read');
    await program.end(100);
  });

  test('only the end of its standard error is kept', async (t) => {
    const program = await node(
      t,
      `const { writeSync } = require('node:fs');
       for (let i = 0; i < 300; i++) writeSync(2, 'e'.repeat(100_000));
       writeSync(2, '\\nnot signed in\\n');
       console.log('done');
       process.exitCode = 3;`,
    );
    assert.deepEqual(await inTime(linesOf(program), 'its end'), ['done']);
    await inTime(program.gone, 'its end');
    assert.ok(program.errorOutput.length <= LIMITS.agentStderrBytes, `${program.errorOutput.length} are kept`);
    assert.match(program.failure().message, /exited with code 3: e+\nnot signed in$/);
  });

  test('its output ends with it, even if an untraceable process holds it open', onLinux, async (t) => {
    const program = await shell(t, `env -i setsid sleep 1000 & echo $!; sleep 0.1; echo last`);
    const [pid, last] = await inTime(linesOf(program), 'the end of its output');
    t.after(() => process.kill(Number(pid), 'SIGKILL'));
    assert.equal(last, 'last');
  });
});

describe('what a program is given', () => {
  test('its environment is the one that was asked for, and its tag', async (t) => {
    const program = await start(t, '/usr/bin/env');
    // Node itself adds this one to whatever is started, when coverage is counted.
    const given = (await linesOf(program)).filter((line) => !line.startsWith('NODE_V8_COVERAGE='));
    assert.deepEqual(given.sort(), [`PATH=${PATH}`, `SVC_AGENT=test-${process.pid}.${started}`]);
  });

  test('a write waits until there is room, and fails once it has ended', async (t) => {
    const program = await shell(t, 'exec sleep 1000');
    let written = false;
    const writing = program.write('x'.repeat(4 * MiB)).then(
      () => {
        written = true;
      },
      () => {},
    );
    await pause(50);
    assert.equal(written, false);
    await program.end(50);
    await inTime(writing, 'the end of the write');
    await assert.rejects(program.write('more'), failsWith(/^The agent's program \/bin\/sh was ended by SIGTERM\.$/));
  });

  test('a missing program and a folder are reported as such', async (t) => {
    await assert.rejects(
      start(t, 'no-such-program'),
      failsWith(/^The program no-such-program is not inst/, 'NO_RUNNER'),
    );
    const gone = { command: 'true', args: [], cwd: join(folder, 'gone'), env: { PATH } };
    await assert.rejects(
      startProgram(gone, 'tag', () => {}),
      failsWith(/^The folder of the agent is gone/),
    );
  });
});

/** Starts processes in every way that leaves a group, and prints their pids; `at the end` is what the program then does. */
const ESCAPES = `
  setsid sh -c 'echo $$; exec sleep 1000 >/dev/null 2>&1' &
  env -i setsid sh -c 'echo $$; exec sleep 1001 >/dev/null 2>&1' &
  (setsid sh -c 'sh -c "echo \\$\\$; trap : TERM; exec sleep 1002 >/dev/null 2>&1" &' &)
  sh -c 'echo $$; trap "" TERM; exec sleep 1003 >/dev/null 2>&1' &
  bash -c 'set -m; env -i sleep 1004 >/dev/null 2>&1 & echo $!'
`;

describe('the end of a program', onLinux, () => {
  for (const [name, atTheEnd, ended] of [
    ['that ends with its input', 'cat >/dev/null; exit 0', 'exited with code 0'],
    ['that goes on until it is told to end', 'trap "exit 7" TERM; while :; do sleep 0.02; done', 'exited with code 7'],
    ['that ignores being told', 'trap "" TERM; while :; do sleep 0.02; done', 'was ended by SIGKILL'],
  ] as const) {
    test(`one ${name} leaves nothing behind`, async (t) => {
      const program = await shell(t, `trap "" TERM\n${ESCAPES}\n${atTheEnd}`);
      const pids = (await inTime(nextLines(program, 5), 'its processes')).map(Number);
      for (const pid of pids) assert.ok(isRunning(pid), `${pid} runs`);
      await inTime(program.end(500), 'the end');
      assert.equal(program.ended, ended);
      assert.deepEqual(pids.filter(isRunning), []);
      assert.deepEqual(
        told.filter(([pid]) => pid === program.pid),
        [
          [program.pid, true],
          [program.pid, false],
        ],
      );
    });
  }

  test('a program that dies leaves no process with its tag or of its session', async (t) => {
    const program = await shell(t, `${ESCAPES.replace('env -i setsid', 'setsid')}cat`);
    const pids = (await inTime(nextLines(program, 5), 'its processes')).map(Number);
    process.kill(program.pid, 'SIGKILL');
    await inTime(program.gone, 'the end');
    assert.deepEqual(pids.filter(isRunning), []);
    assert.equal(program.ended, 'was ended by SIGKILL');
  });

  test('one that is killed at once takes all with it that can be found', async (t) => {
    const program = await shell(t, `${ESCAPES}\ncat`);
    const pids = (await inTime(nextLines(program, 5), 'its processes')).map(Number);
    program.kill();
    await eventually(() => !pids.some(isRunning));
  });

  test('the end of one does not touch another', async (t) => {
    const [one, other] = [await shell(t, 'cat'), await shell(t, 'cat')];
    await one.end();
    await other.write('still here');
    assert.deepEqual(await inTime(nextLines(other, 1), 'the other'), ['still here']);
    await other.end();
  });
});
