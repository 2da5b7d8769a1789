/** Reads the automations of one app, or of all. */
import type { Received } from '../../protocol/routes/api.ts';
import { gateway } from '../gateway.ts';

export type Automations = Received<'GET /svc/_automations'>;

/** Every page of them: of one app, or of all. */
export async function readAutomations(app: string | undefined, signal: AbortSignal): Promise<Automations> {
  const read = (after?: string) => gateway.call('GET /svc/_automations', { query: { app, after } }, { signal });
  const all = await read();
  while (all.rows.length < all.total) {
    const page = await read(all.rows.at(-1)?.ref);
    if (page.rows.length === 0) break;
    all.rows.push(...page.rows);
  }
  return all;
}
