/** Reads lists that come in pages to their end. */
import type { AppRecord } from '../../protocol/answers.ts';
import { LIMITS } from '../../protocol/limits.ts';
import type { AutomationList } from './api.ts';
import type { Client } from './client.ts';
import { withQuery } from './paths.ts';

/** Every registered app, sorted by id. */
export async function allApps(client: Client): Promise<AppRecord[]> {
  const rows: AppRecord[] = [];
  for (;;) {
    const page = await client.get<AppRecord[]>(withQuery('/svc/_apps', { after: rows.at(-1)?.id }));
    rows.push(...page);
    if (page.length < LIMITS.listRowsMax) return rows;
  }
}

/** Every automation, of one app when it is given, sorted by ref. */
export async function allAutomations(client: Client, app?: string): Promise<AutomationList> {
  const rows: AutomationList['rows'] = [];
  for (;;) {
    const page = await client.get<AutomationList>(withQuery('/svc/_automations', { app, after: rows.at(-1)?.ref }));
    rows.push(...page.rows);
    if (page.rows.length < LIMITS.listRowsMax) return { ...page, rows };
  }
}
