/** An author at a daemon on the git store, as its users are: a workspace with edits, the draft's events, and timed publications. */
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { Stream } from '../testing/gateway.ts';
import type { Daemon } from './daemon.ts';
import { timed } from './measurements.ts';

/** The file that is edited. */
export const EDITED = 'style.css';
/** How many apps are published in turn: the first ones. */
export const PUBLISHED = 3;

export type Author = Awaited<ReturnType<typeof openAuthor>>;

export async function openAuthor({ daemon, apps }: { daemon: Daemon; apps: string[] }) {
  /** Milliseconds of every publication of `publishNext`. */
  const times: number[] = [];
  /** The same with the edit before it. */
  const cycles: number[] = [];

  const published = apps.slice(0, PUBLISHED);
  const opened = await daemon.request('POST', '/svc/_sessions', '{}');
  const { sessionId: workspace } = (await opened.json()) as { sessionId: string };

  async function edit(app: string, text: string): Promise<void> {
    const url = `/svc/_sessions/${workspace}/apps/${app}/files/${EDITED}`;
    await (await daemon.request('PUT', url, text, 'application/octet-stream')).text();
  }

  /** Writes the file where the workspace has it, as an editor does. */
  async function write(codeStore: string, app: string, text: string): Promise<void> {
    await writeFile(join(codeStore, 'worktrees/sessions', workspace, 'apps', app, EDITED), text);
  }

  /** Resolves when the preview answers this text. */
  async function shows(app: string, text: string): Promise<void> {
    const path = `/svc/_draft/${workspace}/${app}/${EDITED}`;
    while ((await (await daemon.request('GET', path)).text()) !== text);
  }

  /** The draft's event stream. */
  function changes(app: string): Promise<Stream> {
    return daemon.stream(`/svc/_draft/${workspace}/${app}/_changes`);
  }

  async function publish(app: string): Promise<void> {
    const body = JSON.stringify({ app, message: 'Change it' });
    await (await daemon.request('POST', `/svc/_sessions/${workspace}/publish`, body)).text();
  }

  /** Edits the next app and publishes it: the time of the publication alone, in milliseconds. */
  async function publishNext(): Promise<number> {
    const app = published[times.length % published.length] as string;
    const editedAt = performance.now();
    // Unlike what is live, whoever published it.
    await edit(app, css(`${Date.now()} ${times.length}`));
    const ms = await timed(() => publish(app));
    times.push(ms);
    cycles.push(performance.now() - editedAt);
    return ms;
  }

  /** Publishes without a pause until it is told to stop, which resolves when the last one is done. */
  function goOn(): () => Promise<void> {
    let stopped = false;
    const running = (async () => {
      while (!stopped) await publishNext();
    })();
    // What went wrong is told when it is stopped.
    running.catch(() => {});
    return () => {
      stopped = true;
      return running;
    };
  }

  async function close(): Promise<void> {
    await (await daemon.request('DELETE', `/svc/_sessions/${workspace}`)).text();
  }

  return { times, cycles, edit, write, shows, changes, publish, publishNext, goOn, close };
}

export function css(mark: string): string {
  return `/* ${mark} */\nbody { margin: 0 }\n`;
}

/** Resolves when the next `reload` is there. */
export async function reloaded(events: Stream): Promise<void> {
  while ((await events.next()).event !== 'reload');
}
