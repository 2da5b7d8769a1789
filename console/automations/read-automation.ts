/** Reads the automations of one app, or of all. */
import type { AutomationRow } from '../../protocol/answer-types.ts';
import { get } from '../gateway.ts';

/** An automation whose file is damaged. */
type Fault = { ref: string; code: string; message: string; path?: string };
export type Automations = { rows: AutomationRow[]; errors: Fault[]; total: number };

/** Every page of them; `query` is empty or `?app=<id>`. */
export async function readAutomations(query: string, signal: AbortSignal): Promise<Automations> {
  const all = await get<Automations>(`/svc/_automations${query}`, signal);
  while (all.rows.length < all.total) {
    const after = encodeURIComponent(all.rows.at(-1)?.ref ?? '');
    const page = await get<Automations>(`/svc/_automations${query}${query ? '&' : '?'}after=${after}`, signal);
    if (page.rows.length === 0) break;
    all.rows.push(...page.rows);
  }
  return all;
}
