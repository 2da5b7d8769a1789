/** `svc status`: the gateway and its tree of processes and actors. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { SystemStatus } from '../../supervisor/status.ts';
import type { CommandContext } from '../command.ts';
import { drawStatus } from '../status-view.ts';

const REFRESH_MS = 1000;
const HOME = '\u001b[H';
const CLEAR_BELOW = '\u001b[J';
const CLEAR_REST_OF_LINE = '\u001b[K';

export async function run({ args, terminal, connect }: CommandContext): Promise<void> {
  const client = connect();
  const read = () => client.get<SystemStatus>('/svc/_system');
  const first = await read();
  terminal.answer(first, () => {
    if (!args.has('watch')) terminal.lines(drawStatus(first, terminal.columns, terminal.style));
  });
  if (!args.has('watch') || terminal.json) return;
  for (let status = first; ; status = await read()) {
    const rows = terminal.stdout.rows ?? Number.POSITIVE_INFINITY;
    const lines = drawStatus(status, terminal.columns, terminal.style).slice(0, rows - 1);
    // Overwritten line by line in one write, so that the screen does not flicker.
    if (terminal.interactive)
      terminal.stdout.write(HOME + lines.map((line) => `${line}${CLEAR_REST_OF_LINE}\n`).join('') + CLEAR_BELOW);
    else terminal.lines([...lines, '']);
    await sleep(REFRESH_MS);
  }
}
