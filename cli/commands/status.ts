/** `svc status`: the gateway and its tree of processes and actors. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SystemStatus } from '../../supervisor/operations/status.ts';
import type { CommandContext } from '../command.ts';
import { drawStatus } from '../status-view.ts';

const REFRESH_MS = 1000;

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const read = () => client.get<SystemStatus>('/svc/_system');
  const first = await read();
  terminal.answer(first, () => {
    if (!args.has('watch')) terminal.lines(drawStatus(first, terminal.columns, terminal.style));
  });
  if (!args.has('watch') || terminal.json) return;
  for (let status = first; ; status = await read()) {
    terminal.screen(drawStatus(status, terminal.columns, terminal.style));
    await sleep(REFRESH_MS);
  }
}
