/** Connections until no file descriptor is left, under a limit that is low enough to get there. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { eventually, pause } from '../../../testing/waiting.ts';
import { ROOT } from '../../servers.ts';
import type { CampaignReport } from '../campaign.ts';
import { type BadClient, dismiss, openCrowd } from './crowd.ts';

/** So many that the reserve is more than the system lets wait to be taken, and so is taken at once. */
const DESCRIPTORS = 2100;
const CONNECTIONS = 4000;
/** Files that are opened anew for each call, so that a supervisor without descriptors must fail. */
const CALLS = 20;
const BETWEEN_CALLS_MS = 500;

export async function exhaustDescriptors(edge: 'uws' | 'node', folder: string, report: CampaignReport): Promise<void> {
  const serve = ['serve', '--json', '--data-dir', folder, '--port', '0', '--edge', edge, '--store', 'tarball'];
  const script = `ulimit -n ${DESCRIPTORS} && exec "$0" "$@"`;
  const command = [
    '-c',
    script,
    process.execPath,
    join(ROOT, 'bin/svc.js'),
    ...serve,
    '--with',
    join(ROOT, 'templates/todos'),
  ];
  const child = spawn('/bin/sh', command, { stdio: ['ignore', 'pipe', 'ignore'] });
  try {
    const [line] = (await once(createInterface(child.stdout), 'line')) as [string];
    child.stdout.resume();
    const { url, token } = JSON.parse(line) as { url: string; token: string };
    const port = Number(new URL(url).port);
    // An open connection, so that the calls get through.
    const [caller] = await openCrowd(port, 1);
    if (caller === undefined) throw new Error('the first connection was refused');
    const auth = `Authorization: Bearer ${token}\r\n`;
    const opening = openCrowd(port, CONNECTIONS);
    const isOpened = opening.then(() => true);
    // An idle connection is ended, and opening the others takes a busy machine longer than that.
    do await statusOf(caller, '/svc/_health', auth);
    while (!(await Promise.race([isOpened, pause(BETWEEN_CALLS_MS, false)])));
    const crowd = await opening;
    const failed: string[] = [];
    for (let i = 0; i < CALLS; i++) {
      const status = await statusOf(caller, '/svc/_logs?app=todos', auth);
      if (status !== '200') failed.push(status);
    }
    if (failed.length > 0)
      report.violations.push(`without descriptors ${failed.length} of ${CALLS} calls failed (${failed[0]})`);
    const isOpen = crowd.filter(({ closed }) => !closed).length;
    report.figures.push({
      name: `${CONNECTIONS} connections where ${DESCRIPTORS} descriptors are`,
      value: `${isOpen} open, ${CALLS - failed.length} of ${CALLS} calls served beside them`,
    });
    dismiss(crowd);
    const isServed = () =>
      fetch(`${url}/svc/_health`).then(
        ({ ok }) => ok,
        () => false,
      );
    if (!(await eventually(20_000, isServed)))
      report.violations.push(`${edge}: no new connection is served after the others have gone`);
    dismiss([caller]);
  } catch (error) {
    report.violations.push(`${edge}: with few descriptors: ${(error as Error).message}`);
  } finally {
    const gone = once(child, 'exit');
    child.kill('SIGTERM');
    await gone;
  }
}

/** The status of the answer to a GET; `closed` when the connection ended instead. */
async function statusOf(caller: BadClient, path: string, auth: string): Promise<string> {
  if (caller.closed) return 'closed';
  const answer = once(caller.socket, 'data') as Promise<[Buffer]>;
  caller.write(`GET ${path} HTTP/1.1\r\nHost: localhost\r\n${auth}\r\n`);
  return Promise.race([
    answer.then(
      ([chunk]) => chunk.toString('latin1', 9, 12),
      () => 'closed',
    ),
    caller.ended.then(() => 'closed'),
  ]);
}
