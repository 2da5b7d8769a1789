/** For tests: the jobs process without a gateway, on one folder; by default with threads built from the source. */
import { randomBytes } from 'node:crypto';
import { rmSync } from 'node:fs';
import { LIMITS } from '../protocol/limits.ts';
import { jobsFlags } from '../protocol/wire/host-flags.ts';
import { signTicket } from '../protocol/wire/ticket.ts';
import { makeSocketFolder } from '../storage/processes/socket-folder.ts';
import { Jobs } from '../supervisor/jobs/jobs.ts';
import { Child } from '../supervisor/tree/child.ts';
import { entryPoint, ownReadable, withRealPaths } from '../supervisor/tree/entry-points.ts';
import { LinkServer } from '../supervisor/tree/links.ts';
import { buildJobModule } from './job-module.ts';

export type OpenJobs = { jobs: Jobs; child: Child; log: string[]; close(): Promise<void> };

export type OpenJobsOptions = {
  thread?: string;
  threadMemoryMb?: number;
  memoryMb?: number;
  jobMs?: number;
  waitMs?: number;
  now?: () => number;
};

/** `root` is the folder that the process may read and write. */
export async function openJobs(root: string, options: OpenJobsOptions = {}): Promise<OpenJobs> {
  const thread = options.thread ?? (await buildJobModule(root));
  const { threadMemoryMb = LIMITS.jobMemoryMb, memoryMb = LIMITS.jobsMemoryMb, jobMs = LIMITS.jobMs } = options;
  const key = randomBytes(32);
  const log: string[] = [];
  const folder = makeSocketFolder(`${root}/sockets-${randomBytes(4).toString('hex')}.json`);
  const supervisorSocket = `${folder}/s`;
  let child: Child | null = null;
  const links = new LinkServer(
    key,
    (ticket, link) => (ticket.role === 'jobs' ? (child?.attach(link) ?? null) : null),
    (why) => log.push(why),
  );
  await links.listen(supervisorSocket);
  const jobs = new Jobs({
    jobMs,
    ...(options.waitMs === undefined ? {} : { waitMs: options.waitMs }),
    ...(options.now === undefined ? {} : { now: options.now }),
    onFault: (what) => log.push(what),
    writable: withRealPaths([root]),
    createChild: (events) => {
      child = new Child(
        {
          name: 'jobs',
          role: 'jobs',
          entry: entryPoint('jobs'),
          flags: jobsFlags({
            readable: ownReadable(),
            writable: withRealPaths([root]),
          }),
          memoryMb,
          bootstrap: () => ({
            supervisorSocket,
            ticket: signTicket({ role: 'jobs' }, key),
            thread,
            threadMemoryMb,
            memoryMb,
          }),
        },
        { ...events, onProcess: () => {}, log: (_level, message) => log.push(message) },
      );
      return child;
    },
  });
  return {
    jobs,
    child: child as unknown as Child,
    log,
    close: async () => {
      await jobs.close();
      links.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
